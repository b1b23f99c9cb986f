// Our words for the thing that everything here is about. Names are the specification's (sections 2.3, 2.6, 3).

/** UUIDv7, lower case; its milliseconds are the database's clock. */
export type MessageId = string & { readonly brand: 'MessageId' }
/** `organizationId` on the wire. */
export type WorkspaceId = string & { readonly brand: 'WorkspaceId' }
export type MailboxId = string & { readonly brand: 'MailboxId' }

/** Specification 3.1. */
export const messageStatuses = ['queued', 'sending', 'sent', 'retrying', 'failed', 'delivery_unknown'] as const
export type MessageStatus = (typeof messageStatuses)[number]

/** How it came in; `notice`: written by Posthorn itself. */
export type MessageSource = 'rest' | 'smtp' | 'notice'

/** Specification 3.2, with `pending` before any report (decisions C). */
export const deliveryStatuses = ['pending', 'delivered', 'soft_bounce', 'hard_bounce', 'complaint'] as const
export type DeliveryStatus = (typeof deliveryStatuses)[number]

/** Specification 2.5: what a receiving provider can report. */
export const deliveryEventTypes = ['delivered', 'soft_bounce', 'hard_bounce', 'complaint'] as const
export type DeliveryEventType = (typeof deliveryEventTypes)[number]

/** A claim of one message by one worker: the fencing number, and the random token that keeps it unique even after a restore. */
export interface Claim {
  readonly id: MessageId
  readonly epoch: number
  /** Decimal text of a random 63-bit integer. */
  readonly token: string
}

/** Specification 2.5: a report of the receiving provider, as it is kept. */
export interface DeliveryEventRecord {
  /** UUID. */
  readonly id: string
  readonly eventType: DeliveryEventType
  readonly recipient: string
  readonly detail?: string
  readonly createdAt: Date
}
