// What a try means, as tables (decisions G).
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { ladderMs, parseRetryAfter, verdictOf, type PostFacts } from './verdict.ts'

const middle = () => 0.5
const facts = (more: Partial<PostFacts>): PostFacts => ({ durationMs: 1, ...more })

test.each([200, 201, 202, 204, 299])('%i is success', (status) => {
  expect(verdictOf(facts({ status }), 1, 1)).toEqual({ delivered: true })
})
test.each([100, 300, 301, 302, 304, 307, 308, 400, 401, 404, 410, 500, 503])('%i is tried again', (status) => {
  expect(verdictOf(facts({ status }), 1, 1, middle)).toEqual({ delivered: false, delayMs: 5_000 })
})
test('an answer that does not end as it should is no success, whatever its status', () => {
  expect(verdictOf(facts({ status: 200, trouble: 'too_large' }), 1, 1, middle).delivered).toBe(false)
  expect(verdictOf(facts({ trouble: 'timeout' }), 1, 1, middle).delivered).toBe(false)
})
test('the ladder has eight tries, with 20 % jitter, and is divided by the time scale', () => {
  const steps = Array.from({ length: 8 }, (_, index) => verdictOf(facts({ status: 500 }), index + 1, 1, middle).delayMs)
  expect(steps).toEqual([5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 36_000_000, undefined])
  expect(verdictOf(facts({ status: 500 }), 2, 1, () => 0).delayMs).toBe(240_000)
  expect(verdictOf(facts({ status: 500 }), 2, 1, () => 1).delayMs).toBe(360_000)
  expect(verdictOf(facts({ status: 500 }), 2, 1_000, middle).delayMs).toBe(300)
  expect(limits.webhookScheduleSeconds).toHaveLength(7)
})
test('tries that nobody lived to judge wait by the same ladder', () => {
  const waits = (timeScale: number) =>
    ladderMs(timeScale).map((_, index) => verdictOf(facts({ status: 500 }), index + 1, timeScale, middle).delayMs)
  for (const timeScale of [1, 7]) expect(ladderMs(timeScale)).toEqual(waits(timeScale))
  expect(ladderMs(1)).toHaveLength(7)
})
test('Retry-After makes a wait longer, up to the next step, and never shorter', () => {
  const delay = (retryAfterSeconds: number, attempt: number) =>
    verdictOf(facts({ status: 503, retryAfterSeconds }), attempt, 1, middle).delayMs
  expect(delay(60, 1)).toBe(60_000)
  expect(delay(86_400, 1)).toBe(300_000)
  expect(delay(1, 1)).toBe(5_000)
  expect(delay(86_400, 7)).toBe(36_000_000)
})
test('too many requests, or a Retry-After with 503, is asked for all events of the endpoint, of five minutes at most', () => {
  const rest = (more: Partial<PostFacts>, timeScale = 1) => verdictOf(facts(more), 1, timeScale, middle).restMs
  expect(rest({ status: 429 })).toBe(5_000)
  expect(rest({ status: 429, retryAfterSeconds: 0 })).toBe(0)
  expect(rest({ status: 429, retryAfterSeconds: 60 })).toBe(60_000)
  expect(rest({ status: 429, retryAfterSeconds: 60, trouble: 'closed' }, 60)).toBe(1_000)
  expect(rest({ status: 503, retryAfterSeconds: 86_400 })).toBe(300_000)
  expect(rest({ status: 503 })).toBeUndefined()
  expect(rest({ status: 301, retryAfterSeconds: 60 })).toBeUndefined()
  expect(verdictOf(facts({ status: 429 }), 8, 1, middle)).toEqual({ delivered: false, restMs: 5_000 })
})
test('Retry-After is seconds or a date', () => {
  const now = Date.UTC(2026, 10, 21, 9, 30)
  expect(parseRetryAfter('120', now)).toBe(120)
  expect(parseRetryAfter('Sat, 21 Nov 2026 09:31:00 GMT', now)).toBe(60)
  // The blanks behind it are not part of it (RFC 9110 5.5), and come with it.
  expect(parseRetryAfter('120 \t', now)).toBe(120)
  expect(parseRetryAfter('Sat, 21 Nov 2026 09:31:00 GMT ', now)).toBe(60)
  expect(parseRetryAfter('Sat, 21 Nov 2026 09:00:00 GMT', now)).toBe(0)
  for (const wrong of [undefined, '', '-1', '1.5', 'soon', '99999999999', ['1', '2']])
    expect(parseRetryAfter(wrong, now)).toBeUndefined()
})
