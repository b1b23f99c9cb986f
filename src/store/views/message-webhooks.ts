// What became of the webhook of each event of one message: every ended POST, and when the next is due. Of a message whose events were sent by
// hand again and again, the newest posts alone.
import { limits } from '../../config.ts'
import type { MessageId, WorkspaceId } from '../../domain/message.ts'
import { webhookStateOf, type WebhookAttempt, type WebhookDeliveryState } from '../../domain/webhook.ts'
import { sql, type Db } from '../database.ts'
import { isPosted, presentPost, type PostRow } from './webhook-events.ts'

/** The answers' own words stay in the log (`readWebhookAttempts`). */
export type TimelinePost = Omit<WebhookAttempt, 'excerpt'>

export interface TimelineWebhook {
  readonly state: WebhookDeliveryState
  readonly nextAttemptAt?: Date
  readonly attempts: readonly TimelinePost[]
}

/** A post beside its event's place in the queue; either may be missing. */
type Row = (PostRow | { readonly round: null }) & {
  readonly sequence: number
  readonly due_at: Date | null
  readonly leased: boolean | null
  /** Any of the event's posts, also of those that are not shown. */
  readonly ever_delivered: boolean | null
}

/** One statement, and so one instant: a try that has just ended is not also under way. */
const statement = sql(
  'webhooks-of-message',
  `select sequence, q.due_at, q.leased, p.round, p.attempt, p.ended_at, p.delivered, p.trouble, p.status, p.duration_ms, p.ever_delivered
     from (select sequence, due_at, lease_until is not null leased from webhook_queue x
            where workspace_id = $1 and message_id = $2 and ${isPosted} order by sequence limit $3) q
     full join (
       select sequence, round, attempt, ended_at, delivered, trouble, status, duration_ms,
              bool_or(delivered) over (partition by sequence) ever_delivered
         from webhook_attempts where workspace_id = $1 and message_id = $2
        order by ended_at desc, sequence desc, round desc, attempt desc limit $3) p using (sequence)
    order by sequence, p.round, p.attempt`,
)

/** By the event's sequence; an event that was never posted and does not wait has none. */
export async function readWebhooksOfMessage(
  db: Db,
  workspace: WorkspaceId,
  id: MessageId,
): Promise<ReadonlyMap<number, TimelineWebhook>> {
  const rows = await db.rows<Row>(statement, [workspace, id, limits.timelinePostsMax])
  const ofEvents = Map.groupBy(rows, ({ sequence }) => sequence)
  return new Map([...ofEvents].map(([sequence, posts]) => [sequence, present(posts)]))
}

function present(rows: readonly Row[]): TimelineWebhook {
  const posts = rows.filter((row) => row.round !== null)
  const { leased = null, due_at = null, ever_delivered = null } = rows[0] ?? {}
  return {
    state: webhookStateOf({ leased, delivered: ever_delivered, tried: posts.length > 0 }),
    ...(leased === false && due_at !== null && { nextAttemptAt: due_at }),
    attempts: posts.map(presentPost),
  }
}
