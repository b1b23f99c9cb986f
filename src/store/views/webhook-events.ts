// What a webhook says of an event, the log of events with their attempts, and reading events in the order of their commits. A body is made
// of rows that never change, so that it is the same at every try.
import { given } from '../../base/given.ts'
import type { DeliveryEventType, MailboxId, MessageStatus, WorkspaceId } from '../../domain/message.ts'
import type { WebhookAttempt, WebhookLogFilter, WebhookTrouble } from '../../domain/webhook.ts'
import { sql, type Db } from '../database.ts'

/** Everything that goes into a body. `sender` and its neighbours are null for `webhook.test`, which no message has. */
export interface EventRow {
  readonly message_id: string
  readonly sequence: number
  readonly type: string
  readonly status: MessageStatus
  readonly delivery_rank: number
  readonly occurred_ms: number
  readonly facts: Readonly<Record<string, unknown>> | null
  readonly mailbox_id: MailboxId | null
  readonly sender: string | null
  readonly recipient: string | null
  readonly subject: string | null
  readonly metadata: Readonly<Record<string, string>> | null
  readonly report_type: DeliveryEventType | null
  readonly detail: string | null
  readonly report_ms: number | null
}

const ms = (column: string): string => `floor(extract(epoch from ${column}) * 1000)::float8`

/** Of an event `e`, with `eventJoins` behind it; message and sequence come from beside them. */
export const eventColumns = `e.type, e.status, e.delivery_rank, ${ms('e.occurred_at')} occurred_ms, e.facts,
  m.mailbox_id, m.sender, m.recipient, m.subject, m.metadata, r.type report_type, r.detail, ${ms('r.created_at')} report_ms`
export const eventJoins = `
  left join lateral (select * from messages x where x.workspace_id = e.workspace_id and x.id = e.message_id limit 1) m on true
  left join lateral (
    select * from reports x
     where x.workspace_id = e.workspace_id and x.message_id = e.message_id and x.sequence = e.sequence limit 1) r on true`

const caughtUp = sql(
  'events-in-commit-order',
  `select e.tx, e.message_id, e.sequence, ${eventColumns}
     from (select * from events e
            where e.workspace_id = $1 and e.tx >= $2::text::xid8 and e.tx < pg_snapshot_xmin(pg_current_snapshot())
              and (e.tx, e.message_id, e.sequence) > ($2::text::xid8, $3::uuid, $4::integer)
            order by e.tx, e.message_id, e.sequence limit $5) e
     ${eventJoins}
    order by e.tx, e.message_id, e.sequence`,
)

/** Where a reader has got to. */
export interface CommitCursor {
  /** Decimal text of a transaction's 64-bit number. */
  readonly tx: string
  readonly messageId: string
  readonly sequence: number
}

const placeInOrder = sql(
  'place-in-order',
  `select coalesce((select value from installation where name = 'restored'), '') restored,
          exists (select from events e where e.workspace_id = $1 and e.message_id = $3 and e.sequence = $4 and e.tx = $2::text::xid8) stands`,
)

/**
 * `restored` names the last restore of a backup; empty where there was none. `stands`: the event that the cursor names is there, under its number; so
 * everything before it is, and whatever comes has a greater one. Where commits were lost, their numbers are given again to others.
 */
export async function readPlace(
  db: Db,
  workspace: WorkspaceId,
  { tx, messageId, sequence }: CommitCursor,
): Promise<{ readonly restored: string; readonly stands: boolean }> {
  const rows = await db.rows<{ restored: string; stands: boolean }>(placeInOrder, [workspace, tx, messageId, sequence])
  return rows[0] ?? { restored: '', stands: false }
}

/**
 * The events behind the cursor, in the order of their transactions. Only of transactions that are older than every one that is still open: what
 * commits later has a greater number than everything that was ever answered, so no event is ever passed by.
 */
export async function readInCommitOrder(
  db: Db,
  workspace: WorkspaceId,
  after: CommitCursor,
  most: number,
): Promise<(EventRow & { readonly tx: string })[]> {
  return db.rows(caughtUp, [workspace, after.tx, after.messageId, after.sequence, most])
}

export interface LogRow extends EventRow {
  /** Null where it is not in the queue. */
  readonly due_at: Date | null
  readonly leased: boolean | null
  readonly delivered: boolean | null
  readonly tried: boolean | null
}

/** One ended POST. */
export interface PostRow {
  readonly round: number
  readonly attempt: number
  readonly ended_at: Date
  readonly delivered: boolean
  readonly trouble: WebhookTrouble | null
  readonly status: number | null
  readonly duration_ms: number | null
}
interface AttemptRow extends PostRow {
  readonly excerpt: string | null
}

/** Of an event in the queue, `x`: what waits for an endpoint that is disabled waits for nothing, and goes when it comes due. What is under way ends. */
export const isPosted = `(x.lease_until is not null
  or (select p.state from webhook_endpoints p where p.workspace_id = x.workspace_id limit 1) is distinct from 'disabled')`

const logColumns = `e.message_id, e.sequence, ${eventColumns}, q.due_at, q.leased, a.delivered, a.tried`
const standing = `
  left join lateral (
    select x.due_at, x.lease_until is not null leased from webhook_queue x
     where x.workspace_id = e.workspace_id and x.message_id = e.message_id and x.sequence = e.sequence and ${isPosted} limit 1) q on true
  left join lateral (
    select bool_or(x.delivered) delivered, count(*) > 0 tried from webhook_attempts x
     where x.workspace_id = e.workspace_id and x.message_id = e.message_id and x.sequence = e.sequence) a on true`
const logJoins = `${eventJoins}${standing}`

const log = sql(
  'webhook-log',
  `select ${logColumns}
     from events_before_1($1, $2, $3, $4) e
     ${logJoins}
    order by e.message_id desc, e.sequence desc`,
)
/** As `webhookStateOf` says it. */
const state = `case when q.leased then 'sending' when not q.leased then 'waiting' when a.delivered then 'delivered' when a.tried then 'failed' else 'not_sent' end`
/** Looks at $5 events at most; where there may be more, \`end\` is the last of them. What is not wanted is left out before it is told whole. */
const searched = (name: string, events: string) =>
  sql(
    name,
    `with walk as materialized (${events}),
     found as materialized (
       select e.*, q.due_at, q.leased, a.delivered, a.tried from walk e ${standing}
        where e.type = coalesce($6, e.type) and ($7::text is null or ${state} = $7)
        order by e.message_id desc, e.sequence desc limit $4)
     select walked.*, ${logColumns.replaceAll(/\b[qa]\./g, 'e.')}
       from (select count(*) = $5 full, (array_agg(w.message_id order by w.message_id, w.sequence))[1] end_message,
                    (array_agg(w.sequence order by w.message_id, w.sequence))[1] end_sequence from walk w) walked
       left join found e on true ${eventJoins}
      order by e.message_id desc, e.sequence desc`,
  )
const search = searched('search-webhook-log', 'select * from events_before_1($1, $2, $3, $5)')
const searchOfMessage = searched(
  'search-webhook-log-of-message',
  `select * from events x where x.workspace_id = $1 and x.message_id = $8 and (x.message_id, x.sequence) < ($2::uuid, $3::integer)
    order by x.sequence desc limit $5`,
)
const logOf = sql(
  'webhook-log-of',
  `select ${logColumns}
     from (select * from events e where e.workspace_id = $1 and e.message_id >= $2 and e.message_id <= $3
            order by e.message_id, e.sequence limit 1000) e
     ${logJoins}`,
)
const attempts = sql(
  'webhook-attempts-of',
  `select round, attempt, ended_at, delivered, trouble, status, duration_ms, excerpt from webhook_attempts
    where workspace_id = $1 and message_id = $2 and sequence = $3 order by round, attempt`,
)

/** The events of a workspace before this place, those of the latest message first, with where they stand. */
export function readWebhookLog(
  db: Db,
  workspace: WorkspaceId,
  before: { readonly messageId: string; readonly sequence: number },
  most: number,
): Promise<LogRow[]> {
  return db.rows(log, [workspace, before.messageId, before.sequence, most])
}

interface Walked {
  readonly full: boolean
  readonly end_message: string
  readonly end_sequence: number
}

/** Of them those that are wanted: there is no index of states and types, so at most `scanned` are looked at. `end` is where to go on from, if there may be more. */
export async function searchWebhookLog(
  db: Db,
  workspace: WorkspaceId,
  filter: WebhookLogFilter,
  before: { readonly messageId: string; readonly sequence: number },
  { most, scanned }: { readonly most: number; readonly scanned: number },
): Promise<{ readonly rows: LogRow[]; readonly end?: { readonly messageId: string; readonly sequence: number } }> {
  const { state: wanted = null, type = null, messageId } = filter
  const values = [workspace, before.messageId, before.sequence, most, scanned, type, wanted]
  const told = await (messageId === undefined
    ? db.rows<LogRow & Walked>(search, values)
    : db.rows<LogRow & Walked>(searchOfMessage, [...values, messageId]))
  const rows = told.filter(({ sequence }) => sequence !== null)
  const [first] = told
  const last = rows.length === most ? rows.at(-1) : undefined
  if (last !== undefined) return { rows, end: { messageId: last.message_id, sequence: last.sequence } }
  if (first?.full !== true) return { rows }
  return { rows, end: { messageId: first.end_message, sequence: first.end_sequence } }
}

/** The events of the messages with ids in this narrow range. */
export function readEventsBetween(
  db: Db,
  workspace: WorkspaceId,
  range: { readonly from: string; readonly to: string },
): Promise<LogRow[]> {
  return db.rows(logOf, [workspace, range.from, range.to])
}

/** Every ended POST of one event, with the beginning of what was answered. */
export async function readWebhookAttempts(
  db: Db,
  workspace: WorkspaceId,
  event: { readonly messageId: string; readonly sequence: number },
): Promise<WebhookAttempt[]> {
  const rows = await db.rows<AttemptRow>(attempts, [workspace, event.messageId, event.sequence])
  return rows.map((row) => ({ ...presentPost(row), ...(row.excerpt !== null && { excerpt: row.excerpt }) }))
}

export function presentPost(row: PostRow): Omit<WebhookAttempt, 'excerpt'> {
  return given<Omit<WebhookAttempt, 'excerpt'>>({
    round: row.round,
    attempt: row.attempt,
    endedAt: row.ended_at,
    delivered: row.delivered,
    status: row.status,
    trouble: row.trouble,
    durationMs: row.duration_ms,
  })
}
