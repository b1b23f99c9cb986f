import { afterEach, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import { makeFloor, type Floor } from './floor.ts'

const clock = vi.spyOn(performance, 'now')
afterEach(() => void clock.mockReset())

const now = new Date('2026-11-23T12:00:00.000Z')
const ago = (ms: number): Date => new Date(now.getTime() - ms)

/** From where the walk looked. */
function walk(floor: Floor, parts: readonly (Date | null)[] = [null], ms = 0): Date | undefined {
  floor.begin()
  for (const [at, oldest] of parts.entries()) {
    clock.mockReturnValue(performance.now() + ms)
    floor.walked({ oldest, now }, at === parts.length - 1, ms)
  }
  return floor.since
}

test('behind a whole walk each begins at the oldest row that the last one met, in any part', () => {
  clock.mockReturnValue(50_000)
  const floor = makeFloor()
  expect(walk(floor, [ago(20_000), ago(90_000), null])).toBeUndefined()
  expect(walk(floor, [ago(30_000)])).toEqual(ago(90_000))
  expect(walk(floor)).toEqual(ago(30_000))
})

test('what came into sight in the last seconds may not have been there to be met', () => {
  clock.mockReturnValue(50_000)
  const floor = makeFloor()
  walk(floor, [ago(-60_000)])
  expect(walk(floor)).toEqual(ago(limits.walkMarginMs))
})

test('once a second a walk is whole, and after a long one later: whole walks take a twentieth of the time', () => {
  clock.mockReturnValue(50_000)
  const floor = makeFloor()
  walk(floor)
  clock.mockReturnValue(50_999)
  expect(walk(floor)).toBeDefined()
  clock.mockReturnValue(51_000)
  expect(walk(floor, [null], 300)).toBeUndefined()
  clock.mockReturnValue(57_299)
  expect(walk(floor)).toBeDefined()
  clock.mockReturnValue(57_300)
  expect(walk(floor)).toBeUndefined()
})

test('what earlier walks took makes no later one rarer', () => {
  clock.mockReturnValue(50_000)
  const floor = makeFloor()
  for (const at of [50_000, 51_040, 52_080]) {
    clock.mockReturnValue(at)
    expect(walk(floor, [null], 40)).toBeUndefined()
  }
})

test('what a walk waits for between its parts, a free slot say, is no part of what it takes', () => {
  clock.mockReturnValue(50_000)
  const floor = makeFloor()
  floor.begin()
  floor.walked({ oldest: null, now }, false, 30)
  clock.mockReturnValue(110_000)
  floor.walked({ oldest: null, now }, true, 30)
  clock.mockReturnValue(111_000)
  floor.begin()
  expect(floor.since).toBeDefined()
  clock.mockReturnValue(111_200)
  floor.begin()
  expect(floor.since).toBeUndefined()
})

test('a walk that never ended leaves nothing behind', () => {
  clock.mockReturnValue(50_000)
  const floor = makeFloor()
  floor.begin()
  floor.walked({ oldest: ago(9_000_000), now }, false, 1_000)
  expect(walk(floor)).toBeUndefined()
  expect(walk(floor)).toEqual(ago(limits.walkMarginMs))
})

test('when it is forgotten the next walk is whole, also while one is under way', () => {
  clock.mockReturnValue(50_000)
  const floor = makeFloor()
  walk(floor)
  floor.forget()
  expect(walk(floor)).toBeUndefined()
  clock.mockReturnValue(60_000)
  floor.begin()
  floor.forget()
  floor.walked({ oldest: null, now }, true, 0)
  expect(walk(floor)).toBeUndefined()
  expect(walk(floor)).toBeDefined()
})

test('a whole walk that fails again and again leaves every second turn to the others', () => {
  clock.mockReturnValue(50_000)
  const floor = makeFloor()
  walk(floor)
  clock.mockReturnValue(60_000)
  floor.begin()
  expect(floor.since).toBeUndefined()
  expect(walk(floor)).toEqual(ago(limits.walkMarginMs))
  floor.begin()
  expect(floor.since).toBeUndefined()
  floor.forget()
  expect(walk(floor)).toBeUndefined()
})
