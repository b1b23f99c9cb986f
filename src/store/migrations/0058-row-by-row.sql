-- What an arm looks at once more (0055) stood in "exists" of a case. The planner may read the whole of their tables once instead, into a hash, where it
-- takes them for small: so it does on a new installation and behind a restore, and a connection keeps its plans for a minute. With 20,000 mailboxes and
-- domains filled in meanwhile an arm then took longer than 15 seconds, and all mail of that worker stood still. A lateral with a limit has to be
-- looked up row by row (decision 0006). Of mailboxes and domains other indexes begin with the workspace, too, and while there is one row they all look the
-- same to the planner: it took that of the addresses, and later read all mailboxes of a workspace. So their rows are asked for in the order of their
-- ids, which is the key's alone; between an id and itself, since for one that is equal no order would be needed.
-- As arm_4 in all that it answers: an older release beside us goes on with that.
create function arm_5(ids uuid[], epochs integer[], tokens bigint[], keys text[], node uuid, mark bigint)
 returns table(id uuid, epoch integer, answer text, counter double precision)
 language plpgsql set enable_sort = off as $$
#variable_conflict use_column
declare
  own tid;
  raised float8;
begin
  perform 1 from outbound o where o.message_id = any (ids) order by o.message_id for update;
  -- Held before it is raised: a row that changed under the second statement would look like a node that is behind.
  select n.ctid into own from delivering_nodes n where n.id = node order by n.thousand desc limit 1 for update;
  update delivering_nodes n set counter = n.counter + 1
   where n.ctid = own and n.counter >= mark and not exists (select from delivery_stops) returning n.counter::float8 into raised;
  if raised is null then
    if not exists (select from delivery_stops) then
      perform stop_delivery_1('fence', 'behind', json_build_object('node', (select n.name from delivering_nodes n where n.id = node), 'mark', mark,
        'counter', (select n.counter from delivering_nodes n where n.id = node)));
    end if;
    return query select a.id, a.epoch, 'halted', null::float8 from unnest(ids, epochs) as a (id, epoch);
    return;
  end if;
  return query
  with asked as materialized (
    select a.id, a.epoch, a.token, o.row,
           case when o.expires_at <= app_now() then 'expired'
                when w.active is null then 'workspace_blocked'
                when d.usable is null then 'mailbox_not_active'
                when s.suppressed then 'suppressed'
           end verdict
      from unnest(ids, epochs, tokens, keys) as a (id, epoch, token, key)
      cross join lateral (
        select x.ctid row, x.workspace_id, x.mailbox_id, x.expires_at from outbound x
         where x.message_id = a.id and x.epoch = a.epoch and x.token = a.token
           and x.status = 'sending' and x.armed_epoch is null and (x.lease_until <= app_now()) is false limit 1) o
      left join lateral (select true active from workspaces x where x.id = o.workspace_id and x.status = 'active' limit 1) w on true
      left join lateral (
        select x.domain_id from mailboxes x
         where x.workspace_id = o.workspace_id and x.id between o.mailbox_id and o.mailbox_id and x.status = 'active' order by x.id limit 1) b on true
      left join lateral (
        select true usable from domains x
         where x.workspace_id = o.workspace_id and x.id between b.domain_id and b.domain_id and x.status in ('verified', 'degraded') order by x.id limit 1) d on true
      left join lateral (select true suppressed from suppressions x where x.workspace_id = o.workspace_id and x.recipient_key = a.key limit 1) s on true
  ),
  armed as (
    update outbound o set armed_epoch = j.epoch from asked j
     where j.verdict is null and o.ctid = j.row
       and o.epoch = j.epoch and o.token = j.token and o.status = 'sending' and o.armed_epoch is null and (o.lease_until <= app_now()) is false
    returning o.message_id, o.epoch
  )
  select a.message_id, a.epoch, 'armed', raised from armed a
  union all
  select j.id, j.epoch, j.verdict, raised from asked j where j.verdict is not null;
end $$;

-- Which sender was refused over SMTP, as MAIL FROM or From named it: what support asks first, and the sentence of the refusal does not say. Null in what was
-- written before, and by a node of the release before.
alter table refused_submissions add column sender text;
