// What is told about a message: specification 6.1. An event has no column for its id: it is made from the message's id and the event's
// sequence, so it is the same on every node and every retry.
import type { DeliveryEventType, MessageId } from './message.ts'

/** Specification 6.1, without `webhook.test`, which no message has. */
export type EventType =
  | 'message.queued'
  | 'message.sending'
  | 'message.sent'
  | 'message.retrying'
  | 'message.delivered'
  | 'message.soft_bounced'
  | 'message.hard_bounced'
  | 'message.complained'
  | 'message.failed'
  | 'message.delivery_unknown'

/** The event that tells of each kind of report. */
export const reportEvents = {
  delivered: 'message.delivered',
  soft_bounce: 'message.soft_bounced',
  hard_bounce: 'message.hard_bounced',
  complaint: 'message.complained',
} as const satisfies Record<DeliveryEventType, EventType>

/**
 * The message's UUID with the version digit 8 (RFC 9562 5.8) and the sequence mixed into its last 16 bits. Two messages of one
 * millisecond differ in the 58 bits before those with all but certainty, so the ids of their events do, too.
 */
export function eventId(message: MessageId, sequence: number): string {
  if (!Number.isInteger(sequence) || sequence < 1 || sequence > 0xffff)
    throw new RangeError(`a message has no event ${sequence}`)
  const last = (Number.parseInt(message.slice(32), 16) ^ sequence).toString(16).padStart(4, '0')
  return `${message.slice(0, 14)}8${message.slice(15, 32)}${last}`
}

/** The ids between which the message of an event lies: few, since only their last 16 bits are open. */
export function messagesOfEvent(id: string): { readonly from: MessageId; readonly to: MessageId } {
  const known = `${id.slice(0, 14)}7${id.slice(15, 32)}`
  return { from: `${known}0000` as MessageId, to: `${known}ffff` as MessageId }
}
