import { expect, test, vi } from 'vitest'
import { currentOwner, doneFor } from '../base/turns.ts'
import { makeIds, timeOfId } from './message-id.ts'
import { storeWorld } from './store.test-kit.ts'

const world = await storeWorld()

test('ids and the time by which messages expire are the database’s, however wrong this node’s clock is', async () => {
  const ids = makeIds(world.db)
  await world.setClock('2030-02-28T23:59:59Z')
  await ids.synchronize()
  const there = Date.parse('2030-02-28T23:59:59Z')
  expect(Math.abs(ids.now() - there)).toBeLessThan(60_000)
  expect(Math.abs(parseInt(ids.next().replaceAll('-', '').slice(0, 12), 16) - there)).toBeLessThan(60_000)
  ids.stop()
})

test('an answer that was long on its way puts no id back behind the one before', async () => {
  const at = Date.parse('2030-03-01T00:00:00Z')
  await world.setClock(new Date(at).toISOString())
  vi.useFakeTimers({ toFake: ['Date'], now: at })
  let before = ''
  const rows: typeof world.db.rows = async (...statement) => {
    const found = await world.db.rows(...statement)
    vi.setSystemTime(at + 4_000)
    before = ids.next()
    return found as never
  }
  const ids = makeIds({ ...world.db, rows })
  try {
    await ids.synchronize()
    expect(ids.next() > before).toBe(true)
  } finally {
    vi.useRealTimers()
    ids.stop()
  }
})

test.each([
  ['ahead', 6 * 3600_000],
  ['back', -400 * 86_400_000],
])('a clock that was set %s a moment ago dates no message', async (_way, ms) => {
  let asked = 0
  const rows: typeof world.db.rows = (...statement) => {
    asked++
    return world.db.rows(...statement)
  }
  await world.setClock()
  const ids = makeIds({ ...world.db, rows })
  await ids.synchronize()
  await ids.sure()
  expect(asked).toBe(1)
  const here = Date.now
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => here() + ms)
  try {
    await Promise.all([ids.sure(), ids.sure()])
    const at = parseInt(ids.next().replaceAll('-', '').slice(0, 12), 16)
    expect(Math.abs(at - here())).toBeLessThan(60_000)
    expect(asked).toBe(2)
    await ids.sure()
    expect(asked).toBe(2)
  } finally {
    clock.mockRestore()
    ids.stop()
  }
})

test('where the clock was set and the database does not say the time, nothing gets an id; nor is that asked in the turn of whoever sends', async () => {
  let isSilent = false
  const askers: string[] = []
  const rows: typeof world.db.rows = (...statement) => {
    askers.push(currentOwner())
    return isSilent ? new Promise(() => undefined) : world.db.rows(...statement)
  }
  await world.setClock()
  const ids = makeIds({ ...world.db, rows })
  await ids.synchronize()
  const here = Date.now
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => here() - 400 * 86_400_000)
  try {
    isSilent = true
    await expect(doneFor('a workspace', () => ids.sure())).rejects.toThrow('did not answer in time')
    isSilent = false
    await ids.sure()
    expect(Math.abs(timeOfId(ids.next()).getTime() - here())).toBeLessThan(60_000)
    expect(askers).toEqual(['', '', ''])
  } finally {
    clock.mockRestore()
    ids.stop()
  }
})
