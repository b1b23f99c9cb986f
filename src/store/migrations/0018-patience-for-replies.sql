-- Where the database may have been away, those who hold a reply get time to tell it: what is not armed needs no such patience.

-- As reap_1, which did both at once: ends leases that ran out. Not armed means surely not accepted, so it is tried again while tries and
-- age last; armed, looked at only where `armed_too`, means that nobody can know. Rows that another worker or reaper is deciding are
-- skipped, and every condition stands on the locked row.
create function reap_2(tries_max integer, most integer, armed_too boolean)
returns table (id uuid, becomes text) language plpgsql volatile as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
begin
  return query
  with out_of_time as materialized (
    select o.* from outbound o where o.status = 'sending' and o.lease_until < now_at and (armed_too or o.armed_epoch is null)
     order by o.message_id limit most for update skip locked
  ),
  judged as materialized (
    select o.*, case when o.armed_epoch is not null then 'delivery_unknown'
                     when o.attempts >= tries_max or o.expires_at <= now_at then 'failed' else 'retrying' end becomes
      from out_of_time o
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

create or replace function reap_1(tries_max integer, most integer)
returns table (id uuid, becomes text) language sql volatile as $$ select * from reap_2(tries_max, most, true) $$;
