import { expect, test } from 'vitest'
import { noteBackup, readLastBackup } from './last-backup.ts'
import { storeWorld } from './store.test-kit.ts'

const world = await storeWorld()

test('the youngest backup is told with its size and its age by the database’s clock; of other tools when they said so', async () => {
  const { db } = world
  expect(await readLastBackup(db)).toBeUndefined()
  await world.setClock('2030-01-03T00:00:00Z')
  const takenAt = new Date('2030-01-02T23:59:00Z')
  await noteBackup(db, { takenAt, bytes: 5e9 })
  expect(await readLastBackup(db)).toEqual({ takenAt, bytes: 5e9, ageSeconds: 60 })
  await noteBackup(db, { takenAt: new Date('2030-01-01T00:00:00Z'), bytes: 1 }) // began earlier, and took longer
  expect(await readLastBackup(db)).toMatchObject({ takenAt })
  await noteBackup(db, undefined)
  expect(await readLastBackup(db)).toEqual({ takenAt: new Date('2030-01-03T00:00:00Z'), ageSeconds: 0 })
  await world.setClock()
})

test('a backup of a clock that was ahead is not for ever the youngest, and does not pass for one of today', async () => {
  const { db } = world
  await world.setClock('2031-06-01T00:00:00Z')
  await noteBackup(db, { takenAt: new Date('2032-06-01T00:00:00Z'), bytes: 1 })
  expect((await readLastBackup(db))?.ageSeconds).toBeGreaterThan(365 * 86_400)
  const takenAt = new Date('2031-05-31T23:59:00Z')
  await noteBackup(db, { takenAt, bytes: 2 })
  expect(await readLastBackup(db)).toEqual({ takenAt, bytes: 2, ageSeconds: 60 })
  await world.setClock()
})
