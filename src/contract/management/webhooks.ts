// The webhook endpoint of a workspace, its log, sending again, and reading events in the order in which they were committed: decisions G.
import { Type } from 'typebox'
import { anyway, no, type Answer, type Operation, type Parameter } from '../operation.ts'
import { WebhookEvent } from '../webhook-event.ts'
import { webhookEventTypeNames, webhookStates } from '../words.ts'
import { forbidden, notKnown } from './managed.ts'

const time = (description: string) =>
  Type.String({ format: 'date-time', description, examples: ['2026-11-21T09:30:00.000Z'] })
const uuid = (description: string) =>
  Type.String({ format: 'uuid', description, examples: ['0199f1c2-7a4e-8c3b-9d52-6f1e8a0b4c7c'] })

const types = (description: string) =>
  Type.Array(Type.Enum(webhookEventTypeNames, { type: 'string' }), { minItems: 1, maxItems: 50, description })

export const WebhookEndpoint = Type.Object(
  {
    url: Type.String({ format: 'uri', description: 'Where events are posted: public HTTPS.' }),
    events: Type.Optional(types('Which types are posted. Left out: all. `webhook.test` is always posted.')),
    apiVersion: Type.String({ description: 'The version of the bodies, pinned when the endpoint was made.' }),
    state: Type.Enum(['active', 'disabled'], { type: 'string', description: 'A disabled endpoint gets nothing.' }),
    reason: Type.Optional(
      Type.Enum(['by_hand', 'receiver_gone', 'no_success'], {
        type: 'string',
        description:
          'Why it is disabled. `receiver_gone`: the last try at an event was answered with 410; `no_success`: no try succeeded for 120 hours in which there was a sender.',
      }),
    ),
    disabledAt: Type.Optional(time('Since when it is disabled.')),
    failingSince: Type.Optional(
      time(
        'The first failed try since the last success, or since the URL was changed; later by the time in which the service was off.',
      ),
    ),
    rotating: Type.Boolean({
      description: 'A new secret is prepared: `Webhook-Signature-Next` carries its signature.',
    }),
    previousUntil: Type.Optional(
      time('Until then `Webhook-Signature-Previous` carries the signature of the replaced secret.'),
    ),
    createdAt: time('When it was set.'),
    secret: Type.Optional(
      Type.String({ description: 'Shown this once: in the answer that made it.', examples: ['whsec_...'] }),
    ),
  },
  { description: 'The webhook endpoint of the workspace.' },
)

const logEntry = {
  id: uuid('The event; equals `Webhook-Id`.'),
  type: Type.String({ description: 'Its type.' }),
  createdAt: time('When it happened.'),
  messageId: Type.Optional(uuid('The message.')),
  sequence: Type.Optional(Type.Integer({ minimum: 1, description: 'Counts the events of the message.' })),
  recipient: Type.Optional(Type.String({ description: 'Whom the message is to.' })),
  subject: Type.Optional(Type.String({ description: 'The subject of the message.' })),
  state: Type.Enum(webhookStates, {
    type: 'string',
    description:
      '`waiting`: for its first or next try; `sending`: under way; `delivered`; `failed`: no further try, and none succeeded; `not_sent`: kept back by the filter or because the endpoint was disabled.',
  }),
  nextAttemptAt: Type.Optional(time('When it is tried next.')),
}
export const WebhookLogEntry = Type.Object(logEntry, { description: 'An event, and where it stands.' })

const post = {
  round: Type.Integer({ description: 'Counts the ladders of eight tries: each sending by hand begins one.' }),
  attempt: Type.Integer({ description: 'From 1 to 8.' }),
  endedAt: time('When it ended.'),
  delivered: Type.Boolean({ description: 'It was answered with 2xx.' }),
  status: Type.Optional(Type.Integer({ description: 'The HTTP status of the answer.' })),
  trouble: Type.Optional(
    Type.String({ description: 'What went wrong: `blocked_address`, `dns_failure`, `timeout`, `tls_failed`, ...' }),
  ),
  durationMs: Type.Optional(Type.Integer({ description: 'How long it took.' })),
}
export const TimelinePost = Type.Object(post, { description: 'One try at posting an event.' })
export const WebhookAttempt = Type.Object(
  {
    ...post,
    excerpt: Type.Optional(
      Type.String({
        description: 'The beginning of the answer, at most 1 KB. Text of the receiver: never render it raw.',
      }),
    ),
  },
  { description: 'One try at posting an event.' },
)
export const WebhookEventDetail = Type.Object(
  {
    ...logEntry,
    body: WebhookEvent,
    attempts: Type.Array(WebhookAttempt, { description: 'Every ended try, oldest first.' }),
  },
  { description: 'One event: what is posted, and every try.' },
)
export const CaughtUpEvents = Type.Object(
  {
    events: Type.Array(WebhookEvent, { description: 'In the order in which they were committed.' }),
    next: Type.String({
      description: 'Give it as `after` for what comes behind; it is also there when nothing does yet.',
    }),
    more: Type.Boolean({ description: 'There is more already.' }),
  },
  { description: 'A page of all events.' },
)

export const SetWebhookRequest = Type.Object(
  {
    url: Type.String({
      description: 'Public HTTPS, with a name and without a login.',
      examples: ['https://example.com/posthorn'],
    }),
    events: Type.Optional(
      Type.Union([types('Which types are posted. `webhook.test` is always posted.'), Type.Null()], {
        description: 'Which types; null or, at first, left out: all. Later, left out: as before.',
      }),
    ),
  },
  { additionalProperties: false, description: 'Where to post. A new URL keeps the secret.' },
)
export const ReplayRequest = Type.Object(
  {
    eventId: Type.Optional(uuid('One event.')),
    from: Type.Optional(time('Or the events of messages from this time on ...')),
    to: Type.Optional(time('... up to this one.')),
    undelivered: Type.Optional(
      Type.Boolean({
        description:
          'Of the time, only what was never delivered: also what waits for its next try, and not what is due or being posted.',
      }),
    ),
  },
  { additionalProperties: false, description: 'Either `eventId`, or `from` and `to`.' },
)

const tag = 'Webhooks'
const access = 'member'
const read = 'webhooks.read' as const
const write = 'webhooks.write' as const
const missing = 'The workspace has no webhook endpoint (`not_found`).'
const path = '/api/v1/webhook' as const

const answers = (ok: Answer, more: Readonly<Record<number, string>> = {}) => ({
  200: ok,
  400: no('Several workspaces, and none is named (`invalid_request`).'),
  ...Object.fromEntries(
    Object.entries(more).map(([status, words]) => [status, no(words, status === '429' ? ['Retry-After'] : [])]),
  ),
  401: notKnown,
  403: no(forbidden.member),
  500: anyway[500],
  503: anyway[503],
})
const endpoint = { description: 'The endpoint.', schema: WebhookEndpoint }
const wrong = 'A member is wrong (`invalid_request`, `invalid_json`), or the URL leads to a place that is not public.'
const large = 'The body is too large (`payload_too_large`).'

const page = (what: string): Parameter[] => [
  {
    name: 'after',
    in: 'query',
    required: false,
    description: 'The `next` of the page before.',
    schema: Type.String({ maxLength: 200 }),
  },
  {
    name: 'limit',
    in: 'query',
    required: false,
    description: `How many ${what} at most.`,
    schema: Type.Integer({ minimum: 1, maximum: 500, default: 100 }),
  },
]
/** What of the log is wanted. */
export const logFilter = Type.Object(
  {
    state: Type.Optional(Type.Enum(webhookStates, { type: 'string', description: 'Where it stands.' })),
    type: Type.Optional(Type.Enum(webhookEventTypeNames, { type: 'string', description: 'Its type.' })),
    messageId: Type.Optional(uuid('The message: all that is kept of it, however old it is.')),
  },
  { additionalProperties: false },
)
const wantedOfLog = Object.entries(logFilter.properties).map(([name, schema]): Parameter => {
  const { description = '' } = schema as { description?: string }
  return { name, in: 'query', required: false, description, schema }
})
const pageWrong = 'A parameter is wrong (`invalid_request`).'

export const webhooks = {
  readWebhook: {
    method: 'get',
    path,
    operationId: 'getWebhook',
    tag,
    access,
    summary: 'Read the endpoint',
    description: 'Never its secret.',
    scope: read,
    answers: answers(endpoint, { 404: missing }),
  },
  setWebhook: {
    method: 'put',
    path,
    operationId: 'setWebhook',
    tag,
    access,
    summary: 'Set the endpoint',
    description:
      'The first time this makes the endpoint and shows its `secret`, once. Later it changes URL and filter; state and secret stay.',
    scope: write,
    body: SetWebhookRequest,
    example: { url: 'https://example.com/posthorn' },
    answers: answers(endpoint, { 400: wrong, 413: large }),
  },
  enableWebhook: {
    method: 'post',
    path: `${path}/enable`,
    operationId: 'enableWebhook',
    tag,
    access,
    summary: 'Enable the endpoint',
    description: 'Events from now on are posted. What happened meanwhile is kept, and sent on request: replay.',
    scope: write,
    answers: answers(endpoint, { 404: missing }),
  },
  disableWebhook: {
    method: 'post',
    path: `${path}/disable`,
    operationId: 'disableWebhook',
    tag,
    access,
    summary: 'Disable the endpoint',
    description: 'Nothing is posted any more, also not what was waiting for a retry. Events are kept.',
    scope: write,
    answers: answers(endpoint, { 404: missing }),
  },
  rotateWebhook: {
    method: 'post',
    path: `${path}/rotate`,
    operationId: 'rotateWebhookSecret',
    tag,
    access,
    summary: 'Prepare a new secret',
    description:
      'Shows the new `secret`, once. The old one still signs; `Webhook-Signature-Next` carries the signature of the new one until you promote it.',
    scope: write,
    answers: answers(endpoint, { 404: missing }),
  },
  promoteWebhook: {
    method: 'post',
    path: `${path}/promote`,
    operationId: 'promoteWebhookSecret',
    tag,
    access,
    summary: 'Let the new secret sign',
    description: 'For 24 hours `Webhook-Signature-Previous` carries the signature of the old one.',
    scope: write,
    answers: answers(endpoint, { 404: missing, 409: 'No new secret is prepared (`conflict`).' }),
  },
  testWebhook: {
    method: 'post',
    path: `${path}/test`,
    operationId: 'testWebhook',
    tag,
    access,
    summary: 'Post a test event',
    description: 'Posts `webhook.test`, whatever the filter. Read what became of it in the log.',
    scope: write,
    answers: answers(
      { description: 'The test is on its way.', schema: Type.Object({ eventId: uuid('Its id.') }) },
      {
        404: missing,
        409: 'The endpoint is disabled (`conflict`).',
        429: 'A test was sent a moment ago (`too_many_attempts`).',
      },
    ),
  },
  replayWebhook: {
    method: 'post',
    path: `${path}/replay`,
    operationId: 'replayWebhookEvents',
    tag,
    access,
    summary: 'Send events again',
    description:
      'One event, whatever the filter says, or of a time all that the filter wants now: the same ids and the same bytes, and a new ladder of eight tries for each. Also what a disabled endpoint, or an earlier filter, had kept back.',
    scope: write,
    body: ReplayRequest,
    example: { eventId: '0199f1c2-7a4e-8c3b-9d52-6f1e8a0b4c7c' },
    answers: answers(
      {
        description: 'They are on their way.',
        schema: Type.Object({ replayed: Type.Integer({ description: 'How many events.' }) }),
      },
      { 400: wrong, 404: `${missing} Or no such event.`, 409: 'The endpoint is disabled (`conflict`).', 413: large },
    ),
  },
  listWebhookEvents: {
    method: 'get',
    path: `${path}/events`,
    operationId: 'listWebhookEvents',
    tag,
    access,
    summary: 'Read the log',
    description:
      'The events that are kept (for 30 days, where the operator says nothing else) and where each stands, those of the latest message first: what is reported late stands with its message, so look for it by `messageId`, `state` or `type`. With those a page may be empty and not the last.',
    scope: read,
    parameters: [...page('entries'), ...wantedOfLog],
    answers: answers(
      {
        description: 'A page of the log.',
        schema: Type.Object({
          events: Type.Array(WebhookLogEntry),
          next: Type.Optional(
            Type.String({ description: 'Give it as `after` for the next page; left out at the end.' }),
          ),
        }),
      },
      { 400: pageWrong },
    ),
  },
  readWebhookEvent: {
    method: 'get',
    path: `${path}/events/{eventId}`,
    operationId: 'getWebhookEvent',
    tag,
    access,
    summary: 'Read one event with its tries',
    description: 'What is posted, and every try: time, status, duration, the beginning of the answer.',
    scope: read,
    parameters: [
      { name: 'eventId', in: 'path', required: true, description: 'The id of the event.', schema: uuid('The event.') },
    ],
    answers: answers(
      { description: 'The event.', schema: WebhookEventDetail },
      {
        400: 'The id is not a UUID (`invalid_request`).',
        404: 'No event with that id exists in the workspace (`not_found`).',
      },
    ),
  },
  catchUpEvents: {
    method: 'get',
    path: '/api/v1/events',
    operationId: 'listEvents',
    tag,
    access,
    summary: 'Read all events in order',
    description:
      'For whoever was away: every event that is kept (for 30 days, where the operator says nothing else), in the order in which they were committed, filter or not. An event that commits late is never passed by. Events come here when every older transaction has ended, usually at once.',
    scope: read,
    parameters: page('events'),
    answers: answers({ description: 'A page of events.', schema: CaughtUpEvents }, { 400: pageWrong }),
  },
} as const satisfies Record<string, Operation>
