-- What is kept for years lay in as many partitions as for days: content of 1,000 days in 500 for each of its tables. A statement that looks into them locks all of them, each time, so one claim
-- held 2,386 locks (of 15,000 that the embedded server has room for, and 9,000 on another: "out of shared memory" with a few side by side), and took 150 ms. Now they are as wide
-- as it takes for 64 to be kept, or fewer; with the usual times that is what they were. What there is already stays as it is, and what is made goes in between.

-- How wide: days, doubled until no more than 64 are kept. For how long everything is kept, housekeeping writes down.
create or replace function partition_days() returns table (parent text, days integer) language sql stable as $$
  select p.parent, p.days * (2 ^ greatest(0, ceil(log(2, kept.days / (64.0 * p.days)))))::integer
    from (values ('messages', 28, 'keep_records_days', 90), ('contents', 2, 'keep_content_days', 7), ('attachments', 2, 'keep_content_days', 7),
                 ('blobs', 2, 'keep_content_days', 7), ('events', 7, 'keep_events_days', 30), ('reports', 28, 'keep_records_days', 90),
                 ('attempts', 28, 'keep_records_days', 90), ('webhook_attempts', 7, 'keep_events_days', 30), ('scans', 28, 'keep_records_days', 90)) p (parent, days, kept, usual)
    cross join lateral (select greatest(1, coalesce((select i.value::integer from installation i where i.name = p.kept), p.usual)) days) kept
$$;

create or replace function instant_of(id uuid) returns timestamptz language sql immutable as $$
  select to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
$$;

-- One partition. False where rows wait in the one without dates, and are too many to be moved.
create or replace function make_partition_1(parent text, low timestamptz, high timestamptz) returns boolean language plpgsql as $$
declare
  name text := format('%s_%s', parent, to_char(low at time zone 'UTC', 'YYYYMMDD'));
  astray text := parent || '_default';
  key text := case when parent in ('messages', 'blobs') then 'id' else 'message_id' end;
  waits boolean;
begin
  execute format('select exists (select from %I where %I >= %L and %2$I < %4$L)', astray, key, uuid_floor(low), uuid_floor(high)) into waits;
  if waits then
    if pg_total_relation_size(astray::regclass) > 256 * 1024 * 1024 then return false; end if;
    execute format('create table %I (like %I including all)', name, parent);
    execute format('lock table %I in access exclusive mode', astray);
    execute format('with moved as (delete from %I where %I >= %L and %2$I < %4$L returning *) insert into %I select * from moved',
      astray, key, uuid_floor(low), uuid_floor(high), name);
    execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, name, uuid_floor(low), uuid_floor(high));
  else
    execute format('create table %I partition of %I for values from (%L) to (%L)', name, parent, uuid_floor(low), uuid_floor(high));
  end if;
  if parent = 'messages' then
    execute format('alter table %I set (fillfactor = 50)', name);
  end if;
  return true;
end $$;

-- As before, but for the width: what no partition covers between the two is divided where partitions of that width begin.
create or replace function ensure_partitions(since timestamptz, til timestamptz, most integer) returns integer language plpgsql as $$
declare
  lacking record;
  made integer := 0;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn partitions'));
  for lacking in
    with wide as materialized (select p.parent, p.days * 86400 seconds from partition_days() p),
    covered as materialized (
      select d.parent, range_agg(tstzrange(instant_of(d.low), d.ends)) of from dated_partitions() d group by 1),
    period as (
      select w.parent, tstzmultirange(tstzrange(to_timestamp(n * w.seconds), to_timestamp((n + 1) * w.seconds))) of
        from wide w cross join lateral generate_series(floor(extract(epoch from since) / w.seconds)::bigint, floor(extract(epoch from til) / w.seconds)::bigint) n)
    select p.parent, lower(gap) low, upper(gap) high
      from period p left join covered c on c.parent = p.parent
           cross join lateral unnest(p.of - coalesce(c.of, '{}')) gap
     where upper(gap) > since and lower(gap) <= til
     order by array_position(array['messages', 'contents', 'attachments', 'blobs', 'events', 'reports', 'attempts', 'webhook_attempts', 'scans'], p.parent), low
  loop
    continue when to_regclass(format('%s_%s', lacking.parent, to_char(lacking.low at time zone 'UTC', 'YYYYMMDD'))) is not null;
    if make_partition_1(lacking.parent, lacking.low, lacking.high) then
      made := made + 1;
      if made = most then return made; end if;
    end if;
  end loop;
  return made;
end $$;
