// The webhook endpoint of a workspace, its log, sending again, and reading events in the order in which they were committed: decisions G.
import { Type, type TSchema } from 'typebox'
import { WebhookEvent } from '../webhook-event.ts'
import { webhookEventTypeNames, webhookStates } from '../words.ts'
import { closed, endpointsOf, time, uuid } from './managed.ts'

/** Events have version 8 where messages have 7. */
const eventUuid = (description: string) =>
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
    version: Type.Integer({
      description:
        'Another one with each change, whoever makes it. Give it with a change of your own, and that is refused where somebody else was there before.',
    }),
    createdAt: time('When it was set.'),
    secret: Type.Optional(
      Type.String({ description: 'Shown this once: in the answer that made it.', examples: ['whsec_...'] }),
    ),
  },
  { description: 'The webhook endpoint of the workspace.' },
)

const logEntry = {
  id: eventUuid('The event; equals `Webhook-Id`.'),
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

/** Two people may have the same page before them. */
const seen = Type.Integer({
  minimum: 0,
  maximum: 999_999_999,
  description:
    'The `version` of the endpoint as you have seen it, 0 where there was none: where it has another one by now, nothing is done (`conflict`). Left out: whatever it is.',
})
const ofSeen = closed({ version: Type.Optional(seen) })

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
    version: Type.Optional(seen),
  },
  { additionalProperties: false, description: 'Where to post. A new URL keeps the secret.' },
)
const ReplayRequest = Type.Object(
  {
    eventId: Type.Optional(eventUuid('One event.')),
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

const managed = endpointsOf('Webhooks')
const read = 'webhooks.read' as const
const write = 'webhooks.write' as const
const path = '/api/v1/webhook' as const
const missing = 'The workspace has no webhook endpoint (`not_found`).'
const disabled = 'The endpoint is disabled (`conflict`).'
const changed = 'The endpoint has another `version` than the one that was given (`conflict`).'
const wrong = 'A member is wrong (`invalid_request`, `invalid_json`), or the URL leads to a place that is not public.'

/** Events are told as they are posted: no schema stands over what was written down. */
const asPosted = (schema: TSchema) => Type.Unsafe<object>(schema)

const pageOf = (what: string) => ({
  after: Type.Optional(Type.String({ maxLength: 200, description: 'The `next` of the page before.' })),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 500, default: 100, description: `How many ${what} at most.` }),
  ),
})

export const webhooks = {
  readWebhook: managed({
    endpoint: `GET ${path}`,
    operationId: 'getWebhook',
    summary: 'Read the endpoint',
    description: 'Never its secret.',
    scope: read,
    ok: [200, 'The endpoint.', WebhookEndpoint],
    may: { 404: missing },
  }),
  setWebhook: managed({
    endpoint: `PUT ${path}`,
    operationId: 'setWebhook',
    summary: 'Set the endpoint',
    description:
      'The first time this makes the endpoint and shows its `secret`, once. Later it changes URL and filter; state and secret stay.',
    scope: write,
    body: SetWebhookRequest,
    example: { url: 'https://example.com/posthorn' },
    ok: [200, 'The endpoint.', WebhookEndpoint],
    may: { 400: wrong, 409: changed },
  }),
  enableWebhook: managed({
    endpoint: `POST ${path}/enable`,
    operationId: 'enableWebhook',
    summary: 'Enable the endpoint',
    description: 'Events from now on are posted. What happened meanwhile is kept, and sent on request: replay.',
    scope: write,
    ok: [200, 'The endpoint.', WebhookEndpoint],
    may: { 404: missing },
  }),
  disableWebhook: managed({
    endpoint: `POST ${path}/disable`,
    operationId: 'disableWebhook',
    summary: 'Disable the endpoint',
    description: 'Nothing is posted any more, also not what was waiting for a retry. Events are kept.',
    scope: write,
    ok: [200, 'The endpoint.', WebhookEndpoint],
    may: { 404: missing },
  }),
  rotateWebhook: managed({
    endpoint: `POST ${path}/rotate`,
    operationId: 'rotateWebhookSecret',
    summary: 'Prepare a new secret',
    description:
      'Shows the new `secret`, once. The old one still signs; `Webhook-Signature-Next` carries the signature of the new one until you promote it.',
    scope: write,
    query: ofSeen,
    ok: [200, 'The endpoint.', WebhookEndpoint],
    may: { 404: missing, 409: changed },
  }),
  promoteWebhook: managed({
    endpoint: `POST ${path}/promote`,
    operationId: 'promoteWebhookSecret',
    summary: 'Let the new secret sign',
    description: 'For 24 hours `Webhook-Signature-Previous` carries the signature of the old one.',
    scope: write,
    query: ofSeen,
    ok: [200, 'The endpoint.', WebhookEndpoint],
    may: {
      404: missing,
      409: 'No new secret is prepared, or the endpoint has another `version` than the one that was given (`conflict`).',
    },
  }),
  testWebhook: managed({
    endpoint: `POST ${path}/test`,
    operationId: 'testWebhook',
    summary: 'Post a test event',
    description: 'Posts `webhook.test`, whatever the filter. Read what became of it in the log.',
    scope: write,
    ok: [200, 'The test is on its way.', Type.Object({ eventId: eventUuid('Its id.') })],
    may: { 404: missing, 409: disabled, 429: 'A test was sent a moment ago (`too_many_attempts`).' },
  }),
  replayWebhook: managed({
    endpoint: `POST ${path}/replay`,
    operationId: 'replayWebhookEvents',
    summary: 'Send events again',
    description:
      'One event, whatever the filter says, or of a time all that the filter wants now: the same ids and the same bytes, and a new ladder of eight tries for each. Also what a disabled endpoint, or an earlier filter, had kept back.',
    scope: write,
    body: ReplayRequest,
    example: { eventId: '0199f1c2-7a4e-8c3b-9d52-6f1e8a0b4c7c' },
    ok: [200, 'They are on their way.', Type.Object({ replayed: Type.Integer({ description: 'How many events.' }) })],
    may: { 404: `${missing} Or no such event.`, 409: disabled },
  }),
  listWebhookEvents: managed({
    endpoint: `GET ${path}/events`,
    operationId: 'listWebhookEvents',
    summary: 'Read the log',
    description:
      'The events that are kept (for 30 days, where the operator says nothing else) and where each stands, those of the latest message first: what is reported late stands with its message, so look for it by `messageId`, `state` or `type`. With those a page may be empty and not the last.',
    scope: read,
    query: closed({
      ...pageOf('entries'),
      state: Type.Optional(Type.Enum(webhookStates, { type: 'string', description: 'Where it stands.' })),
      type: Type.Optional(Type.Enum(webhookEventTypeNames, { type: 'string', description: 'Its type.' })),
      messageId: Type.Optional(uuid('The message: all that is kept of it, however old it is.')),
    }),
    ok: [
      200,
      'A page of the log.',
      Type.Object({
        events: Type.Array(WebhookLogEntry),
        next: Type.Optional(Type.String({ description: 'Give it as `after` for the next page; left out at the end.' })),
      }),
    ],
  }),
  readWebhookEvent: managed({
    endpoint: `GET ${path}/events/{eventId}`,
    operationId: 'getWebhookEvent',
    summary: 'Read one event with its tries',
    description: 'What is posted, and every try: time, status, duration, the beginning of the answer.',
    scope: read,
    texts: { eventId: eventUuid('The id of the event.') },
    ok: [200, 'The event.', asPosted(WebhookEventDetail)],
  }),
  catchUpEvents: managed({
    endpoint: 'GET /api/v1/events',
    operationId: 'listEvents',
    summary: 'Read all events in order',
    description:
      'For whoever was away: every event that is kept (for 30 days, where the operator says nothing else), in the order in which they were committed, filter or not. An event that commits late is never passed by. Events come here when every older transaction has ended, usually at once.',
    scope: read,
    query: closed(pageOf('events')),
    ok: [200, 'A page of events.', asPosted(CaughtUpEvents)],
  }),
}
