-- The end of a removal looked for rows of the workspace in all tables, in one statement, with the workspace locked. While somebody holds a snapshot (a backup, say) an index keeps all
-- that the removal has deleted, and the look goes along it: 21 s for 400,000 messages on a busy machine, so that of a larger one no end came within the time of a statement. Now
-- each table and partition is looked at by itself, and nothing is locked meanwhile; what comes behind the look is swept, as what comes behind the end (docs/decisions/0067).
create or replace function has_row_1(name text, space uuid) returns boolean language plpgsql stable as $$
declare
  there boolean;
begin
  execute format('select exists (select from %I where workspace_id = $1)', name) into there using space;
  return there;
exception when undefined_table then
  return false; -- its time was over meanwhile
end $$;

create or replace function end_removal_2(space uuid) returns text language plpgsql as $$
begin
  perform 1 from workspaces w where w.id = space and w.removing_since is not null for update;
  if not found then return 'gone'; end if;
  if exists (select from outbound o where o.workspace_id = space and o.lease_until is null and o.attempts >= 0)
     or exists (select from outbound o where o.workspace_id = space and o.lease_until is not null) then
    return 'outbound';
  end if;
  begin
    delete from workspaces w where w.id = space;
  exception when foreign_key_violation then
    return 'workspaces';
  end;
  insert into removed_workspaces (id) values (space) on conflict (id) do nothing;
  return 'removed';
end $$;
