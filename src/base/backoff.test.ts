import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { settingTable } from '../config.ts'
import { claimPauseMs, retryDelayMs } from './backoff.ts'

test('the delay stays within the jitter around its step, in whole milliseconds', () => {
  const schedules = fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 1, maxLength: 12 })
  const dice = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(
      schedules,
      fc.nat(),
      fc.double({ min: 0, max: 0.5, noNaN: true }),
      dice,
      (schedule, seed, jitter, roll) => {
        const attempt = (seed % schedule.length) + 1
        const step = (schedule[attempt - 1] ?? 0) * 1000
        const delay = retryDelayMs(schedule, attempt, jitter, () => roll)
        expect(delay).toBeGreaterThanOrEqual(Math.floor(step * (1 - jitter)))
        expect(delay).toBeLessThanOrEqual(Math.ceil(step * (1 + jitter)))
        expect(Number.isInteger(delay)).toBe(true)
      },
    ),
  )
})

test('after the last step there is no further try', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 12 }), fc.integer({ min: 1, max: 50 }), (schedule, beyond) => {
      expect(retryDelayMs(schedule, schedule.length + beyond, 0.1)).toBeUndefined()
    }),
  )
})

test('without jitter the schedule of the decisions is followed to the millisecond', () => {
  const schedule = settingTable.POSTHORN_RETRY_SCHEDULE.fallback
  const delays = schedule.map((_, index) => retryDelayMs(schedule, index + 1, 0))
  expect(delays).toEqual([60, 300, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800].map((seconds) => seconds * 1000))
})

test('two tries that failed together do not come back together', () => {
  const delays = Array.from({ length: 200 }, () => retryDelayMs([3_600], 1, 0.1))
  expect(new Set(delays).size).toBeGreaterThan(100)
})

test('a claim of few is followed by a pause that grows with what it took, and that nobody notices', () => {
  // On an idle machine, on a busy one with hardly any messages, on a busy one with many, and where the database hangs.
  expect(claimPauseMs(1, 2)).toBe(8)
  expect(claimPauseMs(1, 20)).toBe(11)
  expect(claimPauseMs(60, 15)).toBe(60)
  expect(claimPauseMs(99, 60_000)).toBe(75)
})
