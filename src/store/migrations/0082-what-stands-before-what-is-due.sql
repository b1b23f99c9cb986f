-- A claim of webhooks takes the first so many of what is due, and leaves an event where an earlier one of its message has had no try yet. That earlier one may be due later: it was
-- put into the queue again by hand, or the clock was set back between the two. Then it was not among the first, whoever was among them waited for it, and the
-- endpoint got nothing any more; where one event at a time was claimed, since something was lacking, nobody did. With `thorough` those that stand before what is due are locked with it.
create or replace function lock_due_webhooks_2(space uuid, since timestamptz, most integer, thorough boolean)
  returns table (workspace_id uuid, message_id uuid, sequence integer, due_at timestamptz, round integer, attempts integer, "row" tid)
  language plpgsql rows 10 as $$
#variable_conflict use_column
declare
  firsts tid[];
  earlier tid[];
begin
  if not thorough then
    return query
    select q.workspace_id, q.message_id, q.sequence, q.due_at, q.round, q.attempts, q.ctid from webhook_queue q
     where q.workspace_id = space and q.lease_until is null and q.due_at >= since and q.due_at <= app_now()
     order by q.due_at, q.message_id, q.sequence limit most for update skip locked;
    return;
  end if;
  firsts := array(
    select q.ctid from webhook_queue q
     where q.workspace_id = space and q.lease_until is null and q.due_at >= since and q.due_at <= app_now()
     order by q.due_at, q.message_id, q.sequence limit most for update skip locked);
  earlier := array(
    select x.row
      from (select q.message_id, max(q.sequence) last from webhook_queue q where q.ctid = any (firsts) group by q.message_id) m
      cross join lateral (
        select q.ctid row from webhook_queue q
         where q.workspace_id = space and q.message_id = m.message_id and q.sequence < m.last
           and q.lease_until is null and q.attempts = 0 and q.due_at <= app_now()
         order by q.sequence for update skip locked) x);
  return query
  select q.workspace_id, q.message_id, q.sequence, q.due_at, q.round, q.attempts, q.ctid from webhook_queue q where q.ctid = any (firsts || earlier);
end $$;
