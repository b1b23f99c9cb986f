// A stranger's URL and a stranger's server: where a webhook may not go it does not go, at the save and at every connect, and whatever answers
// is bounded (attacks 4, delivery-semantics 50).
import { Resolver } from 'node:dns/promises'
import { once } from 'node:events'
import { createSecureServer } from 'node:http2'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { createServer as createTls } from 'node:tls'
import type { networkInterfaces } from 'node:os'
import { createHmac } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { certificateFor } from '../../test/world/certificates.ts'
import { startDnsServer } from '../../test/world/dns-server.ts'
import { startNarrowWire } from '../../test/world/narrow-wire.ts'
import { ok, startWebhookReceiver, status } from '../../test/world/webhook-receiver.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { makePoster, type Poster, type PosterTools } from './post.ts'
import { makeTargets, type Targets } from './public-address.ts'
import { makeWebhookSecret, signedHeaders, signingKey } from './signature.ts'
import type { PostFacts } from './verdict.ts'

const ends: (() => Promise<unknown>)[] = []
const dns = await startDnsServer()
const there = await startWebhookReceiver()
afterEach(async () => {
  vi.unstubAllEnvs()
  for (const end of ends.splice(0).toReversed()) await end()
  there.received.length = 0
  there.answer = ok
})
afterAll(() => Promise.all([dns.stop(), there.stop()]))

const strict = () => makeTargets({ POSTHORN_DNS_SERVERS: [dns.address], POSTHORN_ALLOW_PRIVATE_WEBHOOKS: false })
const open = () => makeTargets({ POSTHORN_DNS_SERVERS: [dns.address], POSTHORN_ALLOW_PRIVATE_WEBHOOKS: true })
const workspaceId = '0199f1c2-0000-7000-8000-00000000000a' as WorkspaceId

function poster(tools: Partial<PosterTools> = {}): Poster {
  const made = makePoster({ targets: open(), ...tools })
  ends.push(() => made.close())
  return made
}
const body = Buffer.from('{"id":"x","data":{}}')
const post = (url: string, with_: Poster = poster(), now = Date.now): Promise<PostFacts> =>
  with_.post({ workspaceId, url: new URL(url), headers: ['content-type', 'application/json'], body, now })

/** A server that does with each connection what it is told, once the request has begun to arrive. */
async function raw(handle: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    socket.once('data', () => handle(socket))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  ends.push(async () => {
    for (const socket of sockets) socket.destroy()
    await once(server.close(), 'close')
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const notPublic = [
  '0.0.0.0', '0.1.2.3', '10.0.0.1', '100.64.0.1', '100.127.255.255', '127.0.0.1', '127.255.0.1', '169.254.169.254', '172.16.0.1',
  '172.31.255.255', '192.0.0.1', '192.0.2.1', '192.168.1.1', '198.18.0.1', '198.19.255.255', '198.51.100.1', '203.0.113.1', '224.0.0.1',
  '239.1.1.1', '240.0.0.1', '255.255.255.255', '::', '::1', '::ffff:127.0.0.1', '::ffff:8.8.8.8', '::7f00:1', '64:ff9b::7f00:1',
  '64:ff9b::808:808', '64:ff9b:1::1', '2002:7f00:1::', '2001:0:1::1', '2001:db8::1', '100::1', 'fc00::1', 'fe80::1', 'fe80::1%lo', 'ff02::1',
  'fd00:ec2::254', '3fff::1', '5f00::1', 'not an address', '',
] // prettier-ignore

describe('the SSRF table, with the development setting off', () => {
  test.each(notPublic)('%s is not public', (address) => {
    expect(strict().isAllowed(address)).toBe(false)
  })

  test.each(['93.184.216.34', '1.1.1.1', '2606:4700::1111', '2a00:1450::1'])('%s is', (address) => {
    expect(strict().isAllowed(address)).toBe(true)
  })

  const urls: [string, RegExp][] = [
    ['http://example.com/', /https/],
    ['ftp://example.com/', /https/],
    ['file:///etc/passwd', /https/],
    ['//example.com/', /https/],
    ['', /https/],
    ['https://user@example.com/', /user name/],
    ['https://user:secret@example.com/', /user name/],
    ['https://:secret@example.com/', /user name/],
    ['https://good.example#@evil.example/', /fragment/],
    ['https://example.com/#', /fragment/],
    ['https://example.com:8443/', /443/],
    ['https://127.0.0.1/', /IP address/],
    ['https://2130706433/', /IP address/],
    ['https://0x7f.1/', /IP address/],
    ['https://0177.0.0.1/', /IP address/],
    ['https://127.1/', /IP address/],
    ['https://①②⑦.0.0.1/', /IP address/],
    ['https://127。0。0。1/', /IP address/],
    ['https://%31%32%37.0.0.1/', /IP address/],
    ['https://[::1]/', /IP address/],
    ['https://[::ffff:127.0.0.1]/', /IP address/],
    ['https://127.0.0.1./', /IP address/],
    ['https:169.254.169.254', /IP address/],
    ['HTTPS://127.0.0.1/', /IP address/],
    ['https://93.184.216.34/', /IP address/],
    ['https://localhost/', /public host/],
    ['https://LOCALHOST./', /public host/],
    ['https://a.localhost/', /public host/],
    ['https://intranet/', /public host/],
    ['https:\\\\example.com/', /backslash/],
    ['https://exa\tmple.com/', /spaces/],
    [' https://example.com/', /spaces/],
    [`https://example.com/${'x'.repeat(2_048)}`, /characters/],
  ]
  test.each(urls)('%j is refused with the reason', (url, words) => {
    expect(strict().parse(url)).toMatch(words)
  })

  test('a public URL has one form', () => {
    expect(String(strict().parse('HTTPS://Example.COM.:443/a?b=c'))).toBe('https://example.com/a?b=c')
    expect(String(strict().parse('https://bücher.example/'))).toBe('https://xn--bcher-kva.example/')
  })

  test('a name that leads to a private address, or to a public and a private one, is blocked, and nothing connects', async () => {
    Object.assign(dns.zone, {
      'private.example': { a: ['127.0.0.1'] },
      'mixed.example': { a: ['93.184.216.34', '127.0.0.1'] },
      'six.example': { a: ['93.184.216.34'], aaaa: ['::1'] },
      'alias.example': { cname: 'private.example' },
      'mapped.example': { aaaa: ['::ffff:127.0.0.1'] },
      'metadata.example': { a: ['169.254.169.254'] },
    })
    const before = there.connections()
    const careful = poster({ targets: strict() })
    for (const name of ['private', 'mixed', 'six', 'alias', 'mapped', 'metadata'])
      expect(await post(`http://${name}.example:${there.port}/`, careful)).toMatchObject({ trouble: 'blocked_address' })
    for (const host of ['127.0.0.1', 'localhost', 'a.localhost', '[::1]', '2130706433', '0x7f.1', '0177.0.0.1'])
      expect(await post(`http://${host}:${there.port}/`, careful)).toMatchObject({ trouble: 'blocked_address' })
    expect(there.connections()).toBe(before)
    expect(await post(`http://nowhere.example:${there.port}/`, careful)).toMatchObject({ trouble: 'dns_failure' })
  })

  test("the system's name servers are asked without its few look-up threads: silent names hold up nobody else's", async () => {
    Object.assign(dns.zone, { 'silent.example': 'silence', 'quick.example': { a: ['93.184.216.34'] } })
    const asking = () => {
      const resolver = new Resolver({ timeout: 400, tries: 1 })
      resolver.setServers([dns.address])
      return resolver
    }
    const targets = makeTargets({ POSTHORN_DNS_SERVERS: [], POSTHORN_ALLOW_PRIVATE_WEBHOOKS: false }, asking)
    const done: string[] = []
    const silent = Array.from({ length: 64 }, () =>
      targets.find('silent.example').then((found) => {
        done.push('silent')
        return found
      }),
    )
    expect(await targets.find('quick.example')).toEqual({ addresses: ['93.184.216.34'] })
    expect(done).toEqual([])
    for (const found of await Promise.all(silent)) expect(found).toEqual({ trouble: 'dns_failure' })
  })

  test('a resolver with DNS64 has every host twice: the same address in other words is another way to it, the last one to be tried, and any other is no way around', async () => {
    const [host, translated, elsewhere] = ['93.184.216.34', '64:ff9b::5db8:d822', '64:ff9b::808:808']
    Object.assign(dns.zone, {
      'translated.example': { a: [host], aaaa: [translated] },
      'inside.example': { a: ['10.0.0.1'], aaaa: ['64:ff9b::a00:1'] },
      'elsewhere.example': { a: [host], aaaa: [elsewhere] },
      'alone.example': { aaaa: [translated] },
    })
    expect(await strict().find('translated.example')).toEqual({ addresses: [host, translated] })
    for (const name of ['inside', 'elsewhere', 'alone'])
      expect(await strict().find(`${name}.example`), name).toEqual({ trouble: 'blocked_address' })
  })

  test("this machine's own public address is none that a webhook may go to: what listens there may trust whoever comes from here", async () => {
    const own = { eth0: [{ address: '93.184.216.34' }] } as unknown as ReturnType<typeof networkInterfaces>
    const rules = { POSTHORN_DNS_SERVERS: [dns.address], POSTHORN_ALLOW_PRIVATE_WEBHOOKS: false }
    const targets = makeTargets(rules, undefined, () => own)
    dns.zone['own.example'] = { a: ['93.184.216.34'] }
    expect(await targets.find('own.example')).toEqual({ trouble: 'blocked_address' })
    expect(targets.isAllowed('93.184.216.35')).toBe(true)
  })

  test('rebinding: public when it is saved, private when it is connected to', async () => {
    dns.zone['rebind.example'] = { a: ['93.184.216.34'] }
    const targets = strict()
    expect(await targets.find('rebind.example')).toEqual({ addresses: ['93.184.216.34'] })
    dns.zone['rebind.example'] = { a: ['127.0.0.1'] }
    const before = there.connections()
    expect(await post(`http://rebind.example:${there.port}/`, poster({ targets }))).toMatchObject({
      trouble: 'blocked_address',
    })
    expect(there.connections()).toBe(before)
  })

  test('the address of the open connection is what counts: nothing is sent to one that is not allowed', async () => {
    const lying: Targets = { ...strict(), find: () => Promise.resolve({ addresses: ['127.0.0.1'] }) }
    expect(await post(`http://lie.example:${there.port}/`, poster({ targets: lying }))).toMatchObject({
      trouble: 'blocked_address',
    })
    expect(there.received).toEqual([])
  })

  test('a proxy in the environment is ignored', async () => {
    let proxied = 0
    const proxy = await raw((socket) => {
      proxied++
      socket.end()
    })
    for (const name of ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY', 'NODE_USE_ENV_PROXY'])
      vi.stubEnv(name, proxy)
    expect(await post(there.url)).toMatchObject({ status: 200 })
    expect(proxied).toBe(0)
  })
})

describe('what answers is bounded', () => {
  const hello = 'HTTP/1.1 200 OK\r\n'
  const quick = () => poster({ postMs: 400 })

  test('redirects of every kind are not followed', async () => {
    for (const code of [301, 302, 303, 307, 308]) {
      there.answer = status(code, { location: `${there.url}/elsewhere`, refresh: `0; url=${there.url}` })
      expect(await post(there.url)).toMatchObject({ status: code })
    }
    expect(there.received).toHaveLength(5)
  })

  test('a receiver that hangs, before or behind the head, ends with its time', async () => {
    expect(await post(await raw(() => undefined), quick())).toMatchObject({ trouble: 'timeout' })
    const half = await raw((socket) => void socket.write(`${hello}Content-Length: 10\r\n\r\nhalf`))
    expect(await post(half, quick())).toMatchObject({ trouble: 'timeout', status: 200, excerpt: 'half' })
  })

  test('one whose time was over before it had a connection is never written: the next try would be a second one', async () => {
    const targets = open()
    let go: () => void = () => undefined
    const found = new Promise<void>((resolve) => (go = resolve))
    const slow: Targets = { ...targets, find: (host) => found.then(() => targets.find(host)) }
    dns.zone['slow.example'] = { a: ['127.0.0.1'] }
    const late = poster({ targets: slow, postMs: 1_000 })
    const at = (path: string) => `http://slow.example:${there.port}/${path}`
    expect(await post(at('late'), late)).toMatchObject({ trouble: 'timeout' })
    go()
    expect(await post(at('next'), late)).toMatchObject({ status: 200 })
    expect(await post(at('last'), late)).toMatchObject({ status: 200 })
    expect(there.received.map(({ path }) => path)).toEqual(['/next', '/last'])
  })

  test('connections are kept for so many workspaces at most, those used last; and who has to go ends what is under way', async () => {
    const few = poster({ poolsMax: 2 })
    const of = (name: string) => ({
      workspaceId: `0199f1c2-0000-7000-8000-00000000000${name}` as WorkspaceId,
      url: new URL(there.url),
      headers: ['content-type', 'application/json'],
      body,
      now: Date.now,
    })
    const connectionsOf = async (...names: readonly string[]) => {
      const before = there.connections()
      for (const name of names) expect(await few.post(of(name))).toMatchObject({ status: 200 })
      return there.connections() - before
    }
    expect(await connectionsOf('a', 'b', 'a', 'c')).toBe(3)
    expect(await connectionsOf('a', 'c')).toBe(0)
    expect(await connectionsOf('b')).toBe(1)

    const answers: (() => void)[] = []
    there.answer = (received, response) => void answers.push(() => ok(received, response))
    const many = there.received.length
    const slow = few.post(of('d'))
    await there.count(many + 1)
    there.answer = ok
    expect(await connectionsOf('e', 'f')).toBe(2)
    answers[0]?.()
    expect(await slow).toMatchObject({ status: 200 })
  })

  test('a stop that waits no longer ends what is under way, and says so', async () => {
    let begun: () => void = () => undefined
    const reached = new Promise<void>((resolve) => (begun = resolve))
    const patient = poster()
    const facts = post(await raw(() => begun()), patient)
    await reached
    patient.giveUp()
    const ended = await facts
    expect([ended.trouble, ended.lack]).toEqual(['shutdown', undefined])
  })

  test.each([307, 429, 503])('how long a %i asks to wait is heard', async (code) => {
    there.answer = status(code, { 'retry-after': '7' })
    expect(await post(there.url)).toMatchObject({ status: code, retryAfterSeconds: 7 })
  })

  test('what was answered while this process stood still is heard, though its time is over by then', async () => {
    const url = await raw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600)
    })
    expect(await post(url, poster({ postMs: 500 }))).toMatchObject({ status: 200 })
  })

  test("a date in Retry-After is read by the database's clock, whatever this machine's own says", async () => {
    there.answer = status(503, { 'retry-after': 'Wed, 01 Jan 2031 00:01:00 GMT' })
    expect(await post(there.url, poster(), () => Date.UTC(2031, 0, 1))).toMatchObject({ retryAfterSeconds: 60 })
  })

  test('one byte at a time, in the head or in the body, ends with its time', async () => {
    const drip = (text: string) =>
      raw((socket) => {
        let at = 0
        const timer = setInterval(() => void socket.write(text[at++ % text.length] ?? ''), 40)
        socket.on('close', () => clearInterval(timer))
      })
    expect(await post(await drip(`${hello}X-Slow: ${'x'.repeat(2_000)}`), quick())).toMatchObject({
      trouble: 'timeout',
    })
    const url = await raw((socket) => {
      socket.write(`${hello}Transfer-Encoding: chunked\r\n\r\n`)
      const timer = setInterval(() => void socket.write('1\r\nx\r\n'), 40)
      socket.on('close', () => clearInterval(timer))
    })
    const facts = await post(url, quick())
    expect(facts).toMatchObject({ trouble: 'timeout', status: 200 })
    expect(facts.durationMs).toBeLessThan(2_000)
  })

  test('a body of 10 GB is cut, and its connection closed', async () => {
    let written = 0
    let closed: () => void = () => undefined
    const gone = new Promise<void>((resolve) => (closed = resolve))
    const url = await raw((socket) => {
      socket.on('close', () => closed())
      socket.write(`${hello}Content-Length: 10737418240\r\n\r\n`)
      const chunk = Buffer.alloc(64 * 1024, 'x')
      const more = () => {
        while (!socket.destroyed && written < 10_737_418_240) {
          written += chunk.length
          if (!socket.write(chunk)) return
        }
      }
      socket.on('drain', more)
      more()
    })
    const facts = await post(url)
    expect(facts).toMatchObject({ trouble: 'too_large', status: 200 })
    expect(facts.excerpt).toHaveLength(limits.webhookExcerptBytesMax)
    await gone
    expect(written).toBeLessThan(64 * 1024 * 1024)
  })

  test('a compressed answer is not decompressed', async () => {
    const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024))
    there.answer = (_received, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb)
    const facts = await post(there.url)
    expect(facts).toMatchObject({ status: 200 })
    expect(Buffer.byteLength(facts.excerpt ?? '')).toBeLessThanOrEqual(limits.webhookExcerptBytesMax)
  })

  const continues = 'HTTP/1.1 100 Continue\r\n\r\n'
  const done = 'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\nHTTP/1.1 100 times'
  test.each([
    ['in one packet with the answer', [continues + done]],
    ['before it', [continues, done]],
    ['twice', [continues.repeat(2), done]],
  ])('a "100 Continue" that nobody waits for is passed over: %s', async (_how, packets) => {
    const url = await raw((socket) => {
      const say = (): void => {
        const next = packets.shift()
        if (next !== undefined) socket.write(next, () => setImmediate(say))
      }
      say()
    })
    expect(await post(url)).toMatchObject({ status: 200, excerpt: 'HTTP/1.1 100 times' })
  })

  test('and so it is not without end', async () => {
    const url = await raw((socket) => void socket.write(continues.repeat(limits.webhookInterimAnswersMax + 1) + done))
    expect(await post(url)).toMatchObject({ trouble: 'malformed' })
  })

  test('endless headers, endless interim answers, and what is no HTTP at all', async () => {
    const heads = await raw((socket) => {
      socket.write(hello)
      const timer = setInterval(() => void socket.write(`X-Header: ${'x'.repeat(1_000)}\r\n`), 1)
      socket.on('close', () => clearInterval(timer))
    })
    expect(await post(heads)).toMatchObject({ trouble: 'malformed' })
    const interim = await raw((socket) => {
      const timer = setInterval(() => void socket.write('HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n'), 1)
      socket.on('close', () => clearInterval(timer))
    })
    expect((await post(interim, poster({ postMs: 2_000 }))).trouble).toMatch(/malformed|closed/)
    expect(await post(await raw((socket) => void socket.end('SSH-2.0-OpenSSH_9.7\r\n')))).toMatchObject({
      trouble: 'malformed',
    })
    expect(await post(await raw((socket) => void socket.end()))).toMatchObject({ trouble: 'closed' })
    expect(await post(await raw((socket) => void socket.resetAndDestroy()))).toMatchObject({ trouble: 'closed' })
  })

  test('what no UTF-8 and no text is becomes an excerpt that can be kept', async () => {
    there.answer = (_received, response) =>
      void response.end(Buffer.concat([Buffer.from([0, 0xff, 0xfe]), Buffer.alloc(5_000, 0xff)]))
    const { excerpt = '' } = await post(there.url)
    expect(excerpt.isWellFormed() && !excerpt.includes('\0')).toBe(true)
    expect(Buffer.byteLength(excerpt)).toBeLessThanOrEqual(limits.webhookExcerptBytesMax)
  })

  test.each([
    [
      'a character at the bound is left out, and nothing before it',
      'x'.repeat(1_023) + 'é'.repeat(9),
      'x'.repeat(1_023),
    ],
    ['an emoji that begins three octets before it', `${'x'.repeat(1_021)}🚚!`, 'x'.repeat(1_021)],
    ['one that ends there', `${'x'.repeat(1_020)}🚚!`, `${'x'.repeat(1_020)}🚚`],
    ['of text in another charset all that can be read', Buffer.from('x caf\xe9', 'latin1'), 'x caf\ufffd'],
  ])('the log keeps the first KB of an answer: %s', async (_what, answer, kept) => {
    there.answer = (_received, response) => void response.end(answer)
    expect((await post(there.url)).excerpt).toBe(kept)
  })
})

describe('what is lacking here is no word about the receiver, and only that is', () => {
  const failing = (code: string, address = '192.0.2.1'): Targets => ({
    ...strict(),
    find: () => Promise.reject(Object.assign(new Error(`connect ${code}`), { code, address })),
  })
  const [noWay, way] = [() => Promise.resolve(false), () => Promise.resolve(true)]
  test.each([
    ['EMFILE', way, 'nothing is left here for one more connection'],
    ['EADDRNOTAVAIL', way, 'nothing is left here for one more connection'],
    ['ENETUNREACH', noWay, 'this machine has no way to any network'],
    ['ENETUNREACH', way, undefined],
    ['EHOSTUNREACH', way, undefined],
    ['ECONNREFUSED', noWay, undefined],
  ])('%s, with or without a way out', async (code, wayOut, lack) => {
    const { trouble, ...facts } = await post('http://there.example/', poster({ targets: failing(code), wayOut }))
    expect([trouble, facts.lack]).toEqual(['connect_failed', lack])
  })

  test('IPv6 alone is out of reach, for want of an address: the receiver has no other way', async () => {
    const targets = failing('EADDRNOTAVAIL', '2001:db8::1')
    expect((await post('http://there.example/', poster({ targets, wayOut: way }))).lack).toBeUndefined()
  })

  test.each([
    ['silence', { '.': 'silence' }, 'no name server answers'],
    ['silence of one name', { '.': {} }, undefined],
  ] as const)('%s', async (_, root, lack) => {
    Object.assign(dns.zone, root, { 'silent.example': 'silence' })
    const asking = () => {
      const resolver = new Resolver({ timeout: 200, tries: 1 })
      resolver.setServers([dns.address])
      return resolver
    }
    const rules = { POSTHORN_DNS_SERVERS: [], POSTHORN_ALLOW_PRIVATE_WEBHOOKS: false }
    const facts = await post('http://silent.example/', poster({ targets: makeTargets(rules, asking), wayOut: way }))
    expect([facts.trouble, facts.lack]).toEqual(['dns_failure', lack])
    delete dns.zone['.']
  })

  test('a stop of ours, before anything was asked', async () => {
    const looked = Promise.withResolvers<void>()
    const find: Targets['find'] = () => {
      looked.resolve()
      return new Promise(() => undefined)
    }
    const patient = poster({ targets: { ...strict(), find } })
    const facts = post('http://there.example/', patient)
    await looked.promise
    patient.giveUp()
    expect(await facts).toMatchObject({ trouble: 'shutdown', lack: 'this process is being stopped' })
  })

  test('a name server that is not there, be it that the time was over before that was sure', async () => {
    const rules = { POSTHORN_DNS_SERVERS: ['127.0.0.1:1'], POSTHORN_ALLOW_PRIVATE_WEBHOOKS: false }
    const targets = makeTargets(rules)
    const lack = 'no name server answers'
    expect(await post('http://there.example/', poster({ targets }))).toMatchObject({ trouble: 'dns_failure', lack })
    const slow = { ...targets, find: () => new Promise<never>(() => undefined) }
    const late = poster({ targets: slow, postMs: 50 })
    expect(await post('http://there.example/', late)).toMatchObject({ trouble: 'timeout', lack })
  })
})

describe('TLS', () => {
  const at = (port: number) => `https://hook.example:${port}/`
  beforeAll(() => void (dns.zone['hook.example'] = { a: ['127.0.0.1'] }))

  test('a certificate of that name from a trusted authority is needed', async () => {
    const good = certificateFor('hook.example')
    const server = await startWebhookReceiver({ certificate: good })
    const other = await startWebhookReceiver({ certificate: certificateFor('other.example') })
    ends.push(
      () => server.stop(),
      () => other.stop(),
    )
    expect(await post(at(server.port), poster({ ca: good.ca }))).toMatchObject({ status: 200 })
    expect(await post(at(server.port))).toMatchObject({ trouble: 'tls_failed' }) // nobody vouches for it
    expect(await post(at(other.port), poster({ ca: good.ca }))).toMatchObject({ trouble: 'tls_failed' })
    expect(other.received).toEqual([])
  })

  test('a receiver behind something that lets no hello through which is longer than a packet is reached', async () => {
    const good = certificateFor('hook.example')
    const server = await startWebhookReceiver({ certificate: good })
    const wire = await startNarrowWire(server.port)
    ends.push(
      () => server.stop(),
      () => wire.stop(),
    )
    expect(await post(at(wire.port), poster({ ca: good.ca }))).toMatchObject({ status: 200 })
  })

  test('TLS 1.1, HTTP/2 alone, and no TLS at all fail', async () => {
    const good = certificateFor('hook.example')
    const old = createTls({ ...good, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' })
    const second = createSecureServer({ ...good, allowHTTP1: false })
    for (const server of [old, second]) {
      server.on('tlsClientError', () => undefined)
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      ends.push(() => new Promise((resolve) => server.close(resolve)))
      const { port } = server.address() as AddressInfo
      expect((await post(at(port), poster({ ca: good.ca }))).trouble).toMatch(/tls_failed|closed/)
    }
    expect(await post(at(there.port), poster({ ca: good.ca }))).toMatchObject({ trouble: 'tls_failed' })
  })
})

test('the signature is the HMAC of timestamp, period and raw bytes, keyed with the secret as it was shown', () => {
  const secret = makeWebhookSecret()
  expect(secret).toMatch(/^whsec_[\w-]{43}$/)
  const bytes = Buffer.from('{"subject":"\u2028 🎺 /"}')
  const wanted = createHmac('sha256', Buffer.from(secret, 'utf8'))
    .update(Buffer.concat([Buffer.from('1700000000.'), bytes]))
    .digest('hex')
  expect(signedHeaders({ current: signingKey(secret) }, 'an-id', 1_700_000_000, bytes)).toEqual([
    'Webhook-Id', 'an-id', 'Webhook-Timestamp', '1700000000', 'Webhook-Signature', `v1=${wanted}`,
  ]) // prettier-ignore
})
