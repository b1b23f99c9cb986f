// Reading all events of a workspace in the order of their commits, page by page, for whoever was away (decisions G). The cursor is opaque to
// callers; it names the last event that they have read.
import { limits } from '../config.ts'
import { webhookApiVersion, type WebhookEvent } from '../contract/webhook-event.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { refuse, type Refusal } from '../domain/refusal.ts'
import type { Db } from '../store/database.ts'
import { findEndpoint } from '../store/webhook-endpoints.ts'
import { readInCommitOrder, type CommitCursor } from '../store/views/webhook-events.ts'
import { firstWorkspace } from '../store/webhooks.ts'
import { webhookEventOf } from './event-body.ts'

export interface CaughtUp {
  readonly events: readonly WebhookEvent[]
  /** Where the next page begins, also when there is nothing behind it yet. */
  readonly next: string
  /** There is more already. */
  readonly more: boolean
}

const start: CommitCursor = { tx: '0', messageId: firstWorkspace, sequence: 0 }

export async function catchUp(
  db: Db,
  workspace: WorkspaceId,
  after: string | undefined,
  limit: number = limits.eventsPage,
): Promise<CaughtUp | Refusal> {
  const cursor = after === undefined ? start : parseCursor(after)
  if (cursor === undefined)
    return refuse('invalid_request', '"after" must be the "next" of an earlier page, as it was.', { field: 'after' })
  const [rows, endpoint] = await Promise.all([
    readInCommitOrder(db, workspace, cursor, limit),
    findEndpoint(db, workspace),
  ])
  const last = rows.at(-1)
  return {
    events: rows.map((row) => webhookEventOf(workspace, row, endpoint?.api_version ?? webhookApiVersion)),
    next: writeCursor(
      last === undefined ? cursor : { tx: last.tx, messageId: last.message_id, sequence: last.sequence },
    ),
    more: rows.length === limit,
  }
}

function writeCursor({ tx, messageId, sequence }: CommitCursor): string {
  return Buffer.from(`${tx} ${messageId} ${sequence}`).toString('base64url')
}

function parseCursor(text: string): CommitCursor | undefined {
  const match = /^(\d{1,19}) ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) (\d{1,9})$/.exec(
    Buffer.from(text, 'base64url').toString('latin1'),
  )
  const [, tx = '', messageId = '', sequence = ''] = match ?? []
  return match === null ? undefined : { tx, messageId, sequence: Number(sequence) }
}
