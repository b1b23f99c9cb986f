// The common shape of management endpoints: what each of them may answer besides its success, and the small schemas that all of them use.
import { Type } from 'typebox'
import type { Static, TObject, TProperties, TSchema } from 'typebox'
import {
  anyway,
  no,
  type Access,
  type Answer,
  type Operation,
  type Parameter,
  type ResponseHeader,
  type Scope,
} from '../operation.ts'
import { time, uuid } from '../values.ts'

export { time, uuid }

export interface Managed<
  Body extends TSchema | undefined = TSchema | undefined,
  Query extends TObject | undefined = TObject | undefined,
  Ok extends TSchema | undefined = TSchema | undefined,
  Path extends string = string,
> extends Operation {
  readonly path: Path
  readonly access: Access
  readonly body: Body
  readonly query: Query
  readonly ok: { readonly status: number; readonly schema: Ok }
}

interface Wish<
  Body extends TSchema | undefined,
  Query extends TObject | undefined,
  Ok extends TSchema | undefined,
  Path extends string,
> {
  /** As `GET /api/v1/domains/{domainId}`. */
  readonly endpoint: `${Uppercase<Operation['method']>} ${Path}`
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly scope?: Scope
  /** Members of the path that are not the plain ids of a workspace. */
  readonly texts?: Readonly<Record<string, TSchema>>
  readonly query?: Query
  readonly body?: Body
  readonly example?: object
  readonly ok: readonly [status: number, description: string, schema?: Ok]
  readonly contentType?: string
  /** Other refusals than those that every such endpoint has. */
  readonly may?: Readonly<Record<number, string>>
  /** Headers that this endpoint's answers have beside those that every such answer has. */
  readonly headers?: Readonly<Record<number, readonly ResponseHeader[]>>
}

/** What makes the endpoints under one heading, for those who may ask. */
export const endpointsOf =
  (tag: string, access: Access = 'member') =>
  <
    Body extends TSchema | undefined = undefined,
    Query extends TObject | undefined = undefined,
    Ok extends TSchema | undefined = undefined,
    const Path extends string = string,
  >(
    wish: Wish<Body, Query, Ok, Path>,
  ): Managed<Body, Query, Ok, Path> =>
    managed(tag, access, wish)

function managed<
  Body extends TSchema | undefined,
  Query extends TObject | undefined,
  Ok extends TSchema | undefined,
  Path extends string,
>(tag: string, access: Access, wish: Wish<Body, Query, Ok, Path>): Managed<Body, Query, Ok, Path> {
  const { endpoint, texts = {}, ok, may = {}, headers = {}, contentType, ...rest } = wish
  const [method, path] = endpoint.split(' ') as [string, Path]
  const [status, said, schema] = ok
  const textOf = (name: string): (TSchema & { description?: string }) | undefined => texts[name]
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as string)
  const parameters = names.map((name): Parameter => ({
    name,
    in: 'path',
    required: true,
    description: textOf(name)?.description ?? 'An id of your workspace.',
    schema: textOf(name) ?? uuid('An id of your workspace.'),
  }))
  const success: Answer = {
    description: said,
    ...(schema && { schema }),
    ...(contentType && { contentType }),
    ...(headers[status] && { headers: headers[status] }),
  }
  const refusals: Record<number, Answer> = {
    // Also where nothing is taken: a parameter that is not there is wrong.
    400: no('Malformed or invalid request (`invalid_request` with `field`, `invalid_json`).'),
    ...(access !== 'anyone' && { 401: notKnown }),
    ...((access !== 'anyone' || method !== 'GET') && { 403: no(forbidden[access]) }),
    ...(names.length > 0 && { 404: no('Not there, or of another workspace (`not_found`).') }),
    ...(wish.body !== undefined && { 413: no('The body is too large (`payload_too_large`).') }),
    500: anyway[500],
    503: no('The database cannot be reached, or too much is under way (`service_unavailable`).', ['Retry-After']),
  }
  for (const [code, words] of Object.entries(may))
    refusals[Number(code)] = no(words, [...(carried[Number(code)] ?? []), ...(headers[Number(code)] ?? [])])
  return {
    description: '',
    ...rest,
    method: method.toLowerCase() as Operation['method'],
    path,
    tag,
    access,
    parameters,
    body: wish.body as Body,
    query: wish.query as Query,
    ok: { status, schema: schema as Ok },
    answers: { [status]: success, ...refusals },
  }
}

/** What an answer has beside its body, whoever asked. */
const carried: Readonly<Record<number, readonly ResponseHeader[]>> = {
  401: ['WWW-Authenticate'],
  429: ['Retry-After'],
  503: ['Retry-After'],
}

const notKnown = no('Missing, invalid or revoked API key (`invalid_api_key`), or no session (`not_signed_in`).', [
  'WWW-Authenticate',
])
const forbidden = {
  key: 'The key lacks the scope (`insufficient_scope`).',
  member:
    'The key, or the role of the member, lacks the scope (`insufficient_scope`); or the request did not come from the dashboard (`cross_site_request`).',
  session: 'The request did not come from the dashboard (`cross_site_request`).',
  operator:
    'Not an operator (`insufficient_scope`), or the request did not come from the dashboard (`cross_site_request`).',
  anyone: 'The request did not come from the dashboard (`cross_site_request`).',
} as const satisfies Record<Access, string>

type NamesIn<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never
export type PathOf<O> = O extends { readonly path: infer P } ? { readonly [Name in NamesIn<P>]: string } : never
export type BodyOf<O> = O extends { readonly body: infer B extends TSchema } ? Static<B> : undefined
export type QueryOf<O> = O extends { readonly query: infer Q extends TObject } ? Static<Q> : undefined
export type OkOf<O> = O extends { readonly ok: { readonly schema: infer S extends TSchema } } ? Static<S> : undefined

/** Of a key or an SMTP credential. */
export const termOf = (ends: string) => ({
  createdBy: Type.Optional(
    Type.String({
      description:
        'Who made it, as in the audit log (`user:` and an id, `key:` and an id, ...), for as long as that is kept.',
    }),
  ),
  createdAt: time('When it was made.'),
  lastUsedAt: Type.Optional(time('When it was last used, to the minute.')),
  expiresAt: Type.Optional(time(ends)),
  expired: Type.Boolean({ description: 'That time has come: it is refused.' }),
  revokedAt: Type.Optional(time('When it was revoked.')),
})
/** Without `format`: `email` is ASCII alone (JSON Schema), and who checks answers would lose a whole page to one address that is not. */
export const email = (description: string) =>
  Type.String({ maxLength: 254, description, examples: ['ada@example.com'] })
export const name = (description: string) => Type.String({ minLength: 1, maxLength: 200, description })
export const oneOf = <const T extends readonly string[]>(values: T, description: string) =>
  Type.Unsafe<T[number]>(Type.Enum(values, { type: 'string', description }))
export const closed = <P extends TProperties>(properties: P) => Type.Object(properties, { additionalProperties: false })

/** How far a list has been read, and how much of it to give. */
export const paging = {
  cursor: Type.Optional(
    Type.String({ minLength: 1, maxLength: 400, description: 'The `next` of the page before. Opaque.' }),
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'Items of a page; 50 where nothing is said.' }),
  ),
}
export const page = <T extends TSchema>(item: T, description: string, more: TProperties = {}) =>
  Type.Object(
    {
      items: Type.Array(item),
      next: Type.Optional(
        Type.String({
          description: 'The `cursor` of the next page; left out at the end. A page may be empty and not the last.',
        }),
      ),
      ...more,
    },
    { description },
  )
export const list = <T extends TSchema>(item: T, description: string) =>
  Type.Object({ items: Type.Array(item) }, { description })
