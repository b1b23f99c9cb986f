// The client against the real service, and against a line that breaks: whatever goes wrong in between, there is one message.
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, request as forward } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { startPosthorn, type Posthorn as Service } from '../../test/world/posthorn.ts'
import type { JourneyWorkspace } from '../../test/world/journey-workspace.ts'
import { Posthorn, PosthornApiError, PosthornConnectionError, PosthornWaitError } from '../src/index.ts'

let service: Service
let shop: JourneyWorkspace
let posthorn: Posthorn
beforeAll(async () => {
  service = await startPosthorn()
  shop = await service.workspace()
  posthorn = new Posthorn({ baseUrl: service.url, apiKey: shop.key })
})
afterAll(() => service.remove())

const message = (recipient = 'delivered@simulator.posthorn.test') => shop.body({ recipient })
const kept = async (recipient: string) =>
  (await service.query<{ id: string }>('select id from messages where recipient = $1', [recipient])).length

test('a message is sent, waited for and reported as delivered', async () => {
  const sent = await posthorn.send({ ...message(), metadata: { order: '1042' } })
  expect(sent).toMatchObject({ status: 'queued', message: { id: sent.id, metadata: { order: '1042' } } })
  const outcome = await posthorn.waitForOutcome(sent.id, { until: 'reported' })
  expect(outcome).toMatchObject({ processingStatus: 'sent', deliveryStatus: 'delivered' })
  expect(outcome.events.map(({ eventType }) => eventType)).toEqual(['delivered'])
})

const stored = async ({ id }: { id: string }) =>
  (
    await service.query<{ hex: string }>(
      `select encode(b.bytes, 'hex') hex from attachments a join blobs b on b.id = a.blob_id where a.message_id = $1`,
      [id],
    )
  )[0]?.hex

test('files go as bytes, of any size and content', async () => {
  const content = Uint8Array.from({ length: 100_001 }, (_, at) => (at * 7) % 256)
  const { id } = await posthorn.send({ ...message(), attachments: [{ filename: 'a.bin', content }] })
  const [stored] = await service.query<{ sha: string }>(
    `select encode(sha256(string_agg(b.bytes, '' order by b.part)), 'hex') sha
       from attachments a join blobs b on b.id = a.blob_id where a.message_id = $1`,
    [id],
  )
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', content))
  expect(stored?.sha).toBe(Buffer.from(digest).toString('hex'))
})

test('a file in another wrapping of bytes arrives whole, and what is no bytes is never sent as an empty file', async () => {
  const words = Uint16Array.of(0x100, 0x2f6, 3)
  const bytes = Buffer.from(words.buffer)
  for (const content of [words.buffer, words, new DataView(words.buffer), bytes])
    expect(await stored(await posthorn.send({ ...message(), attachments: [{ filename: 'a.bin', content }] }))).toBe(
      bytes.toString('hex'),
    )
  for (const content of [new Blob(['abc']), Readable.from(['abc']), 'abc', bytes.toJSON(), [1, 2], 7, null, undefined])
    await expect(
      posthorn.send({ ...message(), attachments: [{ filename: 'a.bin', content: content as never }] }),
    ).rejects.toThrow(/^attachments\.0\.content must be the bytes of the file; .*contentBase64$/)
})

describe('no is an error that says why', () => {
  test('of the request', async () => {
    const error = await posthorn.send(message('nobody')).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(PosthornApiError)
    expect(error).toMatchObject({ status: 400, code: 'invalid_request', field: 'recipient', isTransient: false })
    expect(error).toHaveProperty('requestId')
  })

  test('of the key, which is not told to anybody else', async () => {
    const stranger = new Posthorn({ baseUrl: service.url, apiKey: 'ph_wrong' })
    const error = await stranger.status(crypto.randomUUID()).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ status: 401, code: 'invalid_api_key' })
    expect(JSON.stringify(error) + String((error as Error).stack)).not.toContain('ph_wrong')
  })

  test('of a limit that lasts longer than one waits for', async () => {
    const small = await service.workspace({ plan: { hourly: 1 } })
    const client = new Posthorn({ baseUrl: service.url, apiKey: small.key })
    const one = small.body({ recipient: 'delivered@simulator.posthorn.test' })
    await client.send(one)
    const error = await client.send(one).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ status: 429, code: 'hourly_limit_reached', isTransient: true })
    expect((error as PosthornApiError).retryAfterSeconds).toBeGreaterThan(20)
  })

  test.each([
    ['7', 7],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
    ['1970-01-01T00:00:00Z', 0],
    ['5 or so', undefined],
  ])('for as long as a proxy before the service says in its own way (%s)', async (retryAfter, seconds) => {
    const fetch = () => Promise.resolve(new Response('busy', { status: 503, headers: { 'retry-after': retryAfter } }))
    const client = new Posthorn({ baseUrl: service.url, apiKey: shop.key, retriesMax: 0, fetch })
    const error = await client.status(crypto.randomUUID()).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(PosthornApiError)
    expect((error as PosthornApiError).retryAfterSeconds).toBe(seconds)
  })

  test('of an address or a key that cannot be one', () => {
    expect(() => new Posthorn({ baseUrl: 'mail', apiKey: 'ph_x' })).toThrow(/baseUrl/)
    expect(() => new Posthorn({ baseUrl: 'mail:3000', apiKey: 'ph_x' })).toThrow(/baseUrl/)
    for (const apiKey of ['ph_x\n', '', undefined])
      expect(() => new Posthorn({ baseUrl: service.url, apiKey })).toThrow(/apiKey/)
  })

  test('of an idempotency key that cannot be one: at once, and not as a line that breaks', async () => {
    const line = await brokenLine(service.url, [])
    const client = new Posthorn({ baseUrl: line.url, apiKey: shop.key })
    for (const idempotencyKey of ['', 'two words', 'Schlüssel', 'line\n', 'x'.repeat(256)])
      await expect(client.send(message(), { idempotencyKey })).rejects.toThrow(TypeError)
    expect(line.asked()).toBe(0)
    line.close()
  })
})

test('who asks for a longer wait than a timer holds is asked again behind it, and not at once', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    let asked = 0
    const days = 30
    const fetch = () => {
      asked += 1
      const headers = { 'retry-after': String(days * 86_400) }
      return Promise.resolve(asked === 1 ? new Response('', { status: 429, headers }) : Response.json({ events: [] }))
    }
    const client = new Posthorn({ baseUrl: service.url, apiKey: shop.key, retryAfterMsMax: Infinity, fetch })
    const page = client.eventPages().next()
    await vi.advanceTimersByTimeAsync(days * 86_400_000 - 1)
    expect(asked).toBe(1)
    await vi.advanceTimersByTimeAsync(1)
    expect(asked).toBe(2)
    await page
  } finally {
    vi.useRealTimers()
  }
})

test('requests go to the service, also where its address ends with a query or a fragment that is empty', async () => {
  for (const end of ['?', '/?', '#', '/api/v1/?#']) {
    const fetch = (asked: unknown) => Promise.resolve(Response.json({ processingStatus: asked }))
    const client = new Posthorn({ baseUrl: `${service.url}${end}`, apiKey: shop.key, fetch })
    expect((await client.status('x')).processingStatus).toBe(`${service.url}/api/v1/messages/x`)
  }
})

test('what was reported of an earlier try is no outcome while the next one is under way', async () => {
  const { id } = await posthorn.send(message('delivered+waits@simulator.posthorn.test'))
  const sent = await posthorn.waitForOutcome(id, { until: 'reported' })
  const states = [
    { ...sent, processingStatus: 'retrying', deliveryStatus: 'soft_bounce' },
    { ...sent, processingStatus: 'sending', deliveryStatus: 'soft_bounce' },
    sent,
  ]
  const client = new Posthorn({
    baseUrl: service.url,
    apiKey: shop.key,
    fetch: () => Promise.resolve(Response.json(states.length > 1 ? states.shift() : states[0])),
  })
  expect(await client.waitForOutcome(id, { until: 'reported' })).toEqual(sent)
})

test('waiting ends in time with the last status', async () => {
  const { id } = await posthorn.send(message('slow@simulator.posthorn.test'))
  const error = await posthorn.waitForOutcome(id, { timeoutMs: 1 }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(PosthornWaitError)
  expect((error as PosthornWaitError).status.message.id).toBe(id)
})

test('waiting that is called off ends with the reason of the caller, also where the time is over meanwhile', async () => {
  const sent = await posthorn.send(message('delivered+called-off@simulator.posthorn.test'))
  const pending = { ...(await posthorn.status(sent.id)), processingStatus: 'queued' }
  const [late, caller, reason] = [new AbortController(), new AbortController(), new Error('not needed any more')]
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(late.signal)
  let looks = 0
  const fetch = () => {
    looks += 1
    if (looks === 1) return Promise.resolve(Response.json(pending))
    caller.abort(reason)
    late.abort()
    return Promise.reject(new Error('aborted'))
  }
  const client = new Posthorn({ baseUrl: service.url, apiKey: shop.key, fetch })
  const told = await client.waitForOutcome(sent.id, { signal: caller.signal }).catch((thrown: unknown) => thrown)
  timeout.mockRestore()
  expect(told).toBe(reason)
})

describe('over a line that breaks', () => {
  test('an answer that is lost is asked for again, and there is one message', async () => {
    const line = await brokenLine(service.url, ['lose', 'lose', 'pass'])
    const recipient = 'delivered+lost@simulator.posthorn.test'
    const client = new Posthorn({ baseUrl: line.url, apiKey: shop.key })
    const { id } = await client.send(message(recipient))
    expect((await posthorn.status(id)).message.recipient).toBe(recipient)
    expect(await kept(recipient)).toBe(1)
    expect(new Set(line.keys).size).toBe(1)
    expect(line.keys).toHaveLength(3)
    line.close()
  })

  test('503 is tried again after what the service asks for', async () => {
    const line = await brokenLine(service.url, ['503', 'pass'])
    const recipient = 'delivered+busy@simulator.posthorn.test'
    await new Posthorn({ baseUrl: line.url, apiKey: shop.key }).send(message(recipient))
    expect(await kept(recipient)).toBe(1)
    expect(line.keys).toHaveLength(2)
    line.close()
  })

  test('when nobody ever answers, the error carries the key with which the send may be repeated', async () => {
    const line = await brokenLine(service.url, ['lose', 'lose', 'pass'])
    const recipient = 'delivered+later@simulator.posthorn.test'
    const client = new Posthorn({ baseUrl: line.url, apiKey: shop.key, retriesMax: 1 })
    const error = await client.send(message(recipient)).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(PosthornConnectionError)
    const { idempotencyKey } = error as PosthornConnectionError
    await client.send(message(recipient), { idempotencyKey })
    expect(await kept(recipient)).toBe(1)
    line.close()
  })

  test('why nobody was reached stands in the words of the error', async () => {
    const nobody = createServer().listen(0, '127.0.0.1')
    await once(nobody, 'listening')
    const { port } = nobody.address() as AddressInfo
    nobody.close()
    await once(nobody, 'close')
    const said = async (baseUrl: string) => {
      const client = new Posthorn({ baseUrl, apiKey: shop.key, retriesMax: 0 })
      return String(await client.status(crypto.randomUUID()).catch((thrown: unknown) => thrown))
    }
    expect(await said(`http://127.0.0.1:${port}`)).toMatch(/could not be reached.*ECONNREFUSED/)
    expect(await said(`http://localhost:${port}`)).toMatch(/could not be reached.*ECONNREFUSED/)
    expect(await said(service.url.replace('http:', 'https:'))).toMatch(/could not be reached.*(?:SSL|packet|version)/i)
  })

  test('a request that is called off is not repeated', async () => {
    const line = await brokenLine(service.url, ['lose', 'lose', 'lose', 'lose', 'lose'])
    const client = new Posthorn({ baseUrl: line.url, apiKey: shop.key })
    const reason = new Error('not needed any more')
    const caller = new AbortController()
    const status = client.status(crypto.randomUUID(), { signal: caller.signal }).catch((thrown: unknown) => thrown)
    await line.lost
    caller.abort(reason)
    expect(await status).toBe(reason)
    expect(line.asked()).toBe(1)
    line.close()
  })
})

test('compilers and loaders that do not read exports find the same files: TypeScript that makes CommonJS, above all', () => {
  const { main, types, exports } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
    main: string
    types: string
    exports: { '.': object }
  }
  expect(exports).toEqual({ '.': { types, default: main } })
})

test('the package that is published works in plain JavaScript, without anything of ours beside it', async () => {
  const run = promisify(execFile)
  const sdk = fileURLToPath(new URL('..', import.meta.url))
  const folder = mkdtempSync(join(sdk, '.build-'))
  try {
    await run(process.execPath, [
      join(sdk, '../node_modules/typescript/bin/tsc'),
      '-p',
      join(sdk, 'tsconfig.build.json'),
      '--outDir',
      folder,
    ])
    const program = `import { Posthorn } from './index.js'
      const posthorn = new Posthorn({ baseUrl: ${JSON.stringify(service.url)}, apiKey: ${JSON.stringify(shop.key)} })
      const { id } = await posthorn.send(${JSON.stringify(message())})
      console.log((await posthorn.waitForOutcome(id)).processingStatus)`
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], { cwd: folder })
    expect(stdout).toBe('sent\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

type Step = 'lose' | '503' | 'pass'

interface BrokenLine {
  readonly url: string
  /** The idempotency keys of all requests, in order. */
  readonly keys: string[]
  /** Resolves when the first answer was lost. */
  readonly lost: Promise<void>
  asked(): number
  close(): void
}

/** A line to the service that loses answers (the service has done its work), or answers in its place, one step a request. */
async function brokenLine(target: string, steps: readonly Step[]): Promise<BrokenLine> {
  const keys: string[] = []
  let asked = 0
  const firstLost = Promise.withResolvers<void>()
  const carry = async (request: IncomingMessage, response: ServerResponse) => {
    const step = steps[asked++] ?? 'pass'
    const key = request.headers['idempotency-key']
    if (typeof key === 'string') keys.push(key)
    if (step === '503') return response.writeHead(503, { 'retry-after': '0' }).end('<html>busy</html>')
    const onward = forward(target + (request.url ?? ''), { method: request.method, headers: request.headers })
    request.pipe(onward)
    const [answer] = (await once(onward, 'response')) as [IncomingMessage]
    if (step === 'pass') return answer.pipe(response.writeHead(answer.statusCode ?? 500, answer.headers))
    answer.resume()
    await once(answer, 'end')
    response.destroy()
    firstLost.resolve()
  }
  const server = createServer((request, response) => void carry(request, response).catch(() => response.destroy()))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    keys,
    lost: firstLost.promise,
    asked: () => asked,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
