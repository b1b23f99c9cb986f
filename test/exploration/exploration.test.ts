// The exploration, as deep as some seconds allow (npm run explore goes to the end), and its proof that it is not blind: each known way to get
// the protocol wrong must be seen.
import { describe, expect, test } from 'vitest'
import { isSlip, scopes, slips } from './scopes.ts'
import { explore } from './search.ts'

describe('all orders of steps: no second copy, nothing lost, and from everywhere each message ends', () => {
  test.each(Object.entries(scopes))('%s', (_, scope) => {
    const { breach, states } = explore(scope, undefined, { statesMost: 3_000 })
    expect(breach?.join('\n')).toBeUndefined()
    expect(states).toBeGreaterThan(1_000)
  })

  test('whatever a worker hands back while an operator assumes that mail was sent: the whole of it', () => {
    const scope = { ...scopes.failover, nodes: 1, left: { times: 1, copies: 1, failovers: 1, recovers: 1 } } as const
    const { breach, whole } = explore(scope, undefined)
    expect(breach?.join('\n')).toBeUndefined()
    expect(whole).toBe(true)
  })
})

describe('is seen to break the promise:', () => {
  test.each(Object.keys(slips))('%s', (name) => {
    const { breach } = isSlip(name) ? explore(slips[name], name, { statesMost: 20_000 }) : {}
    expect(breach?.length).toBeGreaterThan(1)
  })
})
