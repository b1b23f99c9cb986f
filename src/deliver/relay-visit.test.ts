import { afterEach, expect, test } from 'vitest'
import { parseRoute, type Relay } from '../config.ts'
import { close, silence, startPeer, withStartTls, type Script } from './peer.test-kit.ts'
import { visitRelay } from './relay-visit.ts'

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

const settings = { POSTHORN_HOSTNAME: 'out.sender.test', POSTHORN_SMTP_TIMEOUT_SCALE: 1, POSTHORN_DNS_SERVERS: [] }
const withLogin = '250-mx.posthorn.test\r\n250 AUTH PLAIN LOGIN\r\n'

/** A visit with this login, and what the relay heard. */
async function visited(script: Script, login: string, withinMs = 5_000) {
  const peer = await startPeer(script)
  ends.push(() => peer.stop())
  const seen = await visitRelay(settings, parseRoute(`smtp://${login}127.0.0.1:${peer.port}`) as Relay, withinMs)
  return { seen, heard: peer.heard.map((line) => line.split(' ')[0]) }
}

test('a relay that takes the login is welcome, and hears of no mail', async () => {
  const { seen, heard } = await visited({ EHLO: withLogin }, 'me:word@')
  expect(seen).toEqual({ welcome: true, phase: 'auth' })
  expect(heard).toEqual(['EHLO', 'AUTH', 'QUIT'])
})

test('TLS that is there is told', async () => {
  const { seen } = await visited({ EHLO: withStartTls }, '')
  expect(seen).toMatchObject({ welcome: true, tls: expect.stringMatching(/^TLSv1/) as string })
})

test.each([
  ['refuses the login', { EHLO: withLogin, AUTH: '535 5.7.8 no\r\n' }, { phase: 'auth', reply: { code: 535 } }],
  ['knows no login', {}, { phase: 'auth' }],
  ['hangs up', { greeting: close }, { phase: 'greeting', trouble: 'closed' }],
  ['refuses us', { greeting: '554 go away\r\n' }, { phase: 'greeting', reply: { code: 554 } }],
] as const)('a relay that %s', async (_, script, facts) => {
  const { seen } = await visited(script, 'me:word@')
  expect(seen).toMatchObject({ welcome: false, ...facts })
})

test('a relay that says nothing does not hold up the visit', async () => {
  const { seen } = await visited({ greeting: silence }, 'me:word@', 200)
  expect(seen).toMatchObject({ welcome: false, phase: 'greeting', trouble: 'timeout' })
})
