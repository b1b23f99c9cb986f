-- A reply out of a journal may need rows besides its own: a hard bounce writes a suppression, which needs its workspace. Where somebody holds one of them (an operator's psql,
-- left open within a transaction) the telling waited until its time was over, with all that was told beside it, and was begun anew: that node did not begin to deliver.
-- What can be written is written now, the others are held, and told again. Each message by itself, with all replies to it: which of them counts is decided among those.
create or replace function write_replies_1(replies json) returns boolean language plpgsql as $$
begin
  -- What `assume_sent_1` moved before this journal was told names no claim: the reply names it now, as in `lift_fence_1`.
  update messages m set armed_epoch = e.epoch, armed_token = e.token from decisive_replies_1(replies) e
   where m.workspace_id = e.w and m.id = e.id and m.status = 'delivery_unknown' and m.armed_epoch is null and m.armed_token is null;
  perform 1 from finish_1(replies, array(select (value ->> 'id')::uuid from json_array_elements(replies)));
  return true;
exception when lock_not_available then
  return false;
end $$;

-- Of each reply: whether the database must have been restored since, and whether it knows the message.
create or replace function judged_replies_1(batch json)
 returns table (ending json, id uuid, w uuid, epoch integer, token bigint, orphan boolean, known boolean) language sql stable as $$
  select value, e.id, e.w, e.epoch, e.token,
         o.message_id is not null and (e.status = 'sent' or o.epoch < e.epoch)
           and not (o.status = 'sending' and o.epoch = e.epoch and o.token = e.token and o.armed_epoch is not distinct from e.epoch),
         exists (select from messages m where m.workspace_id = e.w and m.id = e.id)
    from json_array_elements(batch) cross join lateral endings_of(json_build_array(value)) e
    left join lateral (select x.* from outbound x where x.message_id = e.id and x.workspace_id = e.w limit 1) o on true
$$;

-- As `replay_2` but for that; an older release beside us calls that one. What shows that the database was restored is seen first, and kept whatever is held. And where an operator's
-- decision is being carried out (`lift_fence_1`) it is waited for: seen as before it, a reply that it has just settled stopped delivery once more.
create or replace function replay_3(batch json) returns table (id uuid, epoch integer, answer text) language plpgsql as $$
#variable_conflict use_column
declare
  patience text := current_setting('lock_timeout');
  seen json;
  explained json;
  held uuid[];
  mine record;
begin
  if exists (select from judged_replies_1(batch) j where j.orphan) then
    perform pg_advisory_xact_lock_shared(hashtext('posthorn check-in'));
  end if;
  held := array(select held_1(array_agg(e.w), array_agg(e.id)) from endings_of(batch) e);
  with told as materialized (select j.* from judged_replies_1(batch) j),
  kept as (
    insert into orphaned_replies (workspace_id, message_id, epoch, token, ending)
    select t.w, t.id, t.epoch, t.token, t.ending from told t where t.orphan on conflict do nothing
  ),
  stopped as materialized (
    select stop_delivery_1('fence', 'orphaned_reply', json_build_object('messageId', min(t.id::text))) from told t where t.orphan having count(*) > 0
  )
  select json_agg(json_build_object('id', t.id, 'epoch', t.epoch, 'orphan', t.orphan, 'known', t.known)) into seen from told t left join stopped on true;
  explained := (select coalesce(json_agg(value), '[]') from json_array_elements(batch)
    where (value ->> 'id')::uuid <> all (held)
      and not exists (select from orphaned_replies r where r.message_id = (value ->> 'id')::uuid and r.epoch = (value ->> 'epoch')::integer
                        and r.token = (value ->> 'token')::bigint));
  perform set_config('lock_timeout', '500', true);
  if not write_replies_1(explained) then
    -- They may be many, and all are to be told within one statement's time.
    perform set_config('lock_timeout', '5', true);
    for mine in select (value ->> 'id')::uuid id, json_agg(value) replies from json_array_elements(explained) group by 1 order by 1 loop
      if not write_replies_1(mine.replies) then
        held := held || mine.id;
      end if;
    end loop;
  end if;
  perform set_config('lock_timeout', patience, true);
  return query
  select t.id, t.epoch, case when t.orphan then 'orphan' when t.id = any (held) then 'held' when t.known then 'known' else 'gone' end
    from json_to_recordset(seen) as t (id uuid, epoch integer, orphan boolean, known boolean);
end $$;
