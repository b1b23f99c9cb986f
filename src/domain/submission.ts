// What a face hands to `accept`: typed values only. Whoever calls has proved who they are; nothing else is believed.
import type { EmailAddress } from '../mail/address.ts'
import type { MailboxId, MessageId, MessageStatus, DeliveryStatus, WorkspaceId } from './message.ts'

export interface Attachment {
  readonly filename: string
  readonly contentType: string
  readonly bytes: Buffer
}

export interface Submission {
  readonly workspaceId: WorkspaceId
  readonly source: 'rest' | 'smtp'
  readonly mailboxId: MailboxId
  readonly recipient: EmailAddress
  readonly subject: string
  readonly bodyText: string
  readonly attachments: readonly Attachment[]
  readonly expiresAt?: Date
  readonly metadata?: Readonly<Record<string, string>>
  readonly idempotency?: {
    readonly key: string
    /** SHA-256 over the raw bytes of the request body, hex. */
    readonly bodyHash: string
  }
}

/** The record of a message: specification 2.3, and what our own additions need. */
export interface MessageRecord {
  readonly id: MessageId
  readonly workspaceId: WorkspaceId
  readonly mailboxId: MailboxId
  readonly status: MessageStatus
  readonly deliveryStatus: DeliveryStatus
  readonly sender: string
  readonly recipient: string
  readonly subject: string
  /** Empty after the content has expired. */
  readonly bodyText: string
  readonly providerMessageId?: string
  readonly errorMessage?: string
  readonly metadata?: Readonly<Record<string, string>>
  readonly createdAt: Date
  readonly expiresAt?: Date
  readonly contentExpiredAt?: Date
}

export type QuotaWindow = 'hour' | 'day' | 'month'

/** One limited window of a workspace after a submission. Unlimited windows are not listed. */
export interface QuotaState {
  readonly window: QuotaWindow
  readonly limit: number
  readonly remaining: number
  /** Seconds until the window gives room again (hour: until the oldest charged minute leaves it; day, month: until it turns). */
  readonly resetSeconds: number
}

export interface Accepted {
  readonly message: MessageRecord
  /** True when an earlier submission with the same idempotency key made the message. */
  readonly replayed: boolean
  readonly quota: readonly QuotaState[]
}

/** Who a key speaks for. Everything needed before a body is read (decisions D). */
export interface Principal {
  readonly keyId: string
  readonly workspaceId: WorkspaceId
  readonly scopes: ReadonlySet<string>
  readonly blocked: boolean
  readonly apiSending: boolean
  readonly upgradeUrl?: string
}
