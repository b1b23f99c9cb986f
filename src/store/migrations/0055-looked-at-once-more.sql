-- Between a claim and its arm there can be minutes: a message waits for a connection, and hosts are slow. What the claim looks at was not looked at again
-- but for suppressions, so that expired mail, and mail of a workspace that had been blocked meanwhile, of a mailbox that had been disabled or of a domain
-- that had failed, was sent all the same. Now an arm refuses them, in the order and the words of the claim. What is armed stays armed.
-- As arm_3, but for that: an older release beside us goes on with it, and knows no such answers.
create function arm_4(ids uuid[], epochs integer[], tokens bigint[], keys text[], node uuid, mark bigint)
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
                when not exists (select from workspaces w where w.id = o.workspace_id and w.status = 'active') then 'workspace_blocked'
                when not exists (
                  select from mailboxes b where b.workspace_id = o.workspace_id and b.id = o.mailbox_id and b.status = 'active'
                     and exists (select from domains d where d.workspace_id = b.workspace_id and d.id = b.domain_id and d.status in ('verified', 'degraded')))
                  then 'mailbox_not_active'
                when exists (select from suppressions x where x.workspace_id = o.workspace_id and x.recipient_key = a.key) then 'suppressed'
           end verdict
      from unnest(ids, epochs, tokens, keys) as a (id, epoch, token, key)
      cross join lateral (
        select x.ctid row, x.workspace_id, x.mailbox_id, x.expires_at from outbound x
         where x.message_id = a.id and x.epoch = a.epoch and x.token = a.token
           and x.status = 'sending' and x.armed_epoch is null and (x.lease_until <= app_now()) is false limit 1) o
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
