import { expect, test } from 'vitest'
import { openStoreWorld } from './store.test-kit.ts'

test('a world of a test that has left a transaction open ends all the same, and says so', async () => {
  const world = await openStoreWorld()
  const opened = Promise.withResolvers<undefined>()
  const never = new Promise(() => undefined)
  void world.db.transaction(async () => {
    opened.resolve(undefined)
    await never
  })
  await opened.promise
  await expect(world.close(50)).rejects.toThrow('was never ended')
})
