// Events put into the outbox of webhooks by hand: one again, all of a time again, and a test.
import { randomUUIDv7 } from 'node:crypto'
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { dated, despiteDeadlocks, sql, type Db } from './database.ts'
import { leastId } from './message-id.ts'

const again = `
  insert into webhook_queue as known (workspace_id, message_id, sequence, due_at, round)
  select e.workspace_id, e.message_id, e.sequence, app_now(), coalesce(
           (select a.round from webhook_attempts a
             where a.workspace_id = e.workspace_id and a.message_id = e.message_id and a.sequence = e.sequence
             order by a.round desc limit 1), 0) + 1
    from wanted e order by e.message_id, e.sequence
  on conflict (workspace_id, message_id, sequence)
  do update set round = known.round + 1, attempts = 0, due_at = excluded.due_at, lease_until = null, lease_owner = null`
const told = `select pg_notify('posthorn_webhooks', '')`

const replayOne = sql(
  'webhook-replay-one',
  `with wanted as (select * from events e where e.workspace_id = $1 and e.message_id = $2 and e.sequence = $3),
        queued as (${again} returning 1)
   select (select count(*) from queued)::integer many, (${told}) told`,
)

/** A new ladder of eight for one event. */
export async function replayEvent(
  db: Db,
  workspace: WorkspaceId,
  event: { readonly messageId: string; readonly sequence: number },
): Promise<boolean> {
  return (await db.rows<{ many: number }>(replayOne, [workspace, event.messageId, event.sequence]))[0]?.many === 1
}

/**
 * The walk goes by message, over all that are kept: an event of this time can be a late report about a message of any age, and of one that a clock dated that was
 * ahead. A step looks at $7 events, and puts $8 of them at most into the queue.
 */
const replaySome = sql(
  'webhook-replay-some',
  `with looked as materialized (
     select e.workspace_id, e.message_id, e.sequence, e.type, e.occurred_at
       from events_behind_1($1, $2, $3, uuid_floor($5::timestamptz + interval '1 day'), $7::integer) e),
   timely as materialized (
     select l.* from looked l where l.occurred_at >= $4 and l.occurred_at < $5 order by l.message_id, l.sequence limit $8::integer),
   wanted as materialized (
     select l.* from timely l
      where l.type <> 'webhook.test'
        and exists (select from webhook_endpoints p where p.workspace_id = l.workspace_id and (p.types is null or l.type = any (p.types)))
        and not ($6 and exists (
          select from webhook_attempts a
           where a.workspace_id = l.workspace_id and a.message_id = l.message_id and a.sequence = l.sequence and a.delivered))
        and not ($6 and exists (
          select from webhook_queue q
           where q.workspace_id = l.workspace_id and q.message_id = l.message_id and q.sequence = l.sequence and (q.lease_until is not null or q.due_at <= app_now())))),
   queued as (${again} returning 1)
   select (select count(*) from queued)::integer many, last.message_id, last.sequence
     from (select (select count(*) from timely) = $8 full, (select count(*) from looked) = $7 more) step
     left join lateral (
       (select t.message_id, t.sequence from timely t where step.full order by t.message_id desc, t.sequence desc limit 1)
       union all
       (select l.message_id, l.sequence from looked l where step.more and not step.full order by l.message_id desc, l.sequence desc limit 1)) last on true`,
)
const tell = sql('webhook-tell', told)

export interface ReplayRange {
  readonly from: Date
  readonly to: Date
  /** Only what no attempt has delivered, and what is not being posted or due: who waits for a try in ten hours has it not. */
  readonly undelivered: boolean
}

/** A new ladder for every event of the range that the filter wants now; answers how many. In slices, each its own transaction. */
export async function replayRange(db: Db, workspace: WorkspaceId, range: ReplayRange): Promise<number> {
  type Slice = { many: number; message_id: string | null; sequence: number | null }
  let at: { message: string; sequence: number } = { message: leastId, sequence: 0 }
  let many = 0
  for (;;) {
    const values = [workspace, at.message, at.sequence, range.from, range.to, range.undelivered]
    const [slice] = await despiteDeadlocks(() =>
      db.rows<Slice>(replaySome, [...values, limits.webhookReplayLook, limits.webhookReplaySlice]),
    )
    many += slice?.many ?? 0
    if ((slice?.many ?? 0) > 0) await db.rows(tell)
    if (slice === undefined || slice.message_id === null || slice.sequence === null) return many
    at = { message: slice.message_id, sequence: slice.sequence }
  }
}

/** A test of a later time, by a clock that was ahead, holds back no other. */
const test = sql(
  'webhook-test',
  `with may as (
     update webhook_endpoints e set tested_at = app_now()
      where e.workspace_id = $1 and e.state = 'active'
        and (abs(extract(epoch from app_now() - e.tested_at)) * 1000 < $4) is not true
     returning e.workspace_id, ${dated('$2')} id),
   event as (
     insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
     select m.workspace_id, m.id, 1, 'webhook.test', 'test', 0, app_now(), json_build_object('test', true, 'message', $3::text) from may m
     returning workspace_id, message_id),
   queued as (
     insert into webhook_queue (workspace_id, message_id, sequence, due_at) select e.workspace_id, e.message_id, 1, app_now() from event e
     returning message_id)
   select (select message_id from queued) id, (${told}) told`,
)

/** Writes a test event, whatever the filter says; undefined where the last one was a moment ago, or the endpoint is not active. */
export async function queueTest(db: Db, workspace: WorkspaceId, message: string): Promise<MessageId | undefined> {
  const values = [workspace, randomUUIDv7(), message, limits.webhookTestSpacingMs]
  const [answer] = await db.rows<{ id: MessageId | null }>(test, values)
  return answer?.id ?? undefined
}
