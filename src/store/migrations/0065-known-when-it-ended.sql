-- A report may come before our own record of the reply to the dot. Where it was recorded while `finish_1` waited for the message, the event of the state came
-- behind the report's, under a later number, and said what had been known before that one (`pending` behind `delivered`): whoever goes by the latest event
-- was told wrongly, and over a relay, where no report of the session follows, for good. The record itself was right. What the record says now and no
-- word of this ending explains was said before it.
--
-- Not locked and read anew for it: that would cost each ending a look more (docs/decisions/0050). Where this ending brings a higher rank than the
-- report that came between, its state's event says what was known before both, and the next event, which is written with it, the whole.
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
    returning t.*, m.sequence, m.delivery_rank, m.recipient, m.recipient_key,
              case when m.delivery_rank > greatest(t.rank, case when t.deferred_by is not null then 1::smallint end, 0::smallint) then m.delivery_rank
                   else t.was end known
  ),
  event as (
    -- the state's event comes before the reports', and says what was known before them; the report of the host that counts is the last
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.w, r.id, r.sequence - r.reports, 'message.' || r.status, r.status, r.known, now_at, r.event
      from record r
    union all
    select r.w, r.id, r.sequence - r.reports + d.at, 'message.soft_bounced', r.status, greatest(r.known, 1::smallint), now_at, d.said -> 'report'
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
