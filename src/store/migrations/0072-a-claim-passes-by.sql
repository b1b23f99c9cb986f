-- A claim can pass by messages whose records somebody else holds (an operator's psql, left open within a transaction), of which it looks at a thousand in each place. It waited
-- for them, with all that it had found in its hands, and the next one found the same. As `lock_due_1` and `lock_due_lane_1` where it need not: a claim that was not
-- held up knows of none. Record by record, by name (docs/decisions/0064); an older release beside us calls those.
create or replace function lock_due_2(space uuid, since timestamptz, most integer, past_held boolean)
 returns table (message_id uuid, workspace_id uuid, destination text, mailbox_id uuid, expires_at timestamptz, due_at timestamptz, epoch integer, attempts integer, "row" tid)
 language plpgsql rows 10 as $$
#variable_conflict use_column
declare
  mine record;
  many integer := 0;
begin
  if not past_held then
    return query
    select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
     where o.workspace_id = space and o.lease_until is null and o.attempts >= 0 and o.due_at >= since and o.due_at <= app_now()
     order by o.due_at, o.message_id limit most for update skip locked;
    return;
  end if;
  for mine in
    select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
     where o.workspace_id = space and o.lease_until is null and o.attempts >= 0 and o.due_at >= since and o.due_at <= app_now()
     order by o.due_at, o.message_id limit most + 1000 for update skip locked loop
    perform 1 from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id for no key update skip locked;
    continue when not found;
    return query select mine.message_id, mine.workspace_id, mine.destination, mine.mailbox_id, mine.expires_at, mine.due_at, mine.epoch, mine.attempts, mine.ctid;
    many := many + 1;
    exit when many >= most;
  end loop;
end $$;
create or replace function lock_due_lane_2(space uuid, lane text, since timestamptz, most integer, past_held boolean)
 returns table (message_id uuid, workspace_id uuid, destination text, mailbox_id uuid, expires_at timestamptz, due_at timestamptz, epoch integer, attempts integer, "row" tid)
 language plpgsql rows 10 as $$
#variable_conflict use_column
declare
  mine record;
  many integer := 0;
begin
  if not past_held then
    return query
    select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
     where o.workspace_id = space and o.destination = lane and o.lease_until is null and o.destination <> '' and o.due_at >= since and o.due_at <= app_now()
     order by o.due_at, o.message_id limit most for update skip locked;
    return;
  end if;
  for mine in
    select o.message_id, o.workspace_id, o.destination, o.mailbox_id, o.expires_at, o.due_at, o.epoch, o.attempts, o.ctid from outbound o
     where o.workspace_id = space and o.destination = lane and o.lease_until is null and o.destination <> '' and o.due_at >= since and o.due_at <= app_now()
     order by o.due_at, o.message_id limit most + 1000 for update skip locked loop
    perform 1 from messages m where m.workspace_id = mine.workspace_id and m.id = mine.message_id for no key update skip locked;
    continue when not found;
    return query select mine.message_id, mine.workspace_id, mine.destination, mine.mailbox_id, mine.expires_at, mine.due_at, mine.epoch, mine.attempts, mine.ctid;
    many := many + 1;
    exit when many >= most;
  end loop;
end $$;
