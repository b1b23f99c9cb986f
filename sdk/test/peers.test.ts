// The client against whatever else may answer at an address: proxies, strangers, and lines that say nothing.
import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getEventListeners, once } from 'node:events'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { effortOf } from '../../src/base/effort.test-kit.ts'
import { Posthorn, PosthornApiError, PosthornConnectionError, PosthornWaitError } from '../src/index.ts'
import type { PosthornOptions } from '../src/index.ts'

const apiKey = 'ph_of-this-test'
const mailboxId = crypto.randomUUID()
const message = { mailboxId, recipient: 'ada@example.com', subject: 'Receipt', bodyText: 'Thank you.\n' }
const id = crypto.randomUUID()
const accepted = JSON.stringify({ id, status: 'queued', message: { ...message, id, status: 'queued' } })

type Answer = (response: ServerResponse, request: IncomingMessage) => unknown
interface Asked {
  readonly key: string | undefined
  readonly body: string
  readonly atMs: number
}
let closers: (() => unknown)[] = []
afterEach(() => {
  for (const close of closers) close()
  closers = []
})

/** A peer with one answer after the other; the last one stays. */
async function peer(...answers: readonly Answer[]) {
  const asked: Asked[] = []
  const hear = async (request: IncomingMessage, response: ServerResponse) => {
    const answer = answers[Math.min(asked.length, answers.length - 1)]
    const key = request.headers['idempotency-key']
    asked.push({ key: typeof key === 'string' ? key : undefined, body: await text(request), atMs: Date.now() })
    answer?.(response, request)
  }
  const server = createServer((request, response) => void hear(request, response))
  closers.push(() => server.close().closeAllConnections())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = (options: Partial<PosthornOptions> = {}) => new Posthorn({ baseUrl, apiKey, ...options })
  return { asked, baseUrl, client }
}
const says =
  (status: number, body = '', headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) =>
    response.writeHead(status, headers).end(body)
/** Also on a machine that does much else. */
const until = (holds: () => boolean) => vi.waitUntil(holds, { timeout: 60_000, interval: 2 })
const thrownBy = (promise: Promise<unknown>) => promise.then(() => undefined).catch((error: unknown) => error)

test('a message that was kept is sent again with the same bytes, in whatever order its members come back', async () => {
  const { asked, client } = await peer(says(202, accepted))
  const content = Uint8Array.of(1, 2, 3)
  await client().send(
    { ...message, metadata: { order: '1', customer: '2' }, attachments: [{ filename: 'a.bin', content }] },
    { idempotencyKey: 'order-1' },
  )
  const { bodyText, subject, ...rest } = message
  await client().send(
    {
      attachments: [{ contentBase64: 'AQID', filename: 'a.bin' }],
      metadata: { customer: '2', order: '1' },
      bodyText,
      subject,
      ...rest,
    },
    { idempotencyKey: 'order-1' },
  )
  expect(asked).toHaveLength(2)
  expect(asked[1]?.body).toBe(asked[0]?.body)
})

describe('a large file', () => {
  afterEach(() => void vi.unstubAllGlobals())
  const content = Uint8Array.from({ length: 4_000_001 }, (_, at) => (at * 7) % 256).subarray(1)
  const expected = Buffer.from(content).toString('base64')
  const whileNobodyAnswers = { retriesMax: 0, fetch: () => Promise.reject(new Error('away')) }

  // Base64 is written at once: what else the program does waits for it.
  test('does not hold up the program that sends it', async () => {
    const { client } = await peer()
    const send = () =>
      void thrownBy(client(whileNobodyAnswers).send({ ...message, attachments: [{ filename: 'a', content }] }))
    expect(effortOf(send)).toBeLessThan(5 * effortOf(() => JSON.stringify(expected)) + 20)
  })

  test.each(['the platform has no Buffer', 'it has'])('arrives whole where %s', async (which) => {
    if (which !== 'it has') vi.stubGlobal('Buffer', undefined)
    let body = ''
    const fetch = (_: unknown, init?: RequestInit) => {
      body = init?.body as string
      return Promise.reject(new Error('away'))
    }
    const posthorn = new Posthorn({ baseUrl: 'http://localhost', apiKey, retriesMax: 0, fetch })
    await thrownBy(posthorn.send({ ...message, attachments: [{ filename: 'a', content }] }))
    const sent = JSON.parse(body) as { attachments: { contentBase64: string }[] }
    expect(sent.attachments[0]?.contentBase64 === expected).toBe(true)
  })
})

describe('what is no answer of Posthorn is no success', () => {
  test.each(['{}', 'null', '[]', '"ok"', '<html>Welcome to the hotel</html>', ''])('%s', async (body) => {
    const { asked, client } = await peer(says(200, body))
    const error = await thrownBy(client({ retriesMax: 1 }).send(message))
    expect(error).toBeInstanceOf(PosthornConnectionError)
    expect(error).toMatchObject({ idempotencyKey: asked[0]?.key, message: expect.stringContaining('200') as string })
    expect(asked).toHaveLength(2)
    expect(asked[1]).toMatchObject({ key: asked[0]?.key, body: asked[0]?.body })
    await expect(client({ retriesMax: 0 }).status(id)).rejects.toBeInstanceOf(PosthornConnectionError)
    await expect(client({ retriesMax: 0 }).eventPages().next()).rejects.toBeInstanceOf(PosthornConnectionError)
  })
})

test('a redirect is told as what it is, at once, and not followed with the key', async () => {
  const other = await peer(says(202, accepted))
  const { asked, client } = await peer(says(301, '', { location: `${other.baseUrl}/api/v1/send` }))
  const error = await thrownBy(client().send(message))
  expect(error).toBeInstanceOf(PosthornApiError)
  expect(error).toMatchObject({ status: 301, isTransient: false })
  expect((error as Error).message).toContain(`${other.baseUrl}/api/v1/send`)
  expect([asked.length, other.asked.length]).toEqual([1, 0])
})

describe('pauses that were asked for', () => {
  test('a date is a Retry-After as well as seconds are', async () => {
    const atMs = Math.ceil(Date.now() / 1000) * 1000 + 2_000
    const { asked, client } = await peer(
      says(503, 'busy', { 'retry-after': new Date(atMs).toUTCString() }),
      says(202, accepted),
    )
    await client().send(message)
    expect(asked[1]?.atMs).toBeGreaterThanOrEqual(atMs)
  })

  test('a date that is far off is not waited for but told', async () => {
    const retryAfter = new Date(Date.now() + 3_600_000).toUTCString()
    const { asked, client } = await peer(says(429, '{"error":"x"}', { 'retry-after': retryAfter }))
    const error = (await thrownBy(client().send(message))) as PosthornApiError
    expect(error.retryAfterSeconds).toBeGreaterThan(3_590)
    expect(error.retryAfterSeconds).toBeLessThanOrEqual(3_600)
    expect(asked).toHaveLength(1)
  })

  test.each(['soon', '', '-1', 'Sun, 06 Nov 1994 08:49:37 GMT'])('%j does not stop the repeat', async (retryAfter) => {
    const { asked, client } = await peer(says(503, 'busy', { 'retry-after': retryAfter }), says(202, accepted))
    await client().send(message)
    expect(asked).toHaveLength(2)
  })

  test('a request that came too slowly, or over a connection that a proxy had given up, is made again', async () => {
    const { asked, client } = await peer(says(408), says(202, accepted))
    await client().send(message)
    expect(asked).toHaveLength(2)
    expect(asked[1]).toMatchObject({ key: asked[0]?.key, body: asked[0]?.body })
  })
})

describe('a send that is called off may have been accepted: the error carries the key', () => {
  test.each(['while nobody answers', 'while it waits for the next try'])('%s', async (when) => {
    const caller = new AbortController()
    const reason = new Error('not needed any more')
    const stop = () => setImmediate(() => caller.abort(reason))
    const { asked, client } = await peer((response) => {
      if (when === 'while nobody answers') return stop()
      response.writeHead(503, { 'retry-after': '3600' }).end('busy', stop)
    })
    const sending = client({ retryAfterMsMax: Infinity }).send(message, { signal: caller.signal })
    const error = await thrownBy(sending)
    expect(error).toBeInstanceOf(PosthornConnectionError)
    expect(error).toMatchObject({ cause: reason, idempotencyKey: asked[0]?.key })
    expect(asked).toHaveLength(1)
  })

  test('but before it began nothing was sent, and there is nothing to repeat', async () => {
    const { asked, client } = await peer(says(202, accepted))
    const reason = new Error('too late')
    expect(await thrownBy(client().send(message, { signal: AbortSignal.abort(reason) }))).toBe(reason)
    expect(asked).toHaveLength(0)
  })
})

test('waiting for an outcome ends in time, also where the service does not answer any more', async () => {
  const status = { message: { ...message, id }, processingStatus: 'sending', deliveryStatus: 'pending', events: [] }
  const { client } = await peer(says(200, JSON.stringify(status)), () => undefined)
  const error = await thrownBy(client().waitForOutcome(id, { timeoutMs: 300 }))
  expect(error).toBeInstanceOf(PosthornWaitError)
  expect((error as PosthornWaitError).status).toEqual(status)
})

test('a clock that is set while an outcome is waited for neither ends the waiting nor keeps it going', async () => {
  const here = Date.now
  let ahead = 0
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => here() + ahead)
  try {
    const told = (processingStatus: string) =>
      says(
        200,
        JSON.stringify({ message: { ...message, id }, processingStatus, deliveryStatus: 'pending', events: [] }),
      )
    let asked = 0
    const soon = await peer((response, request) => {
      ahead = 3600_000
      ;(++asked < 3 ? told('sending') : told('sent'))(response, request)
    })
    expect(await soon.client().waitForOutcome(id)).toMatchObject({ processingStatus: 'sent' })
    const never = await peer((response, request) => {
      ahead = -3600_000
      told('sending')(response, request)
    })
    expect(await thrownBy(never.client().waitForOutcome(id, { timeoutMs: 300 }))).toBeInstanceOf(PosthornWaitError)
  } finally {
    clock.mockRestore()
  }
})

test('times and counts need not be whole, and one that is no number, from a setting that is missing, ends nothing in endless repeats', async () => {
  const status = { message: { ...message, id }, processingStatus: 'sent', deliveryStatus: 'delivered', events: [] }
  const good = await peer(says(200, JSON.stringify(status)))
  for (const timeoutMs of [2_500.5, Infinity]) {
    expect(await good.client().waitForOutcome(id, { timeoutMs })).toEqual(status)
    expect(await good.client({ timeoutMs }).status(id)).toEqual(status)
  }
  for (const timeoutMs of [Number.NaN, 0, -1]) {
    expect(() => good.client({ timeoutMs })).toThrow(/^timeoutMs must be a number of milliseconds above 0/)
    await expect(good.client().waitForOutcome(id, { timeoutMs })).rejects.toThrow(/^timeoutMs must be/)
  }
  const busy = await peer(says(503, 'busy', { 'retry-after': '3600' }))
  await expect(busy.client({ retryAfterMsMax: Number.NaN }).send(message)).rejects.toMatchObject({ status: 503 })
  const lost = await peer((response) => response.destroy())
  const error = await thrownBy(lost.client({ retriesMax: Number.NaN }).send(message))
  expect(error).toBeInstanceOf(PosthornConnectionError)
  expect([busy.asked.length, lost.asked.length]).toEqual([1, 1])
})

describe('an address', () => {
  test.each([
    'https://ada:lovelace@mail.example.com',
    'https://lovelace@mail.example.com',
    'https://:lovelace@mail.example.com',
    'https://mail.example.com/?x=1',
    'https://mail.example.com/#x',
    'ftp://mail.example.com',
    'https://',
  ])('%s cannot be one: said at once, without what stands in it', (baseUrl) => {
    const error = (() => {
      try {
        return new Posthorn({ baseUrl, apiKey })
      } catch (thrown) {
        return thrown
      }
    })()
    expect(error).toBeInstanceOf(TypeError)
    expect((error as Error).message).toMatch(/baseUrl/)
    expect((error as Error).message).not.toContain('lovelace')
  })

  test('may have white space around it, as files and settings bring it along, and a path', async () => {
    const { baseUrl, client } = await peer((response, { url }) =>
      response.end(url === '/mail/api/v1/send' ? accepted : ''),
    )
    for (const given of [` ${baseUrl}/mail`, `${baseUrl}/mail// `, `${baseUrl}/mail\n`])
      expect(await client({ baseUrl: given, retriesMax: 0 }).send(message)).toMatchObject({ id })
  })
})

test('the address of the API, as the start of Posthorn prints it, is where the service is', async () => {
  const urls: (string | undefined)[] = []
  const { baseUrl, client } = await peer((response, { url }) => {
    urls.push(url)
    response.end(accepted)
  })
  for (const given of ['/api/v1', '/api/v1/', '//api/v1//', '/mail/api/v1'])
    expect(await client({ baseUrl: baseUrl + given }).send(message)).toMatchObject({ id })
  expect(urls).toEqual(['/api/v1/send', '/api/v1/send', '/api/v1/send', '/mail/api/v1/send'])
})

describe('what cannot be right is said at once, in words of ours', () => {
  const posthorn = new Posthorn({
    baseUrl: 'https://mail.example.com',
    apiKey,
    fetch: () => Promise.reject(new Error('asked')),
    retriesMax: 0,
  })
  const itself: Record<string, unknown> = {}
  itself['self'] = itself
  test.each([
    ['no options', () => new Posthorn(undefined as never), /^new Posthorn takes \{ baseUrl, apiKey \}$/],
    ['a key that is no text', () => new Posthorn({ baseUrl: 'https://a.example', apiKey: null as never }), /^apiKey /],
    ['no message', () => posthorn.send(undefined as never), /^send takes a message: \{ mailboxId, /],
    ['metadata that hold themselves', () => posthorn.send({ ...message, metadata: itself as never }), /holds itself/],
    ['a BigInt', () => posthorn.send({ ...message, metadata: { order: 1n as never } }), /BigInt; metadata must be/],
    ['a date that is none', () => posthorn.send({ ...message, expiresAt: new Date('tomorrow') }), /^expiresAt is an/],
    ['one file in place of a list', () => posthorn.send({ ...message, attachments: {} as never }), /^attachments must/],
    ['a file that is none', () => posthorn.send({ ...message, attachments: [null as never] }), /^attachments\.0 must/],
    [
      'an outcome that is none',
      () => posthorn.waitForOutcome(id, { until: 'delivered' as never }),
      /^until must be 'p/,
    ],
    ['no id', () => posthorn.status(undefined as never), /^messageId must be/],
  ])('%s', async (_, act, words) => {
    const error = await thrownBy((async () => act())())
    expect(error).toBeInstanceOf(TypeError)
    expect((error as Error).message).toMatch(words)
  })
})

describe('how often, and how long in between', () => {
  test.each([
    [400, '{}'],
    [404, '<html>nothing here</html>'],
    [409, '{"code":"idempotency_key_reused"}'],
    [428, '{}'],
    [499, '{}'],
  ])('%i %s says that the same request fails again: it is not repeated', async (status, body) => {
    const { asked, client } = await peer(says(status, body), says(202, accepted))
    expect(await thrownBy(client().send(message))).toMatchObject({ status, isTransient: false })
    expect(asked).toHaveLength(1)
  })

  test('one that is still in progress is asked for again', async () => {
    const { asked, client } = await peer(says(409, '{"code":"idempotency_in_progress"}'), says(202, accepted))
    expect(await client().send(message)).toMatchObject({ id })
    expect(asked).toHaveLength(2)
  })

  test.each([
    [{ retriesMax: 0 }, 1],
    [{ retriesMax: 2 }, 3],
    [{}, 5],
  ])('%j: %i requests, ever further apart', async (options, times) => {
    const { asked, client } = await peer(says(500))
    expect(await thrownBy(client(options).send(message))).toMatchObject({ status: 500, isTransient: true })
    expect(asked).toHaveLength(times)
    for (const [at, { atMs }] of asked.slice(1).entries()) {
      const waitedMs = atMs - (asked[at]?.atMs ?? 0)
      expect(waitedMs).toBeGreaterThanOrEqual(Math.floor(250 * 2 ** at * 0.75) - 1)
      expect(waitedMs).toBeLessThan(250 * 2 ** at * 1.25 + 1_000)
    }
  })

  test('as the service asks, and not at all where that is longer than one waits', async () => {
    const busy = await peer(says(503, '', { 'retry-after': '1' }), says(202, accepted))
    await busy.client({ retryAfterMsMax: 1_000 }).send(message)
    expect((busy.asked[1]?.atMs ?? 0) - (busy.asked[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(999)
    const longer = await peer(says(503, '', { 'retry-after': '21' }))
    expect(await thrownBy(longer.client().send(message))).toMatchObject({ retryAfterSeconds: 21 })
    expect(longer.asked).toHaveLength(1)
  })
})

test('an error has what the service said, and only what can be that', async () => {
  const said = { error: 'No.', code: 'upgrade_required', field: 'f', upgradeUrl: 'https://u.example' }
  const { client } = await peer(
    says(402, JSON.stringify({ ...said, more: 1 }), { 'x-request-id': 'r-1' }),
    says(402, '{"error":7,"code":{}}'),
  )
  const { error, ...members } = said
  const told = await thrownBy(client().send(message, { idempotencyKey: 'order-7' }))
  expect(told).toMatchObject({ message: error, status: 402, requestId: 'r-1', idempotencyKey: 'order-7', ...members })
  expect(told).not.toHaveProperty('more')
  const odd = (await thrownBy(client().send(message))) as PosthornApiError
  expect([odd.message, odd.code, odd.requestId]).toEqual(['Posthorn answered 402.', undefined, undefined])
})

test('that nobody answered in time is said, with the time', async () => {
  const { baseUrl, client } = await peer(() => undefined)
  const error = await thrownBy(client({ timeoutMs: 50, retriesMax: 0 }).send(message, { idempotencyKey: 'order-7' }))
  expect(error).toBeInstanceOf(PosthornConnectionError)
  expect(error).toMatchObject({
    message: `Posthorn at ${baseUrl} did not answer within 50 ms.`,
    cause: expect.objectContaining({ name: 'TimeoutError' }) as object,
    idempotencyKey: 'order-7',
  })
})

test.each([
  ['processed', 'retrying', 'soft_bounce', 2],
  ['processed', 'sent', 'pending', 1],
  ['processed', 'delivery_unknown', 'pending', 1],
  ['reported', 'sent', 'pending', 2],
  ['reported', 'delivery_unknown', 'pending', 2],
  ['reported', 'delivery_unknown', 'hard_bounce', 1],
  ['reported', 'failed', 'pending', 1],
] as const)(
  'waiting until %s: after %s and %s it looks %i times',
  async (until, processingStatus, deliveryStatus, n) => {
    const told = (state: object) => says(200, JSON.stringify({ message: { ...message, id }, events: [], ...state }))
    const { asked, client } = await peer(
      told({ processingStatus, deliveryStatus }),
      told({ processingStatus: 'sent', deliveryStatus: 'delivered' }),
    )
    await client().waitForOutcome(id, { until })
    expect(asked).toHaveLength(n)
  },
)

test('where even the first look fails there is no status to tell: the error is that of the look', async () => {
  const { client } = await peer(() => undefined)
  const look = client({ timeoutMs: 50, retriesMax: 0 }).waitForOutcome(id, { timeoutMs: 1 })
  expect(await thrownBy(look)).toBeInstanceOf(PosthornConnectionError)
})

test('all pages of events are read, each behind the one before, until there are no more', async () => {
  const urls: (string | undefined)[] = []
  const pages = [
    { events: [{ id: 1 }, { id: 2 }], next: 'a' },
    { events: [{ id: 3 }], next: 'b c' },
    { events: [], next: 'b c' },
  ]
  const { client } = await peer((response, { url }) => {
    urls.push(url)
    response.end(JSON.stringify(pages[Math.min(urls.length, pages.length) - 1]))
  })
  const read: string[] = []
  for await (const { next } of client().eventPages({ limit: 2 })) read.push(next)
  for await (const { next } of client().eventPages({ after: 'z' })) read.push(next)
  expect(read).toEqual(['a', 'b c'])
  expect(urls).toEqual(
    ['?limit=2', '?after=a&limit=2', '?after=b+c&limit=2', '?after=z'].map((q) => `/api/v1/events${q}`),
  )
})

describe('whoever calls off a question hears his own reason, at once', () => {
  const reason = new Error('not needed any more')
  const sending = { message: { ...message, id }, processingStatus: 'sending', deliveryStatus: 'pending', events: [] }

  test.each([
    ['a status', (client: Posthorn, signal: AbortSignal) => client.status(id, { signal })],
    ['events', (client: Posthorn, signal: AbortSignal) => client.eventPages({ signal }).next()],
  ])('%s, also where nothing is tried again', async (_, ask) => {
    const caller = new AbortController()
    const { client } = await peer(() => caller.abort(reason))
    expect(await thrownBy(ask(client({ retriesMax: 0 }), caller.signal))).toBe(reason)
  })

  test('an outcome, while a later look is under way', async () => {
    const caller = new AbortController()
    const { client } = await peer(says(200, JSON.stringify(sending)), () => caller.abort(reason))
    const waiting = client().waitForOutcome(id, { signal: caller.signal, timeoutMs: Infinity })
    expect(await thrownBy(waiting)).toBe(reason)
  })

  test('an outcome, between two looks', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const caller = new AbortController()
      const { client } = await peer(says(200, JSON.stringify(sending)))
      const waiting = thrownBy(client().waitForOutcome(id, { signal: caller.signal }))
      await vi.waitUntil(() => vi.getTimerCount() > 0)
      caller.abort(reason)
      expect(await waiting).toBe(reason)
    } finally {
      vi.useRealTimers()
    }
  })
})

test('requests leave nothing behind at a signal that lives as long as the program', async () => {
  const program = `import { Posthorn } from ${JSON.stringify(new URL('../src/index.ts', import.meta.url).href)}
    const fetch = () => Promise.resolve(Response.json({ processingStatus: 'sending' }))
    const client = new Posthorn({ baseUrl: 'https://mail.example.com', apiKey: 'ph_x', timeoutMs: Infinity, fetch })
    const { signal } = new AbortController()
    const kept = async (requests) => {
      for (let asked = 0; asked < requests; asked += 1) await client.status('x', { signal })
      // What is taken away with a signal goes in turns of the loop.
      for (let turn = 0; turn < 5; turn += 1) {
        globalThis.gc()
        await new Promise(setImmediate)
      }
      return process.memoryUsage().heapUsed
    }
    const before = await kept(1_000)
    console.log(((await kept(10_000)) - before) / 10_000)`
  const args = ['--expose-gc', '--input-type=module', '-e', program]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  expect(Number(stdout)).toBeLessThan(150) // bytes a request
})

test('a long list may be sent at once: a hundred requests are under way, and the others wait in line for their end', async () => {
  const open: (() => void)[] = []
  const { asked, client } = await peer((response) => open.push(() => says(202, accepted)(response, response.req)))
  const posthorn = client({ retriesMax: 0, timeoutMs: Infinity })
  const caller = new AbortController()
  const reason = new Error('enough')
  const sending = Array.from({ length: 240 }, () => posthorn.send(message))
  const calledOff = thrownBy(posthorn.status(id, { signal: caller.signal }))
  sending.push(...Array.from({ length: 10 }, () => posthorn.send(message)))
  await until(() => open.length === 100)
  caller.abort(reason)
  expect(await calledOff).toBe(reason)
  // One end is one beginning, until none is left.
  for (let ends = 0; ends < 250; ends += 1) {
    const underWay = Math.min(100, 250 - ends)
    await until(() => open.length === underWay)
    expect(asked).toHaveLength(ends + underWay)
    open.shift()?.()
  }
  expect(await Promise.all(sending)).toHaveLength(250)
})

test('one signal calls off many requests at once, and bears one listener meanwhile: Node 20 warns of the eleventh', async () => {
  const caller = new AbortController()
  const { asked, client } = await peer(() => undefined)
  const posthorn = client({ timeoutMs: Infinity })
  const asking = Array.from({ length: 12 }, () => thrownBy(posthorn.status(id, { signal: caller.signal })))
  await until(() => asked.length === 12)
  expect(getEventListeners(caller.signal, 'abort')).toHaveLength(1)
  const reason = new Error('enough')
  caller.abort(reason)
  expect(new Set(await Promise.all(asking))).toEqual(new Set([reason]))
  expect(getEventListeners(caller.signal, 'abort')).toEqual([])
})

describe('waiting for an outcome', () => {
  const told = (processingStatus: string) => ({
    message: { ...message, id },
    processingStatus,
    deliveryStatus: 'pending',
    events: [],
  })

  test('looks ever more slowly, at least every five seconds, for a minute; each request may take half a minute', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const limits = vi.spyOn(AbortSignal, 'timeout')
    try {
      const looks: number[] = []
      const client = new Posthorn({
        baseUrl: 'https://mail.example.com',
        apiKey,
        fetch: () => {
          looks.push(performance.now())
          return Promise.resolve(Response.json(told('sending')))
        },
      })
      const waiting = thrownBy(client.waitForOutcome(id))
      await vi.advanceTimersByTimeAsync(60_000)
      expect(await waiting).toBeInstanceOf(PosthornWaitError)
      const pauses = looks.slice(1).map((at, n) => at - (looks[n] ?? 0))
      const expected = pauses.slice(0, -1).map((_, n) => Math.min(250 * 1.5 ** n, 5_000))
      for (const [n, ms] of expected.entries()) expect(Math.abs((pauses[n] ?? 0) - ms)).toBeLessThanOrEqual(1)
      expect(Math.abs((looks.at(-1) ?? 0) - (looks[0] ?? 0) - 60_000)).toBeLessThanOrEqual(1)
      const asked = limits.mock.calls.map(([ms]) => ms)
      expect(asked[0]).toBe(60_000)
      expect(asked.filter((_, n) => n % 2 === 1).every((ms) => ms === 30_000)).toBe(true)
      expect(asked.at(-2)).toBe(1_000) // the last look, when the time is over
    } finally {
      limits.mockRestore()
      vi.useRealTimers()
    }
  })

  test('of whatever length, the first look takes its time, and its error is told as it is', async () => {
    const limits = vi.spyOn(AbortSignal, 'timeout')
    limits.mockImplementation((ms) => (ms <= 1_000 ? AbortSignal.abort() : new AbortController().signal))
    try {
      const { client } = await peer(says(200, JSON.stringify(told('sent'))))
      expect(await client().waitForOutcome(id, { timeoutMs: 1 })).toEqual(told('sent'))
      const lost = await peer((response) => response.destroy())
      const error = await thrownBy(lost.client({ retriesMax: 0 }).waitForOutcome(id, { timeoutMs: 1 }))
      expect(error).toBeInstanceOf(PosthornConnectionError)
    } finally {
      limits.mockRestore()
    }
  })

  test('a no to a later look is told as it is', async () => {
    const { client } = await peer(says(200, JSON.stringify(told('sending'))), says(401, '{"code":"invalid_api_key"}'))
    expect(await thrownBy(client().waitForOutcome(id))).toMatchObject({ status: 401, code: 'invalid_api_key' })
  })
})

test('an id is one step of the path, whatever stands in it', async () => {
  const urls: (string | undefined)[] = []
  const { client } = await peer((response, { url }) => {
    urls.push(url)
    response.writeHead(404).end()
  })
  await thrownBy(client().status('../send?x#y'))
  expect(urls).toEqual(['/api/v1/messages/..%2Fsend%3Fx%23y'])
})

test('a name for a message may have 255 characters', async () => {
  const { asked, client } = await peer(says(202, accepted))
  await client().send(message, { idempotencyKey: 'x'.repeat(255) })
  expect(asked[0]?.key).toBe('x'.repeat(255))
})

test('the fetch of the platform is called as it asks for: of no object, and the one that is there at the time', async () => {
  const client = new Posthorn({ baseUrl: 'https://mail.example.com', apiKey })
  const receivers: unknown[] = []
  const platform = vi.spyOn(globalThis, 'fetch').mockImplementation(function (this: unknown) {
    receivers.push(this)
    return Promise.resolve(new Response(accepted, { status: 202 }))
  })
  try {
    expect(await client.send(message)).toMatchObject({ id })
    expect(receivers).toEqual([undefined])
  } finally {
    platform.mockRestore()
  }
})
