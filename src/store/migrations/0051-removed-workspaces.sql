-- A workspace can be removed, with all that is its own (docs/decisions/0067). That takes as long as it takes, in bites, and whoever dies in the middle of it
-- leaves it to be carried on. A release before takes a workspace that is being removed for one that is blocked, cannot unblock it, and nothing is admitted
-- for it on any release: its row of quota, which every admission locks, goes first.

alter table workspaces
  add column removing_since timestamptz,
  add constraint blocked_while_removing check (removing_since is null or status = 'blocked');
create index workspaces_removing on workspaces (id) where removing_since is not null;

-- What was under way elsewhere may write a row of it yet (the log of a webhook, the reply in a journal): for a while they are looked for.
create table removed_workspaces (
  id uuid primary key,
  removed_at timestamptz not null default app_now()
);

-- An admission holds the row of quota until it is committed: behind this lock all that was admitted is seen, and behind this commit nothing is.
create or replace function begin_removal_1(space uuid) returns text language plpgsql as $$
begin
  perform 1 from usage u where u.workspace_id = space for update;
  if exists (select from outbound o where o.workspace_id = space and o.lease_until is null and o.attempts >= 0)
     or exists (select from outbound o where o.workspace_id = space and o.lease_until is not null) then
    return 'unfinished';
  end if;
  update workspaces w set status = 'blocked', removing_since = coalesce(w.removing_since, app_now()) where w.id = space;
  delete from usage u where u.workspace_id = space;
  return 'begun';
end $$;

-- What waits, and nobody has claimed: it was surely not sent. As a claim fails the mail of a blocked workspace. Behind a restored database, or another timeline,
-- what waits may have been sent: then none.
create or replace function cancel_waiting_1(space uuid, most integer) returns integer language plpgsql as $$
declare
  now_at timestamptz := app_now();
  ids uuid[];
begin
  ids := array(
    select o.message_id from outbound o
     where o.workspace_id = space and o.lease_until is null and o.attempts >= 0
       and exists (select from workspaces w where w.id = space and w.status = 'blocked')
       and not exists (select from delivery_stops s where s.kind <> 'drain')
     order by o.due_at, o.message_id limit most for update of o skip locked);
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

-- The table itself, or its partitions, and those that retention has taken off and not dropped yet.
create or replace function leaves_of_1(parent text) returns setof text language sql stable as $$
  select c.relname::text from pg_class c
   where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
     and (c.relname = parent or c.relname like 'expired\_' || replace(parent, '_', '\_') || '\_20%'
          or c.oid in (select t.relid from pg_partition_tree(parent::regclass) t where t.isleaf))
   order by 1
$$;

-- Up to so many rows, in the order of those keys, from where the last bite ended: behind it lies what is gone, and cannot be cleaned up yet. What somebody has
-- locked is passed by: nobody waits for us, nor we for them.
create or replace function erase_rows_1(parent text, keys text[], space uuid, most integer, from_leaf text, from_keys text[])
  returns table (many integer, leaf text, last text[]) language plpgsql as $$
declare
  named constant text := (select string_agg(format(', %I', k), '') from unnest(keys) k);
  taken integer;
  name text;
begin
  many := 0;
  for name in select l from leaves_of_1(parent) l where from_leaf is null or l >= from_leaf loop
    begin
      execute format('with seen as materialized (
                        select ctid row%2$s from %1$I where workspace_id = $1%3$s order by workspace_id%2$s limit $2 for update skip locked),
                      gone as (delete from %1$I where ctid = any (array(select s.row from seen s)) returning 1)
                      select (select count(*)::integer from gone), (select array[%4$s]::text[] from seen s order by %5$s limit 1)',
          name, named,
          case when name = from_leaf and cardinality(from_keys) > 0 then
            format(' and (%s) >= (%s)', substr(named, 3), (select string_agg(format('%L', v), ', ') from unnest(from_keys) v)) end,
          substr(named, 3), coalesce((select string_agg(format('s.%I desc', k), ', ') from unnest(keys) k), '1'))
        into taken, last using space, most - many;
      many := many + taken;
      leaf := name;
    exception when undefined_table then null; -- its time was over meanwhile
    end;
    exit when many >= most;
  end loop;
  return next;
end $$;

-- The same of contents or attachments, with their blobs, which name no workspace: no more than a few of those, for they are big.
create or replace function erase_contents_1(parent text, blob_column text, space uuid, most integer, blobs_most integer, from_leaf text, from_message uuid)
  returns table (many integer, leaf text, last uuid) language plpgsql as $$
declare
  ids uuid[];
  name text;
begin
  many := 0;
  for name in select l from leaves_of_1(parent) l where from_leaf is null or l >= from_leaf loop
    begin
      execute format('with seen as materialized (
                        select ctid row, message_id, %2$I blob from %1$I where workspace_id = $1 and message_id >= $4
                         order by workspace_id, message_id limit $2 for update skip locked),
                      turns as materialized (
                        select s.*, s.blob is null or row_number() over (partition by s.blob is null order by s.message_id) <= $3 goes from seen s),
                      gone as (delete from %1$I where ctid = any (array(select t.row from turns t where t.goes)) returning 1)
                      select (select count(*)::integer from gone), array(select t.blob from turns t where t.goes and t.blob is not null),
                             (select t.message_id from turns t order by t.goes, case when not t.goes then t.message_id end, t.message_id desc limit 1)',
          name, blob_column)
        into many, ids, last
        using space, most, blobs_most, case when name = from_leaf then from_message else '00000000-0000-0000-0000-000000000000' end;
      leaf := name;
      if cardinality(ids) > 0 then
        delete from blobs b where b.id = any (ids);
      end if;
    exception when undefined_table then many := 0;
    end;
    exit when many > 0;
  end loop;
  return next;
end $$;

-- Names a table that has a row of it yet, whichever release made that table; else the workspace is gone. What has no index for it is walked before.
create or replace function end_removal_1(space uuid) returns text language plpgsql as $$
declare
  name text;
  waits boolean;
begin
  perform 1 from workspaces w where w.id = space and w.removing_since is not null for update;
  if not found then return 'gone'; end if;
  if exists (select from outbound o where o.workspace_id = space and o.lease_until is null and o.attempts >= 0)
     or exists (select from outbound o where o.workspace_id = space and o.lease_until is not null) then
    return 'outbound';
  end if;
  for name in select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid
               where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attname = 'workspace_id' and not a.attisdropped
                 and exists (select from pg_index i where i.indrelid = c.oid and i.indkey[0] = a.attnum and i.indpred is null)
               order by 1 loop
    begin
      execute format('select exists (select from %I where workspace_id = $1)', name) into waits using space;
      if waits then return name; end if;
    exception when undefined_table then null;
    end;
  end loop;
  begin
    delete from workspaces w where w.id = space;
  exception when foreign_key_violation then
    return 'workspaces';
  end;
  insert into removed_workspaces (id) values (space) on conflict (id) do nothing;
  return 'removed';
end $$;
