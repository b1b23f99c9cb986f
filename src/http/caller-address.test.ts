// Whoever stands behind a proxy that is trusted is counted by the address that the proxy tells, and by nothing that can be made up.
import { fastify } from 'fastify'
import { expect, test } from 'vitest'
import { readSettings } from '../config.ts'
import { buildApp } from './app.ts'
import { callerAddress, oneOf } from './caller-address.ts'
import { optionsWith } from './face.test-kit.ts'

async function callerOf(trusted: readonly string[], remoteAddress: string, forwarded: string): Promise<string> {
  const app = fastify({ trustProxy: oneOf(trusted) })
  app.get('/', (request) => ({ caller: callerAddress(request) }))
  const answer = await app.inject({ url: '/', remoteAddress, headers: { 'x-forwarded-for': forwarded } })
  return answer.json<{ caller: string }>().caller
}

const proxy = '10.0.0.1'
test.each([
  ['what a proxy tells', [proxy], proxy, '192.0.2.1', '192.0.2.1'],
  ['what the caller made up stands left of it', [proxy], proxy, '127.0.0.1, 192.0.2.1', '192.0.2.1'],
  ['who is no proxy is believed nothing', [proxy], '192.0.2.9', '192.0.2.1', '192.0.2.9'],
  ['two proxies, one of them in a network', [proxy, '10.9.0.0/16'], proxy, '6.6.6.6, 192.0.2.1, 10.9.8.7', '192.0.2.1'],
  ['an IPv6 network', ['fd00::/8'], 'fd00::1', '2001:db8::1, fd12::2', '2001:db8::1'],
  ['IPv4 that came in over IPv6', ['10.0.0.0/8'], '::ffff:10.0.0.1', '192.0.2.1', '192.0.2.1'],
  ['every address is a proxy', ['0.0.0.0/0'], proxy, '192.0.2.1', '192.0.2.1'],
  ['every address, in IPv6', ['::/0'], 'fd00::1', '2001:db8::1', '2001:db8::1'],
  ['with its port', [proxy], proxy, '192.0.2.1:40000', '192.0.2.1'],
  ['IPv6 with its port', [proxy], proxy, '[2001:db8::1]:40000', '2001:db8::1'],
  ['IPv6 in brackets', [proxy], proxy, '[2001:db8::1]', '2001:db8::1'],
  ['a proxy with its port', [proxy, '10.0.0.2'], proxy, '192.0.2.1:40000, 10.0.0.2:50000', '192.0.2.1'],
  ['nobody that the proxy knows', [proxy], proxy, 'unknown', proxy],
  ['no address', [proxy], proxy, '192.0.2.1, <script>', proxy],
])('%s', async (_what, trusted, peer, forwarded, caller) => {
  expect(await callerOf(trusted, peer, forwarded)).toBe(caller)
})

test.each(['0.0.0.0/0', '::/0', '10.0.0.0/8, ::1', '::ffff:10.0.0.0/104'])(
  'POSTHORN_TRUST_PROXY=%s, which the settings take, starts',
  async (value) => {
    const { POSTHORN_TRUST_PROXY: trustProxy } = readSettings({ POSTHORN_TRUST_PROXY: value })
    const app = buildApp({ ...optionsWith(), trustProxy })
    expect((await app.inject({ url: '/healthz' })).statusCode).toBe(200)
    await app.close()
  },
)
