-- Three statements read a whole table for a few rows, whenever the planner took the other of two indexes (docs/decisions/0006). The reaper took
-- leases that had run out in the order of the key, and so went along all messages that wait, at every look; it goes along the leases now (rows that
-- are locked are skipped, so that their order is free). And whether an event of the same message is due was looked for among all that is due in its
-- workspace, once for each ended webhook. Contents that a workspace does not want kept were looked for among all its records. What they do, and their names, stay: an older release may call them beside us.

create or replace function reap_2(tries_max integer, most integer, armed_too boolean)
 returns table(id uuid, becomes text)
 language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
begin
  return query
  with out_of_time as materialized (
    select o.* from outbound o where o.status = 'sending' and o.lease_until < now_at and (armed_too or o.armed_epoch is null)
     order by o.lease_until limit most for update skip locked
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

create or replace function end_webhooks_1(batch json, owner uuid, failing_ms double precision)
 returns table(workspace_id uuid, reason text)
 language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  long_ago timestamptz := app_now() - failing_ms * interval '1 millisecond';
begin
  perform 1
    from (select r.w, bool_or(r.delivered) well from webhook_results_of(batch) r where r.asked group by r.w order by r.w) t
         cross join lateral (
           select from webhook_endpoints e where e.workspace_id = t.w and (e.failing_since is null) <> t.well limit 1 for update) e;
  perform 1
    from (select r.w, r.m, r.s from webhook_results_of(batch) r order by r.w, r.m, r.s) r
         cross join lateral (
           select from webhook_queue q where q.workspace_id = r.w and q.message_id = r.m and q.sequence = r.s limit 1 for update) q;

  return query
  with ended as materialized (
    select r.*, q.row from webhook_results_of(batch) r left join lateral (
      select x.ctid row from webhook_queue x
       where x.workspace_id = r.w and x.message_id = r.m and x.sequence = r.s
         and x.round = r.round and x.attempts = r.attempt and x.lease_owner = owner limit 1) q on true
  ),
  gone as (
    delete from webhook_queue q using ended e where q.ctid = e.row and e.asked and e.delay_ms is null
  ),
  again as (
    update webhook_queue q
       set lease_until = null, lease_owner = null,
           due_at = case when e.asked then now_at + e.delay_ms * interval '1 millisecond' else q.due_at end,
           attempts = q.attempts - case when e.asked then 0 else 1 end
      from ended e where q.ctid = e.row and not (e.asked and e.delay_ms is null)
  ),
  log as (
    insert into webhook_attempts (workspace_id, message_id, sequence, round, attempt, ended_at, delivered, trouble, status, duration_ms, excerpt)
    select e.w, e.m, e.s, e.round, e.attempt, now_at, e.delivered, e.trouble, e.status, e.ms, e.excerpt from ended e where e.asked
    on conflict do nothing
  ),
  told as materialized (
    select e.w, bool_or(e.delivered) well, bool_or(not e.delivered and e.delay_ms is null and e.status = 410 and e.row is not null) gone
      from ended e where e.asked group by e.w
  ),
  changed as (
    update webhook_endpoints p
       set failing_since = case when t.well then null else coalesce(p.failing_since, now_at) end,
           state = case when x.why is null then p.state else 'disabled' end,
           reason = coalesce(x.why, p.reason),
           disabled_at = case when x.why is null then p.disabled_at else now_at end,
           version = p.version + case when x.why is null then 0 else 1 end
      from told t cross join lateral (
        select e.workspace_id,
               case when e.state <> 'active' or t.well then null
                    when t.gone then 'receiver_gone'
                    when e.failing_since <= long_ago then 'no_success' end why
          from webhook_endpoints e
         where e.workspace_id = t.w and ((e.failing_since is null) <> t.well or t.gone or e.failing_since <= long_ago) limit 1) x
     where p.workspace_id = x.workspace_id
    returning p.workspace_id, x.why
  )
  select c.workspace_id, c.why from changed c where c.why is not null
  union all
  (select null::uuid, null::text from ended e cross join lateral (
     -- the events of this message first, along the key, and then which of them are due
     select x.lease_until, x.due_at from webhook_queue x
      where x.workspace_id = e.w and x.message_id = e.m and x.sequence > e.s offset 0) later
    where later.lease_until is null and later.due_at <= now_at limit 1);
end $$;

create or replace function drop_unwanted_contents_1(most integer) returns integer
 language sql as $$
  with unwanted as materialized (
    select c.workspace_id, c.message_id, c.body_blob, c.shares_blobs from workspaces w
      cross join lateral (
        -- content by content: as a join it went along all records that are kept
        select x.* from contents x cross join lateral (
          select m.finished_at from messages m where m.workspace_id = x.workspace_id and m.id = x.message_id limit 1) record
         where x.workspace_id = w.id and record.finished_at is not null
         limit most) c
     where not w.keeps_content limit most
  ),
  content as (
    delete from contents c using unwanted u where c.workspace_id = u.workspace_id and c.message_id = u.message_id
  ),
  file as (
    delete from attachments a using unwanted u where a.workspace_id = u.workspace_id and a.message_id = u.message_id
    returning a.blob_id, u.shares_blobs
  ),
  blob as (
    -- what other recipients of the same DATA still need goes with its partition
    delete from blobs b using (select f.blob_id from file f where not f.shares_blobs
                               union select u.body_blob from unwanted u where u.body_blob is not null and not u.shares_blobs) gone
     where b.id = gone.blob_id
  )
  select count(*)::integer from unwanted
$$;
