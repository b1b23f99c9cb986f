// The stub resolver against name servers with manners of their own; what it makes of answers is in deliver/resolve.test.ts.
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import packet from 'dns-packet'
import { afterEach, describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { makeDns } from './dns.ts'
import { doneFor } from './turns.ts'

const sockets: Socket[] = []
afterEach(() => Promise.all(sockets.splice(0).map((socket) => once(socket.close(), 'close'))))

/** A resolver over UDP that answers as it is told. */
async function resolverThat(answers: (query: packet.DecodedPacket) => Buffer): Promise<string> {
  const socket = createSocket('udp4')
  sockets.push(socket)
  socket.on('message', (bytes, from) => socket.send(answers(packet.decode(bytes)), from.port, from.address))
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return `127.0.0.1:${socket.address().port}`
}

const formatError = 1
const notImplemented = 4

test('a server that no way leads to is as good as silent', async () => {
  // The kernel says so at once: no route (IPv6 on a machine without it), or not allowed.
  const dns = makeDns({ servers: ['255.255.255.255'], queryMs: 2_000, tries: 1 })
  expect(await dns.ask('example.org', 'MX')).toMatchObject({ kind: 'failure', answered: false })
})

test.each([
  ['FORMERR', formatError, 'with the question'],
  ['FORMERR', formatError, 'without it'],
  ['NOTIMP', notImplemented, 'with the question'],
])('a server that knows no EDNS (%s, %i, %s) is asked again without (RFC 6891 7)', async (_, code, how) => {
  const server = await resolverThat(({ id = 0, questions = [], additionals = [] }) => {
    const reply = { type: 'response', id, questions } as const
    if (additionals.length > 0)
      return packet.encode({ ...reply, flags: code, ...(how === 'without it' && { questions: [] }) })
    return packet.encode({ ...reply, answers: [{ type: 'A', name: 'example.org', ttl: 60, data: '192.0.2.1' }] })
  })
  const dns = makeDns({ servers: [server], queryMs: 500, tries: 1 })
  expect(await dns.ask('example.org', 'A')).toMatchObject({ kind: 'found', records: [{ data: '192.0.2.1' }] })
})

test('a server that refuses both ways has failed, and is not asked for ever', async () => {
  let asked = 0
  const server = await resolverThat(({ id = 0, questions = [] }) => {
    asked++
    return packet.encode({ type: 'response', id, questions, flags: formatError })
  })
  const dns = makeDns({ servers: [server], queryMs: 500, tries: 1 })
  expect(await dns.ask('example.org', 'A')).toMatchObject({ kind: 'failure' })
  expect(asked).toBe(2)
})

test('what was answered while this process stood still is heard, though its time is over by then', async () => {
  const queryMs = 50
  const server = createSocket('udp4').bind(0, '127.0.0.1')
  sockets.push(server)
  await once(server, 'listening')
  const answers = [{ type: 'A', name: 'example.org', ttl: 60, data: '192.0.2.1' }] as const
  server.on('message', (bytes, from) => {
    const { id = 0, questions = [] } = packet.decode(bytes)
    server.send(
      packet.encode({ type: 'response', id, questions, answers: [...answers] }),
      from.port,
      from.address,
      () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * queryMs),
    )
  })
  const dns = makeDns({ servers: [`127.0.0.1:${server.address().port}`], queryMs, tries: 1 })
  expect(await dns.ask('example.org', 'A')).toMatchObject({ kind: 'found' })
})

test('what an answer says of other names does not count', async () => {
  const server = await resolverThat(({ id = 0, questions = [] }) =>
    packet.encode({
      type: 'response',
      id,
      questions,
      answers: [
        { type: 'A', name: 'elsewhere.example', ttl: 60, data: '192.0.2.1' },
        { type: 'CNAME', name: 'example.org', ttl: 60, data: 'www.example.org' },
        { type: 'A', name: 'www.example.org', ttl: 60, data: '192.0.2.2' },
      ],
    }),
  )
  const dns = makeDns({ servers: [server], queryMs: 500, tries: 1 })
  const { records } = await dns.ask('example.org', 'A')
  expect(records.map((record) => record.type === 'A' && record.data)).toEqual(['192.0.2.2'])
})

test('a referral to other servers is no "there is none" (RFC 2308 2.2)', async () => {
  // What a server without recursion says of names that are not its own.
  const server = await resolverThat(({ id = 0, questions = [] }) =>
    packet.encode({
      type: 'response',
      id,
      questions,
      authorities: [{ type: 'NS', name: 'org', ttl: 60, data: 'a0.org.afilias-nst.info' }],
    }),
  )
  const dns = makeDns({ servers: [server], queryMs: 500, tries: 1 })
  expect(await dns.ask('example.org', 'MX')).toMatchObject({ kind: 'failure' })
})

describe('one workspace asks about very many names whose servers say nothing', () => {
  const many = limits.dnsQuestionsMax + 100
  /** The answer of everything but silent names, and how many questions about those have arrived. */
  async function crowded() {
    const socket = createSocket('udp4')
    sockets.push(socket)
    const seen = new Set<string>()
    let arrived = () => {}
    const full = new Promise<void>((resolve) => (arrived = resolve))
    socket.on('message', (bytes, from) => {
      const { id = 0, questions = [] } = packet.decode(bytes)
      const name = questions[0]?.name ?? ''
      if (name.startsWith('silent')) {
        seen.add(name)
        if (seen.size === limits.dnsQuestionsOfOwnerMax) arrived()
        return
      }
      const answers = [{ type: 'A', name, ttl: 60, data: '192.0.2.1' }] as const
      socket.send(packet.encode({ type: 'response', id, questions, answers: [...answers] }), from.port, from.address)
    })
    socket.bind(0, '127.0.0.1')
    await once(socket, 'listening')
    // So patient that nothing here ends by its own time.
    const dns = makeDns({ servers: [`127.0.0.1:${socket.address().port}`], queryMs: 600_000, tries: 1 })
    const asked = Array.from({ length: many }, (_, at) => doneFor('flood', () => dns.ask(`silent${at}.example`, 'A')))
    const ends = async () => {
      dns.cancel()
      await Promise.all(asked)
    }
    await full
    return { dns, seen, ends }
  }

  test('the others find room at once, also the installation itself', async () => {
    const { dns, seen, ends } = await crowded()
    expect(await doneFor('shop', () => dns.ask('good.example', 'A'))).toMatchObject({ kind: 'found' })
    expect(await dns.ask('relay.example', 'A')).toMatchObject({ kind: 'found' })
    expect(seen.size).toBe(limits.dnsQuestionsOfOwnerMax)
    await ends()
  })

  test('nobody waits in the turn of another who asked the same before', async () => {
    const { dns, ends } = await crowded()
    const theirs = doneFor('flood', () => dns.ask('big.example', 'A'))
    expect(await doneFor('shop', () => dns.ask('big.example', 'A'))).toMatchObject({ kind: 'found' })
    await ends()
    await theirs
  })
})

test('what is remembered is bounded in memory too: whoever owns a zone decides how large its answers are', async () => {
  const asked: string[] = []
  const large = Array.from({ length: 400 }, (_, n) => `192.0.2.${n % 250}`)
  const server = await resolverThat(({ id = 0, questions = [] }) => {
    const name = questions[0]?.name ?? ''
    asked.push(name)
    const data = name.startsWith('large') ? large : ['192.0.2.1']
    const answers = data.map((each) => ({ type: 'A' as const, name, ttl: 3_600, data: each }))
    return packet.encode({ type: 'response', id, questions, answers })
  })
  const dns = makeDns({ servers: [server], queryMs: 2_000, tries: 1, keptBytesMax: 400_000 })
  const names = ['large1.test', 'large2.test', 'large3.test', 'large4.test', 'large5.test', 'small.test']
  for (const name of names) await dns.ask(name, 'A')
  for (const name of ['small.test', 'large5.test']) await dns.ask(name, 'A')
  expect(asked).toEqual(names)
  expect((await dns.ask('large1.test', 'A')).records).toHaveLength(large.length)
  expect(asked).toEqual([...names, 'large1.test'])
})

test("the system's name servers are those of now: another network needs no restart", async () => {
  const says = (address: string) =>
    resolverThat(({ id = 0, questions = [] }) =>
      packet.encode({
        type: 'response',
        id,
        questions,
        flags: packet.RECURSION_AVAILABLE,
        answers: [{ type: 'A', name: questions[0]?.name ?? '', ttl: 60, data: address }],
      }),
    )
  const [before, after] = [await says('192.0.2.1'), await says('192.0.2.2')]
  let system = [before]
  let looks = 0
  let at = 0
  const dns = makeDns({ servers: [], system: () => (looks++, system), now: () => at })
  const addressOf = async (name: string) =>
    (await dns.ask(name, 'A')).records.map((record) => 'data' in record && record.data)
  expect([await addressOf('a.test'), dns.servers]).toEqual([['192.0.2.1'], [before]])
  system = [after]
  expect([await addressOf('b.test'), looks]).toEqual([['192.0.2.1'], 1])
  at += limits.dnsServersReadMs + 1
  expect([await addressOf('c.test'), dns.servers, looks]).toEqual([['192.0.2.2'], [after], 2])
  system = ['192.0.2.53']
  expect(dns.near).toBe(true)
  at += limits.dnsServersReadMs + 1
  expect(dns.near).toBe(false)
})

test('what the operator has named stays, whatever the system says', () => {
  let at = 0
  const dns = makeDns({ servers: ['192.0.2.1'], system: () => ['127.0.0.1'], now: () => at })
  at += limits.dnsServersReadMs + 1
  expect([dns.servers, dns.near]).toEqual([['192.0.2.1'], true])
})
