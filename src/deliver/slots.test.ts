import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { makeSlots, untilClaim } from './slots.ts'

function slotsAt(roomOf: (provider: string) => number = () => Infinity) {
  const clock = { now: 0 }
  const slots = makeSlots(roomOf, () => clock.now)
  const launch = (destination: string, many: number, workspace = destination) => {
    for (let each = 0; each < many; each++) slots.launched(destination, workspace)
  }
  const land = (destination: string, many: number, answered = true, provider?: string) => {
    if (provider !== undefined) slots.heading(destination, provider)
    for (let each = 0; each < many; each++) slots.landed(destination, destination, answered ? 'answered' : 'silent')
  }
  const roomAt = (destination: string) => slots.rooms().rooms[destination] ?? limits.slotsAtFirst
  return { clock, slots, launch, land, room: roomAt }
}

test('a destination that answers soon has its full share, a new one begins with a few', () => {
  const { launch, land, room } = slotsAt()
  expect(room('a')).toBe(limits.slotsAtFirst)
  let rounds = 0
  for (; room('a') < limits.claimShareMax; rounds++) {
    const many = room('a')
    launch('a', many)
    expect(room('a')).toBe(0)
    land('a', many)
  }
  expect(rounds).toBeLessThan(8)
  launch('a', limits.claimShareMax)
  land('a', limits.claimShareMax)
  expect(room('a')).toBe(limits.claimShareMax)
})

test('the claims are told once when half of what a destination may have is free again, and it is given nothing before', () => {
  const { slots, launch, room } = slotsAt()
  launch('a', limits.slotsAtFirst)
  const told: number[] = []
  for (let landed = 1; landed <= limits.slotsAtFirst; landed++) {
    const could = room('a') > 0
    if (slots.landed('a', 'a', 'answered')) told.push(landed)
    expect(room('a') > 0).toBe(could || told.at(-1) === landed)
  }
  // Two for each answer: what it gave back, and what it has earned.
  expect(told).toEqual([Math.ceil(limits.slotsAtFirst / 3)])
})

test('what a claim is told does not grow with all who ever took much mail: who rests begins as one that is new does', () => {
  const { clock, slots, launch, land, room } = slotsAt()
  const earn = (destination: string) => {
    launch(destination, limits.slotsAtFirst)
    land(destination, limits.slotsAtFirst)
  }
  for (let n = 0; n < 3_000; n++) earn(`d${n}`)
  expect(room('d7')).toBe(2 * limits.slotsAtFirst)
  launch('slow', 1)
  clock.now = limits.slotsRestMs + 1
  earn('busy')
  expect(slots.rooms().rooms).toEqual({ busy: 2 * limits.slotsAtFirst, slow: limits.slotsAtLeast })
  // What it has earned is there again with its first messages.
  launch('d7', limits.slotsAtFirst)
  expect(room('d7')).toBe(limits.slotsAtFirst)
  land('d7', limits.slotsAtFirst)
  expect(room('d7')).toBe(3 * limits.slotsAtFirst)
})

test('one that does not answer gets a few now and then within what it may have, and less with every attempt that ends so', () => {
  const { clock, launch, land, room } = slotsAt()
  launch('a', 5)
  clock.now = limits.stalledAfterMs + 1
  expect(room('a')).toBe(limits.slotsAtLeast)
  launch('a', limits.slotsAtLeast)
  expect(room('a')).toBe(0)
  clock.now += 100 * limits.stalledAfterMs
  launch('a', limits.slotsAtFirst - 10)
  clock.now += 100 * limits.stalledAfterMs
  expect(room('a')).toBe(0)
  land('a', limits.slotsAtFirst, false)
  expect(room('a')).toBe(limits.slotsAtLeast)
  launch('a', limits.slotsAtLeast)
  land('a', limits.slotsAtLeast)
  expect(room('a')).toBeGreaterThan(limits.slotsAtLeast)
})

test('an attempt in which nobody was asked shows no answer, and no silence', () => {
  const { clock, slots, launch, land, room } = slotsAt()
  launch('a', 2)
  slots.heading('a', 'host of a')
  clock.now = limits.stalledAfterMs + 1
  slots.landed('a', 'a', 'unasked')
  expect(room('a')).toBe(limits.slotsAtLeast) // silent as before
  slots.landed('a', 'a', 'unasked')
  launch('a', limits.slotsAtFirst)
  land('a', limits.slotsAtFirst)
  const earned = room('a')
  expect(earned).toBe(2 * limits.slotsAtFirst)
  launch('a', earned)
  for (let each = 0; each < earned; each++) slots.landed('a', 'a', 'unasked')
  expect(room('a')).toBe(earned)
})

test('one that has more under way than it may have by now gets none, and not less than that', () => {
  const { clock, launch, land, room } = slotsAt()
  launch('a', limits.slotsAtFirst)
  land('a', 3, false)
  expect(room('a')).toBe(0)
  clock.now = limits.stalledAfterMs + 1
  expect(room('a')).toBe(0)
})

test('many stalled ones together keep half of all slots, and the one with the most gives most', () => {
  const { clock, slots, launch, land } = slotsAt()
  for (const name of ['a', 'b']) {
    launch(name, limits.claimShareMax)
    land(name, limits.claimShareMax)
    launch(name, limits.claimShareMax)
  }
  launch('quick', 100)
  expect(slots.surplus().size).toBe(0)
  clock.now = limits.stalledAfterMs + 1
  land('quick', 50)
  const surplus = slots.surplus()
  expect([...surplus.keys()].every((name) => name !== 'quick')).toBe(true)
  expect([...surplus.values()].reduce((sum, many) => sum + many, 0)).toBe(
    2 * limits.claimShareMax - limits.stalledSlotsMax,
  )
})

// Those that were met first, with nothing due, once had all of it for good.
test('what a provider takes by its rate is a ration of all its destinations, whichever of them were met first; a paused one gets nothing', () => {
  const { launch, land, slots } = slotsAt((provider) =>
    provider === 'paused' ? 0 : provider === 'slow' ? 1 : Infinity,
  )
  for (const [name, provider] of [
    ['a', 'slow'],
    ['b', 'slow'],
    ['c', 'paused'],
    ['d', 'quick'],
  ] as const) {
    launch(name, 1)
    land(name, 1, true, provider)
  }
  const { rooms, rations } = slots.rooms()
  expect(rations).toEqual({ of: { a: 'slow', b: 'slow' }, left: { slow: 1 } })
  expect(rooms).toEqual({ c: 0 })
})

test('of many destinations with one message each at a silent provider the youngest give way; one that waits at a busy one, or is new, does not', () => {
  const { clock, slots, launch, land } = slotsAt()
  for (let each = 0; each < limits.stalledSlotsMax + 100; each++) {
    clock.now = each / 1_000
    launch(`busy${each}`, 1)
    slots.heading(`busy${each}`, 'busy')
    launch(`silent${each}`, 1)
    if (each % 2 === 0) slots.heading(`silent${each}`, 'silent')
  }
  launch('quick', 2)
  launch('good', 1)
  slots.heading('good', 'good')
  clock.now = limits.stalledAfterMs + 2
  land('quick', 2, true, 'busy')
  const surplus = slots.surplus()
  const expected = Array.from({ length: 101 }, (_, each) => `silent${limits.stalledSlotsMax + 98 - 2 * each}`)
  expect([...surplus.keys()].toSorted()).toEqual(expected.toSorted())
  expect(new Set(surplus.values())).toEqual(new Set([1]))
})

test('a crowd at one silent provider, one message to each of its destinations, gives way before those that have a few of their own', () => {
  const { clock, slots, launch } = slotsAt()
  for (let each = 0; each < 10; each++) {
    launch(`few${each}`, limits.slotsAtFirst)
    if (each % 2 === 0) slots.heading(`few${each}`, `host of few${each}`)
  }
  const few = 10 * limits.slotsAtFirst
  for (let each = 0; each < limits.stalledSlotsMax; each++) {
    launch(`pit${each}`, 1)
    slots.heading(`pit${each}`, 'pit')
  }
  clock.now = limits.stalledAfterMs + 1
  const surplus = slots.surplus()
  expect([...surplus.keys()].filter((name) => !name.startsWith('pit'))).toEqual([])
  expect([...surplus.values()].reduce((sum, many) => sum + many, 0)).toBe(few)
})

test('who is alone at its provider has the time of a slow greeting, however many say nothing', () => {
  const { clock, slots, launch } = slotsAt()
  const launched = (name: string) => {
    launch(name, 1)
    slots.heading(name, `host of ${name}`)
  }
  for (let each = 0; each < limits.stalledSlotsMax + 5; each++) launched(`silent${each}`)
  clock.now = limits.slowGreetingMs - 1
  expect(slots.surplus().size).toBe(0)
  launched('slow to greet')
  clock.now += limits.stalledAfterMs + 1
  const surplus = [...slots.surplus().keys()]
  expect(surplus).toHaveLength(6)
  expect(surplus).not.toContain('slow to greet')
})

test('a silent provider keeps what it has, and all its destinations together get a few now and then while that is little', () => {
  const { clock, slots, launch, land } = slotsAt()
  const some = (from: number, many: number) => {
    for (let each = from; each < from + many; each++) {
      launch(`d${each}`, 1)
      slots.heading(`d${each}`, 'silent')
    }
  }
  some(0, 100)
  land('d99', 1, false)
  clock.now = limits.stalledAfterMs + 1
  expect(slots.rooms().rooms['d99']).toBe(0)
  for (let each = 10; each < 99; each++) land(`d${each}`, 1, false)
  expect(slots.rooms().rations.left).toEqual({ silent: limits.slotsAtLeast })
  expect(slots.rooms().rations.of['d99']).toBe('silent')
  some(100, limits.slotsAtLeast)
  expect(slots.rooms().rooms['d99']).toBe(0)
  land('d0', 1)
  expect(slots.rooms().rations).toEqual({ of: {}, left: {} })
})

test('where no connection is free for long, fewer are under way to that provider; every answer gives one more', () => {
  const { clock, slots, launch, land } = slotsAt()
  for (let each = 0; each < 200; each++) {
    launch(`d${each}`, 1)
    slots.heading(`d${each}`, 'slow')
  }
  clock.now = 1
  for (let each = 0; each < 100; each++) slots.landed(`d${each}`, 'w', 'late')
  for (let each = 100; each < 150; each++) land(`d${each}`, 1)
  expect(slots.rooms().rations.left).toEqual({ slow: 100 + 50 - 50 })
  for (let each = 150; each < 200; each++) land(`d${each}`, 1)
  for (let each = 0; each < limits.messagesInFlightMax; each++) {
    launch('d1', 1)
    land('d1', 1)
  }
  expect(slots.rooms().rations.left).toEqual({})
})

test('what is under way to a provider is counted once, from whichever of its destinations, and no more when one heads elsewhere', () => {
  const { clock, slots, launch, land } = slotsAt()
  for (let each = 0; each < 100; each++) {
    launch(`d${each}`, 1)
    slots.heading(`d${each}`, 'slow')
  }
  clock.now = 1
  slots.landed('d0', 'w', 'late')
  for (let each = 1; each < 100; each++) land(`d${each}`, 1, false)
  const left = () => slots.rooms().rations.left['slow']
  expect(left()).toBe(50)
  launch('d1', 3)
  slots.heading('d1', 'slow')
  expect(left()).toBe(47)
  launch('new', 4)
  slots.heading('new', 'slow')
  expect(left()).toBe(43)
  slots.heading('new', 'other')
  expect(left()).toBe(47)
})

test('however few were under way when no connection was free, a provider keeps as many as one that is new', () => {
  const { clock, slots, launch } = slotsAt()
  launch('a', 4)
  slots.heading('a', 'slow')
  clock.now = 1
  slots.landed('a', 'a', 'late')
  expect(slots.rooms().rations.left).toEqual({ slow: limits.slotsAtFirst - 3 })
})

test('the claims are told when half of what a provider may have is free again, whichever of its destinations that comes from', () => {
  const { clock, slots, launch, room } = slotsAt()
  const at = (from: number, many: number) => Array.from({ length: many }, (_, each) => `d${from + each}`)
  const take = (name: string) => {
    launch(name, 1)
    slots.heading(name, 'slow')
  }
  for (const name of at(0, 100)) take(name)
  clock.now = 1
  const told = (name: string, landing: 'answered' | 'late' = 'answered') => slots.landed(name, 'w', landing)
  expect(at(0, 60).filter((name) => told(name, 'late'))).toEqual([])
  // It may have 50 from then on, and one more with each answer: 40 of them are there.
  at(100, 10).forEach(take)
  expect(room('d0')).toBe(0)
  expect(at(60, 16).filter((name) => told(name))).toEqual([])
  expect(told('d76')).toBe(true)
  expect(slots.rooms().rations.left).toEqual({ slow: 67 - 33 })
  expect(at(77, 20).filter((name) => told(name))).toEqual([])
})

test('a workspace never has all slots', () => {
  const { slots, launch } = slotsAt()
  launch('a', limits.workspaceSlotsMax)
  launch('b', 5)
  expect(slots.crowded()).toEqual(['a'])
})

test('a claim is never so large that one workspace could get more than its share by it', () => {
  const { slots, launch } = slotsAt()
  launch('a', 300)
  launch('b', limits.workspaceSlotsMax - limits.claimMany)
  expect(slots.mostOfOne()).toBe(limits.claimMany)
  launch('b', 1)
  expect(slots.crowded()).toEqual(['b'])
  expect(slots.mostOfOne()).toBe(limits.workspaceSlotsMax - 300)
})

test('a workspace that has its share gets more as soon as a good part of it is free, and the claims are told so', () => {
  const { slots, launch, land } = slotsAt()
  launch('a', limits.workspaceSlotsMax)
  for (const answered of [true, false]) {
    land('a', limits.claimMany - 1, answered)
    expect(slots.crowded()).toEqual(['a'])
    expect(slots.landed('a', 'a', answered ? 'answered' : 'silent')).toBe(true)
    expect(slots.crowded()).toEqual([])
    launch('a', limits.claimMany)
  }
  land('a', limits.workspaceSlotsMax)
  expect(slots.crowded()).toEqual([])
  // Nothing of what has ended counts.
  launch('a', 300)
  expect(slots.mostOfOne()).toBe(limits.workspaceSlotsMax - 300)
})

test('what is known of destinations and providers is bounded: who is idle is forgotten, the first one first', () => {
  const { clock, slots, launch, land, room } = slotsAt()
  launch('busy', limits.slotsAtFirst)
  launch('earned', limits.slotsAtFirst)
  land('earned', limits.slotsAtFirst)
  expect(room('earned')).toBe(2 * limits.slotsAtFirst)
  for (let each = 0; each < limits.destinationsKnownMax; each++) {
    launch(`d${each}`, 1)
    land(`d${each}`, 1)
  }
  expect(room('earned')).toBe(limits.slotsAtFirst)
  expect(room('busy')).toBe(0)

  launch('a', 1)
  slots.heading('a', 'slow')
  clock.now = 1
  slots.landed('a', 'a', 'late')
  expect(slots.rooms().rations.left).toEqual({ slow: limits.slotsAtFirst })
  for (let each = 0; each < limits.providersKnownMax; each++) slots.heading('b', `provider${each}`)
  expect(slots.rooms().rations.left).toEqual({})
})

test('many free slots are claimed for at once, a few after a wait for more, and next to none after a longer one', () => {
  const { claimMany, claimLeast, claimWaitMs, claimFewMs } = limits
  expect([untilClaim(claimMany, 0), untilClaim(claimMany - 1, 0), untilClaim(claimLeast, 30)]).toEqual([
    0,
    claimWaitMs,
    claimWaitMs - 30,
  ])
  expect([untilClaim(claimLeast, claimWaitMs), untilClaim(claimLeast, Infinity)]).toEqual([0, 0])
  expect([untilClaim(1, 0), untilClaim(claimLeast - 1, claimFewMs), untilClaim(0, Infinity)]).toEqual([
    claimFewMs,
    0,
    Infinity,
  ])
})

test('one for whose provider no connection came free has half as much as before, as one that is silent has', () => {
  const after = (['silent', 'late', 'unasked'] as const).map((landing) => {
    const { slots, launch, land, room } = slotsAt()
    launch('a', limits.slotsAtFirst)
    land('a', limits.slotsAtFirst)
    launch('a', 1)
    slots.landed('a', 'a', landing)
    return room('a') / limits.slotsAtFirst
  })
  expect(after).toEqual([1, 1, 2])
})
