-- Behind a failover that lost commits, delivery waited for the nodes that had armed, by their rows. Of a new node the first arm may be among what was lost: its row said
-- that it had never armed, nobody waited for it, and while it stood still another node sent its mail a second time. So whoever has checked in is waited
-- for; but of one that has armed nothing only for an hour, since whoever lives checks in every minute. As in 0063, but for that.
create or replace function is_awaited_1(counter bigint, confirmed_at timestamptz, forgotten_ms double precision) returns boolean language sql stable as $$
  select confirmed_at > app_now() - case when counter > 0 then forgotten_ms else least(forgotten_ms, 3600000) end * interval '1 millisecond'
$$;

create or replace function check_in_1(node uuid, node_name text, mark bigint, mark_era bigint, forgotten_ms bigint)
  returns table(counter double precision, era double precision, trouble text, server_known boolean) language plpgsql as $$
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
    -- a lock that no copy inherits; and where nobody ever delivered, or nobody since the operator decided, there is nothing to vouch for.
    when mark is null and exists (select from outbound)
      and exists (select from delivering_nodes n where n.counter > 0 and coalesce(n.era, era_now) = era_now)
      and not exists (select from pg_locks l where l.locktype = 'advisory' and l.classid = 7364 and l.objid = 2 and l.objsubid = 2 and l.granted
                       and l.database = (select d.oid from pg_database d where d.datname = current_database())) then 'no_mark'
    when here.system_identifier <> (select i.value from installation i where i.name = 'system_identifier') then 'another_server'
    end;
  if found_wrong is not null then
    perform stop_delivery_1('fence', found_wrong,
      json_build_object('node', node_name, 'mark', mark, 'counter', mine.counter, 'system', here.system_identifier));
  end if;

  insert into delivering_nodes as n (id, name, counter, timeline, confirmed_at, era)
    values (node, node_name, case when found_wrong is null then coalesce(mark, 0) else 0 end,
            case when found_wrong is null then here.timeline end, app_now(), case when found_wrong is null then era_now end)
    on conflict (id) do update
      set name = excluded.name, counter = greatest(n.counter, excluded.counter), timeline = coalesce(excluded.timeline, n.timeline),
          era = coalesce(excluded.era, n.era),
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
      -- A failover: what another node armed last may be lost, and only its own file knows. If it is the first that it ever armed, its row says nothing of it.
      if exists (select from delivering_nodes n where n.timeline is distinct from here.timeline and is_awaited_1(n.counter, n.confirmed_at, forgotten_ms)) then
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
