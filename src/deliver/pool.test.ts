import type { Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, describe, expect, test } from 'vitest'
import { survivesItsLife } from '../base/service.test-kit.ts'
import { limits } from '../config.ts'
import { mailOf, polite, silence, startPeer, targetOf, until, withoutPipelining } from './peer.test-kit.ts'
import type { Act, Peer } from './peer.test-kit.ts'
import { lineTooLong, Pool } from './pool.ts'
import type { Lease, PoolSettings } from './pool.ts'
import type { Target } from './route.ts'

const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

async function peerOf(...script: Parameters<typeof startPeer>): Promise<Peer> {
  const peer = await startPeer(...script)
  ends.unshift(() => peer.stop())
  return peer
}
async function poolOf(settings: Partial<PoolSettings> = {}): Promise<Pool> {
  const pool = new Pool({ hostname: 'out.sender.test', timeoutScale: 1, stopMs: 50, ...settings })
  await pool.service.start()
  ends.unshift(() => pool.service.stop())
  return pool
}
async function take(pool: Pool, peer: Peer, signal?: AbortSignal): Promise<Lease> {
  const lease = await pool.take(targetOf(peer, 'clear'), [], signal)
  if ('phase' in lease) throw new Error(`no connection: ${lease.phase} ${lease.trouble}`)
  return lease
}
async function sendOver(pool: Pool, peer: Peer): Promise<void> {
  const lease = await take(pool, peer)
  lease.release((await lease.conversation.send(mailOf(), [])).reusable)
}

describe('a provider', () => {
  const bounded = (connections: number, messagesPerConnection = 100) => ({
    mannersOf: () => ({ connections, messagesPerConnection }),
  })
  const at = (peer: Peer, key: string, provider = 'big') => targetOf(peer, 'clear', { key, provider })

  test('of the well-known ones has the limits of its own at its hosts, whatever name was there first', async () => {
    const mannersOf = (provider: string) => ({
      connections: provider === 'google' ? 3 : 1,
      messagesPerConnection: 100,
    })
    const [peer, pool] = [await peerOf(), await poolOf({ mannersOf, lineMs: 50 })]
    const take = (provider: string) => pool.take(at(peer, 'a', provider), [])
    const taken = [await take('vanity.example'), await take('google'), await take('google')]
    expect(taken.map((lease) => 'phase' in lease)).toEqual([false, false, false])
    expect(await Promise.all([take('google'), take('vanity.example')])).toEqual([lineTooLong, lineTooLong])
    // The name has its own limit elsewhere again.
    const elsewhere = await pool.take(at(peer, 'b', 'vanity.example'), [])
    expect('phase' in elsewhere).toBe(false)
    for (const lease of [...taken, elsewhere]) if (!('phase' in lease)) lease.release(true)
    await until(() => pool.open === 4)
    expect(peer.connections).toBe(4)
  })

  test('has so many connections over all of its hosts, and whoever waits gets the next that is free', async () => {
    const [peer, pool] = [await peerOf(), await poolOf(bounded(2))]
    const taken = async (key: string, provider?: string) => {
      const lease = await pool.take(at(peer, key, provider), [])
      if ('phase' in lease) throw new Error(lease.trouble)
      return lease
    }
    const [one, two] = [await taken('a'), await taken('b')]
    const waiting = taken('c')
    const elsewhere = await taken('d', 'other')
    expect([pool.open, peer.connections]).toEqual([3, 3])
    one.release((await one.conversation.send(mailOf(), [])).reusable)
    const third = await waiting
    expect([pool.open, third.reused]).toEqual([3, false])
    for (const lease of [two, third, elsewhere]) lease.release(true)
    // Idle ones of its other hosts give way.
    const fourth = await taken('e')
    expect(pool.open).toBe(3)
    fourth.release(true)
  })

  /** Mail after mail for one of its hosts, by so many at once, until it is stopped. */
  const backlogOf = async (pool: Pool, target: Target, many: number) => {
    let sent = 0
    const over = new AbortController()
    const sender = async () => {
      while (!over.signal.aborted) {
        const lease = await pool.take(target, [])
        if ('phase' in lease) throw new Error(lease.trouble)
        lease.release((await lease.conversation.send(mailOf(), [])).reusable)
        sent++
      }
    }
    const senders = Array.from({ length: many }, sender)
    await until(() => sent > many)
    const stop = async () => {
      over.abort()
      await Promise.all(senders)
    }
    ends.unshift(stop)
    return { sent: () => sent, stop }
  }

  test.each([
    ['some', 4, 60_000],
    ['its only one, after a turn with it,', 1, 20],
  ])('whose one host is busy leaves %s of its connections to another', async (_, connections, turnMs) => {
    const [peer, pool] = [await peerOf(), await poolOf({ ...bounded(connections), turnMs })]
    const backlog = await backlogOf(pool, at(peer, 'a'), 20)
    const other = await pool.take(at(peer, 'b'), [])
    if ('phase' in other) throw new Error(other.trouble)
    // Whoever has its share of them goes on.
    const before = backlog.sent()
    if (connections > 1) await until(() => backlog.sent() > before + 20)
    expect(pool.open).toBeLessThanOrEqual(connections)
    other.release(true)
    await until(() => backlog.sent() > before + 20)
  })

  test('has two busy hosts: each has half of its connections, and keeps them', async () => {
    const [peer, pool] = [await peerOf(), await poolOf(bounded(4, 1_000_000))]
    const [one, two] = [await backlogOf(pool, at(peer, 'a'), 10), await backlogOf(pool, at(peer, 'b'), 10)]
    const [opened, first, second] = [peer.connections, one.sent(), two.sent()]
    await until(() => one.sent() > first + 50 && two.sent() > second + 50)
    expect([peer.connections, pool.open]).toEqual([opened, 4])
    await Promise.all([one.stop(), two.stop()])
  })

  test('of which many hosts are busy serves them all in turn, over the few connections that it allows', async () => {
    const [peer, pool] = [await peerOf(), await poolOf({ ...bounded(2), turnMs: 5 })]
    const backlogs = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((key) => backlogOf(pool, at(peer, key), 3)))
    const before = backlogs.map(({ sent }) => sent())
    await until(() => backlogs.every(({ sent }, each) => sent() > (before[each] ?? 0) + 3))
    expect(pool.open).toBeLessThanOrEqual(2)
    await Promise.all(backlogs.map(({ stop }) => stop()))
  })

  // Each of its connections ends with an error: nothing is ever given back.
  test('at a host of which every connection fails, another does not wait for the end of its line', async () => {
    const [down, peer] = [await peerOf({ greeting: '554 no\r\n' }), await peerOf()]
    const pool = await poolOf(bounded(1))
    let failed = 0
    const refused = Array.from({ length: 50 }, () => pool.take(at(down, 'a'), []).finally(() => failed++))
    const other = await pool.take(at(peer, 'b'), [])
    expect(failed).toBeLessThan(5)
    if (!('phase' in other)) other.release(true)
    await Promise.all(refused)
  })

  // Who stood in line before, stood there for its whole half minute.
  test.each(['what was said over its only connection', 'an operator'])(
    'may have more connections, by %s: whoever waits for one has it at once',
    async (by) => {
      let connections = 1
      const manners = { mannersOf: () => ({ connections, messagesPerConnection: 100 }) }
      const [peer, pool] = [await peerOf(), await poolOf(manners)]
      const taken = async (key: string) => {
        const lease = await pool.take(at(peer, key), [])
        if ('phase' in lease) throw new Error(lease.trouble)
        return lease
      }
      const first = await taken('a')
      const [beside, elsewhere] = [taken('a'), taken('b')]
      connections = 3
      if (by === 'an operator') pool.mannersChanged()
      else first.release(true)
      for (const lease of [await beside, await elsewhere]) lease.release(true)
      if (by === 'an operator') first.release(true)
      expect(pool.open).toBeLessThanOrEqual(3)
    },
  )

  test('gets so many mails over one connection', async () => {
    const [peer, pool] = [await peerOf(), await poolOf(bounded(5, 2))]
    for (let mail = 0; mail < 5; mail++) await sendOver(pool, peer)
    expect(peer.connections).toBe(3)
  })
})

test('what one workspace may have in flight, at as many hosts that say nothing, leaves connections for the others', async () => {
  const [silent, peer, pool] = [await peerOf({ greeting: silence }), await peerOf(), await poolOf()]
  const waiting = Array.from({ length: limits.workspaceSlotsMax }, (_, at) =>
    pool.take(targetOf(silent, 'clear', { key: `key ${at}`, provider: `provider ${at}` }), []),
  )
  await until(() => silent.connections === limits.workspaceSlotsMax)
  await sendOver(pool, peer)
  expect(peer.dots).toBe(1)
  await pool.service.stop()
  await Promise.all(waiting)
})

// Each left a kilobyte behind for as long as the process lived; nobody noticed before the simulation ran out of memory.
test('ten thousand connections leave nothing behind in memory', async () => {
  const peer = await startPeer()
  const gone = targetOf(peer, 'clear')
  await peer.stop()
  const pool = await poolOf()
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const heapAfter = async (many: number): Promise<number> => {
    for (let n = 0; n < many; n++)
      expect(await pool.take(gone, [], new AbortController().signal)).toMatchObject({ trouble: 'connect_failed' })
    await new Promise((resolve) => setImmediate(resolve))
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = await heapAfter(1_000)
  const grown = (await heapAfter(10_000)) - before
  expect(grown / 10_000).toBeLessThan(200)
})

describe('a kept connection', () => {
  test('serves the next mail', async () => {
    const [peer, pool] = [await peerOf(), await poolOf()]
    for (let mail = 0; mail < 3; mail++) await sendOver(pool, peer)
    expect([peer.connections, peer.dots, pool.open]).toEqual([1, 3, 1])
  })

  test('is given up after so many mails, with QUIT', async () => {
    const [peer, pool] = [await peerOf(), await poolOf({ mailsPerConnectionMax: 2 })]
    for (let mail = 0; mail < 5; mail++) await sendOver(pool, peer)
    expect(peer.connections).toBe(3)
    await until(() => peer.heard.filter((line) => line === 'QUIT').length === 2)
  })

  // postscreen's deep protocol tests answer 450 to all that comes over the first connection, and look at nothing before its end.
  test('over which nothing is taken is given up after a few refusals: the next one may be let in', async () => {
    const peer = await peerOf((connection) =>
      connection === 1 ? { EHLO: withoutPipelining, RCPT: '450 4.3.2 not now\r\n' } : {},
    )
    const pool = await poolOf()
    for (let mail = 0; mail < limits.refusalsPerConnectionMax + 2; mail++) await sendOver(pool, peer)
    expect([peer.connections, peer.dots]).toEqual([2, 2])
    expect(peer.heard.filter((line) => line === 'QUIT')).toHaveLength(1)
  })

  test('over which one mail or another is refused is kept', async () => {
    let recipients = 0
    const RCPT: Act = (socket) => void socket.write(++recipients % 2 ? '450 4.2.0 greylisted\r\n' : '250 ok\r\n')
    const [peer, pool] = [await peerOf({ RCPT, EHLO: withoutPipelining }), await poolOf()]
    for (let mail = 0; mail < 4 * limits.refusalsPerConnectionMax; mail++) await sendOver(pool, peer)
    expect([peer.connections, peer.dots]).toEqual([1, 2 * limits.refusalsPerConnectionMax])
  })

  test('is closed when nobody needs it, with QUIT', async () => {
    const [peer, pool] = [await peerOf(), await poolOf({ idleMs: 20 })]
    await sendOver(pool, peer)
    await until(() => pool.open === 0 && peer.sockets.size === 0)
    expect(peer.heard.at(-1)).toBe('QUIT')
  })

  test('that leaves has gone before the next one comes, where there is no other: the host may bear one', async () => {
    const leaving: Socket[] = []
    const peer = await peerOf({ QUIT: (socket) => void leaving.push(socket) }, { lingers: true })
    const [elsewhere, pool] = [await peerOf(), await poolOf({ mailsPerConnectionMax: 1 })]
    await sendOver(pool, peer)
    await until(() => leaving.length === 1)
    const next = take(pool, peer)
    await sendOver(pool, elsewhere)
    expect(peer.connections).toBe(1)
    leaving[0]?.end('221 bye\r\n')
    const one = await next
    // Beside others it is not waited for: the host has shown that it bears more, and whom it refuses is one of a crowd.
    const two = await take(pool, peer)
    for (const lease of [one, two]) lease.release((await lease.conversation.send(mailOf(), [])).reusable)
    expect([peer.connections, peer.dots]).toEqual([3, 3])
    for (const socket of leaving) socket.end('221 bye\r\n')
  })

  test.each([
    ['hangs up', (peer: Peer) => peer.sockets.forEach((socket) => socket.destroy())],
    ['says 421', (peer: Peer) => peer.sockets.forEach((socket) => socket.write('421 4.4.2 idle\r\n'))],
    ['babbles', (peer: Peer) => peer.sockets.forEach((socket) => socket.write('2'))],
  ])('is dropped as soon as the server %s', async (_, act) => {
    const [peer, pool] = [await peerOf(), await poolOf({ idleMs: 3_600_000 })]
    await sendOver(pool, peer)
    act(peer)
    await until(() => pool.open === 0)
    await sendOver(pool, peer)
    expect(peer.connections).toBe(2)
  })

  test('that turned out dead is replaced in its own place', async () => {
    const [peer, pool] = [await peerOf(), await poolOf({ perDestinationMax: 1 })]
    await sendOver(pool, peer)
    const lease = await take(pool, peer)
    expect(lease.reused).toBe(true)
    const fresh = await lease.renew()
    if ('phase' in fresh) throw new Error('not renewed')
    expect([fresh.reused, pool.open]).toEqual([false, 1])
    fresh.release((await fresh.conversation.send(mailOf(), [])).reusable)
    await sendOver(pool, peer)
    expect([peer.connections, pool.open]).toEqual([2, 1])
  })
})

describe('limits', () => {
  test('few connections to one place: the others wait their turn, in order', async () => {
    const [peer, pool] = [await peerOf(), await poolOf({ perDestinationMax: 2 })]
    const [first, second] = [await take(pool, peer), await take(pool, peer)]
    const order: number[] = []
    const later = [1, 2, 3].map(async (number) => {
      const lease = await take(pool, peer)
      order.push(number)
      lease.release(true)
    })
    first.release(false) // its place is free for a new connection
    second.release(true) // this one is handed on
    await Promise.all(later)
    expect([order.length, peer.connections, pool.open]).toEqual([3, 3, 2])
    expect(order.indexOf(2)).toBeLessThan(order.indexOf(3))
  })

  test('whoever waits for so long goes back, in his turn, and the line goes on without him', async () => {
    const [peer, pool] = [await peerOf(), await poolOf({ perDestinationMax: 1, lineMs: 40 })]
    const busy = await take(pool, peer)
    const late = await Promise.all([1, 2].map(() => pool.take(targetOf(peer, 'clear'), [])))
    expect(late).toEqual([lineTooLong, lineTooLong])
    const served = take(pool, peer)
    busy.release(true)
    ;(await served).release(true)
    expect([peer.connections, pool.open]).toEqual([1, 1])
  })

  test('a connection that could not be opened frees its place', async () => {
    const peer = await peerOf((connection) => (connection === 1 ? { greeting: '554 no\r\n' } : {}))
    const pool = await poolOf({ perDestinationMax: 1 })
    const [refused, served] = [pool.take(targetOf(peer, 'clear'), []), take(pool, peer)]
    expect(await refused).toMatchObject({ phase: 'greeting', reply: { code: 554 } })
    ;(await served).release(true)
    expect(pool.open).toBe(1)
  })

  test('when all are in use, an idle one elsewhere gives way', async () => {
    const [one, other] = [await peerOf(), await peerOf()]
    const pool = await poolOf({ connectionsMax: 1 })
    await sendOver(pool, one)
    await sendOver(pool, other)
    expect(pool.open).toBe(1)
    await until(() => one.heard.at(-1) === 'QUIT')
  })

  test('when all are busy, a release serves who waits elsewhere', async () => {
    const [one, other] = [await peerOf(), await peerOf()]
    const pool = await poolOf({ connectionsMax: 1, idleMs: 3_600_000 })
    const busy = await take(pool, one)
    const waiting = take(pool, other)
    busy.release(true)
    ;(await waiting).release(true)
    expect([one.connections, other.connections, pool.open]).toEqual([1, 1, 1])
  })

  test('who waits gives up at a shutdown, and is not served later', async () => {
    const [peer, pool] = [await peerOf(), await poolOf({ perDestinationMax: 1 })]
    const busy = await take(pool, peer)
    const shutdown = new AbortController()
    const waiting = pool.take(targetOf(peer, 'clear'), [], shutdown.signal)
    shutdown.abort()
    expect(await waiting).toEqual({ phase: 'connect', trouble: 'shutdown' })
    busy.release(true)
    expect(pool.open).toBe(1)
    await sendOver(pool, peer)
  })
})

describe('stop', () => {
  test('waits for the mail under way, and says QUIT', async () => {
    const [peer, pool] = [await peerOf({ dot: silence }), await poolOf({ stopMs: 60_000 })]
    const lease = await take(pool, peer)
    const sending = lease.conversation.send(mailOf(), []).then((end) => (lease.release(end.reusable), end))
    await until(() => peer.dots === 1)
    const stopped = pool.service.stop()
    for (const socket of peer.sockets) socket.write(polite.dot as string)
    expect(await sending).toMatchObject({ phase: 'eod', reply: { code: 250 } })
    await stopped
    expect(pool.open).toBe(0)
  })

  test('cuts what takes too long: after the dot nobody knows', async () => {
    const [peer, pool] = [await peerOf({ dot: silence }), await poolOf({ stopMs: 20 })]
    const lease = await take(pool, peer)
    const sending = lease.conversation.send(mailOf(), []).then((end) => (lease.release(end.reusable), end))
    await until(() => peer.dots === 1)
    await pool.service.stop()
    expect(await sending).toMatchObject({ phase: 'eod', trouble: 'closed' })
  })

  test('gives up connections that are only being opened, and whoever waits', async () => {
    const [peer, pool] = [await peerOf({ greeting: silence }), await poolOf({ stopMs: 60_000, perDestinationMax: 1 })]
    const takes = [pool.take(targetOf(peer, 'clear'), []), pool.take(targetOf(peer, 'clear'), [])]
    await until(() => peer.connections === 1)
    await pool.service.stop()
    expect((await Promise.all(takes)).map((end) => 'trouble' in end && end.trouble)).toEqual(['shutdown', 'shutdown'])
  })
})

const life = await startPeer()
const pools = new WeakMap<object, Pool>()
survivesItsLife(
  'connections',
  async () => {
    const pool = new Pool({ hostname: 'out.sender.test', timeoutScale: 1 })
    pools.set(pool.service, pool)
    return pool.service
  },
  async (service) => {
    const pool = pools.get(service)
    if (pool === undefined) throw new Error('an unknown pool')
    await sendOver(pool, life)
  },
)
