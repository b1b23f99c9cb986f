import { describe, expect, it } from 'vitest'
import { limits } from '../config.ts'
import { makeShares } from './shares.ts'

describe('the shares of endpoints', () => {
  it('a share that was full at a claim asks for another one when half of it is free, also while it grows', () => {
    const shares = makeShares()
    for (let begun = 0; begun < limits.webhookShareFirst; begun++) shares.begin('w')
    expect(shares.rooms().rooms['w']).toBe(0)
    const asked: number[] = []
    for (let ended = 1; ended <= limits.webhookShareFirst; ended++) {
      shares.grow('w')
      if (shares.end('w')) asked.push(ended)
    }
    // Once, and long before the last one is back: nobody sleeps over events that wait.
    expect(asked).toHaveLength(1)
    expect(asked[0]).toBeLessThan(limits.webhookShareFirst / 2)
  })

  it('a share that no claim wanted more of wakes nobody', () => {
    const shares = makeShares()
    for (let begun = 0; begun < limits.webhookShareFirst; begun++) shares.begin('w')
    for (let ended = 0; ended < limits.webhookShareFirst; ended++) expect(shares.end('w')).toBe(false)
  })

  it('an endpoint that fails holds less of what all share', () => {
    const shares = makeShares()
    shares.begin('w')
    for (let failed = 0; failed < 10; failed++) shares.shrink('w', 20)
    expect(shares.rooms().rooms['w']).toBe(limits.webhookShareLeast - 1)
  })

  it('what a claim is told does not grow with all who ever took an event: who rests and did not fail is like a new one', () => {
    let now = 0
    const shares = makeShares(() => now)
    const post = (workspace: string, verdict: 'grow' | 'shrink') => {
      shares.begin(workspace)
      shares[verdict](workspace, 20)
      shares.end(workspace)
    }
    for (let n = 0; n < 5_000; n++) post(`healthy ${n}`, 'grow')
    post('busy', 'grow')
    post('failing', 'shrink')
    shares.begin('slow')
    now = limits.webhookShareRestMs + 1
    post('busy', 'grow')
    expect(shares.rooms().rooms).toEqual({
      failing: limits.webhookShareFirst / 2,
      slow: limits.webhookShareFirst - 1,
      busy: limits.webhookShareFirst + 2,
    })
  })

  it('who kept a slot for long and failed has one until it answers, also with a quick no', () => {
    const shares = makeShares()
    const ask = () => shares.rooms().rooms['w']
    shares.begin('w')
    shares.begin('w')
    shares.shrink('w', limits.webhookPostMs)
    expect(ask()).toBe(0)
    shares.end('w')
    expect(ask()).toBe(0)
    expect(shares.end('w')).toBe(true)
    expect(ask()).toBe(1)
    shares.shrink('w', 20)
    expect(ask()).toBe(limits.webhookShareLeast)
    shares.shrink('w', limits.webhookPostMs)
    shares.grow('w')
    expect(ask()).toBe(2)
  })

  it('who asks to be left alone has none until then, whatever else of it is answered meanwhile, and then one', () => {
    let now = 0
    const shares = makeShares(() => now)
    const ask = () => shares.rooms().rooms['w']
    for (let turn = 0; turn < 3; turn++) shares.begin('w')
    shares.shrink('w', 20, 60_000)
    shares.shrink('w', 20, 5_000)
    shares.grow('w')
    for (let turn = 0; turn < 3; turn++) shares.end('w')
    expect(ask()).toBe(0)
    now = 59_999
    expect(ask()).toBe(0)
    now = 60_000
    expect(ask()).toBe(2)
    shares.shrink('w', 20, 5_000)
    now = 65_000
    expect(ask()).toBe(1)
  })

  /** As a claim takes them: one of each before the second of any, half of what is free at most. */
  const claim = (shares: ReturnType<typeof makeShares>, endpoints: readonly string[]) => {
    const { rooms, share } = shares.rooms()
    const taken: string[] = []
    const most = shares.free >> 1
    for (let turn = 1; turn <= limits.webhookShareMax; turn++)
      for (const each of endpoints) if (taken.length < most && turn <= (rooms[each] ?? share)) taken.push(each)
    for (const each of taken) shares.begin(each)
    return taken
  }
  const many = (count: number, name: string) => Array.from({ length: count }, (_, index) => `${name} ${index}`)

  it.each([1, 20, 63, 500])('what %i new endpoints hold that hang leaves something free for the others', (count) => {
    const shares = makeShares()
    const endpoints = many(count, 'hanging')
    while (shares.free >= limits.webhookClaimLeast && claim(shares, endpoints).length > 0);
    expect(shares.free).toBeGreaterThanOrEqual(limits.webhookClaimLeast)
    expect(claim(shares, ['healthy']).length).toBeGreaterThan(1)
  })

  it('endpoints that are known to hang hold half of all slots and what one claim brings, however many they are, and get them in turn', () => {
    const shares = makeShares()
    const endpoints = many(5_000, 'hanging')
    for (const each of endpoints) {
      shares.begin(each)
      shares.shrink(each, limits.webhookPostMs)
      shares.end(each)
    }
    const lanes = limits.webhookLanesPerClaimMax
    for (let at = 0; at < endpoints.length; at += lanes) claim(shares, endpoints.slice(at, at + lanes))
    const held = limits.webhooksInFlightMax - shares.free
    expect(held).toBeGreaterThanOrEqual(limits.webhooksInFlightMax / 2)
    expect(held).toBeLessThan(limits.webhooksInFlightMax / 2 + lanes)
    expect(claim(shares, ['healthy']).length).toBe(limits.webhookShareFirst)
  })
})
