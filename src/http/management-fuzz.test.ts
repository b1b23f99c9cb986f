// The management endpoints against anything: bodies and queries that fit the published schemas, and spoiled ones. Whatever comes, the answer is
// a documented one (office.test-kit.ts holds each against the document) and never a fault of ours.
import { randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Operation } from '../contract/operation.ts'
import { managementOperations } from '../contract/operations.ts'
import { officeWorld } from './office.test-kit.ts'

interface Schema {
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly format?: string
  readonly examples?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly minimum?: number
  readonly maximum?: number
  readonly maxLength?: number
}

// Slow by design, and each with tests of its own: signing in and what asks for the password again.
const slow = new Set(['signIn', 'changePassword', 'beginTwoFactor', 'disableTwoFactor', 'beginPasskey'])
const operations = Object.values<Operation>(managementOperations).filter(
  ({ path, operationId }) => path !== '/api/v1/live' && !slow.has(operationId) && operationId !== 'signOut',
)

const office = await officeWorld()
const shop = await office.sender()
const browser = await office.signedIn('owner', shop.workspaceId, true)

function good(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(good))
  switch (schema.type) {
    case 'object': {
      const members = Object.entries(schema.properties ?? {}).map(([name, member]) => [name, good(member)] as const)
      return fc.record(Object.fromEntries(members), {
        requiredKeys: [...(schema.required ?? [])],
        noNullPrototype: true,
      })
    }
    case 'array':
      return fc.array(good(schema.items ?? {}), { minLength: 1, maxLength: 4 })
    case 'integer':
      return fc.integer({ min: schema.minimum ?? 0, max: schema.maximum ?? 1_000 })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    default:
      return text(schema)
  }
}

function text({ format, examples, maxLength = 60 }: Schema): fc.Arbitrary<string> {
  if (format === 'uuid') return fc.uuid()
  if (examples?.[0] === 'ada@example.com') return fc.emailAddress()
  if (format === 'date-time')
    return fc.integer({ min: -1e9, max: 1e9 }).map((ms) => new Date(Date.now() + ms).toISOString())
  return fc.string({ unit: 'grapheme', minLength: 1, maxLength: Math.min(maxLength, 60) })
}

const anything = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom('\r\n', '%', '\u202e', '', -1, 1e308),
  fc.string({ unit: 'binary' }),
)

const spoiled = (schema: Schema): fc.Arbitrary<Record<string, unknown>> =>
  fc
    .tuple(good(schema), fc.constantFrom(...Object.keys(schema.properties ?? {}), 'unknown'), anything)
    .map(([value, name, instead]) => ({ ...(value as object), [name]: instead }))

const idOf = fc
  .oneof(fc.uuid(), fc.string({ minLength: 1, maxLength: 30 }).map(encodeURIComponent))
  .filter((id) => !/^\.+$/.test(id))

/** Wrong tokens are answered later and later; what takes nothing has one way to be asked. */
const runsOf = ({ access, body, query, path }: (typeof operations)[number]): number =>
  access === 'anyone' ? 3 : body === undefined && query === undefined && !path.includes('{') ? 1 : 12

test.each(operations.map((each) => [each.operationId, each] as const))('%s', async (_name, operation) => {
  const { method, path } = operation
  const body: Schema | undefined = operation.body
  const query: Schema | undefined = operation.query
  const nothing = fc.constant(undefined)
  await fc.assert(
    fc.asyncProperty(
      fc.array(idOf, { minLength: 2, maxLength: 2 }),
      body === undefined ? nothing : fc.oneof(good(body), spoiled(body)),
      query === undefined ? nothing : fc.oneof(good(query), spoiled(query)),
      async (ids, sentBody, asked) => {
        let n = 0
        const url = path.slice('/api/v1'.length).replaceAll(/\{\w+\}/g, () => ids[n++] ?? '')
        const parameters = new URLSearchParams()
        for (const [name, value] of Object.entries(asked ?? {}))
          parameters.set(name, typeof value === 'string' ? value : JSON.stringify(value))
        const answer = await browser.ask(
          method.toUpperCase(),
          asked === undefined ? url : `${url}?${parameters.toString()}`,
          {
            ...(sentBody !== undefined && { body: sentBody }),
          },
        )
        expect(answer.statusCode, answer.body).toBeLessThan(500)
      },
    ),
    { numRuns: runsOf(operation) },
  )
})

test.each(Object.values<Operation>(managementOperations).map((each) => [each.operationId, each] as const))(
  '%s refuses a parameter that it does not have: a filter that is passed over looks as if it had filtered',
  async (_name, { method, path }) => {
    const url = path.slice('/api/v1'.length).replaceAll(/\{\w+\}/g, () => randomUUID())
    const answer = await browser.ask(method.toUpperCase(), `${url}?reasn=manual`)
    expect([answer.statusCode, answer.json<object>()]).toEqual([
      400,
      expect.objectContaining({ code: 'invalid_request', field: 'reasn' }),
    ])
  },
)
