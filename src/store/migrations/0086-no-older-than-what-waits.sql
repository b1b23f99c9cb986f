-- Two things that the exploration (test/exploration) found, once what waits can be cancelled there, and the database's clock be set back, and one that a log did not say. Functions
-- that keep their names are asked and answer as before, so that a release beside us is heeded, too.
--
-- `recover --assume-sent-since` spares what was accepted after the stop, by the clock of the server that stopped. Where that clock is behind the one of the server before (a
-- standby, a machine that a backup is put back on), what was accepted last, and sent, was taken for younger than the stop, and sent a second time. So a stop is no older
-- than what waits: the newest of it by their ids, which follow the database's clock, are looked at.
create function stopped_at_1() returns timestamptz language sql stable as $$
  -- in whole milliseconds, which is what comes back from those who read it
  select case when newest.at > app_now() then date_trunc('milliseconds', newest.at + interval '999 microseconds') else app_now() end
    from (select max(m.created_at) at from (select x.workspace_id, x.message_id from outbound x order by x.message_id desc limit 1000) o
            cross join lateral (select x.created_at from messages x where x.workspace_id = o.workspace_id and x.id = o.message_id limit 1) m) newest
$$;

create or replace function stop_delivery_1(kind text, reason text, facts json) returns void language sql as $$
  insert into delivery_stops (kind, reason, facts, since) values (kind, reason, facts, stopped_at_1()) on conflict do nothing
$$;

-- As in 0083, but for the time of a stop that came over.
create or replace function check_in_1(node uuid, node_name text, mark bigint, mark_era bigint, forgotten_ms bigint)
  returns table(counter double precision, era double precision, trouble text, server_known boolean) language plpgsql as $$
#variable_conflict use_column
declare
  here record;
  mine delivering_nodes;
  era_now bigint;
  first_use boolean;
  found_wrong text;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn check-in'));
  select * into here from delivery_server();
  select * into mine from delivering_nodes n where n.id = node for update;
  -- A stop that stands here since before this server took over may have been over by then, and delivery gone on: it stands since now.
  if here.timeline <> (select i.value from installation i where i.name in ('timeline', 'timeline_seen') order by i.name desc limit 1) then
    delete from delivery_stops where kind = 'pause';
    update delivery_stops set since = stopped_at_1() where kind = 'fence';
  end if;
  perform remember_installation('timeline_seen', here.timeline);
  era_now := coalesce((select i.value::bigint from installation i where i.name = 'era'), 0);
  -- A database without a message has nothing that could be sent twice.
  first_use := not exists (select from messages);
  if mark_era > era_now then
    if first_use then
      era_now := mark_era;
      perform remember_installation('era', era_now::text);
    else
      perform remember_installation('era_seen', greatest(mark_era, (select i.value::bigint from installation i where i.name = 'era_seen'))::text);
    end if;
  end if;
  found_wrong := case
    when first_use then null
    when mark_era > era_now then 'behind'
    when mark_era = era_now and (mine.id is null or mine.counter < mark) then 'behind'
    -- A machine without a mark, over mail that others may have sent meanwhile. A node that delivers from this very database vouches for it, by
    -- a lock that no copy inherits; and where nobody ever delivered, or nobody since the operator decided, there is nothing to vouch for.
    when mark is null and exists (select from outbound)
      and exists (select from delivering_nodes n where n.counter > 0 and coalesce(n.era, era_now) = era_now)
      and not exists (select from pg_locks l where l.locktype = 'advisory' and l.classid = 7364 and l.objid = 2 and l.objsubid = 2 and l.granted
                       and l.database = (select d.oid from pg_database d where d.datname = current_database())) then 'no_mark'
    when here.system_identifier <> (select i.value from installation i where i.name = 'system_identifier') then 'another_server'
    end;
  if found_wrong is not null then
    perform stop_delivery_1('fence', found_wrong,
      json_build_object('node', node_name, 'mark', mark, 'counter', mine.counter, 'system', here.system_identifier));
  end if;

  insert into delivering_nodes as n (id, name, counter, timeline, confirmed_at, era)
    values (node, node_name, case when found_wrong is null then coalesce(mark, 0) else 0 end,
            case when found_wrong is null then here.timeline end, app_now(), case when found_wrong is null then era_now end)
    on conflict (id) do update
      set name = excluded.name, counter = greatest(n.counter, excluded.counter), timeline = coalesce(excluded.timeline, n.timeline),
          era = coalesce(excluded.era, n.era),
          confirmed_at = case when found_wrong is null then excluded.confirmed_at else n.confirmed_at end;

  if found_wrong is null then
    if first_use then
      perform remember_installation('system_identifier', here.system_identifier);
      perform remember_installation('timeline', here.timeline);
    end if;
    -- Servers that do not say who they are give nothing to compare.
    insert into installation (name, value)
      select v.name, v.value from (values ('system_identifier', here.system_identifier), ('timeline', here.timeline)) v (name, value)
       where v.value is not null
      on conflict do nothing;
    if here.timeline <> (select i.value from installation i where i.name = 'timeline') then
      -- A failover: what another node armed last may be lost, and only its own file knows. If it is the first that it ever armed, its row says nothing of it.
      if exists (select from delivering_nodes n where n.timeline is distinct from here.timeline and is_awaited_1(n.counter, n.confirmed_at, forgotten_ms)) then
        perform stop_delivery_1('pause', 'timeline', json_build_object('timeline', here.timeline));
      else
        perform remember_installation('timeline', here.timeline);
        delete from delivery_stops s where s.kind = 'pause';
      end if;
    end if;
  end if;
  return query
    select case when found_wrong is null then n.counter else coalesce(mark, 0) end::float8,
           case when found_wrong is null or mark is null then era_now else mark_era end::float8,
           found_wrong, here.system_identifier is not null and here.timeline is not null
      from delivering_nodes n where n.id = node;
end $$;

-- Behind a failover nobody knows of it before a node has compared itself: until then no stop stands here, and `workspace remove --cancel-queued` failed what the server before
-- had delivered (docs/decisions/0067: behind a changed timeline nothing is cancelled).
create function is_unknown_server_1() returns boolean language sql stable as $$
  select exists (select from delivery_server() here join installation i on i.name = 'system_identifier' and i.value <> here.system_identifier
                                                                         or i.name = 'timeline' and i.value <> here.timeline)
$$;

-- As in 0078, but for that.
create or replace function cancel_waiting_2(space uuid, most integer) returns integer language plpgsql as $$
declare
  now_at timestamptz := app_now();
  mine record;
  ids uuid[] := '{}';
begin
  if is_unknown_server_1() then return 0; end if;
  for mine in
    select o.message_id, o.workspace_id from outbound o
     where o.workspace_id = space and o.lease_until is null and o.attempts >= 0
       and exists (select from workspaces w where w.id = space and w.status = 'blocked')
       and not exists (select from delivery_stops s where s.kind <> 'drain')
     order by o.due_at, o.message_id for update of o skip locked loop
    perform 1 from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id for no key update skip locked;
    -- A record that is not there holds up nothing.
    continue when not found and exists (select from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id);
    ids := ids || mine.message_id;
    exit when cardinality(ids) >= most;
  end loop;
  if cardinality(ids) = 0 then return 0; end if;

  with waiting as materialized (
    select o.workspace_id, o.message_id from outbound o where o.message_id = any (ids) order by o.message_id
  ),
  gone as (
    delete from outbound o using waiting x where o.message_id = x.message_id
  ),
  record as (
    update messages m
       set status = 'failed', sequence = m.sequence + 1, finished_at = now_at,
           error_message = 'The workspace was blocked before the message could be delivered.'
      from waiting x where m.workspace_id = x.workspace_id and m.id = x.message_id
    returning m.workspace_id, m.id, m.sequence, m.delivery_rank, m.error_message
  )
  insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
  select r.workspace_id, r.id, r.sequence, 'message.failed', 'failed', r.delivery_rank, now_at,
         json_build_object('reason', 'workspace_blocked', 'errorMessage', r.error_message)
    from record r;
  return cardinality(ids);
end $$;

-- As finish_1 of 0083, and it says what of it was handed back: the worker's log said `failed`, and nothing else, of what the database put back into the queue.
create function finish_2(batch json, ids uuid[]) returns table(id uuid, epoch integer, handed_back boolean) language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  done integer;
  failures text[] := '{}';
begin
  perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;
  -- Whoever lifts a stop has chosen behind these locks, or before them.
  if exists (select from delivery_stops where kind in ('fence', 'pause')) then
    failures := array(select e.id::text || ' ' || e.epoch from endings_of_2(batch) e where e.status = 'failed');
    batch := handed_back_1(batch);
  end if;

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
  select r.id, r.epoch, r.status = 'retrying' and r.id::text || ' ' || r.epoch = any (failures) from record r;

  get diagnostics done = row_count;
  if done < cardinality(ids) then
    return query select l.id, l.epoch, false from late_proof_1(batch) l;
  end if;
end $$;

create or replace function finish_1(batch json, ids uuid[]) returns table(id uuid, epoch integer) language sql as $$
  select f.id, f.epoch from finish_2(batch, ids) f
$$;
