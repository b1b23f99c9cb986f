// Our records in the words of the contract: specification 2.3 to 2.6. Members without a value are left out; times are
// UTC with milliseconds.
import { given } from '../base/given.ts'
import type { DeliveryEvent, Message, MessageDeliveryStatus, SendMessageResponse } from '../contract/message.ts'
import type { DeliveryEventRecord } from '../domain/message.ts'
import type { MessageRecord } from '../domain/submission.ts'

function presentMessage(record: MessageRecord): Message {
  const message: Message = {
    id: record.id,
    organizationId: record.workspaceId,
    mailboxId: record.mailboxId,
    direction: 'outbound',
    status: record.status,
    sender: record.sender,
    recipient: record.recipient,
    subject: record.subject,
    bodyText: record.bodyText,
    createdAt: record.createdAt.toISOString(),
  }
  // Assigned one by one: spreading optional members costs five times as much, on every 202.
  if (record.providerMessageId !== undefined) message.providerMessageId = record.providerMessageId
  if (record.errorMessage !== undefined) message.errorMessage = record.errorMessage
  if (record.metadata !== undefined) message.metadata = { ...record.metadata }
  if (record.expiresAt !== undefined) message.expiresAt = record.expiresAt.toISOString()
  if (record.contentExpiredAt !== undefined) message.contentExpiredAt = record.contentExpiredAt.toISOString()
  return message
}

/**
 * The 202 body is the one of the acceptance, also when it is given again later: the state it tells is the first one.
 */
export function presentAccepted(record: MessageRecord): SendMessageResponse {
  const message = presentMessage(record)
  if (record.status !== 'queued') {
    message.status = 'queued'
    delete message.providerMessageId
    delete message.errorMessage
  }
  return { id: message.id, status: message.status, message }
}

export function presentStatus(record: MessageRecord, events: readonly DeliveryEventRecord[]): MessageDeliveryStatus {
  return {
    message: presentMessage(record),
    processingStatus: record.status,
    deliveryStatus: record.deliveryStatus,
    events: events.map(presentEvent),
  }
}

function presentEvent(event: DeliveryEventRecord): DeliveryEvent {
  return given<DeliveryEvent>({
    id: event.id,
    eventType: event.eventType,
    recipient: event.recipient,
    detail: event.detail,
    createdAt: event.createdAt.toISOString(),
  })
}
