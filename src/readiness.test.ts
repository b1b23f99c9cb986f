// /readyz is open to strangers: however many ask, the database is asked one thing at a time.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { watchReadiness } from './readiness.ts'
import type { Db } from './store/database.ts'
import { storeWorld, type StoreWorld } from './store/store.test-kit.ts'

let world: StoreWorld
beforeAll(async () => {
  world = await storeWorld()
})
afterAll(() => world.close())

test('a crowd that asks at once is one question, and whoever comes behind its answer asks anew', async () => {
  let asked = 0
  const counting: Db = {
    ...world.db,
    rows: (statement, values) => {
      asked++
      return world.db.rows(statement, values)
    },
  }
  const ready = watchReadiness(counting)
  const crowd = () => Promise.all(Array.from({ length: 100 }, ready))
  const answers = await crowd()
  expect(asked).toBe(2)
  expect(answers).toEqual(
    answers.map(() => ({ ready: true, detail: { database: 'reachable', delivery: 'not stopped' } })),
  )
  await world.db.run(`insert into delivery_stops (kind, reason) values ('drain', 'operator')`)
  expect((await crowd())[99]).toEqual({
    ready: true,
    detail: { database: 'reachable', delivery: 'stopped (drain: operator)' },
  })
  expect(asked).toBe(4)
})
