import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { deliveryEventTypes, deliveryStatuses, messageStatuses } from '../domain/message.ts'
import { refusalCodes } from '../domain/refusal.ts'
import { scopes as allScopes } from '../domain/scopes.ts'
import * as contract from './message.ts'
import * as words from './words.ts'
import { openapiJson } from './openapi.ts'
import { scopes } from './operation.ts'
import { operations } from './operations.ts'
import { mail } from './management/mail.ts'

interface Document {
  readonly openapi: string
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>
  readonly webhooks: object
  readonly components: { readonly schemas: Readonly<Record<string, Component>> }
}
interface Component {
  readonly properties: Readonly<Record<string, { readonly description: string; readonly enum?: readonly string[] }>>
}
const document = JSON.parse(openapiJson()) as Document

test('openapi.json in the repository is what the code says (npm run golden renews it)', () => {
  expect(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8')).toBe(openapiJson())
})

test('components keep the names of the specification, and every reference leads somewhere', () => {
  // What the specification names comes first; then what management adds.
  expect(Object.keys(document.components.schemas).slice(0, 13)).toEqual([
    'SendMessageRequest',
    'Attachment',
    'Message',
    'SendMessageResponse',
    'DeliveryEvent',
    'MessageDeliveryStatus',
    'WebhookEvent',
    'WebhookEndpoint',
    'WebhookLogEntry',
    'WebhookAttempt',
    'WebhookEventDetail',
    'CaughtUpEvents',
    'Error',
  ])
  const references = openapiJson().match(/#\/components\/[^"]+/g) ?? []
  expect(references.length).toBeGreaterThan(20)
  for (const reference of new Set(references)) {
    const [, , kind = '', name = ''] = reference.split('/')
    expect((document.components as Record<string, Record<string, unknown>>)[kind]).toHaveProperty(name)
  }
})

// A client that holds answers against the document refuses a whole page for one address that we take and the format does not know.
test('only what the specification itself calls an email has that format, which is ASCII alone', () => {
  const withFormat = (value: unknown, path: string): string[] =>
    typeof value !== 'object' || value === null
      ? []
      : 'format' in value && value.format === 'email'
        ? [path]
        : Object.entries(value).flatMap(([name, member]) => withFormat(member, `${path}/${name}`))
  expect(withFormat(document, '')).toEqual([
    '/components/schemas/SendMessageRequest/properties/recipient',
    '/components/schemas/Message/properties/sender',
    '/components/schemas/Message/properties/recipient',
    '/components/schemas/DeliveryEvent/properties/recipient',
  ])
})

test('every component is used, and nothing is described with an empty text', () => {
  const text = openapiJson()
  const isUsed = (name: string) => text.includes(`"$ref": "#/components/schemas/${name}"`)
  expect(Object.keys(document.components.schemas).filter((name) => !isUsed(name))).toEqual([])
  expect(text).not.toContain('"description": ""')
})

test('the version is 1.0.0 in OpenAPI 3.1, and every status of the specification is documented', () => {
  expect(document.openapi).toBe('3.1.0')
  expect(document.info.version).toBe('1.0.0')
  expect(Object.keys(operations.send.answers)).toEqual(
    expect.arrayContaining(['202', '400', '401', '402', '403', '422', '429']),
  )
  expect(Object.keys(operations.readStatus.answers)).toEqual(
    expect.arrayContaining(['200', '400', '401', '403', '404']),
  )
  expect(Object.keys(scopes)).toEqual([...allScopes])
})

test('every endpoint answers its errors with the Error schema and a request id', () => {
  for (const path of Object.values(document.paths))
    for (const operation of Object.values(path) as {
      responses: Record<string, { content: object; headers: object }>
    }[])
      for (const [status, response] of Object.entries(operation.responses)) {
        expect(response.headers).toHaveProperty('X-Request-Id')
        if (status === '401') expect(response.headers).toHaveProperty('WWW-Authenticate')
        if (['429', '503'].includes(status)) expect(response.headers).toHaveProperty('Retry-After')
        if (Number(status) >= 400)
          expect(response.content).toEqual({ 'application/json': { schema: { $ref: '#/components/schemas/Error' } } })
      }
})

test('all webhook event types are described', () => {
  expect(Object.keys(document.webhooks)).toEqual([
    'message.queued',
    'message.sending',
    'message.sent',
    'message.retrying',
    'message.delivered',
    'message.soft_bounced',
    'message.hard_bounced',
    'message.complained',
    'message.failed',
    'message.delivery_unknown',
    'webhook.test',
  ])
})

test('the contract, which imports nothing of ours, says the same as our words and limits', () => {
  const { schemas } = document.components
  const codes = schemas['Error']?.properties['code']?.description.matchAll(/^\* `(\w+)`: /gm)
  expect([...(codes ?? [])].map(([, code]) => code)).toEqual([...refusalCodes])
  expect(schemas['DeliveryEvent']?.properties['eventType']?.enum).toEqual(deliveryEventTypes)
  expect(words.processingStatuses).toEqual(messageStatuses)
  expect(words.deliveryStatuses).toEqual(deliveryStatuses)
  expect(contract.SendMessageRequest.properties).toMatchObject({
    recipient: { maxLength: limits.addressOctetsMax },
    subject: { maxLength: limits.subjectCodePointsMax },
    attachments: { maxItems: limits.attachmentsMax },
    metadata: {
      maxProperties: limits.metadataPairsMax,
      propertyNames: { maxLength: limits.metadataKeyCharactersMax },
    },
  })
  expect(contract.Attachment.properties).toMatchObject({
    filename: { maxLength: limits.filenameBytesMax },
    contentType: { maxLength: limits.contentTypeCharactersMax },
  })
  expect(mail.listMessages.query?.properties).toMatchObject({ text: { maxLength: limits.messageTextCharactersMax } })
  expect(operations.send.parameters[0].schema).toMatchObject({ maxLength: limits.idempotencyKeyCharactersMax })
})
