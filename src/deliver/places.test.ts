// Who has the next connection, in every case: what a pool shows only when several hosts of one provider are busy at once.
import { expect, test } from 'vitest'
import type { Facts } from '../domain/attempt.ts'
import {
  greetsLater,
  hangsUp,
  longestIdle,
  makeBorne,
  makeLeaving,
  mayOpenOneMore,
  moveTo,
  nextInLine,
  type Connection,
  type Group,
  type Place,
} from './places.ts'

const groupOf = (provider: string): Group => ({ provider, places: new Set(), open: 0 })
/** At which somebody waits. */
function placeAt(group: Group, key: string, facts: Partial<Place> = {}): Place {
  const borne = { connections: Infinity, until: 0 }
  const place = { key, group, connectionsMax: 10, borne, idle: [], open: 0, servedAt: 0, waiting: [() => undefined] }
  const made: Place = { ...place, ...facts }
  group.places.add(made)
  group.open += made.open
  return made
}
const idleSince = (place: Place, since: number): Connection => {
  const connection = { place, conversation: undefined, reused: true, idleSince: since, since: 0 }
  place.idle.push(connection)
  return connection
}
const nobodyIsFull = () => false

test('a place that belongs to another provider, as is known by now, counts there alone, with its connections', () => {
  const [before, after] = [groupOf('example.org'), groupOf('google')]
  const place = placeAt(before, 'mx1', { open: 3 })
  const beside = placeAt(before, 'mx2', { open: 2 })
  moveTo(after, place)
  expect([place.group, [...before.places], before.open]).toEqual([after, [beside], 2])
  expect([[...after.places], after.open]).toEqual([[place], 3])
})

test('a place has no more connections than it was seen to bear, until that time is over, and never more than it may have', () => {
  const group = groupOf('example.org')
  const borne = { connections: 2, until: Infinity }
  expect([1, 2].map((open) => mayOpenOneMore(placeAt(group, 'mx', { open, borne })))).toEqual([true, false])
  const over = { ...borne, until: 0 }
  expect([2, 9, 10].map((open) => mayOpenOneMore(placeAt(group, 'mx', { open, borne: over })))).toEqual([
    true,
    true,
    false,
  ])
})

test('what a place was seen to bear is known of the one that comes after it, and of no other', () => {
  const known = makeBorne()
  const place = placeAt(groupOf('example.org'), 'mx1')
  const from = performance.now()
  known.noMoreThan(4, place, 60_000)
  expect([known.of('mx1'), place.borne.connections]).toEqual([place.borne, 4])
  expect(place.borne.until).toBeGreaterThanOrEqual(from + 60_000)
  expect(known.of('mx2').connections).toBe(Infinity)
})

const said = (code: number) => ({ reply: { code, text: '' } })
test.each<[string, Facts, boolean, boolean]>([
  ['a greeting of 4yz', { phase: 'greeting', ...said(450) }, true, false],
  ['4yz to EHLO', { phase: 'ehlo', ...said(421) }, true, false],
  ['a greeting of 5yz', { phase: 'greeting', ...said(554) }, false, false],
  ['4yz to MAIL', { phase: 'mail', ...said(450) }, false, false],
  ['an end in place of a greeting', { phase: 'greeting', trouble: 'closed' }, false, true],
  ['silence in place of a greeting', { phase: 'greeting', trouble: 'timeout' }, false, false],
  ['an end behind EHLO', { phase: 'ehlo', trouble: 'closed' }, false, false],
])('%s: too many connections or not', (_, facts, later, up) => {
  expect([greetsLater(facts), hangsUp(facts)]).toEqual([later, up])
})

test('a place is left when the last of its connections has gone, and then forgotten', async () => {
  const leaving = makeLeaving()
  const place = placeAt(groupOf('example.org'), 'mx1')
  const [first, second, third] = Array.from({ length: 3 }, () => Promise.withResolvers<void>())
  expect(leaving.from(place)).toBe(undefined)
  for (const each of [first, second, third]) leaving.add(place, each?.promise ?? Promise.resolve())
  let gone = false
  const all = leaving.from(place)?.then(() => (gone = true))
  for (const each of [first, third]) {
    each?.resolve()
    await new Promise((resolve) => setImmediate(resolve))
    expect([gone, leaving.from(place) === undefined]).toEqual([false, false])
  }
  second?.resolve()
  await all
  await new Promise((resolve) => setImmediate(resolve))
  expect(leaving.from(place)).toBe(undefined)
})

test('of idle connections that gives way which was idle for longest', () => {
  const group = groupOf('example.org')
  const [one, two] = [placeAt(group, 'mx1'), placeAt(group, 'mx2')]
  expect(longestIdle([one, two])).toBe(undefined)
  idleSince(one, 5)
  const longest = idleSince(two, 3)
  expect([longestIdle([one, two]), longestIdle([two, one])]).toEqual([longest, longest])
})

test('next is, where somebody waits and may have one more, who has fewest connections, and then who had to wait for longest', () => {
  const group = groupOf('example.org')
  placeAt(group, 'nobody waits', { waiting: [] })
  placeAt(group, 'has all', { connectionsMax: 1, open: 1 })
  placeAt(group, 'bears none', { borne: { connections: 0, until: Infinity } })
  placeAt(group, 'many', { open: 3 })
  const later = placeAt(group, 'later', { open: 2, servedAt: 7 })
  const sooner = placeAt(group, 'sooner', { open: 2, servedAt: 5 })
  expect(nextInLine(group.places, nobodyIsFull)).toBe(sooner)
  expect(nextInLine([...group.places].toReversed(), nobodyIsFull)).toBe(sooner)
  expect(nextInLine(group.places, nobodyIsFull, sooner)).toBe(later)
})

test('where a provider has all that it may have, one of its own that leaves makes room for its other places, and for no other provider’s', () => {
  const [full, other] = [groupOf('full'), groupOf('other')]
  const leaving = placeAt(full, 'leaving', { open: 5 })
  const waits = placeAt(full, 'waits', { open: 1 })
  const isFull = ({ provider }: Group) => provider === 'full'
  expect(nextInLine(full.places, isFull)).toBe(undefined)
  expect(nextInLine(full.places, isFull, leaving)).toBe(waits)
  expect(nextInLine(full.places, isFull, placeAt(other, 'elsewhere', { open: 1, waiting: [] }))).toBe(undefined)
})
