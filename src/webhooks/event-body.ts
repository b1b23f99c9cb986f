// The body of an event (specification 2.7, decisions G), made of rows that never change: the same bytes at every try and every sending again.
// Members stand in one order, and new ones may only be added for a new `apiVersion`.
import type { WebhookEvent } from '../contract/webhook-event.ts'
import type { WebhookEventType } from '../contract/words.ts'
import { deliveryStatusOf } from '../domain/delivery-status.ts'
import { eventId } from '../domain/event.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { EventRow } from '../store/views/webhook-events.ts'

export function webhookEventOf(workspaceId: WorkspaceId, row: EventRow, apiVersion: string): WebhookEvent {
  const id = eventId(row.message_id as MessageId, row.sequence)
  const at = new Date(row.occurred_ms).toISOString()
  const type = row.type as WebhookEventType
  const data = type === 'webhook.test' ? (row.facts ?? {}) : messageData(workspaceId, row, id, at)
  return { id, type, createdAt: at, apiVersion, data }
}

function messageData(workspaceId: WorkspaceId, row: EventRow, id: string, at: string): WebhookEvent['data'] {
  return {
    messageId: row.message_id,
    organizationId: workspaceId,
    // Null where the record's time was over before the event's: what is gone is left out.
    ...(row.mailbox_id !== null && { mailboxId: row.mailbox_id }),
    ...(row.sender !== null && { sender: row.sender }),
    ...(row.recipient !== null && { recipient: row.recipient }),
    ...(row.subject !== null && { subject: row.subject }),
    status: row.status,
    deliveryStatus: deliveryStatusOf(row.delivery_rank),
    sequence: row.sequence,
    occurredAt: at,
    ...row.facts,
    ...(row.report_type !== null && {
      event: {
        id,
        eventType: row.report_type,
        recipient: row.recipient ?? '',
        ...(row.detail !== null && { detail: row.detail }),
        createdAt: new Date(row.report_ms ?? row.occurred_ms).toISOString(),
      },
    }),
    ...(row.metadata !== null && { metadata: row.metadata }),
  }
}
