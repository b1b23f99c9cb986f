// The management of webhooks over HTTP: scopes, refusals with their field, and what each door is given.
import { expect, test } from 'vitest'
import { refuse } from '../domain/refusal.ts'
import { appWith, goodKey, principal, workspaceId } from './face.test-kit.ts'
import { webhooks as operations } from '../contract/management/webhooks.ts'
import type { HttpDoors, WebhookDoors } from './face.ts'

const endpoint = {
  url: 'https://example.com/hook',
  apiVersion: '2026-11-01',
  state: 'active' as const,
  rotating: false,
  version: 3,
  createdAt: new Date('2026-11-21T09:30:00.123Z'),
}
const eventId = '0199f1c2-7a4e-8c3b-9d52-6f1e8a0b4c7c'

function faceWith(webhooks: Partial<WebhookDoors>, doors: Partial<HttpDoors> = {}) {
  const calls: unknown[][] = []
  const noted = Object.fromEntries(
    Object.entries(webhooks).map(([name, door]) => [
      name,
      (...given: unknown[]) => {
        calls.push([name, ...given])
        return (door as (...all: unknown[]) => unknown)(...given)
      },
    ]),
  )
  const no = () => Promise.reject(new Error('not this door'))
  const all = [
    'show',
    'set',
    'enable',
    'disable',
    'rotate',
    'promote',
    'test',
    'log',
    'event',
    'replayEvent',
    'replayRange',
  ]
  const closed = Object.fromEntries(all.map((name) => [name, no])) as unknown as WebhookDoors
  const { app } = appWith({ webhooks: { ...closed, ...noted }, ...doors })
  const ask = async (method: 'GET' | 'PUT' | 'POST', path: string, body?: unknown) => {
    const answer = await app.inject({
      method,
      url: `/api/v1${path}`,
      headers: {
        authorization: `Bearer ${goodKey}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    return { status: answer.statusCode, body: answer.json<Record<string, unknown>>(), headers: answer.headers }
  }
  return { ask, calls, app }
}

test('every operation asks for a key, and for its scope', async () => {
  for (const { method, path, scope } of Object.values(operations)) {
    const url = path.replace('{eventId}', eventId)
    const other = scope === 'webhooks.read' ? 'webhooks.write' : 'webhooks.read'
    const { app } = appWith({ authenticate: () => Promise.resolve({ ...principal, scopes: new Set([other]) }) })
    const request = { method: method.toUpperCase() as 'GET', url }
    expect((await app.inject(request)).statusCode).toBe(401)
    const answer = await app.inject({ ...request, headers: { authorization: `Bearer ${goodKey}` } })
    expect(answer.statusCode).toBe(403)
    expect(answer.json()).toMatchObject({
      code: 'insufficient_scope',
      error: expect.stringContaining(String(scope)) as string,
    })
  }
})

test('an endpoint is set and shown, its secret once', async () => {
  const { ask, calls } = faceWith({
    set: () => Promise.resolve({ ...endpoint, secret: 'whsec_x' }),
    show: () => Promise.resolve(endpoint),
  })
  expect(await ask('PUT', '/webhook', { url: endpoint.url, events: ['message.sent'] })).toMatchObject({
    status: 200,
    body: { url: endpoint.url, secret: 'whsec_x', createdAt: '2026-11-21T09:30:00.123Z' },
  })
  expect(calls).toEqual([['set', workspaceId, { url: endpoint.url, events: ['message.sent'] }, 'key:key-1']])
  expect(await ask('GET', '/webhook')).toMatchObject({ status: 200, body: { state: 'active' } })
})

test('the version that somebody has seen goes along with their change', async () => {
  const { ask, calls } = faceWith({
    set: () => Promise.resolve(endpoint),
    rotate: () => Promise.resolve(endpoint),
    promote: () => Promise.resolve(endpoint),
  })
  const actor = 'key:key-1'
  expect(await ask('PUT', '/webhook', { url: endpoint.url, version: 0 })).toMatchObject({ body: { version: 3 } })
  expect((await ask('POST', '/webhook/rotate?version=3')).status).toBe(200)
  expect((await ask('POST', '/webhook/promote?version=4')).status).toBe(200)
  expect(calls).toEqual([
    ['set', workspaceId, { url: endpoint.url, version: 0 }, actor],
    ['rotate', workspaceId, actor, 3],
    ['promote', workspaceId, actor, 4],
  ])
  for (const path of ['/webhook/rotate?version=x', '/webhook/promote?version=-1'])
    expect(await ask('POST', path)).toMatchObject({ status: 400, body: { field: 'version' } })
})

test.each([
  [{}, 'url'],
  [{ url: 1 }, 'url'],
  [{ url: 'https://example.com', colour: 'red' }, 'colour'],
  [{ url: 'https://example.com', events: [] }, 'events'],
  [{ url: 'https://example.com', events: 'all' }, 'events'],
  [{ url: 'https://example.com', version: '3' }, 'version'],
  ['{"url":', undefined],
  ['[]', undefined],
])('a body such as %j is 400', async (body, field) => {
  const { ask } = faceWith({})
  const answer = await ask('PUT', '/webhook', body)
  expect(answer.status).toBe(400)
  if (field !== undefined) expect(String(answer.body['field'])).toMatch(new RegExp(`^${field}`))
})

test('a URL that may not be is 400 with the reason; no endpoint is 404; a state that does not allow it 409', async () => {
  const { ask } = faceWith({
    set: () => Promise.resolve(refuse('invalid_request', '"url" must begin with https://.', { field: 'url' })),
    rotate: () => Promise.resolve(refuse('not_found', 'none')),
    promote: () => Promise.resolve(refuse('conflict', 'not rotating')),
    test: () => Promise.resolve(refuse('too_many_attempts', 'wait', { retryAfterSeconds: 1 })),
  })
  expect(await ask('PUT', '/webhook', { url: 'http://example.com' })).toMatchObject({
    status: 400,
    body: { field: 'url' },
  })
  expect(await ask('POST', '/webhook/rotate')).toMatchObject({ status: 404, body: { code: 'not_found' } })
  expect(await ask('POST', '/webhook/promote')).toMatchObject({ status: 409, body: { code: 'conflict' } })
  expect(await ask('POST', '/webhook/test')).toMatchObject({ status: 429, headers: { 'retry-after': '1' } })
})

test('a body beyond 64 KB is 413', async () => {
  const { ask } = faceWith({})
  expect((await ask('PUT', '/webhook', { url: 'x'.repeat(70_000) })).status).toBe(413)
})

test('events are sent again by id or by time, and by nothing in between', async () => {
  const { ask, calls } = faceWith({
    replayEvent: () => Promise.resolve({ replayed: 1 }),
    replayRange: () => Promise.resolve({ replayed: 7 }),
  })
  expect(await ask('POST', '/webhook/replay', { eventId: eventId.toUpperCase() })).toMatchObject({
    body: { replayed: 1 },
  })
  const [from, to] = ['2026-11-20T00:00:00Z', '2026-11-21T00:00:00Z']
  expect(await ask('POST', '/webhook/replay', { from, to })).toMatchObject({ status: 200, body: { replayed: 7 } })
  expect(calls).toEqual([
    ['replayEvent', workspaceId, eventId, expect.stringMatching(/^key:/)],
    [
      'replayRange',
      workspaceId,
      { from: new Date(from), to: new Date(to), undelivered: false },
      expect.stringMatching(/^key:/),
    ],
  ])
  for (const wrong of [{}, { from }, { to }, { eventId, from }, { eventId: 'x' }, { from: 'yesterday', to }])
    expect((await ask('POST', '/webhook/replay', wrong)).status).toBe(400)
})

test('the log and the events come in pages', async () => {
  const { ask, calls } = faceWith(
    {
      log: () => Promise.resolve({ items: [{ id: eventId } as never], next: 'more' }),
      event: () => Promise.resolve({ id: eventId } as never),
    },
    { catchUp: (_workspace, after, limit) => Promise.resolve({ events: [{ after, limit }], next: 'n', more: true }) },
  )
  expect(await ask('GET', '/webhook/events?after=abc&limit=5')).toMatchObject({
    body: { events: [{ id: eventId }], next: 'more' },
  })
  const wanted = { state: 'failed', type: 'message.sent', messageId: eventId }
  const query = new URLSearchParams({ ...wanted, messageId: eventId.toUpperCase() }).toString()
  await ask('GET', `/webhook/events?${query}`)
  expect(calls).toEqual([
    ['log', workspaceId, 'abc', 5, {}],
    ['log', workspaceId, undefined, undefined, wanted],
  ])
  for (const [query, field] of [
    ['state=lost', 'state'],
    ['type=sent', 'type'],
    ['messageId=1', 'messageId'],
    ['colour=red', 'colour'],
  ])
    expect(await ask('GET', `/webhook/events?${query}`)).toMatchObject({ status: 400, body: { field } })
  expect(await ask('GET', `/webhook/events/${eventId}`)).toMatchObject({ status: 200 })
  expect(await ask('GET', '/webhook/events/none')).toMatchObject({ status: 400, body: { field: 'eventId' } })
  expect((await ask('GET', '/events?after=abc&limit=500')).body).toEqual({
    events: [{ after: 'abc', limit: 500 }],
    next: 'n',
    more: true,
  })
  for (const query of ['limit=0', 'limit=501', 'limit=x', 'limit=1&limit=2', 'colour=red', `after=${'x'.repeat(201)}`])
    expect((await ask('GET', `/events?${query}`)).status).toBe(400)
})
