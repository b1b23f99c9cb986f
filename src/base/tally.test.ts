import { expect, test } from 'vitest'
import { Tally } from './tally.ts'

test('what each holds is counted, and all of it together; who holds nothing any more is forgotten', () => {
  const tally = new Tally()
  tally.add('one')
  tally.add('one', 2)
  tally.add('other')
  expect([tally.of('one'), tally.of('other'), tally.of('nobody'), tally.total, tally.names]).toEqual([3, 1, 0, 4, 2])
  tally.take('one', 3)
  tally.take('other')
  expect([tally.of('one'), tally.total, tally.names]).toEqual([0, 0, 0])
})
