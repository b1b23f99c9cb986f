// What an operator reads: everything that happened to a message.
import { shown, type Given } from '../../base/given.ts'
import { deliveryStatusOf } from '../../domain/delivery-status.ts'
import { eventId, type EventType } from '../../domain/event.ts'
import type {
  DeliveryEventRecord,
  DeliveryStatus,
  MessageId,
  MessageStatus,
  WorkspaceId,
} from '../../domain/message.ts'
import type { MessageRecord } from '../../domain/submission.ts'
import { sql, type Db } from '../database.ts'
import { sandboxMailOf } from '../sandbox.ts'
import { readStatus } from './message-status.ts'
import { readWebhooksOfMessage, type TimelineWebhook } from './message-webhooks.ts'

export interface TimelineEvent extends Given<Omit<EventRow, 'deliveryRank'>> {
  readonly id: string
  readonly deliveryStatus: DeliveryStatus
  /** Where the event was posted, or waits for it, and the reader may know. */
  readonly webhook?: TimelineWebhook
}

/** One ended attempt, as its worker wrote it down. */
export interface TimelineAttempt {
  readonly epoch: number
  readonly outcome: string
  readonly endedAt: Date
  readonly facts: object
}

/** What the queue says of a message that is not final. */
export type TimelineQueue = Given<QueueRow>

export interface Timeline extends MessageRecord {
  readonly events: readonly TimelineEvent[]
  /** What receiving providers reported. */
  readonly reports: readonly DeliveryEventRecord[]
  readonly attempts: readonly TimelineAttempt[]
  readonly queue?: TimelineQueue
  /** The malware scan, where there was something to scan: verdict, engine, signatures, and what could not be looked into. */
  readonly scan?: object
  /** The mail that it became, where the sandbox took it and keeps it. */
  readonly sandboxMailId?: string
}

const owner = sql('owner-of-message', 'select workspace_id from messages where id = $1')
const eventsOf = sql(
  'events-of-message',
  `select sequence, type, status, delivery_rank "deliveryRank", occurred_at "occurredAt", facts
     from events where workspace_id = $1 and message_id = $2 order by sequence`,
)
// A worker writes what it made of its attempt, the reaper what became of the message: told in the words of the latter, as states are.
const attemptsOf = sql(
  'attempts-of-message',
  `select epoch, case outcome when 'accepted' then 'sent' when 'retry' then 'retrying' when 'unknown' then 'delivery_unknown' else outcome end outcome,
          ended_at "endedAt", facts
     from attempts where workspace_id = $1 and message_id = $2 order by epoch`,
)
const queueOf = sql(
  'queue-of-message',
  `select status, destination, due_at "dueAt", expires_at "expiresAt", attempts, lease_until "leaseUntil", armed_epoch is not null armed,
          exists (select from delivery_stops) stopped
     from outbound where message_id = $2 and workspace_id = $1`,
)

const scanOf = sql('scan-of-message', 'select record from scans where workspace_id = $1 and message_id = $2')

interface EventRow {
  readonly sequence: number
  readonly type: EventType
  readonly status: MessageStatus
  readonly deliveryRank: number
  readonly occurredAt: Date
  readonly facts: object | null
}
interface AttemptRow {
  readonly epoch: number
  readonly outcome: string
  readonly endedAt: Date
  readonly facts: object & { readonly route?: unknown }
}
interface QueueRow {
  readonly status: string
  readonly destination: string
  readonly dueAt: Date
  readonly expiresAt: Date
  readonly attempts: number
  readonly leaseUntil: Date | null
  readonly armed: boolean
  /** Nobody delivers for now (store/fence.ts). */
  readonly stopped: boolean
}
/** For operators, who name a message by its id alone. */
export async function workspaceOfMessage(db: Db, id: string): Promise<WorkspaceId | undefined> {
  return (await db.rows<{ workspace_id: WorkspaceId }>(owner, [id]))[0]?.workspace_id
}

/** Everything about a message; undefined where the workspace has no such message. Its webhooks only for those who may read their log. */
export async function readTimeline(
  db: Db,
  workspace: WorkspaceId,
  id: MessageId,
  { webhooks: withWebhooks }: { readonly webhooks: boolean },
): Promise<Timeline | undefined> {
  const known = await readStatus(db, workspace, id)
  if (known === undefined) return undefined
  const [webhooks, events, attempts, [queue], [scan], sandboxMailId] = await Promise.all([
    withWebhooks ? readWebhooksOfMessage(db, workspace, id) : undefined,
    db.rows<EventRow>(eventsOf, [workspace, id]),
    db.rows<AttemptRow>(attemptsOf, [workspace, id]),
    db.rows<QueueRow>(queueOf, [workspace, id]),
    db.rows<{ record: object }>(scanOf, [workspace, id]),
    sandboxMailOf(db, workspace, id),
  ])
  return {
    ...known.message,
    events: events.map((event) => presentEvent(id, event, webhooks?.get(event.sequence))),
    reports: known.events,
    attempts: attempts.map(presentAttempt),
    ...(queue !== undefined && { queue: shown(queue) }),
    ...(scan !== undefined && { scan: scan.record }),
    ...(sandboxMailId !== undefined && { sandboxMailId }),
  }
}

function presentEvent(
  id: MessageId,
  { deliveryRank, ...row }: EventRow,
  webhook: TimelineWebhook | undefined,
): TimelineEvent {
  const of = { id: eventId(id, row.sequence), deliveryStatus: deliveryStatusOf(deliveryRank) }
  return { ...shown(row), ...of, ...(webhook !== undefined && { webhook }) }
}

/** Which route it took is kept for feeds (feedback), and is no part of what was seen. */
function presentAttempt({ facts, ...attempt }: AttemptRow): TimelineAttempt {
  const { route: _, ...seen } = facts
  return { ...attempt, facts: seen }
}
