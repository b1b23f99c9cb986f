import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { makeLaneCursors } from './lane-cursors.ts'

test('a walk over the lanes goes on where it ended, until it has reached the last one', () => {
  const places = makeLaneCursors()
  places.moved({ one: 'b.example', other: 'c.example' })
  expect(places.all()).toEqual({ one: 'b.example', other: 'c.example' })
  places.moved({ one: 'f.example', other: '' })
  expect(places.all()).toEqual({ one: 'f.example' })
})

test('a burst of long ago leaves nothing that each claim would carry for ever; who is walked now keeps the place', () => {
  let now = 0
  const places = makeLaneCursors(() => now)
  for (let n = 0; n < 5_000; n++) places.moved({ [`burst ${n}`]: 'm.example' })
  places.moved({ busy: 'a.example' })
  now = limits.laneCursorKeptMs - 1
  places.moved({ busy: 'b.example' })
  expect(Object.keys(places.all())).toHaveLength(5_001)
  now++
  expect(places.all()).toEqual({ busy: 'b.example' })
})

test('of too many bursts at a time those that were walked last keep their places', () => {
  const places = makeLaneCursors()
  for (let n = 0; n < limits.destinationsKnownMax + 2; n++) places.moved({ [`burst ${n}`]: 'm.example' })
  const kept = Object.keys(places.all())
  expect([kept.length, kept[0]]).toEqual([limits.destinationsKnownMax, 'burst 2'])
})
