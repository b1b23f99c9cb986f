import { expect, test } from 'vitest'
import { BoundedMap } from './bounded-map.ts'

test('there are never more than so many, and the one that was set longest ago makes room', () => {
  const map = new BoundedMap<string, number>(2)
  map.set('one', 1).set('other', 2).set('one', 3).set('third', 4)
  expect([...map]).toEqual([
    ['one', 3],
    ['third', 4],
  ])
  // What is there already needs no room.
  expect([...map.set('third', 5)]).toEqual([
    ['one', 3],
    ['third', 5],
  ])
})
