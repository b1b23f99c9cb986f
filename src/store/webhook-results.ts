// How tries of webhooks ended: log, queue and endpoint, for many of them in one statement (function `end_webhooks_3`), which nobody's lock on one of them holds up.
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { DisableReason, WebhookTrouble } from '../domain/webhook.ts'
import { Batch } from '../base/batch.ts'
import { despiteDeadlocks, sql, mayBlameRows, type Db } from './database.ts'
import { pastHeld, unlessHeldUp, type HeldUp } from './held-rows.ts'
import type { WebhookClaim } from './webhooks.ts'

/** How one try ended. */
export interface WebhookResult extends WebhookClaim {
  /** False: no request was made, and the try is given back. */
  readonly asked: boolean
  readonly delivered: boolean
  readonly trouble?: WebhookTrouble
  readonly status?: number
  readonly durationMs?: number
  /** The beginning of the answer. */
  readonly excerpt?: string
  /** Until the next try; left out: there is none. */
  readonly delayMs?: number
  /** Of the endpoint that was asked: one that was changed meanwhile has not answered. */
  readonly version?: number
}

/** Of these claims, those whose row in the queue, or whose endpoint, nobody could lock now. */
const held = sql(
  'held-webhooks',
  `with endpoint as materialized (
     select e.workspace_id from webhook_endpoints e where e.workspace_id = any ($1::uuid[]) for update skip locked),
   row as materialized (
     select q.* from unnest($1::uuid[], $2::uuid[], $3::integer[]) as a (w, m, s)
      cross join lateral (
        select x.workspace_id, x.message_id, x.sequence from webhook_queue x
         where x.workspace_id = a.w and x.message_id = a.m and x.sequence = a.s limit 1 for update skip locked) q)
   select a.n::integer from unnest($1::uuid[], $2::uuid[], $3::integer[]) with ordinality as a (w, m, s, n)
    where (exists (select from webhook_endpoints e where e.workspace_id = a.w)
           and not exists (select from endpoint e where e.workspace_id = a.w))
       or (exists (select from webhook_queue q where q.workspace_id = a.w and q.message_id = a.m and q.sequence = a.s)
           and not exists (select from row q where q.workspace_id = a.w and q.message_id = a.m and q.sequence = a.s))`,
)

async function heldWebhooks(db: Db, results: readonly QueuedResult[]): Promise<(result: QueuedResult) => boolean> {
  const rows = await db.rows<{ n: number }>(held, [
    results.map(({ claim: { workspaceId } }) => workspaceId),
    results.map(({ claim: { messageId } }) => messageId),
    results.map(({ claim: { sequence } }) => sequence),
  ])
  const locked = new Set(rows.map(({ n }) => results[n - 1]))
  return (result) => locked.has(result)
}

interface QueuedResult {
  readonly claim: WebhookClaim
  readonly json: string
}

export interface WebhookRecorder {
  /** Resolves when it is written. Rejects when it is not known whether it was, or somebody holds a row of it: say it again. */
  record(result: WebhookResult): Promise<void>
}

const ended = sql('webhook-end', 'select workspace_id, reason from end_webhooks_3($1::text::json, $2)')

/** Results of concurrent tries, written in batches. */
export function makeWebhookRecorder(
  db: Db,
  tools: {
    /** After so long without a success an endpoint is disabled. */
    readonly failingMs: number
    /** Answers before anything is written. */
    readonly there?: () => Promise<unknown>
    disabled(workspace: WorkspaceId, reason: DisableReason): void
    /** Later events of these messages may be claimed now. */
    more(): void
  },
): WebhookRecorder {
  const write = async (rows: readonly QueuedResult[]): Promise<readonly void[]> => {
    await tools.there?.()
    const answers = await despiteDeadlocks(() =>
      db.rows<{ workspace_id: WorkspaceId | null; reason: DisableReason }>(ended, [
        `[${rows.map(({ json }) => json).join(',')}]`,
        tools.failingMs,
      ]),
    )
    for (const { workspace_id: workspace, reason } of answers)
      if (workspace === null) tools.more()
      else tools.disabled(workspace, reason)
    return []
  }
  const batch = new Batch<QueuedResult, void | HeldUp>(
    pastHeld(db, (rows) => heldWebhooks(db, rows), write),
    {
      rowsMax: limits.webhookResultsPerStatementMax,
      bytesMax: limits.admitBytesMax,
      waitingMax: 10 * limits.webhooksInFlightMax,
      spacingMs: limits.webhookSpacingMs,
    },
    mayBlameRows,
  )
  return {
    record: async (result) => {
      const json = JSON.stringify({
        w: result.workspaceId,
        m: result.messageId,
        s: result.sequence,
        round: result.round,
        attempt: result.attempt,
        claim: result.claim,
        asked: result.asked,
        delivered: result.delivered,
        trouble: result.trouble,
        status: result.status,
        ms: result.durationMs,
        excerpt: result.excerpt,
        delay_ms: result.delayMs,
        v: result.version,
      })
      unlessHeldUp(await batch.add({ claim: result, json }, json.length))
    },
  }
}
