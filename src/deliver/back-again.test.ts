import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import type { Facts } from '../domain/attempt.ts'
import type { Claim, MessageId, WorkspaceId } from '../domain/message.ts'
import type { Claimed, Ending } from '../store/outbound.ts'
import { makeBackAgain } from './back-again.ts'
import type { RouteKind } from './route.ts'

const refused: Facts = { phase: 'connect', trouble: 'connect_failed' }
const unknown: Facts = { phase: 'route', trouble: 'dns_failure' }
const later: Facts = { phase: 'rcpt', reply: { code: 451, text: 'not now' } }
const sent: Facts = { phase: 'eod', reply: { code: 250, text: 'ok' } }
const restMs = limits.backAgainMs

/** A clock, name servers, and what was made due. */
function watched() {
  let at = 0
  const world = { namesAnswer: true, asked: 0 }
  const due: string[] = []
  const back = makeBackAgain({
    timeScale: 1,
    hasten: (some: readonly Claim[]) => {
      due.push(...some.map(({ id }) => id))
      return Promise.resolve()
    },
    namesAnswer: () => {
      world.asked++
      return Promise.resolve(world.namesAnswer)
    },
    now: () => at,
  })
  const attempt = (id: string, facts: Facts, routeKind: RouteKind = 'mx', destination = 'a.test', own = '') => {
    const claimed = {
      id: id as MessageId,
      epoch: 1,
      token: '7',
      workspaceId: (own || 'w') as WorkspaceId,
      routeSealed: own === '' ? null : Buffer.from(own),
      destination,
    } as Claimed
    const untouched = { dotWritten: false, needsDisarm: false, attemptsOnHosts: [], dialogue: [] }
    const ends = facts === sent ? { status: 'sent' } : { status: 'retrying', usesTry: true }
    back.note(claimed, { ...facts, ...untouched, routeKind }, ends as Ending)
  }
  /** What has become due in the seconds that pass. */
  const pass = async (ms: number): Promise<string[]> => {
    due.length = 0
    for (const end = at + ms; at < end;) {
      at = Math.min(end, at + 1_000)
      await back.look()
    }
    return [...due]
  }
  return { world, attempt, pass }
}

test('what found no host of a domain goes when others are spoken to there, be it refused, and nobody of another domain', async () => {
  const { attempt, pass } = watched()
  attempt('m1', refused)
  attempt('m2', refused, 'mx', 'b.test')
  expect(await pass(20 * 60_000)).toEqual([])
  attempt('m3', later)
  expect(await pass(1_000)).toEqual(['m1'])
  expect(await pass(20 * 60_000)).toEqual([])
})

test('what was told to come later by a host keeps to the schedule', async () => {
  const { attempt, pass } = watched()
  attempt('m1', later)
  attempt('m2', sent)
  expect(await pass(20 * 60_000)).toEqual([])
})

test('where hosts come and go it goes no sooner than ten seconds after its last try, and twice as long each time', async () => {
  const { attempt, pass } = watched()
  for (const waits of [1, 2, 4]) {
    attempt('m1', refused)
    attempt('m2', sent)
    expect(await pass(waits * restMs - 1_000)).toEqual([])
    expect(await pass(1_000)).toEqual(['m1'])
  }
})

test('what a relay has put off by not being there goes when it has taken other mail', async () => {
  const { attempt, pass } = watched()
  for (const id of ['m1', 'm2']) attempt(id, refused, 'relay')
  expect(await pass(20 * 60_000)).toEqual([])
  attempt('m3', sent, 'relay', 'b.test')
  expect((await pass(1_000)).toSorted()).toEqual(['m1', 'm2'])
  expect(await pass(20 * 60_000)).toEqual([])
})

test("a workspace's own relay says nothing of the installation's", async () => {
  const { attempt, pass } = watched()
  attempt('m1', refused, 'relay', 'a.test', 'w1')
  attempt('m2', sent, 'relay')
  expect(await pass(restMs)).toEqual([])
  attempt('m3', sent, 'relay', 'b.test', 'w1')
  expect(await pass(1_000)).toEqual(['m1'])
})

test('when no name server answers anything, mail goes as soon as one does again', async () => {
  const { world, attempt, pass } = watched()
  world.namesAnswer = false
  attempt('m1', unknown)
  attempt('m2', unknown, 'mx', 'b.test')
  expect(await pass(20 * 60_000)).toEqual([])
  world.namesAnswer = true
  expect((await pass(1_000)).toSorted()).toEqual(['m1', 'm2'])
})

test('a domain whose own servers are broken waits for its schedule, and nobody is asked on and on', async () => {
  const { world, attempt, pass } = watched()
  attempt('m1', unknown)
  expect(await pass(20 * 60_000)).toEqual([])
  expect(world.asked).toBe(1)
})
