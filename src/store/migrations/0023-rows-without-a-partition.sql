-- Rows that found no partition lie in the default one: mail that came while a clock was wrong, or after a machine had slept longer than partitions were
-- made ahead; what is told of a message whose events are gone already. A partition could not be made over such rows: every round of housekeeping
-- and every start failed from then on. And nothing ever took them away.

-- As before; and what lies in the default partition moves into the one that is made. Where that would hold up everybody for long, it stays where
-- it is, and its time goes on there.
create or replace function ensure_partitions(since timestamptz, til timestamptz) returns integer language plpgsql as $$
declare
  plan record;
  period bigint;
  made integer := 0;
  name text;
  low uuid;
  high uuid;
  waits boolean;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn partitions'));
  for plan in select p.*, p.parent || '_default' astray, case when p.parent in ('messages', 'blobs') then 'id' else 'message_id' end key
                from partition_days() p loop
    for period in select generate_series(floor(extract(epoch from since) / (plan.days * 86400))::bigint,
                                         floor(extract(epoch from til) / (plan.days * 86400))::bigint) loop
      name := format('%s_%s', plan.parent, to_char(to_timestamp(period * plan.days * 86400) at time zone 'UTC', 'YYYYMMDD'));
      continue when to_regclass(name) is not null;
      low := uuid_floor(to_timestamp(period * plan.days * 86400));
      high := uuid_floor(to_timestamp((period + 1) * plan.days * 86400));
      execute format('select exists (select from %I where %I >= %L and %2$I < %4$L)', plan.astray, plan.key, low, high) into waits;
      if waits then
        continue when pg_total_relation_size(plan.astray::regclass) > 256 * 1024 * 1024;
        execute format('create table %I (like %I including all)', name, plan.parent);
        execute format('lock table %I in access exclusive mode', plan.astray);
        execute format('with moved as (delete from %I where %I >= %L and %2$I < %4$L returning *) insert into %I select * from moved',
          plan.astray, plan.key, low, high, name);
        execute format('alter table %I attach partition %I for values from (%L) to (%L)', plan.parent, name, low, high);
      else
        execute format('create table %I partition of %I for values from (%L) to (%L)', name, plan.parent, low, high);
      end if;
      if plan.parent in ('messages') then
        execute format('alter table %I set (fillfactor = 50)', name);
      end if;
      made := made + 1;
    end loop;
  end loop;
  return made;
end $$;

-- As before; and a row that came between the look and the lock is no failure.
create or replace function partitions_ahead_1() returns integer language plpgsql as $$
begin
  set local lock_timeout = '100ms';
  return ensure_partitions(app_now() - interval '1 day', app_now() + interval '14 days');
exception when lock_not_available or deadlock_detected or check_violation then
  return null;
end $$;

-- Deletes what is too old out of the default partitions, where nothing can be taken off as a whole: up to `most` rows of each. `keep` as for
-- detach_expired_1, counted from the row's own time too: what is told late is told about an old message. Answers the most that one of them lost.
create function delete_astray_1(keep json, most integer) returns integer language plpgsql as $$
declare
  plan record;
  gone integer;
  most_gone integer := 0;
  -- What the queue may still need, as detach_expired_1 has it.
  needed timestamptz := (select to_timestamp(('x' || substr(replace(o.message_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) - interval '1 day'
                           from outbound o order by o.message_id limit 1);
begin
  if not pg_try_advisory_xact_lock(hashtext('posthorn retention')) then return 0; end if;
  for plan in select p.parent || '_default' astray, case when p.parent in ('messages', 'blobs') then 'id' else 'message_id' end key, p.days,
                     app_now() - (keep ->> p.parent)::integer * interval '1 day' kept_since,
                     case when p.parent in ('messages', 'reports') then 'created_at' when p.parent = 'events' then 'occurred_at'
                          when p.parent in ('attempts', 'webhook_attempts') then 'ended_at' end written
                from partition_days() p loop
    execute format('delete from %I where ctid = any (array(select ctid from %1$I where %I < %L%s limit %s))', plan.astray, plan.key,
      uuid_floor(least(plan.kept_since - plan.days * interval '1 day', needed)),
      case when plan.written is not null then format(' and %I < %L', plan.written, plan.kept_since) end, most);
    get diagnostics gone = row_count;
    most_gone := greatest(most_gone, gone);
  end loop;
  return most_gone;
end $$;
