import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import type { Facts } from '../domain/attempt.ts'
import type { Claim, MessageId, WorkspaceId } from '../domain/message.ts'
import type { Claimed, Ending } from '../store/outbound.ts'
import { makeBackAgain } from './back-again.ts'
import type { RouteKind } from './route.ts'

const refused: Facts = { phase: 'connect', trouble: 'connect_failed' }
const unknown: Facts = { phase: 'route', trouble: 'dns_failure' }
const noWay: Facts = { phase: 'connect', trouble: 'connect_failed', cause: 'ENETUNREACH' }
const later: Facts = { phase: 'rcpt', reply: { code: 451, text: 'not now' } }
const sent: Facts = { phase: 'eod', reply: { code: 250, text: 'ok' } }
const restMs = limits.backAgainMs
/** From each try to the next one by the schedule. */
const scheduleMs = 30 * 60_000

/** A clock, name servers, a database, and what was made due. */
function watched(timeScale = 1) {
  let at = 0
  const world = {
    namesAnswer: true as boolean | Promise<boolean>,
    asked: 0,
    databaseAway: false,
    wayOut: true,
    looked: 0,
  }
  const due: string[] = []
  const back = makeBackAgain({
    timeScale,
    hasten: (some: readonly Claim[]) => {
      expect(some).not.toEqual([]) // with nothing to say it is not asked, once a second
      if (world.databaseAway) return Promise.reject(new Error('away'))
      due.push(...some.map(({ id }) => id))
      return Promise.resolve()
    },
    namesAnswer: () => {
      world.asked++
      return Promise.resolve(world.namesAnswer)
    },
    wayOut: () => {
      world.looked++
      return Promise.resolve(world.wayOut)
    },
    now: () => at,
  })
  const attempt = (
    id: string,
    facts: Facts,
    routeKind: RouteKind = 'mx',
    destination = 'a.test',
    own = '',
    ending: Partial<Ending> = facts === sent ? { status: 'sent' } : { status: 'retrying', usesTry: true },
  ) => {
    const claimed = {
      id: id as MessageId,
      epoch: 1,
      token: '7',
      workspaceId: (own || `workspace of ${id}`) as WorkspaceId,
      routeSealed: own === '' ? null : Buffer.from(own),
      destination,
    } as Claimed
    const untouched = { dotWritten: false, needsDisarm: false, attemptsOnHosts: [], dialogue: [] }
    back.note(claimed, { ...facts, ...untouched, routeKind }, { delayMs: scheduleMs, ...ending } as Ending)
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
  return { world, attempt, pass, look: back.look }
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

test.each([
  ['no connection', refused],
  ['no greeting', { phase: 'greeting', trouble: 'timeout' }],
  ['a connection that is closed in place of one', { phase: 'greeting', trouble: 'closed' }],
] as const)('who got %s goes when somebody has answered there', async (_, facts) => {
  const { attempt, pass } = watched()
  attempt('m1', facts)
  attempt('m2', sent)
  expect(await pass(restMs)).toEqual(['m1'])
})

test.each([
  ['whose line broke once they had greeted', { phase: 'rcpt', trouble: 'closed' }],
  ['who waited in vain once they had greeted', { phase: 'data', trouble: 'timeout' }],
  ['who was greeted with something that is no reply', { phase: 'greeting', trouble: 'malformed' }],
  ['who was greeted with a no', { phase: 'greeting', reply: { code: 421, text: 'busy' } }],
] as const)('%s keeps to the schedule', async (_, facts) => {
  const { attempt, pass } = watched()
  attempt('m1', facts)
  attempt('m2', sent)
  expect(await pass(20 * 60_000)).toEqual([])
})

test('whom we have put off ourselves gets no second try back', async () => {
  const { attempt, pass } = watched()
  attempt('m1', refused, 'mx', 'a.test', '', { status: 'retrying', usesTry: false })
  attempt('m2', sent)
  expect(await pass(20 * 60_000)).toEqual([])
})

test.each(['mail', 'rcpt', 'data', 'content', 'arm', 'eod'] as const)(
  'who answers anything at %s is there again',
  async (phase) => {
    const { attempt, pass } = watched()
    attempt('m1', refused)
    attempt('m2', { phase, reply: { code: 451, text: 'not now' } })
    expect(await pass(restMs)).toEqual(['m1'])
  },
)

test.each([
  ['greets and wants no mail', { phase: 'greeting', reply: { code: 421, text: 'busy' } }],
  ['falls silent at MAIL', { phase: 'mail', trouble: 'timeout' }],
  ['is larger than what they take', { phase: 'mail', trouble: 'size' }],
] as const)('who %s is not there again', async (_, facts) => {
  const { attempt, pass } = watched()
  attempt('m1', refused)
  attempt('m2', facts)
  expect(await pass(20 * 60_000)).toEqual([])
})

test('what the sandbox takes says nothing of the hosts that it stands for', async () => {
  const { attempt, pass } = watched()
  attempt('m1', refused)
  attempt('m2', sent, 'sandbox')
  expect(await pass(20 * 60_000)).toEqual([])
})

test('where the database is away, what became due goes when it answers, once', async () => {
  const { world, attempt, pass } = watched()
  attempt('m1', refused)
  attempt('m2', sent)
  world.databaseAway = true
  await expect(pass(restMs)).rejects.toThrow('away')
  world.databaseAway = false
  expect(await pass(restMs)).toEqual(['m1'])
})

test('of a large backlog not all go in one second, since new mail stands behind them', async () => {
  const { attempt, pass } = watched()
  const all = Array.from({ length: limits.hastenedAtOnce + 1 }, (_, n) => `m${n}`)
  for (const id of all) attempt(id, refused)
  attempt('other', sent)
  expect(await pass(restMs)).toEqual(all.slice(0, -1))
  expect(await pass(1_000)).toEqual(all.slice(-1))
})

test('of dead domains so much is known and no more, and what was tried since, here or by another node, stands in nobody’s way', async () => {
  const { attempt, pass } = watched()
  /** Whether mail for a host that is away is known, and goes with the next that is taken there. */
  const isKnown = async (id: string): Promise<boolean> => {
    attempt(id, refused)
    attempt('other', sent)
    return (await pass(restMs)).includes(id)
  }
  const dead = Array.from({ length: limits.outOfReachKnownMax - 1 }, (_, n) => `dead ${n}`)
  // As often as its node tries it, and whatever was in the way, a message counts once.
  for (const facts of [unknown, refused, refused]) for (const id of dead) attempt(id, facts, 'mx', 'dead.test')
  for (const id of ['m1', 'm2']) expect(await isKnown(id)).toBe(true)
  attempt('one more', refused, 'mx', 'dead.test')
  for (const id of ['m3', 'm4']) expect(await isKnown(id)).toBe(false)
  attempt('one more', refused, 'mx', 'dead.test', '', { status: 'failed', usesTry: true })
  expect(await isKnown('m5')).toBe(true)
  attempt('one more', refused, 'mx', 'dead.test')
  // By then the schedule has tried each once more, and no word of that has come here.
  await pass(scheduleMs)
  expect(await isKnown('m6')).toBe(true)
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
    for (const id of ['m1', 'm2']) attempt(id, refused)
    attempt('m3', sent)
    expect(await pass(waits * restMs - 1_000)).toEqual([])
    expect(await pass(1_000)).toEqual(['m1', 'm2'])
  }
})

test('where time runs faster it goes as much sooner', async () => {
  const { attempt, pass } = watched(5)
  attempt('m1', refused)
  attempt('m2', sent)
  expect(await pass(restMs / 5)).toEqual(['m1'])
})

test('what a relay has put off by not being there goes when it has taken other mail', async () => {
  const { attempt, pass } = watched()
  for (const id of ['m1', 'm2']) attempt(id, refused, 'relay')
  expect(await pass(20 * 60_000)).toEqual([])
  attempt('m3', sent, 'relay', 'b.test')
  expect((await pass(1_000)).toSorted()).toEqual(['m1', 'm2'])
  expect(await pass(20 * 60_000)).toEqual([])
})

test('with nobody known to wait, whoever is there again is no news', async () => {
  const { attempt, pass } = watched()
  attempt('m1', sent)
  attempt('m2', refused)
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

test('that name servers answer again is no news for whoever found a host, and not its host', async () => {
  const { world, attempt, pass } = watched()
  world.namesAnswer = false
  attempt('m1', unknown)
  attempt('m2', refused, 'mx', 'b.test')
  attempt('m3', unknown, 'relay')
  await pass(1_000)
  world.namesAnswer = true
  expect(await pass(20 * 60_000)).toEqual(['m1'])
})

test('who found no name server while they were asked is heard of with the next question', async () => {
  const { world, attempt, look, pass } = watched()
  attempt('m1', unknown)
  const answer = Promise.withResolvers<boolean>()
  world.namesAnswer = answer.promise
  const looked = look()
  attempt('m2', unknown, 'mx', 'b.test')
  answer.resolve(true)
  await looked
  world.namesAnswer = false
  await pass(1_000)
  world.namesAnswer = true
  expect(await pass(restMs)).toEqual(['m2'])
})

test.each([
  ['mail went meanwhile by its schedule', sent],
  ['mail waited for them', unknown],
])(
  'once name servers were away and %s, a domain whose own servers are broken waits for its schedule',
  async (_, then) => {
    const { world, attempt, pass } = watched()
    world.namesAnswer = false
    attempt('m1', unknown)
    await pass(1_000)
    attempt('m1', then)
    world.namesAnswer = true
    await pass(restMs)
    attempt('m2', unknown, 'mx', 'b.test')
    expect(await pass(20 * 60_000)).toEqual([])
  },
)

test('a domain whose own servers are broken waits for its schedule, and nobody is asked on and on', async () => {
  const { world, attempt, pass } = watched()
  attempt('m1', unknown)
  expect(await pass(20 * 60_000)).toEqual([])
  expect(world.asked).toBe(1)
})

test('while this machine has no way to anywhere, mail for everybody waits, and goes as soon as it has one', async () => {
  const { world, attempt, pass } = watched()
  world.wayOut = false
  attempt('m1', noWay)
  attempt('m2', noWay, 'relay', 'b.test')
  // By a name server on this machine: what it remembers it answers all the same.
  attempt('m3', unknown, 'mx', 'c.test')
  attempt('m4', refused, 'mx', 'd.test')
  expect(await pass(20 * 60_000)).toEqual([])
  world.wayOut = true
  expect((await pass(1_000)).toSorted()).toEqual(['m1', 'm2', 'm3'])
  expect(await pass(20 * 60_000)).toEqual([])
})

test('what waits for a network, for names and for a host goes once when all of them are there again, and is tried as soon the next time', async () => {
  const { world, attempt, pass } = watched()
  for (const wait of [restMs, 2 * restMs]) {
    world.wayOut = world.namesAnswer = false
    attempt('one', unknown)
    await pass(1_000)
    world.wayOut = world.namesAnswer = true
    await pass(1_000)
    attempt('other', sent)
    expect(await pass(wait - 3_000)).toEqual([])
    expect(await pass(8 * restMs)).toEqual(['one'])
  }
})

test('one host to which there is no way, where others are in reach, waits for its schedule', async () => {
  const { world, attempt, pass } = watched()
  attempt('m1', noWay)
  expect(await pass(20 * 60_000)).toEqual([])
  expect(world.looked).toBe(1)
  world.wayOut = false
  expect(await pass(60_000)).toEqual([])
  world.wayOut = true
  expect(await pass(60_000)).toEqual([])
})
