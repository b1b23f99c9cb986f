// Room for bytes in flight: bounded, shared out, and never lost.
import { getEventListeners } from 'node:events'
import * as fc from 'fast-check'
import { afterEach, expect, test, vi } from 'vitest'
import { ByteRoom } from './byte-room.ts'

const room = (changes = {}) =>
  new ByteRoom({ bytesMax: 100, shareBytesMax: 60, waitMs: 60_000, waitingMax: 10, ...changes })
afterEach(() => void vi.useRealTimers())
/** What has been decided by now. */
const now = (promise: Promise<boolean>) => Promise.race([promise, new Promise((done) => setImmediate(done, 'waits'))])

test('whoever does not fit waits until somebody gives room back', async () => {
  const shared = room()
  expect(await Promise.all([shared.take('a', 60), shared.take('b', 40)])).toEqual([true, true])
  const third = shared.take('c', 40)
  expect(await now(third)).toBe('waits')
  shared.give('b', 40)
  expect([await third, shared.heldBytes]).toEqual([true, 100])
})

test('an owner beyond its share waits for itself, and others pass it', async () => {
  const shared = room()
  await shared.take('a', 50)
  const more = shared.take('a', 20)
  expect(await now(more)).toBe('waits')
  expect(await now(shared.take('b', 30))).toBe(true)
  shared.give('a', 50)
  expect(await more).toBe(true)
})

test('one owner alone never fills the line, however many it brings', async () => {
  const shared = room({ waitingMax: 10 })
  await Promise.all([shared.take('a', 60), shared.take('b', 40)])
  const many = Array.from({ length: 20 }, () => shared.take('a', 1))
  expect(await Promise.all(many.map(now))).toEqual([...Array(5).fill('waits'), ...Array(15).fill(false)])
  const other = shared.take('c', 1)
  expect(await now(other)).toBe('waits')
  shared.close()
})

test('who waits for itself and holds least holds up nobody', async () => {
  const shared = room()
  await Promise.all([shared.take('a', 40), shared.take('b', 50)])
  const more = shared.take('a', 30)
  expect(await now(shared.take('b', 10))).toBe(true)
  expect(await now(more)).toBe('waits')
  shared.close()
})

test('whoever holds least comes first, and is not overtaken by smaller ones', async () => {
  const shared = room()
  await Promise.all([shared.take('a', 40), shared.take('b', 60)])
  const second = shared.take('a', 10)
  const large = shared.take('c', 60)
  shared.give('b', 10)
  expect([await now(second), await now(large)]).toEqual(['waits', 'waits'])
  shared.give('b', 50)
  expect(await now(large)).toBe(true)
  expect(await now(second)).toBe('waits')
})

test('smaller ones may pass one that does not fit, so far and no further, and never beyond their share', async () => {
  const shared = room({ overtakenBytesMax: 20 })
  await Promise.all([shared.take('a', 40), shared.take('b', 35)])
  const large = shared.take('c', 60)
  expect(await Promise.all([shared.take('d', 10), shared.take('d', 10)])).toEqual([true, true])
  const [third, greedy] = [shared.take('d', 1), shared.take('b', 26)]
  expect([...shared.wanted]).toEqual([
    ['', 61],
    ['b', 26],
  ])
  expect(await now(third)).toBe('waits')
  shared.give('a', 40)
  expect([await now(large), await now(third)]).toEqual(['waits', 'waits'])
  shared.give('b', 35)
  expect([await now(large), await now(third), await now(greedy)]).toEqual([true, true, 'waits'])
  shared.close()
})

test('nobody waits for ever, and too many do not wait at all', async () => {
  const shared = room({ waitMs: 1 })
  await shared.take('a', 60)
  expect([await shared.take('b', 60), shared.waiting]).toEqual([false, 0])
  const crowded = room({ waitingMax: 1 })
  await crowded.take('a', 60)
  const waits = crowded.take('b', 60)
  expect([await now(crowded.take('c', 60)), await now(waits)]).toEqual([false, 'waits'])
  crowded.close()
})

test('whoever was sent away because the machine has less left than the room is large is told of, and nobody else', async () => {
  let [left, told] = [20, 0]
  const shared = room({ waitMs: 1, bytesNow: () => left, lacked: () => told++ })
  expect([await shared.take('a', 21), told]).toEqual([false, 1])
  left = Infinity
  await shared.take('a', 50)
  // Beyond the share, and beyond the room.
  expect([await shared.take('a', 20), await shared.take('b', 60), told]).toEqual([false, false, 1])
})

test('when it closes, who waits and who comes later hears no at once; what is held may be given back', async () => {
  const shared = room()
  await shared.take('a', 60)
  const waiting = [shared.take('a', 10), shared.take('b', 60)]
  shared.close()
  expect(await Promise.all([...waiting, shared.take('c', 1)])).toEqual([false, false, false])
  shared.give('a', 60)
  expect([shared.heldBytes, shared.waiting]).toEqual([0, 0])
})

test('what is larger than any share has its no at once', async () => {
  expect(await now(room().take('a', 61))).toBe(false)
})

test('who leaves takes nothing along, and frees those behind', async () => {
  const shared = room()
  await shared.take('a', 60)
  const gone = new AbortController()
  const left = shared.take('b', 60, gone.signal)
  const behind = shared.take('c', 40)
  expect(await now(behind)).toBe('waits')
  gone.abort()
  expect([await left, await behind, shared.heldBytes]).toEqual([false, true, 100])
})

test('who has left before it asks takes nothing', async () => {
  const shared = room()
  expect([await shared.take('a', 10, AbortSignal.abort()), shared.heldBytes]).toEqual([false, 0])
})

// Content waits for as long as it takes: a timer of that length would keep it in memory for weeks.
test('who has waited leaves neither a timer behind nor an ear, however it ended', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const shared = room()
  const gone = new AbortController()
  await shared.take('a', 60)
  const served = shared.take('b', 60, gone.signal)
  shared.give('a', 60)
  expect([await served, vi.getTimerCount(), getEventListeners(gone.signal, 'abort')]).toEqual([true, 0, []])
  const left = shared.take('c', 60, gone.signal)
  gone.abort()
  expect([await left, vi.getTimerCount()]).toEqual([false, 0])
})

test('after any order of taking and giving back, nothing is held and nobody exceeds the bounds', async () => {
  const takes = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 1, max: 60 })), { maxLength: 30 })
  await fc.assert(
    fc.asyncProperty(takes, async (wanted) => {
      const shared = room({ waitingMax: 100 })
      const held = { a: 0, b: 0, c: 0 }
      await Promise.all(
        wanted.map(async ([owner, bytes]) => {
          expect(await shared.take(owner, bytes)).toBe(true)
          held[owner as 'a'] += bytes
          expect(held[owner as 'a']).toBeLessThanOrEqual(60)
          expect(held.a + held.b + held.c).toBeLessThanOrEqual(100)
          await new Promise((done) => setImmediate(done))
          held[owner as 'a'] -= bytes
          shared.give(owner, bytes)
        }),
      )
      expect([shared.heldBytes, shared.waiting]).toEqual([0, 0])
    }),
    { numRuns: 50 },
  )
})

test('where the machine has less left than the room is large, who comes waits until it has more, or hears that there is none', async () => {
  vi.useFakeTimers()
  let left = 30
  const shared = room({ bytesNow: () => left, waitMs: 10_000 })
  expect(await shared.take('a', 30)).toBe(true)
  const [second, third] = [shared.take('b', 20), shared.take('c', 60)]
  let settled: readonly string[] = []
  for (const [name, taken] of [
    ['second', second],
    ['third', third],
  ] as const)
    void taken.then((got) => (settled = [...settled, `${name} ${got}`]))
  await vi.advanceTimersByTimeAsync(5_000)
  expect(settled).toEqual([])
  left = 50 // nobody gave anything back: it was taken by somebody else
  await vi.advanceTimersByTimeAsync(1_000)
  expect(settled).toEqual(['second true'])
  await vi.advanceTimersByTimeAsync(5_000)
  expect(settled).toEqual(['second true', 'third false'])
  expect([shared.heldBytes, vi.getTimerCount()]).toEqual([50, 0])
})
