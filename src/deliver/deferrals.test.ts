import { expect, test } from 'vitest'
import { silentLog, type Facts as Line } from '../base/log.ts'
import { limits } from '../config.ts'
import type { Facts } from '../domain/attempt.ts'
import type { MessageId } from '../domain/message.ts'
import { makeDeferrals } from './deferrals.ts'
import type { RouteKind } from './route.ts'

/** What operators are told, the attempts that tell it, and a clock. */
function watched() {
  const told: Line[] = []
  let at = 0
  const deferrals = makeDeferrals(
    { ...silentLog, warned: (what, words, facts) => void told.push({ what, words, ...facts }) },
    () => at,
  )
  let last = 0
  const attempt = (facts: Facts, provider: string | undefined = 'google', routeKind: RouteKind = 'mx', to = 'a.test') =>
    deferrals.note(
      { id: `m${++last}` as MessageId, destination: to },
      {
        ...facts,
        routeKind,
        ...(provider !== undefined && provider !== '' && { provider }),
        dotWritten: false,
        needsDisarm: false,
        attemptsOnHosts: [],
        dialogue: [],
      },
    )
  /** Attempts that end so, over the time after which it is told. */
  const goingOn = (...given: Parameters<typeof attempt>) => {
    for (let n = 0; n < limits.deferralsLeast * 2; n++) {
      attempt(...given)
      at += limits.deferralsToldAfterMs / limits.deferralsLeast
    }
  }
  return { told, attempt, goingOn, pass: (ms: number) => void (at += ms) }
}
const sent: Facts = { phase: 'eod', reply: { code: 250, text: 'ok' } }
const away: Facts = { phase: 'connect', trouble: 'connect_failed' }
const notNow: Facts = { phase: 'rcpt', reply: { code: 451, text: 'not now' } }

test('a provider that takes nothing for minutes is told when it begins and when it ends, however many attempts there are', () => {
  const { told, attempt, goingOn } = watched()
  attempt(sent)
  goingOn(away)
  goingOn(notNow)
  expect(told).toMatchObject([
    { what: 'deferred', provider: 'google', minutes: 10, trouble: 'connect_failed', phase: 'connect' },
  ])
  attempt(sent)
  attempt(sent)
  expect(told.slice(1)).toMatchObject([{ what: 'deferred', provider: 'google', words: 'It takes mail again.' }])
  goingOn(notNow)
  expect(told).toHaveLength(3)
})

test('a relay that is down, and name servers that do not answer, are told by name', () => {
  const { told, attempt, goingOn } = watched()
  goingOn({ phase: 'tls', trouble: 'tls_failed' }, 'relay relay.example:587', 'relay')
  const unresolved: Facts = { phase: 'route', trouble: 'dns_failure' }
  goingOn(unresolved, '')
  expect(told.map(({ provider }) => provider)).toEqual(['relay relay.example:587']) // one domain may be broken
  attempt(unresolved, '', 'mx', 'b.test')
  attempt({ phase: 'route', trouble: 'nxdomain' }, '')
  expect(told.slice(1).map(({ provider, words }) => [provider, words])).toEqual([
    ['name servers', told[0]?.['words']],
    ['name servers', 'It takes mail again.'],
  ])
})

test('nothing is told while some is taken or refused for good, of few attempts, of a short while, and of what is our own affair', () => {
  const { told, attempt, goingOn, pass } = watched()
  for (let n = 0; n < 100; n++) {
    for (let m = 0; m < 20; m++) attempt(notNow)
    pass(limits.deferralsToldAfterMs / 2)
    attempt(n % 2 === 0 ? sent : { phase: 'rcpt', reply: { code: 550, text: 'no such user' } })
  }
  for (let n = 0; n < limits.deferralsLeast - 1; n++) attempt(away, 'yahoo')
  pass(limits.deferralsToldAfterMs)
  for (let n = 0; n < 1_000; n++) attempt(away, 'apple')
  goingOn({ phase: 'route', trouble: 'paced' })
  goingOn({ phase: 'connect', trouble: 'shutdown' })
  goingOn({ phase: 'arm', trouble: 'arm_failed' })
  goingOn(notNow, 'sandbox', 'sandbox')
  goingOn({ phase: 'auth', reply: { code: 535, text: 'no' } }, 'relay relay.example:587', 'relay')
  expect(told).toEqual([])
})

test('where the machine has no network, a few names tell it; and what waits no more leaves its place to others', () => {
  const { told, attempt, goingOn, pass } = watched()
  for (let round = 0; round < limits.deferralsLeast; round++) {
    for (let n = 0; n < limits.deferralsToldMax + 10; n++) attempt(away, `p${n}`)
    pass(limits.deferralsToldAfterMs)
  }
  expect(told).toHaveLength(limits.deferralsToldMax)
  pass(limits.deferralsForgottenMs + 1)
  goingOn(away, 'later')
  expect(told).toHaveLength(limits.deferralsToldMax + 1)
})

test('hosts that are dead for good, and little is sent to, do not hide a provider that is written to much', () => {
  const { told, attempt, goingOn, pass } = watched()
  for (let round = 0; round < limits.deferralsLeast; round++) {
    for (let n = 0; n < limits.deferralsToldMax + 10; n++) attempt(away, `dead${n}.example`)
    pass(limits.deferralsToldAfterMs)
  }
  expect(told).toHaveLength(limits.deferralsToldMax)
  goingOn(notNow)
  expect(told).toHaveLength(limits.deferralsToldMax)
  for (let n = 0; n < limits.deferralsLeast * limits.deferralsOutdone; n++) attempt(notNow)
  expect(told.slice(limits.deferralsToldMax)).toMatchObject([{ what: 'deferred', provider: 'google' }])
  attempt(sent)
  expect(told.at(-1)).toMatchObject({ provider: 'google', words: 'It takes mail again.' })
})

test('of those that are told it is the one with fewest attempts that gives its place to a busier one, and never more are told at once', () => {
  const { told, attempt, goingOn, pass } = watched()
  const names = () => told.map(({ provider }) => provider)
  const least = limits.deferralsToldMax >> 1
  for (let round = 0; round < limits.deferralsLeast; round++) {
    for (let n = 0; n < limits.deferralsToldMax; n++)
      for (let m = 0; m < (n === least ? 1 : 2); m++) attempt(away, `dead${n}.example`)
    pass(limits.deferralsToldAfterMs)
  }
  expect(told).toHaveLength(limits.deferralsToldMax)
  const outdoes = limits.deferralsLeast * limits.deferralsOutdone
  for (let n = 0; n < outdoes - 1; n++) attempt(notNow)
  pass(limits.deferralsToldAfterMs)
  expect(names()).not.toContain('google')
  attempt(notNow)
  expect(names().at(-1)).toBe('google')
  // Its end is no news any more; that of another one is, and leaves a place.
  attempt(sent, `dead${least}.example`)
  expect(told).toHaveLength(limits.deferralsToldMax + 1)
  goingOn(away, 'yahoo')
  expect(names()).not.toContain('yahoo')
  attempt(sent, 'dead0.example')
  expect(told.at(-1)).toMatchObject({ provider: 'dead0.example', words: 'It takes mail again.' })
  goingOn(away, 'apple')
  expect(names().at(-1)).toBe('apple')
})

test('what began long ago is told anew where nothing was heard meanwhile, and goes on where each try comes late', () => {
  const { told, attempt, pass } = watched()
  for (let n = 0; n < limits.deferralsLeast; n++) {
    attempt(away)
    pass(limits.deferralsForgottenMs)
  }
  expect(told).toMatchObject([{ provider: 'google', attempts: limits.deferralsLeast }])
  pass(1)
  for (let n = 1; n < limits.deferralsLeast; n++) attempt(away)
  pass(limits.deferralsToldAfterMs)
  expect(told).toHaveLength(1)
  attempt(away)
  expect(told.slice(1)).toMatchObject([{ provider: 'google', attempts: limits.deferralsLeast, minutes: 10 }])
})

test('of more hosts than are known those are forgotten that were silent first, and no others', () => {
  const { told, attempt, pass } = watched()
  for (let n = 1; n < limits.deferralsLeast; n++) for (const who of ['first', 'second']) attempt(away, who)
  for (let n = 1; n < limits.providersKnownMax; n++) attempt(away, `p${n}`)
  pass(limits.deferralsToldAfterMs)
  attempt(away, 'second')
  attempt(away, 'first')
  expect(told.map(({ provider }) => provider)).toEqual(['second'])
})

test('a provider that takes mail has been found by the name servers, and so has one that puts it off', () => {
  const { told, attempt, pass } = watched()
  const unresolved: Facts = { phase: 'route', trouble: 'dns_failure' }
  for (const found of [sent, notNow, { phase: 'route', trouble: 'nxdomain' }] as const) {
    for (let n = 1; n < limits.deferralsLeast; n++) attempt(unresolved, '', 'mx', `d${n}.test`)
    pass(limits.deferralsToldAfterMs)
    attempt(found, found.phase === 'route' ? '' : 'google')
    attempt(unresolved, '')
  }
  expect(told).toEqual([])
})
