// Against a real name server on loopback, UDP and TCP.
import { afterAll, describe, expect, test } from 'vitest'
import { startDnsServer } from '../../test/world/dns-server.ts'
import type { Zone } from '../../test/world/dns-server.ts'
import { limits } from '../config.ts'
import { makeDns, type DnsSettings } from '../base/dns.ts'
import { makeResolver } from './resolve.ts'
import type { Resolved, ResolverSettings } from './resolve.ts'

const public1 = '8.8.4.1'
const public2 = '8.8.4.2'
const many = Array.from({ length: 15 }, (_, at) => at + 1)

const zone: Zone = {
  'two.test': {
    mx: [
      { preference: 20, exchange: 'b.two.test' },
      { preference: 10, exchange: 'a.two.test' },
    ],
  },
  'a.two.test': { a: [public1], aaaa: ['2606:4700::1'] },
  'b.two.test': { a: [public2] },
  'equal.test': { mx: ['a', 'b'].map((host) => ({ preference: 5, exchange: `${host}.two.test` })) },
  'signed.test': {
    mx: ['mx.signed.test', 'a.two.test'].map((exchange) => ({ preference: 5, exchange })),
    secure: true,
  },
  'mx.signed.test': { a: [public1], secure: true },
  'unsigned.test': { mx: [{ preference: 5, exchange: 'mx.signed.test' }] },
  'implicit.test': { a: [public1] },
  'implicit6.test': { aaaa: ['2606:4700::1'] },
  'alias.test': { cname: 'two.test' },
  'null.test': { mx: [{ preference: 0, exchange: '.' }], a: [public1] },
  'null-and-more.test': {
    mx: [
      { preference: 0, exchange: '.' },
      { preference: 5, exchange: 'a.two.test' },
    ],
  },
  'bare.test': { txt: ['nothing here'] },
  'dangling.test': { mx: [{ preference: 5, exchange: 'gone.test' }] },
  'half-dangling.test': {
    mx: [
      { preference: 1, exchange: 'gone.test' },
      { preference: 5, exchange: 'a.two.test' },
    ],
  },
  'literal.test': { mx: [{ preference: 5, exchange: '8.8.8.8' }] },
  'servfail.test': 'servfail',
  'refused.test': 'refused',
  'silence.test': 'silence',
  'garbage.test': 'garbage',
  'broken-host.test': { mx: [{ preference: 5, exchange: 'servfail.test' }] },
  'broken-aaaa.test': { a: [public1], broken: { types: ['AAAA'], how: 'servfail' } },
  'broken-four.test': { aaaa: ['2606:4700::1'], broken: { types: ['A'], how: 'servfail' } },
  'broken-backup.test': {
    mx: [
      { preference: 5, exchange: 'a.two.test' },
      { preference: 9, exchange: 'servfail.test' },
    ],
  },
  'broken-six.test': { a: [], broken: { types: ['AAAA'], how: 'servfail' } },
  'broken-a.test': { broken: { types: ['A'], how: 'servfail' } },
  'truncated.test': { mx: [{ preference: 5, exchange: 'a.two.test' }], truncated: true },
  'huge.test': {
    a: [public1],
    mx: Array.from({ length: 1_000 }, (_, n) => ({ preference: n, exchange: `mx${n}.huge.test` })),
    truncated: true,
  },
  'private.test': {
    mx: [
      { preference: 5, exchange: 'lan.test' },
      { preference: 6, exchange: 'loop.test' },
    ],
  },
  'lan.test': { a: ['10.0.0.1', '192.168.0.1'], aaaa: ['fd00::1', '::ffff:10.0.0.1'] },
  'loop.test': { a: ['127.0.0.1'] },
  'mixed.test': { mx: [{ preference: 5, exchange: 'half-private.test' }] },
  'half-private.test': { a: ['10.0.0.1', public1] },
  'private-and-broken.test': {
    mx: [
      { preference: 5, exchange: 'lan.test' },
      { preference: 6, exchange: 'servfail.test' },
    ],
  },
  'hosted.test': { mx: [{ preference: 5, exchange: 'both.test' }] },
  'both.test': { a: many.slice(0, 4).map((last) => `8.8.8.${last}`), aaaa: ['2606:4700::1', '2606:4700::2'] },
  'many.test': { mx: many.map((at) => ({ preference: at, exchange: `h${at}.many.test` })) },
  ...Object.fromEntries(many.map((at) => [`h${at}.many.test`, { a: many.map((last) => `8.8.${at}.${last}`) }])),
}

const dns = await startDnsServer(zone)
afterAll(() => dns.stop())

const resolverOf = (more: Partial<ResolverSettings & DnsSettings> = {}) => {
  const asking = makeDns({ servers: [dns.address], tries: 1, ...more })
  const ownServers = more.servers?.length !== 0
  return { ...makeResolver(asking, { allowPrivate: false, ownServers, ...more }), cancel: () => asking.cancel() }
}
const shown = (resolved: Resolved) =>
  'trouble' in resolved ? resolved.trouble : resolved.hosts.map(({ host, address }) => `${host} ${address}`)

describe('the hosts of a domain', () => {
  test.each([
    ['two.test', [`a.two.test ${public1}`, 'a.two.test 2606:4700::1', `b.two.test ${public2}`]],
    ['implicit.test', [`implicit.test ${public1}`]],
    ['implicit6.test', ['implicit6.test 2606:4700::1']],
    ['alias.test', [`a.two.test ${public1}`, 'a.two.test 2606:4700::1', `b.two.test ${public2}`]],
    ['null-and-more.test', [`a.two.test ${public1}`, 'a.two.test 2606:4700::1']],
    ['half-dangling.test', [`a.two.test ${public1}`, 'a.two.test 2606:4700::1']],
    ['broken-aaaa.test', [`broken-aaaa.test ${public1}`]],
    ['truncated.test', [`a.two.test ${public1}`, 'a.two.test 2606:4700::1']],
    ['mixed.test', [`half-private.test ${public1}`]],
    ['gone.test', 'nxdomain'],
    ['null.test', 'null_mx'],
    ['bare.test', 'no_mail_host'],
    ['dangling.test', 'no_mail_host'],
    ['literal.test', 'no_mail_host'],
    ['private.test', 'private_mx'],
    ['servfail.test', 'dns_failure'],
    ['refused.test', 'dns_failure'],
    ['silence.test', 'dns_failure'],
    ['garbage.test', 'dns_failure'],
    ['huge.test', 'dns_failure'],
    ['broken-host.test', 'dns_failure'],
    ['broken-a.test', 'dns_failure'],
    ['broken-six.test', 'dns_failure'],
    ['private-and-broken.test', 'dns_failure'],
  ])('%s', async (domain, expected) => {
    // As patient as we are, but where nobody answers.
    const isSilent = ['silence.test', 'garbage.test'].includes(domain)
    expect(shown(await resolverOf(isSilent ? { queryMs: 100 } : {}).mailHosts(domain))).toEqual(expected)
  })

  test.each([
    ['the host has no AAAA that can be asked for', 'broken-aaaa.test'],
    ['a backup host cannot be asked for', 'broken-backup.test'],
  ])('what was found is remembered where %s: not every mail waits for that', async (_, domain) => {
    const { keepMs } = await resolverOf().mailHosts(domain)
    expect(keepMs).toBeGreaterThanOrEqual(limits.dnsKeptMsMin)
    expect(keepMs).toBeLessThanOrEqual(limits.mailHostsWantingMs)
  })

  test('IPv6 alone, while A cannot be asked for, is not remembered: not every machine has it', async () => {
    expect(await resolverOf().mailHosts('broken-four.test')).toMatchObject({ hosts: [{}], keepMs: 0 })
  })

  test('private addresses count where the operator says so', async () => {
    const found = shown(await resolverOf({ allowPrivate: true }).mailHosts('private.test'))
    expect(found).toContain('lan.test 10.0.0.1')
    expect(found).toContain('loop.test 127.0.0.1')
  })

  test('hosts of equal preference are shuffled', async () => {
    const firstWith = async (lots: number[]) => {
      const found = await resolverOf({ random: () => lots.shift() ?? 0 }).mailHosts('equal.test')
      return 'hosts' in found && found.hosts[0]?.host
    }
    expect(new Set([await firstWith([0.1, 0.9]), await firstWith([0.9, 0.1])])).toEqual(
      new Set(['a.two.test', 'b.two.test']),
    )
  })

  test('hosts and their addresses are limited', async () => {
    const found = await resolverOf().mailHosts('many.test')
    const hosts = 'hosts' in found ? found.hosts : []
    expect(hosts).toHaveLength(limits.mxHostsMax * limits.addressesPerHostMax)
    expect(new Set(hosts.map(({ host }) => host)).size).toBe(limits.mxHostsMax)
  })

  test('of a host with many addresses of one family, one of the other stays', async () => {
    const found = await resolverOf().mailHosts('hosted.test')
    const addresses = 'hosts' in found ? found.hosts.map(({ address }) => address) : []
    expect(addresses).toHaveLength(limits.addressesPerHostMax)
    expect(addresses.at(-1)).toBe('2606:4700::1')
  })

  test('nobody answers at all', async () => {
    const gone = await startDnsServer()
    await gone.stop()
    expect(shown(await resolverOf({ servers: [gone.address] }).mailHosts('two.test'))).toBe('dns_failure')
  })

  test('cancelling ends the questions under way', async () => {
    const resolver = resolverOf({ queryMs: 60_000 })
    const found = resolver.mailHosts('silence.test')
    resolver.cancel()
    expect(shown(await found)).toBe('dns_failure')
  })
})

describe('a backlog to one domain', () => {
  const questions = (name: string) => dns.asked.filter((question) => question === `MX ${name}`).length

  test('asks once, at the same time and for a while after', async () => {
    dns.zone['busy.test'] = { a: [public1] }
    const resolver = resolverOf()
    await Promise.all(Array.from({ length: 50 }, () => resolver.mailHosts('busy.test')))
    await resolver.mailHosts('busy.test')
    expect(questions('busy.test')).toBe(1)
  })

  test('asks again when the time that the records say is over, and not before', async () => {
    let at = 0
    const resolver = resolverOf({ now: () => at })
    dns.zone['later.test'] = { a: [public1], ttl: 90 }
    const first = await resolver.mailHosts('later.test')
    expect([shown(first), first.keepMs]).toEqual([[`later.test ${public1}`], limits.dnsKeptMsMin])
    dns.zone['later.test'] = { a: [public2], ttl: 90 }
    at = 89_000
    expect(shown(await resolver.mailHosts('later.test'))).toEqual([`later.test ${public1}`])
    at = 91_000
    expect(shown(await resolver.mailHosts('later.test'))).toEqual([`later.test ${public2}`])
  })

  test.each([
    ['a long time', 86_400 * 30, limits.dnsKeptMsMax],
    ['no time at all', 0, limits.dnsKeptMsMin],
  ])('records that say %s are kept within bounds', async (_, ttl, expected) => {
    dns.zone['bounds.test'] = { mx: [{ preference: 1, exchange: 'h.bounds.test' }], ttl }
    dns.zone['h.bounds.test'] = { a: [public1], aaaa: ['2606:4700::9'], ttl }
    expect((await resolverOf().mailHosts('bounds.test')).keepMs).toBe(expected)
  })

  test('a no is kept as long as its SOA says', async () => {
    let at = 0
    const resolver = resolverOf({ now: () => at })
    dns.zone['soa.example'] = { soa: { ttl: 300, minimum: 40 } }
    expect(shown(await resolver.mailHosts('coming.soa.example'))).toBe('nxdomain')
    dns.zone['coming.soa.example'] = { a: [public1] }
    at = 39_000
    expect(shown(await resolver.mailHosts('coming.soa.example'))).toBe('nxdomain')
    at = 41_000
    expect(shown(await resolver.mailHosts('coming.soa.example'))).toEqual([`coming.soa.example ${public1}`])
  })

  test('a failure is never kept', async () => {
    const resolver = resolverOf()
    dns.zone['broken.example'] = 'servfail'
    expect(shown(await resolver.mailHosts('broken.example'))).toBe('dns_failure')
    dns.zone['broken.example'] = { a: [public1] }
    expect(shown(await resolver.mailHosts('broken.example'))).toEqual([`broken.example ${public1}`])
  })
})

describe('who may answer', () => {
  test.each(['wrong id', 'other question', 'no question', 'other name'] as const)(
    'not one with %s',
    async (forgery) => {
      dns.zone['forged.test'] = { a: [public1], forgedFirst: forgery }
      expect(shown(await resolverOf().mailHosts('forged.test'))).toEqual([`forged.test ${public1}`])
    },
  )

  test('every question comes from a port of its own', async () => {
    const resolver = resolverOf()
    await Promise.all(['two.test', 'equal.test', 'implicit.test'].map((name) => resolver.mailHosts(name)))
    expect(new Set(dns.ports.slice(-8)).size).toBeGreaterThan(5)
  })

  test('a silent server is followed by the next one', async () => {
    const deaf = await startDnsServer({ 'two.test': 'silence', 'a.two.test': 'servfail', 'b.two.test': 'refused' })
    const found = await resolverOf({ servers: [deaf.address, dns.address], queryMs: 100 }).mailHosts('two.test')
    expect(shown(found)).toEqual([`a.two.test ${public1}`, 'a.two.test 2606:4700::1', `b.two.test ${public2}`])
    await deaf.stop()
  })
})

// Else TLSA records would count, or their name servers hold up mail, of hosts that anybody on the way may have named (RFC 7672 2.2.1).
test('a host is secure where both its name and its address were signed', async () => {
  const secureOf = async (domain: string) => {
    const found = await resolverOf({ random: () => 0.5 }).mailHosts(domain)
    return 'hosts' in found && Object.fromEntries(found.hosts.map(({ host, secure }) => [host, secure]))
  }
  expect(await secureOf('signed.test')).toEqual({ 'mx.signed.test': true, 'a.two.test': false })
  expect(await secureOf('unsigned.test')).toEqual({ 'mx.signed.test': false })
  expect(await secureOf('mx.signed.test')).toEqual({ 'mx.signed.test': true })
  expect(await secureOf('implicit.test')).toEqual({ 'implicit.test': false })
})

test.each([
  [
    'a name, private or not',
    'lan.test',
    ['lan.test 10.0.0.1', 'lan.test 192.168.0.1', 'lan.test fd00::1', 'lan.test ::ffff:a00:1'],
  ],
  ['an address', '10.1.2.3', ['10.1.2.3 10.1.2.3']],
  ['localhost', 'localhost', ['localhost 127.0.0.1']],
  ['a name that is not found is no reason to fail mail', 'gone.test', 'dns_failure'],
  ['nor is one without addresses', 'bare.test', 'dns_failure'],
])('a relay by %s', async (_, host, expected) => {
  expect(shown(await resolverOf().relayHosts(host))).toEqual(expected)
})

test('a relay that could not be found is looked for again at the next mail', async () => {
  const resolver = resolverOf()
  dns.zone['back.test'] = 'servfail'
  expect(shown(await resolver.relayHosts('back.test'))).toBe('dns_failure')
  dns.zone['back.test'] = { a: [public1] }
  expect(shown(await resolver.relayHosts('back.test'))).toEqual([`back.test ${public1}`])
})

test('without servers of its own, a relay is found as the system finds it', async () => {
  expect(shown(await resolverOf({ servers: [] }).relayHosts('localhost'))).toContain('localhost 127.0.0.1')
  expect(shown(await resolverOf({ servers: [] }).relayHosts('not a name'))).toBe('dns_failure')
})
