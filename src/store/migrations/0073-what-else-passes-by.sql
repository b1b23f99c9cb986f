-- A report waits for no record that somebody else holds (an operator's psql, left open within a transaction): all reports of a node waited behind one, each batch of them
-- until it was ended, and then in halves. It passes by that one, and says so: whoever brought it comes again. So reports meet endings in no circle of locks either.
-- As before, but for that; an older release beside us calls `record_report_1`.
create or replace function record_report_2(batch json, events_max integer) returns table (n integer, answer text) language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  mine record;
  held uuid[] := '{}';
begin
  for mine in select distinct a.w, a.id from reports_of(batch) a order by a.id loop
    perform 1 from messages m where m.workspace_id = mine.w and m.id = mine.id for update skip locked;
    if not found and exists (select from messages m where m.workspace_id = mine.w and m.id = mine.id) then
      held := held || mine.id;
    end if;
  end loop;

  return query
  with asked as materialized (select a.* from reports_of(batch) a where a.id <> all (held)),
  known as materialized (
    select a.*, m.status, m.sequence was_sequence, m.delivery_rank was_rank, m.recipient, m.recipient_key,
           a.rank = 1 and m.status = 'failed' ends, m.sequence >= events_max full_up
      from asked a
      cross join lateral (select x.* from messages x where x.workspace_id = a.w and x.id = a.id limit 1) m
     where m.status in ('sent', 'delivery_unknown')
        or exists (select from outbound o where o.message_id = a.id and o.workspace_id = a.w and o.armed_epoch is not null)
        or exists (select from attempts t where t.workspace_id = a.w and t.message_id = a.id and t.facts ->> 'phase' = 'eod')
  ),
  fresh as materialized (
    insert into report_fingerprints (workspace_id, message_id, fingerprint, seen_at)
    select k.w, k.id, decode(k.fingerprint, 'hex'), now_at from known k
     where not k.full_up order by k.id, k.fingerprint
    on conflict do nothing
    returning message_id, fingerprint
  ),
  first as (
    select distinct on (k.id, k.fingerprint) k.*, case when k.ends then 3::smallint else k.rank end final_rank
      from known k where (k.id, decode(k.fingerprint, 'hex')) in (select f.message_id, f.fingerprint from fresh f)
     order by k.id, k.fingerprint, k.n
  ),
  told as materialized (
    select f.*, (row_number() over turns)::integer turn, greatest(f.was_rank, max(f.final_rank) over turns) shown_rank
      from first f window turns as (partition by f.id order by f.n)
  ),
  record as (
    update messages m set sequence = m.sequence + c.many, delivery_rank = greatest(m.delivery_rank, c.rank)
      from (select t.w, t.id, count(*)::integer many, max(t.final_rank) rank from told t group by t.w, t.id) c
     where m.workspace_id = c.w and m.id = c.id
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select t.w, t.id, t.was_sequence + t.turn, t.event, t.status, t.shown_rank, now_at,
           case when t.ends then jsonb_set(t.facts::jsonb, '{bounce,final}', 'true', false)::json else t.facts end
      from told t order by t.id, t.turn
  ),
  report as (
    insert into reports (workspace_id, message_id, sequence, type, detail, bounce, source, created_at)
    select t.w, t.id, t.was_sequence + t.turn, t.type, t.detail,
           case when t.ends then jsonb_set(t.bounce::jsonb, '{final}', 'true', false)::json else t.bounce end, t.source, now_at
      from told t order by t.id, t.turn
  ),
  suppression as (
    insert into suppressions (workspace_id, recipient_key, recipient, reason, source_message_id, rule, evidence, created_at)
    select distinct on (t.w, t.recipient_key) t.w, t.recipient_key, t.recipient, t.reason, t.id, t.rule, t.detail, now_at
      from told t where t.reason is not null order by t.w, t.recipient_key, t.id, t.turn
    on conflict (workspace_id, recipient_key) do nothing
  )
  select a.n, case when k.n is null then 'not_armed' when t.n is not null then 'recorded' when k.full_up then 'too_many' else 'repeated' end
    from asked a left join known k on k.n = a.n left join told t on t.n = a.n
  union all
  select a.n, 'held' from reports_of(batch) a where a.id = any (held);
end $$;

-- Nor do the replies out of a node's journal, before which it delivers nothing: one row that somebody held kept a node that had just started from all its work. What is
-- held stays in the journal, and is told again. Whether the database was restored is seen all the same: no lock changes what a row says.
-- Locked is what is free, row by row and record by record in the order of their ids. As before, but for that, and which of two replies counts (0075); an older release beside us calls `replay_1`.
create or replace function replay_2(batch json) returns table (id uuid, epoch integer, answer text) language plpgsql as $$
#variable_conflict use_column
declare
  explained json;
  held uuid[];
begin
  held := array(select held_1(array_agg(e.w), array_agg(e.id)) from endings_of(batch) e);
  return query
  with told as materialized (
    select value ending, e.id, e.w, e.epoch, e.token, e.status,
           o.message_id is not null and (e.status = 'sent' or o.epoch < e.epoch)
             and not (o.status = 'sending' and o.epoch = e.epoch and o.token = e.token and o.armed_epoch is not distinct from e.epoch) orphan,
           exists (select from messages m where m.workspace_id = e.w and m.id = e.id) known
      from json_array_elements(batch) cross join lateral endings_of(json_build_array(value)) e
      left join lateral (select x.* from outbound x where x.message_id = e.id and x.workspace_id = e.w limit 1) o on true
  ),
  kept as (
    insert into orphaned_replies (workspace_id, message_id, epoch, token, ending)
    select t.w, t.id, t.epoch, t.token, t.ending from told t where t.orphan on conflict do nothing
  ),
  stopped as materialized (
    select stop_delivery_1('fence', 'orphaned_reply', json_build_object('messageId', min(t.id::text))) from told t where t.orphan having count(*) > 0
  )
  select t.id, t.epoch, case when t.orphan then 'orphan' when t.id = any (held) then 'held' when t.known then 'known' else 'gone' end
    from told t left join stopped on true;
  explained := (select coalesce(json_agg(value), '[]') from json_array_elements(batch)
    where (value ->> 'id')::uuid <> all (held)
      and not exists (select from orphaned_replies r where r.message_id = (value ->> 'id')::uuid and r.epoch = (value ->> 'epoch')::integer
                        and r.token = (value ->> 'token')::bigint));
  -- What `assume_sent_1` moved before this journal was told names no claim: the reply names it now, as in `lift_fence_1`.
  update messages m set armed_epoch = e.epoch, armed_token = e.token from decisive_replies_1(explained) e
   where m.workspace_id = e.w and m.id = e.id and m.status = 'delivery_unknown' and m.armed_epoch is null and m.armed_token is null;
  perform 1 from finish_1(explained, array(select (value ->> 'id')::uuid from json_array_elements(explained)));
end $$;

-- Nor does the admission of a message that is sent again wait for the record of the first: it waited with all that was to be admitted beside it, and nobody's mail was accepted for
-- as long as that one could wait. It alone is told to come again (a code of "in use", which is a 503). As before, but for that.
create or replace function admit_sent_again() returns trigger language plpgsql as $$
declare
  first uuid := substr(new.key, 1, 36)::uuid;
begin
  perform 1 from messages m where m.workspace_id = new.workspace_id and m.id = first for share skip locked;
  if not found and exists (select from messages m where m.workspace_id = new.workspace_id and m.id = first) then
    raise exception 'message % is held by somebody', new.key using errcode = 'object_in_use';
  end if;
  if not exists (
    select from messages m
     where m.workspace_id = new.workspace_id and m.id = first
       and (m.status = 'failed' and m.delivery_rank not in (2, 5)
            or m.status = 'delivery_unknown' and m.finished_at <= app_now() - substr(new.key, 38)::integer * interval '1 second')) then
    raise exception 'message % may not be sent again', new.key using errcode = 'PH001';
  end if;
  insert into sent_again (workspace_id, message_id, again_id, at) values (new.workspace_id, first, new.message_id, app_now());
  return new;
end $$;
