-- Two claims of one message may have been answered, one with a yes and one with a no for good, and an operator may have assumed that it was sent. Whichever of these
-- replies PostgreSQL came upon first was believed, and a message that a receiver had taken became `failed`: whoever reads that sends it again. The acceptance is what became of
-- it, as where nothing was assumed; of two refusals the last. And a no before the dot is no end, told before the decision (lift_fence_1) or behind it (replay_2 of
-- 0073): it hides no reply that is one. As in 0063, but for this.
create or replace function decisive_replies_1(batch json)
  returns table(w uuid, id uuid, epoch integer, token bigint) language sql immutable as $$
  select distinct on (a.id) a.w, a.id, a.epoch, a.token from endings_of(batch) a
   where a.status in ('sent', 'failed') and proves_reply(a.status, a.evidence, a.facts)
   order by a.id, (a.status = 'sent') desc, a.epoch desc
$$;

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
  update messages m set armed_epoch = r.epoch, armed_token = r.token
    from decisive_replies_1((select coalesce(json_agg(o.ending), '[]') from orphaned_replies o)) r
   where m.workspace_id = r.w and m.id = r.id and m.status = 'delivery_unknown' and m.armed_epoch is null;
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
