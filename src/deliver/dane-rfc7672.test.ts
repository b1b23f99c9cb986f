// Which certificates satisfy which TLSA records, over real handshakes; and the whole way with a real signed zone and a real validating
// resolver (Knot and Unbound): a channel that the records do not vouch for carries no mail.
import { createHash, X509Certificate } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type Server } from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { certificateBy, certificateFor, namesake } from '../../test/world/certificates.ts'
import { startDnsServer, type Name, type Zone } from '../../test/world/dns-server.ts'
import { startValidatingResolver, type ValidatingResolver } from '../../test/world/validating-resolver.ts'
import { makeDns } from '../base/dns.ts'
import { limits } from '../config.ts'
import { shownBy } from './connect.ts'
import { satisfiesDane, usableTlsa, type Tlsa } from './dane-rfc7672.ts'
import { makeTlsPolicies } from './tls-policy.ts'
import { outcomeOf } from './outcome.ts'
import { addressOf, mailOf, peerCertificate, polite, startPeer, withStartTls, type Peer } from './peer.test-kit.ts'
import { makeTransmitter, type TransmitResult, type TransmitterSettings } from './transmit.ts'

const spki = (certificate: X509Certificate) => certificate.publicKey.export({ type: 'spki', format: 'der' })
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest()
const sha512 = (bytes: Buffer) => createHash('sha512').update(bytes).digest()

describe('a certificate', () => {
  const { key, cert, ca } = certificateFor('mx.dane.test')
  const other = certificateFor('mx.other.test')
  const authority = new X509Certificate(ca)
  let server: Server
  let leaf: X509Certificate
  let shown: Buffer[]
  beforeAll(async () => {
    server = createServer({ key, cert: cert + ca }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const socket = connect({ port: (server.address() as AddressInfo).port, rejectUnauthorized: false })
    await once(socket, 'secureConnect')
    shown = shownBy(socket)
    leaf = new X509Certificate(cert)
    socket.destroy()
  })
  afterAll(() => once(server.close(), 'close'))

  const record = (usage: 2 | 3, selector: 0 | 1, matching: 0 | 1 | 2, of: X509Certificate): Tlsa => {
    const whole = selector === 0 ? of.raw : spki(of)
    return { usage, selector, matching, data: matching === 0 ? whole : matching === 1 ? sha256(whole) : sha512(whole) }
  }
  const names = ['mx.dane.test']
  const all = [0, 1].flatMap((selector) => [0, 1, 2].map((matching) => [selector, matching] as const)) as [
    0 | 1,
    0 | 1 | 2,
  ][]

  test.each(all)('its own key: 3 %s %s', (selector, matching) => {
    const rule = { records: [record(3, selector, matching, leaf)], base: 'x', names: ['not.its.name'] }
    expect(satisfiesDane(rule, shown)).toBe(true)
    expect(satisfiesDane(rule, shown, new Date('2099-01-01'))).toBe(true) // no date counts
    const stranger = new X509Certificate(other.cert)
    expect(satisfiesDane({ ...rule, records: [record(3, selector, matching, stranger)] }, shown)).toBe(false)
  })

  test.each(all)('its authority: 2 %s %s, and then names and dates count', (selector, matching) => {
    const records = [record(2, selector, matching, authority)]
    expect(satisfiesDane({ records, base: 'x', names }, shown)).toBe(true)
    expect(satisfiesDane({ records, base: 'x', names: ['mx.other.test', ...names] }, shown)).toBe(true)
    expect(satisfiesDane({ records, base: 'x', names: ['mx.other.test'] }, shown)).toBe(false)
    expect(satisfiesDane({ records, base: 'x', names }, shown, new Date('2099-01-01'))).toBe(false)
  })

  test('an authority that the server does not send is in the record itself', () => {
    const alone = [leaf.raw]
    expect(satisfiesDane({ records: [record(2, 0, 0, authority)], base: 'x', names }, alone)).toBe(true)
    expect(satisfiesDane({ records: [record(2, 0, 1, authority)], base: 'x', names }, alone)).toBe(false)
  })

  test('an authority that is named vouches for what its own key has signed, by certificates that may sign and whose time is not over', () => {
    const raw = ({ cert }: { readonly cert: string }) => new X509Certificate(cert).raw
    const isVouchedFor = (chain: readonly Buffer[], now?: Date) =>
      [record(2, 0, 0, authority), record(2, 1, 1, authority)].map((each) =>
        satisfiesDane({ records: [each], base: 'x', names }, chain, now),
      )
    const below = certificateBy(other, 'mx.dane.test')
    const mayNotSign = [below, other].map(raw)
    expect(isVouchedFor([...mayNotSign, authority.raw])).toEqual([false, false])
    expect(isVouchedFor([raw(certificateBy(namesake(), 'mx.dane.test')), authority.raw])).toEqual([false, false])
    const between = certificateBy('authority', 'between', true, 2)
    const chain = [raw(certificateBy(between, 'mx.dane.test')), raw(between), authority.raw]
    expect(isVouchedFor(chain)).toEqual([true, true])
    expect(isVouchedFor(chain, new Date(Date.now() + 3 * 86_400_000))).toEqual([false, false])
  })

  test('a certificate or a name that cannot be read satisfies nothing, and does not keep a good record from counting', () => {
    // The authority with a kind of key that nobody knows.
    const strange = Buffer.from(authority.raw)
    strange.writeUInt8(0x09, strange.indexOf('06072a8648ce3d0201', 'hex') + 8)
    const chain = [leaf.raw, strange]
    const byAuthority = record(2, 1, 1, authority)
    expect(satisfiesDane({ records: [byAuthority], base: 'x', names }, chain)).toBe(false)
    expect(satisfiesDane({ records: [byAuthority, record(3, 1, 1, leaf)], base: 'x', names }, chain)).toBe(true)
    expect(satisfiesDane({ records: [byAuthority], base: 'x', names: ['a\0b'] }, shown)).toBe(false)
    expect(satisfiesDane({ records: [record(3, 1, 1, leaf)], base: 'x', names: ['a\0b'] }, shown)).toBe(true)
  })

  test('the key that the handshake has proved is that of the first certificate: another does not step into its place where it cannot be read', () => {
    const chain = [Buffer.from('no certificate'), ...shown]
    const records = [record(3, 1, 1, leaf), record(2, 1, 1, authority)]
    for (const each of records) expect(satisfiesDane({ records: [each], base: 'x', names }, chain)).toBe(false)
  })

  test('one good record among bad ones is enough; without a usable one any certificate will do', () => {
    const wrong: Tlsa = { usage: 3, selector: 1, matching: 1, data: Buffer.alloc(32) }
    expect(satisfiesDane({ records: [wrong, record(3, 1, 1, leaf)], base: 'x', names }, shown)).toBe(true)
    expect(satisfiesDane({ records: [wrong], base: 'x', names }, shown)).toBe(false)
    expect(satisfiesDane({ records: [], base: 'x', names }, shown)).toBe(true)
    expect(satisfiesDane({ records: [wrong], base: 'x', names }, [])).toBe(false)
  })

  test.each([
    [0, 1, 1, 32],
    [1, 1, 1, 32],
    [4, 1, 1, 32],
    [3, 2, 1, 32],
    [3, 1, 3, 32],
    [3, 1, 1, 31],
    [3, 1, 2, 32],
    [3, 0, 0, 0],
  ])('%s %s %s with %s bytes means nothing for mail', (usage, selector, matchingType, length) => {
    const data = { usage, selector, matchingType, certificate: Buffer.alloc(length) }
    expect(usableTlsa([{ type: 'TLSA', name: 'x', data }])).toEqual([])
  })
})

describe('a signed zone', () => {
  let dns: ValidatingResolver
  let peer: Peer
  let clear: Peer
  const ends: (() => Promise<void>)[] = []
  beforeAll(async () => {
    peer = await startPeer({ EHLO: withStartTls })
    clear = await startPeer({ EHLO: polite.EHLO })
    const digest = sha256(spki(new X509Certificate(peerCertificate))).toString('hex')
    const hosts = ['good', 'wrong', 'unusable', 'none'].flatMap((name) => [
      `${name} IN MX 10 mx-${name}`,
      `mx-${name} IN A 127.0.0.1`,
    ])
    dns = await startValidatingResolver('dane.test', [
      ...hosts,
      `alias IN MX 10 mx-alias`,
      `mx-alias IN CNAME mx-good`,
      // What the alias leads to is in nobody's signed zone; the alias itself, and its TLSA records, are.
      `leaves IN MX 10 mx-leaves`,
      `mx-leaves IN CNAME unsigned.test.`,
      `_${peer.port}._tcp.mx-leaves IN TLSA 3 1 1 ${digest}`,
      `strays IN MX 10 mx-strays`,
      `mx-strays IN CNAME unsigned.test.`,
      `_${peer.port}._tcp.mx-strays IN TLSA 3 1 1 ${'ab'.repeat(32)}`,
      `_${peer.port}._tcp.mx-good IN TLSA 3 1 1 ${digest}`,
      `_${clear.port}._tcp.mx-good IN TLSA 3 1 1 ${digest}`,
      `_${peer.port}._tcp.mx-wrong IN TLSA 3 1 1 ${'ab'.repeat(32)}`,
      `_${peer.port}._tcp.mx-unusable IN TLSA 1 1 1 ${'ab'.repeat(32)}`,
      `_${clear.port}._tcp.mx-unusable IN TLSA 1 1 1 ${'ab'.repeat(32)}`,
    ])
  })
  afterAll(async () => {
    for (const end of ends) await end()
    await Promise.all([dns?.stop(), peer?.stop(), clear?.stop()])
  })

  async function send(domain: string, to: Peer, more: Partial<TransmitterSettings> = {}): Promise<TransmitResult> {
    const transmitter = makeTransmitter({
      hostname: 'out.test',
      timeoutScale: 1,
      mxPort: to.port,
      sandboxPort: () => 9,
      dnsServers: [dns.address],
      probes: dns.probes,
      allowPrivateMx: true,
      pool: { stopMs: 50 },
      ...more,
    })
    await transmitter.service.start()
    ends.push(() => transmitter.service.stop())
    return transmitter.transmit({ ...mailOf({ recipient: addressOf(`a@${domain}.dane.test`) }), route: { kind: 'mx' } })
  }
  const meaning = (result: TransmitResult) => {
    const outcome = outcomeOf(result)
    return 'reason' in outcome ? `${outcome.kind} ${outcome.reason}` : outcome.kind
  }

  test.each([
    ['good', 'accepted', 'dane'],
    ['alias', 'accepted', 'dane'],
    ['leaves', 'accepted', 'dane'],
    ['strays', 'retry tls', 'dane'],
    ['unusable', 'accepted', 'dane'],
    ['none', 'accepted', undefined],
    ['wrong', 'retry tls', 'dane'],
  ])('%s: %s', async (domain, expected, policy) => {
    const dots = peer.dots
    const result = await send(domain, peer)
    expect([meaning(result), result.peer?.tlsPolicy]).toEqual([expected, policy])
    expect(peer.dots - dots).toBe(expected === 'accepted' ? 1 : 0)
    if (expected === 'accepted') expect(result.peer?.tls).toMatch(/^TLSv1/)
  })

  test.each(['good', 'unusable'])('%s: a server that offers no TLS gets nothing', async (domain) => {
    expect(meaning(await send(domain, clear))).toBe('retry tls')
    expect(clear.heard.filter((line) => line.startsWith('MAIL'))).toEqual([])
  })

  test.each([
    ['vouches for nothing', () => ({ dnsServers: [dns.authority] })],
    ['lets a forged name pass', () => ({ probes: ['dane.test', 'mx-good.dane.test'] })],
    ['knows no signed name', () => ({ probes: ['forged.test', 'forged.test'] })],
  ])('a resolver that %s is not believed: encrypted where offered, as ever', async (_, more) => {
    const result = await send('wrong', peer, more())
    expect([meaning(result), result.peer?.tlsPolicy]).toEqual(['accepted', undefined])
  })
})

const probes = { signed: 'probe.test', forged: 'forged.test' }
const passing: Zone = {
  'probe.test': { soa: { ttl: 60, minimum: 60 }, secure: true },
  'forged.test': 'servfail',
  '_25._tcp.mx.test': {
    tlsa: [{ usage: 3, selector: 1, matchingType: 1, certificate: Buffer.alloc(32, 1) }],
    secure: true,
  },
}
const host = { host: 'mx.test', address: '8.8.8.8', secure: true, canonical: 'mx.test' }

describe('a resolver whose self-test meets', () => {
  const hour = 3_600_000

  /** What is said about the host by a clock of the test's own; `zone` is what the resolver says. */
  async function over(
    first: Zone,
    act: (
      kind: () => Promise<string | undefined>,
      wait: (ms: number) => void,
      zone: Record<string, Name>,
    ) => Promise<void>,
  ) {
    const dns = await startDnsServer({ ...passing, ...first })
    let at = 0
    try {
      const asking = makeDns({ servers: [dns.address], queryMs: 50, tries: 1 })
      const policies = makeTlsPolicies(asking, { policyFor: async () => undefined }, probes, () => at)
      const kind = async () => {
        const policy = (await policies.policiesFor('d.test', [host], 25)).get('mx.test')
        return policy?.kind === 'opportunistic' && policy.unsure === true ? 'unsure' : policy?.kind
      }
      await act(kind, (ms) => void (at += ms), dns.zone)
    } finally {
      await dns.stop()
    }
  }
  const untilSo = async (kind: () => Promise<string | undefined>, wanted: string) => {
    while ((await kind()) !== wanted) await new Promise(setImmediate)
  }

  test.each([
    ['silence for the forged name', { 'forged.test': 'silence' }],
    ['silence for the signed one', { 'probe.test': 'silence' }],
    ['an error for the signed one', { 'probe.test': 'servfail' }],
  ] as const)('%s is believed on, but no longer than a day', async (_, silent) => {
    await over({}, async (kind, wait, zone) => {
      expect(await kind()).toBe('dane')
      wait(hour + 1)
      Object.assign(zone, silent)
      expect(await kind()).toBe('dane')
      wait(22 * hour)
      expect(await kind()).toBe('dane')
      wait(2 * hour)
      await untilSo(kind, 'unsure')
    })
  })

  test('a wrong answer is not believed any more, and silence after it mends nothing', async () => {
    await over({}, async (kind, wait, zone) => {
      expect(await kind()).toBe('dane')
      wait(hour + 1)
      zone['forged.test'] = { a: ['192.0.2.1'] }
      expect(await kind()).toBe('opportunistic')
      wait(hour + 1)
      zone['forged.test'] = 'silence'
      expect(await kind()).toBe('unsure')
    })
  })

  test('silence at the very first is asked again in seconds', async () => {
    await over({ 'forged.test': 'silence' }, async (kind, wait, zone) => {
      expect(await kind()).toBe('unsure')
      zone['forged.test'] = 'servfail'
      wait(5_001)
      await untilSo(kind, 'dane')
    })
  })
})

test('what one server of the system has shown says nothing about the one that the system names after it', async () => {
  const first = await startDnsServer(passing)
  const silent = await startDnsServer({ ...passing, 'forged.test': 'silence' })
  let [named, at] = [first.address, 0]
  try {
    const asking = makeDns({ servers: [], system: () => [named], queryMs: 50, tries: 1, now: () => at })
    const policies = makeTlsPolicies(asking, { policyFor: async () => undefined }, probes, () => at)
    const policy = async () => (await policies.policiesFor('d.test', [host], 25)).get('mx.test')
    expect(await policy()).toMatchObject({ kind: 'dane' })
    named = silent.address
    at += limits.dnsServersReadMs + 1
    expect(await policy()).toEqual({ kind: 'opportunistic', unsure: true })
  } finally {
    await first.stop()
    await silent.stop()
  }
})

describe('a name server of the system that hands on what another says, the AD bit too', () => {
  test.each([
    ['127.0.0.1', 'dane', 'on this machine: nobody stands between, and who set it up answers for it'],
    ['127.0.0.11', 'opportunistic', "Docker's in a container: behind it may be any server, and anybody on the way"],
  ])('%s: %s, %s', async (listening, kind) => {
    const distant = await startDnsServer(passing)
    const near = createSocket('udp4')
    near.on('message', (question, asker) => {
      const way = createSocket('udp4')
      way.on('message', (answer) => {
        near.send(answer, asker.port, asker.address)
        way.close()
      })
      way.send(question, Number(distant.address.split(':')[1]), '127.0.0.1')
    })
    near.bind(0, listening)
    await once(near, 'listening')
    try {
      const asking = makeDns({ servers: [], system: () => [`${listening}:${near.address().port}`] })
      const policies = makeTlsPolicies(asking, { policyFor: async () => undefined }, probes)
      expect((await policies.policiesFor('d.test', [host], 25)).get('mx.test')?.kind).toBe(kind)
    } finally {
      await once(near.close(), 'close')
      await distant.stop()
    }
  })
})

test('trouble of this machine with the question is no answer, and none that is kept', async () => {
  const asking = makeDns({ servers: ['127.0.0.1:65536'], queryMs: 50, tries: 1 }) // no port: a question throws
  const policies = makeTlsPolicies(asking, { policyFor: async () => undefined }, probes)
  for (let n = 0; n < 2; n++)
    expect((await policies.policiesFor('d.test', [host], 25)).get('mx.test')).toEqual({
      kind: 'opportunistic',
      unsure: true,
    })
})

test('only signed TLSA records count, and a host whose records nobody tells is not spoken to: an attacker could be why (RFC 7672 2.1.2)', async () => {
  const tlsa = [{ usage: 3, selector: 1, matchingType: 1, certificate: Buffer.alloc(32, 1) }]
  const dns = await startDnsServer({
    'probe.test': { soa: { ttl: 60, minimum: 60 }, secure: true },
    'forged.test': 'servfail',
    '_25._tcp.told.test': { tlsa, secure: true },
    '_25._tcp.unsigned.test': { tlsa },
    '_25._tcp.failing.test': 'servfail',
    '_25._tcp.silent.test': 'silence',
  })
  try {
    const asking = makeDns({ servers: [dns.address], queryMs: 200, tries: 1 })
    const policies = makeTlsPolicies(
      asking,
      { policyFor: async () => undefined },
      { signed: 'probe.test', forged: 'forged.test' },
    )
    const hosts = ['told.test', 'unsigned.test', 'failing.test', 'silent.test', 'none.test'].map((host) => ({
      host,
      address: '8.8.8.8',
      secure: true,
      canonical: host,
    }))
    const found = await policies.policiesFor('receiver.test', hosts, 25)
    const rule = { base: 'told.test', names: ['told.test', 'receiver.test'] }
    expect(found.get('told.test')).toMatchObject({ rule })
    expect([...found].map(([, { kind }]) => kind)).toEqual([
      'dane',
      'opportunistic',
      'ruled_out',
      'ruled_out',
      'opportunistic',
    ])
  } finally {
    await dns.stop()
  }
})
