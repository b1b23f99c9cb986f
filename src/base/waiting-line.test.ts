// Owners by turns; of one owner in the order of arrival.
import { expect, test } from 'vitest'
import { WaitingLine } from './waiting-line.ts'

const all = (line: WaitingLine<string>) => Array.from({ length: line.size }, () => line.next())

test('whoever has much waiting delays the others by one', () => {
  const line = new WaitingLine<string>()
  for (const item of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) line.add(item.charAt(0), item)
  expect(all(line)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
  expect(line.next()).toBeUndefined()
})

test('who was served last stands behind those who came meanwhile', () => {
  const line = new WaitingLine<string>()
  line.add('a', 'a1')
  line.add('a', 'a2')
  expect(line.next()).toBe('a1')
  line.add('b', 'b1')
  line.add('a', 'a3')
  expect(all(line)).toEqual(['a2', 'b1', 'a3'])
})

test('owners that may not be served now keep their places', () => {
  const line = new WaitingLine<string>()
  for (const item of ['a1', 'a2', 'b1']) line.add(item.charAt(0), item)
  expect([line.next((owner) => owner !== 'a'), line.next((owner) => owner !== 'a')]).toEqual(['b1', undefined])
  expect(all(line)).toEqual(['a1', 'a2'])
})

test('one that leaves is not served, and is not missed', () => {
  const line = new WaitingLine<string>()
  for (const item of ['a1', 'b1', 'b2']) line.add(item.charAt(0), item)
  expect([line.leave('b', 'b1'), line.leave('b', 'b1'), line.leave('c', 'b2')]).toEqual([true, false, false])
  expect([line.size, line.sizeOf('b')]).toEqual([2, 1])
  expect(all(line)).toEqual(['a1', 'b2'])
})
