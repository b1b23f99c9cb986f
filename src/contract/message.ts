// What is sent and what is told about it: specification 2.1 to 2.6, with the additions of decisions D and K and no
// others. Requests are closed (an unknown member is an error, so that a typo is not silently ignored), responses are
// open.
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { pairs, time, uuid } from './values.ts'
import { deliveryStatuses, processingStatuses } from './words.ts'

export const Attachment = Type.Object(
  {
    filename: Type.String({
      description:
        'Safe display name: 1 to 255 bytes of UTF-8, no line breaks, control characters, slashes or bidirectional overrides.',
      minLength: 1,
      maxLength: 255,
      examples: ['receipt.pdf'],
    }),
    contentType: Type.Optional(
      Type.String({
        description:
          'MIME type, optionally with parameters. `multipart/*` and `message/*` are refused; a `name` in it is left out, since `filename` says it.',
        default: 'application/octet-stream',
        maxLength: 255,
        examples: ['application/pdf'],
      }),
    ),
    contentBase64: Type.String({
      description:
        'The bytes of the file in standard Base64 (RFC 4648 section 4): padded, no line breaks, not the URL-safe alphabet.',
      contentEncoding: 'base64',
      examples: ['SGVsbG8='],
    }),
  },
  { additionalProperties: false, description: 'A file of a message.' },
)
export type Attachment = Static<typeof Attachment>

const metadata = pairs(Type.String({ maxLength: 500 }), {
  description: 'Up to 20 pairs of your own. Echoed in status reads and webhooks, never sent to the recipient.',
  maxProperties: 20,
  propertyNames: { minLength: 1, maxLength: 40 },
  examples: [{ orderId: '1042' }],
})

export const SendMessageRequest = Type.Object(
  {
    mailboxId: uuid('An active mailbox of the workspace, on a verified domain: the sender.'),
    recipient: Type.String({
      format: 'email',
      description:
        'Exactly one address, without a display name: at most 254 octets, local part at most 64 and without quotes, a domain name behind the `@`. Suppressed recipients are refused.',
      maxLength: 254,
      examples: ['ada@example.com'],
    }),
    subject: Type.String({
      description: '1 to 998 characters. Line breaks and control characters are refused.',
      minLength: 1,
      maxLength: 998,
      examples: ['Your receipt'],
    }),
    bodyText: Type.String({
      description: 'Plain text, at most 5 MiB of UTF-8.',
      minLength: 1,
      examples: ['Thank you for your order.\n'],
    }),
    attachments: Type.Optional(
      Type.Array(Attachment, {
        description:
          'At most 10 files and 20 MB (20 x 1024 x 1024 bytes) decoded in total. Every file is scanned for malware.',
        maxItems: 10,
      }),
    ),
    expiresAt: Type.Optional(
      time(
        'Give up after this time, at most 7 days ahead. RFC 3339 with a time zone. The end of the tries (ten in about 24 hours, unless the installation has another schedule), or 26 hours, end it in any case.',
      ),
    ),
    metadata: Type.Optional(metadata),
  },
  { additionalProperties: false, description: 'One message to one recipient.' },
)
export type SendMessageRequest = Static<typeof SendMessageRequest>

const processingStatus = Type.Enum(processingStatuses, {
  type: 'string',
  description: [
    "The service's queue state.",
    '* `queued`: waiting for a delivery worker.',
    '* `sending`: claimed by a worker.',
    '* `sent`: submitted successfully over SMTP.',
    '* `retrying`: will be tried again; it is proven that no server has accepted it.',
    '* `failed`: confirmed failure, no further attempt.',
    '* `delivery_unknown`: it cannot be proven whether the receiving server has accepted it; never tried again, so never sent twice.',
  ].join('\n'),
})

const deliveryStatus = Type.Enum(deliveryStatuses, {
  type: 'string',
  description: [
    'What the receiving provider reported.',
    '* `pending`: nothing yet.',
    '* `delivered`: the provider confirmed delivery.',
    '* `soft_bounce`: refused, but not because the recipient is bad.',
    '* `hard_bounce`: refused because the recipient is bad; the recipient is suppressed.',
    '* `complaint`: the recipient reported the message as spam; the recipient is suppressed.',
  ].join('\n'),
})

export const Message = Type.Object(
  {
    id: uuid('The message. A UUIDv7, so ids sort by time.'),
    organizationId: Type.Optional(uuid('The workspace.')),
    mailboxId: uuid('The sending mailbox.'),
    direction: Type.Enum(['outbound'], { type: 'string', description: 'Always `outbound`.' }),
    status: processingStatus,
    sender: Type.String({
      format: 'email',
      description: 'The address of the mailbox.',
      examples: ['shop@example.org'],
    }),
    recipient: Type.String({ format: 'email', description: 'The recipient.', examples: ['ada@example.com'] }),
    subject: Type.String({ description: 'As submitted.', examples: ['Your receipt'] }),
    bodyText: Type.String({
      description: 'As submitted; empty after the content has expired (`contentExpiredAt`).',
      examples: ['Thank you for your order.\n'],
    }),
    providerMessageId: Type.Optional(
      Type.String({ description: 'The id that the receiving server gave, where it gave one.' }),
    ),
    errorMessage: Type.Optional(Type.String({ description: 'Why the last attempt did not succeed.' })),
    metadata: Type.Optional(metadata),
    expiresAt: Type.Optional(time('As submitted.')),
    contentExpiredAt: Type.Optional(
      time(
        'Since when body and attachments cannot be read any more; they are deleted within four days of that, or within a twentieth of the time that content is kept, where that is more.',
      ),
    ),
    createdAt: time('When the message was accepted.'),
  },
  { description: 'An outbound message.' },
)
export type Message = Static<typeof Message>

export const SendMessageResponse = Type.Object(
  {
    id: uuid('The message; read its status with it.'),
    status: processingStatus,
    message: Message,
  },
  { description: 'The message is kept and will be delivered. Its status is `queued`.' },
)
export type SendMessageResponse = Static<typeof SendMessageResponse>

const deliveryEventTypes = ['delivered', 'soft_bounce', 'hard_bounce', 'complaint'] as const
export const DeliveryEvent = Type.Object(
  {
    id: uuid('The event.'),
    eventType: Type.Enum(deliveryEventTypes, { type: 'string', description: 'What was reported.' }),
    recipient: Type.String({
      format: 'email',
      description: 'For whom it was reported.',
      examples: ['ada@example.com'],
    }),
    detail: Type.Optional(Type.String({ description: "The provider's own words." })),
    createdAt: time('When the report was recorded.'),
  },
  { description: 'A report of the receiving provider.' },
)
export type DeliveryEvent = Static<typeof DeliveryEvent>

export const MessageDeliveryStatus = Type.Object(
  {
    message: Message,
    processingStatus,
    deliveryStatus,
    events: Type.Array(DeliveryEvent, { description: "All the provider's reports, oldest first." }),
  },
  { description: 'The queue state and the delivery state of a message. They are separate: neither changes the other.' },
)
export type MessageDeliveryStatus = Static<typeof MessageDeliveryStatus>
