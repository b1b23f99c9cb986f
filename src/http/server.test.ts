// Every status of the specification's two tables with its body, every refusal code, the order of checks, and what all
// responses carry.
import type { InjectOptions } from 'fastify'
import { Readable } from 'node:stream'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { BatchFull } from '../base/batch.ts'
import { survivesItsLife } from '../base/service.test-kit.ts'
import { currentOwner } from '../base/turns.ts'
import { limits } from '../config.ts'
import type { RefusalCode } from '../domain/refusal.ts'
import { refusalCodes, refuse } from '../domain/refusal.ts'
import type { Principal, QuotaState } from '../domain/submission.ts'
import { buildApp } from './app.ts'
import type { HttpDoors } from './face.ts'
import {
  Away,
  appWith,
  goodKey,
  mailboxId,
  messageId,
  optionsWith,
  principal,
  recordOf,
  sending,
  validBody,
  workspaceId,
} from './face.test-kit.ts'
import { refusals } from './refusals.ts'
import { httpServer } from './server.ts'

const as = (change: Partial<Principal>): Partial<HttpDoors> => ({
  authenticate: () => Promise.resolve({ ...principal, ...change }),
})
const answering = (code: RefusalCode, more: Partial<Parameters<typeof refuse>[2]> = {}): Partial<HttpDoors> => ({
  accept: () => Promise.resolve(refuse(code, 'A plain sentence.', more)),
})
const reading = (id: string = messageId, headers: Record<string, string> = {}): InjectOptions => ({
  method: 'GET',
  url: `/api/v1/messages/${id}`,
  headers: { authorization: `Bearer ${goodKey}`, ...headers },
})
const hour: QuotaState = { window: 'hour', limit: 100, remaining: 40, resetSeconds: 61.2 }
const day: QuotaState = { window: 'day', limit: 500, remaining: 10, resetSeconds: 4_000 }

/** A body that comes piece by piece, and the answer to it, for which a caller waits that reads nothing before it has sent everything. */
function slowly() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  const body = new Readable({ read: () => undefined })
  const { app } = appWith({ authenticate: () => Promise.resolve(undefined) })
  let ended = false
  const answer = app
    .inject({
      ...sending(),
      payload: body,
      headers: { 'content-type': 'application/json', 'content-length': '1000000000' },
    })
    .finally(() => (ended = true))
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  return {
    answer,
    push: async (bytes: number, afterMs: number) => {
      vi.advanceTimersByTime(afterMs)
      body.push(Buffer.alloc(bytes))
      for (let turns = 0; turns < 5; turns++) await turn()
      return !ended
    },
  }
}
afterEach(() => void vi.useRealTimers())

describe('what is refused before its body was read', () => {
  test('is read on while it comes, or its caller would see a reset and no answer', async () => {
    const { push, answer } = slowly()
    await push(1, 0) // it is refused by now
    for (let sentMs = 0; sentMs < limits.lingerMs; sentMs += limits.lingerIdleMs / 2)
      expect(await push(1_000, limits.lingerIdleMs / 2)).toBe(true)
    expect(await push(1_000, limits.lingerIdleMs / 2)).toBe(false)
    expect((await answer).statusCode).toBe(401)
  })

  test.each([
    ['comes no more', [1_000], limits.lingerIdleMs],
    ['has no end', [limits.lingerBytesMax, 1], 0],
  ])('but no longer where it %s', async (_, pieces, thenMs) => {
    const { push, answer } = slowly()
    for (const bytes of pieces) await push(bytes, 1)
    vi.advanceTimersByTime(thenMs)
    expect((await answer).statusCode).toBe(401)
  })
})

describe('POST /api/v1/send, specification 4.1', () => {
  test('202: the message is queued', async () => {
    const { app, seen } = appWith()
    const response = await app.inject(
      sending({
        ...validBody,
        metadata: { order: '1042', 'a\nb': 'c' },
        attachments: [{ filename: 'a.txt', contentBase64: 'QUJD' }],
      }),
    )
    expect(response.statusCode).toBe(202)
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(response.json()).toEqual({
      id: messageId,
      status: 'queued',
      message: {
        id: messageId,
        organizationId: workspaceId,
        mailboxId,
        direction: 'outbound',
        status: 'queued',
        sender: 'shop@example.org',
        recipient: 'ada@example.com',
        subject: 'Your receipt',
        bodyText: 'Thank you.\n',
        metadata: { order: '1042', 'a\nb': 'c' },
        createdAt: '2026-11-21T09:30:00.123Z',
      },
    })
    expect(seen.submissions).toEqual([
      expect.objectContaining({
        workspaceId,
        source: 'rest',
        mailboxId,
        attachments: [{ filename: 'a.txt', contentType: 'application/octet-stream', bytes: Buffer.from('ABC') }],
      }),
    ])
    expect(seen.submissions[0]).not.toHaveProperty('idempotency')
  })

  test.each([
    [400, 'invalid_json', {}, sending('{')],
    [400, 'invalid_request', {}, sending({ ...validBody, subject: 'a\nb' })],
    [400, 'too_many_attachments', {}, sending({ ...validBody, attachments: Array.from({ length: 11 }, () => ({})) })],
    [400, 'mailbox_not_active', answering('mailbox_not_active'), sending()],
    [400, 'attachment_infected', answering('attachment_infected'), sending()],
    [401, 'invalid_api_key', {}, sending(validBody, { authorization: 'Bearer wrong' })],
    [402, 'upgrade_required', as({ apiSending: false }), sending()],
    [403, 'insufficient_scope', as({ scopes: new Set(['mail.status.read']) }), sending()],
    [403, 'workspace_blocked', as({ blocked: true }), sending()],
    [409, 'idempotency_key_reused', answering('idempotency_key_reused'), sending()],
    [409, 'idempotency_in_progress', answering('idempotency_in_progress'), sending()],
    [422, 'recipient_suppressed', answering('recipient_suppressed'), sending()],
    [429, 'hourly_limit_reached', answering('hourly_limit_reached'), sending()],
    [429, 'daily_limit_reached', answering('daily_limit_reached'), sending()],
    [429, 'monthly_limit_reached', answering('monthly_limit_reached'), sending()],
    [503, 'scanner_unavailable', answering('scanner_unavailable'), sending()],
    [503, 'service_unavailable', { accept: () => Promise.reject(new Away()) }, sending()],
    [500, 'internal_error', { accept: () => Promise.reject(new Error('secret SQL')) }, sending()],
  ] as const)('%s: %s', async (status, code, doors, request) => {
    const noted: string[] = []
    const { app } = appWith({ ...doors, noteRefused: (refused) => void noted.push(refused.code) })
    const response = await app.inject(request)
    expect(response.statusCode).toBe(status)
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(response.json()).toEqual(
      expect.objectContaining({ error: expect.stringMatching(/^[A-Z"].+\.$/) as unknown, code }),
    )
    expect(response.body).not.toContain('secret')
    expect(response.headers['retry-after'] !== undefined).toBe(
      status === 429 || status === 503 || code === 'idempotency_in_progress',
    )
    expect(response.headers['www-authenticate']).toBe(status === 401 ? 'Bearer' : undefined)
    // A workspace is shown its own mistakes; our trouble is none of them, and a wrong key is nobody's.
    expect(noted).toEqual(status === 401 || status >= 500 ? [] : [code])
  })

  test('what is refused is noted with what its sender was told, the key, and the request', async () => {
    const noted: object[] = []
    const { app } = appWith({ noteRefused: (refused) => void noted.push(refused) })
    const response = await app.inject(sending({ ...validBody, subject: 'a\nb' }))
    const { error } = response.json<{ error: string }>()
    expect(noted).toEqual([
      {
        workspaceId: expect.any(String) as string,
        source: 'rest',
        code: 'invalid_request',
        field: 'subject',
        error,
        callerId: expect.any(String) as string,
        requestId: response.headers['x-request-id'],
      },
    ])
  })

  test('a 503 of the database does not say that nothing was accepted: it may have been lost in the moment of the commit', async () => {
    const { app } = appWith({ accept: () => Promise.reject(new Away()) })
    const { error } = (await app.inject(sending())).json<{ error: string }>()
    expect(error).not.toMatch(/nothing was accepted/i)
    expect(error).toContain('the same Idempotency-Key')
  })

  test('every refusal code that accept may return has its status', async () => {
    for (const code of refusalCodes) {
      const { app } = appWith(answering(code, { field: 'some.field', retryAfterSeconds: 7.2 }))
      const response = await app.inject(sending())
      expect(response.statusCode).toBe(refusals[code])
      expect(response.json()).toEqual({ error: 'A plain sentence.', code, field: 'some.field' })
      expect(response.headers['retry-after']).toBe('8')
    }
  })

  test('402 tells where to upgrade', async () => {
    const { app } = appWith(as({ apiSending: false, upgradeUrl: 'https://example.org/plans' }))
    expect((await app.inject(sending())).json()).toMatchObject({ upgradeUrl: 'https://example.org/plans' })
  })

  test('202 and 429 carry the state of the tightest window; an unlimited plan has none', async () => {
    const quota = [hour, day]
    const accepted = appWith({
      accept: (submission) => Promise.resolve({ message: recordOf(submission), replayed: false, quota }),
    })
    const refused = appWith({ accept: () => Promise.resolve({ ...refuse('daily_limit_reached', 'Used up.'), quota }) })
    for (const { app } of [accepted, refused])
      expect((await app.inject(sending())).headers).toMatchObject({
        'ratelimit-limit': '500',
        'ratelimit-remaining': '10',
        'ratelimit-reset': '4000',
      })
    expect((await appWith().app.inject(sending())).headers).not.toHaveProperty('ratelimit-limit')
  })

  test.each([
    [400, 'is no JSON', sending('{')],
    [400, 'is not as documented', sending({ ...validBody, subject: 'a\nb' })],
    [400, 'is of another type', sending(validBody, { 'content-type': 'text/plain' })],
    [413, 'is too large', sending(validBody, { 'content-length': String(limits.requestBytesMax + 1) })],
  ])('so does a %i for a body that %s, though nothing was to be admitted', async (status, _, request) => {
    const asked: string[] = []
    const { app } = appWith({
      quota: (workspace) => {
        asked.push(workspace)
        return Promise.resolve([hour, day])
      },
    })
    const { statusCode, headers } = await app.inject(request)
    expect(statusCode).toBe(status)
    expect(headers).toMatchObject({ 'ratelimit-limit': '500', 'ratelimit-remaining': '10', 'ratelimit-reset': '4000' })
    expect(asked).toEqual([workspaceId])
  })

  test('a database that does not tell the windows changes no refusal, and who may not send is told of none', async () => {
    const away = appWith({ quota: () => Promise.reject(new Away()) })
    const response = await away.app.inject(sending('{'))
    expect(response.statusCode).toBe(400)
    expect(response.headers).not.toHaveProperty('ratelimit-limit')
    const quota = () => Promise.resolve([hour, day])
    for (const facts of [{ apiSending: false }, { blocked: true }, { scopes: new Set([]) }])
      expect((await appWith({ ...as(facts), quota }).app.inject(sending('{'))).headers).not.toHaveProperty(
        'ratelimit-limit',
      )
  })

  test('a replay is the first 202 again, and says so', async () => {
    const { app, seen } = appWith({
      accept: (submission) => {
        seen.submissions.push(submission)
        const later = { status: 'sent' as const, providerMessageId: 'q1', errorMessage: 'greylisted' }
        return Promise.resolve({ message: { ...recordOf(submission), ...later }, replayed: true, quota: [] })
      },
    })
    const first = (await appWith().app.inject(sending())).json<unknown>()
    const response = await app.inject(sending(validBody, { 'idempotency-key': 'order-1' }))
    expect(response.statusCode).toBe(202)
    expect(response.headers['idempotent-replayed']).toBe('true')
    expect(response.json()).toEqual(first)
    const raw = new Uint8Array(Buffer.from(JSON.stringify(validBody)))
    const hash = Buffer.from(await crypto.subtle.digest('SHA-256', raw)).toString('hex')
    expect(seen.submissions[0]?.idempotency).toEqual({ key: 'order-1', bodyHash: hash })
  })

  test('an idempotency key may have all of its 255 characters', async () => {
    const { app, seen } = appWith()
    const key = 'x'.repeat(255)
    expect((await app.inject(sending(validBody, { 'idempotency-key': key }))).statusCode).toBe(202)
    expect(seen.submissions[0]?.idempotency?.key).toBe(key)
  })

  test.each(['', 'a b', 'é', 'x'.repeat(256), 'a\tb'])('an idempotency key %j is refused', async (key) => {
    const { app, seen } = appWith()
    const response = await app.inject(sending(validBody, { 'idempotency-key': key }))
    expect([response.statusCode, response.json()]).toEqual([
      400,
      expect.objectContaining({ code: 'invalid_request', field: 'Idempotency-Key' }),
    ])
    expect(seen.submissions).toEqual([])
  })

  test.each([
    'text/plain',
    'text/json',
    'text',
    '',
    'application/json; charset=utf-16',
    'application/json; charset=utf-8; x=y',
    'application/json; charset=utf-8; charset=utf-8',
    'application/json; charset="utf-8',
    'application/json charset=utf-8',
    'application/json, application/json',
    'application/jsonp',
    'multipart/form-data; boundary=x',
  ])('content type %j is refused', async (type) => {
    const response = await appWith().app.inject(sending(validBody, { 'content-type': type }))
    expect([response.statusCode, response.json()]).toEqual([
      400,
      expect.objectContaining({ code: 'invalid_request', field: 'Content-Type' }),
    ])
  })

  // RFC 9110, 5.6.6: a parameter may be missing behind its semicolon.
  test.each([
    'application/json',
    'application/json;charset=UTF-8',
    'Application/JSON ; charset="utf-8"',
    'application/json;',
    'application/json; charset=utf-8;',
    'application/json ; ; charset=utf-8 ; ',
  ])('content type %j is taken', async (type) =>
    expect((await appWith().app.inject(sending(validBody, { 'content-type': type }))).statusCode).toBe(202),
  )

  test('no content type, no body, and a compressed body are refused', async () => {
    const { app } = appWith()
    const authorization = `Bearer ${goodKey}`
    const url = '/api/v1/send'
    const bare = await app.inject({ method: 'POST', url, headers: { authorization }, payload: Buffer.from('{}') })
    expect(bare.json()).toMatchObject({ code: 'invalid_request', field: 'Content-Type' })
    const empty = await app.inject({
      method: 'POST',
      url,
      headers: { authorization, 'content-type': 'application/json' },
    })
    expect(empty.json()).toMatchObject({ code: 'invalid_json' })
    const zipped = await app.inject(sending(Buffer.from('x'), { 'content-encoding': 'gzip' }))
    expect(zipped.json()).toMatchObject({ code: 'invalid_request', field: 'Content-Encoding' })
  })
})

test('a request that is wrong in every way fails in the documented order', async () => {
  // Each step repairs the first complaint of the one before.
  const away: Partial<HttpDoors> = { accept: () => Promise.resolve(refuse('mailbox_not_active', 'No.')) }
  const everything: Principal = { ...principal, scopes: new Set(), blocked: true, apiSending: false }
  const scoped: Principal = { ...everything, scopes: new Set(['mail.send']) }
  const free: Principal = { ...scoped, blocked: false }
  const upgraded: Principal = { ...free, apiSending: true }
  const huge = { 'content-type': 'text/plain', 'content-length': String(49 * 1024 * 1024) }
  const bad = { ...validBody, recipient: 'x', attachments: Array.from({ length: 11 }, () => 5) }
  const steps = [
    [401, 'invalid_api_key', undefined, sending('{', huge)],
    [403, 'insufficient_scope', everything, sending('{', huge)],
    [403, 'workspace_blocked', scoped, sending('{', huge)],
    [402, 'upgrade_required', free, sending('{', huge)],
    [413, 'payload_too_large', upgraded, sending('{', huge)],
    [400, 'invalid_request', upgraded, sending('{', { 'content-type': 'text/plain', 'idempotency-key': '' })],
    [400, 'invalid_request', upgraded, sending('{', { 'idempotency-key': '' })],
    [400, 'invalid_json', upgraded, sending('{')],
    [400, 'too_many_attachments', upgraded, sending(bad)],
    [400, 'invalid_request', upgraded, sending({ ...bad, attachments: [] })],
    [400, 'mailbox_not_active', upgraded, sending()],
  ] as const
  for (const [status, code, who, request] of steps) {
    const { app } = appWith({ ...away, authenticate: () => Promise.resolve(who) })
    const response = await app.inject(request)
    expect([response.statusCode, response.json<{ code: string }>().code]).toEqual([status, code])
  }
})

describe('GET /api/v1/messages/{messageId}, specification 4.2', () => {
  const found: HttpDoors['readStatus'] = (workspace, id) =>
    Promise.resolve(
      workspace !== workspaceId || id !== messageId
        ? undefined
        : {
            message: {
              id,
              workspaceId: workspace,
              mailboxId,
              status: 'sent',
              deliveryStatus: 'delivered',
              sender: 'shop@example.org',
              recipient: 'ada@example.com',
              subject: 'Your receipt',
              bodyText: '',
              providerMessageId: '250 queued as 1',
              createdAt: new Date('2026-11-21T09:30:00Z'),
              expiresAt: new Date('2026-11-22T09:30:00Z'),
              contentExpiredAt: new Date('2026-11-29T09:30:00Z'),
              metadata: { order: '1042', 'a\nb': 'c' },
            },
            events: [
              {
                id: '0199f1c2-0000-7000-8000-00000000000d',
                eventType: 'delivered',
                recipient: 'ada@example.com',
                detail: '250 2.0.0 ok',
                createdAt: new Date('2026-11-21T09:30:01.5Z'),
              },
            ],
          },
    )

  test('200: the queue state, the delivery state and the events', async () => {
    const response = await appWith({ readStatus: found }).app.inject(reading())
    expect(response.statusCode).toBe(200)
    expect(response.json()).toEqual({
      message: {
        id: messageId,
        organizationId: workspaceId,
        mailboxId,
        direction: 'outbound',
        status: 'sent',
        sender: 'shop@example.org',
        recipient: 'ada@example.com',
        subject: 'Your receipt',
        bodyText: '',
        providerMessageId: '250 queued as 1',
        metadata: { order: '1042', 'a\nb': 'c' },
        expiresAt: '2026-11-22T09:30:00.000Z',
        contentExpiredAt: '2026-11-29T09:30:00.000Z',
        createdAt: '2026-11-21T09:30:00.000Z',
      },
      processingStatus: 'sent',
      deliveryStatus: 'delivered',
      events: [
        {
          id: '0199f1c2-0000-7000-8000-00000000000d',
          eventType: 'delivered',
          recipient: 'ada@example.com',
          detail: '250 2.0.0 ok',
          createdAt: '2026-11-21T09:30:01.500Z',
        },
      ],
    })
  })

  test('a blocked workspace and a plan without sending can still read', async () => {
    const { app } = appWith({ readStatus: found, ...as({ blocked: true, apiSending: false }) })
    expect((await app.inject(reading())).statusCode).toBe(200)
  })

  test.each([
    [400, 'invalid_request', {}, 'not-a-uuid'],
    [401, 'invalid_api_key', { authenticate: () => Promise.resolve(undefined) }, 'not-a-uuid'],
    [403, 'insufficient_scope', as({ scopes: new Set(['mail.send']) }), 'not-a-uuid'],
    [404, 'not_found', {}, messageId],
    [500, 'internal_error', { readStatus: () => Promise.reject(new Error('secret')) }, messageId],
    [503, 'service_unavailable', { readStatus: () => Promise.reject(new Away()) }, messageId],
  ] as const)('%s: %s', async (status, code, doors, id) => {
    const response = await appWith(doors).app.inject(reading(id))
    expect([response.statusCode, response.json()]).toEqual([
      status,
      expect.objectContaining({ error: expect.any(String) as unknown, code }),
    ])
  })

  test.each([
    [messageId.toUpperCase(), 200],
    ['00000000-0000-0000-0000-000000000000', 404],
    ['ffffffff-ffff-ffff-ffff-ffffffffffff', 404],
    [`{${messageId}}`, 400],
    [messageId.replaceAll('-', ''), 400],
    [`urn:uuid:${messageId}`, 400],
    [`${messageId}%2F`, 400],
    [`${messageId}%00`, 400],
    [`${messageId}%20`, 400],
    [`${messageId}'%20OR%201=1--`, 400],
    ['0'.repeat(36), 400],
    ['x'.repeat(3_000), 400],
    ['%zz', 400],
    ['%ff', 400],
    ['', 400],
    [`${messageId}/`, 404],
    [`${messageId}?x=1`, 200],
  ])('the id %.60s answers %i (attack Q12)', async (id, status) => {
    const response = await appWith({ readStatus: found }).app.inject(reading(id))
    expect(response.statusCode).toBe(status)
    if (status !== 200) expect(Object.keys(response.json<object>())).toEqual(expect.arrayContaining(['error', 'code']))
  })

  test.each(['/api/v1/suppressions/%ff', '/api/v1/suppressions/a%4', '/nowhere/%zz'])(
    '%s has a malformed percent-encoding, and is told so',
    async (url) => {
      const response = await appWith().app.inject({ method: 'DELETE', url })
      expect(response.statusCode).toBe(400)
      expect(response.json()).toMatchObject({
        code: 'invalid_request',
        field: 'path',
        error: expect.stringContaining('malformed percent-encoding') as string,
      })
    },
  )

  test('an id that cannot even be decoded asks for the key first', async () => {
    const response = await appWith().app.inject(reading('%zz', { authorization: 'Bearer wrong' }))
    expect([response.statusCode, response.headers['www-authenticate']]).toEqual([401, 'Bearer'])
    expect(response.headers['x-request-id']).toMatch(/./)
  })
})

describe('keys, attack T2', () => {
  test.each([
    ['no header', undefined, 401],
    ['the scheme in lower case', `bearer ${goodKey}`, 202],
    ['the scheme in upper case', `BEARER ${goodKey}`, 202],
    ['another scheme', `Basic ${goodKey}`, 401],
    ['the key alone', goodKey, 401],
    ['the prefix alone', 'Bearer ph_', 401],
    ['no key', 'Bearer ', 401],
    ['a key cut short', `Bearer ${goodKey.slice(0, -1)}`, 401],
    ['two keys', `Bearer ${goodKey}, Bearer ${goodKey}`, 401],
    ['something after the key', `Bearer ${goodKey} x`, 401],
    ['a key of 10 kB', `Bearer ${'k'.repeat(10_000)}`, 401],
    ['Unicode', 'Bearer ph_ééé', 401],
  ])('%s', async (_name, authorization, status) => {
    const request = sending()
    const headers = { 'content-type': 'application/json', ...(authorization !== undefined && { authorization }) }
    expect((await appWith().app.inject({ ...request, headers })).statusCode).toBe(status)
  })

  test('a key in the query is none', async () => {
    const request = { ...sending(), url: `/api/v1/send?authorization=Bearer%20${goodKey}&access_token=${goodKey}` }
    const response = await appWith().app.inject({ ...request, headers: { 'content-type': 'application/json' } })
    expect(response.statusCode).toBe(401)
  })

  test('a header that cannot hold a key is not looked up', async () => {
    const asked: string[] = []
    const { app } = appWith({ authenticate: (secret) => (asked.push(secret), Promise.resolve(undefined)) })
    await app.inject(sending(validBody, { authorization: `Bearer ${'k'.repeat(10_000)}` }))
    expect(asked).toEqual([])
  })
})

describe('what every response carries', () => {
  const requests: [name: string, status: number, request: InjectOptions | string][] = [
    ['an accepted message', 202, sending()],
    ['a refusal', 400, sending('{')],
    ['an unknown path', 404, '/nope'],
    ['a known path with another method', 404, { method: 'DELETE', url: '/api/v1/send' }],
    [
      'an unknown path with a body',
      404,
      { method: 'PUT', url: '/x', payload: 'x', headers: { 'content-type': 'x/y' } },
    ],
    ['a path that cannot be decoded', 400, '/%zz'],
    ['the health check', 200, '/healthz'],
  ]
  test.each(requests)('%s', async (_name, status, request) => {
    const response = await appWith().app.inject(request)
    expect(response.statusCode).toBe(status)
    expect(response.headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'content-security-policy': expect.stringContaining("frame-ancestors 'none'") as unknown,
      'x-request-id': expect.stringMatching(/^[\w-]{12,40}$/) as unknown,
    })
    if (status >= 400) expect(response.json()).toMatchObject({ error: expect.any(String) as unknown })
  })

  test('request ids are ours and differ', async () => {
    const { app } = appWith()
    const ids = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const { headers } = await app.inject(sending(validBody, { 'x-request-id': 'mine', 'request-id': 'mine' }))
        return headers['x-request-id']
      }),
    )
    expect(new Set(ids).size).toBe(20)
    expect(ids).not.toContain('mine')
  })
})

describe('one line in the log for each request', () => {
  test('an accepted message and a refusal are told without key, body or address', async () => {
    const { app, seen } = appWith()
    const accepted = await app.inject(sending())
    const refused = await app.inject(sending({ ...validBody, subject: '' }))
    expect(seen.logged).toEqual([
      {
        verb: 'accepted',
        facts: expect.objectContaining({
          requestId: accepted.headers['x-request-id'],
          status: 202,
          messageId,
          workspaceId,
        }) as unknown,
      },
      {
        verb: 'refused',
        facts: expect.objectContaining({
          requestId: refused.headers['x-request-id'],
          status: 400,
          code: 'invalid_request',
          field: 'subject',
          route: '/api/v1/send',
        }) as unknown,
      },
    ])
    const text = JSON.stringify(seen.logged)
    for (const secret of [goodKey, validBody.recipient, validBody.bodyText.trim()]) expect(text).not.toContain(secret)
  })

  test('a fault is told once, with its request id, and the caller gets plain words', async () => {
    const error = new Error('relation "x" does not exist')
    const { app, seen } = appWith({ accept: () => Promise.reject(error) })
    const response = await app.inject(sending())
    const id = response.headers['x-request-id']
    expect(response.json()).toEqual({ error: expect.stringContaining(String(id)) as unknown, code: 'internal_error' })
    expect(seen.logged.filter(({ verb }) => verb === 'fault')).toEqual([
      { verb: 'fault', facts: expect.objectContaining({ error, requestId: id }) as unknown },
    ])
  })

  test.each(['authenticate', 'accept', 'readStatus', 'ready'] as const)(
    'a fault in %s does not reach the caller',
    async (door) => {
      const { app } = appWith({ [door]: () => Promise.reject(new BatchFull('secret')) })
      const request = door === 'readStatus' ? reading() : door === 'ready' ? '/readyz' : sending()
      const response = await app.inject(request)
      expect(response.statusCode).toBe(500)
      expect(response.body).not.toContain('secret')
    },
  )

  test('metrics count by the declared route', async () => {
    const counted: unknown[] = []
    const options = optionsWith()
    const app = buildApp({ ...options, metrics: { answered: (route, status) => void counted.push([route, status]) } })
    await app.inject(sending())
    await app.inject(reading('x'))
    await app.inject('/some/stranger')
    expect(counted).toEqual([
      ['/api/v1/send', 202],
      ['/api/v1/messages/:messageId', 400],
      ['unknown', 404],
    ])
  })
})

describe('health', () => {
  test('the process says that it lives', async () => {
    expect((await appWith().app.inject('/healthz')).json()).toEqual({ status: 'ok' })
  })
  test('it is ready when its parts are', async () => {
    const response = await appWith().app.inject('/readyz')
    expect([response.statusCode, response.json()]).toEqual([200, { status: 'ready', detail: { database: 'ok' } }])
  })
  test('it is not ready when a part is not', async () => {
    const { app } = appWith({ ready: () => Promise.resolve({ ready: false, detail: { database: 'away' } }) })
    const response = await app.inject('/readyz')
    expect([response.statusCode, response.json()]).toEqual([503, { status: 'not_ready', detail: { database: 'away' } }])
  })
})

let latestPort = 0
survivesItsLife(
  'http server',
  () => Promise.resolve(httpServer({ ...optionsWith(), host: '127.0.0.1', port: 0 })),
  async (service) => {
    latestPort = (service as ReturnType<typeof httpServer>).port || latestPort
    const response = await fetch(`http://127.0.0.1:${latestPort}/healthz`, { headers: { connection: 'close' } })
    expect(response.status).toBe(200)
  },
)

test('what a request asks behind the doors is asked in the turn of its workspace', async () => {
  const owners: string[] = []
  const noting = <T>(answer: T) => {
    owners.push(currentOwner())
    return Promise.resolve(answer)
  }
  const { app } = appWith({
    readStatus: () => noting(undefined),
    catchUp: () => noting({ events: [], next: 'start', more: false }),
    webhooks: {
      ...optionsWith().doors.webhooks,
      show: () => noting(refuse('not_found', 'None.')),
      replayEvent: () => noting({ replayed: 0 }),
    },
  })
  const headers = { authorization: `Bearer ${goodKey}` }
  await app.inject(reading())
  for (const url of ['/api/v1/events', '/api/v1/webhook']) await app.inject({ method: 'GET', url, headers })
  const payload = { eventId: messageId }
  await app.inject({ method: 'POST', url: '/api/v1/webhook/replay', headers, payload })
  expect(owners).toEqual(Array(4).fill(workspaceId))
})
