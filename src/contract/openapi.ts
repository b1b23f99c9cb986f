// The OpenAPI 3.1 document, made of the table of operations and the schemas that validate: specification 9.2.
// `openapi.json` at the root of the repository is its golden copy (npm run golden).
import type { TSchema } from 'typebox'
import { ErrorBody } from './error.ts'
import {
  Attachment,
  DeliveryEvent,
  Message,
  MessageDeliveryStatus,
  SendMessageRequest,
  SendMessageResponse,
} from './message.ts'
import {
  CaughtUpEvents,
  TimelinePost,
  WebhookAttempt,
  WebhookEndpoint,
  WebhookEventDetail,
  WebhookLogEntry,
} from './management/webhooks.ts'
import { AuditEntry } from './management/audit.ts'
import { SmtpCredential, SmtpCredentialCreated } from './management/credentials.ts'
import { ApiKey, ApiKeyCreated, ApiKeyRevoked } from './management/keys.ts'
import {
  MessageContent,
  MessageListItem,
  MessageTimeline,
  RefusedSubmission,
  TimelineAttempt,
  TimelineEvent,
  TimelineWebhook,
} from './management/mail.ts'
import { Invitation, Member } from './management/members.ts'
import { OperatorWorkspace, Plan } from './management/operators.ts'
import { Account, SessionInfo } from './management/people.ts'
import { SandboxMail, SandboxMailParsed } from './management/sandbox.ts'
import { Domain, Mailbox, Workspace } from './management/senders.ts'
import { Suppression } from './management/suppressions.ts'
import { Usage, UsageSeries } from './management/usage.ts'
import { responseHeaders, scopes } from './operation.ts'
import type { Access, Answer, Operation, Parameter, ResponseHeader } from './operation.ts'
import { managementOperations, operations } from './operations.ts'
import { WebhookEvent } from './webhook-event.ts'
import { webhookEventTypes } from './words.ts'

/** Components by the names that the specification gives them. */
const components: Readonly<Record<string, TSchema>> = {
  SendMessageRequest,
  Attachment,
  Message,
  SendMessageResponse,
  DeliveryEvent,
  MessageDeliveryStatus,
  WebhookEvent,
  WebhookEndpoint,
  WebhookLogEntry,
  WebhookAttempt,
  WebhookEventDetail,
  CaughtUpEvents,
  Error: ErrorBody,
  MessageListItem,
  MessageTimeline,
  MessageContent,
  TimelineEvent,
  TimelineWebhook,
  TimelinePost,
  TimelineAttempt,
  Workspace,
  Domain,
  Mailbox,
  ApiKey,
  ApiKeyCreated,
  ApiKeyRevoked,
  SmtpCredential,
  SmtpCredentialCreated,
  RefusedSubmission,
  Suppression,
  Usage,
  UsageSeries,
  Member,
  Invitation,
  AuditEntry,
  SandboxMail,
  SandboxMailParsed,
  Account,
  SessionInfo,
  OperatorWorkspace,
  Plan,
}
/** By what they say, because `Type.Optional` makes a copy. */
const nameOf = new Map(Object.entries(components).map(([name, schema]) => [JSON.stringify(schema), name]))

/** A copy in which every component is a reference; `root` itself is written out. */
function refer(value: unknown, root?: TSchema): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((item) => refer(item))
  const name = value === root ? undefined : nameOf.get(JSON.stringify(value))
  if (name !== undefined) return { $ref: `#/components/schemas/${name}` }
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, refer(member)]))
}

const json = (schema: TSchema, example?: object) => ({
  'application/json': { schema: refer(schema), ...(example && { example }) },
})
const mapped = <T, R>(table: Readonly<Record<string, T>>, change: (value: T, key: string) => R): Record<string, R> =>
  Object.fromEntries(Object.entries(table).map(([key, value]) => [key, change(value, key)]))

function response(answer: Answer) {
  const names: ResponseHeader[] = ['X-Request-Id', ...(answer.headers ?? [])]
  return {
    description: answer.description,
    headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
    ...(answer.schema && {
      content:
        answer.contentType === undefined
          ? json(answer.schema)
          : { [answer.contentType]: { schema: refer(answer.schema) } },
    }),
  }
}

/** A member of the query string is a parameter of its own. */
function queryOf({ query }: Operation): Parameter[] {
  const required = new Set(query?.required)
  return Object.entries(query?.properties ?? {}).map(([name, schema]: [string, TSchema]) => ({
    name,
    in: 'query',
    required: required.has(name),
    description: (schema as { description?: string }).description ?? '',
    schema,
  }))
}

const securityOf = {
  key: (scope) => [{ apiKey: [scope] }],
  member: (scope) => [{ apiKey: [scope] }, { session: [] }],
  session: () => [{ session: [] }],
  operator: () => [{ session: [] }],
  anyone: () => [],
} as const satisfies Record<Access, (scope: string) => readonly object[]>

const parameter = ({ schema, ...rest }: Parameter) => ({ ...rest, schema: refer(schema) })

function operation(entry: Operation) {
  const description = [entry.description, entry.scope && `Required scope: \`${entry.scope}\`.`].filter(Boolean)
  const parameters = [...(entry.parameters ?? []), ...queryOf(entry)]
  return {
    operationId: entry.operationId,
    tags: [entry.tag],
    summary: entry.summary,
    ...(description.length > 0 && { description: description.join('\n\n') }),
    security: securityOf[entry.access ?? 'key'](entry.scope ?? ''),
    ...(parameters.length > 0 && { parameters: parameters.map(parameter) }),
    ...(entry.body && { requestBody: { required: true, content: json(entry.body, entry.example) } }),
    responses: mapped(entry.answers, response),
  }
}

function paths() {
  const table: Record<string, Record<string, unknown>> = {}
  for (const entry of [...Object.values(operations), ...Object.values(managementOperations)])
    (table[entry.path] ??= {})[entry.method] = operation(entry)
  return table
}

const signature = { type: 'string', pattern: '^v1=[0-9a-f]{64}$' } as const
/** `always`: on every webhook; the others while a secret is changed. */
const webhookHeaders = [
  [
    'Webhook-Id',
    'Equals the id of the body; the same on every retry. Deduplicate on it.',
    { type: 'string', format: 'uuid' },
    'always',
  ],
  [
    'Webhook-Timestamp',
    'Unix seconds of this attempt. Reject what is older or newer than 300 s.',
    { type: 'string', pattern: '^[0-9]+$' },
    'always',
  ],
  [
    'Webhook-Signature',
    '`v1=` and the lowercase hex HMAC-SHA256 over the timestamp, a period and the raw body, with the whole `whsec_...` secret as key. Compare in constant time.',
    signature,
    'always',
  ],
  ['Webhook-Signature-Next', 'While a new secret is prepared: the same with that one.', signature, 'rotating'],
  [
    'Webhook-Signature-Previous',
    'For 24 hours after the new secret was promoted: the same with the old one.',
    signature,
    'rotating',
  ],
] as const

const webhook = (when: string, type: string) => ({
  post: {
    operationId: `on_${type.replace('.', '_')}`,
    tags: ['Webhooks'],
    summary: type,
    description: when,
    security: [],
    parameters: webhookHeaders.map(([name, description, schema, sent]) => ({
      name,
      in: 'header',
      required: sent === 'always',
      description,
      schema,
    })),
    requestBody: { required: true, content: json(WebhookEvent) },
    responses: {
      '2XX': {
        description:
          'Received. Anything else, and no answer within 15 s, is tried again: eight attempts in about 28 hours.',
      },
    },
  },
})

const introduction = [
  'Send transactional email, and know what became of it.',
  '',
  'Posthorn promises: accepted mail is never lost and never sent twice. Where nobody can know whether the receiving server has a message, it says so (`delivery_unknown`) instead of guessing.',
  '',
  '**Authentication.** Every request carries `Authorization: Bearer <API key>`. Use keys from server-side code only. The dashboard uses the management endpoints with a session cookie instead: it names its workspace in `X-Posthorn-Workspace` and sends `X-Posthorn-Csrf: 1` with everything but GET. Sending and reading a status take keys alone.',
  '',
  '**Lists** come in pages: `limit`, and the `next` of one page as the `cursor` of the following one; events and the webhook log take it as `after`.',
  '',
  '**Errors.** Every error body is `{ "error": "...", "code": "..." }`. Retry 409 `idempotency_in_progress`, 429 and 503 after `Retry-After`, and 500, which has none, after a while, each with the same `Idempotency-Key`; correct the others first.',
  '',
  '**Values.** Members without a value are left out, never null. Times are RFC 3339 in UTC. Responses may gain members; ignore what you do not know.',
].join('\n')

/** The document as a value. `server` is the base URL that its readers should call. */
function openapi(server = 'http://localhost:3000') {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Posthorn API',
      version: '1.0.0',
      summary: 'Transactional email that is never lost and never sent twice.',
      description: introduction,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: server }],
    tags: [
      { name: 'Messages', description: 'Send, and follow what was sent.' },
      { name: 'Usage', description: 'Quotas, and what happened over time.' },
      { name: 'Workspace', description: 'The workspace, and who did what in it.' },
      { name: 'Domains', description: 'Domains to send from, and their DNS records.' },
      { name: 'Mailboxes', description: 'Addresses to send from.' },
      { name: 'API keys', description: 'Keys of programs.' },
      { name: 'SMTP credentials', description: 'Logins of programs that submit over SMTP.' },
      { name: 'Suppressions', description: 'Recipients that get no mail.' },
      { name: 'Members', description: 'People of the workspace.' },
      { name: 'Sandbox', description: 'What arrives on the route `sandbox`.' },
      { name: 'Account', description: 'Signing in, and the own account.' },
      { name: 'Operator', description: 'The installation.' },
      { name: 'Webhooks', description: 'Signed requests that the service makes to your receiver.' },
    ],
    security: [{ apiKey: [] }],
    paths: paths(),
    webhooks: mapped(webhookEventTypes, webhook),
    components: {
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'ph_...',
          description: [
            'An API key of the workspace. Scopes:',
            ...Object.entries(scopes).map(([scope, sentence]) => `* \`${scope}\`: ${sentence}`),
          ].join('\n'),
        },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: '__Host-posthorn',
          description:
            'The session of a person in the dashboard; `posthorn` over plain HTTP. With it go `X-Posthorn-Workspace: <workspace id>` (may be left out by members of a single workspace) and, for everything but GET, `X-Posthorn-Csrf: 1`.',
        },
      },
      headers: mapped(responseHeaders, ([description, schema]) => ({ description, schema: refer(schema) })),
      schemas: mapped(components, (schema) => refer(schema, schema)),
    },
  }
}

/** The document as it is committed and served. */
export const openapiJson = (server?: string): string => `${JSON.stringify(openapi(server), null, 2)}\n`
