import { expect, test } from 'vitest'
import { limits, parseRoute } from '../config.ts'
import { addressOf } from './peer.test-kit.ts'
import { builtInManners } from './providers.ts'
import type { MailResolver, Resolved } from './resolve.ts'
import { isSimulator } from '../domain/simulator.ts'
import { makeRouter } from './route.ts'
import type { TlsPolicy } from './tls-policy.ts'

/** Answers with fixed addresses: what lies behind it has tests of its own. */
function routerOver(resolved: Resolved, policy: TlsPolicy = { kind: 'opportunistic' }) {
  const resolver: MailResolver = { mailHosts: async () => resolved, relayHosts: async () => resolved }
  const policies = { policiesFor: async () => new Map([['relay.test', policy]]) }
  return makeRouter({ mxPort: 2525, sandboxPort: () => 4025 }, resolver, policies)
}
const at = (...addresses: string[]): Resolved => ({
  hosts: addresses.map((address) => ({ host: 'relay.test', address, secure: false, canonical: 'relay.test' })),
  keepMs: 0,
})
const someone = addressOf('someone@receiver.test')

async function only(route: string, resolved: Resolved = at('8.8.8.8'), recipient = someone, policy?: TlsPolicy) {
  const routed = await routerOver(resolved, policy).targetsFor(parseRoute(route), recipient)
  if ('trouble' in routed || routed.targets.length !== 1) throw new Error('not one target')
  return routed.targets[0]
}

test.each([
  ['sandbox', '8.8.8.8', { address: '127.0.0.1', port: 4025, tls: 'clear', verify: false }],
  ['mx', '8.8.8.8', { address: '8.8.8.8', port: 2525, tls: 'opportunistic', verify: false }],
  ['mx?tls=required', '8.8.8.8', { port: 2525, tls: 'required', verify: false, tlsPolicy: 'route' }],
  ['smtp://relay.test?tls=required', '8.8.8.8', { port: 587, tls: 'required', verify: true, tlsPolicy: 'route' }],
  ['smtp://relay.test', '8.8.8.8', { port: 587, tls: 'opportunistic', verify: false }],
  ['smtp://me:pw@relay.test:25', '10.0.0.1', { port: 25, tls: 'required', verify: true }],
  ['smtp://me:pw@localhost:25', '127.0.0.1', { port: 25, tls: 'opportunistic', verify: false }],
  ['smtps://relay.test', '8.8.8.8', { port: 465, tls: 'implicit', verify: true }],
  ['smtps://me:pw@relay.test', '::1', { port: 465, tls: 'implicit', verify: false }],
])('%s at %s', async (route, address, expected) => {
  expect(await only(route, at(address))).toMatchObject(expected)
})

// The operator chose the relay, and the sandbox is ours: manners towards strangers once cost delivery a third of its rate.
test.each([
  ['sandbox', limits.connectionsPerRelayMax],
  ['smtp://relay.test', limits.connectionsPerRelayMax],
  ['mx', limits.connectionsPerDestinationMax],
])('%s may have so many connections, by its target and by the manners of its provider', async (route, connections) => {
  const target = await only(route)
  expect(target?.connectionsMax).toBe(connections)
  expect(builtInManners(target?.provider ?? '').connections).toBe(connections)
})

test('the simulator is in the sandbox on every installation', async () => {
  const simulated = addressOf('delivered@simulator.posthorn.test')
  for (const route of ['sandbox', 'mx', 'smtp://me:pw@relay.test']) {
    expect(await only(route, { trouble: 'nxdomain', keepMs: 0 }, simulated)).toMatchObject({
      address: '127.0.0.1',
      port: 4025,
    })
    expect(routerOver(at()).kindOf(parseRoute(route), simulated)).toBe('sandbox')
  }
  expect(isSimulator('simulator.posthorn.test')).toBe(true)
  expect(isSimulator('sub.simulator.posthorn.test')).toBe(false)
  expect(routerOver(at()).kindOf(parseRoute('mx'), someone)).toBe('mx')
})

test('what DNS says is passed on', async () => {
  const routed = await routerOver({ trouble: 'null_mx', keepMs: 0 }).targetsFor({ kind: 'mx' }, someone)
  expect(routed).toEqual({ trouble: 'null_mx' })
})

test('connections are shared by what makes no difference, and by nothing else', async () => {
  const keys = await Promise.all(
    [
      'smtp://relay.test',
      'smtp://relay.test:2525',
      'smtp://me:pw@relay.test',
      'smtp://me:other@relay.test',
      'smtp://you:pw@relay.test',
      'smtps://relay.test:587',
    ].map(async (route) => (await only(route))?.key),
  )
  expect(new Set(keys).size).toBe(keys.length)
  expect((await only('smtp://other.test'))?.key).toBe(keys[0])
  // Whose certificate was proved is a name: another one's host at that address has proved nothing.
  const under = (host: string): Resolved => ({
    hosts: [{ host, address: '8.8.8.8', secure: false, canonical: host }],
    keepMs: 0,
  })
  const verified = 'smtp://relay.test?tls=required'
  expect((await only(verified, under('one.test')))?.key).not.toBe((await only(verified, under('other.test')))?.key)
  const dane = async (names: readonly string[]) =>
    (await only('mx', at('8.8.8.8'), someone, { kind: 'dane', rule: { records: [], base: 'relay.test', names } }))?.key
  expect(await dane(['relay.test', 'one.test'])).not.toBe(await dane(['relay.test', 'other.test']))
})

test('what a domain asks for by policy is done, and a host that its policy rules out is not spoken to', async () => {
  const rule = { records: [], base: 'relay.test', names: ['relay.test'] }
  expect(await only('mx', at('8.8.8.8'), someone, { kind: 'dane', rule })).toMatchObject({
    tls: 'required',
    verify: false,
    dane: rule,
    tlsPolicy: 'dane',
  })
  expect(await only('mx', at('8.8.8.8'), someone, { kind: 'mta_sts' })).toMatchObject({
    tls: 'required',
    verify: true,
    tlsPolicy: 'mta_sts',
  })
  const none = await routerOver(at('8.8.8.8'), { kind: 'ruled_out' }).targetsFor({ kind: 'mx' }, someone)
  expect(none).toEqual({ trouble: 'tls_failed' })
})
