// The seats of one data folder, with real locks: each process has one of its own, and those that nobody holds are found by whoever looks.
import { mkdirSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { seatsBeside, takeLeftSeats, takeSeat, type Seat } from './seats.ts'

let folder: string
let held: Set<Seat>
beforeEach(() => {
  folder = temporaryFolder()
  held = new Set()
})
afterEach(() => {
  for (const seat of held) seat.release()
})

const take = (): Seat => {
  const seat = takeSeat(folder)
  held.add(seat)
  return seat
}
const left = (own: Seat): Seat[] => {
  const seats = takeLeftSeats(folder, own)
  for (const seat of seats) held.add(seat)
  return seats
}
const release = (seat: Seat) => {
  held.delete(seat)
  seat.release()
}
const names = (seats: readonly Seat[]) => seats.map((seat) => basename(seat.folder))

test('a process that ended beside another is found by that one, whenever it looks, and its seat is free again behind it', () => {
  const [first, second, third] = [take(), take(), take()]
  expect(names([first, second, third])).toEqual(['1', '2', '3'])
  expect(left(first)).toEqual([])
  release(second)
  const found = left(first)
  expect(names(found)).toEqual(['2'])
  expect(left(third)).toEqual([])
  for (const seat of found) release(seat)
  release(first)
  expect(names(left(third))).toEqual(['1', '2'])
})

test('what stands behind a seat that somebody has taken away is found all the same', () => {
  const [own, second, third] = [take(), take(), take()]
  release(second)
  release(third)
  rmSync(second.folder, { recursive: true })
  expect(names(left(own))).toEqual(['3'])
})

test('the seats beside ours are told whether somebody holds them or not', () => {
  const [first, second, third] = [take(), take(), take()]
  expect(seatsBeside(folder, second).map((path) => basename(path))).toEqual(['1', '3'])
  release(third)
  expect(seatsBeside(folder, first).map((path) => basename(path))).toEqual(['2', '3'])
})

test('while one seat cannot be looked at none is held back: the marks of all of them count when it can', () => {
  const [first, second, own] = [take(), take(), take()]
  release(first)
  release(second)
  const lock = join(folder, 'delivery', '2.lock')
  rmSync(lock)
  mkdirSync(lock)
  expect(() => left(own)).toThrow(/2\.lock cannot be locked/)
  rmSync(lock, { recursive: true })
  expect(names(left(own))).toEqual(['1', '2'])
})
