import { expect, test } from 'vitest'
import { silentLog, type Facts as Line } from '../base/log.ts'
import { limits, settingTable, type Route } from '../config.ts'
import type { Facts } from '../domain/attempt.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { RelayRoute } from '../store/reports.ts'
import { makeLogins } from './logins.ts'
import type { RouteKind } from './route.ts'

interface Manner {
  readonly to?: RouteKind
  readonly route?: Route
  readonly claimedAt?: number
}

/** What operators are told, the attempts that tell it, and a clock. */
function watched() {
  let claims = 0
  const told: (Line & { readonly words: string })[] = []
  let at = 0
  const logins = makeLogins(
    { ...silentLog, warned: (_, words, facts) => void told.push({ words, ...facts }) },
    () => at,
  )
  const relay: Route = { kind: 'relay', host: 'relay.example', port: 587, implicitTls: false }
  /** `claimedAt`: when its mail was claimed, in the order of the attempts if it is not said. */
  const attempt = (facts: Facts, own?: string, { to = 'relay', route = relay, claimedAt = ++claims }: Manner = {}) =>
    logins.note(
      {
        workspaceId: (own ?? 'w0') as WorkspaceId,
        routeSealed: own === undefined ? null : Buffer.alloc(1),
        claimedAt: new Date(claimedAt),
      },
      route,
      {
        ...facts,
        routeKind: to,
        provider: 'relay relay.example:587',
        dotWritten: false,
        needsDisarm: false,
        attemptsOnHosts: [],
        dialogue: [],
      },
    )
  return { told, logins, attempt, pass: (ms: number) => void (at += ms) }
}
const refused: Facts = { phase: 'auth', reply: { code: 535, enhancedCode: '5.7.8', text: '5.7.8 no' } }
const sent: Facts = { phase: 'eod', reply: { code: 250, text: 'ok' } }

test('a relay that refuses our login is told when it begins and when it ends, however many attempts there are', () => {
  const { told, logins, attempt, pass } = watched()
  attempt(sent)
  for (let n = 0; n < 1_000; n++) attempt(refused)
  expect(told).toMatchObject([{ relay: 'relay relay.example:587', route: 'installation', code: 535 }])
  expect(logins.refused).toBe(1)
  pass(limits.loginTakenAfterMs)
  attempt(sent)
  attempt(sent)
  expect(told.slice(1)).toMatchObject([{ words: 'The relay takes our login again.', route: 'installation' }])
  expect(logins.refused).toBe(0)
  attempt(refused)
  expect(told).toHaveLength(3)
})

test('where one host of a relay takes it and another does not, it stays refused, and is told once', () => {
  const { told, logins, attempt, pass } = watched()
  for (let n = 0; n < 100; n++) {
    attempt(n % 2 === 0 ? refused : sent)
    pass(1_000)
  }
  expect([told.length, logins.refused]).toEqual([1, 1])
})

test('what does not tell about the login changes nothing: lines that are lost, a 4yz, the simulator', () => {
  const { told, logins, attempt, pass } = watched()
  attempt({ phase: 'auth', reply: { code: 454, text: 'later' } })
  attempt({ phase: 'connect', trouble: 'connect_failed' })
  expect(told).toEqual([])
  attempt(refused)
  pass(limits.loginTakenAfterMs)
  attempt({ phase: 'connect', trouble: 'connect_failed' })
  attempt({ phase: 'auth', trouble: 'timeout' })
  attempt(sent, undefined, { to: 'sandbox' })
  expect([told.length, logins.refused]).toEqual([1, 1])
})

test('each workspace with a route of its own counts for itself, until it has another route', () => {
  const { told, logins, attempt } = watched()
  attempt(refused)
  attempt({ phase: 'auth', trouble: 'auth_unavailable' }, 'w1')
  attempt(refused, 'w2')
  attempt(refused, 'w0')
  expect(told.map(({ route, trouble }) => [route, trouble])).toEqual([
    ['installation', undefined],
    ['w1', 'auth_unavailable'],
    ['w2', undefined],
    ['w0', undefined],
  ])
  expect(logins.refused).toBe(4)
  attempt(sent, 'w1', { to: 'mx', route: { kind: 'mx' } })
  attempt(refused) // of w0, over the installation's route
  expect(logins.refused).toBe(2)
})

test('a workspace whose route is the sandbox by now is no relay that refuses; its mail to the simulator says nothing', () => {
  const { logins, attempt } = watched()
  attempt(refused, 'w1')
  attempt(sent, 'w1', { to: 'sandbox' })
  expect(logins.refused).toBe(1)
  attempt(sent, 'w1', { to: 'sandbox', route: { kind: 'sandbox' } })
  expect(logins.refused).toBe(0)
})

test('mail that was claimed before a workspace had a relay, and ends later, does not make its refusal begin twice', () => {
  const { told, attempt } = watched()
  attempt(refused, 'w0', { claimedAt: 2_000 })
  attempt(sent, undefined, { to: 'mx', route: { kind: 'mx' }, claimedAt: 1_000 }) // of w0, over the installation's route
  attempt(refused, 'w0', { claimedAt: 3_000 })
  expect(told).toHaveLength(1)
})

test('a relay that refuses again after days is told again, also where nobody reads the number', () => {
  const { told, attempt, pass } = watched()
  attempt(refused)
  pass(limits.loginForgottenMs + 1)
  attempt(refused)
  expect(told).toHaveLength(2)
})

test('a relay over which no mail waits any more is forgotten', () => {
  const { logins, attempt, pass } = watched()
  const longestMs = Math.max(...settingTable.POSTHORN_RETRY_SCHEDULE.fallback) * 1_000 * (1 + limits.retryJitter)
  attempt(refused)
  pass(longestMs)
  expect(logins.refused).toBe(1)
  pass(limits.loginForgottenMs - longestMs + 1)
  expect(logins.refused).toBe(0)
})

test('a route that no mail waits for any more calls nobody: its workspace is removed, blocked, or has given up', async () => {
  const { told, logins, attempt, pass } = watched()
  const asked: (readonly string[])[] = []
  const waiting =
    (...still: RelayRoute[]) =>
    (whose: readonly RelayRoute[]) => {
      asked.push(whose)
      return Promise.resolve(still)
    }
  await logins.look(waiting())
  expect(asked).toEqual([])
  attempt(refused)
  attempt(refused, 'w1')
  await logins.look(waiting('installation', 'w1' as WorkspaceId))
  expect(logins.refused).toBe(2)
  await logins.look(waiting('installation'))
  expect(asked).toEqual([
    ['installation', 'w1'],
    ['installation', 'w1'],
  ])
  expect(logins.refused).toBe(1)
  expect(told.slice(2)).toMatchObject([{ words: expect.stringMatching(/^No mail waits/) as string, route: 'w1' }])
  // What is refused while the database is asked is news.
  await logins.look(() => {
    pass(1)
    attempt(refused)
    return Promise.resolve([])
  })
  expect(logins.refused).toBe(1)
})
