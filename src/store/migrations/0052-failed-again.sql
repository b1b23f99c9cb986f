-- A person may send a failed message again, too (docs/decisions/0068): at once, since its non-acceptance is proven and no worker can still write its
-- dot. Not where a report says that it came all the same (the ranks of `delivered` and of a complaint). What was let in before is let in still: an
-- older release beside us asks for unknown messages alone. As late proof does, it locks the record, so one of the two comes first.
create or replace function admit_sent_again() returns trigger language plpgsql as $$
begin
  perform 1 from messages m
    where m.workspace_id = new.workspace_id and m.id = substr(new.key, 1, 36)::uuid
      and (m.status = 'failed' and m.delivery_rank not in (2, 5)
           or m.status = 'delivery_unknown' and m.finished_at <= app_now() - substr(new.key, 38)::integer * interval '1 second')
      for share;
  if not found then
    raise exception 'message % may not be sent again', new.key using errcode = 'PH001';
  end if;
  insert into sent_again (workspace_id, message_id, again_id, at)
  values (new.workspace_id, substr(new.key, 1, 36)::uuid, new.message_id, app_now());
  return new;
end $$;
