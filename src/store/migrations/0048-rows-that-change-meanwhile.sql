-- A statement that locks rows looks again at those that changed while it waited, or since it began (EvalPlanQual). PostgreSQL 18 (18.4 was tried) then leaves freed memory
-- behind in everything of the same statement that chooses a partition for each row: the session ends with a segmentation fault, and the server with
-- it for a moment. Other shapes lose rows there, or fail, on every release (docs/decisions/0064). So no statement both locks and looks into partitioned
-- tables: what is locked is locked by a statement of its own, and read by the next one; and rows of partitioned tables are locked one by one.

-- As before, but for that. Late proof of several messages, while reports about them were recorded, counted for the last one alone.
create or replace function late_proof_1(batch json) returns table (id uuid, epoch integer) language plpgsql as $$
#variable_conflict use_column
declare
  mine record;
begin
  for mine in select a.w, a.id from endings_of(batch) a order by a.id loop
    perform 1 from messages m where m.workspace_id = mine.w and m.id = mine.id and m.status = 'delivery_unknown' for update;
  end loop;

  return query with told as materialized (
    select a.id, a.w, a.epoch, a.token, a.error, a.provider_id, a.facts, a.report_type, a.report_event, a.detail, a.suppress, a.rule,
           case when late_4yz then 'failed' else a.status end becomes, case when late_4yz then 'failed' else a.outcome end outcome,
           case when a.report is null then 0::smallint when late_4yz then 3::smallint else a.rank end rank,
           case when late_4yz then (a.event::jsonb - 'nextAttemptAt' || '{"reason": "eod_4xx_late"}')::json else a.event end event,
           case when late_4yz then jsonb_set(a.report::jsonb, '{bounce,final}', 'true', false)::json else a.report end report,
           case when late_4yz then jsonb_set(a.bounce::jsonb, '{final}', 'true', false)::json else a.bounce end bounce,
           m.delivery_rank was
      from (select *, status = 'retrying' late_4yz from endings_of(batch)) a join messages m on m.workspace_id = a.w and m.id = a.id
     where m.status = 'delivery_unknown' and m.armed_epoch = a.epoch and m.armed_token = a.token
       and proves_reply(a.status, a.evidence, a.facts)
     order by a.id
  ),
  record as (
    update messages m
       set status = t.becomes, sequence = m.sequence + case when t.report is null then 1 else 2 end,
           delivery_rank = greatest(m.delivery_rank, t.rank),
           provider_message_id = coalesce(t.provider_id, m.provider_message_id),
           error_message = case when t.becomes = 'sent' then null else t.error end,
           armed_epoch = null, armed_token = null, finished_at = app_now()
      from told t
     where m.workspace_id = t.w and m.id = t.id
       and m.status = 'delivery_unknown' and m.armed_epoch = t.epoch and m.armed_token = t.token
    returning t.*, m.sequence, m.delivery_rank, m.recipient, m.recipient_key
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.w, r.id, r.sequence - case when r.report is null then 0 else 1 end, 'message.' || r.becomes, r.becomes, r.was, app_now(), r.event
      from record r
    union all
    select r.w, r.id, r.sequence, r.report_event, r.becomes, r.delivery_rank, app_now(), r.report from record r where r.report is not null
  ),
  report as (
    insert into reports (workspace_id, message_id, sequence, type, detail, bounce, source, created_at)
    select r.w, r.id, r.sequence, r.report_type, r.detail, r.bounce, 'session', app_now() from record r where r.report is not null
  ),
  attempt as (
    insert into attempts as known (workspace_id, message_id, epoch, ended_at, outcome, facts)
    select r.w, r.id, r.epoch, app_now(), r.outcome, r.facts from record r
    on conflict (workspace_id, message_id, epoch) do update set outcome = excluded.outcome, facts = excluded.facts
  ),
  suppression as (
    insert into suppressions (workspace_id, recipient_key, recipient, reason, source_message_id, rule, evidence, created_at)
    select distinct on (r.w, r.recipient_key) r.w, r.recipient_key, r.recipient, 'hard_bounce', r.id, r.rule, r.detail, app_now()
      from record r where r.suppress order by r.w, r.recipient_key, r.id
    on conflict (workspace_id, recipient_key) do nothing
  )
  select r.id, r.epoch from record r;
end $$;

-- As before, but for that; and records are locked in the order of their ids: a reaper and reports waited for each other in a circle.
create or replace function reap_2(tries_max integer, most integer, armed_too boolean) returns table (id uuid, becomes text) language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  ids uuid[];
begin
  ids := array(
    select o.message_id from outbound o where o.status = 'sending' and o.lease_until < now_at and (armed_too or o.armed_epoch is null)
     order by o.lease_until limit most for update skip locked);
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

-- As before, but for that.
create or replace function record_report_1(batch json, events_max integer) returns table (n integer, answer text) language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  mine record;
begin
  for mine in select distinct a.w, a.id from reports_of(batch) a order by a.id loop
    perform 1 from messages m where m.workspace_id = mine.w and m.id = mine.id for update;
  end loop;

  return query
  with asked as materialized (select a.* from reports_of(batch) a),
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
    from asked a left join known k on k.n = a.n left join told t on t.n = a.n;
end $$;

-- As before, but for that.
create or replace function assume_sent_1(since timestamptz, till timestamptz, after uuid, most integer)
  returns table (moved integer, last uuid) language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  ids uuid[];
begin
  ids := array(select o.message_id from outbound o where o.message_id > after order by o.message_id limit most for update);

  return query
  with seen as materialized (select o.* from outbound o where o.message_id = any (ids)),
  -- What was accepted after the stop, or was not due before it, cannot have been sent; nor what had expired before `since`.
  chosen as materialized (
    select s.* from seen s
      cross join lateral (select x.created_at from messages x where x.workspace_id = s.workspace_id and x.id = s.message_id limit 1) m
     where m.created_at <= till and s.expires_at > since and (s.status = 'sending' or s.due_at <= till)
  ),
  gone as (
    delete from outbound o using chosen c where o.message_id = c.message_id
  ),
  record as (
    update messages m
       set status = 'delivery_unknown', sequence = m.sequence + 1, finished_at = now_at,
           error_message = 'The database was restored, and the operator assumes that the message was sent meanwhile. It is not sent again.',
           armed_epoch = c.armed_epoch, armed_token = case when c.armed_epoch is not null then c.token end
      from chosen c where m.workspace_id = c.workspace_id and m.id = c.message_id
    returning m.workspace_id, m.id, m.sequence, m.delivery_rank, m.error_message, c.attempts
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.workspace_id, r.id, r.sequence, 'message.delivery_unknown', 'delivery_unknown', r.delivery_rank, now_at,
           json_build_object('attempt', r.attempts, 'reason', 'assumed_sent', 'errorMessage', r.error_message)
      from record r
  )
  select (select count(*)::integer from record), (select s.message_id from seen s order by s.message_id desc limit 1);
end $$;

-- What claims lock. In a function it has a plan of its own; what changed since the claim began is passed by.
create or replace function lock_due_1(space uuid, since timestamptz, most integer)
  returns table (message_id uuid, workspace_id uuid, destination text, mailbox_id uuid, expires_at timestamptz, due_at timestamptz, epoch integer, attempts integer, "row" tid)
  language plpgsql rows 10 as $$
#variable_conflict use_column
begin
  return query
  select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
   where o.workspace_id = space and o.lease_until is null and o.attempts >= 0 and o.due_at >= since and o.due_at <= app_now()
   order by o.due_at, o.message_id limit most for update skip locked;
end $$;

create or replace function lock_due_lane_1(space uuid, lane text, since timestamptz, most integer)
  returns table (message_id uuid, workspace_id uuid, destination text, mailbox_id uuid, expires_at timestamptz, due_at timestamptz, epoch integer, attempts integer, "row" tid)
  language plpgsql rows 10 as $$
#variable_conflict use_column
begin
  return query
  select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
   where o.workspace_id = space and o.destination = lane and o.lease_until is null and o.destination <> '' and o.due_at >= since and o.due_at <= app_now()
   order by o.due_at, o.message_id limit most for update skip locked;
end $$;

create or replace function lock_due_webhooks_1(space uuid, since timestamptz, most integer)
  returns table (workspace_id uuid, message_id uuid, sequence integer, due_at timestamptz, round integer, attempts integer, "row" tid) language plpgsql rows 10 as $$
#variable_conflict use_column
begin
  return query
  select q.workspace_id, q.message_id, q.sequence, q.due_at, q.round, q.attempts, q.ctid from webhook_queue q
   where q.workspace_id = space and q.lease_until is null and q.due_at >= since and q.due_at <= app_now()
   order by q.due_at, q.message_id, q.sequence limit most for update skip locked;
end $$;
