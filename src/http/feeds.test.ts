// POST /feeds/{feedId}: the body reaches the door as it came, and each answer of the door has its status.
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import type { FeedAnswer, Feeds } from '../feeds/feeds.ts'
import { appWith, Away } from './face.test-kit.ts'

const id = '0199f1c2-0000-7000-8000-00000000000f'
const posting = (payload: string | Buffer = '{}', headers: Record<string, string> = {}, feed = id) => ({
  method: 'POST' as const,
  url: `/feeds/${feed}`,
  headers,
  payload,
})
const answering = (answer: FeedAnswer) => appWith({ feed: () => Promise.resolve(() => Promise.resolve(answer)) }).app

test('the raw body and the headers reach the door, whatever type they claim', async () => {
  const seen: unknown[] = []
  const feed: Feeds = (feedId) =>
    Promise.resolve(({ header, body }) => {
      seen.push(feedId, header('webhook-signature'), body.toString('latin1'), header('x-none'))
      return Promise.resolve({ received: 2 })
    })
  const { app } = appWith({ feed })
  const body = Buffer.from('{"a": 1}\r\n\xff', 'latin1')
  const answer = await app.inject(posting(body, { 'webhook-signature': 'v1=x', 'content-type': 'text/plain; charset=UTF-8' })) // prettier-ignore
  expect([answer.statusCode, answer.json()]).toEqual([200, { received: 2 }])
  expect(seen).toEqual([id, 'v1=x', body.toString('latin1'), undefined])
  const odd = await app.inject(posting(body, { 'content-type': 'json' }))
  expect([odd.statusCode, odd.json()]).toEqual([200, { received: 2 }])
})

test('a header that came twice is none, and no joined value', async () => {
  const seen: unknown[] = []
  const feed: Feeds = () =>
    Promise.resolve(({ header }) => {
      seen.push(header('webhook-id'), header('webhook-timestamp'))
      return Promise.resolve({ received: 0 })
    })
  const { app } = appWith({ feed })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const address = app.server.address()
  const socket = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1')
  socket.write(
    `POST /feeds/${id} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nWebhook-Id: a\r\nWebhook-Id: b\r\nWebhook-Timestamp: 1\r\n\r\n{}`,
  )
  await once(socket, 'data')
  expect(seen).toEqual([undefined, '1'])
  socket.destroy()
  await app.close()
})

test.each([
  ['signature', 401],
  ['stale', 400],
  ['replayed', 400],
  ['topic', 400],
  ['malformed', 400],
] as const)('%s is answered with %i', async (refused, status) => {
  const answer = await answering({ refused }).inject(posting())
  expect(answer.statusCode).toBe(status)
  expect(answer.json()).toEqual({
    error: expect.any(String) as string,
    code: expect.any(String) as string,
    ...(status === 400 && { field: 'body' }),
  })
})

test('what exactly is wrong is told where the feed knows it', async () => {
  const mistake = { field: 'events.3.type', words: '"events.3.type" must be one of these.' }
  const answer = await answering({ refused: 'malformed', mistake }).inject(posting())
  expect([answer.statusCode, answer.json()]).toEqual([
    400,
    { error: mistake.words, code: 'invalid_request', field: mistake.field },
  ])
})

test('no feed, no id, another method: 404', async () => {
  expect((await appWith().app.inject(posting())).statusCode).toBe(404)
  expect((await answering({ received: 0 }).inject(posting('{}', {}, 'x'))).statusCode).toBe(404)
  expect((await answering({ received: 0 }).inject({ method: 'GET', url: `/feeds/${id}` })).statusCode).toBe(404)
})

test('a feed that is none is told before its body comes: a stranger has nothing held for them', async () => {
  const { app } = appWith({ feed: () => Promise.resolve(undefined) })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const address = app.server.address()
  const socket = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1')
  socket.write(`POST /feeds/${id} HTTP/1.1\r\nHost: x\r\nContent-Length: 262144\r\n\r\n`)
  const [bytes] = (await once(socket, 'data')) as [Buffer]
  expect(bytes.toString()).toMatch(/^HTTP\/1\.1 404 /)
  socket.destroy()
  await app.close()
})

test('a body beyond the bound is 413, with and without a declared length', async () => {
  const app = answering({ received: 0 })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const address = app.server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/feeds/${id}`
  const big = Buffer.alloc(limits.feedBytesMax + 1, 'x')
  const stream = new ReadableStream({ start: (controller) => { controller.enqueue(big); controller.close() } }) // prettier-ignore
  expect((await fetch(url, { method: 'POST', body: big })).status).toBe(413)
  expect((await fetch(url, { method: 'POST', body: stream, duplex: 'half' })).status).toBe(413)
  expect((await fetch(url, { method: 'POST', body: big.subarray(1) })).status).toBe(200)
  await app.close()
})

test('while the database is away the provider is asked to come again', async () => {
  const { app } = appWith({ feed: () => Promise.reject(new Away()) })
  expect((await app.inject(posting())).statusCode).toBe(503)
})
