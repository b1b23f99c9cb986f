-- A reaper waits for no record that somebody else holds either (an operator's psql, left open within a transaction): it has waited for one, with all other leases that
-- ran out in its hands, and so has that of each node. It passes by whose row or record it cannot lock now, and comes back. Record by record, by name
-- (docs/decisions/0064). As before, but for that; an older release beside us calls `reap_2`.
create or replace function reap_3(tries_max integer, most integer, armed_too boolean) returns table (id uuid, becomes text) language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  mine record;
  ids uuid[] := '{}';
begin
  for mine in
    select o.message_id, o.workspace_id from outbound o
     where o.status = 'sending' and o.lease_until < now_at and (armed_too or o.armed_epoch is null)
     order by o.lease_until for update skip locked loop
    -- A record that is not there holds up nothing.
    perform 1 from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id for no key update skip locked;
    continue when not found and exists (select from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id);
    ids := ids || mine.message_id;
    exit when cardinality(ids) >= most;
  end loop;
  if cardinality(ids) = 0 then return; end if;

  return query
  with out_of_time as materialized (select o.* from outbound o where o.message_id = any (ids)),
  judged as materialized (
    select o.*, case when o.armed_epoch is not null then 'delivery_unknown'
                     when o.attempts >= tries_max or o.expires_at <= now_at then 'failed' else 'retrying' end becomes
      from out_of_time o order by o.message_id
  ),
  ended as (
    delete from outbound o using judged j where o.message_id = j.message_id and j.becomes <> 'retrying'
  ),
  again as (
    update outbound o set status = 'retrying', due_at = now_at, lease_until = null, lease_owner = null
      from judged j where o.message_id = j.message_id and j.becomes = 'retrying' and o.armed_epoch is null
  ),
  record as (
    update messages m
       set status = j.becomes, sequence = m.sequence + 1,
           error_message = case j.becomes
             when 'delivery_unknown' then 'The worker was lost after the final dot may have been sent: remote acceptance cannot be proven.'
             when 'failed' then case when j.attempts >= tries_max then 'No try is left: the last worker was lost before the final dot.'
                                     else 'The message expired: the last worker was lost before the final dot.' end
             else 'The worker was lost before the final dot.' end,
           armed_epoch = j.armed_epoch, armed_token = case when j.armed_epoch is not null then j.token end,
           finished_at = case when j.becomes = 'retrying' then null else now_at end
      from judged j where m.workspace_id = j.workspace_id and m.id = j.message_id
    returning m.workspace_id, m.id, m.sequence, m.status, m.delivery_rank, j.attempts, j.epoch,
              case when j.becomes = 'failed' then case when j.attempts >= tries_max then 'tries_used_up' else 'expired' end
                   else 'worker_lost' end reason, m.error_message
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.workspace_id, r.id, r.sequence, 'message.' || r.status, r.status, r.delivery_rank, now_at,
           json_strip_nulls(json_build_object('attempt', r.attempts, 'reason', r.reason, 'errorMessage', r.error_message,
             'nextAttemptAt', case when r.status = 'retrying' then to_char(now_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') end))
      from record r
  ),
  attempt as (
    insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts)
    select r.workspace_id, r.id, r.epoch, now_at, r.status, json_build_object('attempt', r.attempts, 'reason', r.reason) from record r
    on conflict (workspace_id, message_id, epoch) do nothing
  )
  select r.id, r.status from record r;
end $$;
