// The face on a real socket: what only bytes can show (attacks Q6, Q11, Q14, T2, and the end of a connection).
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Principal } from '../domain/submission.ts'
import type { HttpDoors } from './face.ts'
import { goodKey, optionsWith, principal, recordOf, validBody } from './face.test-kit.ts'
import { answerMalformed } from './malformed.ts'
import { httpServer } from './server.ts'
import type { HttpServer } from './server.ts'

const servers: HttpServer[] = []
const sockets: Socket[] = []
afterEach(async () => {
  vi.useRealTimers()
  for (const socket of sockets.splice(0)) socket.destroy()
  for (const server of servers.splice(0)) await server.stop()
})

async function listening(doors: Partial<HttpDoors> = {}) {
  const options = optionsWith(doors)
  const server = httpServer({ ...options, host: '127.0.0.1', port: 0 })
  servers.push(server)
  await server.start()
  return { port: server.port, seen: options }
}

/** A connection whose received text can be waited for. */
function dial(port: number) {
  const socket = connect(port, '127.0.0.1')
  sockets.push(socket)
  let text = ''
  let wake: () => void = () => undefined
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
    wake()
  })
  socket.on('error', () => undefined) // a reset is an end like another; the text says what came before
  const closed = once(socket, 'close')
  socket.once('close', () => wake())
  return {
    socket,
    text: () => text,
    /** Resolves with all text once it matches; fails when the connection closes before. */
    async until(pattern: RegExp): Promise<string> {
      while (!pattern.test(text)) {
        if (socket.destroyed) throw new Error(`closed after: ${text}`)
        await new Promise<void>((resolve) => (wake = resolve))
      }
      return text
    },
    async end(): Promise<string> {
      await closed
      return text
    },
  }
}

const json = JSON.stringify(validBody)
const head = (...headers: string[]) =>
  [
    'POST /api/v1/send HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${goodKey}`,
    'Content-Type: application/json',
    ...headers,
    '',
    '',
  ].join('\r\n')
const request = head(`Content-Length: ${json.length}`) + json
const chunked = `${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`
const status = (text: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1])
const body = (text: string) => JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as { error: string; code: string }

describe('malformed HTTP is answered with Error JSON, and the connection closes (attack Q14)', () => {
  const rows: [name: string, expected: number, bytes: string][] = [
    ['no HTTP at all', 400, 'hello\r\n\r\n'],
    ['TLS on a plain port', 400, '\x16\x03\x01\x02\x00\x01\x00'],
    ['HTTP/2', 400, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['length and chunks', 400, `${head('Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n`],
    ['chunks and length', 400, `${head('Transfer-Encoding: chunked', 'Content-Length: 5')}0\r\n\r\n`],
    ['two lengths', 400, `${head('Content-Length: 5', 'Content-Length: 6')}aaaaa`],
    ['a length that is no number', 400, head('Content-Length: +5')],
    ['another transfer coding', 400, head('Transfer-Encoding: gzip, identity')],
    ['a tunnel', 400, 'CONNECT localhost:80 HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a folded header', 400, head('X-A: b\r\n c')],
    ['a header without a name', 400, head(': x')],
    ['a space before the colon', 400, head('Content-Length : 5')],
    ['bare line feeds', 400, request.replaceAll('\r\n', '\n')],
    ['a bad chunk size', 400, `${head('Transfer-Encoding: chunked')}zz\r\n`],
    ['1,000 headers', 431, head(...Array.from({ length: 1_000 }, () => 'X: y'))],
    ['a header of 20 kB', 431, head(`X-A: ${'a'.repeat(20_000)}`)],
    ['a request line of 64 kB', 431, `GET /${'a'.repeat(65_536)} HTTP/1.1\r\nHost: x\r\n\r\n`],
  ]
  test.each(rows)('%s', async (_name, expected, bytes) => {
    const { port } = await listening()
    const line = dial(port)
    line.socket.write(bytes, 'latin1')
    const text = await line.end()
    expect(status(text)).toBe(expected)
    expect(text).toMatch(/\r\nConnection: close\r\n/i)
    expect(text).toMatch(/\r\nContent-Type: application\/json; charset=utf-8\r\n/i)
    expect(text).toMatch(/\r\nX-Request-Id: [\w-]+\r\n/i)
    expect(text).toMatch(/\r\nX-Content-Type-Options: nosniff\r\n/i)
    expect(text).toMatch(/\r\nContent-Security-Policy: default-src 'none'/i)
    expect(text).toMatch(/\r\nCache-Control: no-store\r\n/i)
    expect(body(text)).toEqual({
      error: expect.stringMatching(/\.$/) as unknown,
      code: 'invalid_request',
      field: expect.stringMatching(/^(?:request|headers|method)$/) as unknown,
    })
  })

  test('and so is a request that does not come in time, which is not called malformed', async () => {
    const server = createServer((socket) => answerMalformed({ code: 'ERR_HTTP_REQUEST_TIMEOUT' }, socket, 'id', {}))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const text = await dial((server.address() as AddressInfo).port).end()
    server.close()
    expect(status(text)).toBe(408)
    expect(body(text)).toMatchObject({ error: expect.stringContaining('in time') as unknown, field: 'request' })
  })

  test.each([
    ['more than 100 headers', head(...Array.from({ length: 100 }, () => 'X: y'), 'Content-Length: 0')],
    ['no host', request.replace('Host: x\r\n', '')],
    ['two hosts', request.replace('Host: x\r\n', 'Host: x\r\nHost: y\r\n')],
    ['a coding below the chunks', head('Transfer-Encoding: gzip, chunked') + chunked],
    [
      'chunks over HTTP/1.0',
      head('Transfer-Encoding: chunked', 'Connection: keep-alive').replace('/1.1', '/1.0') + chunked,
    ],
  ])('%s are 400', async (_name, bytes) => {
    const { port, seen } = await listening()
    const line = dial(port)
    line.socket.write(bytes)
    const text = await line.until(/\}$/)
    expect(status(text)).toBe(400)
    expect(body(text)).toHaveProperty('field')
    expect(seen.submissions).toEqual([])
  })
})

test.each(['*healthz', 'ftp://x/healthz'])(
  '%s is no path of ours, whatever stands behind its first octet',
  async (path) => {
    const { port } = await listening()
    const line = dial(port)
    line.socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
    const text = await line.until(/\}$/)
    expect(status(text)).toBe(404)
    expect(body(text).code).toBe('not_found')
  },
)

test('two Authorization headers are none (attack T2)', async () => {
  const { port } = await listening()
  const line = dial(port)
  line.socket.write(head(`Authorization: Bearer ${goodKey}`, `Content-Length: ${json.length}`) + json)
  expect(status(await line.until(/\}$/))).toBe(401)
})

test('a body in chunks, split at every byte, is read whole', async () => {
  const { port, seen } = await listening()
  const line = dial(port)
  line.socket.setNoDelay(true)
  line.socket.write(head('Transfer-Encoding: chunked'))
  for (const character of json) line.socket.write(`1\r\n${character}\r\n`)
  line.socket.write('0\r\n\r\n')
  expect(status(await line.until(/\}\}$/))).toBe(202)
  expect(seen.submissions).toHaveLength(1)
})

test('two requests at once on one connection get their answers in order', async () => {
  const { port } = await listening()
  const line = dial(port)
  line.socket.write(request + request.replace('ada@example.com', 'bad-address.com') + request)
  const text = await line.until(/(202[^]*){2}\}\}$/)
  expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 202', 'HTTP/1.1 400', 'HTTP/1.1 202'])
})

/** A send that is decided when the test says so. */
async function undecided() {
  let decide: () => void = () => undefined
  let arrived: () => void = () => undefined
  const reached = new Promise<void>((resolve) => (arrived = resolve))
  const { port } = await listening({
    accept: (submission) =>
      new Promise((resolve) => {
        decide = () => resolve({ message: recordOf(submission), replayed: false, quota: [] })
        arrived()
      }),
  })
  const line = dial(port)
  return { port, line, reached, decide: () => decide() }
}

describe('who has sent a whole message hears that it was accepted', () => {
  test.each(['garbage\r\n\r\n', '\0', '}'])('whatever comes behind it (%j), and however often', async (garbage) => {
    const { line, reached, decide } = await undecided()
    line.socket.write(request + garbage)
    await reached
    line.socket.write(garbage)
    decide()
    const text = await line.end()
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 202', 'HTTP/1.1 400'])
  })

  test('with garbage behind several of them', async () => {
    const { port } = await listening()
    const line = dial(port)
    line.socket.write(request + request + request + 'garbage\r\n\r\n')
    const statuses = (await line.end()).match(/HTTP\/1\.1 \d+/g)
    expect(statuses).toEqual([...Array<string>(3).fill('HTTP/1.1 202'), 'HTTP/1.1 400'])
  })

  test.each([1, 3])('when it says that no more comes (%i at once)', async (times) => {
    const { line, reached, decide } = await undecided()
    line.socket.end(times === 1 ? request : `GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(times - 1) + request)
    await reached
    decide()
    const statuses = (await line.end()).match(/HTTP\/1\.1 \d+/g)
    expect(statuses).toEqual([...Array<string>(times - 1).fill('HTTP/1.1 200'), 'HTTP/1.1 202'])
  })
})

describe('a body that is not wanted is not read, and the caller still sees the answer', () => {
  test('413 by the declared length, at once (attack Q6)', async () => {
    const { port } = await listening()
    const line = dial(port)
    line.socket.write(head(`Content-Length: ${limits.requestBytesMax + 1}`))
    const text = await line.until(/\}$/)
    expect(status(text)).toBe(413)
    expect(text).toMatch(/\r\nconnection: close\r\n/i)
  })

  test('413 while it streams in, when no length was declared', async () => {
    const { port } = await listening()
    const line = dial(port)
    line.socket.write(head('Transfer-Encoding: chunked'))
    const mebibyte = Buffer.alloc(1024 * 1024, 0x20)
    const chunk = Buffer.concat([Buffer.from('100000\r\n'), mebibyte, Buffer.from('\r\n')])
    for (let each = 0; each < 50; each++) line.socket.write(chunk)
    expect(status(await line.until(/\}$/))).toBe(413)
  })

  test('401 to a caller that pours megabytes without waiting', async () => {
    const { port } = await listening()
    const line = dial(port)
    const bytes = Buffer.alloc(8 * 1024 * 1024, 0x20)
    line.socket.write(head(`Content-Length: ${bytes.length}`).replace(goodKey, 'wrong'))
    line.socket.write(bytes)
    const text = await line.end()
    expect([status(text), body(text).code]).toEqual([401, 'invalid_api_key'])
  })

  test.each([
    ['who was told to send it', 413, goodKey, `Transfer-Encoding: chunked`],
    ['who was not, and went on', 401, 'wrong', `Content-Length: ${60 * (1024 * 1024 + 10)}`],
  ])(
    'a caller that expects 100 Continue sees it, too, after it has poured it all: one %s',
    async (_, expected, key, length) => {
      const { port } = await listening()
      const line = dial(port)
      line.socket.write(head('Expect: 100-continue', length).replace(goodKey, key))
      await line.until(/\r\n\r\n/)
      line.socket.pause() // it reads when it has sent everything
      const faults: unknown[] = []
      line.socket.on('error', (error) => faults.push(error))
      const chunk = Buffer.from(`100000\r\n${' '.repeat(1024 * 1024)}\r\n`)
      for (let each = 0; each < 60; each++) await new Promise((sent) => line.socket.write(chunk, sent))
      line.socket.resume()
      const text = await line.end()
      expect(faults).toEqual([])
      expect(text).toContain(`HTTP/1.1 ${expected}`)
    },
  )

  test('Expect: 100-continue is answered only when the body is wanted', async () => {
    const { port } = await listening()
    const refused = dial(port)
    refused.socket.write(head('Expect: 100-continue', 'Content-Length: 10').replace(goodKey, 'wrong'))
    expect(status(await refused.end())).toBe(401)
    const wanted = dial(port)
    wanted.socket.write(head('Expect: 100-continue', `Content-Length: ${json.length}`))
    await wanted.until(/^HTTP\/1\.1 100 Continue\r\n\r\n$/)
    wanted.socket.write(json)
    expect(await wanted.until(/\}\}$/)).toContain('HTTP/1.1 202')
    // HTTP/1.0 does not know it, and would take it for the answer (RFC 9110 10.1.1).
    const old = dial(port)
    old.socket.write(head('Expect: 100-continue', `Content-Length: ${json.length}`).replace('/1.1', '/1.0') + json)
    expect(status(await old.end())).toBe(202)
  })
})

const bodySize = 40 * 1024 * 1024
/** Declares a large body, sends nothing yet, and answers whether it is wanted: that alone takes the room. */
async function wanted(line: ReturnType<typeof dial>, key = goodKey): Promise<string> {
  line.socket.write(head('Expect: 100-continue', `Content-Length: ${bodySize}`).replace(goodKey, key))
  return line.until(/^HTTP\/1\.1 \d{3}/)
}

test('large bodies are bounded together: more wait unread, and the room comes back (attack Q7)', async () => {
  const { port, seen } = await listening({
    authenticate: (key) => Promise.resolve({ ...principal, workspaceId: key as WorkspaceId }),
  })
  const key = (n: number): string => `ph_${String(n).padStart(43, 'k')}`
  const fitting = Math.floor(limits.largeRequestsBytesMax / bodySize)
  const holders = Array.from({ length: fitting }, () => dial(port))
  for (const [n, line] of holders.entries()) expect(await wanted(line, key(n))).toContain('100')

  const late = dial(port)
  const lateAnswer = wanted(late, key(fitting))
  const small = dial(port)
  small.socket.write(request)
  expect(status(await small.until(/\}\}$/))).toBe(202)
  // It has heard nothing yet; it is let in when another one has left.
  holders[0]?.socket.destroy()
  expect(await lateAnswer).toContain('100')

  for (const line of [...holders, late]) line.socket.destroy()
  const padded = Buffer.concat([Buffer.alloc(limits.largeRequestBytes, 0x20), Buffer.from(json)])
  const again = dial(port)
  again.socket.write(head('Transfer-Encoding: chunked') + `${padded.length.toString(16)}\r\n`)
  again.socket.write(padded)
  again.socket.write('\r\n0\r\n\r\n')
  expect(status(await again.until(/\}\}$/))).toBe(202)
  expect(seen.submissions).toHaveLength(2)
})

test('a large request that was answered holds no room any more', async () => {
  const { port } = await listening()
  // Three of them are more than the share of a workspace: who finds no room waits, and is refused after a while.
  const bytes = Buffer.alloc(limits.largeRequestsOfWorkspaceBytesMax / 3 + 1, 'x')
  for (let n = 0; n < 3; n++) {
    const line = dial(port)
    line.socket.write(head(`Content-Length: ${bytes.length}`))
    line.socket.write(bytes)
    expect(status(await line.until(/\}$/))).toBe(400)
    line.socket.destroy()
  }
})

test('a body in chunks is read no further than its endpoint takes, and takes no room of large ones', async () => {
  const { port } = await listening({
    authenticate: () => Promise.resolve({ ...principal, scopes: new Set(['webhooks.write']) }),
  })
  const line = dial(port)
  line.socket.write(head('Transfer-Encoding: chunked').replace('POST /api/v1/send', 'PUT /api/v1/webhook'))
  const bytes = limits.managementRequestBytesMax + 1
  line.socket.write(`${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`) // and no end
  expect(status(await line.until(/\}$/))).toBe(413)
})

test('the slow uploads of one workspace do not hold up those of another (attack Q7)', async () => {
  const { port } = await listening({
    authenticate: (key) => Promise.resolve({ ...principal, workspaceId: key as WorkspaceId }),
  })
  const mine = Array.from({ length: 5 }, () => dial(port))
  for (const line of mine) line.socket.write(head('Expect: 100-continue', `Content-Length: ${bodySize}`))
  await mine[0]?.until(/100 Continue/)
  expect(await wanted(dial(port), `ph_${'o'.repeat(43)}`)).toContain('100')
})

test('a caller that leaves in the middle of its body leaves nothing behind', async () => {
  const { port, seen } = await listening()
  const line = dial(port)
  line.socket.write(head(`Content-Length: ${json.length}`) + json.slice(0, 20))
  line.socket.end()
  await line.end()
  const next = dial(port)
  next.socket.write(request)
  expect(status(await next.until(/\}\}$/))).toBe(202)
  expect(seen.submissions).toHaveLength(1)
})

test('a stop waits for the answer of a request under way', async () => {
  const { port, line, reached, decide } = await undecided()
  line.socket.write(request)
  await reached
  const stopped = servers[0]?.stop()
  const letsIn = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true))
      sockets.push(socket.on('error', () => resolve(false)))
    })
  await expect.poll(letsIn).toBe(false)
  decide()
  const text = await line.until(/\}\}$/)
  expect(status(text)).toBe(202)
  expect(text).toMatch(/\r\nConnection: close\r\n/i)
  await stopped
  await line.end()
})

test('a request that a kept connection brings in the moment of a stop is answered like any other, as the last one', async () => {
  const { port, seen } = await listening()
  const line = dial(port)
  line.socket.write(request)
  await line.until(/\}\}$/)
  const stopped = servers[0]?.stop()
  line.socket.write(request)
  const [first = '', second = ''] = (await line.end()).split(/(?<=\}\})/)
  expect([status(first), status(second)]).toEqual([202, 202])
  expect(first).not.toMatch(/\r\nConnection: close\r\n/i)
  expect(second).toMatch(/\r\nConnection: close\r\n/i)
  expect(seen.submissions).toHaveLength(2)
  await stopped
})

test('a stop sends away at once who waits for room: what would let them in ends with it', async () => {
  const { port } = await listening({
    authenticate: (key) => Promise.resolve({ ...principal, workspaceId: key as WorkspaceId }),
  })
  const key = (n: number): string => `ph_${String(n).padStart(43, 'k')}`
  const holders = Array.from({ length: Math.floor(limits.largeRequestsBytesMax / bodySize) }, () => dial(port))
  for (const [n, line] of holders.entries()) expect(await wanted(line, key(n))).toContain('100')
  const late = dial(port)
  const answer = wanted(late, key(holders.length))
  const small = dial(port)
  small.socket.write(request)
  await small.until(/\}\}$/) // what came before it waits by now

  const stopped = servers[0]?.stop()
  expect(status(await answer)).toBe(503)
  expect(late.text()).toMatch(/\r\nRetry-After: \d/i)
  for (const line of holders) line.socket.destroy()
  await stopped
})

test('whose body still comes when a stop waits no longer hears that nothing was accepted, before the connection ends', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  const { port, seen } = await listening()
  const [small, large, chunked] = [dial(port), dial(port), dial(port)]
  small.socket.write(request.slice(0, -1))
  large.socket.write(head(`Content-Length: ${2 * limits.largeRequestBytes}`, 'Expect: 100-continue'))
  chunked.socket.write(head('Transfer-Encoding: chunked', 'Expect: 100-continue'))
  for (const line of [large, chunked]) {
    await line.until(/100 Continue/)
    line.socket.write('1\r\n{')
  }
  const answered = dial(port)
  answered.socket.write(request)
  await answered.until(/\}\}$/) // what came before it is being read by now
  const stopped = servers[0]?.stop()
  let seconds = 0
  for (; ![small, large, chunked].every((line) => line.text().includes(' 503 ') || line.socket.destroyed); seconds++) {
    vi.advanceTimersByTime(1_000)
    await setImmediate()
  }
  expect(seconds * 1_000).toBeGreaterThan(limits.httpLastBytesMs)
  for (const line of [small, large, chunked]) {
    const text = await line.until(/\}$/)
    const answer = text.slice(text.lastIndexOf('HTTP/1.1 '))
    expect(status(answer)).toBe(503)
    expect(answer).toMatch(/\r\nRetry-After: \d/i)
    expect(body(answer)).toMatchObject({ code: 'service_unavailable' })
    line.socket.end()
  }
  expect(seen.submissions).toHaveLength(1)
  await stopped
})

test.each([
  ['whose key is revoked', 401, () => undefined],
  ['whose workspace is blocked', 403, () => ({ ...principal, blocked: true })],
])('a body that is held back by one %s meanwhile is not accepted', async (_, expected, become) => {
  let known: Principal | undefined = principal
  const { port, seen } = await listening({ authenticate: () => Promise.resolve(known) })
  const peer = dial(port)
  peer.socket.write(head(`Content-Length: ${json.length}`, 'Expect: 100-continue'))
  await peer.until(/^HTTP\/1\.1 100 /)
  const heardAt = performance.now()
  known = become()
  while (performance.now() - heardAt <= limits.bodyAtOnceMs) await setImmediate()
  peer.socket.write(json)
  const text = await peer.until(/"code"/)
  expect(status(text.slice(text.indexOf('\r\n\r\n') + 4))).toBe(expected)
  expect(seen.submissions).toEqual([])
})
