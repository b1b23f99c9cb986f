import { describe, expect, it } from 'vitest'
import { limits } from '../config.ts'
import { makeShares } from './shares.ts'

describe('the shares of endpoints', () => {
  it('a share that was full at a claim asks for another one when half of it is free, also while it grows', () => {
    const shares = makeShares()
    for (let begun = 0; begun < limits.webhookShareFirst; begun++) shares.begin('w')
    expect(shares.rooms()['w']).toBe(0)
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
    for (let failed = 0; failed < 10; failed++) shares.shrink('w')
    expect(shares.rooms()['w']).toBe(limits.webhookShareLeast - 1)
  })

  it('what a claim is told does not grow with all who ever took an event: who rests and did not fail is like a new one', () => {
    let now = 0
    const shares = makeShares(() => now)
    const post = (workspace: string, verdict: 'grow' | 'shrink') => {
      shares.begin(workspace)
      shares[verdict](workspace)
      shares.end(workspace)
    }
    for (let n = 0; n < 5_000; n++) post(`healthy ${n}`, 'grow')
    post('busy', 'grow')
    post('failing', 'shrink')
    shares.begin('slow')
    now = limits.webhookShareRestMs + 1
    post('busy', 'grow')
    expect(shares.rooms()).toEqual({
      failing: limits.webhookShareFirst / 2,
      slow: limits.webhookShareFirst - 1,
      busy: limits.webhookShareFirst + 2,
    })
  })
})
