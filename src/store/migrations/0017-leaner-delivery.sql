-- What a delivery costs in the database: an arm that reads its own rows and nothing else, and indexes that no plan can mistake for each other.

-- Arms claims, as arm_2, with fewer statements inside. `keys` are the claims' recipients, as their records have them (recipient_key, which never
-- changes), so that nobody looks for the records again.
create function arm_3(ids uuid[], epochs integer[], tokens bigint[], keys text[], node uuid, mark bigint)
returns table (id uuid, epoch integer, answer text, counter float8) language plpgsql volatile as $$
#variable_conflict use_column
declare
  raised float8;
begin
  perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;
  update delivering_nodes n set counter = n.counter + 1
   where n.id = node and n.counter >= mark and not exists (select from delivery_stops) returning n.counter::float8 into raised;
  if raised is null then
    if not exists (select from delivery_stops) then
      perform stop_delivery_1('fence', 'behind', json_build_object('node', (select n.name from delivering_nodes n where n.id = node), 'mark', mark,
        'counter', (select n.counter from delivering_nodes n where n.id = node)));
    end if;
    return query select a.id, a.epoch, 'halted', null::float8 from unnest(ids, epochs) as a (id, epoch);
    return;
  end if;
  return query
  with asked as materialized (
    select a.id, a.epoch, a.token, o.row,
           exists (select from suppressions x where x.workspace_id = o.workspace_id and x.recipient_key = a.key
                    and o.destination <> 'simulator.posthorn.test') suppressed
      from unnest(ids, epochs, tokens, keys) as a (id, epoch, token, key)
      cross join lateral (
        select x.ctid row, x.workspace_id, x.destination from outbound x where x.message_id = a.id and x.epoch = a.epoch and x.token = a.token
           and x.status = 'sending' and x.armed_epoch is null and (x.lease_until <= app_now()) is false limit 1) o
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

-- A claim finds the next of a workspace by one index and the next of a lane by another, and either could stand in for the other: planned while
-- the queue was short, a claim read all that a workspace had queued. Each now has a condition that is always true, and that the statement says only
-- where it means that index. (A worker of the release before this one claims without an index while both run: slowly, and rightly.)
create index outbound_turns on outbound (workspace_id, due_at, message_id) where lease_until is null and attempts >= 0;
create index outbound_lanes on outbound (workspace_id, destination, due_at, message_id) where lease_until is null and destination <> '';
drop index outbound_turn;
drop index outbound_due;

-- A page of a backlog is claimed as a whole, before anything in it can be cleaned up: there must be room for each row's next version, or it goes to another
-- page and into every index. (Of 40,000 changes of 20,000 records 15,823 did at a fillfactor of 85.)
alter table outbound set (fillfactor = 45);

create or replace function ensure_partitions(since timestamptz, til timestamptz) returns integer language plpgsql as $$
declare
  plan record;
  period bigint;
  made integer := 0;
  name text;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn partitions'));
  for plan in select * from partition_days() loop
    for period in select generate_series(floor(extract(epoch from since) / (plan.days * 86400))::bigint,
                                         floor(extract(epoch from til) / (plan.days * 86400))::bigint) loop
      name := format('%s_%s', plan.parent, to_char(to_timestamp(period * plan.days * 86400) at time zone 'UTC', 'YYYYMMDD'));
      continue when to_regclass(name) is not null;
      execute format('create table %I partition of %I for values from (%L) to (%L)', name, plan.parent,
        uuid_floor(to_timestamp(period * plan.days * 86400)), uuid_floor(to_timestamp((period + 1) * plan.days * 86400)));
      if plan.parent in ('messages') then
        execute format('alter table %I set (fillfactor = 50)', name);
      end if;
      made := made + 1;
    end loop;
  end loop;
  return made;
end $$;

do $$
declare
  partition regclass;
begin
  for partition in select i.inhrelid::regclass from pg_inherits i where i.inhparent = 'messages'::regclass loop
    execute format('alter table %s set (fillfactor = 50)', partition);
  end loop;
end $$;
