// POST /api/v1/send, specification 4.1: every status with its body, every refusal code, and the order of checks.
import { Readable } from 'node:stream'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import { refusalCodes, refuse } from '../domain/refusal.ts'
import type { Principal, QuotaState } from '../domain/submission.ts'
import type { HttpDoors } from './face.ts'
import {
  Away,
  answering,
  appWith,
  as,
  goodKey,
  mailboxId,
  messageId,
  principal,
  recordOf,
  sending,
  validBody,
  workspaceId,
} from './face.test-kit.ts'
import { refusals } from './refusals.ts'

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

test('a parameter that sending does not have is refused by its name: who writes ?dryRun=true means that nothing is sent', async () => {
  const { app } = appWith({ accept: () => expect.unreachable() })
  const answer = await app.inject({ ...sending(), url: '/api/v1/send?dryRun=true' })
  expect([answer.statusCode, answer.json()]).toEqual([
    400,
    {
      error: '"dryRun" is not a parameter of this request, which takes none; remove it.',
      code: 'invalid_request',
      field: 'dryRun',
    },
  ])
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
