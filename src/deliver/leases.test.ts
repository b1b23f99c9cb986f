// Leases, by tests that wait until one is over or would be: who keeps theirs, whose may be believed to have run out, and what an outage of the database
// costs. Each has a database of its own, so that they wait side by side.
import type { Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { afterAll, describe, expect, test as base } from 'vitest'
import { startPostgresProxy } from '../../test/world/postgres-proxy.ts'
import { startReceiver, type Receiver } from '../../test/world/receiver-process.ts'
import { type Db, openDatabase } from '../store/database.ts'
import { makeRecorder } from '../store/outbound.ts'
import { calm, deliverWorld, leaseMs, longLeaseMs, patienceMs, relay, type DeliverWorld } from './deliver.test-kit.ts'
import type { MessageId } from '../domain/message.ts'
import { memoryJournal, openGate } from './fence.test-kit.ts'

const receiver = await startReceiver()
afterAll(() => receiver.stop())

const test = base.extend<{ receiver: Receiver; at: DeliverWorld }>({
  receiver,
  at: async ({ receiver }, use) => {
    const at = await deliverWorld(receiver)
    try {
      await use(at)
    } finally {
      await at.close()
    }
  },
})

describe.concurrent('the lease', () => {
  test('is kept while the receiver takes its time, and nobody else gets the message', async ({ at }) => {
    const { started, peerThatHolds, senderOf, one, eventually, becomes, arrived, types, queueRow } = at
    const { peer, held } = await peerThatHolds('RCPT')
    const id = await one(await senderOf(), 'ok')
    await started({ route: relay(peer), ...calm })
    await arrived(held, 1)
    const first = (await queueRow(id))?.['lease_until'] as Date
    await started({ route: relay(peer), ...calm })
    // Kept once more after the first one would have run out.
    await eventually(
      () => queueRow(id),
      (row) => Number(row?.['lease_until']) > first.getTime() + leaseMs,
      patienceMs,
    )
    held[0]?.write('250 ok\r\n')
    await becomes(id, 'sent')
    expect(await types(id)).toEqual(['queued', 'sending', 'sent'])
    expect(peer.dots).toBe(1)
  })

  test('is kept while the content of others is read, however many they are and however slow its disk; and nobody of them loses a try', async ({
    at,
  }) => {
    const {
      world,
      pool,
      started,
      peerOf,
      senderOf,
      one,
      withFile,
      statusOf,
      eventually,
      becomes,
      arrived,
      types,
      holding,
    } = at
    const held: Socket[] = []
    let answers = true
    const dot = (socket: Socket) => void (answers ? socket.write('250 2.0.0 ok\r\n') : held.push(socket))
    const route = relay(await peerOf({ dot }))
    const sender = await senderOf()
    const gate = openGate()
    await started({ db: pool(4), gate, route, ...calm })
    await becomes(await one(sender, 'ok'), 'sent') // from now on the keys are known
    const beside = openGate()
    beside.open(false)
    await started({ gate: beside, ...calm }) // a node that claims nothing, and reaps
    const [early] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    await becomes(early?.id as MessageId, 'delivery_unknown', patienceMs) // its first lease is over
    gate.open(false)
    answers = false
    const large = await Promise.all(Array.from({ length: 8 }, () => withFile(sender, 100_000)))
    const id = await one(sender, 'ok')
    const holder = await holding('lock table blobs in access exclusive mode')
    gate.open(true)
    await arrived(held, 1)
    // While the disk hangs its lease is carried on, past where the first one would have ended.
    const until = async () =>
      (await world.value<Date>('select lease_until from outbound where message_id = $1', [id])).getTime()
    const first = await until()
    await eventually(until, (at) => at > first + 2 * leaseMs)
    expect(await statusOf(id)).toBe('sending')
    answers = true
    await holder.query('rollback')
    held[0]?.write('250 2.0.0 ok\r\n')
    for (const each of [id, ...large]) {
      await becomes(each, 'sent')
      expect(await types(each)).toEqual(['queued', 'sending', 'sent'])
    }
  })

  test('ends for the dot a tenth before it ends for others, counted from the claim', async ({ at }) => {
    const { toReceiver, started, senderOf, one, becomes } = at
    const real = toReceiver()
    let leftMs = Infinity
    const transmit: typeof real.transmit = (job) => {
      leftMs = job.deadline() - performance.now()
      return real.transmit(job)
    }
    await started({ transmitter: { ...real, transmit }, leaseMs: 60_000 })
    await becomes(await one(await senderOf(), 'ok'), 'sent')
    expect(leftMs).toBeLessThan(54_000)
    expect(leftMs).toBeGreaterThan(44_000)
  })

  // What the database says was true when it said so. Counted from when that arrives, a dot could be written behind the reaper's decision.
  test('begins when the database is asked, at the claim as at each heartbeat, however late the answer comes', async ({
    at,
  }) => {
    const { pool, toReceiver, started, senderOf, one, eventually, becomes } = at
    const db = pool(2)
    const lateMs = 50
    const asked = { claim: 0, heartbeat: 0 }
    const rows: Db['rows'] = async (statement, values) => {
      const at = performance.now()
      const answer = await db.rows<never>(statement, values)
      const what = statement.name === 'claim' && answer.length > 1 ? 'claim' : statement.name
      if (what !== 'claim' && what !== 'heartbeat') return answer
      await setTimeout(lateMs)
      asked[what] = at
      return answer
    }
    const real = toReceiver()
    const [began, go] = [Promise.withResolvers<() => number>(), Promise.withResolvers<void>()]
    const transmit: typeof real.transmit = async (job) => {
      began.resolve(() => job.deadline())
      await go.promise
      return real.transmit(job)
    }
    const id = await one(await senderOf(), 'ok')
    await started({ db: { ...db, rows }, transmitter: { ...real, transmit }, ...calm })
    const deadline = await began.promise
    const first = deadline()
    expect(first - asked.claim).toBeLessThan(0.9 * leaseMs + 1)
    const next = await eventually(deadline, (at) => at > first)
    expect(next - asked.heartbeat).toBeLessThan(0.9 * leaseMs + 1)
    go.resolve()
    await becomes(id, 'sent')
  })

  test('lost: the connection is closed without a dot, and the row left to whoever has it', async ({ at }) => {
    const { world, started, peerThatHolds, senderOf, one, comesTo, arrived, types, queueRow } = at
    const { peer, held } = await peerThatHolds('RCPT')
    const id = await one(await senderOf(), 'ok')
    const service = await started({ route: relay(peer), ...calm })
    await arrived(held, 1)
    await world.db.run(
      `update outbound set epoch = epoch + 1, token = 7, lease_owner = $2, lease_until = app_now() + interval '1 hour' where message_id = $1`,
      [id, id],
    )
    await comesTo(() => service.inFlight, 0)
    expect([peer.dots, peer.sockets.size]).toEqual([0, 0])
    expect(await queueRow(id)).toMatchObject({ status: 'sending', epoch: 2, armed_epoch: null })
    expect(await types(id)).toEqual(['queued', 'sending'])
  })

  test('run out elsewhere: armed is unknown, not armed is tried again', async ({ at }) => {
    const { world, lines, started, senderOf, becomes, receipts } = at
    const sender = await senderOf()
    const [armed, idle] = await world.claimed(sender, [
      { armed: true, leaseSeconds: -1 },
      { recipient: 'ok@example.org', leaseSeconds: -1 },
    ])
    await started({ ...calm })
    await becomes(armed?.id as MessageId, 'delivery_unknown', patienceMs)
    await becomes(idle?.id as MessageId, 'sent')
    expect(await receipts(armed?.id as MessageId)).toBe(0)
    // In the words of all other attempts: alerts count `unknown` alone.
    const told = (id: MessageId | undefined) => lines.find(({ facts }) => facts['messageId'] === id)?.facts
    expect(told(armed?.id)).toMatchObject({ outcome: 'unknown', reason: 'worker_lost' })
    expect(told(idle?.id)).toMatchObject({ outcome: 'retry', reason: 'worker_lost' })
  })

  test('a fault of ours behind the arm proves nothing, however often it was tried: nobody can know', async ({ at }) => {
    const { world, faults, toReceiver, started, senderOf, one, becomes, types, receipts } = at
    const id = await one(await senderOf(), 'ok')
    await world.db.run('update outbound set attempts = 5 where message_id = $1', [id])
    const real = toReceiver()
    const transmitter: typeof real = {
      ...real,
      transmit: async (job) => {
        await real.transmit(job)
        throw new Error('a fault of ours')
      },
    }
    await started({ transmitter, ...calm })
    await becomes(id, 'delivery_unknown', patienceMs)
    expect([await receipts(id), await types(id)]).toEqual([1, ['queued', 'sending', 'delivery_unknown']])
    // The database would not have let it be tried again; nobody has asked.
    expect(faults()).toEqual(['attempt'])
  })
})

describe.concurrent('trouble with the database', () => {
  test('an ending that the database refuses is left to the reaper, and the loop goes on', async ({ at }) => {
    const { world, faults, started, senderOf, one, becomes, receipts } = at
    const sender = await senderOf()
    const id = await one(sender, 'ok', { subject: 'poison' })
    await world.db.run(
      `create function refuse_poison() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$`,
    )
    await world.db.run(
      `create trigger poison before update on messages for each row
         when (new.subject = 'poison' and new.status = 'sent') execute function refuse_poison()`,
    )
    const journal = memoryJournal()
    const service = await started({ ...calm, journal })
    await becomes(id, 'delivery_unknown', patienceMs)
    expect(faults().filter((what) => what === 'finish')).toHaveLength(5)
    // The next start tells it again: what a server has answered is never let go.
    expect([journal.kept.map((ending) => [ending.id, ending.status]), journal.settled]).toEqual([[[id, 'sent']], []])
    await becomes(await one(sender, 'ok'), 'sent')
    expect(await receipts(id)).toBe(1)
    await service.stop() // else its statements and those below may wait for each other in a circle
    await world.db.run('drop trigger poison on messages')
    await world.db.run('drop function refuse_poison')
  })

  test('a reply outlasts a database that lets nobody in for a while, as behind a failover or a change of the password', async ({
    at,
  }) => {
    const {
      world,
      connection,
      mark,
      faults,
      pool,
      started,
      peerThatHolds,
      senderOf,
      one,
      becomes,
      reaches,
      arrived,
      types,
    } = at
    const role = `worker_${process.pid}`
    await world.db.run(`create role ${role} superuser login password 'secret'`)
    const as = { ...connection, user: role, password: 'secret' }
    const journal = memoryJournal()
    const { peer, held } = await peerThatHolds('dot')
    const id = await one(await senderOf(), 'ok')
    const service = await started({
      route: relay(peer),
      journal,
      db: pool(2, as),
      recorder: makeRecorder(pool(1, as), pool(1, as), mark),
    })
    await arrived(held, 1)
    await world.db.run(`alter role ${role} nologin`)
    await world.db.run('select pg_terminate_backend(pid) from pg_stat_activity where usename = $1', [role])
    held[0]?.write('250 2.0.0 ok\r\n')
    // Longer than it takes to call an ending refused.
    await reaches(() => faults().filter((what) => what === 'finish').length, 7)
    expect(journal.kept.map((ending) => ending.id)).toEqual([id])
    await world.db.run(`alter role ${role} login`)
    await becomes(id, 'sent')
    await service.stop()
    expect([peer.dots, await types(id)]).toEqual([1, ['queued', 'sending', 'sent']])
    await world.db.run('select pg_terminate_backend(pid) from pg_stat_activity where usename = $1', [role])
    await world.db.run(`drop role ${role}`)
  })

  test('after an outage the reaper waits for those who hold replies', async ({ at }) => {
    const { world, faults, started, senderOf, eventually, holding, endWhoWaitsFor, waitsItsLease } = at
    const sender = await senderOf()
    await started({ ...calm })
    const holder = await holding('lock table outbound in access exclusive mode')
    await endWhoWaitsFor(holder)
    await eventually(faults, (seen) => seen.some((what) => what === 'claim' || what === 'reap'))
    await holder.query('rollback')
    const [orphan] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    await waitsItsLease(sender, orphan?.id as MessageId, leaseMs - 500)
  })

  test('a loop whose statement fails each time holds up no reaper for ever, while heartbeats go through', async ({
    at,
  }) => {
    const { world, connection, faults, started, senderOf, one, becomes, holding } = at
    const sender = await senderOf()
    await one(sender, 'ok')
    const [orphan] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    await holding('lock table mailboxes in access exclusive mode') // a claim looks there
    const db = openDatabase(connection, { name: 'deliver', connectionsMax: 2, answerMs: leaseMs / 8 })
    at.endAfter(() => db.close())
    await started({ leaseMs, db })
    await becomes(orphan?.id as MessageId, 'delivery_unknown', patienceMs)
    expect(faults().filter((what) => what === 'claim').length).toBeGreaterThan(2)
  })

  test('while nobody gets at the queue, a node that holds nothing has no reap on its way, which could be before the heartbeats that wait there', async ({
    at,
  }) => {
    const { world, connection, pool, started, senderOf, eventually, holding, waitsItsLease } = at
    const sender = await senderOf()
    const [orphan] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    const db = openDatabase(connection, { name: 'deliver', connectionsMax: 2, answerMs: leaseMs / 2 })
    at.endAfter(() => db.close())
    const holder = await holding('lock table outbound in access exclusive mode')
    await started({ leaseMs, db, leaseDb: pool(1) })
    // The first reap, which takes nothing that is armed, has its own end.
    await setTimeout(leaseMs)
    const until = performance.now() + 1.5 * leaseMs
    await eventually(
      () =>
        holder.query(
          `select from pg_stat_activity where datname = current_database() and query like '%reap\\_2%' and wait_event_type = 'Lock'`,
        ),
      ({ rowCount }) => rowCount !== 0 || performance.now() > until,
    )
    await holder.query('rollback')
    await waitsItsLease(sender, orphan?.id as MessageId, leaseMs / 2)
  })

  test('an outage lasts until the database answers, though all that the reaper hears for longer than a lease is silence', async ({
    at,
  }) => {
    const { world, faults, one, eventually, becomes, startedBehindProxy, waitsItsLease } = at
    const { proxy, sender } = await startedBehindProxy()
    await becomes(await one(sender, 'ok'), 'sent')
    proxy.away(true)
    await eventually(faults, (seen) => seen.some((what) => what === 'claim' || what === 'reap'))
    proxy.hold(true)
    proxy.away(false)
    await setTimeout(leaseMs + 500) // how long this outage is
    const [orphan] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    proxy.hold(false)
    await waitsItsLease(sender, orphan?.id as MessageId, leaseMs)
  })

  test('so is one that is nothing but silence, and ends before anybody gives up waiting', async ({ at }) => {
    const { world, faults, becomes, startedBehindProxy, waitsItsLease } = at
    const { proxy, sender } = await startedBehindProxy()
    const [early] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    await becomes(early?.id as MessageId, 'delivery_unknown', patienceMs) // its first lease is over
    proxy.hold(true)
    await setTimeout(leaseMs) // how long this outage is
    const [orphan] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    proxy.hold(false)
    await waitsItsLease(sender, orphan?.id as MessageId, leaseMs - 100)
    expect(faults()).toEqual([])
  })

  test('a reap that hangs on its way through an outage does nothing when it arrives', async ({ at }) => {
    const { world, faults, becomes, startedBehindProxy, waitsItsLease } = at
    const { proxy, sender } = await startedBehindProxy()
    const [early] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    await becomes(early?.id as MessageId, 'delivery_unknown', patienceMs) // its first lease is over
    await proxy.holdAt('reap')
    await setTimeout(leaseMs) // how long this outage is
    const [orphan] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    proxy.hold(false)
    await waitsItsLease(sender, orphan?.id as MessageId, leaseMs - 100)
    expect(faults()).toEqual([])
  })

  test('while its own heartbeat gets no answer a node reaps nobody: its own leases have run out, too', async ({
    at,
  }) => {
    const {
      world,
      connection,
      pool,
      started,
      peerThatHolds,
      senderOf,
      one,
      statusOf,
      eventually,
      becomes,
      arrived,
      types,
      queueRow,
    } = at
    const proxy = await startPostgresProxy(connection)
    at.endAfter(() => proxy.stop())
    const { peer, held } = await peerThatHolds('dot')
    const sender = await senderOf()
    const [early] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    const db = pool(3, { ...connection, host: '127.0.0.1', port: proxy.port }, 10_000)
    await started({ ...calm, db, route: relay(peer) })
    await becomes(early?.id as MessageId, 'delivery_unknown', patienceMs) // its first lease is over
    const id = await one(sender, 'ok')
    await arrived(held, 1)
    await proxy.silence('heartbeat', 'before')
    await eventually(
      () => queueRow(id),
      (row) => row?.['held'] !== true,
    )
    const since = performance.now()
    await eventually(
      () => performance.now() - since,
      (ms) => ms > leaseMs / 2, // twice as long as a reaper rests
    )
    expect(await statusOf(id)).toBe('sending')
    held[0]?.write('250 2.0.0 ok\r\n')
    await becomes(id, 'sent')
    expect(await types(id)).toEqual(['queued', 'sending', 'sent'])
    proxy.away(true) // a stop would wait for that answer
  })

  test('one line that fell silent, while the database and every other line live, costs nobody his lease: the heartbeat gives it up in time for another', async ({
    at,
  }) => {
    const {
      connection,
      faults,
      started,
      peerThatHolds,
      senderOf,
      one,
      statusOf,
      becomes,
      arrived,
      types,
      queueRow,
      watchedReaper,
      isOver,
    } = at
    const proxy = await startPostgresProxy(connection)
    at.endAfter(() => proxy.stop())
    const { peer, held } = await peerThatHolds('dot')
    const behind = { ...connection, host: '127.0.0.1', port: proxy.port }
    const leaseDb = openDatabase(behind, { name: 'leases', connectionsMax: 1, answerMs: longLeaseMs / 8 })
    at.endAfter(() => leaseDb.close())
    const [here, beside] = [watchedReaper(), watchedReaper()]
    await started({ ...calm, leaseMs: longLeaseMs, leaseDb, db: here.db, route: relay(peer) })
    const id = await one(await senderOf(), 'ok')
    await arrived(held, 1)
    await started({ ...calm, leaseMs: longLeaseMs, db: beside.db, route: relay(peer) }) // the node beside it, which has nothing to complain of
    await proxy.silence('heartbeat', 'before')
    await isOver((await queueRow(id))?.['lease_until'])
    await Promise.all([here.believes(), beside.believes()])
    expect(await statusOf(id)).toBe('sending')
    for (const socket of held) socket.write('250 2.0.0 ok\r\n')
    await becomes(id, 'sent')
    expect(await types(id)).toEqual(['queued', 'sending', 'sent'])
    expect(faults()).toEqual(['heartbeat'])
  })

  test('while commits hang, as they do without their standby, a node that holds nothing reaps nobody, though it is answered whatever it asks', async ({
    at,
  }) => {
    const { world, statusOf, becomes, startedBehindProxy } = at
    const { proxy, sender } = await startedBehindProxy()
    const [early] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    await becomes(early?.id as MessageId, 'delivery_unknown', patienceMs) // its first lease is over
    await proxy.silence('prove-commit', 'before')
    await setTimeout(leaseMs) // how long this outage is
    const [held] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    await setTimeout(leaseMs / 2) // twice as long as a reaper rests
    expect(await statusOf(held?.id as MessageId)).toBe('sending')
    proxy.away(true) // a stop would wait for that answer
  })

  test('a row that somebody has locked for long costs nobody who lives what he has armed: reapers here and at another node find the other leases extended', async ({
    at,
  }) => {
    const {
      started,
      peerThatHolds,
      senderOf,
      one,
      statusOf,
      becomes,
      arrived,
      types,
      queueRow,
      holding,
      watchedReaper,
      isOver,
    } = at
    const { peer, held } = await peerThatHolds('dot')
    const sender = await senderOf()
    const [here, beside] = [watchedReaper(), watchedReaper()]
    await started({ ...calm, leaseMs: longLeaseMs, db: here.db, route: relay(peer) })
    const ids = [await one(sender, 'ok'), await one(sender, 'ok')].toSorted()
    await arrived(held, 2)
    await started({ ...calm, leaseMs: longLeaseMs, db: beside.db, route: relay(peer) }) // the node beside it
    const holder = await holding('select from outbound where message_id = $1 for update', [ids[0]])
    const leases = await Promise.all(ids.map(queueRow))
    for (const row of leases) await isOver(row?.['lease_until'])
    await Promise.all([here.believes(), beside.believes()])
    expect((await queueRow(ids[0] as MessageId))?.['held']).toBe(false)
    expect(await statusOf(ids[1] as MessageId)).toBe('sending')
    await holder.query('rollback')
    for (const socket of held) socket.write('250 2.0.0 ok\r\n')
    for (const id of ids) {
      await becomes(id, 'sent')
      expect(await types(id)).toEqual(['queued', 'sending', 'sent'])
    }
  })

  test('whoever starts may have missed an outage: what is armed waits a lease for those who hold replies, and the rest does not', async ({
    at,
  }) => {
    const { world, started, senderOf, statusOf, eventually, becomes, types } = at
    const orphans = await world.claimed(await senderOf(), [{ leaseSeconds: -1 }, { armed: true, leaseSeconds: -1 }])
    const [unarmed, armed] = orphans.map(({ id }) => id) as [MessageId, MessageId]
    const began = performance.now()
    await started({ ...calm })
    await eventually(
      () => types(unarmed),
      (seen) => seen.includes('retrying'),
    )
    expect(await statusOf(armed)).toBe('sending')
    await becomes(armed, 'delivery_unknown', patienceMs)
    expect(performance.now() - began).toBeGreaterThan(leaseMs)
  })
})
