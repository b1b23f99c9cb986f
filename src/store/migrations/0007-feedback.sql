-- What receiving providers say after the SMTP session: reports matched to their messages, each recorded once; what matches nothing; and who
-- changed suppressions.

-- A report names its message by id alone, and the token says nothing about the workspace. Ids come in the order of time, so that an
-- admission adds to the end of this index. Without it a forged token would cost a walk over the whole record.
create index messages_id on messages (id);

-- Set when the domain's own return path host (a CNAME or MX to us) was seen in the DNS; until then the installation's is used (decisions C).
alter table domains add column if not exists return_path_host text;

-- Who added it, where a person did.
alter table suppressions add column created_by text;

-- What people and operators did. `workspace_id` is null where it concerns the installation.
create table audit_log (
  id uuid primary key,
  workspace_id uuid,
  at timestamptz not null default app_now(),
  actor text not null,
  action text not null,
  target text,
  facts json
);
create index audit_log_workspace on audit_log (workspace_id, id);

-- One row per report that was recorded: the same one again has no effect.
create table report_fingerprints (
  workspace_id uuid not null,
  message_id uuid not null,
  fingerprint bytea not null,
  seen_at timestamptz not null,
  primary key (workspace_id, message_id, fingerprint)
);
create index report_fingerprints_seen on report_fingerprints (seen_at);

-- The ids that relays gave to our messages. `route` is the workspace whose own relay it was, or the null UUID: the installation's.
create table relayed (
  route uuid not null,
  provider_id text not null,
  workspace_id uuid not null,
  message_id uuid not null,
  at timestamptz not null,
  primary key (route, provider_id, workspace_id, message_id)
);
create index relayed_at on relayed (at);

-- Feedback without effect, for operators. `content` is its beginning.
create table unmatched_feedback (
  id uuid primary key,
  received_at timestamptz not null default app_now(),
  reason text not null,
  source text not null,
  sender text not null,
  addressee text not null,
  facts json not null,
  size_bytes integer not null,
  content bytea not null
);
create index unmatched_feedback_received on unmatched_feedback (received_at);

create function reports_of(batch json) returns table (
  n integer, id uuid, w uuid, fingerprint text, type text, event text, rank smallint, detail text, bounce json, facts json, source text,
  reason text, rule text
) language sql immutable as $$
  select * from json_to_recordset(batch) as a (
    n integer, id uuid, w uuid, fingerprint text, type text, event text, rank smallint, detail text, bounce json, facts json, source text,
    reason text, rule text)
$$;

-- Records what providers reported: event, report, delivery rank and suppression of each report that is new and whose message was armed ever,
-- so that somebody can have received it. Locks the messages first, in id order; then looks, so that of two copies at the same time the
-- second one finds the first. The processing state is never touched. A message that has `events_max` events gets no more of them: whoever has its
-- mail can write reports about it. Answers every row: recorded, repeated, too_many, or not_armed.
create function record_report_1(batch json, events_max integer) returns table (n integer, answer text) language plpgsql volatile as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
begin
  perform 1 from (select distinct a.id, a.w from reports_of(batch) a order by a.id) named
    cross join lateral (select from messages m where m.workspace_id = named.w and m.id = named.id for update) locked;

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
