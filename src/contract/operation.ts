// What an endpoint under /api/v1 is: what it takes, may answer and needs. Specification 4 and 5, decisions H.
import { Type } from 'typebox'
import type { TObject, TSchema } from 'typebox'
import { ErrorBody } from './error.ts'

/** Scopes of API keys, specification 5 and decisions H. The roles of members are made of the same. */
export const scopes = {
  'mail.send': 'Send messages.',
  'mail.status.read': 'Read the status of messages.',
  'mail.read': 'List and search messages, read their timelines and the sandbox.',
  'domains.read': 'See domains and the DNS records that they need.',
  'domains.write': 'Add and remove domains.',
  'mailboxes.read': 'See mailboxes.',
  'mailboxes.write': 'Add, change, disable and remove mailboxes.',
  'suppressions.read': 'See and export suppressed recipients.',
  'suppressions.write': 'Add, import and remove suppressed recipients.',
  'webhooks.read': 'See the webhook endpoint, its log, and the events.',
  'webhooks.write': 'Change, test and replay the webhook endpoint.',
  'keys.read': 'See API keys, never their secrets.',
  'keys.write': 'Create keys with scopes that the creator has, and revoke keys.',
  'smtp-credentials.read': 'See SMTP credentials, never their passwords.',
  'smtp-credentials.write': 'Create and revoke SMTP credentials.',
  'members.read': 'See members and invitations.',
  'members.write': 'Invite, change and remove members.',
  'workspace.read': 'See the workspace and its plan.',
  'workspace.write': 'Change the workspace.',
  'usage.read': 'See how much was sent.',
  'audit.read': 'See who did what.',
} as const
export type Scope = keyof typeof scopes

/** Response headers by their name. Every response of the API carries X-Request-Id. */
export const responseHeaders = {
  'X-Request-Id': [
    'Names this request. It finds a refusal or a fault in the log: quote it when you ask for help.',
    Type.String(),
  ],
  'WWW-Authenticate': ['Always `Bearer`.', Type.String()],
  'Retry-After': ['Seconds to wait before another try.', Type.Integer({ minimum: 0 })],
  'RateLimit-Limit': ['Messages that the tightest window of the plan admits.', Type.Integer({ minimum: 0 })],
  'RateLimit-Remaining': ['Messages left in that window.', Type.Integer({ minimum: 0 })],
  'RateLimit-Reset': ['Seconds until that window gives room again.', Type.Integer({ minimum: 0 })],
  'Content-Disposition': ['`attachment`, with the name of the file.', Type.String()],
  'Idempotent-Replayed': [
    'Always `true`; present when this body answers an earlier request with the same idempotency key.',
    Type.String(),
  ],
} as const satisfies Record<string, readonly [description: string, schema: TSchema]>
export type ResponseHeader = keyof typeof responseHeaders

export interface Answer {
  readonly description: string
  /** None for an answer without a body. */
  readonly schema?: TSchema
  /** `application/json` where nothing is said. */
  readonly contentType?: string
  readonly headers?: readonly ResponseHeader[]
}
export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'header' | 'query'
  readonly required: boolean
  readonly description: string
  readonly schema: TSchema
}
/** `member`: a key with the scope, or a signed-in member whose role has it. */
export type Access = 'key' | 'member' | 'session' | 'operator' | 'anyone'

export interface Operation {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** With parameters in braces, as OpenAPI writes them. */
  readonly path: string
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly description: string
  /** Who may ask; a key of the workspace alone where nothing is said. */
  readonly access?: Access
  /** Of a key, or of the role of a member. */
  readonly scope?: Scope
  readonly parameters?: readonly Parameter[]
  /** Members of the query string. */
  readonly query?: TObject | undefined
  readonly body?: TSchema | undefined
  /** A request to start from: the required members. */
  readonly example?: object
  readonly answers: Readonly<Record<number, Answer>>
}

export const rateLimits = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'] as const
export const no = (description: string, headers: readonly ResponseHeader[] = []): Answer => ({
  description,
  schema: ErrorBody,
  headers,
})

/** What every endpoint may answer. */
export const anyway = {
  401: no('Missing, invalid or revoked API key.', ['WWW-Authenticate']),
  500: no('Something is broken here (`internal_error`). The request id finds it in the log.'),
  503: no(
    'The database or the malware scanner cannot be reached, or too many large requests are under way (`service_unavailable`, `scanner_unavailable`). Nothing was accepted and nothing was charged, unless the database was lost in the moment of the commit: repeat a send with the same `Idempotency-Key`.',
    ['Retry-After'],
  ),
} as const
