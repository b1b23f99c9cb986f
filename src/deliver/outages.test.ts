import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { makeOutages } from './outages.ts'

const leaseMs = 900
/** Looks every quarter of a lease, as the reaper does, from `from` on; what each look may believe. */
function looks(outages: ReturnType<typeof makeOutages>, from: number, many: number): string[] {
  return Array.from({ length: many }, (_, n) => outages.heard(from + (n * leaseMs) / 4))
}

test('whoever starts waits one lease with what is armed, and then believes every lease', () => {
  const expected = ['unarmed', 'unarmed', 'unarmed', 'unarmed', 'all', 'all']
  for (const at of [0, Date.now()]) expect(looks(makeOutages(leaseMs), at, 6)).toEqual(expected)
})

test.each([
  ['errors', (outages: ReturnType<typeof makeOutages>) => outages.failed(), 0],
  ['silence alone', () => undefined, 700],
  ['a clock that was set back', () => undefined, -10_000],
] as const)(
  'after an outage that showed as %s nothing is believed for one lease from the answer on',
  (_, happen, gap) => {
    const outages = makeOutages(leaseMs)
    looks(outages, 0, 8)
    happen(outages)
    const back = (7 * leaseMs) / 4 + gap
    expect(looks(outages, back, 6)).toEqual(['none', 'none', 'none', 'none', 'all', 'all'])
  },
)

test('an outage within the wait begins it anew', () => {
  const outages = makeOutages(leaseMs)
  looks(outages, 0, 8)
  outages.failed()
  expect(looks(outages, 2_000, 3)).toEqual(['none', 'none', 'none'])
  outages.failed()
  expect(looks(outages, 2_600, 5)).toEqual(['none', 'none', 'none', 'none', 'all'])
})

test('a look that comes late, and no later than a living holder can bear, is no outage', () => {
  const outages = makeOutages(leaseMs)
  looks(outages, 0, 8)
  const late = (7 * leaseMs) / 4 + 600
  expect([outages.heard(late), outages.heard(late)]).toEqual(['all', 'all'])
})

test('a heartbeat in quiet times takes no weight from the error that comes behind it', () => {
  const outages = makeOutages(leaseMs)
  looks(outages, 0, 8)
  outages.beat()
  outages.failed()
  expect(looks(outages, 1_800, 6)).toEqual(['none', 'none', 'none', 'none', 'all', 'all'])
})

// What a heartbeat of ours has shown is no longer so: whoever else is alive may have lost his lease since.
test.each([
  ['a heartbeat that went wrong', (outages: ReturnType<typeof makeOutages>) => outages.missed(), 100],
  ['silence', () => undefined, 700],
] as const)('behind %s errors begin a wait again, until the next heartbeat', (_, happen, gap) => {
  const outages = makeOutages(leaseMs)
  looks(outages, 0, 8)
  outages.failed()
  outages.heard(1_800)
  outages.beat()
  happen(outages)
  outages.heard(1_800 + gap)
  outages.failed()
  expect(looks(outages, 2_100 + gap, 5)).toEqual(['none', 'none', 'none', 'none', 'all'])
})

test('begun again, it knows nothing from before', () => {
  type Act = 'failed' | 'missed' | 'beat' | number
  const does = fc.array(
    fc.oneof(fc.constantFrom<Act[]>('failed', 'missed', 'beat'), fc.integer({ min: -50, max: 700 })),
  )
  fc.assert(
    fc.property(does, does, (past, acts) => {
      let at = 0
      const act = (outages: ReturnType<typeof makeOutages>, what: Act) =>
        typeof what === 'number' ? outages.heard((at += what)) : outages[what]()
      const [again, fresh] = [makeOutages(leaseMs), makeOutages(leaseMs)]
      for (const what of past) act(again, what)
      again.begin()
      const from = at
      const believed = acts.map((what) => act(again, what))
      at = from
      expect(believed).toEqual(acts.map((what) => act(fresh, what)))
    }),
    { numRuns: 500 },
  )
})

/** Looks for two leases and a half, each behind an error of something else, with a heartbeat now and then. */
function looksAmidErrors(
  outages: ReturnType<typeof makeOutages>,
  from: number,
  heartbeat: () => void,
  first = 1,
): string[] {
  return Array.from({ length: 10 }, (_, n) => {
    outages.failed()
    if (n % 2 === first) heartbeat()
    outages.failed()
    return outages.heard(from + (n * leaseMs) / 4)
  })
}

test('errors without an end, while heartbeats go through, hold up the reaper for a lease at a time; while those fail, too, for as long as they do', () => {
  const outages = makeOutages(leaseMs)
  looks(outages, 0, 8)
  const none = (many: number) => Array<string>(many).fill('none')
  expect(looksAmidErrors(outages, 2_000, () => outages.beat())).toEqual([...none(5), 'all', ...none(4)])
  const again = makeOutages(leaseMs)
  looks(again, 0, 8)
  // One that goes through between an error and the answer counts as well.
  expect(looksAmidErrors(again, 2_000, () => again.beat(), 0)).toEqual([...none(4), 'all', ...none(5)])
  expect(looksAmidErrors(outages, 4_250, () => outages.missed())).toEqual(none(10))
})
