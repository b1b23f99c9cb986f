-- The database asked for proof where an armed claim is to be tried again, and took the worker's word that one had failed. Now that needs its proof
-- too: a refusal behind the dot, or the certainty that no dot was written. Without it nothing changes, so that the lease runs out, and
-- `delivery_unknown` says what is known. (That one was sent is believed even of a row that is not armed: a database that was restored or failed over
-- may have forgotten the arm, and to doubt it would be to send it twice.) finish_1 as before, but for one condition of `ended`.
create or replace function finish_1(batch json, ids uuid[]) returns table (id uuid, epoch integer) language plpgsql volatile as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  done integer;
begin
  perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;

  return query
  with asked as materialized (
    select e.*, o.row from endings_of(batch) e cross join lateral (
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
    select v.*, m.delivery_rank was from (select * from ended union all select * from again) v
      cross join lateral (select x.delivery_rank from messages x where x.workspace_id = v.w and x.id = v.id limit 1) m
  ),
  record as (
    update messages m
       set status = t.status,
           sequence = m.sequence + case when t.report is null then 1 else 2 end,
           delivery_rank = greatest(m.delivery_rank, coalesce(t.rank, 0::smallint)),
           provider_message_id = coalesce(t.provider_id, m.provider_message_id),
           error_message = case when t.status = 'sent' then null else t.error end,
           armed_epoch = case when t.status = 'delivery_unknown' then t.armed_epoch end,
           armed_token = case when t.status = 'delivery_unknown' then t.token end,
           finished_at = case when t.status = 'retrying' then null else now_at end
      from told t where m.workspace_id = t.w and m.id = t.id
    returning t.*, m.sequence, m.delivery_rank, m.recipient, m.recipient_key
  ),
  event as (
    -- the state's event comes before the report's, and says what was known before it
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.w, r.id, r.sequence - case when r.report is null then 0 else 1 end, 'message.' || r.status, r.status, r.was, now_at, r.event
      from record r
    union all
    select r.w, r.id, r.sequence, r.report_event, r.status, r.delivery_rank, now_at, r.report from record r where r.report is not null
  ),
  report as (
    insert into reports (workspace_id, message_id, sequence, type, detail, bounce, source, created_at)
    select r.w, r.id, r.sequence, r.report_type, r.detail, r.bounce, 'session', now_at from record r where r.report is not null
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
