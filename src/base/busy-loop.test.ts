// When the event loop is called busy: those who could wait do so then, and nobody does otherwise.
import { afterEach, expect, test, vi } from 'vitest'
import { watchLoop } from './busy-loop.ts'

afterEach(() => vi.restoreAllMocks())

test('a loop is busy when it had little rest lately, and not by what was before', () => {
  let total = { active: 1_000, idle: 9_000 }
  const told = ({ active, idle }: typeof total) => ({ active, idle, utilization: active / (active + idle) })
  vi.spyOn(performance, 'eventLoopUtilization').mockImplementation((now, before) =>
    told(now && before ? { active: now.active - before.active, idle: now.idle - before.idle } : total),
  )
  const isBusy = watchLoop()
  const passes = (active: number, idle: number): boolean => {
    total = { active: total.active + active, idle: total.idle + idle }
    return isBusy()
  }
  expect(isBusy()).toBe(false)
  expect(passes(50, 0)).toBe(false) // too short to tell
  expect(passes(45, 5)).toBe(true)
  expect(passes(0, 50)).toBe(true)
  expect(passes(10, 60)).toBe(false)
  expect(passes(80, 20)).toBe(false)
  expect(passes(81, 19)).toBe(true)
})
