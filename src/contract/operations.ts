// The table of endpoints under /api/v1. The faces read their paths and response schemas from it, and the OpenAPI document is made of it, so
// that the documentation cannot say anything else than the code. Specification 4; the management API is decisions H.
import { Type } from 'typebox'
import { webhooks } from './management/webhooks.ts'
import { audits } from './management/audit.ts'
import { credentials } from './management/credentials.ts'
import { keys } from './management/keys.ts'
import { live } from './management/live.ts'
import { mail } from './management/mail.ts'
import { members } from './management/members.ts'
import { operators } from './management/operators.ts'
import { people } from './management/people.ts'
import { sandbox } from './management/sandbox.ts'
import { senders } from './management/senders.ts'
import { suppressions } from './management/suppressions.ts'
import { usage } from './management/usage.ts'
import { MessageDeliveryStatus, SendMessageRequest, SendMessageResponse } from './message.ts'
import { anyway, no, rateLimits, type Operation } from './operation.ts'

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
      'HTTP takes plain text, attachments and one recipient. HTML, Reply-To, Cc, Bcc and header fields of your own are sent over SMTP submission, which takes a whole mail as it is.',
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
        rateLimits,
      ),
      401: anyway[401],
      402: no('Workspace plan does not include active API sending (`upgrade_required`).'),
      403: no('Key lacks mail.send (`insufficient_scope`), or workspace is blocked (`workspace_blocked`).'),
      409: no(
        'The idempotency key was used with another body (`idempotency_key_reused`), or its first request is still in progress (`idempotency_in_progress`).',
        ['Retry-After', ...rateLimits],
      ),
      413: no('The body is larger than 48 MiB (`payload_too_large`).', rateLimits),
      422: no('Recipient is suppressed (`recipient_suppressed`).', rateLimits),
      429: no(
        'Rolling-hour, daily or monthly sending limit reached (`hourly_limit_reached`, `daily_limit_reached`, `monthly_limit_reached`).',
        ['Retry-After', ...rateLimits],
      ),
      500: anyway[500],
      503: no(anyway[503].description, ['Retry-After', ...rateLimits]),
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

/** What the dashboard and programs that manage a workspace use. */
export const managementOperations = {
  ...webhooks,
  ...mail,
  ...senders,
  ...keys,
  ...credentials,
  ...suppressions,
  ...usage,
  ...members,
  ...audits,
  ...sandbox,
  ...live,
  ...people,
  ...operators,
} as const satisfies Record<string, Operation>
