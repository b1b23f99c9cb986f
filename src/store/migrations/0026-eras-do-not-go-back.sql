-- An operator's decision (era) was named after the clock alone. One that was made while the clock was far ahead stood behind no later one: every node
-- that knew it was `behind` at once, again after each `recover`, until that time came. Now a decision is later than the last one, and than all that
-- nodes have told of, which a restored database has forgotten. And a database without a message takes over the era that a node knows, as it takes
-- over its counter: the node was `behind` from the first message on.

-- As before, but for what it does where the node knows of a later era.
create or replace function check_in_1(node uuid, node_name text, mark bigint, mark_era bigint, forgotten_ms bigint)
returns table (counter float8, era float8, trouble text, server_known boolean) language plpgsql volatile as $$
#variable_conflict use_column
declare
  here record;
  mine delivering_nodes;
  era_now bigint;
  first_use boolean;
  found_wrong text;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn check-in'));
  select * into here from delivery_server();
  select * into mine from delivering_nodes n where n.id = node for update;
  era_now := coalesce((select i.value::bigint from installation i where i.name = 'era'), 0);
  -- A database without a message has nothing that could be sent twice.
  first_use := not exists (select from messages);
  if mark_era > era_now then
    if first_use then
      era_now := mark_era;
      perform remember_installation('era', era_now::text);
    else
      perform remember_installation('era_seen', greatest(mark_era, (select i.value::bigint from installation i where i.name = 'era_seen'))::text);
    end if;
  end if;
  found_wrong := case
    when first_use then null
    when mark_era > era_now then 'behind'
    when mark_era = era_now and (mine.id is null or mine.counter < mark) then 'behind'
    -- A machine without a mark, over mail that others may have sent meanwhile. A node that delivers from this very database vouches for it, by
    -- a lock that no copy inherits; and where nobody ever delivered there is nothing to vouch for.
    when mark is null and exists (select from outbound) and exists (select from delivering_nodes n where n.counter > 0)
      and not exists (select from pg_locks l where l.locktype = 'advisory' and l.classid = 7364 and l.objid = 2 and l.objsubid = 2 and l.granted
                       and l.database = (select d.oid from pg_database d where d.datname = current_database())) then 'no_mark'
    when here.system_identifier <> (select i.value from installation i where i.name = 'system_identifier') then 'another_server'
    end;
  if found_wrong is not null then
    perform stop_delivery_1('fence', found_wrong,
      json_build_object('node', node_name, 'mark', mark, 'counter', mine.counter, 'system', here.system_identifier));
  end if;

  insert into delivering_nodes as n (id, name, counter, timeline, confirmed_at)
    values (node, node_name, case when found_wrong is null then coalesce(mark, 0) else 0 end,
            case when found_wrong is null then here.timeline end, app_now())
    on conflict (id) do update
      set name = excluded.name, counter = greatest(n.counter, excluded.counter), timeline = coalesce(excluded.timeline, n.timeline),
          confirmed_at = case when found_wrong is null then excluded.confirmed_at else n.confirmed_at end;

  if found_wrong is null then
    if first_use then
      perform remember_installation('system_identifier', here.system_identifier);
      perform remember_installation('timeline', here.timeline);
    end if;
    -- Servers that do not say who they are give nothing to compare.
    insert into installation (name, value)
      select v.name, v.value from (values ('system_identifier', here.system_identifier), ('timeline', here.timeline)) v (name, value)
       where v.value is not null
      on conflict do nothing;
    if here.timeline <> (select i.value from installation i where i.name = 'timeline') then
      -- A failover: what another node armed last may be lost, and only its own file knows.
      if exists (select from delivering_nodes n where n.counter > 0 and n.timeline is distinct from here.timeline
                    and n.confirmed_at > app_now() - forgotten_ms * interval '1 millisecond') then
        perform stop_delivery_1('pause', 'timeline', json_build_object('timeline', here.timeline));
      else
        perform remember_installation('timeline', here.timeline);
        delete from delivery_stops s where s.kind = 'pause';
      end if;
    end if;
  end if;
  return query
    select case when found_wrong is null then n.counter else coalesce(mark, 0) end::float8,
           case when found_wrong is null or mark is null then era_now else mark_era end::float8,
           found_wrong, here.system_identifier is not null and here.timeline is not null
      from delivering_nodes n where n.id = node;
end $$;

-- As before, but for the era.
create or replace function lift_fence_1() returns table (settled integer) language plpgsql volatile as $$
declare
  here record;
  written integer;
begin
  perform pg_advisory_xact_lock(hashtext('posthorn check-in'));
  perform 1 from outbound o where o.message_id = any (array(select r.message_id from orphaned_replies r)) order by o.message_id for update;
  with waiting as materialized (
    select distinct on (r.message_id) r.workspace_id w, r.message_id id, r.epoch, r.token, o.attempts
      from orphaned_replies r join outbound o on o.message_id = r.message_id and o.workspace_id = r.workspace_id
     order by r.message_id, (r.ending ->> 'status' = 'sent') desc, r.epoch desc
  ),
  gone as (delete from outbound o using waiting c where o.message_id = c.id),
  record as (
    update messages m
       set status = 'delivery_unknown', sequence = m.sequence + 1, finished_at = app_now(),
           error_message = 'The database was restored. A node that had sent the message still holds the reply.',
           armed_epoch = c.epoch, armed_token = c.token
      from waiting c where m.workspace_id = c.w and m.id = c.id
    returning m.workspace_id, m.id, m.sequence, m.delivery_rank, m.error_message, c.attempts
  )
  insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
  select r.workspace_id, r.id, r.sequence, 'message.delivery_unknown', 'delivery_unknown', r.delivery_rank, app_now(),
         json_build_object('attempt', r.attempts, 'reason', 'assumed_sent', 'errorMessage', r.error_message)
    from record r;
  -- What `assume_sent_1` moved already names no claim: the reply names it now.
  update messages m set armed_epoch = r.epoch, armed_token = r.token from orphaned_replies r
   where m.workspace_id = r.workspace_id and m.id = r.message_id and m.status = 'delivery_unknown' and m.armed_epoch is null
     and r.ending ->> 'status' = 'sent';
  select count(*)::integer into written from late_proof_1((select coalesce(json_agg(r.ending), '[]') from orphaned_replies r));
  delete from orphaned_replies;
  select * into here from delivery_server();
  perform remember_installation('system_identifier', here.system_identifier);
  perform remember_installation('timeline', here.timeline);
  -- Later than every era before, also than those that a restore has forgotten.
  perform remember_installation('era', greatest((extract(epoch from clock_timestamp()) * 1000)::bigint,
    (select max(i.value::bigint) + 1 from installation i where i.name in ('era', 'era_seen')))::text);
  delete from delivery_stops where kind in ('fence', 'pause');
  return query select written;
end $$;
