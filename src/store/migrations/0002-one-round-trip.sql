-- The statements that commit for many messages at once (the one of acceptance is in 0004). Each is a function because it takes two snapshots:
-- it locks its rows, in one order, and only then reads what it decides by. In one plain statement the second look would be as old as the
-- first (docs/decisions/0003-functions-that-lock-first.md). A later version of one gets a new name, so that two releases run side by side.
--
-- `outbound` is empty one minute and full the next, so no plan may rest on its statistics (decisions/0006): a look-up is a lateral with a
-- limit, a change finds its rows, which are locked by then, by their place (ctid), and no condition leads into the index of leases.

------------------------------------------------------------------------------------------------------------------ delivery

-- Arms claims: the last commit before a final dot. Locks first; then looks at suppressions and conditions with a fresh snapshot, so that a
-- suppression that became visible while we waited for the row still stops the mail. Any answer but 'armed' means: never write that dot; a claim
-- that is not ours any more gets no answer.
create function arm_1(ids uuid[], epochs integer[], tokens bigint[])
returns table (id uuid, epoch integer, answer text) language plpgsql volatile as $$
#variable_conflict use_column
begin
  perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;
  return query
  with asked as materialized (
    select a.id, a.epoch, a.token, o.row,
           exists (select from suppressions x where x.workspace_id = m.workspace_id and x.recipient_key = m.recipient_key
                    and o.destination <> 'simulator.posthorn.test') suppressed
      from unnest(ids, epochs, tokens) as a (id, epoch, token)
      cross join lateral (
        select x.ctid row, x.* from outbound x where x.message_id = a.id and x.epoch = a.epoch and x.token = a.token
           and x.status = 'sending' and x.armed_epoch is null and (x.lease_until <= app_now()) is false limit 1) o
      cross join lateral (select x.* from messages x where x.workspace_id = o.workspace_id and x.id = o.message_id limit 1) m
  ),
  armed as (
    update outbound o set armed_epoch = j.epoch from asked j
     where not j.suppressed and o.ctid = j.row
       and o.epoch = j.epoch and o.token = j.token and o.status = 'sending' and o.armed_epoch is null and (o.lease_until <= app_now()) is false
    returning o.message_id, o.epoch
  )
  select a.message_id, a.epoch, 'armed' from armed a
  union all
  select j.id, j.epoch, 'suppressed' from asked j where j.suppressed;
end $$;

-- The rows of a batch of endings, typed. `report` holds the members of the report event's data.
create function endings_of(batch json) returns table (
  id uuid, w uuid, epoch integer, token bigint, status text, error text, provider_id text, delay_ms bigint, evidence text, uses_try boolean,
  outcome text, facts json, event json, report json, report_type text, report_event text, rank smallint, detail text, bounce json,
  suppress boolean, rule text
) language sql immutable as $$
  select * from json_to_recordset(batch) as a (
    id uuid, w uuid, epoch integer, token bigint, status text, error text, provider_id text, delay_ms bigint, evidence text, uses_try boolean,
    outcome text, facts json, event json, report json, report_type text, report_event text, rank smallint, detail text, bounce json,
    suppress boolean, rule text)
$$;

-- Ends claims: the outcome, its events, the attempt's record and what the provider said, for each claim that is still ours; answers
-- those. A row that nobody holds any more may still be late proof.
create function finish_1(batch json, ids uuid[]) returns table (id uuid, epoch integer) language plpgsql volatile as $$
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

-- Whether an ending is what a worker makes of a reply to its dot: a 2yz, a 5yz or, with its own evidence, a 4yz, heard at the dot and without
-- trouble. Whatever else ends a claim was known before the dot, or is no proof.
create function proves_reply(status text, evidence text, facts json) returns boolean language sql immutable as $$
  select coalesce(facts ->> 'phase' = 'eod' and facts ->> 'trouble' is null and case
    when evidence is null then facts #>> '{smtp,code}' ~ case status when 'sent' then '^2[0-9]{2}$' when 'failed' then '^5[0-9]{2}$' end
    when evidence = 'eod_4xx' then facts #>> '{smtp,code}' ~ '^4[0-9]{2}$' and status in ('retrying', 'failed')
  end, false)
$$;

-- Late proof (decisions B): a claim that became delivery_unknown while its worker held the reply to its dot becomes sent or failed, under
-- the same epoch and token. A late 4yz is a failure, never a retry: a person may have sent it again meanwhile. What it reported is then the
-- message's end, a final soft bounce.
create function late_proof_1(batch json) returns table (id uuid, epoch integer) language sql volatile as $$
  with told as materialized (
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
     order by a.id for update of m
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
  select r.id, r.epoch from record r
$$;

-- Ends leases that ran out: not armed means surely not accepted, so it is tried again while tries and age last; armed means that
-- nobody can know. Rows that another worker or reaper is deciding are skipped, and every condition stands on the locked row.
create function reap_1(tries_max integer, most integer)
returns table (id uuid, becomes text) language plpgsql volatile as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
begin
  return query
  with out_of_time as materialized (
    select o.* from outbound o where o.status = 'sending' and o.lease_until < now_at
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
