import { assert, integer, property, uuid } from 'fast-check'
import { expect, test } from 'vitest'
import { eventId } from './event.ts'
import type { MessageId } from './message.ts'

const message = uuid({ version: 7 }).map((id) => id as MessageId)
const sequence = integer({ min: 1, max: 0xffff })

test('the id of an event is a version 8 UUID that keeps the time of its message', () => {
  assert(
    property(message, sequence, (id, n) => {
      const event = eventId(id, n)
      expect(event).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      expect(event.slice(0, 14)).toBe(id.slice(0, 14))
      expect(event).not.toBe(id)
    }),
  )
})

test('no two events of a message share an id, and an id never changes', () => {
  assert(
    property(message, sequence, sequence, (id, a, b) => {
      expect(eventId(id, a) === eventId(id, b)).toBe(a === b)
    }),
  )
  expect(eventId('0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d' as MessageId, 1)).toBe('0199f1c2-7a4e-8c3b-9d52-6f1e8a0b4c7c')
})

test.each([0, -1, 65_536, 1.5, Number.NaN])('there is no event %d', (n) => {
  expect(() => eventId('0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c7d' as MessageId, n)).toThrow(RangeError)
})
