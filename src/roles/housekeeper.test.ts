import { expect, test, vi } from 'vitest'
import { silentLog } from '../base/log.ts'
import { limits } from '../config.ts'
import { housekeeper } from './housekeeper.ts'
import type { Db } from '../store/database.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { watched } from '../store/watched.test-kit.ts'

const world = await storeWorld()

const retention = { recordsDays: 90, eventsDays: 30, contentDays: 7, auditDays: 400 }

test('a stop does not wait for the reader of a table that housekeeping wants', async () => {
  await world.setClock(new Date(Date.now() + 40 * 86_400_000).toISOString()) // there are partitions to make and to drop
  const reader = await world.holding('select count(*) from contents')

  const asked = Promise.withResolvers<void>()
  const faults: string[] = []
  // The first statement has met the reader, and been told to come again.
  const seen = watched(world.db, { answered: () => asked.resolve() })
  const service = housekeeper(seen, retention, { ...silentLog, fault: (what) => void faults.push(what) })
  await service.start()
  await asked.promise
  await service.stop() // the reader never ends: only an abandoned wait lets this return
  expect(faults).toEqual([])
  // It was waiting indeed: nothing of the round has been done.
  const ahead = await world.value<Date>(`select max(ends) from dated_partitions() where parent = 'contents'`)
  expect(ahead.getTime()).toBeLessThan(Date.now() + 40 * 86_400_000)
  await reader.query('rollback')
})

test('nor for all that there is to delete: it goes on in the next round', async () => {
  const many = 5 * limits.housekeepingRows
  await world.db.run(
    `insert into audit_log (id, at, actor, action)
     select uuid_floor(app_now() - interval '500 days' + i * interval '1 second'), app_now() - interval '500 days', 'cli', 'thing.changed'
       from generate_series(1, $1) i`,
    [many],
  )
  const deleting = Promise.withResolvers<void>()
  const stopped = Promise.withResolvers<void>()
  const seen = watched(world.db, {
    answered: async (name) => {
      if (name !== 'prune-audit') return
      deleting.resolve()
      await stopped.promise
    },
  })
  const faults: string[] = []
  const service = housekeeper(seen, retention, { ...silentLog, fault: (what) => void faults.push(what) })
  await service.start()
  await deleting.promise
  const stop = service.stop()
  stopped.resolve()
  await stop
  expect(faults).toEqual([])
  expect(await world.value('select count(*) from audit_log')).toBe(String(many - limits.housekeepingRows))
})

test('a round comes at the start and every ten minutes, also after one that failed, which the operator hears of; none after a stop', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const faults: unknown[] = []
  let rounds = 0
  let ended = Promise.withResolvers<void>()
  const nextRound = async () => {
    ended = Promise.withResolvers<void>()
    vi.advanceTimersByTime(limits.housekeepingMs)
    await ended.promise
  }
  // A database that is away: each statement fails, the last one of a round among them.
  const away = {
    ...world.db,
    rows: (statement: { name: string }) => {
      if (statement.name === 'partitions-ahead') rounds++
      return Promise.reject(new Error('away'))
    },
  } as unknown as Db
  const fault = (_what: string, error: unknown) => {
    faults.push(error)
    ended.resolve()
  }
  const service = housekeeper(away, retention, { ...silentLog, fault })
  try {
    await service.start()
    await service.start() // it is running
    expect(vi.getTimerCount()).toBe(1)
    await ended.promise
    expect(rounds).toBe(1)
    await nextRound()
    await nextRound()
    await service.stop()
    expect([rounds, faults.length]).toEqual([3, 3])
    vi.advanceTimersByTime(3 * limits.housekeepingMs)
    await service.stop()
    expect([rounds, vi.getTimerCount()]).toEqual([3, 0])
    ended = Promise.withResolvers<void>()
    await service.start() // once more
    await ended.promise
    await nextRound()
    await service.stop()
    expect(rounds).toBe(5)
  } finally {
    vi.useRealTimers()
  }
})
