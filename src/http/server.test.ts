// What all requests have in common: the server's life, keys, what every response carries, and its line in the log.
import { describe, expect, test } from 'vitest'
import type { InjectOptions } from 'fastify'
import { BatchFull } from '../base/batch.ts'
import { survivesItsLife } from '../base/service.test-kit.ts'
import { currentOwner } from '../base/turns.ts'
import { refuse } from '../domain/refusal.ts'
import { buildApp } from './app.ts'
import { appWith, goodKey, messageId, optionsWith, reading, sending, validBody, workspaceId } from './face.test-kit.ts'
import { httpServer } from './server.ts'

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
  test('what stops this node alone is said in a word for programs, too', async () => {
    const detail = { database: 'ok', delivery: 'stopped' }
    const { app } = appWith({ ready: () => Promise.resolve({ ready: true, detail, nodeStop: 'mark' }) })
    expect((await app.inject('/readyz')).json()).toEqual({ status: 'ready', detail, nodeStop: 'mark' })
  })
})
