// The closed lists that requests and answers take their words from. Apart from the schemas, so that a command, which names them in its help, starts
// without the library that those are written in.

/** The service's queue state: specification 3.1. */
export const processingStatuses = ['queued', 'sending', 'sent', 'retrying', 'failed', 'delivery_unknown'] as const

/** What the receiving provider reported: specification 3.2. */
export const deliveryStatuses = ['pending', 'delivered', 'soft_bounce', 'hard_bounce', 'complaint'] as const

/** Specification 6.1. */
export const webhookEventTypes = {
  'message.queued': 'Message accepted into the delivery queue.',
  'message.sending': 'A worker claimed the message.',
  'message.sent': 'SMTP submission completed.',
  'message.retrying': 'An attempt failed before any server accepted the message; it will be tried again.',
  'message.delivered': 'Receiving provider reported delivery.',
  'message.soft_bounced': 'A provider rejection was reported that is temporary, or not about the recipient.',
  'message.hard_bounced': 'A permanent rejection was reported; the recipient is suppressed.',
  'message.complained': 'The recipient reported the message as spam.',
  'message.failed': 'Confirmed terminal failure.',
  'message.delivery_unknown': 'SMTP outcome ambiguous; automatic retry disabled.',
  'webhook.test': 'Endpoint test generated from the dashboard.',
} as const
export type WebhookEventType = keyof typeof webhookEventTypes

export const webhookEventTypeNames = Object.keys(webhookEventTypes) as WebhookEventType[]

/** The version of the bodies that this build writes for new endpoints. */
export const webhookApiVersion = '2026-11-01'

/** Where an event stands that a webhook is to tell. */
export const webhookStates = ['waiting', 'sending', 'delivered', 'failed', 'not_sent'] as const
