// Everything that happens to messages, side by side and without end: claims, arms, endings in time and late, heartbeats, reapers and reports of two nodes,
// over messages of four partitions. No statement may fail, and in the end each message's record, its history and its place in the queue are one story.
import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { rankOf } from '../domain/delivery-status.ts'
import { claimDue, type LaneCursors } from './claim.ts'
import { extendLeases, extendLocked, claimName, makeRecorder, reap, type Claimed, type Ending } from './outbound.ts'
import { makeReportRecorder } from './reports.ts'
import { storeWorld } from './store.test-kit.ts'
import { leastId } from './message-id.ts'

const [leaseMs, triesMax] = [400, 6]
const messagesEach = 1_500
/** Fewer than there are of these, with all that are tried again. */
const claimsInAll = 5_000
const world = await storeWorld()
const senders = [await world.sender(), await world.sender(), await world.sender()]
await world.fillMonths()
for (const { workspaceId, mailboxId } of senders)
  await world.db.run(
    `with ids as (
         select (left(uuid_floor(app_now() - n % 4 * interval '28 days' - n * interval '1 second')::text, 13) || substr(gen_random_uuid()::text, 14))::uuid id, n
           from generate_series(1, $3::integer) n),
       records as (
         insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
         select $1, id, $2, 'rest', 'queued', 1, 'post@example.com', n || '@example.org', n || '@example.org', 'Hello', 'node.test', app_now() from ids),
       events as (
         insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
         select $1, id, 1, 'message.queued', 'queued', 0, app_now() from ids),
       contents as (insert into contents (workspace_id, message_id, body_text) select $1, id, 'Good morning' from ids)
       insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
       select id, $1, $2, 'd' || n % 5 || '.example', app_now(), app_now() + interval '1 day' from ids`,
    [workspaceId, mailboxId, messagesEach],
  )
await world.db.run('analyze')

/** Failures of statements, with what was asked. */
const failures: string[] = []
const noted = async <T>(what: string, asked: Promise<T>): Promise<T | undefined> =>
  asked.catch((error: unknown) => void failures.push(`${what}: ${String(error)}`))

const reply = (code: number) => ({ attempt: 1, phase: 'eod', smtp: { host: 'mx.example.org', stage: 'eod', code } })
const bounce = { class: 'no_such_user', permanent: true, final: true, rule: 'rcpt-5.1.1', source: 'smtp' }
const softly = { ...bounce, permanent: false, final: false }
type End = Pick<Ending, 'status' | 'outcome' | 'attempt' | 'event'> & Partial<Ending>
const notWritten: End = {
  status: 'retrying',
  outcome: 'retry',
  attempt: { attempt: 1, phase: 'rcpt' },
  event: { attempt: 1, reason: 'rcpt_4xx' },
  delayMs: 0,
  evidence: 'not_written',
}
const ends: readonly End[] = [
  {
    status: 'sent',
    outcome: 'accepted',
    attempt: reply(250),
    event: { attempt: 1 },
    report: { type: 'delivered', rank: 2, detail: '250 ok', suppress: false, facts: {} },
  },
  {
    status: 'failed',
    outcome: 'refused',
    attempt: reply(550),
    event: { attempt: 1 },
    report: { type: 'hard_bounce', rank: 4, detail: '550 no', bounce, suppress: true, facts: { bounce } },
  },
  {
    status: 'retrying',
    outcome: 'retry',
    attempt: reply(450),
    event: { attempt: 1, reason: 'eod_4xx' },
    delayMs: 0,
    evidence: 'eod_4xx',
    report: {
      type: 'soft_bounce',
      rank: 1,
      detail: '450 later',
      bounce: softly,
      suppress: false,
      facts: { bounce: softly },
    },
  },
  { status: 'delivery_unknown', outcome: 'unknown', attempt: { attempt: 1, phase: 'eod' }, event: { attempt: 1 } },
]
const anyOf = <T>(choices: readonly T[]): T => choices[randomInt(choices.length)] as T

/** All that a node does, until there have been claims enough. `seen`: what any node has claimed. */
async function node(seen: Claimed[]): Promise<void> {
  const db = world.anotherNode()
  const recorder = makeRecorder(world.anotherNode(), world.anotherNode(), await world.node())
  const report = makeReportRecorder(world.anotherNode())
  const owner = randomUUID()
  const flights = new Map<string, Claimed>()
  const goesOn = () => seen.length < claimsInAll

  const fly = async (claim: Claimed): Promise<void> => {
    await setTimeout(randomInt(30))
    const luck = randomInt(20)
    if (luck === 0) return // it dies, and the reaper comes
    const isArmed = luck > 2
    if (isArmed && (await noted('arm', recorder.arm(claim))) !== 'armed') return
    await setTimeout(luck < 5 ? 2 * leaseMs : randomInt(20)) // some are late: the reaper was first
    if (luck === 19) return
    const end = isArmed ? anyOf(ends) : notWritten
    await noted('finish', recorder.finish({ ...claim, usesTry: true, ...end }))
  }
  const deliver = async (): Promise<void> => {
    let place: { cursor: string; cursors: LaneCursors } = { cursor: leastId, cursors: {} }
    const flying = new Set<Promise<void>>()
    while (goesOn()) {
      const request = { ...place, most: 100, rooms: {}, roomElse: 200, crowded: [], leaseMs, owner }
      const answer = await noted('claim', claimDue(db, request))
      if (answer !== undefined) place = answer
      for (const claim of answer?.claimed ?? []) {
        seen.push(claim)
        flights.set(claimName(claim), claim)
        const flight = fly(claim).finally(() => {
          flights.delete(claimName(claim))
          flying.delete(flight)
        })
        flying.add(flight)
      }
      await setTimeout(flights.size > 250 ? 20 : 2)
    }
    await Promise.all(flying)
  }
  const keepLeases = async (): Promise<void> => {
    while (goesOn()) {
      await setTimeout(leaseMs / 3)
      const held = [...flights.values()]
      const ours = await noted('heartbeat', extendLeases(db, held, leaseMs))
      const left = held.filter((claim) => ours?.has(claimName(claim)) === false)
      if (left.length > 0) await noted('heartbeat', extendLocked(db, left, leaseMs))
    }
  }
  const reapAll = async (): Promise<void> => {
    while (goesOn()) {
      await noted('reap', reap(db, triesMax))
      await setTimeout(50)
    }
  }
  const hear = async (): Promise<void> => {
    while (goesOn()) {
      await setTimeout(1)
      const lately = Array.from({ length: 10 }, () => seen.at(-1 - randomInt(500))).filter(
        (claim) => claim !== undefined,
      )
      await Promise.all(
        lately.map(({ id, workspaceId }) => {
          const type = anyOf(['delivered', 'soft_bounce', 'hard_bounce', 'complaint'] as const)
          const fingerprint = randomUUID().replaceAll('-', '').repeat(2)
          const rank = rankOf({ type, final: true })
          return noted(
            'report',
            report({ id, workspaceId, fingerprint, type, rank, detail: 'x', facts: {}, source: 'dsn' }),
          )
        }),
      )
    }
  }
  await Promise.all([deliver(), keepLeases(), reapAll(), hear(), hear()])
}

test('no statement fails, and each message has one story', async () => {
  const seen: Claimed[] = []
  await Promise.all([node(seen), node(seen)])
  expect(failures).toEqual([])
  const wrong = await world.db.run(
    `select m.id, m.status, m.sequence, story.many, story.latest, o.status queued
       from messages m
      cross join lateral (
        select count(*)::integer many, max(e.sequence) latest from events e where e.workspace_id = m.workspace_id and e.message_id = m.id) story
       left join outbound o on o.message_id = m.id
      where m.workspace_id = any ($1)
        and (m.sequence <> story.many or m.sequence <> story.latest or (m.finished_at is null) <> (o.message_id is not null) or o.status <> m.status)`,
    [senders.map(({ workspaceId }) => workspaceId)],
  )
  expect(wrong).toEqual([])
}, 120_000)
