// What a heartbeat takes for lost, on real PostgreSQL: a claim that somebody else has, and none that was only locked.
import { expect, test } from 'vitest'
import { storeWorld } from '../store/store.test-kit.ts'
import { watched } from '../store/watched.test-kit.ts'
import { openDatabase } from '../store/database.ts'
import { claimName, type Claimed } from '../store/outbound.ts'
import { flightOf, type InFlight } from './flight.ts'
import { makeHeartbeat } from './heartbeat.ts'

const leaseMs = 60_000

const world = await storeWorld()

test('a claim that was locked for a moment is still ours, and one that somebody else has is given up, and asked about no more', async () => {
  const claims = await world.claimed(await world.sender(), [{}, {}, {}])
  const claimed = claims.map((claim) => ({ ...claim, claimedAt: new Date() }) as Claimed)
  const flights = new Map(claimed.map((claim) => [claimName(claim), flightOf(claim, performance.now(), leaseMs)]))
  const [locked, taken, free] = [...flights.values()]
  const asked: (readonly string[])[] = []
  const waited: string[] = []
  const leaseDb = watched(world.db, {
    asked: (name, values) => name === 'heartbeat' && asked.push(values[0] as string[]),
  })
  const db = watched(world.db, { asked: (name) => waited.push(name) })
  const faults: unknown[] = []
  const outages = { missed: () => undefined, beat: () => undefined }
  const { beat } = makeHeartbeat({ db, leaseDb, leaseMs }, flights, outages, (error) => faults.push(error))
  await world.db.run('update outbound set token = 7 where message_id = $1', [taken?.claimed.id])
  const holder = await world.session()
  const heldUp = async (flight: InFlight | undefined): Promise<void> => {
    await holder.query('begin')
    await holder.query('select from outbound where message_id = $1 for update', [flight?.claimed.id])
    const before = flight?.leaseEndsAt ?? Infinity
    await beat()
    await world.untilSomebodyWaits()
    // Who waits for rows holds up no other heartbeat, and one waits for all of them.
    await beat()
    await holder.query('rollback')
    await expect.poll(() => flight?.leaseEndsAt).toBeGreaterThan(before)
  }
  await heldUp(locked)
  await expect.poll(() => taken?.lost).toBe(true)
  expect([locked, taken, free].map((flight) => [flight?.lost, flight?.giveUp.signal.aborted])).toEqual([
    [false, false],
    [true, true],
    [false, false],
  ])
  // Whoever was locked for a moment is asked for once more before anybody waits.
  expect(waited).toEqual(['heartbeat', 'heartbeat-waiting', 'heartbeat-waiting'])
  await beat()
  expect(new Set(asked.at(-1))).toEqual(new Set([locked, free].map((flight) => flight?.claimed.id)))
  // Whoever has waited once waits the next time, too.
  await heldUp(free)
  expect(faults).toEqual([])
})

// Who waits for one row holds the others that he has got: for those nobody could write an arm, an end or the next heartbeat.
test('whoever waits for a claim that somebody holds for long keeps no other from its heartbeats, and has it when it is free', async () => {
  const claims = await world.claimed(await world.sender(), [{}, {}])
  const claimed = claims.map((claim) => ({ ...claim, claimedAt: new Date() }) as Claimed)
  const flights = new Map(claimed.map((claim) => [claimName(claim), flightOf(claim, performance.now(), leaseMs)]))
  const [brief, long] = [...flights.values()] as [InFlight, InFlight]
  const db = openDatabase(world.connection, { name: 'test', connectionsMax: 2, answerMs: 30_000, lockMs: 200 })
  const faults: unknown[] = []
  const outages = { missed: () => undefined, beat: () => undefined }
  const { beat } = makeHeartbeat({ db, leaseDb: world.db, leaseMs }, flights, outages, (error) => faults.push(error))
  const [holder, other] = [await world.session(), await world.session()]
  for (const [session, flight] of [
    [holder, long],
    [other, brief],
  ] as const) {
    await session.query('begin')
    await session.query('select from outbound where message_id = $1 for update', [flight.claimed.id])
  }
  const began = brief.leaseEndsAt
  await beat()
  await world.untilSomebodyWaits()
  await other.query('rollback')
  const extended = async (flight: InFlight, since: number) => {
    await beat()
    expect(flight.leaseEndsAt).toBeGreaterThan(since)
  }
  await expect
    .poll(() =>
      extended(brief, began).then(
        () => true,
        () => false,
      ),
    )
    .toBe(true)
  // One of the two that come at once can meet the one that waits, and not both, one after the other.
  const since = brief.leaseEndsAt
  await expect
    .poll(() =>
      extended(brief, since).then(
        () => true,
        () => false,
      ),
    )
    .toBe(true)
  const before = long.leaseEndsAt
  await holder.query('rollback')
  await expect.poll(() => long.leaseEndsAt).toBeGreaterThan(before)
  expect([brief.lost, long.lost, faults]).toEqual([false, false, []])
  await db.close()
})
