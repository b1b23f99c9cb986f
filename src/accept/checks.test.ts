// What follows from the windows of a workspace: what its caller is told of each, and how long to wait.
import { expect, test } from 'vitest'
import type { Admission } from '../store/admit.ts'
import { judge, quotaOf } from './checks.ts'

const known: Admission = {
  admitted: false,
  sender: 'ada@example.com',
  suppressed: false,
  repeated_id: null,
  repeated_ids: null,
  repeated_hash: null,
  hourly: 10,
  daily: 20,
  monthly: 30,
  hour_used: 1,
  day_used: 3,
  month_used: 7,
  hour_resets: 100,
  day_resets: 200,
  month_resets: 300,
  at: new Date(0),
}

test('each window is told by its own limit, use and turn, and one that is overdrawn has nothing left', () => {
  expect(quotaOf(known)).toEqual([
    { window: 'hour', limit: 10, remaining: 9, resetSeconds: 100 },
    { window: 'day', limit: 20, remaining: 17, resetSeconds: 200 },
    { window: 'month', limit: 30, remaining: 23, resetSeconds: 300 },
  ])
  // An operator has given the plan less than was used already.
  expect(quotaOf({ ...known, hourly: null, daily: 2, monthly: null })).toEqual([
    { window: 'day', limit: 2, remaining: 0, resetSeconds: 200 },
  ])
})

test('a wait is one second at least: a client that is told nought comes again at once', () => {
  expect(judge({}, { ...known, day_used: 20, day_resets: 0 })).toMatchObject({
    code: 'daily_limit_reached',
    retryAfterSeconds: 1,
  })
})

test.each([
  [2, '2 messages at once need more than the 1 that are left.'],
  [3, '3 messages at once are more than are ever allowed:'],
])('%s messages at once, of which the day has two and one is sent', (messages, words) => {
  const refusal = judge({ messages }, { ...known, daily: 2, day_used: 1 })
  expect(refusal).toMatchObject({ code: 'daily_limit_reached', words: expect.stringContaining(words) as string })
})
