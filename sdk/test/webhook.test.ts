// The verifier against shared vectors, whose signatures were made by another implementation (node:crypto's createHmac).
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { memorySeen, verifyWebhook, webhookHandler, WebhookVerificationError } from '../src/index.ts'
import type { WebhookEvent } from '../src/index.ts'
import { signed } from './signed.ts'

interface Vector {
  readonly name: string
  readonly secrets: readonly string[]
  /** Seconds since 1970. */
  readonly now: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly valid: boolean
  readonly mistake?: string
}
const { vectors } = JSON.parse(readFileSync(new URL('../test-vectors/webhooks.json', import.meta.url), 'utf8')) as {
  vectors: readonly Vector[]
}

describe('a webhook is believed exactly when it is genuine and fresh', () => {
  test.each(vectors.map((vector) => [vector.name, vector] as const))('%s', async (_, vector) => {
    const options = { secret: vector.secrets, headers: vector.headers, now: vector.now * 1000 }
    for (const body of [vector.body, new TextEncoder().encode(vector.body)]) {
      const verdict = await verifyWebhook({ ...options, body }).catch((error: unknown) => error)
      if (vector.mistake === undefined) expect(verdict).toEqual(JSON.parse(vector.body))
      else expect(verdict).toMatchObject({ name: 'WebhookVerificationError', mistake: vector.mistake })
    }
  })

  test('headers may come as Headers or as any record, in any case', async () => {
    const { headers, body, secrets, now } = vectors[0] as Vector
    const shouted = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]))
    const listed = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]))
    for (const source of [new Headers(headers), shouted, listed])
      expect(await verifyWebhook({ body, headers: source, secret: secrets, now: now * 1000 })).toMatchObject({
        type: 'message.delivered',
      })
  })

  test('headers that are none are a mistake of the program, and of a name with several values none is believed', async () => {
    const { headers, body, secrets, now } = vectors[0] as Vector
    const options = { body, secret: secrets, now: now * 1000 }
    for (const none of [undefined as never, null as never, 'Webhook-Id: 1' as never])
      await expect(verifyWebhook({ ...options, headers: none })).rejects.toThrow(
        new TypeError('headers must be the headers of the request'),
      )
    const twice = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value, value]]))
    await expect(verifyWebhook({ ...options, headers: twice })).rejects.toMatchObject({ mistake: 'missing_header' })
  })

  test.each(['', [], undefined, [''], 'whsec_with-a-line-end\n', [undefined as never]])(
    'a secret such as %j is a mistake of the program, not of the caller',
    async (secret) => {
      const { headers, body, now } = vectors[0] as Vector
      await expect(verifyWebhook({ body, headers, secret, now: now * 1000 })).rejects.toThrow(
        new TypeError('secret must be the whole text as shown, whsec_...'),
      )
    },
  )

  test('a tolerance that is no number lets nothing through', async () => {
    const { headers, body, secrets, now } = vectors[0] as Vector
    const later = { headers, body, secret: secrets, now: (now + 301) * 1000 }
    for (const toleranceSeconds of [Number.NaN, Number(undefined)])
      await expect(verifyWebhook({ ...later, toleranceSeconds })).rejects.toMatchObject({ mistake: 'stale_timestamp' })
  })

  test('every vector says whether it is valid, for verifiers that have no names for mistakes', () => {
    for (const { name, valid, mistake } of vectors) expect([name, valid]).toEqual([name, mistake === undefined])
    expect(vectors.filter(({ valid }) => !valid).length).toBeGreaterThan(10)
  })

  test('the body may come as bytes of any kind, and not parsed', async () => {
    const { headers, body, secrets, now } = vectors[0] as Vector
    const options = { headers, secret: secrets, now: now * 1000 }
    for (const bytes of [Buffer.from(body), await new Response(body).arrayBuffer()])
      expect(await verifyWebhook({ ...options, body: bytes })).toMatchObject({ type: 'message.delivered' })
    for (const parsed of [JSON.parse(body) as never, undefined as never])
      await expect(verifyWebhook({ ...options, body: parsed })).rejects.toThrow(/raw body/)
  })
})

describe('a handler does each event once, and has the service repeat what was not done', () => {
  const secret = 'whsec_of-this-test'
  const post = (event: object, over: Partial<RequestInit> = {}) => {
    const { headers, body } = signed(event, secret)
    return new Request('https://receiver.example/hook', { method: 'POST', headers, body, ...over })
  }
  const event = { id: crypto.randomUUID(), type: 'message.sent', data: {} }

  test('a repeated event is answered well and not done again', async () => {
    const done: WebhookEvent[] = []
    const handle = webhookHandler({ secret, onEvent: (each) => void done.push(each) })
    expect([(await handle(post(event))).status, (await handle(post(event))).status]).toEqual([204, 204])
    expect(done.map(({ id }) => id)).toEqual([event.id])
  })

  test.each(['at once', 'later'])('one whose work failed %s is asked for again, and then done', async (when) => {
    let calls = 0
    const heard: unknown[][] = []
    const away = new Error('the database is away')
    const handle = webhookHandler({
      secret,
      onEvent: () => {
        calls += 1
        if (calls > 1) return
        if (when === 'later') return Promise.reject(away)
        throw away
      },
      onError: (...given) => heard.push(given),
    })
    expect((await handle(post(event))).status).toBe(500)
    expect(heard).toEqual([[away, event]])
    expect((await handle(post(event))).status).toBe(204)
    expect(calls).toBe(2)
    expect(heard).toHaveLength(1)
  })

  // Node ends a process for a rejection that nobody handles.
  test('a report of what failed that fails, too, ends no process, and the answer waits for it', async () => {
    let reported = false
    const handle = webhookHandler({
      secret,
      onEvent: () => Promise.reject(new Error('no')),
      onError: async () => {
        await Promise.resolve()
        reported = true
        throw new Error('nobody takes reports')
      },
    })
    expect((await handle(post(event))).status).toBe(500)
    expect(reported).toBe(true)
  })

  test('a bound of bodies that is no number lets nothing in', async () => {
    const handle = webhookHandler({ secret, bodyBytesMax: Number.NaN, onEvent: () => undefined })
    expect((await handle(post(event))).status).toBe(413)
  })

  test('the same event twice at once is one piece of work, and both hear how it ended', async () => {
    let calls = 0
    const gate = Promise.withResolvers<void>()
    const handle = webhookHandler({
      secret,
      onEvent: async ({ id }) => {
        if (id !== event.id) return
        calls += 1
        await gate.promise
      },
    })
    const both = [handle(post(event)), handle(post(event))]
    // One that came after them is done: they have met.
    await handle(post({ ...event, id: crypto.randomUUID() }))
    gate.resolve()
    expect((await Promise.all(both)).map(({ status }) => status)).toEqual([204, 204])
    expect(calls).toBe(1)
  })

  test('what is forged, too large or no POST never reaches the work', async () => {
    const handle = webhookHandler({
      secret,
      bodyBytesMax: 1_000,
      onEvent: () => {
        throw new Error('reached')
      },
    })
    const answers = await Promise.all([
      handle(post(event, { body: '{}' })),
      handle(post({ ...event, data: { text: 'x'.repeat(2_000) } })),
      handle(new Request('https://receiver.example/hook')),
    ])
    expect(answers.map(({ status }) => status)).toEqual([400, 413, 405])
  })

  test('what a memory that answers later has seen is not done again, and what it has not is done', async () => {
    const table = new Set<string>()
    const seen = { has: async (id: string) => table.has(id), add: async (id: string) => void table.add(id) }
    const done: string[] = []
    const handle = webhookHandler({ secret, seen, onEvent: ({ id }) => void done.push(id) })
    for (let each = 0; each < 2; each++) expect((await handle(post(event))).status).toBe(204)
    expect(done).toEqual([event.id])
  })

  test('one that could not be remembered is not called done', async () => {
    const full = () => Promise.reject(new Error('no space left'))
    const onError = () => undefined
    const handle = webhookHandler({ secret, onEvent: () => undefined, onError, seen: { has: () => false, add: full } })
    expect((await handle(post(event))).status).toBe(500)
  })

  test('a body that comes in pieces is one body, and one that is as long as may be is not too long; none is no webhook', async () => {
    const done: string[] = []
    const { headers, body } = signed(event, secret)
    const handle = webhookHandler({ secret, onEvent: ({ id }) => void done.push(id), bodyBytesMax: body.length })
    const pieces = new Blob([body]).stream().pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform: (bytes, out) => {
          for (let at = 0; at < bytes.length; at += 20) out.enqueue(bytes.subarray(at, at + 20))
        },
      }),
    )
    const url = 'https://receiver.example/hook'
    const answer = await handle(new Request(url, { method: 'POST', headers, body: pieces, duplex: 'half' }))
    expect([answer.status, done]).toEqual([204, [event.id]])
    expect((await handle(new Request(url, { method: 'POST', headers }))).status).toBe(400)
  })

  test('the tolerance is the one that was given, and a secret that is missing is no mistake of the caller', async () => {
    const onEvent = () => undefined
    const { headers, body } = signed(event, secret, Math.floor(Date.now() / 1000) - 60)
    const old = () => new Request('https://receiver.example/hook', { method: 'POST', headers, body })
    expect((await webhookHandler({ secret, onEvent, toleranceSeconds: 30 })(old())).status).toBe(400)
    expect((await webhookHandler({ secret, onEvent })(old())).status).toBe(204)
    await expect(webhookHandler({ secret: undefined, onEvent })(old())).rejects.toThrow(TypeError)
  })

  test('a request whose body somebody has read is a mistake of the program, and says which', async () => {
    const { headers, body } = signed(event, secret)
    const request = new Request('https://receiver.example/hook', { method: 'POST', headers, body })
    await request.json()
    const handled = webhookHandler({ secret, onEvent: () => undefined })(request)
    await expect(handled).rejects.toThrow('the body of the request was read before')
  })

  test('the memory of what was seen stays within its size', () => {
    const seen = memorySeen(2)
    for (const id of ['a', 'b', 'c']) void seen.add(id)
    expect(['a', 'b', 'c'].map((id) => seen.has(id))).toEqual([false, true, true])
  })

  test('the error is one that a program can tell from others', () => {
    expect(new WebhookVerificationError('stale_timestamp', 'x')).toBeInstanceOf(Error)
  })
})
