import { expect, test } from 'vitest'
import type { QuotaState } from '../domain/submission.ts'
import { rateLimitHeaders } from './rate-limit.ts'

const state = (window: QuotaState['window'], limit: number, remaining: number, resetSeconds: number): QuotaState => ({
  window,
  limit,
  remaining,
  resetSeconds,
})

test.each([
  ['the fewest messages left', [state('hour', 100, 50, 10), state('day', 1000, 60, 20)], '100'],
  [
    'among equals the one that takes longest',
    [state('hour', 100, 0, 10), state('month', 10, 0, 9000), state('day', 5, 0, 20)],
    '10',
  ],
  ['a limit of nothing', [state('hour', 100, 1, 10), state('day', 0, 0, 20)], '0'],
  ['the only one', [state('hour', 100, 100, 10)], '100'],
] as const)('the tightest window is %s', (_name, quota, limit) =>
  expect(rateLimitHeaders(quota)['ratelimit-limit']).toBe(limit),
)

test('an unlimited plan has no headers, and seconds are whole', () => {
  expect(rateLimitHeaders([])).toEqual({})
  expect(rateLimitHeaders([state('hour', 100, 99, 0.2)])).toEqual({
    'ratelimit-limit': '100',
    'ratelimit-remaining': '99',
    'ratelimit-reset': '1',
  })
})
