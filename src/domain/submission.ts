// What a face hands to `accept`: typed values only. Whoever calls has proved who they are; nothing else is believed.
import type { EmailAddress } from '../mail/address.ts'
import type { AttachedFile } from '../mail/compose.ts'
import type { MailboxId, MessageId, MessageSource, MessageStatus, DeliveryStatus, WorkspaceId } from './message.ts'
import type { Standing } from './standing.ts'

export interface Submission {
  readonly workspaceId: WorkspaceId
  readonly source: MessageSource
  readonly mailboxId: MailboxId
  readonly recipient: EmailAddress
  readonly subject: string
  readonly bodyText: string
  readonly attachments: readonly AttachedFile[]
  readonly expiresAt?: Date
  readonly metadata?: Readonly<Record<string, string>>
  readonly idempotency?: {
    /** The space of the key; the source where nothing is said. */
    readonly endpoint?: 'send_again' | 'notice'
    readonly key: string
    /** SHA-256 over the raw bytes of the request body, hex. */
    readonly bodyHash: string
  }
}

/** One DATA over SMTP: a mail that is sent as it is, to each of its recipients as a message of its own; all of them, or none. */
export interface MailSubmission {
  readonly workspaceId: WorkspaceId
  /** The one in From. */
  readonly mailboxId: MailboxId
  /** At least one, all different. */
  readonly recipients: readonly EmailAddress[]
  /** As it was submitted, for the scanner. */
  readonly scanned: Buffer
  /** Where it is nothing but a text for people: this text, decoded, which a scanner without an engine looks at in passing. */
  readonly plainText?: Buffer
  /** What is sent, but for trace and signature. */
  readonly content: Buffer
  /** Mandatory fields that the content lacks, and that are made with the message. */
  readonly lacks: readonly ('Date' | 'Message-ID')[]
  /** To the right of the `@` of a Message-ID made here. */
  readonly senderDomain: string
  readonly subject: string
  readonly expiresAt?: Date
  readonly metadata?: Readonly<Record<string, string>>
  readonly idempotency?: MailIdempotency
  /** On the clock of `performance.now()`: nothing is admitted later. */
  readonly until: number
}

/**
 * `key` is the caller's; ours are `again`, in place of a message that failed or is unknown, and `repeat`, the same mail again to a recipient
 * within `keptMs` milliseconds.
 */
export type MailIdempotency = { readonly key: string; readonly hash: string } & (
  | { readonly kind: 'key' | 'again' }
  | { readonly kind: 'repeat'; readonly keptMs: number }
)

export interface AcceptedMail {
  /** In the order of the recipients. */
  readonly ids: readonly MessageId[]
  readonly replayed: boolean
}

/** Who an SMTP session speaks for. */
export interface Submitter extends Standing {
  readonly credentialId: string
  readonly workspaceId: WorkspaceId
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

/** Who a key, or a member's session, speaks for. Everything needed before a body is read (decisions D). */
export interface Principal extends Standing {
  /** Who is written down in the audit log: `key:<id>` or `user:<id>`. */
  readonly actor: string
  /** Left out where a member came in. */
  readonly keyId?: string
  readonly workspaceId: WorkspaceId
  readonly scopes: ReadonlySet<string>
}
