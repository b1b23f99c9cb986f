// What goes over the wire, as the specification names it (sections 2 and 6). A test holds these types to the server's own contract.

/** What Posthorn has done with a message so far. `sent`, `failed` and `delivery_unknown` are ends. */
export type ProcessingStatus = 'queued' | 'sending' | 'sent' | 'retrying' | 'failed' | 'delivery_unknown'
/** What the receiving provider has reported; `pending` before any report. */
export type DeliveryStatus = 'pending' | 'delivered' | 'soft_bounce' | 'hard_bounce' | 'complaint'

export interface Attachment {
  filename: string
  /** Default `application/octet-stream`. */
  contentType?: string
  /** Standard Base64, padded, without line breaks. */
  contentBase64: string
}
/** A file as bytes (a `Buffer` is one; read a stream or a blob first), or already in Base64. */
export type AttachmentInput =
  | Attachment
  | { filename: string; contentType?: string; content: ArrayBuffer | ArrayBufferView }

/** One message to one recipient. */
export interface MessageToSend {
  /** The sending mailbox, a UUID. */
  mailboxId: string
  recipient: string
  subject: string
  /** Plain text. */
  bodyText: string
  /** At most 10 files, at most 20 MB together. */
  attachments?: readonly AttachmentInput[]
  /** Give up after this time, at most 7 days ahead. */
  expiresAt?: Date | string
  /** Up to 20 pairs of your own: echoed in status and webhooks, never sent. */
  metadata?: Readonly<Record<string, string>>
}

export interface Message {
  id: string
  organizationId?: string
  mailboxId: string
  direction: 'outbound'
  status: ProcessingStatus
  sender: string
  recipient: string
  subject: string
  bodyText: string
  providerMessageId?: string
  errorMessage?: string
  metadata?: Record<string, string>
  expiresAt?: string
  contentExpiredAt?: string
  createdAt: string
}

export interface SendMessageResponse {
  id: string
  status: ProcessingStatus
  message: Message
}

/** A report of the receiving provider. */
export interface DeliveryEvent {
  id: string
  eventType: 'delivered' | 'soft_bounce' | 'hard_bounce' | 'complaint'
  recipient: string
  /** The provider's own words. */
  detail?: string
  createdAt: string
}

export interface MessageDeliveryStatus {
  message: Message
  processingStatus: ProcessingStatus
  deliveryStatus: DeliveryStatus
  events: DeliveryEvent[]
}

export type MessageEventType =
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
export type WebhookEventType = MessageEventType | 'webhook.test'

/** The conversation with the receiving server, as far as it got. */
export interface SmtpFacts {
  host?: string
  address?: string
  stage?: string
  code?: number
  enhancedCode?: string
  reply?: string
  tls?: unknown
}

/** How a bounce was classified. */
export interface Bounce {
  class: string
  permanent: boolean
  /** Nobody tries again. */
  final: boolean
  rule: string
  source: string
}

/** `data` of message events. More members may be added; ignore what you do not know. */
export interface MessageEventData {
  messageId: string
  organizationId: string
  mailboxId: string
  sender: string
  recipient: string
  subject: string
  status: ProcessingStatus
  deliveryStatus: DeliveryStatus
  /** Counts the events of one message from 1, without gaps: order by it. */
  sequence: number
  occurredAt: string
  attempt?: number
  /** Why, as a stable word: `rcpt_4xx`, `dns`, `expired`. */
  reason?: string
  nextAttemptAt?: string
  errorMessage?: string
  smtp?: SmtpFacts
  event?: DeliveryEvent
  bounce?: Bounce
  /** The recipient is now suppressed. */
  suppressed?: boolean
  metadata?: Record<string, string>
}
export interface TestEventData {
  test: true
  message: string
}

interface EventOf<Type, Data> {
  /** Equals the header `Webhook-Id`; the same on every retry: deduplicate on it. */
  id: string
  type: Type
  createdAt: string
  /** Date of the version of this body. */
  apiVersion: string
  data: Data
}
/** What is posted to your receiver. `if (event.type === 'webhook.test')` narrows `data`. */
export type WebhookEvent = EventOf<MessageEventType, MessageEventData> | EventOf<'webhook.test', TestEventData>

/** A page of catch-up reading, oldest first. */
export interface EventPage {
  events: WebhookEvent[]
  /** Give it as `after` to read on; it never skips an event. */
  next: string
}
