-- Two statements did not survive that a message's row changed while they waited for it, as it does with every report (docs/decisions/0064). This is
-- one of them; the other is the claim (claim.ts).

-- As before, but the rows are locked one by one, and read behind that. With `for update` behind the sort PostgreSQL 18 looked for a row that had changed in
-- the partition of another one, so that late proof of several messages counted for the last alone; and read freed memory for it.
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
