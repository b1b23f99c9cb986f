-- A sender that did not hear what a claim of webhooks had brought (the connection was cut behind the commit) held those events under its name and knew nothing of them. Later events of
-- the same messages went before them, since what a node has in flight itself is no hindrance; and when the lease was over they had lost a try that nobody had made. Now each claim
-- has a name of its own, and what one took whose answer was lost is given back by that name. A result names its claim, too: one that is said twice, or too late, meets no other
-- claim of the same event, also where that is the same node's and has the same number. As `end_webhooks_2` but for that; an older release beside us calls that one.
create or replace function webhook_results_of_2(batch json)
  returns table (w uuid, m uuid, s integer, round integer, attempt integer, claim uuid, asked boolean, delivered boolean, trouble text, status smallint, ms integer,
                 excerpt text, delay_ms bigint, v integer)
  language sql immutable as $$
  select * from json_to_recordset(batch) as r (
    w uuid, m uuid, s integer, round integer, attempt integer, claim uuid, asked boolean, delivered boolean, trouble text, status smallint,
    ms integer, excerpt text, delay_ms bigint, v integer)
$$;

create or replace function end_webhooks_3(batch json, failing_ms double precision) returns table (workspace_id uuid, reason text) language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  long_ago timestamptz := app_now() - failing_ms * interval '1 millisecond';
begin
  -- Endpoints first, and then rows of the queue by their keys: `e.many` is known before the first of those is locked.
  perform 1
    from (
      with result as materialized (
        select r.w, r.m, r.s, r.asked, r.delivered, not r.delivered and r.delay_ms is null and r.status = 410 gone from webhook_results_of_2(batch) r),
      endpoint as materialized (
        select count(*) many
          from (select r.w, bool_or(r.delivered) well, bool_or(r.gone) gone from result r where r.asked group by r.w order by r.w) t
               cross join lateral (
                 select from webhook_endpoints e where e.workspace_id = t.w and ((e.failing_since is null) <> t.well or t.gone or e.failing_since <= long_ago)
                  limit 1 for update) e
      )
      select locked.many from endpoint e cross join lateral (
        select count(*) many
          from (select r.w, r.m, r.s from result r where e.many >= 0 order by r.w, r.m, r.s) r
               cross join lateral (
                 select from webhook_queue q where q.workspace_id = r.w and q.message_id = r.m and q.sequence = r.s limit 1 for update) q
      ) locked
    ) both_kinds where both_kinds.many >= 0;

  return query
  with ended as materialized (
    select r.*, q.row from webhook_results_of_2(batch) r left join lateral (
      select x.ctid row from webhook_queue x
       where x.workspace_id = r.w and x.message_id = r.m and x.sequence = r.s and x.lease_owner = r.claim limit 1) q on true
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
    select e.w, bool_or(e.delivered) well, bool_or(not e.delivered and e.delay_ms is null and e.status = 410 and e.row is not null) gone,
           -- Of the versions that answered so, the newest; null where an older release has not said.
           max(e.v) filter (where not e.delivered and e.delay_ms is null and e.status = 410 and e.row is not null) gone_version,
           max(e.v) filter (where not e.delivered) failed_version
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
        select e.workspace_id, e.version,
               case when e.state <> 'active' then null
                    when t.gone and coalesce(t.gone_version, e.version) = e.version then 'receiver_gone'
                    when t.well then null
                    when e.failing_since <= long_ago then 'no_success' end why
          from webhook_endpoints e
         where e.workspace_id = t.w and ((e.failing_since is null) <> t.well or t.gone or e.failing_since <= long_ago)
           and (t.well or coalesce(t.failed_version, e.version) = e.version) limit 1) x
     where p.workspace_id = x.workspace_id and p.version = x.version
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
