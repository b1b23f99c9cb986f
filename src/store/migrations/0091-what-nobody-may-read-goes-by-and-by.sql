-- Content of workspaces that keep none went 1,000 messages at a time, whatever their attachments weigh: some gigabytes in one statement, which does not end within its time on
-- most disks, so that nothing of it went, in any round. And each bite began at the first content of the workspace: it passed all that had gone before it and is not cleaned up yet, and all mail
-- that waits. Now a bite of one workspace begins where the last one ended, looks at a number of contents, and takes of those that lie apart as few at a time as a removal does
-- (docs/decisions/0067). It answers where it ended; null at the end.
create or replace function drop_unwanted_contents_2(space uuid, after uuid, most integer, blobs_most integer) returns uuid language sql as $$
  with seen as materialized (
    select c.message_id, c.body_blob, c.shares_blobs from contents c
     where c.workspace_id = space and c.message_id > after and exists (select from workspaces w where w.id = space and not w.keeps_content)
     order by c.message_id limit most),
  final as materialized (
    -- content by content: as a join it went along all records that are kept
    select s.*, s.body_blob is not null or exists (select from attachments a where a.workspace_id = space and a.message_id = s.message_id) apart
      from seen s cross join lateral (select m.finished_at from messages m where m.workspace_id = space and m.id = s.message_id limit 1) record
     where record.finished_at is not null),
  turns as materialized (
    select f.*, count(*) filter (where f.apart) over (order by f.message_id) nth from final f),
  unwanted as materialized (
    select t.* from turns t where t.nth <= blobs_most),
  content as (
    delete from contents c using unwanted u where c.workspace_id = space and c.message_id = u.message_id),
  file as (
    delete from attachments a using unwanted u where a.workspace_id = space and a.message_id = u.message_id
    returning a.blob_id, u.shares_blobs),
  blob as (
    -- what other recipients of the same DATA still need goes with its partition
    delete from blobs b using (select f.blob_id from file f where not f.shares_blobs
                               union select u.body_blob from unwanted u where u.body_blob is not null and not u.shares_blobs) gone
     where b.id = gone.blob_id)
  select case when (select count(*) from turns) > (select count(*) from unwanted)
              then (select u.message_id from unwanted u order by u.message_id desc limit 1)
              else (select s.message_id from seen s order by s.message_id desc limit 1) end
$$;
