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
