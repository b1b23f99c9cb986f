-- An operator may decide about a restored database before every journal is told, and before the node runs that will deliver from it.
--
-- A reply in a journal to a message that `assume_sent_1` had made `delivery_unknown` was told behind the decision, found no claim that it belonged to, and
-- was dropped: `replay_1` names the claim, as `lift_fence_1` does for those that were told before. A refusal for good is an end like an acceptance.
--
-- A node without a mark, in the new data folder of a restore, found rows of nodes that had delivered before the backup, and stopped delivery again although
-- the operator had decided. A row says now in which era its node was last found right; null: one that an older release wrote, and that counts.
alter table delivering_nodes add column if not exists era bigint;

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

create or replace function lift_fence_1()
  returns table(settled integer) language plpgsql as $$
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
     and r.ending ->> 'status' in ('sent', 'failed');
  select count(*)::integer into written from late_proof_1((select coalesce(json_agg(r.ending), '[]') from orphaned_replies r));
  delete from orphaned_replies;
  select * into here from delivery_server();
  perform remember_installation('system_identifier', here.system_identifier);
  perform remember_installation('timeline', here.timeline);
  -- Whoever delivers from now on says in which era.
  update delivering_nodes n set era = coalesce((select i.value::bigint from installation i where i.name = 'era'), 0) where n.era is null;
  -- Later than every era before, also than those that a restore has forgotten.
  perform remember_installation('era', greatest((extract(epoch from clock_timestamp()) * 1000)::bigint,
    (select max(i.value::bigint) + 1 from installation i where i.name in ('era', 'era_seen')))::text);
  delete from delivery_stops where kind in ('fence', 'pause');
  return query select written;
end $$;

create or replace function replay_1(batch json)
  returns table(id uuid, epoch integer, answer text) language plpgsql as $$
#variable_conflict use_column
declare
  explained json;
begin
  perform 1 from outbound o where o.message_id = any (array(select (value ->> 'id')::uuid from json_array_elements(batch)))
    order by o.message_id for update;
  return query
  with told as materialized (
    select value ending, e.id, e.w, e.epoch, e.token, e.status,
           o.message_id is not null and (e.status = 'sent' or o.epoch < e.epoch)
             and not (o.status = 'sending' and o.epoch = e.epoch and o.token = e.token and o.armed_epoch is not distinct from e.epoch) orphan,
           exists (select from messages m where m.workspace_id = e.w and m.id = e.id) known
      from json_array_elements(batch) cross join lateral endings_of(json_build_array(value)) e
      left join lateral (select x.* from outbound x where x.message_id = e.id and x.workspace_id = e.w limit 1) o on true
  ),
  kept as (
    insert into orphaned_replies (workspace_id, message_id, epoch, token, ending)
    select t.w, t.id, t.epoch, t.token, t.ending from told t where t.orphan on conflict do nothing
  ),
  stopped as materialized (
    select stop_delivery_1('fence', 'orphaned_reply', json_build_object('messageId', min(t.id::text))) from told t where t.orphan having count(*) > 0
  )
  select t.id, t.epoch, case when t.orphan then 'orphan' when t.known then 'known' else 'gone' end from told t left join stopped on true;
  explained := (select coalesce(json_agg(value), '[]') from json_array_elements(batch)
    where not exists (select from orphaned_replies r where r.message_id = (value ->> 'id')::uuid and r.epoch = (value ->> 'epoch')::integer
                        and r.token = (value ->> 'token')::bigint));
  -- What `assume_sent_1` moved before this journal was told names no claim: the reply names it now, as in `lift_fence_1`.
  update messages m set armed_epoch = e.epoch, armed_token = e.token from endings_of(explained) e
   where m.workspace_id = e.w and m.id = e.id and m.status = 'delivery_unknown' and m.armed_epoch is null and m.armed_token is null and e.status in ('sent', 'failed')
     and proves_reply(e.status, e.evidence, e.facts);
  perform 1 from finish_1(explained, array(select (value ->> 'id')::uuid from json_array_elements(explained)));
end $$;
