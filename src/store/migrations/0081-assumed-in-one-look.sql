-- `recover --assume-sent-since` chose in three statements: what may have gone before the time that its row names was looked for, then made due, and then what was due was
-- chosen. A worker that handed back a claim behind the first of them, and before the last, had its message spared, which another node may have sent meanwhile: it
-- was sent a second time (the exploration of test/exploration shows the way). All of it is chosen now by one look, behind the locks of the rows.
create or replace function assume_sent_2(since timestamptz, till timestamptz, after uuid, most integer)
  returns table (moved integer, last uuid) language plpgsql as $$
#variable_conflict use_column
declare
  now_at timestamptz := app_now();
  ids uuid[];
begin
  ids := array(select o.message_id from outbound o where o.message_id > after order by o.message_id limit most for update);

  return query
  with seen as materialized (select o.* from outbound o where o.message_id = any (ids)),
  -- What was accepted after the stop, or was not due before it, cannot have been sent; nor what had expired before `since`. But two kinds of what waits may have
  -- gone before the time that its row names, and a database that was put back does not know of it. What was under way when delivery stopped, and was put off or
  -- handed back by its worker since: another one may have had it meanwhile. And what waits because nobody was found: it is made due when they are there
  -- again (docs/decisions/0089). Where they said something before the stop, it waits for its time.
  chosen as materialized (
    select s.* from seen s
      cross join lateral (select x.created_at from messages x where x.workspace_id = s.workspace_id and x.id = s.message_id limit 1) m
      left join lateral (
        select a.ended_at > till since_then, a.facts -> 'smtp' -> 'code' is not null answered from attempts a
         where a.workspace_id = s.workspace_id and a.message_id = s.message_id and a.epoch = s.epoch limit 1) a on true
     where m.created_at <= till and s.expires_at > since
       and (s.status = 'sending' or s.due_at <= till
            or s.status = 'retrying' and (a.since_then or s.attempts > 0 and a.answered is not true))
  ),
  gone as (
    delete from outbound o using chosen c where o.message_id = c.message_id
  ),
  record as (
    update messages m
       set status = 'delivery_unknown', sequence = m.sequence + 1, finished_at = now_at,
           error_message = 'The database was restored, and the operator assumes that the message was sent meanwhile. It is not sent again.',
           armed_epoch = c.armed_epoch, armed_token = case when c.armed_epoch is not null then c.token end
      from chosen c where m.workspace_id = c.workspace_id and m.id = c.message_id
    returning m.workspace_id, m.id, m.sequence, m.delivery_rank, m.error_message, c.attempts
  ),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.workspace_id, r.id, r.sequence, 'message.delivery_unknown', 'delivery_unknown', r.delivery_rank, now_at,
           json_build_object('attempt', r.attempts, 'reason', 'assumed_sent', 'errorMessage', r.error_message)
      from record r
  )
  select (select count(*)::integer from record), (select s.message_id from seen s order by s.message_id desc limit 1);
end $$;
