// What a caller is told whose request has the wrong shape: the field, and what would be right.
import { Type, type TSchema } from 'typebox'
import { expect, test } from 'vitest'
import { keys } from '../contract/management/keys.ts'
import { mail } from '../contract/management/mail.ts'
import { operators } from '../contract/management/operators.ts'
import { SetWebhookRequest } from '../contract/management/webhooks.ts'
import { SendMessageRequest } from '../contract/message.ts'
import { managementOperations } from '../contract/operations.ts'
import { limits } from '../config.ts'
import { closed, oneOf } from '../contract/management/managed.ts'
import { isRefusal } from '../domain/refusal.ts'
import { makeReader } from './shape.ts'

const said = (schema: TSchema, value: unknown): string | undefined => {
  const answer = makeReader(schema)(value)
  return isRefusal(answer) ? answer.words : undefined
}
const endpoint = (change: object) => ({ url: 'https://shop.example/hook', ...change })
const key = (scopes: unknown) => ({ name: 'web shop', scopes })
const mailOf = (metadata: object) => ({ mailboxId: 'x', recipient: 'x', subject: 'x', bodyText: 'x', metadata })

const told: readonly (readonly [schema: TSchema | undefined, value: unknown, words: RegExp])[] = [
  [
    mail.listMessages.query,
    { status: 'gone' },
    /^"status" must be one of queued, sending, sent, retrying, failed or delivery_unknown\.$/,
  ],
  [mail.listMessages.query, { limit: 0 }, /^"limit" must be at least 1\.$/],
  [mail.listMessages.query, { limit: 500 }, /^"limit" must be at most 200\.$/],
  [keys.createKey.body, key([]), /^"scopes" must have at least 1 item\.$/],
  [keys.createKey.body, key(['mail']), /^"scopes.0" must be one of mail\.send, .* or audit\.read\.$/],
  [keys.createKey.body, key(Array(51).fill('mail.send')), /^"scopes" must have at most 50 items\.$/],
  [SetWebhookRequest, endpoint({ events: [] }), /^"events" must have at least 1 item\.$/],
  [SetWebhookRequest, endpoint({ events: 'all' }), /^"events" must be an array, or null\.$/],
  [SetWebhookRequest, endpoint({ events: ['sent'] }), /^"events.0" must be one of message\.queued, /],
  [operators.setPlan.body, { hourly: 'many' }, /^"hourly" must be an integer, or null\.$/],
  [operators.setPlan.body, { hourly: -1 }, /^"hourly" must be at least 0\.$/],
  [SendMessageRequest, mailOf({ '': 'x' }), /^"metadata\." has an empty name\.$/],
  [
    SendMessageRequest,
    mailOf({ ['k/'.repeat(21)]: 'x' }),
    /^"metadata\.k\/.*" must have a name of at most 40 characters\.$/,
  ],
]
test.each(told)('a wrong shape is told with what is allowed: %#', (schema, value, words) =>
  expect(said(schema as TSchema, value)).toMatch(words),
)

test('of a list that no sentence holds the beginning is named', () => {
  const many = closed({
    colour: oneOf(
      Array.from({ length: limits.valuesNamedMax + 2 }, (_, n) => `c${n}`),
      '',
    ),
  })
  expect(said(many, { colour: 'x' })).toMatch(/^"colour" must be one of c0, .* and 2 more\.$/)
  expect(said(closed({ colour: Type.Enum(['red']) }), { colour: 'x' })).toBe('"colour" must be red.')
})

test('no request has a schema with a keyword for which there are no words of ours', () => {
  const worded = [
    'type',
    'required',
    'properties',
    'patternProperties',
    'additionalProperties',
    'propertyNames',
    'items',
    'anyOf',
    'enum',
  ]
  const bounds = ['minLength', 'maxLength', 'maxProperties', 'minItems', 'maxItems', 'minimum', 'maximum']
  const saysNothing = ['description', 'examples', 'default', 'format', 'contentEncoding', '$id']
  const known = new Set([...worded, ...bounds, ...saysNothing])
  const unknown = new Set<string>()
  const walk = (schema: unknown): void => {
    if (typeof schema !== 'object' || schema === null) return
    for (const [keyword, value] of Object.entries(schema)) {
      if (!known.has(keyword)) unknown.add(keyword)
      if (keyword === 'properties' || keyword === 'patternProperties') Object.values(value as object).forEach(walk)
      else if (keyword === 'anyOf') (value as unknown[]).forEach(walk)
      else if (['items', 'propertyNames', 'additionalProperties'].includes(keyword)) walk(value)
    }
  }
  const managed = Object.values(managementOperations).flatMap((each) =>
    'query' in each ? [each.query, each.body] : [],
  ) as unknown[]
  for (const schema of [SendMessageRequest, ...managed]) walk(schema)
  expect(managed.length).toBeGreaterThan(50)
  expect([...unknown]).toEqual([])
})
