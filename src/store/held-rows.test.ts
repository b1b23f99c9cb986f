// Somebody holds a row locked for long (an operator's psql, left open within a transaction): whatever cannot be done without that row waits, and nothing
// else does.
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { claimDue } from './claim.ts'
import { expireSome } from './expire.ts'
import { openDatabase, sqlState } from './database.ts'
import { replayEndings } from './fence.ts'
import { makeRecorder, reap, type Armable, type Ending } from './outbound.ts'
import { makeReportRecorder } from './reports.ts'
import { sentEnding, storeWorld, wholeClaim, type ClaimedAs, type Sender } from './store.test-kit.ts'

let sender: Sender
const world = await storeWorld()
const db = openDatabase(world.connection, {
  name: 'test',
  connectionsMax: 2,
  answerMs: 30_000,
  lockMs: limits.lockMs,
})
const recorder = makeRecorder(db, db, await world.node())
beforeEach(async () => {
  await world.db.run('delete from outbound')
  sender = await world.sender()
})
afterAll(() => db.close())

const claimed = (as: ClaimedAs, many = 3): Promise<Armable[]> =>
  world.claimed(
    sender,
    Array.from({ length: many }, () => as),
  )

/** Somebody has the row of this message in that table. */
async function whileHeld<T>(table: 'messages' | 'outbound', { id }: Armable, work: () => Promise<T>): Promise<T> {
  const holder = await world.holding(
    `select from ${table} where ${table === 'messages' ? 'id' : 'message_id'} = $1 for update`,
    [id],
  )
  try {
    return await work()
  } finally {
    await holder.query('rollback')
  }
}

const sent = (claim: Armable): Ending => sentEnding(sender, claim)

/** What became of each: its answer, or the code of the server's refusal. */
const answers = (asked: readonly Promise<unknown>[]): Promise<unknown[]> =>
  Promise.all(asked.map((one) => one.catch((error: unknown) => sqlState(error))))
const status = ({ id }: Armable) => world.value<string>('select status from messages where id = $1', [id])

test.each(['messages', 'outbound'] as const)(
  'the ends of others do not wait for a row of %s that somebody holds, and its own is heard when it is free',
  async (table) => {
    const claims = await claimed({ armed: true })
    const [held, ...others] = claims as [Armable, Armable, Armable]
    await whileHeld(table, held, async () => {
      // Whoever is held up is told again and again that nobody knows yet, and asks again.
      expect(await answers(claims.map((claim) => recorder.finish(sent(claim))))).toEqual(['55P03', true, true])
      expect(await status(held)).toBe('sending')
      const [late] = (await claimed({ armed: true }, 1)) as [Armable]
      const began = performance.now()
      // They have waited once, and look first now.
      expect(await answers([held, late].map((claim) => recorder.finish(sent(claim))))).toEqual(['55P03', true])
      expect(performance.now() - began).toBeLessThan(limits.lockMs)
    })
    expect(await recorder.finish(sent(held))).toBe(true)
    expect(await Promise.all([held, ...others].map(status))).toEqual(['sent', 'sent', 'sent'])
  },
)

// What a hard bounce writes besides is in no row of the queue: a suppression, which needs its workspace.
const besideABounce = [
  ['the workspace', 'select from workspaces where id = $1 for update'],
  [
    'the same suppression, not committed yet,',
    `insert into suppressions (workspace_id, recipient_key, recipient, reason, created_at) values ($1, 'ann@example.org', 'ann@example.org', 'manual', app_now())`,
  ],
] as const
const bounced = (claim: Armable): Ending => ({
  ...sent(claim),
  status: 'failed',
  outcome: 'failed',
  attempt: { phase: 'eod', smtp: { host: 'mx.example.org', stage: 'eod', code: 550 } },
  report: {
    type: 'hard_bounce',
    rank: 4,
    detail: '550 nobody',
    bounce: { rule: 'x', class: 'x' },
    suppress: true,
    facts: {},
  },
})
const whySuppressed = () => world.value('select reason from suppressions where workspace_id = $1', [sender.workspaceId])

// All ends of a node waited for it.
test.each(besideABounce)(
  'nor for a hard bounce while somebody holds %s: it alone is asked for again',
  async (_, hold) => {
    const [first, ...others] = (await claimed({ armed: true }, 5)) as [Armable, ...Armable[]]
    const bounce = bounced(first)
    const holder = await world.holding(hold, [sender.workspaceId])
    const asked = [bounce, ...others.map(sent)].map((ending) => recorder.finish(ending))
    expect(await answers(asked)).toEqual(['55P03', true, true, true, true])
    await holder.query('rollback')
    expect(await recorder.finish(bounce)).toBe(true)
    expect(await whySuppressed()).toBe('hard_bounce')
  },
)

test('nor do their arms: the one that is held up is renounced, and the others go on', async () => {
  const claims = await claimed({})
  const [held] = claims as [Armable, Armable, Armable]
  await whileHeld('outbound', held, async () => {
    expect(await answers(claims.map((claim) => recorder.arm(claim)))).toEqual(['55P03', 'armed', 'armed'])
  })
  expect(await world.value('select armed_epoch from outbound where message_id = $1', [held.id])).toBeNull()
})

test('a table that somebody has for a moment is waited for: no row of it is to blame', async () => {
  const claims = await claimed({ armed: true })
  const holder = await world.holding('lock table outbound in access exclusive mode')
  const asked = answers(claims.map((claim) => recorder.finish(sent(claim))))
  await world.untilSomebodyWaits()
  await new Promise((resolve) => setTimeout(resolve, 2 * limits.lockMs))
  await holder.query('rollback')
  expect(await asked).toEqual([true, true, true])
})

test.each(['messages', 'outbound'] as const)(
  'a reaper passes by whose row of %s somebody holds, and comes back',
  async (table) => {
    const claims = await claimed({ armed: true, leaseSeconds: -1 })
    const [held, ...others] = claims as [Armable, Armable, Armable]
    await whileHeld(table, held, async () => {
      expect((await reap(world.db, 10)).map(({ id }) => id)).toEqual(others.map(({ id }) => id))
      expect(await reap(world.db, 10)).toEqual([])
      expect(await status(held)).toBe('sending')
    })
    expect(await reap(world.db, 10)).toEqual([{ id: held.id, becomes: 'delivery_unknown' }])
    expect(await Promise.all(claims.map(({ id }) => world.history(id)))).toEqual(
      claims.map(() => [
        '1 message.queued queued 0',
        '2 message.sending sending 0',
        '3 message.delivery_unknown delivery_unknown 0',
      ]),
    )
  },
)

test('a reaper ends so many at once, whoever holds the oldest', async () => {
  const claims = await claimed({ leaseSeconds: -1 }, 4)
  await whileHeld('messages', claims[0] as Armable, async () => {
    const { rows } = await (await world.session()).query<{ id: string }>('select id from reap_3(10, 2, true)')
    expect(rows.map(({ id }) => id)).toEqual(claims.slice(1, 3).map(({ id }) => id))
  })
})

// It took hundreds of messages in its hands, waited for one, and the next claim met it again: nothing was delivered.
test('a claim passes by a message whose record somebody holds, of deep workspaces and of others, and takes it when it is free', async () => {
  const messages = await claimed({}, 6)
  await world.db.run(
    `update outbound set status = 'retrying', lease_until = null, lease_owner = null, due_at = app_now() - interval '1 minute'`,
  )
  await world.db.run(`update messages set status = 'retrying' where workspace_id = $1`, [sender.workspaceId])
  const claim = async (most: number) => (await claimDue(db, { ...wholeClaim, most })).claimed.map(({ id }) => id).sort()
  const ids = messages.map(({ id }) => id)
  await whileHeld('messages', messages[0] as Armable, async () => {
    expect(await claim(2)).toEqual(ids.slice(1, 3))
    const began = performance.now()
    expect(await claim(1_000)).toEqual(ids.slice(3))
    expect(performance.now() - began).toBeLessThan(limits.lockMs)
    expect(await claim(1_000)).toEqual([])
  })
  expect(await claim(1_000)).toEqual(ids.slice(0, 1))
  expect(await Promise.all(messages.map(status))).toEqual(messages.map(() => 'sending'))
})

test.each(['messages', 'outbound'] as const)(
  'what expires is ended past a row of %s that somebody holds, and that one when it is free',
  async (table) => {
    const messages = await claimed({ expired: true })
    await world.db.run(`update outbound set status = 'retrying', lease_until = null, lease_owner = null`)
    await world.db.run(`update messages set status = 'retrying' where workspace_id = $1`, [sender.workspaceId])
    const [held, ...others] = messages as [Armable, Armable, Armable]
    await whileHeld(table, held, async () => {
      expect((await expireSome(db, 0)).expired.toSorted()).toEqual(others.map(({ id }) => id))
    })
    expect((await expireSome(db, 0)).expired).toEqual([held.id])
  },
)

const reported = ({ id }: Armable) => ({
  id,
  workspaceId: sender.workspaceId,
  fingerprint: 'ab'.repeat(32),
  type: 'hard_bounce' as const,
  rank: 4,
  detail: 'said so',
  facts: {},
  source: 'dsn',
})

// All that came by mail and by feeds waited behind one record, each batch until it was ended, and then in halves.
test('reports about others do not wait for a record that somebody holds; who brought that one is told to come again, and it is recorded once', async () => {
  const claims = await claimed({ armed: true })
  const [held, ...others] = claims as [Armable, Armable, Armable]
  const record = makeReportRecorder(db)
  await whileHeld('messages', held, async () => {
    const own = answers([record(reported(held))])
    const began = performance.now()
    expect(await answers(others.map((claim) => record(reported(claim))))).toEqual(['recorded', 'recorded'])
    expect(performance.now() - began).toBeLessThan(limits.lockMs)
    expect(await own).toEqual(['55P03'])
  })
  expect(await record(reported(held))).toBe('recorded')
  expect(await record(reported(held))).toBe('repeated')
  expect((await world.history(held.id)).slice(2)).toEqual(['3 message.hard_bounced sending 4'])
})

describe('replies out of a journal', () => {
  test.each(['messages', 'outbound'] as const)(
    'are written down past a row of %s that somebody holds; its own is to be told again',
    async (table) => {
      const claims = await claimed({ armed: true })
      const [held, ...others] = claims as [Armable, Armable, Armable]
      const endings = claims.map(sent)
      await whileHeld(table, held, async () => {
        expect(await replayEndings(world.db.rows, endings)).toEqual(['held', 'known', 'known'])
        expect(await Promise.all(claims.map(status))).toEqual(['sending', 'sent', 'sent'])
      })
      expect(await replayEndings(world.db.rows, endings.slice(0, 1))).toEqual(['known'])
      expect(await Promise.all(others.concat(held).map(status))).toEqual(['sent', 'sent', 'sent'])
    },
  )

  // They waited until nobody waited for the answer any more, and were asked again from the beginning: that node did not begin to deliver.
  test.each(besideABounce)(
    'are written down past a hard bounce while somebody holds %s, of many of that workspace, too; one that shows a restore is seen all the same',
    async (_, hold) => {
      const claims = await claimed({ armed: true }, 40)
      const [first, forgotten, ...others] = claims as [Armable, Armable, ...Armable[]]
      await world.db.run('update outbound set armed_epoch = null where message_id = $1', [forgotten.id])
      const bounces = [first, ...others.splice(0, 30)].map(bounced)
      const endings = [...bounces, bounced(forgotten), sent(forgotten), ...others.map(sent)]
      const holder = await world.holding(hold, [sender.workspaceId])
      const patient = openDatabase(world.connection, {
        name: 'test',
        connectionsMax: 1,
        answerMs: limits.listening.answerMs,
      })
      const heard = await replayEndings(patient.rows, endings)
      await patient.close()
      expect(heard).toEqual([...bounces.map(() => 'held'), 'orphan', 'orphan', ...others.map(() => 'known')])
      expect(await world.value('select reason from delivery_stops')).toBe('orphaned_reply')
      expect(new Set(await Promise.all(others.map(status)))).toEqual(new Set(['sent']))
      await holder.query('rollback')
      expect(new Set(await replayEndings(world.db.rows, bounces))).toEqual(new Set(['known']))
      expect(await status(first)).toBe('failed')
      expect(await whySuppressed()).toBe('hard_bounce')
      await world.db.run('delete from delivery_stops')
      await world.db.run('delete from orphaned_replies')
    },
  )

  // It saw the row as it was before, and delivery stood still again behind the decision.
  test('wait for the decision about a restore that is being carried out, and need no other', async () => {
    const [claim] = (await claimed({ armed: true }, 1)) as [Armable]
    await world.db.run('update outbound set armed_epoch = null where message_id = $1', [claim.id])
    expect(await replayEndings(world.db.rows, [sent(claim)])).toEqual(['orphan'])
    const operator = await world.holding('select lift_fence_1()')
    const again = replayEndings(world.db.rows, [sent(claim)])
    await world.untilSomebodyWaits()
    await operator.query('commit')
    expect(await again).toEqual(['known'])
    expect(await status(claim)).toBe('sent')
    expect(await world.db.run('select reason from delivery_stops')).toEqual([])
  })

  test('show that the database was restored, whoever holds the row: nobody is to send it again', async () => {
    const [claim] = (await claimed({ armed: true }, 1)) as [Armable]
    await world.db.run('update outbound set armed_epoch = null where message_id = $1', [claim.id])
    await whileHeld('outbound', claim, async () => {
      expect(await replayEndings(world.db.rows, [sent(claim)])).toEqual(['orphan'])
    })
    expect(await world.value('select reason from delivery_stops')).toBe('orphaned_reply')
    await world.db.run('delete from delivery_stops')
  })
})

// A report locks by id, too (a release before this one waits so): in the order of the batch, each waited for the other until one of them was ended.
test('ends lock their records in the order of the ids, whatever the order in which they came', async () => {
  const [first, second] = (await claimed({ armed: true }, 2)) as [Armable, Armable]
  const other = await world.session()
  const lock = ({ id }: Armable) => other.query('select from messages where id = $1 for update nowait', [id])
  await other.query('begin')
  await lock(first)
  const finisher = makeRecorder(world.db, world.db, await world.node())
  const asked = Promise.all([second, first].map((claim) => finisher.finish(sent(claim))))
  await world.untilSomebodyWaits()
  await lock(second)
  await other.query('commit')
  expect(await asked).toEqual([true, true])
})
