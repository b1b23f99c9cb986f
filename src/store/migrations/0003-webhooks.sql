-- Webhooks: the endpoint of a workspace, the outbox that fills itself beside every event, the log of attempts, and reading events in the
-- order of their commits (decisions G).

---------------------------------------------------------------------------------------------------------------- the endpoint

create table webhook_endpoints (
  workspace_id uuid primary key references workspaces (id),
  url text not null,
  -- Null: all types.
  types text[],
  api_version text not null,
  state text not null default 'active' check (state in ('active', 'disabled')),
  reason text check (reason in ('by_hand', 'receiver_gone', 'no_success')),
  disabled_at timestamptz,
  secret_sealed bytea not null,
  -- Prepared by a rotation, not signing alone yet.
  next_sealed bytea,
  -- Replaced by a rotation; signs beside the new one until its time is over.
  previous_sealed bytea,
  previous_until timestamptz,
  -- The first failed attempt since the last success; null while all is well. Most events change nothing here.
  failing_since timestamptz,
  tested_at timestamptz,
  -- Counts changes that a sender must know, so that it can keep what it has read.
  version integer not null default 1,
  created_at timestamptz not null default app_now(),
  check ((state = 'disabled') = (reason is not null)),
  check ((previous_sealed is null) = (previous_until is null))
);
create index webhook_endpoints_active on webhook_endpoints (workspace_id) where state = 'active';

------------------------------------------------------------------------------------------------------------------ the outbox

-- One narrow row per event that is to be posted; gone when it has been, or when its tries are used up. `round` counts the ladders of eight:
-- sending by hand begins another one. Round and attempt together are the fence: a result counts only for the attempt that it belongs to.
create table webhook_queue (
  workspace_id uuid not null,
  message_id uuid not null,
  sequence integer not null,
  due_at timestamptz not null,
  round integer not null default 1,
  attempts integer not null default 0,
  lease_until timestamptz,
  lease_owner uuid,
  primary key (workspace_id, message_id, sequence),
  check ((lease_until is null) = (lease_owner is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
create index webhook_queue_due on webhook_queue (workspace_id, due_at, message_id, sequence) where lease_until is null;
create index webhook_queue_lease on webhook_queue (lease_until) where lease_until is not null;

-- Beside every event, in its transaction, whoever writes it. Costs one probe of an empty index where nobody has an endpoint. A test is put
-- into the queue by its own statement, whatever the endpoint's filter says.
create function queue_webhooks() returns trigger language plpgsql as $$
begin
  if not exists (select from webhook_endpoints where state = 'active') then
    return null;
  end if;
  insert into webhook_queue (workspace_id, message_id, sequence, due_at)
  select f.workspace_id, f.message_id, f.sequence, app_now()
    from fresh f cross join lateral (
      select from webhook_endpoints e
       where e.workspace_id = f.workspace_id and e.state = 'active' and (e.types is null or f.type = any (e.types)) limit 1) wanted
   where f.type <> 'webhook.test';
  if found then
    perform pg_notify('posthorn_webhooks', '');
  end if;
  return null;
end $$;
create trigger webhooks after insert on events referencing new table as fresh
  for each statement execute function queue_webhooks();

---------------------------------------------------------------------------------------------------------------------- the log

-- One row per ended attempt. What the receiver said is kept to 1 KB, and is a stranger's text.
create table webhook_attempts (
  workspace_id uuid not null,
  message_id uuid not null,
  sequence integer not null,
  round integer not null,
  attempt integer not null,
  ended_at timestamptz not null,
  delivered boolean not null,
  trouble text,
  status smallint,
  duration_ms integer,
  excerpt text,
  primary key (workspace_id, message_id, sequence, round, attempt)
) partition by range (message_id);
create table webhook_attempts_default partition of webhook_attempts default;

create or replace function partition_days() returns table (parent text, days integer) language sql immutable as $$
  values ('messages', 28), ('contents', 2), ('attachments', 2), ('blobs', 2), ('events', 7), ('reports', 28), ('attempts', 28),
         ('webhook_attempts', 7)
$$;

-- For readers that catch up.
create index events_tx on events (workspace_id, tx);

-- Events of a workspace by message, a page behind or before a place. They walk the key: without statistics a planner takes a page for the whole
-- table, reads everything and sorts it, so these may neither (decisions 0006).
create function events_behind_1(workspace uuid, message uuid, after integer, until uuid, most integer) returns setof events
language sql stable set enable_bitmapscan = off set enable_sort = off as $$
  select * from events e
   where e.workspace_id = workspace and (e.message_id, e.sequence) > (message, after) and e.message_id < until
   order by e.message_id, e.sequence limit most
$$;
create function events_before_1(workspace uuid, message uuid, before integer, most integer) returns setof events
language sql stable set enable_bitmapscan = off set enable_sort = off as $$
  select * from events e
   where e.workspace_id = workspace and (e.message_id, e.sequence) < (message, before)
   order by e.message_id desc, e.sequence desc limit most
$$;

--------------------------------------------------------------------------------------------------------------------- results

-- One row per ended attempt in a batch of results. `asked` false: no request was made, and the try is given back. `delay_ms` null: there is
-- no further try.
create function webhook_results_of(batch json)
returns table (w uuid, m uuid, s integer, round integer, attempt integer, asked boolean, delivered boolean, trouble text, status smallint,
               ms integer, excerpt text, delay_ms bigint)
language sql immutable as $$
  select * from json_to_recordset(batch) as r (
    w uuid, m uuid, s integer, round integer, attempt integer, asked boolean, delivered boolean, trouble text, status smallint,
    ms integer, excerpt text, delay_ms bigint)
$$;

-- Ends attempts: the log always, the queue row where it is still that attempt's, the endpoint where this changes it. Endpoints are locked
-- first, then queue rows, both in the order of their keys; most batches lock no endpoint. Answers the endpoints that were disabled, and a row
-- without a workspace where a later event of one of these messages waits to be claimed.
create function end_webhooks_1(batch json, owner uuid, failing_ms double precision)
returns table (workspace_id uuid, reason text)
language plpgsql volatile as $$
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
     select from webhook_queue q
      where q.workspace_id = e.w and q.message_id = e.m and q.sequence > e.s and q.lease_until is null and q.due_at <= now_at limit 1) later
    limit 1);
end $$;
