// The whole way from a job to its facts, over real sockets and a real name server.
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { startDnsServer } from '../../test/world/dns-server.ts'
import { survivesItsLife } from '../base/service.test-kit.ts'
import { limits, parseRoute } from '../config.ts'
import type { Route } from '../config.ts'
import { allowedFiles } from './few-files.test-kit.ts'
import { outcomeOf, reports } from './outcome.ts'
import {
  addressOf,
  close,
  content,
  mailOf,
  silence,
  startPeer,
  until,
  withStartTls,
  withoutPipelining,
} from './peer.test-kit.ts'
import type { Act, Armable, Peer, Script } from './peer.test-kit.ts'
import { makeTransmitter } from './transmit.ts'
import type { TransmitResult, Transmitter, TransmitterSettings } from './transmit.ts'

const dns = await startDnsServer({
  'null.test': { mx: [{ preference: 0, exchange: '.' }] },
  'private.test': { a: ['127.0.0.1'] },
  'servfail.test': 'servfail',
  'silence.test': 'silence',
})
afterAll(() => dns.stop())

/** Where somebody says nothing on purpose, this is over at once instead. */
const overAtOnce = (ms: number) => void vi.advanceTimersByTime(ms)
/** Lets the time stand still for a test in which something is to be late. */
const standStill = () => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  vi.useRealTimers()
  for (const end of ends.splice(0)) await end()
})

async function transmitterOf(more: Partial<TransmitterSettings> = {}): Promise<Transmitter> {
  const transmitter = makeTransmitter({
    hostname: 'out.sender.test',
    timeoutScale: 1, // so that a busy machine is never late
    mxPort: 25,
    sandboxPort: () => 9,
    dnsServers: [dns.address],
    allowPrivateMx: true,
    pool: { stopMs: 50 },
    ...more,
  })
  await transmitter.service.start()
  ends.unshift(() => transmitter.service.stop())
  return transmitter
}

async function peerOf(script: Parameters<typeof startPeer>[0] = {}): Promise<Peer> {
  const peer = await startPeer(script)
  ends.push(() => peer.stop())
  return peer
}

function send(
  transmitter: Transmitter,
  mail: Armable = mailOf(),
  route: Route = { kind: 'sandbox' },
): Promise<TransmitResult> {
  return transmitter.transmit(Object.assign(mail, { route }))
}

/** One peer that plays a script for each address of the domain in turn: the addresses all lead to loopback. */
async function overHosts(
  scripts: readonly Script[],
  mail: Armable = mailOf({ recipient: addressOf('someone@several.test') }),
) {
  const peer = await peerOf((connection) => scripts[connection - 1] ?? { greeting: '554 not expected\r\n' })
  dns.zone['several.test'] = { mx: scripts.map((_, at) => ({ preference: at, exchange: `h${at}.several.test` })) }
  // The second address of loopback exists on Linux alone; so all hosts have one address, and connections are not kept.
  scripts.forEach((_, at) => (dns.zone[`h${at}.several.test`] = { a: ['127.0.0.1'] }))
  const transmitter = await transmitterOf({ mxPort: peer.port, pool: { stopMs: 50, mailsPerConnectionMax: 0 } })
  const result = await send(transmitter, mail, { kind: 'mx' })
  return { peer, result, mail }
}

const kind = (result: TransmitResult) => {
  const outcome = outcomeOf(result)
  return 'reason' in outcome ? `${outcome.kind} ${outcome.reason}` : outcome.kind
}

describe('the ways out', () => {
  test('the sandbox', async () => {
    const peer = await peerOf()
    const result = await send(await transmitterOf({ sandboxPort: () => peer.port }))
    expect(result).toMatchObject({
      phase: 'eod',
      reply: { code: 250, text: '2.0.0 Ok: queued as ABC123' },
      routeKind: 'sandbox',
      dotWritten: true,
      needsDisarm: false,
      peer: { host: 'localhost', address: '127.0.0.1' },
    })
    expect(peer.contents).toEqual([content.replace('\r\n.', '\r\n..')])
    expect(result.dialogue.map(({ stage }) => stage)).toEqual(['greeting', 'ehlo', 'mail', 'rcpt', 'data', 'eod'])
  })

  test('the simulator, whatever the route', async () => {
    const peer = await peerOf()
    const mail = mailOf({ recipient: addressOf('delivered@simulator.posthorn.test') })
    const result = await send(await transmitterOf({ sandboxPort: () => peer.port }), mail, { kind: 'mx' })
    expect([kind(result), result.routeKind, peer.dots]).toEqual(['accepted', 'sandbox', 1])
  })

  test('a relay with a login', async () => {
    const peer = await peerOf({ EHLO: '250-relay\r\n250 AUTH PLAIN\r\n' })
    const result = await send(await transmitterOf(), mailOf(), parseRoute(`smtp://me:pw@127.0.0.1:${peer.port}`))
    expect([kind(result), result.routeKind]).toEqual(['accepted', 'relay'])
    expect(peer.heard[1]).toBe(`AUTH PLAIN ${Buffer.from('\0me\0pw').toString('base64')}`)
  })

  test.each([
    ['nowhere.test', 'failed nxdomain'],
    ['null.test', 'failed null_mx'],
    ['private.test', 'failed private_mx'],
    ['servfail.test', 'retry dns'],
  ])('%s: %s (20)', async (domain, meaning) => {
    const mail = mailOf({ recipient: addressOf(`someone@${domain}`) })
    const result = await send(await transmitterOf({ allowPrivateMx: false }), mail, { kind: 'mx' })
    expect([result.phase, kind(result), mail.arms]).toEqual(['route', meaning, 0])
    expect(result.dialogue).toHaveLength(1)
  })
})

test('over a connection that another domain has opened, a message tells of its own host: that name is nobody else’s business', async () => {
  const peer = await peerOf()
  for (const domain of ['one.test', 'two.test']) {
    dns.zone[domain] = { mx: [{ preference: 0, exchange: `mx.${domain}` }] }
    dns.zone[`mx.${domain}`] = { a: ['127.0.0.1'] }
  }
  const transmitter = await transmitterOf({ mxPort: peer.port })
  const hosts: unknown[] = []
  for (const domain of ['one.test', 'two.test']) {
    const result = await send(transmitter, mailOf({ recipient: addressOf(`a@${domain}`) }), { kind: 'mx' })
    hosts.push(result.peer?.host, ...result.attemptsOnHosts.map((facts) => facts.peer?.host))
  }
  expect(hosts).toEqual(['mx.one.test', 'mx.one.test', 'mx.two.test', 'mx.two.test'])
  expect(peer.connections).toBe(1)
})

test('a workspace whose recipients’ name servers say nothing does not hold up another one’s mail', async () => {
  const peer = await peerOf()
  dns.zone['good.test'] = { mx: [{ preference: 0, exchange: 'mx.good.test' }] }
  dns.zone['mx.good.test'] = { a: ['127.0.0.1'] }
  // So patient that no question ends by its own time.
  const transmitter = await transmitterOf({ mxPort: peer.port, dns: { queryMs: 600_000, tries: 1 } })
  const to = (domain: string, workspaceId: string) =>
    transmitter.transmit({
      ...mailOf({ recipient: addressOf(`a@${domain}`) }),
      route: { kind: 'mx' },
      workspaceId,
    })
  const names = Array.from({ length: limits.dnsQuestionsMax + 100 }, (_, at) => `silent${at}.test`)
  for (const name of names) dns.zone[name] = 'silence'
  const silent = names.map((name) => to(name, 'flood'))
  await until(() => dns.asked.filter((each) => each.startsWith('MX silent')).length >= limits.dnsQuestionsOfOwnerMax)
  expect(kind(await to('good.test', 'shop'))).toBe('accepted')
  await transmitter.service.stop()
  expect((await Promise.all(silent)).map(kind).every((each) => each === 'retry dns')).toBe(true)
})

test('a workspace’s own relay has a line of its own, also where others have the same one: mail that it holds up delays that workspace alone', async () => {
  const peer = await peerOf((connection) => (connection === 1 ? { EHLO: withoutPipelining, RCPT: silence } : {}))
  const transmitter = await transmitterOf({
    pool: { stopMs: 50, perDestinationMax: 1, lineMs: 2_000 },
  })
  const route = parseRoute(`smtp://127.0.0.1:${peer.port}`)
  const of = (workspaceId: string) => transmitter.transmit({ ...mailOf(), route, workspaceId, ownRoute: true })
  const held = of('one')
  await until(() => peer.heard.some((line) => line.startsWith('RCPT')))
  expect(kind(await of('other'))).toBe('accepted')
  for (const socket of peer.sockets) socket.destroy()
  expect(kind(await held)).toBe('retry lost_before_eod')
})

// A relay whose first machine had died behind its load balancer held each mail for the five minutes of a greeting, though the second took all of them.
test.runIf(process.platform === 'linux')(
  'an address that takes the connection and does not greet is tried behind the others for a while, as one out of reach is',
  async () => {
    standStill()
    const peer = await peerOf()
    const sockets: Socket[] = []
    const halfDead = createServer((socket) => void sockets.push(socket)).listen(peer.port, '127.0.0.2')
    await once(halfDead, 'listening')
    ends.push(async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => halfDead.close(resolve))
    })
    dns.zone['half.test'] = { mx: ['h0', 'h1'].map((host, at) => ({ preference: at, exchange: `${host}.half.test` })) }
    dns.zone['h0.half.test'] = { a: ['127.0.0.2'] }
    dns.zone['h1.half.test'] = { a: ['127.0.0.1'] }
    const transmitter = await transmitterOf({ mxPort: peer.port })
    const hosts = async (heard = () => undefined) => {
      const mail = mailOf({ recipient: addressOf('someone@half.test'), heard })
      const result = await send(transmitter, mail, { kind: 'mx' })
      expect(kind(result)).toBe('accepted')
      return result.attemptsOnHosts.map((facts) => facts.peer?.host)
    }
    // What is heard first is that there is a connection: the wait for its greeting begins.
    let steps = 0
    const heard = () => void (++steps === 1 && setImmediate(() => overAtOnce(limits.smtpCommandMs)))
    expect(await hosts(heard)).toEqual(['h0.half.test', 'h1.half.test'])
    expect(await hosts()).toEqual(['h1.half.test'])
    expect(sockets).toHaveLength(1)
  },
)

describe('several hosts', () => {
  const broken: Script = { greeting: close }

  test.each([
    ['hangs up', { greeting: close }],
    ['greets with 4yz', { greeting: '421 busy\r\n' }],
    ['greets with 5yz', { greeting: '554 no\r\n' }],
    ['talks garbage', { EHLO: '+OK\r\n' }],
    ['greylists', { RCPT: '450 4.2.0 greylisted\r\n', DATA: '503 no\r\n' }],
    ['has no room for the content', { DATA: '452 4.3.1 full\r\n' }],
    ['refuses early', { DATA: '354 go\r\n451 4.3.0 no\r\n' }],
    ['loses the connection in the content', { DATA: (socket) => socket.end('354 go\r\n') }],
    ['cannot take so big a mail', { EHLO: '250-mx\r\n250 SIZE 10\r\n' }],
    ['wants TLS, and has none for now', { EHLO: withStartTls, STARTTLS: '454 no\r\n', MAIL: '530 STARTTLS first\r\n' }],
  ] as [string, Script][])('one that %s: the next one is asked, in the same attempt (21, 22)', async (_, script) => {
    const { peer, result, mail } = await overHosts([script, {}])
    expect(kind(result)).toBe('accepted')
    expect([peer.connections, peer.dots, mail.arms]).toEqual([2, 1, 1])
    expect(result.attemptsOnHosts.map((facts) => facts.peer?.host)).toEqual(['h0.several.test', 'h1.several.test'])
    expect(result.peer?.host).toBe('h1.several.test')
  })

  test.each([
    ['MAIL', { MAIL: '550 5.7.1 no\r\n' }, 'failed mail_5xx'],
    ['RCPT', { RCPT: '550 5.1.1 no\r\n' }, 'failed rcpt_5xx'],
    ['DATA', { DATA: '554 5.5.1 no\r\n' }, 'failed data_5xx'],
    ['the content', { DATA: '354 go\r\n554 no\r\n' }, 'failed data_5xx'],
  ] as [string, Script, string][])('5yz to %s ends it', async (_, script, meaning) => {
    const { peer, result } = await overHosts([script, {}])
    expect([kind(result), peer.connections, peer.dots]).toEqual([meaning, 1, 0])
  })

  test('a 7-bit form is given back before the next host is waited for: those who hold its room and those who hold connections never wait for each other', async () => {
    const eight: Script = { EHLO: '250-mx.posthorn.test\r\n250 PIPELINING\r\n' }
    let held = 0
    const seen: string[] = []
    const sevenBit = async () => {
      seen.push(`made, ${held} held`)
      held++
      return { content: Buffer.from('Subject: x\r\n\r\n'), size: 14, leave: () => void held-- }
    }
    const recipient = addressOf('someone@several.test')
    const later = { ...eight, DATA: '451 4.3.0 later\r\n' }
    const { result } = await overHosts([later, later, eight], mailOf({ recipient, needs8bit: true, sevenBit }))
    expect([kind(result), held]).toEqual(['accepted', 0])
    expect(seen).toEqual(Array(3).fill('made, 0 held'))
  })

  test.each([
    ['4yz', '450 4.7.1 later\r\n', 'retry eod_4xx'],
    ['5yz', '550 no\r\n', 'failed eod_5xx'],
    ['silence', () => overAtOnce(limits.smtpEodMs), 'unknown eod_timeout'],
    ['a close', close, 'unknown eod_closed'],
    ['garbage', '250-x\r\n550 y\r\n', 'unknown eod_malformed'],
  ] as [string, Act, string][])('after the dot, %s: never another host (34)', async (_, dot, meaning) => {
    standStill()
    const { peer, result, mail } = await overHosts([{ dot }, {}])
    expect(kind(result)).toBe(meaning)
    expect(result).toMatchObject({ dotWritten: true, needsDisarm: false })
    expect([peer.connections, peer.dots, mail.arms]).toEqual([1, 1, 1])
  })

  test.each(['lost', 'suppressed', 'expired', 'workspace_blocked', 'mailbox_not_active', 'failed'] as const)(
    'after an arm that says %s: never another host',
    async (answer) => {
      const mail = mailOf({ recipient: addressOf('someone@several.test') }, async () => answer)
      const { peer, result } = await overHosts([{}, {}], mail)
      expect(result).toMatchObject({ phase: 'arm', dotWritten: false, needsDisarm: answer === 'failed' })
      expect([peer.connections, peer.dots, mail.arms]).toEqual([1, 0, 1])
    },
  )

  test('armed, and the connection lost before the dot: never another host, to be disarmed', async () => {
    let cut = false
    const mail = mailOf({ recipient: addressOf('someone@several.test') }, async () => {
      await until(() => cut)
      return 'armed'
    })
    const { peer, result } = await overHosts([{ content: (socket) => void (socket.destroy(), (cut = true)) }, {}], mail)
    expect(result).toMatchObject({ phase: 'arm', trouble: 'closed', dotWritten: false, needsDisarm: true })
    expect([peer.connections, peer.dots, mail.arms, kind(result)]).toEqual([1, 0, 1, 'retry lost_before_eod'])
  })

  test('all refuse: the last one counts', async () => {
    const { peer, result } = await overHosts([broken, { greeting: '554 no\r\n' }])
    expect([kind(result), peer.connections]).toEqual(['retry greeting_5xx', 2])
  })

  test.each([
    ['MAIL', { MAIL: '451 4.3.0 later\r\n' }, 'retry mail_4xx'],
    ['RCPT', { RCPT: '450 4.2.0 greylisted\r\n', DATA: '503 no\r\n' }, 'retry rcpt_4xx'],
    ['the content', { DATA: '354 go\r\n451 4.3.0 no\r\n' }, 'retry data_4xx'],
  ] as [string, Script, string][])(
    'what a host has said to %s counts more than that another was out of reach, refused us, or cannot take such a mail',
    async (_, script, meaning) => {
      const small: Script = { EHLO: '250-mx\r\n250 SIZE 10\r\n' }
      for (const other of [broken, { greeting: '554 no\r\n' }, small])
        for (const order of [
          [script, other],
          [other, script],
        ]) {
          const { result } = await overHosts(order)
          expect([kind(result), result.attemptsOnHosts.length]).toEqual([meaning, 2])
          expect(reports(result, 'mx')).toMatchObject({ type: 'soft_bounce' })
        }
    },
  )

  // A mailbox of Gmail's that is full said so eight times for each try, over as many connections.
  test('of many hosts that put the same mail off, no more than a few are asked in one attempt', async () => {
    const full: Script = { RCPT: '452 4.2.2 over quota\r\n', DATA: '503 no\r\n' }
    const { peer, result } = await overHosts([broken, full, full, full, full, full])
    expect([kind(result), peer.connections]).toEqual(['retry rcpt_4xx', 1 + limits.putOffsPerAttemptMax])
  })

  test.each([
    ['MAIL', { MAIL: '421 4.7.0 slow down\r\n' }],
    ['RCPT', { RCPT: '451 4.7.500 server busy\r\n', DATA: '503 no\r\n' }],
    ['DATA', { DATA: '450 4.7.27 rate limited because SPF does not pass\r\n' }],
  ] as [string, Script][])(
    'one that wants less mail, as its reply to %s: no other of its provider',
    async (_, script) => {
      const mail = mailOf({ recipient: addressOf('someone@several.test') })
      const { peer, result } = await overHosts([script, {}, {}], Object.assign(mail, { workspaceId: 'careless' }))
      expect([outcomeOf(result).kind, peer.connections, result.pacedMs]).toEqual(['retry', 1, undefined])
    },
  )

  test('a host that cannot take such a mail counts less than one that may take it later', async () => {
    const small: Script = { EHLO: '250-mx\r\n250 SIZE 10\r\n' }
    const later: Script = { greeting: '421 later\r\n' }
    expect(kind((await overHosts([small, later])).result)).toBe('retry greeting_4xx')
    expect(kind((await overHosts([later, small])).result)).toBe('retry greeting_4xx')
    expect(kind((await overHosts([small, small])).result)).toBe('failed size')
  })
})

describe('kept connections', () => {
  test.each([
    ['closes', (socket) => void socket.destroy()],
    ['says 421 and closes', (socket) => void socket.end('421 4.4.2 too long\r\n')],
    ['says 451 4.4.2 and closes', (socket) => void socket.end('451 4.4.2 Timeout waiting for data from client.\r\n')],
    ['says nothing', () => overAtOnce(limits.smtpCommandMs)],
  ] as [string, Exclude<Act, string>][])(
    'a server that %s at the second MAIL: once more on a fresh connection',
    async (_, act) => {
      standStill()
      const peer = await peerOf()
      const transmitter = await transmitterOf({ sandboxPort: () => peer.port })
      expect(kind(await send(transmitter))).toBe('accepted')
      for (const socket of peer.sockets) socket.removeAllListeners('data').once('data', () => act(socket, peer))
      const mail = mailOf()
      const result = await send(transmitter, mail)
      expect([kind(result), mail.arms, peer.connections, peer.dots]).toEqual(['accepted', 1, 2, 2])
      expect(result.attemptsOnHosts).toHaveLength(1)
    },
  )

  test.each([
    ['closes', close, 'unknown eod_closed'],
    ['says 421', '421 4.4.2 too long\r\n', 'retry eod_4xx'],
  ] as [string, Act, string][])(
    'a server that %s behind the dot of a second mail: not once more',
    async (_, act, meaning) => {
      const dot: Act = (socket, peer) => {
        if (peer.dots === 2 && typeof act !== 'string') act(socket, peer)
        else socket.write(peer.dots === 2 && typeof act === 'string' ? act : '250 ok\r\n')
      }
      const peer = await peerOf({ dot })
      const transmitter = await transmitterOf({ sandboxPort: () => peer.port })
      await send(transmitter)
      const mail = mailOf()
      const result = await send(transmitter, mail)
      expect([kind(result), mail.arms, peer.connections, peer.dots]).toEqual([meaning, 1, 1, 2])
    },
  )

  test('a fresh connection that breaks at MAIL is an answer', async () => {
    const peer = await peerOf({ MAIL: close })
    expect(kind(await send(await transmitterOf({ sandboxPort: () => peer.port })))).toBe('retry lost_before_eod')
    expect(peer.connections).toBe(1)
  })

  test('only once: a fresh connection that does the same is an answer', async () => {
    const peer = await peerOf((connection) => (connection === 1 ? {} : { MAIL: close }))
    const transmitter = await transmitterOf({ sandboxPort: () => peer.port })
    await send(transmitter)
    for (const socket of peer.sockets) socket.removeAllListeners('data').once('data', () => socket.destroy())
    expect(kind(await send(transmitter))).toBe('retry lost_before_eod')
    expect(peer.connections).toBe(2)
  })

  test('after MAIL was answered nothing is tried again behind the caller', async () => {
    const peer = await peerOf()
    const transmitter = await transmitterOf({ sandboxPort: () => peer.port })
    await send(transmitter)
    for (const socket of peer.sockets)
      socket.removeAllListeners('data').once('data', () => void (socket.write('250 ok\r\n'), socket.end()))
    const result = await send(transmitter)
    expect([result.phase, kind(result), peer.connections]).toEqual(['rcpt', 'retry lost_before_eod', 1])
  })
})

test('a server that tells how many mails it takes over one connection gets no more over it (RFC 9422), refused ones counted', async () => {
  let refuse = true
  const rcpt = (socket: Socket) => {
    socket.write(refuse ? '450 4.2.1 later\r\n' : '250 ok\r\n')
    refuse = !refuse
  }
  for (const limit of ['MAILMAX=2 RCPTMAX=100', 'rcptmax=1 mailmax=100 RCPTDOMAINMAX=2']) {
    const EHLO = `250-mx.posthorn.test\r\n250-LIMITS ${limit}\r\n250 8BITMIME\r\n`
    const peer = await peerOf({ EHLO, RCPT: rcpt })
    const transmitter = await transmitterOf({ sandboxPort: () => peer.port })
    for (let mail = 0; mail < 5; mail++) await send(transmitter)
    const said = peer.heard.map((line) => line.slice(0, 4).toUpperCase())
    expect(said.filter((word) => ['EHLO', 'MAIL'].includes(word)).join(' ')).toBe(
      'EHLO MAIL MAIL EHLO MAIL MAIL EHLO MAIL',
    )
    await until(() => peer.heard.filter((line) => line === 'QUIT').length === 2)
  }
})

test('a fault of ours in the middle gives its connection back: the only one to that place is free again', async () => {
  const peer = await peerOf()
  const transmitter = await transmitterOf({
    sandboxPort: () => peer.port,
    pool: { stopMs: 50, perDestinationMax: 1 },
  })
  await expect(send(transmitter, mailOf({ recipient: addressOf('a b@c') }))).rejects.toThrow('envelope address')
  expect(kind(await send(transmitter))).toBe('accepted')
})

test('whoever has asked for less is not even called: what was claimed before he did waits as well', async () => {
  const peer = await peerOf({ MAIL: '421 4.7.0 slow down\r\n' })
  dns.zone['slow.test'] = { mx: [{ preference: 0, exchange: 'h0.slow.test' }] }
  dns.zone['h0.slow.test'] = { a: ['127.0.0.1'] }
  const transmitter = await transmitterOf({ mxPort: peer.port })
  const mail = () => mailOf({ recipient: addressOf('someone@slow.test') })
  expect(await send(transmitter, mail(), { kind: 'mx' })).toMatchObject({ phase: 'mail', reply: { code: 421 } })
  const next = await send(transmitter, mail(), { kind: 'mx' })
  expect(next).toMatchObject({ trouble: 'paced', dotWritten: false, needsDisarm: false })
  expect(next.pacedMs).toBeGreaterThan(0)
  expect(peer.connections).toBe(1)
})

test('whoever asks for less of one workspace, because its domain has not proved itself, is written to by all others', async () => {
  const reply = '421 4.7.27 This mail has been rate limited because SPF does not pass\r\n'
  const peer = await peerOf((connection) => (connection === 1 ? { dot: reply } : {}))
  dns.zone['proof.test'] = { mx: [{ preference: 0, exchange: 'h0.proof.test' }] }
  dns.zone['h0.proof.test'] = { a: ['127.0.0.1'] }
  const transmitter = await transmitterOf({ mxPort: peer.port })
  const of = (workspaceId: string) =>
    send(transmitter, Object.assign(mailOf({ recipient: addressOf('a@proof.test') }), { workspaceId }), { kind: 'mx' })
  expect(kind(await of('careless'))).toBe('retry eod_4xx')
  expect(kind(await of('careful'))).toBe('accepted')
  const again = await of('careless')
  expect([again.trouble, (again.pacedMs ?? 0) > 0, peer.dots]).toEqual(['paced', true, 2])
})

test('whoever asks for less while others wait in line has asked them, too: they wait, and use up nothing of their tries', async () => {
  const held: Socket[] = []
  const peer = await peerOf({ MAIL: (socket) => void held.push(socket), EHLO: withoutPipelining })
  dns.zone['busy.test'] = { mx: [{ preference: 0, exchange: 'h0.busy.test' }] }
  dns.zone['h0.busy.test'] = { a: ['127.0.0.1'] }
  const transmitter = await transmitterOf({
    mxPort: peer.port,
    pool: { stopMs: 50, perDestinationMax: 2 },
  })
  const mail = () => mailOf({ recipient: addressOf('someone@busy.test') })
  const all = Array.from({ length: 20 }, () => send(transmitter, mail(), { kind: 'mx' }))
  await until(() => held.length === 2)
  await until(() => held.length === 2)
  held[0]?.write('421 4.7.0 slow down, try again in 100 seconds\r\n')
  held[1]?.write('250 ok\r\n') // its connection is handed on
  const results = await Promise.all(all)
  expect(results.filter(({ trouble }) => trouble === 'paced')).toHaveLength(18)
  expect(results.every(({ trouble, pacedMs = 0 }) => trouble !== 'paced' || pacedMs > 90_000)).toBe(true)
  expect(peer.connections).toBe(2)
  expect(held).toHaveLength(2)
})

test('whoever asks for less of one workspace while others wait in line has asked those of that workspace alone', async () => {
  const held: Socket[] = []
  const hold = (socket: Socket) => void (held.length < 2 ? held.push(socket) : socket.write('250 ok\r\n'))
  const peer = await peerOf({ MAIL: hold, EHLO: withoutPipelining })
  dns.zone['line.test'] = { mx: [{ preference: 0, exchange: 'h0.line.test' }] }
  dns.zone['h0.line.test'] = { a: ['127.0.0.1'] }
  const transmitter = await transmitterOf({
    mxPort: peer.port,
    pool: { stopMs: 50, perDestinationMax: 2 },
  })
  const of = (workspaceId: string) =>
    send(transmitter, Object.assign(mailOf({ recipient: addressOf('a@line.test') }), { workspaceId }), { kind: 'mx' })
  const careless = Array.from({ length: 10 }, () => of('careless'))
  await until(() => held.length === 2)
  const careful = Array.from({ length: 10 }, () => of('careful'))
  held[0]?.write('451 4.7.27 SPF does not pass, try again in 100 seconds\r\n')
  await until(() => peer.heard.includes('RSET'))
  held[1]?.write('451 4.7.27 SPF does not pass, try again in 100 seconds\r\n')
  const waiting = (await Promise.all(careless)).filter(({ trouble }) => trouble === 'paced')
  expect(waiting).toHaveLength(8)
  for (const { pacedMs = 0 } of waiting) expect(pacedMs).toBeGreaterThan(90_000)
  expect((await Promise.all(careful)).map(kind)).toEqual(Array(10).fill('accepted'))
})

test('a greeting that asks for less is heard by those who wait in line before one of them gets its place', async () => {
  const peer = await peerOf({ greeting: '421 4.7.0 slow down, try again in 100 seconds\r\n' })
  dns.zone['greets.test'] = { mx: [{ preference: 0, exchange: 'h0.greets.test' }] }
  dns.zone['h0.greets.test'] = { a: ['127.0.0.1'] }
  const transmitter = await transmitterOf({ mxPort: peer.port, pool: { stopMs: 50, perDestinationMax: 1 } })
  const mail = () => mailOf({ recipient: addressOf('someone@greets.test') })
  const results = await Promise.all(Array.from({ length: 9 }, () => send(transmitter, mail(), { kind: 'mx' })))
  expect(results.filter(({ trouble }) => trouble === 'paced')).toHaveLength(8)
  expect(peer.connections).toBe(1)
})

// Exim's smtp_accept_max_per_host and Postfix's anvil say what is the matter; others say no more than this.
test('a host that bears one connection of ours is written to over one: whom it greets with 421 waits, and uses no try', async () => {
  let open = 0
  const peer = await peerOf({
    greeting: (socket) => {
      if (++open > 1) return void socket.end('421 mx.one.test Service not available\r\n', () => open--)
      socket.once('close', () => open--)
      socket.write('220 hello\r\n')
    },
    EHLO: withoutPipelining,
  })
  dns.zone['one.test'] = { mx: [{ preference: 0, exchange: 'h0.one.test' }] }
  dns.zone['h0.one.test'] = { a: ['127.0.0.1'] }
  const transmitter = await transmitterOf({ mxPort: peer.port })
  const wave = async (): Promise<readonly TransmitResult[]> => {
    await until(() => transmitter.roomOf('one.test') > 0)
    const mail = () => mailOf({ recipient: addressOf('someone@one.test') })
    return Promise.all(Array.from({ length: 30 }, () => send(transmitter, mail(), { kind: 'mx' })))
  }
  const called: number[] = []
  for (let taken = 0; taken < 30;) {
    const before = peer.connections
    const results = await wave()
    called.push(peer.connections - before)
    taken = results.filter((result) => kind(result) === 'accepted').length
    const others = results.filter((result) => kind(result) !== 'accepted')
    for (const result of others) expect(result).toMatchObject({ trouble: 'paced', needsDisarm: false })
    const refused = others.filter(({ attemptsOnHosts }) => attemptsOnHosts[0]?.reply?.code === 421)
    for (const result of refused) expect([result.late, (result.pacedMs ?? 0) >= limits.gaveWayMs]).toEqual([true, true])
    expect(refused.length).toBeGreaterThanOrEqual((called.at(-1) ?? 0) - 1)
  }
  // Half as many each time: 20, 10, 5, 2, 1, but for what is kept.
  expect(called.length).toBeLessThanOrEqual(6)
  expect(called[0]).toBe(limits.connectionsPerDestinationMax)
})

describe('beside another connection of ours to the same place', () => {
  /** What becomes of a mail for a domain of two hosts while another one holds a connection to them; each host gets a connection of its own. */
  async function whileBusy(...hosts: readonly Script[]): Promise<TransmitResult> {
    let isHeld = false
    const hold = () => void (isHeld = true)
    const peer = await peerOf((connection) =>
      connection === 1 ? { MAIL: hold, EHLO: withoutPipelining } : (hosts[connection - 2] ?? {}),
    )
    dns.zone['two.test'] = { mx: hosts.map((_, at) => ({ preference: at, exchange: `h${at}.two.test` })) }
    for (const at of hosts.keys()) dns.zone[`h${at}.two.test`] = { a: ['127.0.0.1'] }
    const transmitter = await transmitterOf({ mxPort: peer.port })
    const mail = () => mailOf({ recipient: addressOf('someone@two.test') })
    void send(transmitter, mail(), { kind: 'mx' })
    await until(() => isHeld)
    return send(transmitter, mail(), { kind: 'mx' })
  }

  test.each([
    ['greeting', { greeting: '450 come back in 100 seconds\r\n' }],
    ['greeting of which one line was said before', { greeting: '220-two.test\r\n421 come back in 100 seconds\r\n' }],
    ['EHLO', { EHLO: '421 4.3.2 come back in 100 seconds\r\n' }],
  ] as [string, Script][])('a 4yz to %s puts a mail off for as long as it says', async (_, script) => {
    const result = await whileBusy(script)
    expect(result).toMatchObject({ trouble: 'paced', late: true })
    expect(result.pacedMs).toBeGreaterThan(90_000)
  })

  test('a no for good in the greeting is an answer: who refuses us altogether ends the tries of his mail', async () => {
    const result = await whileBusy({ greeting: '554 5.7.1 not you\r\n' })
    expect([kind(result), result.late]).toEqual(['retry greeting_5xx', undefined])
  })

  test('what the next host says of the mail counts', async () => {
    const result = await whileBusy({ greeting: '421 later\r\n' }, { RCPT: '450 4.2.1 busy\r\n', DATA: '503 no\r\n' })
    expect([kind(result), result.late, result.attemptsOnHosts.length]).toEqual(['retry rcpt_4xx', undefined, 2])
  })
})

test('what a host has said of a mail counts, also where the line for the next one is too long', async () => {
  standStill() // or the second would have left the line before it comes to its turn
  const asked: Socket[] = []
  const peer = await peerOf({ RCPT: (socket) => void asked.push(socket), EHLO: withoutPipelining })
  dns.zone['long.test'] = { mx: [0, 1].map((at) => ({ preference: at, exchange: `h${at}.long.test` })) }
  for (const at of [0, 1]) dns.zone[`h${at}.long.test`] = { a: ['127.0.0.1'] }
  const pool = { stopMs: 50, perDestinationMax: 1, lineMs: 300 }
  const transmitter = await transmitterOf({ mxPort: peer.port, pool })
  const mail = () => mailOf({ recipient: addressOf('someone@long.test') })
  const first = send(transmitter, mail(), { kind: 'mx' })
  await until(() => asked.length === 1)
  let waits = false
  // Has the connection next, and keeps it.
  void send(transmitter, Object.assign(mail(), { heading: () => void (waits = true) }), { kind: 'mx' })
  await until(() => waits)
  asked[0]?.write('450 4.2.1 busy\r\n')
  await until(() => asked.length === 2)
  let isOver = false
  void first.finally(() => (isOver = true))
  await until(() => (overAtOnce(pool.lineMs), isOver))
  expect(kind(await first)).toBe('retry rcpt_4xx')
})

// What counts connections before the mail server does (xinetd, a firewall, a proxy) has no words to give.
test('a host that hangs up on the fourth connection is written to over three: nobody has used a try by it, and no other host of its provider waits', async () => {
  let open = 0
  const peer = await peerOf({
    greeting: (socket) => {
      if (open >= 3) return void socket.end()
      open++
      socket.once('close', () => open--)
      socket.write('220 hello\r\n')
    },
    EHLO: withoutPipelining,
  })
  dns.zone['three.test'] = { mx: [{ preference: 0, exchange: 'h0.three.test' }] }
  dns.zone['h0.three.test'] = { a: ['127.0.0.1'] }
  const transmitter = await transmitterOf({ mxPort: peer.port })
  const wave = () => {
    const mail = () => mailOf({ recipient: addressOf('someone@three.test') })
    return Promise.all(Array.from({ length: 60 }, () => send(transmitter, mail(), { kind: 'mx' })))
  }
  const results = await wave()
  expect(transmitter.roomOf('three.test')).toBe(Infinity)
  const others = results.filter((result) => kind(result) !== 'accepted')
  for (const result of others)
    expect(result).toMatchObject({ trouble: 'paced', late: true, needsDisarm: false, pacedMs: limits.gaveWayMs })
  expect(others.length).toBeLessThanOrEqual(limits.connectionsPerDestinationMax - 3)
  expect((await wave()).map(kind)).toEqual(Array(60).fill('accepted'))
  expect(peer.connections).toBe(limits.connectionsPerDestinationMax)
})

test('a host that hangs up on everybody has been tried, by one at first, and by all who come together again', async () => {
  const peer = await peerOf({ greeting: (socket) => void socket.end() })
  const transmitter = await transmitterOf({ sandboxPort: () => peer.port })
  const wave = async () =>
    (await Promise.all(Array.from({ length: 10 }, () => send(transmitter)))).map(({ trouble }) => trouble)
  expect((await wave()).filter((trouble) => trouble !== 'paced')).toEqual(['closed'])
  expect(await wave()).toEqual(Array(10).fill('closed'))
})

test('a host that greets its only caller with 421 has been tried, whatever it will be next time', async () => {
  const peer = await peerOf({ greeting: '421 later\r\n' })
  const result = await send(await transmitterOf({ sandboxPort: () => peer.port }))
  expect([kind(result), result.pacedMs]).toEqual(['retry greeting_4xx', undefined])
})

test('a host that is busy with others for as long as one waits is left for later, and nobody was asked', async () => {
  const held: Socket[] = []
  const peer = await peerOf({ MAIL: (socket) => void held.push(socket), EHLO: withoutPipelining })
  const transmitter = await transmitterOf({
    sandboxPort: () => peer.port,
    pool: { stopMs: 50, perDestinationMax: 1, lineMs: 30 },
  })
  const headings: string[] = []
  const busy = send(transmitter)
  await until(() => held.length === 1)
  const heading = (provider: string) => void headings.push(provider)
  expect(await send(transmitter, Object.assign(mailOf(), { heading }))).toMatchObject({
    trouble: 'paced',
    late: true,
    pacedMs: limits.gaveWayMs,
    attemptsOnHosts: [],
    needsDisarm: false,
  })
  expect([headings, peer.connections]).toEqual([['sandbox'], 1])
  held[0]?.write('250 ok\r\n')
  expect(kind(await busy)).toBe('accepted')
})

test('more connections that an operator allows are made at once, for who waits in line already', async () => {
  const peer = await peerOf((connection) => (connection === 1 ? { greeting: silence } : {}))
  const route = parseRoute(`smtp://127.0.0.1:${peer.port}`)
  const transmitter = await transmitterOf()
  const allow = (connections: number) =>
    transmitter.configure([{ name: '*', connections, messagesPerConnection: null, perMinute: null, warmUpDays: null }])
  allow(1)
  const given = new AbortController()
  const first = send(transmitter, mailOf({ signal: given.signal }), route)
  await until(() => peer.connections === 1)
  let waits = false
  const second = send(transmitter, Object.assign(mailOf(), { heading: () => void (waits = true) }), route)
  await until(() => waits)
  allow(2)
  expect(kind(await second)).toBe('accepted')
  given.abort()
  await first
})

test('where no connection is made, the facts say what was in the way', async () => {
  const peer = await peerOf()
  await peer.stop()
  const result = await send(await transmitterOf(), mailOf(), parseRoute(`smtp://127.0.0.1:${peer.port}`))
  expect(result).toMatchObject({ phase: 'connect', trouble: 'connect_failed', cause: 'ECONNREFUSED' })
})

test('where this process may open no more files, nobody is to blame: neither name servers nor hosts were asked', async () => {
  const peer = await peerOf()
  dns.zone['files.test'] = { mx: [{ preference: 0, exchange: 'mx.files.test' }] }
  dns.zone['mx.files.test'] = { a: ['127.0.0.1'] }
  const transmitter = await transmitterOf({ mxPort: peer.port })
  const relayed = parseRoute(`smtp://127.0.0.1:${peer.port}`)
  const mail = () => mailOf({ recipient: addressOf('someone@files.test') })
  const files = allowedFiles()
  ends.push(() => files.end())
  await files.allow('10')
  const ended = await Promise.allSettled([
    send(transmitter, mail(), { kind: 'mx' }),
    send(transmitter, mail(), relayed),
  ])
  await files.allow('')
  expect(ended).toMatchObject([{ reason: { code: 'EMFILE' } }, { reason: { code: 'EMFILE' } }])
  const after = await Promise.all([send(transmitter, mail(), { kind: 'mx' }), send(transmitter, mail(), relayed)])
  expect(after.map(kind)).toEqual(['accepted', 'accepted'])
})

test('it is heard that a host gets on, from the connection over its greeting, EHLO and TLS on', async () => {
  let heard = 0
  const steps: number[] = []
  const step = (text: string) => (socket: Socket) => {
    steps.push(heard)
    socket.write(text)
  }
  const peer = await peerOf({
    greeting: step('220 hello\r\n'),
    EHLO: step('250-hello\r\n250 STARTTLS\r\n'),
    MAIL: step('250 ok\r\n'),
  })
  const transmitter = await transmitterOf({ sandboxPort: () => peer.port })
  const route = parseRoute(`smtp://127.0.0.1:${peer.port}`)
  expect(kind(await send(transmitter, mailOf({ heard: () => void heard++ }), route))).toBe('accepted')
  // The greeting may be written before we hear that there is a connection. Before MAIL: that, greeting, EHLO, STARTTLS, the handshake and EHLO again.
  const [, ehlo = 0, again = 0, mail = 0] = steps
  expect([ehlo >= 2, again >= ehlo + 3, mail > again]).toEqual([true, true, true])
})

test('what the simulator refuses pauses nobody: not even the simulator', async () => {
  const peer = await peerOf((connection) => (connection === 1 ? { MAIL: '421 4.7.0 slow down\r\n' } : {}))
  const transmitter = await transmitterOf({ sandboxPort: () => peer.port })
  expect(outcomeOf(await send(transmitter))).toMatchObject({ kind: 'retry', reason: 'mail_4xx' })
  expect(kind(await send(transmitter))).toBe('accepted')
})

describe('shutdown', () => {
  test('ends the look-up in the name service', async () => {
    const shutdown = new AbortController()
    const mail = mailOf({ recipient: addressOf('someone@silence.test'), signal: shutdown.signal })
    const result = send(await transmitterOf(), mail, { kind: 'mx' })
    await until(() => dns.asked.includes('MX silence.test'))
    shutdown.abort()
    expect(kind(await result)).toBe('retry shutdown')
  })

  test('asks no name server for a mail that was given up before', async () => {
    const asked = dns.asked.length
    const mail = mailOf({ recipient: addressOf('someone@silence.test'), signal: AbortSignal.abort() })
    expect(kind(await send(await transmitterOf(), mail, { kind: 'mx' }))).toBe('retry shutdown')
    expect(dns.asked.slice(asked)).toEqual([])
  })

  test('does not go on to the next host', async () => {
    const shutdown = new AbortController()
    const mail = mailOf({ recipient: addressOf('someone@several.test'), signal: shutdown.signal })
    const { peer, result } = await overHosts([{ MAIL: () => shutdown.abort() }, {}], mail)
    expect([kind(result), peer.connections, peer.dots]).toEqual(['retry shutdown', 1, 0])
    expect(result.attemptsOnHosts).toHaveLength(1)
  })

  test('one signal serves any number of jobs', async () => {
    const peer = await peerOf()
    const transmitter = await transmitterOf({ sandboxPort: () => peer.port })
    const { signal } = new AbortController()
    const warnings: Error[] = []
    const warned = (warning: Error) => void warnings.push(warning)
    process.on('warning', warned)
    await Promise.all(Array.from({ length: 50 }, () => send(transmitter, mailOf({ signal }))))
    process.off('warning', warned)
    expect([peer.dots, warnings]).toEqual([50, []])
  })
})

test('the dialogue and the result hold no password', async () => {
  const peer = await peerOf({ EHLO: '250-relay\r\n250 AUTH PLAIN LOGIN\r\n', AUTH: '535 5.7.8 no\r\n' })
  const result = await send(await transmitterOf(), mailOf(), parseRoute(`smtp://me:canary-7@127.0.0.1:${peer.port}`))
  expect(kind(result)).toBe('retry auth')
  const shown = JSON.stringify(result)
  for (const secret of ['canary-7', Buffer.from('\0me\0canary-7').toString('base64')])
    expect(shown).not.toContain(secret)
})

const life = await startPeer()
const transmitters = new WeakMap<object, Transmitter>()
survivesItsLife(
  'transmitter',
  async () => {
    const made = makeTransmitter({
      hostname: 'out.sender.test',
      timeoutScale: 1,
      mxPort: 25,
      sandboxPort: () => life.port,
      dnsServers: [],
      allowPrivateMx: true,
    })
    transmitters.set(made.service, made)
    return made.service
  },
  async (service) => {
    const made = transmitters.get(service)
    if (made === undefined) throw new Error('an unknown transmitter')
    expect(kind(await send(made))).toBe('accepted')
  },
)
