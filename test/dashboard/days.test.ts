// Days as somebody at a browser means them, where clocks are changed.
import { afterEach, expect, test, vi } from 'vitest'
import { midnight } from '../../dashboard/src/filters.ts'

afterEach(() => vi.unstubAllEnvs())

test.each([
  // Summer time begins at midnight: there is no 00:00 on this day, but there is on the next one.
  ['America/Santiago', '2026-09-06', '2026-09-06T04:00:00.000Z', '2026-09-07T03:00:00.000Z'],
  ['America/Santiago', '2026-04-04', '2026-04-04T03:00:00.000Z', '2026-04-05T04:00:00.000Z'],
  ['Europe/Berlin', '2026-03-29', '2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z'],
  ['Europe/Berlin', '2026-10-25', '2026-10-24T22:00:00.000Z', '2026-10-25T23:00:00.000Z'],
  ['UTC', '2026-12-31', '2026-12-31T00:00:00.000Z', '2027-01-01T00:00:00.000Z'],
])('a list to the end of a day holds none of the next one: %s, %s', (zone, day, from, to) => {
  vi.stubEnv('TZ', zone)
  expect([midnight(day, 0), midnight(day, 1)]).toEqual([from, to])
})
