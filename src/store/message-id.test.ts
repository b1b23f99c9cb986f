import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeIds } from './message-id.ts'
import { storeWorld, type StoreWorld } from './store.test-kit.ts'

let world: StoreWorld
beforeAll(async () => {
  world = await storeWorld()
})
afterAll(() => world.close())

test('ids and the time by which messages expire are the database’s, however wrong this node’s clock is', async () => {
  const ids = makeIds(world.db)
  await world.setClock('2030-02-28T23:59:59Z')
  await ids.synchronize()
  const there = Date.parse('2030-02-28T23:59:59Z')
  expect(Math.abs(ids.now() - there)).toBeLessThan(60_000)
  expect(Math.abs(parseInt(ids.next().replaceAll('-', '').slice(0, 12), 16) - there)).toBeLessThan(60_000)
  ids.stop()
})
