// The table of endpoints under /api/v1: what each takes, may answer and needs. The faces read their paths and response
// schemas from it, and the OpenAPI document is made of it, so that the documentation cannot say anything else than the
// code. Specification 4 and 5.
import { Type } from 'typebox'
import type { TSchema } from 'typebox'
import { ErrorBody } from './error.ts'
import { MessageDeliveryStatus, SendMessageRequest, SendMessageResponse } from './message.ts'

/** Scopes of API keys, specification 5. */
export const scopes = {
  'mail.send': 'Send messages.',
  'mail.status.read': 'Read the status of messages.',
} as const
export type Scope = keyof typeof scopes

/** Response headers by their name. Every response of the API carries X-Request-Id. */
export const responseHeaders = {
  'X-Request-Id': ['Names this request in the log; quote it when you ask for help.', Type.String()],
  'WWW-Authenticate': ['Always `Bearer`.', Type.String()],
  'Retry-After': ['Seconds to wait before another try.', Type.Integer({ minimum: 0 })],
  'RateLimit-Limit': ['Messages that the tightest window of the plan admits.', Type.Integer({ minimum: 0 })],
  'RateLimit-Remaining': ['Messages left in that window.', Type.Integer({ minimum: 0 })],
  'RateLimit-Reset': ['Seconds until that window gives room again.', Type.Integer({ minimum: 0 })],
  'Idempotent-Replayed': [
    'Always `true`; present when this body answers an earlier request with the same idempotency key.',
    Type.String(),
  ],
} as const satisfies Record<string, readonly [description: string, schema: TSchema]>
export type ResponseHeader = keyof typeof responseHeaders

export interface Answer {
  readonly description: string
  readonly schema: TSchema
  readonly headers?: readonly ResponseHeader[]
}
export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'header'
  readonly required: boolean
  readonly description: string
  readonly schema: TSchema
}
export interface Operation {
  readonly method: 'get' | 'post'
  /** With parameters in braces, as OpenAPI writes them. */
  readonly path: string
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly description: string
  readonly scope: Scope
  readonly parameters?: readonly Parameter[]
  readonly body?: TSchema
  /** A request to start from: the required members. */
  readonly example?: object
  readonly answers: Readonly<Record<number, Answer>>
}

const rateLimits = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'] as const
const no = (description: string, headers: readonly ResponseHeader[] = []): Answer => ({
  description,
  schema: ErrorBody,
  headers,
})

/** What every endpoint may answer. */
const anyway = {
  401: no('Missing, invalid or revoked API key.', ['WWW-Authenticate']),
  500: no('Something is broken here (`internal_error`). The request id finds it in the log.'),
  503: no(
    'The database or the malware scanner cannot be reached, or too many large requests are under way (`service_unavailable`, `scanner_unavailable`). Nothing was accepted and nothing was charged.',
    ['Retry-After'],
  ),
} as const

export const operations = {
  send: {
    method: 'post',
    path: '/api/v1/send',
    operationId: 'sendMessage',
    tag: 'Messages',
    summary: 'Send one email',
    description: [
      'Queues one transactional email. A 202 means that the message is kept durably: it will be delivered, or end in a state that you can see.',
      '',
      'Checks run in this order, and the first that fails answers: 401 key, 403 scope, 403 blocked workspace, 402 plan, 413 size, 400 body, 400 mailbox, 422 suppressed recipient, 429 quota, 400 malware.',
      '',
      'Send an `Idempotency-Key` to repeat a request safely: however often it is repeated, there is one message.',
    ].join('\n'),
    scope: 'mail.send',
    parameters: [
      {
        name: 'Idempotency-Key',
        in: 'header',
        required: false,
        description:
          'Your own name for this message, 1 to 255 visible ASCII characters. The same key with the same body gives the first answer again, with `Idempotent-Replayed: true`; with another body it gives 409.',
        schema: Type.String({ minLength: 1, maxLength: 255, pattern: '^[!-~]+$', examples: ['order-1042-receipt'] }),
      },
    ],
    body: SendMessageRequest,
    example: {
      mailboxId: '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d',
      recipient: 'ada@example.com',
      subject: 'Your receipt',
      bodyText: 'Thank you for your order.\n',
    },
    answers: {
      202: {
        description: 'Accepted for asynchronous delivery.',
        schema: SendMessageResponse,
        headers: [...rateLimits, 'Idempotent-Replayed'],
      },
      400: no(
        'Malformed or invalid request (`invalid_json`, `invalid_request` with `field`, `too_many_attachments`, `attachments_too_large`), no active mailbox of the workspace (`mailbox_not_active`), or malware (`attachment_infected`).',
      ),
      401: anyway[401],
      402: no('Workspace plan does not include active API sending (`upgrade_required`).'),
      403: no('Key lacks mail.send (`insufficient_scope`), or workspace is blocked (`workspace_blocked`).'),
      409: no(
        'The idempotency key was used with another body (`idempotency_key_reused`), or its first request is still in progress (`idempotency_in_progress`).',
        ['Retry-After'],
      ),
      413: no('The body is larger than 48 MiB (`payload_too_large`).'),
      422: no('Recipient is suppressed (`recipient_suppressed`).'),
      429: no(
        'Rolling-hour, daily or monthly sending limit reached (`hourly_limit_reached`, `daily_limit_reached`, `monthly_limit_reached`).',
        ['Retry-After', ...rateLimits],
      ),
      500: anyway[500],
      503: anyway[503],
    },
  },
  readStatus: {
    method: 'get',
    path: '/api/v1/messages/{messageId}',
    operationId: 'getMessageStatus',
    tag: 'Messages',
    summary: 'Read the status of a message',
    description:
      'The current queue state and all delivery, bounce and complaint reports of the receiving provider. A blocked workspace, or a plan without API sending, can still read.',
    scope: 'mail.status.read',
    parameters: [
      {
        name: 'messageId',
        in: 'path',
        required: true,
        description: 'The id that send returned.',
        schema: Type.String({ format: 'uuid', examples: ['0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d'] }),
      },
    ],
    answers: {
      200: { description: 'Message found in the authenticated workspace.', schema: MessageDeliveryStatus },
      400: no('The id is not a UUID (`invalid_request`).'),
      401: anyway[401],
      403: no('Key lacks mail.status.read (`insufficient_scope`).'),
      404: no('No outbound message with that id exists in the authenticated workspace (`not_found`).'),
      500: anyway[500],
      503: anyway[503],
    },
  },
} as const satisfies Record<string, Operation>
