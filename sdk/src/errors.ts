// Three ways not to succeed: the service said no (PosthornApiError), nobody answered (PosthornConnectionError), or the outcome did
// not come in time (PosthornWaitError).
import type { MessageDeliveryStatus } from './shapes.ts'

/** Machine codes of the API; new ones may come, so a code that you do not know is to be treated by its status. */
export type ErrorCode =
  | 'invalid_request'
  | 'invalid_json'
  | 'invalid_api_key'
  | 'insufficient_scope'
  | 'workspace_blocked'
  | 'upgrade_required'
  | 'mailbox_not_active'
  | 'recipient_suppressed'
  | 'too_many_attachments'
  | 'attachments_too_large'
  | 'attachment_infected'
  | 'scanner_unavailable'
  | 'hourly_limit_reached'
  | 'daily_limit_reached'
  | 'monthly_limit_reached'
  | 'idempotency_key_reused'
  | 'idempotency_in_progress'
  | 'payload_too_large'
  | 'not_found'
  | 'service_unavailable'
  | 'internal_error'
  | (string & {})

export class PosthornError extends Error {
  override readonly name: string = 'PosthornError'
  /**
   * Of a send: repeat it with this key and the same message, and there is still only one message; for as long as the service keeps the
   * record of it (90 days, unless its operator says otherwise).
   */
  readonly idempotencyKey?: string
  constructor(message: string, options: { cause?: unknown; idempotencyKey?: string | undefined } = {}) {
    super(message, options)
    if (options.idempotencyKey !== undefined) this.idempotencyKey = options.idempotencyKey
  }
}

/** The service, or a proxy before it, answered no. `code` says why. From 500 on a message may have been accepted all the same. */
export class PosthornApiError extends PosthornError {
  override readonly name = 'PosthornApiError'
  /** HTTP status. */
  readonly status: number
  readonly code?: ErrorCode
  /** The member, header or parameter that is wrong. */
  readonly field?: string
  readonly upgradeUrl?: string
  /** Quote it when you ask for help. */
  readonly requestId?: string
  /** How long the service asks to wait. */
  readonly retryAfterSeconds?: number
  constructor(
    answer: {
      status: number
      error: string
      code?: string
      field?: string
      upgradeUrl?: string
      requestId?: string
      retryAfterSeconds?: number
    },
    idempotencyKey?: string,
  ) {
    const { error, status, ...rest } = answer
    super(error, { idempotencyKey })
    this.status = status
    Object.assign(this, rest)
  }

  /** Nothing is wrong with the request: the same one may succeed later. */
  get isTransient(): boolean {
    // 408: nobody read the whole request, or a proxy had just given up the connection.
    return [408, 429].includes(this.status) || this.status >= 500 || this.code === 'idempotency_in_progress'
  }
}

/** No answer came. A message may have been accepted or not; repeat the send with `idempotencyKey` to be sure. */
export class PosthornConnectionError extends PosthornError {
  override readonly name = 'PosthornConnectionError'
}

/** The outcome did not come in time. The message goes on; `status` is the last that was read. */
export class PosthornWaitError extends PosthornError {
  override readonly name = 'PosthornWaitError'
  readonly status: MessageDeliveryStatus
  constructor(status: MessageDeliveryStatus, waitedMs: number) {
    super(
      `Message ${status.message.id} is still ${status.processingStatus} (${status.deliveryStatus}) after ${waitedMs} ms.`,
    )
    this.status = status
  }
}
