// What a heartbeat takes for lost, on real PostgreSQL: a claim that somebody else has, and none that was only locked.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { storeWorld, type StoreWorld } from '../store/store.test-kit.ts'
import type { Db } from '../store/database.ts'
import { claimName, type Claimed } from '../store/outbound.ts'
import { flightOf, type InFlight } from './flight.ts'
import { makeHeartbeat } from './heartbeat.ts'

const leaseMs = 60_000

let world: StoreWorld
beforeAll(async () => {
  world = await storeWorld()
})
afterAll(() => world.close())

test('a claim that was locked for a moment is still ours, and one that somebody else has is given up, and asked about no more', async () => {
  const claims = await world.claimed(await world.sender(), [{}, {}, {}])
  const claimed = claims.map((claim) => ({ ...claim, claimedAt: new Date() }) as Claimed)
  const flights = new Map(claimed.map((claim) => [claimName(claim), flightOf(claim, performance.now(), leaseMs)]))
  const [locked, taken, free] = [...flights.values()]
  const asked: (readonly string[])[] = []
  const waited: string[] = []
  const leaseDb: Db = {
    ...world.db,
    rows: (statement, values) => {
      if (statement.name === 'heartbeat') asked.push(values?.[0] as string[])
      return world.db.rows(statement, values)
    },
  }
  const db: Db = {
    ...world.db,
    rows: (statement, values) => {
      waited.push(statement.name)
      return world.db.rows(statement, values)
    },
  }
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
  expect(waited).toEqual(['heartbeat-waiting', 'heartbeat-waiting'])
  await beat()
  expect(new Set(asked.at(-1))).toEqual(new Set([locked, free].map((flight) => flight?.claimed.id)))
  // Whoever has waited once waits the next time, too.
  await heldUp(free)
  expect(faults).toEqual([])
})
