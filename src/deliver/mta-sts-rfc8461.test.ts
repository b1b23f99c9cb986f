// MTA-STS: the words of record and policy, and the whole way with an HTTPS host of the tests' own: what a domain has once promised
// holds until its time is over, whatever is cut off meanwhile, and no mail goes to a host that it rules out or cannot prove its name.
import { once } from 'node:events'
import { createServer, type Server, type ServerOptions } from 'node:https'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { certificateFor, type Certificate } from '../../test/world/certificates.ts'
import { startDnsServer, type DnsServer } from '../../test/world/dns-server.ts'
import { startNarrowWire } from '../../test/world/narrow-wire.ts'
import { startReceiver, type Receiver } from '../../test/world/receiver-process.ts'
import { keepStsPolicy, pruneStsPolicies, readStsPolicy } from '../store/sts-policies.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { limits } from '../config.ts'
import { makeDns } from '../base/dns.ts'
import { parseStsPolicy, stsAllows, stsId, type StsPolicy } from './mta-sts-rfc8461.ts'
import { makeStsPolicies, type KeptPolicy, type PolicyStore, type StsSettings } from './mta-sts.ts'
import { outcomeOf } from './outcome.ts'
import { addressOf, mailOf } from './peer.test-kit.ts'
import { makeTransmitter } from './transmit.ts'

describe('the TXT record', () => {
  test.each([
    [['v=STSv1; id=20160831085700Z;'], '20160831085700Z'],
    [['v=STSv1;id=a1'], 'a1'],
    [['v=spf1 -all', 'v=STSv1; id=7; other=x'], '7'],
    [['v=STSv1; id=1', 'v=STSv1; id=2'], undefined],
    [['v=STSv1; id=a-b'], undefined],
    [['v=STSv1'], undefined],
    [['v=STSv2; id=1'], undefined],
    [[`v=STSv1; id=${'a'.repeat(33)}`], undefined],
    [[], undefined],
  ])('%j: %s', (texts, id) => {
    expect(stsId(texts)).toBe(id)
  })
})

describe('the policy', () => {
  const file = (...lines: string[]) => ['version: STSv1', ...lines].join('\r\n')
  test('is read to the end of the file, which is bounded in bytes', () => {
    const hosts = Array.from({ length: 60 }, (_, at) => `mx: h${at}.example.com`)
    const text = file(...hosts, ...Array.from({ length: 600 }, () => ''), 'mode: enforce', 'max_age: 600')
    expect(parseStsPolicy('1', text)).toMatchObject({ mode: 'enforce', maxAgeSeconds: 600 })
  })
  test.each([
    [
      file('mode: enforce', 'mx: A.example.com', 'mx: *.b.example.com.', 'max_age: 600'),
      ['a.example.com', '*.b.example.com'],
      'enforce',
    ],
    [
      file('mode: enforce', 'mx:a.example.com', 'max_age:600', 'new_key: whatever', 'mode: none').replaceAll('\r', ''),
      ['a.example.com'],
      'enforce',
    ],
    [file('mode: none', 'max_age: 600'), [], 'none'],
  ])('%j is one', (text, mx, mode) => {
    expect(parseStsPolicy('1', text)).toEqual({ id: '1', mx, mode, maxAgeSeconds: 600 })
  })
  test.each([
    file('mode: enforce', 'max_age: 600'),
    file('mode: enforce', 'mx: a.example.com'),
    file('mode: enforce', 'mx: a.example.com', 'max_age: -1'),
    file('mode: strict', 'mx: a.example.com', 'max_age: 600'),
    'version: STSv2\nmode: enforce\nmx: a.example.com\nmax_age: 600',
    '<html>not found</html>',
    '',
  ])('%j is none', (text) => {
    expect(parseStsPolicy('1', text)).toBeUndefined()
  })
  test('is bounded', () => {
    const text = file(
      'mode: enforce',
      'max_age: 9999999999',
      ...Array.from({ length: 450 }, (_, at) => `mx: h${at}.example`),
    )
    const policy = parseStsPolicy('1', text)
    expect([policy?.maxAgeSeconds, policy?.mx.length]).toEqual([limits.stsMaxAgeSeconds, limits.stsHostsMax])
  })
  test.each([
    ['mx.example.com', true],
    ['MX.example.com', true],
    ['a.wild.example.com', true],
    ['a.b.wild.example.com', false],
    ['wild.example.com', false],
    ['mx.example.com.evil.test', false],
    ['xmx.example.com', false],
  ])('%s allowed: %s', (host, allowed) => {
    const policy: StsPolicy = {
      id: '1',
      mode: 'enforce',
      mx: ['mx.example.com', '*.wild.example.com'],
      maxAgeSeconds: 1,
    }
    expect(stsAllows(policy, host)).toBe(allowed)
  })
})

type Answer = (asked: IncomingMessage, response: ServerResponse) => void
const text =
  (body: string, type = 'text/plain'): Answer =>
  (_, response) =>
    response.writeHead(200, { 'content-type': type }).end(body)
const enforce = (mx = 'mx.sts.test', maxAge = 86_400) =>
  text(`version: STSv1\nmode: enforce\nmx: ${mx}\nmax_age: ${maxAge}\n`)

const own = certificateFor('mta-sts.sts.test', 'mx.sts.test')
const { key, cert, ca } = own
const world: { dns: DnsServer; host: Server; asked: string[]; answer: Answer } = { asked: [] } as never

async function httpsHost(options: ServerOptions): Promise<Server> {
  const server = createServer(options, (asked, response) => {
    world.asked.push(`${asked.headers.host} ${asked.url}`)
    world.answer(asked, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}
const portOf = (server: Server) => (server.address() as AddressInfo).port
const stopped = (server: Server) => {
  server.closeAllConnections()
  return once(server.close(), 'close')
}

beforeAll(async () => {
  world.dns = await startDnsServer()
  world.host = await httpsHost({ key, cert })
})
beforeEach(() => {
  world.asked.length = 0
  world.answer = enforce()
  Object.assign(world.dns.zone, {
    'sts.test': { mx: [{ preference: 1, exchange: 'mx.sts.test' }] },
    'mx.sts.test': { a: ['127.0.0.1'] },
    '_mta-sts.sts.test': { txt: ['v=STSv1; id=1'], ttl: 1 },
    'mta-sts.sts.test': { a: ['127.0.0.1'] },
  })
})
afterAll(() => Promise.all([world.dns.stop(), stopped(world.host)]))

function policiesAt(clock = { now: 0 }, more: Partial<StsSettings> = {}) {
  const now = () => clock.now
  const dns = makeDns({ servers: [world.dns.address], now })
  return makeStsPolicies(dns, {
    allowPrivate: true,
    trustedCa: ca,
    port: portOf(world.host),
    now,
    ...more,
  })
}
const later = (clock: { now: number }, ms: number) => (clock.now += ms)

describe('a policy', () => {
  test('is fetched also behind something that lets no hello through which is longer than a packet', async () => {
    const wire = await startNarrowWire(portOf(world.host))
    onTestFinished(() => wire.stop())
    expect(await policiesAt({ now: 0 }, { port: wire.port }).policyFor('sts.test')).toMatchObject({ mode: 'enforce' })
  })

  test('is fetched once, from its well-known place', async () => {
    const sts = policiesAt()
    const found = await Promise.all([sts.policyFor('sts.test'), sts.policyFor('sts.test')])
    expect(found[0]).toEqual({ id: '1', mode: 'enforce', mx: ['mx.sts.test'], maxAgeSeconds: 86_400 })
    expect(found[1]).toBe(found[0])
    expect(world.asked).toEqual(['mta-sts.sts.test /.well-known/mta-sts.txt'])
  })

  test.each<[string, () => Answer | Promise<Answer>]>([
    ['a redirect', () => (_, response) => response.writeHead(302, { location: 'https://mta-sts.sts.test/x' }).end()],
    ['not found', () => (_, response) => response.writeHead(404, { 'content-type': 'text/plain' }).end()],
    ['another type', () => text('version: STSv1\nmode: enforce\nmx: a.b\nmax_age: 5', 'text/html')],
    [
      'too much of it',
      () => text(`version: STSv1\nmode: enforce\nmx: a.b\nmax_age: 5\n${'x'.repeat(limits.stsFileBytesMax)}`),
    ],
    [
      'half of it',
      () => (_, response) =>
        void response
          .writeHead(200, { 'content-type': 'text/plain', 'content-length': '99' })
          .write('version', () => response.destroy()),
    ],
    ['no policy', () => text('hello')],
  ])('is not %s', async (_, answer) => {
    world.answer = await answer()
    expect(await policiesAt().policyFor('sts.test')).toBeUndefined()
    expect(world.asked).toHaveLength(1)
  })

  test('is none without an end: whoever sends on and on is hung up on', async () => {
    const hungUp = new Promise((resolve) => {
      world.answer = (_, response) => {
        const more = (): void => {
          while (response.write('x'.repeat(16_384)));
        }
        response.writeHead(200, { 'content-type': 'text/plain' }).on('drain', more).once('close', resolve)
        more()
      }
    })
    expect(await policiesAt().policyFor('sts.test')).toBeUndefined()
    await hungUp
  })

  test('is not silence', async () => {
    const silent = createServer({ key, cert }).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    onTestFinished(async () => void (await stopped(silent)))
    const settings = { port: portOf(silent), fetchMs: 200 }
    expect(await policiesAt({ now: 0 }, settings).policyFor('sts.test')).toBeUndefined()
  })

  test('is fetched from the other family where the first is out of reach', async () => {
    // Nothing listens there; the second is the host's own, over IPv6.
    world.dns.zone['mta-sts.sts.test'] = {
      a: ['127.0.0.7', '127.0.0.8', '127.0.0.9'],
      aaaa: ['::ffff:127.0.0.1', '::ffff:127.0.0.7'],
    }
    expect(await policiesAt().policyFor('sts.test')).toMatchObject({ id: '1' })
    expect(world.asked).toHaveLength(1)
  })

  test('comes from nobody else: the certificate must be valid for that name, and the address public', async () => {
    const stranger = certificateFor('mta-sts.other.test')
    const other = await httpsHost({ key: stranger.key, cert: stranger.cert })
    expect(await policiesAt({ now: 0 }, { port: portOf(other) }).policyFor('sts.test')).toBeUndefined()
    const { trustedCa: _, ...system } = { trustedCa: ca, allowPrivate: true, port: portOf(world.host) }
    const dns = makeDns({ servers: [world.dns.address] })
    expect(await makeStsPolicies(dns, system).policyFor('sts.test')).toBeUndefined()
    expect(await policiesAt({ now: 0 }, { allowPrivate: false }).policyFor('sts.test')).toBeUndefined()
    expect(world.asked).toEqual([])
    await stopped(other)
  })

  test.each<[string, Answer]>([
    [
      'of another status',
      (_, response) =>
        response
          .writeHead(404, { 'content-type': 'text/plain' })
          .end('version: STSv1\nmode: enforce\nmx: mx.sts.test\nmax_age: 86400\n'),
    ],
    [
      'that broke off',
      (_, response) => {
        response.writeHead(200, { 'content-type': 'text/plain', 'content-length': 1_000 })
        response.write('version: STSv1\nmode: enforce\nmx: mx.sts.test\nmax_age: 86400\n', () => response.destroy())
      },
    ],
  ])('is not an answer %s, and whoever gave it is not asked again for a while', async (_, answer) => {
    const clock = { now: 0 }
    const policies = policiesAt(clock)
    world.answer = answer
    expect(await policies.policyFor('sts.test')).toBeUndefined()
    world.answer = enforce()
    later(clock, limits.stsFailedMs - 1)
    expect(await policies.policyFor('sts.test')).toBeUndefined()
    expect(world.asked).toHaveLength(1)
    later(clock, limits.stsCheckedMs + 1)
    expect(await policies.policyFor('sts.test')).toMatchObject({ mode: 'enforce' })
  })

  test('outlives a failing refresh and a record that is gone, until its time is over', async () => {
    const clock = { now: 0 }
    const sts = policiesAt(clock)
    await sts.policyFor('sts.test')
    world.answer = (_, response) => response.writeHead(500).end()
    world.dns.zone['_mta-sts.sts.test'] = { txt: ['v=STSv1; id=2'], ttl: 1 }
    later(clock, 3600_000)
    expect((await sts.policyFor('sts.test'))?.id).toBe('1')
    expect(world.asked).toHaveLength(2)
    delete world.dns.zone['_mta-sts.sts.test']
    later(clock, 3600_000)
    expect((await sts.policyFor('sts.test'))?.id).toBe('1')
    later(clock, 86_400_000)
    expect(await sts.policyFor('sts.test')).toBeUndefined()
  })

  test('is replaced when the record has another id, and renewed on the side before it runs out', async () => {
    const clock = { now: 0 }
    const sts = policiesAt(clock)
    await sts.policyFor('sts.test')
    world.dns.zone['_mta-sts.sts.test'] = { txt: ['v=STSv1; id=2'], ttl: 1 }
    world.answer = enforce('new.sts.test')
    later(clock, 61_000)
    expect(await sts.policyFor('sts.test')).toMatchObject({ id: '2', mx: ['new.sts.test'] })
    let mx: string | undefined = 'new.sts.test'
    for (const next of ['newer.sts.test', 'newest.sts.test']) {
      world.answer = enforce(next)
      later(clock, 50_000_000)
      const before = world.asked.length
      expect((await sts.policyFor('sts.test'))?.mx).toEqual([mx])
      await expect.poll(() => world.asked.length).toBe(before + 1)
      while (mx !== next) {
        await new Promise((resolve) => setTimeout(resolve, 5))
        later(clock, 61_000)
        mx = (await sts.policyFor('sts.test'))?.mx[0]
      }
    }
    expect(world.asked).toHaveLength(4)
  })

  test('that another node has fetched since counts, where ours is over and nobody answers, until its own time is over', async () => {
    const kept = new Map<string, KeptPolicy>()
    const store: PolicyStore = {
      read: (domain) => Promise.resolve(kept.get(domain)),
      keep: (domain, policy) => Promise.resolve(void kept.set(domain, { ...policy, ageMs: 0 })),
    }
    const clock = { now: 0 }
    const idle = policiesAt(clock, { store })
    await idle.policyFor('sts.test')
    later(clock, 86_400_001)
    await policiesAt({ now: 0 }, { store }).policyFor('sts.test')
    delete world.dns.zone['_mta-sts.sts.test']
    delete world.dns.zone['mta-sts.sts.test']
    expect(await idle.policyFor('sts.test')).toMatchObject({ mode: 'enforce' })
    for (const [domain, policy] of kept) kept.set(domain, { ...policy, ageMs: 86_400_000 })
    expect(await policiesAt({ now: 0 }, { store }).policyFor('sts.test')).toBe(undefined)
  })

  test('counts also where the database can neither be asked nor keep it', async () => {
    const away = () => Promise.reject(new Error('the database is away'))
    const sts = policiesAt({ now: 0 }, { store: { read: away, keep: away } })
    expect(await sts.policyFor('sts.test')).toMatchObject({ mode: 'enforce' })
  })

  test('survives a restart in the database, and those whose time is over are swept', async () => {
    const database = await storeWorld()
    const { db } = database
    const store: PolicyStore = {
      read: (domain) => readStsPolicy(db, domain),
      keep: (domain, policy) => keepStsPolicy(db, domain, policy),
    }
    await policiesAt({ now: 0 }, { store }).policyFor('sts.test')
    delete world.dns.zone['_mta-sts.sts.test']
    delete world.dns.zone['mta-sts.sts.test']
    expect(await policiesAt({ now: 0 }, { store }).policyFor('sts.test')).toMatchObject({ id: '1', mode: 'enforce' })
    // It gets no younger by that.
    const inMs = (ms: number) => database.setClock(new Date(Date.now() + ms).toISOString())
    await inMs(80_000_000)
    const clock = { now: 0 }
    const restarted = policiesAt(clock, { store })
    expect(await restarted.policyFor('sts.test')).toMatchObject({ id: '1' })
    later(clock, 6_500_000)
    await inMs(86_500_000)
    expect(await restarted.policyFor('sts.test')).toBeUndefined()
    await inMs(80_000_000)
    for (let each = 0; each < 5; each++)
      await store.keep(`d${each}.test`, { id: '1', mode: 'none', mx: [], maxAgeSeconds: 60 + each })
    await pruneStsPolicies(db, 3)
    expect(await db.run('select domain from mta_sts_policies order by domain')).toEqual(
      ['d3.test', 'd4.test', 'sts.test'].map((domain) => ({ domain })),
    )
    await inMs(86_500_000)
    await pruneStsPolicies(db, 3)
    expect(await db.run('select domain from mta_sts_policies')).toEqual([])
  })

  test('in the database: all whose time is over are swept, and none that is fetched anew at that moment', async () => {
    const database = await storeWorld()
    const { db } = database
    const keep = (domain: string, seconds: number) =>
      db.run(
        `insert into mta_sts_policies (domain, id, mode, mx, max_age_seconds, fetched_at, expires_at)
         select $1 || n, '1', 'none', '{}', 60, app_now(), app_now() + $2 * interval '1 second' + n * interval '1 ms' from generate_series(1, $3) n`,
        [domain, seconds, seconds < 0 ? 2_500 : 2],
      )
    await keep('over', -3_600)
    await keep('good', 3_600)
    await pruneStsPolicies(db, 10)
    const left = () => database.value('select array_agg(domain order by domain) from mta_sts_policies')
    expect(await left()).toEqual(['good1', 'good2'])
    const fetching = await database.holding(
      `update mta_sts_policies set id = '2', expires_at = expires_at + interval '1 day' where domain = 'good1'`,
    )
    const pruning = pruneStsPolicies(db, 1)
    await database.untilSomebodyWaits()
    await fetching.query('commit')
    await pruning
    expect(await left()).toEqual(expect.arrayContaining(['good1']))
  })
})

describe('a mail', () => {
  const receivers: Receiver[] = []
  const ends: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const end of ends.splice(0)) await end()
    for (const receiver of receivers.splice(0)) await receiver.stop()
  })
  async function send(tls?: Certificate) {
    const receiver = await startReceiver(tls === undefined ? {} : { tls })
    receivers.push(receiver)
    const transmitter = makeTransmitter({
      hostname: 'out.test',
      timeoutScale: 1,
      mxPort: receiver.port,
      sandboxPort: () => 9,
      dnsServers: [world.dns.address],
      allowPrivateMx: true,
      trustedCa: ca,
      sts: { port: portOf(world.host) },
      pool: { stopMs: 50 },
    })
    await transmitter.service.start()
    ends.push(() => transmitter.service.stop())
    const result = await transmitter.transmit({
      ...mailOf({ recipient: addressOf('ok@sts.test') }),
      route: { kind: 'mx' },
    })
    const outcome = outcomeOf(result)
    return ['reason' in outcome ? `${outcome.kind} ${outcome.reason}` : outcome.kind, result.peer?.tlsPolicy]
  }
  const stranger = certificateFor('mx.other.test')

  test('goes to a host that proves its name', async () => {
    expect(await send(own)).toEqual(['accepted', 'mta_sts'])
  })
  test.each([
    ['whose certificate is for another name', stranger],
    ['that offers no TLS', undefined],
  ])('never goes to one %s', async (_, tls) => {
    expect(await send(tls)).toEqual(['retry tls', 'mta_sts'])
  })
  test('never goes to one that the policy does not name', async () => {
    world.answer = enforce('elsewhere.sts.test')
    expect(await send(own)).toEqual(['retry tls', undefined])
  })
  test.each(['testing', 'none'])('goes as ever while the policy says %s', async (mode) => {
    world.answer = text(`version: STSv1\nmode: ${mode}\nmx: elsewhere.sts.test\nmax_age: 86400\n`)
    expect(await send(undefined)).toEqual(['accepted', undefined])
  })
})
