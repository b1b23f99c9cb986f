// Small bodies that are held back: bounded together, and whoever holds little is not the one who gives way.
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { SlowRoom, type SlowTransfer } from './slow-room.ts'

function roomOf(bytesMax: number) {
  const room = new SlowRoom(bytesMax)
  const gone: string[] = []
  const body = (name: string): SlowTransfer => ({ owner: name.charAt(0), giveWay: () => void gone.push(name) })
  return { room, gone, body }
}

test('the largest body of the owner that holds most gives way, once, and holds nothing then', () => {
  const { room, gone, body } = roomOf(100)
  const bodies = ['a1', 'a2', 'a3', 'b1'].map(body)
  for (const [index, bytes] of [20, 40, 20, 50].entries()) room.hold(bodies[index] as SlowTransfer, bytes)
  expect([gone, room.heldBytes]).toEqual([['a2'], 90])
  room.hold(bodies[0] as SlowTransfer, 0)
  room.hold(bodies[3] as SlowTransfer, 90)
  expect([gone, room.heldBytes]).toEqual([['a2', 'b1'], 20])
})

test('nobody gives way while all have room; of equals it is who has been there for longest', () => {
  const { room, gone, body } = roomOf(100)
  const [a1, a2, b1] = ['a1', 'a2', 'b1'].map(body) as [SlowTransfer, SlowTransfer, SlowTransfer]
  for (const [each, bytes] of [
    [a1, 25],
    [a2, 25],
    [b1, 50],
  ] as const)
    room.hold(each, bytes)
  expect([gone, room.heldBytes]).toEqual([[], 100])
  room.hold(body('c1'), 1)
  expect([gone, room.heldBytes]).toEqual([['a1'], 76])
})

test('whatever comes, no more is held than there is room for, and a body below its part of it never gives way', () => {
  const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 19 }), fc.integer({ min: 0, max: 60 })), { maxLength: 100 })
  fc.assert(
    fc.property(steps, (all) => {
      const room = new SlowRoom(100)
      const held = new Map<number, number>()
      // Each alone at its place: the part of 20 of them in 100 bytes is 5.
      const bodies = Array.from({ length: 20 }, (_, n) => ({
        owner: `owner ${n}`,
        giveWay: () => {
          expect(held.get(n)).toBeGreaterThanOrEqual(5)
          held.delete(n)
        },
      }))
      for (const [n, bytes] of all) {
        held.set(n, bytes)
        room.hold(bodies[n] as SlowTransfer, bytes)
        expect(room.heldBytes).toBe([...held.values()].reduce((sum, each) => sum + each, 0))
        expect(room.heldBytes).toBeLessThanOrEqual(100)
      }
    }),
  )
})
