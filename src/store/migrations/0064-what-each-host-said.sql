-- An attempt that asked several hosts told of the word of one. Each host that said 4yz about the message is told of (decisions C): an ending has them in
-- `deferred_by`, in the order in which they were asked; left out where there was none. Each says "not now" and no more, for any other answer asks nobody else.
create or replace function endings_of_2(batch json) returns table (
  id uuid, w uuid, epoch integer, token bigint, status text, error text, provider_id text, delay_ms bigint, evidence text, uses_try boolean,
  outcome text, facts json, event json, report json, report_type text, report_event text, rank smallint, detail text, bounce json,
  suppress boolean, rule text, deferred_by json
) language sql immutable as $$
  select * from json_to_recordset(batch) as a (
    id uuid, w uuid, epoch integer, token bigint, status text, error text, provider_id text, delay_ms bigint, evidence text, uses_try boolean,
    outcome text, facts json, event json, report json, report_type text, report_event text, rank smallint, detail text, bounce json,
    suppress boolean, rule text, deferred_by json)
$$;

-- As before, but for that. The releases before leave the member out, and call it all the same.
create or replace function finish_1(batch json, ids uuid[]) returns table (id uuid, epoch integer) language plpgsql volatile as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  done integer;
begin
  perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;

  return query
  with asked as materialized (
    select e.*, o.row from endings_of_2(batch) e cross join lateral (
      select x.ctid row from outbound x where x.message_id = e.id and x.workspace_id = e.w and x.epoch = e.epoch and x.token = e.token
         and x.status = 'sending' limit 1) o
  ),
  ended as (
    delete from outbound o using asked a
     where o.ctid = a.row and o.epoch = a.epoch and o.token = a.token and o.status = 'sending'
       and a.status in ('sent', 'failed', 'delivery_unknown')
       and (a.status <> 'failed' or o.armed_epoch is null or a.evidence = 'not_written' or proves_reply(a.status, a.evidence, a.facts))
    returning a.*, o.armed_epoch
  ),
  again as (
    update outbound o
       set status = 'retrying', due_at = now_at + a.delay_ms * interval '1 millisecond', lease_until = null, lease_owner = null,
           armed_epoch = null, evidence = a.evidence, attempts = o.attempts - case when a.uses_try then 0 else 1 end
      from asked a
     where o.ctid = a.row and o.epoch = a.epoch and o.token = a.token and o.status = 'sending' and a.status = 'retrying'
    returning a.*, null::integer armed_epoch
  ),
  told as materialized (
    select v.*, m.delivery_rank was, case when v.report is null then 0 else 1 end + coalesce(json_array_length(v.deferred_by), 0) reports
      from (select * from ended union all select * from again) v
      cross join lateral (select x.delivery_rank from messages x where x.workspace_id = v.w and x.id = v.id limit 1) m
  ),
  record as (
    update messages m
       set status = t.status,
           sequence = m.sequence + 1 + t.reports,
           delivery_rank = greatest(m.delivery_rank, t.rank, case when t.deferred_by is not null then 1::smallint end),
           provider_message_id = coalesce(t.provider_id, m.provider_message_id),
           error_message = case when t.status = 'sent' then null else t.error end,
           armed_epoch = case when t.status = 'delivery_unknown' then t.armed_epoch end,
           armed_token = case when t.status = 'delivery_unknown' then t.token end,
           finished_at = case when t.status = 'retrying' then null else now_at end
      from told t where m.workspace_id = t.w and m.id = t.id
    returning t.*, m.sequence, m.delivery_rank, m.recipient, m.recipient_key
  ),
  event as (
    -- the state's event comes before the reports', and says what was known before them; the report of the host that counts is the last
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.w, r.id, r.sequence - r.reports, 'message.' || r.status, r.status, r.was, now_at, r.event
      from record r
    union all
    select r.w, r.id, r.sequence - r.reports + d.at, 'message.soft_bounced', r.status, greatest(r.was, 1::smallint), now_at, d.said -> 'report'
      from record r cross join lateral json_array_elements(r.deferred_by) with ordinality d(said, at) where r.deferred_by is not null
    union all
    select r.w, r.id, r.sequence, r.report_event, r.status, r.delivery_rank, now_at, r.report from record r where r.report is not null
  ),
  report as (
    insert into reports (workspace_id, message_id, sequence, type, detail, bounce, source, created_at)
    select r.w, r.id, r.sequence, r.report_type, r.detail, r.bounce, 'session', now_at from record r where r.report is not null
    union all
    select r.w, r.id, r.sequence - r.reports + d.at, 'soft_bounce', d.said ->> 'detail', d.said -> 'bounce', 'session', now_at
      from record r cross join lateral json_array_elements(r.deferred_by) with ordinality d(said, at) where r.deferred_by is not null
  ),
  attempt as (
    insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts)
    select r.w, r.id, r.epoch, now_at, r.outcome, r.facts from record r
    on conflict (workspace_id, message_id, epoch) do nothing
  ),
  suppression as (
    insert into suppressions (workspace_id, recipient_key, recipient, reason, source_message_id, rule, evidence, created_at)
    select distinct on (r.w, r.recipient_key) r.w, r.recipient_key, r.recipient, 'hard_bounce', r.id, r.rule, r.detail, now_at
      from record r where r.suppress order by r.w, r.recipient_key, r.id
    on conflict (workspace_id, recipient_key) do nothing
  )
  select r.id, r.epoch from record r;

  get diagnostics done = row_count;
  if done < cardinality(ids) then
    return query select l.id, l.epoch from late_proof_1(batch) l;
  end if;
end $$;

-- As before, but for that.
create or replace function late_proof_1(batch json) returns table (id uuid, epoch integer) language plpgsql as $$
#variable_conflict use_column
declare
  mine record;
begin
  for mine in select a.w, a.id from endings_of_2(batch) a order by a.id loop
    perform 1 from messages m where m.workspace_id = mine.w and m.id = mine.id and m.status = 'delivery_unknown' for update;
  end loop;

  return query with told as materialized (
    select a.id, a.w, a.epoch, a.token, a.error, a.provider_id, a.facts, a.report_type, a.report_event, a.detail, a.suppress, a.rule, a.deferred_by,
           case when a.report is null then 0 else 1 end + coalesce(json_array_length(a.deferred_by), 0) reports,
           case when late_4yz then 'failed' else a.status end becomes, case when late_4yz then 'failed' else a.outcome end outcome,
           case when a.report is null then 0::smallint when late_4yz then 3::smallint else a.rank end rank,
           case when late_4yz then (a.event::jsonb - 'nextAttemptAt' || '{"reason": "eod_4xx_late"}')::json else a.event end event,
           case when late_4yz then jsonb_set(a.report::jsonb, '{bounce,final}', 'true', false)::json else a.report end report,
           case when late_4yz then jsonb_set(a.bounce::jsonb, '{final}', 'true', false)::json else a.bounce end bounce,
           m.delivery_rank was
      from (select *, status = 'retrying' late_4yz from endings_of_2(batch)) a join messages m on m.workspace_id = a.w and m.id = a.id
     where m.status = 'delivery_unknown' and m.armed_epoch = a.epoch and m.armed_token = a.token
       and proves_reply(a.status, a.evidence, a.facts)
     order by a.id
  ),
  record as (
    update messages m
       set status = t.becomes, sequence = m.sequence + 1 + t.reports,
           delivery_rank = greatest(m.delivery_rank, t.rank, case when t.deferred_by is not null then 1::smallint end),
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
    select r.w, r.id, r.sequence - r.reports, 'message.' || r.becomes, r.becomes, r.was, app_now(), r.event
      from record r
    union all
    select r.w, r.id, r.sequence - r.reports + d.at, 'message.soft_bounced', r.becomes, greatest(r.was, 1::smallint), app_now(), d.said -> 'report'
      from record r cross join lateral json_array_elements(r.deferred_by) with ordinality d(said, at) where r.deferred_by is not null
    union all
    select r.w, r.id, r.sequence, r.report_event, r.becomes, r.delivery_rank, app_now(), r.report from record r where r.report is not null
  ),
  report as (
    insert into reports (workspace_id, message_id, sequence, type, detail, bounce, source, created_at)
    select r.w, r.id, r.sequence, r.report_type, r.detail, r.bounce, 'session', app_now() from record r where r.report is not null
    union all
    select r.w, r.id, r.sequence - r.reports + d.at, 'soft_bounce', d.said ->> 'detail', d.said -> 'bounce', 'session', app_now()
      from record r cross join lateral json_array_elements(r.deferred_by) with ordinality d(said, at) where r.deferred_by is not null
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
