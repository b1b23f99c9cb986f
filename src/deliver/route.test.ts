import { expect, test } from 'vitest'
import { limits, parseRoute } from '../config.ts'
import { addressOf } from './peer.test-kit.ts'
import type { MailResolver, Resolved } from './resolve.ts'
import { isSimulator } from '../domain/simulator.ts'
import { makeRouter } from './route.ts'

/** Answers with fixed addresses: what lies behind it has tests of its own. */
function routerOver(resolved: Resolved) {
  const resolver: MailResolver = {
    mailHosts: async () => resolved,
    relayHosts: async () => resolved,
    cancel: () => undefined,
  }
  return makeRouter({ mxPort: 2525, sandboxPort: () => 4025 }, resolver)
}
const at = (...addresses: string[]): Resolved => ({
  hosts: addresses.map((address) => ({ host: 'relay.test', address })),
})
const someone = addressOf('someone@receiver.test')

async function only(route: string, resolved: Resolved = at('8.8.8.8'), recipient = someone) {
  const routed = await routerOver(resolved).targetsFor(parseRoute(route), recipient)
  if ('trouble' in routed || routed.targets.length !== 1) throw new Error('not one target')
  return routed.targets[0]
}

test.each([
  ['sandbox', '8.8.8.8', { address: '127.0.0.1', port: 4025, tls: 'clear', verify: false }],
  ['mx', '8.8.8.8', { address: '8.8.8.8', port: 2525, tls: 'opportunistic', verify: false }],
  ['smtp://relay.test', '8.8.8.8', { port: 587, tls: 'opportunistic', verify: false }],
  ['smtp://me:pw@relay.test:25', '10.0.0.1', { port: 25, tls: 'required', verify: true }],
  ['smtp://me:pw@localhost:25', '127.0.0.1', { port: 25, tls: 'opportunistic', verify: false }],
  ['smtps://relay.test', '8.8.8.8', { port: 465, tls: 'implicit', verify: true }],
  ['smtps://me:pw@relay.test', '::1', { port: 465, tls: 'implicit', verify: false }],
])('%s at %s', async (route, address, expected) => {
  expect(await only(route, at(address))).toMatchObject(expected)
})

test('the simulator is in the sandbox on every installation', async () => {
  const simulated = addressOf('delivered@simulator.posthorn.test')
  for (const route of ['sandbox', 'mx', 'smtp://me:pw@relay.test']) {
    expect(await only(route, { trouble: 'nxdomain' }, simulated)).toMatchObject({ address: '127.0.0.1', port: 4025 })
    expect(routerOver(at()).kindOf(parseRoute(route), simulated)).toBe('sandbox')
  }
  expect(isSimulator('simulator.posthorn.test')).toBe(true)
  expect(isSimulator('sub.simulator.posthorn.test')).toBe(false)
  expect(routerOver(at()).kindOf(parseRoute('mx'), someone)).toBe('mx')
})

test('what DNS says is passed on', async () => {
  const routed = await routerOver({ trouble: 'null_mx' }).targetsFor({ kind: 'mx' }, someone)
  expect(routed).toEqual({ trouble: 'null_mx' })
})

test('an attempt is limited to a few addresses', async () => {
  const addresses = Array.from({ length: 30 }, (_, index) => `8.8.8.${index + 1}`)
  const routed = await routerOver(at(...addresses)).targetsFor({ kind: 'mx' }, someone)
  expect('targets' in routed && routed.targets.length).toBe(limits.addressesPerAttemptMax)
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
})
