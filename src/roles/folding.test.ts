import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { silentLog } from '../base/log.ts'
import { folding } from './folding.ts'
import type { Db } from '../store/database.ts'
import { storeWorld } from '../store/store.test-kit.ts'

const world = await storeWorld()
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

test('behind ten seconds in which the database hangs one round follows, and a stop waits for no other', async () => {
  const rounds: Promise<unknown>[] = []
  const watched: Db = {
    ...world.db,
    rows: (statement, values) => {
      const answer = world.db.rows<never>(statement, values)
      rounds.push(answer)
      return answer
    },
  }
  const holder = await world.session()
  const hang = () => holder.query('begin; lock table fresh_counts in access exclusive mode')
  const service = folding(watched, silentLog)
  await hang()
  await service.start()
  await vi.advanceTimersByTimeAsync(1_000)
  await world.untilSomebodyWaits()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(rounds).toHaveLength(1)
  await holder.query('rollback')
  await rounds[0]
  await hang()
  await vi.advanceTimersByTimeAsync(1_000)
  await world.untilSomebodyWaits()
  expect(rounds).toHaveLength(2)
  const stopped = service.stop()
  await holder.query('rollback')
  await stopped
  await vi.advanceTimersByTimeAsync(60_000)
  expect(rounds).toHaveLength(2)
})
