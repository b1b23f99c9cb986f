// The served OpenAPI document is held against the service: requests made from its schemas are accepted, spoiled ones
// are refused, every status that comes back is documented with its headers, and every body fits its documented schema. The judge
// of the schemas is Ajv, which the service does not use.
import { Ajv2020 } from 'ajv/dist/2020.js'
import { fullFormats } from 'ajv-formats/dist/formats.js'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { responseHeaders } from '../contract/operation.ts'
import { refuse, refusalCodes, type RefusalCode } from '../domain/refusal.ts'
import type { Accepted, Submission } from '../domain/submission.ts'
import { appWith, goodKey, messageId, recordOf, sending, workspaceId, mailboxId } from './face.test-kit.ts'
import type { HttpDoors, QuotaRefusal } from './face.ts'

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly format?: string
  readonly contentEncoding?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly patternProperties?: Readonly<Record<string, Schema>>
  readonly propertyNames?: Schema
  readonly maxProperties?: number
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly minLength?: number
  readonly maxLength?: number
  readonly maxItems?: number
}
interface Served {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { responses: Record<string, Documented>; requestBody?: Documented }>>>
  >
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}
interface Documented {
  readonly headers?: Readonly<Record<string, object>>
  readonly content: { readonly 'application/json': { readonly schema: Schema } }
}

const served = (await appWith().app.inject('/api/v1/openapi.json')).json<Served>()
const ajv = new Ajv2020({ strict: false, formats: fullFormats })
ajv.addSchema(served, 'served')

function resolve(schema: Schema): Schema {
  const name = schema.$ref?.split('/').at(-1)
  if (name === undefined) return schema
  const found = served.components.schemas[name]
  if (found === undefined) throw new Error(`${name} is not a component`)
  return found
}

/** Values that the schema describes, with what its sentences say beyond it: file names, times ahead, addresses. */
function good(given: Schema, name = ''): fc.Arbitrary<unknown> {
  const schema = resolve(given)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  switch (schema.type) {
    case 'object': {
      if (schema.patternProperties) {
        const [values = {}] = Object.values(schema.patternProperties)
        return fc.dictionary(
          fc
            .string({ minLength: 1, maxLength: schema.propertyNames?.maxLength ?? 40 })
            .filter((key) => key !== '__proto__'),
          good(values) as fc.Arbitrary<string>,
          { maxKeys: schema.maxProperties ?? 5, noNullPrototype: true },
        )
      }
      const members = Object.entries(schema.properties ?? {}).map(([key, member]) => [key, good(member, key)] as const)
      return fc.record(Object.fromEntries(members), {
        requiredKeys: [...(schema.required ?? [])],
        noNullPrototype: true,
      })
    }
    case 'array':
      return fc.array(good(schema.items ?? {}), { maxLength: schema.maxItems ?? 5 })
    case 'string':
      return text(schema, name)
    default:
      throw new Error(`a request with ${JSON.stringify(schema)} needs its own values`)
  }
}

function text(schema: Schema, name: string): fc.Arbitrary<string> {
  if (schema.format === 'uuid') return fc.uuid()
  if (schema.format === 'email')
    return fc.emailAddress().filter((address) => /^[^"]{1,64}@[a-z0-9.-]+\.[a-z][a-z0-9-]*$/i.test(address))
  if (schema.format === 'date-time')
    return fc.integer({ min: 60_000, max: 6 * 86_400_000 }).map((ahead) => new Date(Date.now() + ahead).toISOString())
  if (schema.contentEncoding === 'base64') return fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('base64'))
  if (name === 'contentType') return fc.constantFrom('text/plain', 'application/pdf; name=x', 'image/svg+xml')
  const unit =
    name === 'filename' || name === 'subject'
      ? fc.constantFrom('a', 'Z', '0', ' ', '.', '-', 'é', '😀', '"', '=', ';')
      : 'grapheme'
  return fc
    .string({ unit, minLength: schema.minLength ?? 0, maxLength: Math.min(schema.maxLength ?? 60, 60) })
    .filter((value) => value !== '.' && value !== '..')
}

/** One member, somewhere, taken away or replaced by anything. */
const spoiled = (schema: Schema): fc.Arbitrary<unknown> =>
  fc
    .tuple(
      good(schema),
      fc.constantFrom(...Object.keys(resolve(schema).properties ?? {}), 'unknown'),
      fc.oneof(
        fc.constant(undefined),
        fc.jsonValue(),
        fc.constant('\r\n'),
        fc.constant(null),
        fc.string({ unit: 'binary' }),
      ),
    )
    .map(([value, key, instead]) => ({ ...(value as object), [key]: instead }))

interface Answer {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, unknown>>
  json(): unknown
}

function judge(path: string, method: string, answer: Answer): void {
  const { statusCode: status, headers } = answer
  const documented = served.paths[path]?.[method]?.responses[status]
  if (documented === undefined) throw new Error(`${method} ${path} answered ${status}, which is not documented`)
  for (const header of Object.keys(responseHeaders))
    if (headers[header.toLowerCase()] !== undefined && documented.headers?.[header] === undefined)
      throw new Error(`${status} of ${path} has the header ${header}, which is not documented`)
  const pointer = ['paths', path, method, 'responses', String(status), 'content', 'application/json', 'schema']
  const fits = ajv.getSchema(
    `served#/${pointer.map((part) => encodeURIComponent(part.replaceAll('/', '~1'))).join('/')}`,
  )
  if (fits === undefined) throw new Error(`${status} of ${path} has no schema`)
  if (!(fits(answer.json()) as boolean))
    throw new Error(`the body of ${status} does not fit: ${ajv.errorsText(fits.errors)}`)
}

const sendSchema = served.paths['/api/v1/send']?.['post']?.requestBody?.content['application/json'].schema ?? {}

async function send(body: unknown, accept?: () => Promise<Accepted | QuotaRefusal>): Promise<number> {
  const { app } = accept === undefined ? shared : appWith({ accept })
  const response = await app.inject(sending(body))
  judge('/api/v1/send', 'post', response)
  return response.statusCode
}
const shared = appWith()

test('whatever the document describes is accepted', async () => {
  await fc.assert(
    fc.asyncProperty(good(sendSchema), async (body) => {
      expect(await send(body)).toBe(202)
      const last = shared.seen.submissions.at(-1)
      expect(last?.subject).toBe((body as { subject: string }).subject)
    }),
    { numRuns: 200 },
  )
})

test('whatever is spoiled is accepted or refused with a documented 400, and never breaks anything', async () => {
  await fc.assert(
    fc.asyncProperty(spoiled(sendSchema), async (body) => {
      expect([202, 400]).toContain(await send(body))
    }),
    { numRuns: 300 },
  )
})

test('any bytes as a body answer 400', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ minLength: 1 }), async (bytes) => {
      expect(await send(Buffer.from(bytes))).toBe(400)
    }),
    { numRuns: 200 },
  )
})

test('every refusal of the other rooms is a documented answer', async () => {
  const ofOtherPlaces = new Set(['not_found']) // send has no 404
  for (const code of refusalCodes.filter((each) => !ofOtherPlaces.has(each)))
    await send({ mailboxId, recipient: 'ada@example.com', subject: 's', bodyText: 'b' }, () =>
      Promise.resolve(refuse(code, 'No.', { field: 'x', upgradeUrl: 'https://example.org/' })),
    )
})

test('whatever acceptance says, the headers of its quota are documented', async () => {
  const quota = [{ window: 'hour', limit: 5, remaining: 4, resetSeconds: 60 }] as const
  const body = { mailboxId, recipient: 'ada@example.com', subject: 's', bodyText: 'b' }
  const says = (refusal: QuotaRefusal) => send(body, () => Promise.resolve({ ...refusal, quota }))
  for (const [code, status] of Object.entries({
    attachment_infected: 400,
    mailbox_not_active: 400,
    idempotency_in_progress: 409,
    idempotency_key_reused: 409,
    recipient_suppressed: 422,
    hourly_limit_reached: 429,
    scanner_unavailable: 503,
  } as const))
    expect(await says(refuse(code as RefusalCode, 'No.'))).toBe(status)
  await send(body)
  const message = shared.seen.submissions.at(-1) as Submission
  const accepted = () => Promise.resolve({ message: recordOf(message), replayed: true, quota })
  expect(await send(body, accepted)).toBe(202)
})

test('every status read fits the document', async () => {
  const message = recordOf({
    workspaceId,
    source: 'rest',
    mailboxId,
    recipient: {
      text: 'ada@example.com',
      local: 'ada',
      domain: 'example.com',
      key: 'ada@example.com',
      needsSmtputf8: false,
    },
    subject: 's',
    bodyText: 'b',
    attachments: [],
  })
  const statuses = fc.constantFrom('queued', 'sending', 'sent', 'retrying', 'failed', 'delivery_unknown')
  const types = fc.constantFrom('delivered', 'soft_bounce', 'hard_bounce', 'complaint')
  const event = fc.record(
    {
      id: fc.uuid(),
      eventType: types,
      recipient: fc.constant('ada@example.com'),
      detail: fc.string({ unit: 'binary' }),
      createdAt: fc.date({ noInvalidDate: true, min: new Date(0), max: new Date('2100-01-01') }),
    },
    { requiredKeys: ['id', 'eventType', 'recipient', 'createdAt'] },
  )
  const anyId = fc.oneof(
    fc.constant(messageId),
    fc.uuid(),
    fc.string({ minLength: 1 }).map(encodeURIComponent),
    fc.constant('%'),
  )
  let found: Awaited<ReturnType<HttpDoors['readStatus']>>
  const { app } = appWith({ readStatus: (_workspace, id) => Promise.resolve(id === messageId ? found : undefined) })
  await fc.assert(
    fc.asyncProperty(statuses, fc.array(event, { maxLength: 4 }), anyId, async (status, events, id) => {
      found = { message: { ...message, status }, events }
      const url = `/api/v1/messages/${id}`
      const response = await app.inject({ url, headers: { authorization: `Bearer ${goodKey}` } })
      // Dots are steps in a path, and lead elsewhere.
      if (/^\.{1,2}$/.test(id)) expect([400, 404]).toContain(response.statusCode)
      else judge('/api/v1/messages/{messageId}', 'get', response)
      expect(response.statusCode).toBeLessThan(500)
    }),
    { numRuns: 200 },
  )
})
