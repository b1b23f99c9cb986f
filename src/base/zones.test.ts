import { afterEach, expect, test } from 'vitest'
import { startDnsServer, type DnsServer, type Zone } from '../../test/world/dns-server.ts'
import { makeZones, textOf } from './zones.ts'

const servers: DnsServer[] = []
const start = async (zone: Zone): Promise<DnsServer> => {
  const server = await startDnsServer(zone)
  servers.push(server)
  return server
}
afterEach(() => Promise.all(servers.splice(0).map((server) => server.stop())))

test('the operator’s own servers are asked instead, where they have a port of their own', async () => {
  const server = await start({ 'x.example.org': { txt: ['one'] } })
  const zones = makeZones({ servers: [server.address], queryMs: 2_000 })
  expect((await zones.ask('x.example.org', 'TXT')).records.map(textOf)).toEqual(['one'])
  expect(await zones.ask('y.example.org', 'TXT')).toMatchObject({ kind: 'not_found' })
  expect(server.asked).toEqual(['TXT x.example.org', 'TXT y.example.org'])
})

test('long values come over TCP, whole', async () => {
  const long = 'k'.repeat(700)
  const server = await start({ 'x.example.org': { txt: [long], truncated: true } })
  const answer = await makeZones({ servers: [server.address] }).ask('x.example.org', 'TXT')
  expect(answer.records.map(textOf)).toEqual([long])
  expect(server.asked).toEqual(['TXT x.example.org', 'TXT x.example.org tcp'])
})

test('aliases are followed, and a ring of them ends', async () => {
  const server = await start({
    'a.example': { cname: 'b.example' },
    'b.example': { txt: ['found'] },
    'r.example': { cname: 's.example' },
    's.example': { cname: 'r.example' },
  })
  const zones = makeZones({ servers: [server.address] })
  expect(await zones.ask('a.example', 'TXT')).toMatchObject({ kind: 'found', aliases: ['b.example'] })
  expect((await zones.ask('r.example', 'TXT')).kind).not.toBe('found')
})

test.each(['silence', 'servfail', 'refused', 'garbage'] as const)('%s is no answer', async (trouble) => {
  const server = await start({ 'x.example.org': trouble })
  const zones = makeZones({ servers: [server.address], queryMs: 200 })
  expect(await zones.ask('x.example.org', 'TXT')).toMatchObject({ kind: 'unanswered' })
})

test('the zone’s own servers are found from the name upwards, and asked for what they know themselves', async () => {
  const zone = await start({ '_posthorn.example.org': { txt: ['fresh'] } })
  const resolver = await start({
    'example.org': { ns: ['ns1.example.net', 'ns2.example.net'] },
    'ns1.example.net': { a: ['127.0.0.2'] }, // nobody there
    'ns2.example.net': { a: ['127.0.0.1'] },
    '_posthorn.example.org': { txt: ['an old memory'] },
  })
  const zones = makeZones({ servers: [resolver.address], zonePort: zone.port, queryMs: 300 })
  expect((await zones.ask('_posthorn.example.org', 'TXT')).records.map(textOf)).toEqual(['fresh'])
  expect(await zones.ask('gone.example.org', 'TXT')).toMatchObject({ kind: 'not_found' })
  expect(await zones.ask('x.elsewhere.org', 'TXT')).toMatchObject({ kind: 'unanswered' })
  expect(resolver.asked).not.toContain('TXT _posthorn.example.org')
})

// The resolver follows an alias for that question too, into a zone that may be broken, and some servers know no NS below their own name.
test('a name whose own NS records cannot be told is asked of the zone above it; silence is not waited for once more', async () => {
  const zone = await start({ 'bounces.example.org': { cname: 'mail.example.net' } })
  const resolver = await start({
    'example.org': { ns: ['ns.example.net'] },
    'ns.example.net': { a: ['127.0.0.1'] },
    'bounces.example.org': 'servfail',
    'silent.example.org': 'silence',
  })
  const zones = makeZones({ servers: [resolver.address], zonePort: zone.port, queryMs: 300 })
  expect(await zones.ask('bounces.example.org', 'CNAME')).toMatchObject({ kind: 'found' })
  resolver.asked.length = 0
  expect(await zones.ask('silent.example.org', 'CNAME')).toMatchObject({ kind: 'unanswered' })
  expect(resolver.asked).toEqual(['NS silent.example.org'])
})
