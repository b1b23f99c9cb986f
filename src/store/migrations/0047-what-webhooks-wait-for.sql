-- What an active endpoint has still to be told is kept, however old its message is: where nobody posted for longer than events are kept (a service
-- that was off, a long drain), retention took the events away before their webhooks went out, and their customers never heard.

-- Of the oldest message that the webhooks of any active endpoint speak of; null where none wait.
create or replace function oldest_untold_1() returns uuid language sql stable as $$
  select q.message_id from webhook_endpoints e
    cross join lateral (select x.message_id from webhook_queue x where x.workspace_id = e.workspace_id order by x.message_id limit 1) q
   where e.state = 'active' order by q.message_id limit 1
$$;

-- As detach_expired_1. The body of a webhook is made of these three.
create or replace function detach_expired_2(keep json) returns text language plpgsql as $$
declare
  old record;
begin
  if not pg_try_advisory_xact_lock(hashtext('posthorn retention')) then return null; end if;
  select d.* into old from dated_partitions() d
   where d.ends + (keep ->> d.parent)::integer * interval '1 day' < app_now()
     and not exists (select from outbound o where o.message_id >= d.low and o.message_id < uuid_floor(d.ends + interval '1 day'))
     and not (d.parent in ('messages', 'events', 'reports') and exists (
       select from webhook_endpoints e cross join lateral (
         select from webhook_queue q where q.workspace_id = e.workspace_id and q.message_id >= d.low and q.message_id < d.high limit 1) waits
        where e.state = 'active'))
   limit 1;
  if not found then return null; end if;
  set local lock_timeout = '100ms';
  execute format('alter table %I detach partition %I', old.parent, old.child);
  execute format('alter table %I rename to %I', old.child, 'expired_' || old.child);
  return 'expired_' || old.child;
exception when lock_not_available or deadlock_detected then
  return 'busy';
end $$;

-- As delete_astray_1.
create or replace function delete_astray_2(keep json, most integer) returns integer language plpgsql as $$
declare
  plan record;
  gone integer;
  most_gone integer := 0;
  -- What the queues may still need, as detach_expired_2 has it.
  needed timestamptz := (select to_timestamp(('x' || substr(replace(o.message_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) - interval '1 day'
                           from outbound o order by o.message_id limit 1);
  untold uuid := oldest_untold_1();
begin
  if not pg_try_advisory_xact_lock(hashtext('posthorn retention')) then return 0; end if;
  for plan in select p.parent || '_default' astray, case when p.parent in ('messages', 'blobs') then 'id' else 'message_id' end key, p.days,
                     app_now() - (keep ->> p.parent)::integer * interval '1 day' kept_since,
                     case when p.parent in ('messages', 'reports') then 'created_at' when p.parent = 'events' then 'occurred_at'
                          when p.parent in ('attempts', 'webhook_attempts') then 'ended_at' end written,
                     case when p.parent in ('messages', 'events', 'reports') then untold end untold
                from partition_days() p loop
    execute format('delete from %I where ctid = any (array(select ctid from %1$I where %I < %L%s%s limit %s))', plan.astray, plan.key,
      uuid_floor(least(plan.kept_since - plan.days * interval '1 day', needed)),
      case when plan.written is not null then format(' and %I < %L', plan.written, plan.kept_since) end,
      case when plan.untold is not null then format(' and %I < %L', plan.key, plan.untold) end, most);
    get diagnostics gone = row_count;
    most_gone := greatest(most_gone, gone);
  end loop;
  return most_gone;
end $$;
