-- What stops delivery everywhere: the restore fence, a changed timeline, a drain; the nodes' own counters that the fence compares; and
-- replies to dots that a restored database knows nothing of.

-- One row for each node that delivers, raised in every statement that arms (arm_2). The node keeps the same number in a file, fsynced before
-- any dot of that statement: a row behind its file means that this database lost commits, by a restore or a failover.
create table delivering_nodes (
  id uuid primary key,
  name text not null,
  counter bigint not null default 0,
  -- Where it last showed that its row is not behind.
  timeline text,
  confirmed_at timestamptz not null default app_now()
) with (fillfactor = 10);

-- While a row stands here, nobody claims and nobody arms. `fence`: a restored database, an operator decides; `pause`: another timeline,
-- until the nodes have confirmed; `drain`: an operator's wish.
create table delivery_stops (
  kind text primary key check (kind in ('fence', 'pause', 'drain')),
  reason text not null,
  facts json,
  since timestamptz not null default app_now()
);
create function tell_delivery_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('posthorn_delivery', '');
  return null;
end $$;
create trigger delivery_changed after insert or update or delete on delivery_stops
  for each statement execute function tell_delivery_changed();

-- Replies out of a node's journal that no claim of this database explains. They are applied when the operator has decided.
create table orphaned_replies (
  workspace_id uuid not null,
  message_id uuid not null,
  epoch integer not null,
  token bigint not null,
  ending json not null,
  heard_at timestamptz not null default app_now(),
  primary key (workspace_id, message_id, epoch, token)
);

create function stop_delivery_1(kind text, reason text, facts json) returns void language sql volatile as $$
  insert into delivery_stops (kind, reason, facts) values (kind, reason, facts) on conflict do nothing
$$;

-- Which server this is: the cluster's identifier, and the timeline that it writes. Null where the role may not ask, or the service that runs
-- the server does not say.
create function delivery_server(out system_identifier text, out timeline text) language plpgsql stable as $$
begin
  begin
    system_identifier := (select s.system_identifier::text from pg_control_system() s);
  exception when others then null;
  end;
  begin
    timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
  exception when others then null;
  end;
end $$;

create function remember_installation(known_as text, known text) returns void language sql volatile as $$
  insert into installation (name, value) select known_as, known where known is not null
  on conflict (name) do update set value = excluded.value where installation.value <> excluded.value
$$;

-- A node compares itself with the database that it has just connected to. `mark` is what its file says (null: it has none); `mark_era` the
-- operator's last `recover` that it knew then. Trouble stops all nodes. Answers what the node is to keep in its file.
create function check_in_1(node uuid, node_name text, mark bigint, mark_era bigint, forgotten_ms bigint)
returns table (counter float8, era float8, trouble text, server_known boolean) language plpgsql volatile as $$
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
  era_now := coalesce((select i.value::bigint from installation i where i.name = 'era'), 0);
  -- A database without a message has nothing that could be sent twice.
  first_use := not exists (select from messages);
  found_wrong := case
    when first_use then null
    when mark_era > era_now then 'behind'
    when mark_era = era_now and (mine.id is null or mine.counter < mark) then 'behind'
    -- A machine without a mark, over mail that others may have sent meanwhile. A node that delivers from this very database vouches for it, by
    -- a lock that no copy inherits; and where nobody ever delivered there is nothing to vouch for.
    when mark is null and exists (select from outbound) and exists (select from delivering_nodes n where n.counter > 0)
      and not exists (select from pg_locks l where l.locktype = 'advisory' and l.classid = 7364 and l.objid = 2 and l.objsubid = 2 and l.granted
                       and l.database = (select d.oid from pg_database d where d.datname = current_database())) then 'no_mark'
    when here.system_identifier <> (select i.value from installation i where i.name = 'system_identifier') then 'another_server'
    end;
  if found_wrong is not null then
    perform stop_delivery_1('fence', found_wrong,
      json_build_object('node', node_name, 'mark', mark, 'counter', mine.counter, 'system', here.system_identifier));
  end if;

  insert into delivering_nodes as n (id, name, counter, timeline, confirmed_at)
    values (node, node_name, case when found_wrong is null then coalesce(mark, 0) else 0 end,
            case when found_wrong is null then here.timeline end, app_now())
    on conflict (id) do update
      set name = excluded.name, counter = greatest(n.counter, excluded.counter), timeline = coalesce(excluded.timeline, n.timeline),
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
      -- A failover: what another node armed last may be lost, and only its own file knows.
      if exists (select from delivering_nodes n where n.counter > 0 and n.timeline is distinct from here.timeline
                    and n.confirmed_at > app_now() - forgotten_ms * interval '1 millisecond') then
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

-- Arms claims, as arm_1, unless delivery is stopped; and raises the node's counter, unless it is behind what the node knows. The new value
-- comes back with each answer.
create function arm_2(ids uuid[], epochs integer[], tokens bigint[], node uuid, mark bigint)
returns table (id uuid, epoch integer, answer text, counter float8) language plpgsql volatile as $$
#variable_conflict use_column
declare
  raised float8;
begin
  if not exists (select from delivery_stops) then
    perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;
    update delivering_nodes n set counter = n.counter + 1 where n.id = node and n.counter >= mark returning n.counter::float8 into raised;
    if raised is null then
      perform stop_delivery_1('fence', 'behind', json_build_object('node', (select n.name from delivering_nodes n where n.id = node), 'mark', mark,
        'counter', (select n.counter from delivering_nodes n where n.id = node)));
    end if;
  end if;
  if raised is null then
    return query select a.id, a.epoch, 'halted', null::float8 from unnest(ids, epochs) as a (id, epoch);
    return;
  end if;
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
  select a.message_id, a.epoch, 'armed', raised from armed a
  union all
  select j.id, j.epoch, 'suppressed', raised from asked j where j.suppressed;
end $$;

-- Replies out of a journal. A reply whose claim stands armed, or became delivery_unknown, is written down as ever. One that the database cannot
-- explain - accepted, yet queued, retrying, or never armed; or of a claim that is still to come - proves that it was restored.
create function replay_1(batch json) returns table (id uuid, epoch integer, answer text) language plpgsql volatile as $$
#variable_conflict use_column
declare
  explained json;
begin
  perform 1 from outbound o where o.message_id = any (array(select (value ->> 'id')::uuid from json_array_elements(batch)))
    order by o.message_id for update;
  return query
  with told as materialized (
    select value ending, e.id, e.w, e.epoch, e.token, e.status,
           o.message_id is not null and (e.status = 'sent' or o.epoch < e.epoch)
             and not (o.status = 'sending' and o.epoch = e.epoch and o.token = e.token and o.armed_epoch is not distinct from e.epoch) orphan,
           exists (select from messages m where m.workspace_id = e.w and m.id = e.id) known
      from json_array_elements(batch) cross join lateral endings_of(json_build_array(value)) e
      left join lateral (select x.* from outbound x where x.message_id = e.id and x.workspace_id = e.w limit 1) o on true
  ),
  kept as (
    insert into orphaned_replies (workspace_id, message_id, epoch, token, ending)
    select t.w, t.id, t.epoch, t.token, t.ending from told t where t.orphan on conflict do nothing
  ),
  stopped as materialized (
    select stop_delivery_1('fence', 'orphaned_reply', json_build_object('messageId', min(t.id::text))) from told t where t.orphan having count(*) > 0
  )
  select t.id, t.epoch, case when t.orphan then 'orphan' when t.known then 'known' else 'gone' end from told t left join stopped on true;
  explained := (select coalesce(json_agg(value), '[]') from json_array_elements(batch)
    where not exists (select from orphaned_replies r where r.message_id = (value ->> 'id')::uuid and r.epoch = (value ->> 'epoch')::integer
                        and r.token = (value ->> 'token')::bigint));
  perform 1 from finish_1(explained, array(select (value ->> 'id')::uuid from json_array_elements(explained)));
end $$;

-- The operator's word that queued mail may have been sent (decisions B, the last row): everything of the queue that could be transmitted between
-- `since` and the moment when delivery stopped becomes delivery_unknown, some rows at a time. Answers how many, and where to go on.
create function assume_sent_1(since timestamptz, till timestamptz, after uuid, most integer)
returns table (moved integer, last uuid) language plpgsql volatile as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
begin
  return query
  with seen as materialized (
    select o.* from outbound o where o.message_id > after order by o.message_id limit most for update
  ),
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

-- The operator has decided: replies that waited for it are written down, every node's mark counts from here on, and delivery goes on.
create function lift_fence_1() returns table (settled integer) language plpgsql volatile as $$
declare
  here record;
  written integer;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn check-in'));
  perform 1 from outbound o where o.message_id = any (array(select r.message_id from orphaned_replies r)) order by o.message_id for update;
  with waiting as materialized (
    select distinct on (r.message_id) r.workspace_id w, r.message_id id, r.epoch, r.token, o.attempts
      from orphaned_replies r join outbound o on o.message_id = r.message_id and o.workspace_id = r.workspace_id
     order by r.message_id, (r.ending ->> 'status' = 'sent') desc, r.epoch desc
  ),
  gone as (delete from outbound o using waiting c where o.message_id = c.id),
  record as (
    update messages m
       set status = 'delivery_unknown', sequence = m.sequence + 1, finished_at = app_now(),
           error_message = 'The database was restored. A node that had sent the message still holds the reply.',
           armed_epoch = c.epoch, armed_token = c.token
      from waiting c where m.workspace_id = c.w and m.id = c.id
    returning m.workspace_id, m.id, m.sequence, m.delivery_rank, m.error_message, c.attempts
  )
  insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
  select r.workspace_id, r.id, r.sequence, 'message.delivery_unknown', 'delivery_unknown', r.delivery_rank, app_now(),
         json_build_object('attempt', r.attempts, 'reason', 'assumed_sent', 'errorMessage', r.error_message)
    from record r;
  -- What `assume_sent_1` moved already names no claim: the reply names it now.
  update messages m set armed_epoch = r.epoch, armed_token = r.token from orphaned_replies r
   where m.workspace_id = r.workspace_id and m.id = r.message_id and m.status = 'delivery_unknown' and m.armed_epoch is null
     and r.ending ->> 'status' = 'sent';
  select count(*)::integer into written from late_proof_1((select coalesce(json_agg(r.ending), '[]') from orphaned_replies r));
  delete from orphaned_replies;
  select * into here from delivery_server();
  perform remember_installation('system_identifier', here.system_identifier);
  perform remember_installation('timeline', here.timeline);
  -- Later than every era before, also than those that a restore has forgotten.
  perform remember_installation('era', (extract(epoch from clock_timestamp()) * 1000)::bigint::text);
  delete from delivery_stops where kind in ('fence', 'pause');
  return query select written;
end $$;
