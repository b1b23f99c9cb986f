-- What waits in a blocked workspace is cancelled past a record that somebody else holds (an operator's psql, left open within a transaction): the command waited for one
-- until its time was over, and none of a thousand was cancelled. Those stay in the queue, and the command says how many. As `cancel_waiting_1` but for that; an older release
-- beside us calls that one. Record by record, by name (docs/decisions/0064).
create or replace function cancel_waiting_2(space uuid, most integer) returns integer language plpgsql as $$
declare
  now_at timestamptz := app_now();
  mine record;
  ids uuid[] := '{}';
begin
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
