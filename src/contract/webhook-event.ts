// What is posted to a workspace's receiver: specification 2.7 and 6, decisions G.
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { pairs } from './values.ts'
import { DeliveryEvent } from './message.ts'
import {
  deliveryStatuses,
  processingStatuses,
  webhookApiVersion,
  webhookEventTypeNames,
  webhookEventTypes,
} from './words.ts'

/** Without `format`: `email` is ASCII alone, and who checks what comes would never get past the event of an address that is not. */
const address = Type.String({ description: 'May have letters beyond ASCII before the `@`.' })
const report = Type.Object(
  { ...DeliveryEvent.properties, recipient: address },
  { description: 'The report of the receiving provider.' },
)

const data = Type.Object(
  {
    messageId: Type.Optional(Type.String({ format: 'uuid' })),
    organizationId: Type.Optional(Type.String({ format: 'uuid' })),
    mailboxId: Type.Optional(Type.String({ format: 'uuid' })),
    sender: Type.Optional(address),
    recipient: Type.Optional(address),
    subject: Type.Optional(Type.String()),
    status: Type.Optional(Type.Enum(processingStatuses, { type: 'string' })),
    deliveryStatus: Type.Optional(Type.Enum(deliveryStatuses, { type: 'string' })),
    sequence: Type.Optional(
      Type.Integer({ minimum: 1, description: 'Counts the events of one message, without gaps: order by it.' }),
    ),
    occurredAt: Type.Optional(Type.String({ format: 'date-time' })),
    attempt: Type.Optional(Type.Integer({ minimum: 1, description: 'The delivery attempt that this is about.' })),
    reason: Type.Optional(Type.String({ description: 'Why, as a stable word: `rcpt_4xx`, `dns`, `expired`.' })),
    nextAttemptAt: Type.Optional(Type.String({ format: 'date-time' })),
    errorMessage: Type.Optional(Type.String()),
    smtp: Type.Optional(
      Type.Object(
        {
          host: Type.Optional(Type.String()),
          address: Type.Optional(Type.String()),
          stage: Type.Optional(Type.String()),
          code: Type.Optional(Type.Integer()),
          enhancedCode: Type.Optional(Type.String()),
          reply: Type.Optional(Type.String()),
          tls: Type.Optional(Type.Unknown()),
        },
        { description: 'The conversation with the receiving server, as far as it got.' },
      ),
    ),
    event: Type.Optional(report),
    bounce: Type.Optional(
      Type.Object(
        {
          class: Type.String(),
          permanent: Type.Boolean(),
          final: Type.Boolean({ description: 'Nobody tries again.' }),
          rule: Type.String({ description: 'Which rule classified it.' }),
          source: Type.String({ description: 'Where the report came from.' }),
        },
        { description: 'How a bounce was classified.' },
      ),
    ),
    suppressed: Type.Optional(Type.Boolean({ description: 'The recipient is now suppressed.' })),
    metadata: Type.Optional(pairs(Type.String())),
    test: Type.Optional(Type.Boolean({ description: '`webhook.test` only.' })),
    message: Type.Optional(Type.String({ description: '`webhook.test` only.' })),
  },
  {
    additionalProperties: true,
    description: 'Depends on the type. More members may be added; ignore what you do not know.',
  },
)

export const WebhookEvent = Type.Object(
  {
    id: Type.String({
      format: 'uuid',
      description: 'Equals `Webhook-Id`; the same on every retry. Deduplicate on it.',
    }),
    type: Type.Enum(webhookEventTypeNames, {
      type: 'string',
      description: Object.entries(webhookEventTypes)
        .map(([type, when]) => `* \`${type}\`: ${when}`)
        .join('\n'),
    }),
    createdAt: Type.String({ format: 'date-time', description: 'When it happened.' }),
    apiVersion: Type.String({
      description: 'The version of this body, pinned per endpoint (YYYY-MM-DD).',
      pattern: String.raw`^\d{4}-\d{2}-\d{2}$`,
      examples: [webhookApiVersion],
    }),
    data,
  },
  { description: "A change of a message's state, posted to the workspace's receiver." },
)
export type WebhookEvent = Static<typeof WebhookEvent>
