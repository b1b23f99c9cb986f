-- What is kept, and for how long: old partitions are taken off and dropped, what a workspace does not want to keep goes at the end, and
-- nothing that is still to be sent ever goes.

-- A workspace may have its contents dropped as soon as a message is final.
alter table workspaces add column keeps_content boolean not null default true;

-- Prunes by age without an index that every insert would have to find its place in.
create index idempotency_keys_age on idempotency_keys using brin (created_at);

-- Since when a message's content counts as expired, or null: `keep_content_days` after its end, or at its end where the workspace wants
-- it. What reads a content asks this first, so that the reading is exact and the deleting may take its time.
create function content_expired_since(workspace uuid, finished timestamptz) returns timestamptz language sql stable as $$
  select case when since <= app_now() then since end from (
    select case when (select w.keeps_content from workspaces w where w.id = workspace) then
             finished + coalesce((select i.value from installation i where i.name = 'keep_content_days'), '7')::integer * interval '1 day'
           else finished end since) s
$$;

-- Partitions for two weeks ahead, without ever standing in somebody's way: making one asks for an instant's lock on the default partition,
-- which whoever reads for long (a backup) holds, and behind a lock that waits everybody waits. Answers null when it has to be tried later.
create function partitions_ahead_1() returns integer language plpgsql as $$
begin
  set local lock_timeout = '100ms';
  return ensure_partitions(app_now() - interval '1 day', app_now() + interval '14 days');
exception when lock_not_available or deadlock_detected then
  return null;
end $$;

-- The partitions that retention may take off, oldest first, with the instant at which each ends.
create function dated_partitions() returns table (parent text, child text, ends timestamptz, low uuid, high uuid)
language sql stable as $$
  select p.relname::text, c.relname::text,
         to_timestamp(('x' || substr(replace(bound[2], '-', ''), 1, 12))::bit(48)::bigint / 1000.0), bound[1]::uuid, bound[2]::uuid
    from pg_inherits i join pg_class p on p.oid = i.inhparent join pg_class c on c.oid = i.inhrelid
         cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \('([0-9a-f-]{36})'\) TO \('([0-9a-f-]{36})'\)$re$) bound
   where p.relnamespace = current_schema()::regnamespace and p.relname in (select d.parent from partition_days() d) and bound is not null
   order by 3, 1
$$;

-- Takes one old partition off its table: an instant's lock, and no wait for it longer than a tenth of a second, because everybody who sends
-- would wait behind us. `keep` gives days for each parent. What a message in the queue could still need stays, however old. Answers the
-- partition's new name, null when there is none to take, or 'busy'. One node at a time.
create function detach_expired_1(keep json) returns text language plpgsql as $$
declare
  old record;
begin
  if not pg_try_advisory_xact_lock(hashtext('posthorn retention')) then return null; end if;
  select d.* into old from dated_partitions() d
   where d.ends + (keep ->> d.parent)::integer * interval '1 day' < app_now()
     and not exists (select from outbound o where o.message_id >= d.low and o.message_id < uuid_floor(d.ends + interval '1 day'))
   limit 1;
  if not found then return null; end if;
  set local lock_timeout = '100ms';
  execute format('alter table %I detach partition %I', old.parent, old.child);
  execute format('alter table %I rename to %I', old.child, 'expired_' || old.child);
  return 'expired_' || old.child;
exception when lock_not_available or deadlock_detected then
  return 'busy';
end $$;

-- Drops one partition that was taken off: nobody but us knows it any more, so nobody waits. Answers its name, or null.
create function drop_expired_1() returns text language plpgsql as $$
declare
  name text;
begin
  if not pg_try_advisory_xact_lock(hashtext('posthorn retention')) then return null; end if;
  select c.relname into name from pg_class c
   where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and c.relname like 'expired\_%\_20%' order by 1 limit 1;
  if found then execute format('drop table %I', name); end if;
  return name;
end $$;

-- Deletes contents that a workspace does not keep after the end: up to `most` messages. Answers how many.
create function drop_unwanted_contents_1(most integer) returns integer language sql as $$
  with unwanted as materialized (
    select c.workspace_id, c.message_id, c.body_blob, c.shares_blobs from workspaces w
      cross join lateral (
        select x.* from contents x
         where x.workspace_id = w.id
           and exists (select from messages m where m.workspace_id = x.workspace_id and m.id = x.message_id and m.finished_at is not null)
         limit most) c
     where not w.keeps_content limit most
  ),
  content as (
    delete from contents c using unwanted u where c.workspace_id = u.workspace_id and c.message_id = u.message_id
  ),
  file as (
    delete from attachments a using unwanted u where a.workspace_id = u.workspace_id and a.message_id = u.message_id 
    returning a.blob_id, u.shares_blobs
  ),
  blob as (
    -- what other recipients of the same DATA still need goes with its partition
    delete from blobs b using (select f.blob_id from file f where not f.shares_blobs
                               union select u.body_blob from unwanted u where u.body_blob is not null and not u.shares_blobs) gone
     where b.id = gone.blob_id
  )
  select count(*)::integer from unwanted
$$;
