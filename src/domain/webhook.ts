// The words of webhooks: what an endpoint is, what can go wrong with a try at posting an event, and where an event stands. Decisions G.
import type { EventType } from './event.ts'

/** Specification 6.1. */
export type WebhookEventType = EventType | 'webhook.test'

/** What went wrong where no answer came, or none that we read. */
export const webhookTroubles = {
  blocked_address:
    "The name leads to an address that is not public, or to one of this service's own machine: for local development, POSTHORN_ALLOW_PRIVATE_WEBHOOKS=true has to be set for the service, too.",
  dns_failure: 'The name could not be resolved.',
  connect_failed: 'No connection could be made.',
  tls_failed: 'No TLS session could be made: look at the certificate.',
  timeout: 'The receiver did not answer in time.',
  closed: 'The receiver closed the connection before it had answered.',
  malformed: 'The receiver answered with something that is no HTTP/1.1 response.',
  too_large: 'The answer was longer than we read; answer with a short body, or none.',
  shutdown: 'The service was shut down before the receiver had answered.',
  worker_lost: 'The sender was lost; whether the request was made is not known.',
} as const
export type WebhookTrouble = keyof typeof webhookTroubles

/** Why an endpoint gets nothing: by its owner; 410 to the last try of an event; no success for 120 hours. */
export type DisableReason = 'by_hand' | 'receiver_gone' | 'no_success'

/** Where an event stands with the endpoint. `not_sent`: the filter or the state of the endpoint kept it; it can be sent by hand. */
export type WebhookDeliveryState = 'waiting' | 'sending' | 'delivered' | 'failed' | 'not_sent'

/** `leased` is null where the event is not in the queue. */
export function webhookStateOf(row: {
  readonly leased: boolean | null
  readonly delivered: boolean | null
  readonly tried: boolean | null
}): WebhookDeliveryState {
  if (row.leased !== null) return row.leased ? 'sending' : 'waiting'
  if (row.delivered === true) return 'delivered'
  return row.tried === true ? 'failed' : 'not_sent'
}

export interface WebhookEndpoint {
  readonly url: string
  /** Left out: all types. */
  readonly events?: readonly WebhookEventType[]
  readonly apiVersion: string
  readonly state: 'active' | 'disabled'
  readonly reason?: DisableReason
  readonly disabledAt?: Date
  /** The first failure since the last success. */
  readonly failingSince?: Date
  /** A new secret is prepared and does not sign alone yet. */
  readonly rotating: boolean
  /** Until when the replaced secret signs, too. */
  readonly previousUntil?: Date
  /** Another one with each change. */
  readonly version: number
  readonly createdAt: Date
}

/** `secret` is shown this once. */
export type WebhookEndpointWithSecret = WebhookEndpoint & { readonly secret?: string }

/** One ended try. `excerpt` is a stranger's text. */
export interface WebhookAttempt {
  /** Counts the ladders of eight: each sending by hand begins one. */
  readonly round: number
  readonly attempt: number
  readonly endedAt: Date
  readonly delivered: boolean
  readonly status?: number
  readonly trouble?: WebhookTrouble
  readonly durationMs?: number
  readonly excerpt?: string
}

export interface WebhookLogEntry {
  readonly id: string
  readonly type: string
  readonly createdAt: Date
  readonly messageId?: string
  readonly sequence?: number
  /** Of its message. */
  readonly recipient?: string
  readonly subject?: string
  readonly state: WebhookDeliveryState
  readonly nextAttemptAt?: Date
}

/** What of the log is wanted: all that is said holds. */
export interface WebhookLogFilter {
  readonly state?: WebhookDeliveryState
  readonly type?: string
  readonly messageId?: string
}

/** The whole of one event: what is posted, and every try. */
export interface WebhookEventDetail extends WebhookLogEntry {
  readonly body: object
  readonly attempts: readonly WebhookAttempt[]
}
