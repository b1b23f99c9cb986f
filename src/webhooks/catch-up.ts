// Reading all events of a workspace in the order of their commits, page by page, for whoever was away (decisions G). The cursor is opaque to
// callers; it names the last event that they have read.
import { limits } from '../config.ts'
import type { WebhookEvent } from '../contract/webhook-event.ts'
import { webhookApiVersion } from '../contract/words.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { refuse, type Refusal } from '../domain/refusal.ts'
import type { Db } from '../store/database.ts'
import { findEndpoint } from '../store/webhook-endpoints.ts'
import { readInCommitOrder, readPlace, type CommitCursor } from '../store/views/webhook-events.ts'
import { leastId } from '../store/message-id.ts'
import { webhookEventOf } from './event-body.ts'

export interface CaughtUp {
  readonly events: readonly WebhookEvent[]
  /** Where the next page begins, also when there is nothing behind it yet. */
  readonly next: string
  /** There is more already. */
  readonly more: boolean
}

const start: CommitCursor = { tx: '0', messageId: leastId, sequence: 0 }

export async function catchUp(
  db: Db,
  workspace: WorkspaceId,
  after: string | undefined,
  limit: number = limits.eventsPage,
): Promise<CaughtUp | Refusal> {
  const place = after === undefined ? { cursor: start, restored: '' } : parseCursor(after)
  if (place === undefined)
    return refuse('invalid_request', '"after" must be the "next" of an earlier page, as it was.', { field: 'after' })
  const [behind, endpoint] = await Promise.all([
    readInCommitOrder(db, workspace, place.cursor, limit),
    findEndpoint(db, workspace),
  ])
  // After the reading, not before it: between the two another server may take over, which has lost the place.
  const { restored, stands } = await readPlace(db, workspace, place.cursor)
  // After a restore, or a failover that lost commits, nobody knows what a reader has read of what is there now: again from the beginning, better
  // twice than never. The same where age has deleted the event.
  const goesOn = place.cursor.tx === start.tx || (stands && place.restored === restored)
  const cursor = goesOn ? place.cursor : start
  const rows = goesOn ? behind : await readInCommitOrder(db, workspace, start, limit)
  const last = rows.at(-1)
  return {
    events: rows.map((row) => webhookEventOf(workspace, row, endpoint?.api_version ?? webhookApiVersion)),
    next: writeCursor(
      last === undefined ? cursor : { tx: last.tx, messageId: last.message_id, sequence: last.sequence },
      restored,
    ),
    more: rows.length === limit,
  }
}

function writeCursor({ tx, messageId, sequence }: CommitCursor, restored: string): string {
  return Buffer.from(`${tx} ${messageId} ${sequence} ${restored}`.trimEnd()).toString('base64url')
}

interface Place {
  readonly cursor: CommitCursor
  /** The mark of the last restore, when the page was read. */
  readonly restored: string
}

function parseCursor(text: string): Place | undefined {
  const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
  const pattern = new RegExp(`^(\\d{1,19}) (${uuid}) (\\d{1,9})(?: (${uuid}))?$`)
  const match = pattern.exec(Buffer.from(text, 'base64url').toString('latin1'))
  const [, tx = '', messageId = '', sequence = '', restored = ''] = match ?? []
  return match === null ? undefined : { cursor: { tx, messageId, sequence: Number(sequence) }, restored }
}
