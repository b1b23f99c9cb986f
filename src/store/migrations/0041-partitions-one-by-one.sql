-- Partitions are made one by one, each in a transaction of its own. All that were missing were made in one: whoever sends waited for the tables that it
-- had already, while it waited for those that they held, until it gave up. Under a steady load it gave up each time, and mail and events would have
-- gone to the default partitions in the end. Older releases still call partitions_ahead_1.

-- As before, and no more than `most` of them.
create or replace function ensure_partitions(since timestamptz, til timestamptz, most integer) returns integer language plpgsql as $$
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
      if made = most then return made; end if;
    end loop;
  end loop;
  return made;
end $$;

create or replace function ensure_partitions(since timestamptz, til timestamptz) returns integer language sql as $$
  select ensure_partitions(since, til, 2147483647)
$$;

-- Answers how many it has made, one or none; null: its table is in use.
create or replace function partitions_ahead_2() returns integer language plpgsql as $$
begin
  set local lock_timeout = '100ms';
  return ensure_partitions(app_now() - interval '1 day', app_now() + interval '14 days', 1);
exception when lock_not_available or deadlock_detected or check_violation then
  return null;
end $$;
