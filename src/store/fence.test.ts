// The rules that stop delivery everywhere: a node compares itself with the database, arms raise its counter, journals are told, and only an
// operator lifts the fence. Each test has a database of its own, because a stop is for all.
import { beforeEach, describe, expect, test } from 'vitest'
import type { Client } from 'pg'
import {
  assumeSentSince,
  checkInNode,
  liftFence,
  readStops,
  replayEndings,
  setDrain,
  vouchFor,
  type NodeMark,
} from './fence.ts'
import { isRefusal } from '../domain/refusal.ts'
import { catchUp } from '../webhooks/webhooks.ts'
import { claimDue } from './claim.ts'
import { hastenPutOff, makeRecorder, reap, type Armable, type Ending, type Mark } from './outbound.ts'
import { findRelayed } from './reports.ts'
import { makeAdmitter } from './admit.ts'
import type { Ask, Db } from './database.ts'
import { storeWorld, wholeClaim, type Sender, type StoreWorld } from './store.test-kit.ts'

let world: StoreWorld
let sender: Sender
beforeEach(async () => {
  world = await storeWorld()
  sender = await world.sender()
})

const check = (node: string, mark?: NodeMark) => checkInNode(world.db.rows, node, 'node.test', mark)
const reasons = async () => (await readStops(world.db.rows)).map(({ kind, reason }) => `${kind} ${reason}`)
const uuid = () => world.nextId() as string
const statusOf = (id: string) => world.value<string>('select status from messages where id = $1', [id])

async function queued(n = 1): Promise<string[]> {
  const admitter = makeAdmitter(world.db)
  const rows = Array.from({ length: n }, () => world.submission(sender))
  await Promise.all(rows.map((row) => admitter.admit(row)))
  return rows.map(({ fields }) => fields['id'] as string)
}
const claimAll = async (): Promise<readonly (Armable & { readonly workspaceId: string })[]> =>
  (await claimDue(world.db, { ...wholeClaim, owner: uuid() })).claimed
const endingOf = (claim: Armable, changes: Partial<Ending> = {}): Ending => ({
  ...claim,
  workspaceId: sender.workspaceId,
  status: 'sent',
  usesTry: true,
  outcome: 'accepted',
  attempt: { phase: 'eod', smtp: { code: 250 } },
  event: {},
  ...changes,
})
const temporary = {
  status: 'retrying',
  delayMs: 1_000,
  evidence: 'eod_4xx',
  outcome: 'retry',
  attempt: { phase: 'eod', smtp: { code: 450 } },
} as const
const refused = { status: 'failed', outcome: 'failed', attempt: { phase: 'eod', smtp: { code: 550 } } } as const
/** A node that has delivered from this database. */
async function delivering(): Promise<Mark> {
  const mark = await world.node()
  const { claimed } = { claimed: await world.claimed(sender, [{}]) }
  const recorder = makeRecorder(world.db, world.db, mark)
  expect(await recorder.arm(claimed[0] as Armable)).toBe('armed')
  expect(await recorder.finish(endingOf(claimed[0] as Armable))).toBe(true)
  return mark
}

describe('a node that checks in', () => {
  test('over an empty database vouches for itself, whatever its file says', async () => {
    expect(await check(uuid())).toMatchObject({ counter: 0, era: 0, trouble: null, serverKnown: true })
    expect(await check(uuid(), { counter: 90, era: 7 })).toMatchObject({ counter: 90, trouble: null })
    expect(await reasons()).toEqual([])
  })

  test('over mail that nobody ever delivered from here', async () => {
    await queued()
    expect((await check(uuid())).trouble).toBeNull()
  })

  test('with its row level or ahead is the one that we knew', async () => {
    const mark = await delivering()
    expect(await check(mark.node, { counter: mark.counter, era: 0 })).toMatchObject({ counter: 1, trouble: null })
    // It was killed between the arm and its file.
    expect(await check(mark.node, { counter: 0, era: 0 })).toMatchObject({ counter: 1, trouble: null })
  })

  test.each([
    ['its row is behind its file', 0, async (mark: Mark) => check(mark.node, { counter: mark.counter + 1, era: 0 })],
    ['its row is gone', 0, async (_: Mark, stranger: string) => check(stranger, { counter: 1, era: 0 })],
    ['an operator’s decision is gone', 5, async (mark: Mark) => check(mark.node, { counter: mark.counter, era: 5 })],
  ])('%s: everybody stops, and its file forgets nothing', async (_, era, checking) => {
    const [mark, stranger] = [await delivering(), uuid()]
    // Its own word makes nothing of it right, however often it is said.
    for (let times = 0; times < 2; times++) {
      expect(await checking(mark, stranger)).toMatchObject({ trouble: 'behind', era })
      expect(await reasons()).toEqual(['fence behind'])
    }
  })

  test('without a file, over undelivered mail: everybody stops, unless a node that delivers from here vouches', async () => {
    await delivering()
    await queued()
    const vouching = await world.session()
    const ask: Ask = async ({ text }, values = []) => (await vouching.query(text, values as unknown[])).rows as never
    await vouchFor(ask)
    expect((await check(uuid())).trouble).toBeNull()
    await vouching.end()
    await eventuallyNoLock()
    expect((await check(uuid())).trouble).toBe('no_mark')
    expect(await reasons()).toEqual(['fence no_mark'])
  })

  test('without a file, over mail that was queued before the operator decided: nobody waits for a second decision, until somebody delivers again', async () => {
    const mark = await delivering()
    await queued()
    await world.db.run(`select stop_delivery_1('fence', 'restored', null)`)
    await liftFence(world.db)
    expect((await check(uuid())).trouble).toBeNull()
    expect(await reasons()).toEqual([])
    expect((await check(mark.node, { counter: mark.counter, era: 0 })).trouble).toBeNull()
    expect((await check(uuid())).trouble).toBe('no_mark')
  })

  test('a node that delivers from another database of the same server, such as a copy, vouches for nothing here', async () => {
    await delivering()
    await queued()
    const elsewhere = await storeWorld()
    const vouching = await elsewhere.session()
    await vouchFor(async ({ text }, values = []) => (await vouching.query(text, values as unknown[])).rows as never)
    expect((await check(uuid())).trouble).toBe('no_mark')
  })

  test('without a file, where nothing is undelivered', async () => {
    await delivering()
    expect((await check(uuid())).trouble).toBeNull()
  })

  test('on another cluster than before: everybody stops', async () => {
    const mark = await delivering()
    await check(mark.node, { counter: mark.counter, era: 0 })
    await world.db.run(`update installation set value = '1' where name = 'system_identifier'`)
    expect((await check(mark.node, { counter: mark.counter, era: 0 })).trouble).toBe('another_server')
    expect(await reasons()).toEqual(['fence another_server'])
    await liftFence(world.db)
    expect((await check(mark.node, { counter: mark.counter, era: 0 })).trouble).toBeNull()
  })

  test('after a failover: all pause until each node that has armed confirms its own mark, but for those long gone', async () => {
    const [one, other, gone] = [await delivering(), await delivering(), await delivering()]
    const confirm = (mark: Mark) => check(mark.node, { counter: mark.counter, era: 0 })
    for (const mark of [one, other]) await confirm(mark)
    const idle = uuid()
    await check(idle) // it had never armed, and is gone: nothing of its own can be lost
    await world.db.run(`update delivering_nodes set confirmed_at = app_now() - interval '2 hours' where id = $1`, [
      idle,
    ])
    await world.db.run(`update delivering_nodes set confirmed_at = app_now() - interval '31 days' where id = $1`, [
      gone.node,
    ])
    await world.db.run(`update installation set value = '00000000' where name = 'timeline'`)
    await world.db.run(`update delivering_nodes set timeline = '00000000'`)
    await confirm(one)
    expect(await reasons()).toEqual(['pause timeline'])
    await confirm(one)
    expect(await reasons()).toEqual(['pause timeline'])
    await world.db.run(`select stop_delivery_1('drain', 'operator', null), stop_delivery_1('fence', 'operator', null)`)
    await confirm(other)
    // What an operator has stopped, an operator starts.
    expect(await reasons()).toEqual(['drain operator', 'fence operator'])
  })

  test('after a failover: also until a new node does, for what is lost may be the first that it armed', async () => {
    const [one, fresh] = [await delivering(), uuid()]
    await check(one.node, { counter: one.counter, era: 0 })
    await check(fresh)
    await world.db.run(`update installation set value = '00000000' where name = 'timeline'`)
    await world.db.run(`update delivering_nodes set timeline = '00000000'`)
    await check(one.node, { counter: one.counter, era: 0 })
    expect(await reasons()).toEqual(['pause timeline'])
    // It has armed one, of which this database knows nothing.
    expect((await check(fresh, { counter: 1, era: 0 })).trouble).toBe('behind')
    expect(await reasons()).toEqual(['fence behind', 'pause timeline'])
  })

  test('after a failover, with one that never comes back: who has decided to go on is asked no second time', async () => {
    const [one, lost] = [await delivering(), await delivering()]
    const confirm = (mark: Mark) => check(mark.node, { counter: mark.counter, era: 0 })
    for (const mark of [one, lost]) await confirm(mark)
    await world.db.run(`update installation set value = '00000000' where name = 'timeline'`)
    await world.db.run(`update delivering_nodes set timeline = '00000000'`)
    await confirm(one)
    expect(await reasons()).toEqual(['pause timeline'])
    await liftFence(world.db)
    await confirm(one)
    expect(await reasons()).toEqual([])
  })

  test('where the role may not ask which server it is, its counter is compared all the same', async () => {
    const mark = await delivering()
    await world.db.run(
      `create or replace function delivery_server(out system_identifier text, out timeline text) language sql stable as 'select null, null'`,
    )
    expect(await check(mark.node, { counter: mark.counter, era: 0 })).toMatchObject({
      trouble: null,
      serverKnown: false,
    })
    expect((await check(mark.node, { counter: 9, era: 0 })).trouble).toBe('behind')
  })
})

test('an ordinary user of the database may ask which server it is', async () => {
  const role = `plain_${uuid().slice(-12)}`
  await world.db.run(`create role ${role} login`)
  const session: Client = await world.session()
  await session.query(`set role ${role}`)
  const { rows } = await session.query<{ system_identifier: string; timeline: string }>(
    'select * from delivery_server()',
  )
  expect(rows[0]).toMatchObject({ system_identifier: expect.stringMatching(/^\d+$/), timeline: '00000001' })
  await session.query('reset role')
  await session.query(`drop role ${role}`)
})

describe('an arm', () => {
  test('raises the counter of its node once a statement, and is answered with it after it is kept', async () => {
    const mark = await world.node()
    const claims = await world.claimed(sender, [{}, {}, {}])
    const kept: number[] = []
    const recorder = makeRecorder(world.db, world.db, {
      node: mark.node,
      counter: 0,
      keep: async (counter) => void kept.push(counter),
    })
    expect(await Promise.all(claims.map((claim) => recorder.arm(claim)))).toEqual(['armed', 'armed', 'armed'])
    expect(kept).toEqual([1, 1, 1])
  })

  test('whose mark cannot be kept is no arm, for nobody of its statement, and nobody is told that it was lost', async () => {
    const mark = await world.node()
    const claims = await world.claimed(sender, [{}, {}, {}])
    const failure = Object.assign(new Error('read-only file system'), { code: 'EROFS', syscall: 'write' })
    const recorder = makeRecorder(world.db, world.db, {
      node: mark.node,
      counter: 0,
      keep: () => Promise.reject(failure),
    })
    const answers = await Promise.allSettled(claims.map((claim) => recorder.arm(claim)))
    expect(answers).toEqual(claims.map(() => ({ status: 'rejected', reason: failure })))
  })

  test('of a node whose row is behind stops everybody, and arms nothing', async () => {
    const mark = await delivering()
    await world.db.run('update delivering_nodes set counter = 0')
    const [claim] = await world.claimed(sender, [{}])
    expect(await makeRecorder(world.db, world.db, mark).arm(claim as Armable)).toBe('halted')
    expect(await world.value('select armed_epoch from outbound where message_id = $1', [claim?.id])).toBeNull()
    expect(await reasons()).toEqual(['fence behind'])
  })

  test.each([['drain'], ['fence'], ['pause']])('is halted by a %s, and so is every claim', async (kind) => {
    const mark = await delivering()
    const [claim] = await world.claimed(sender, [{}])
    await queued()
    await world.db.run('select stop_delivery_1($1, $2, null)', [kind, 'test'])
    expect(await makeRecorder(world.db, world.db, mark).arm(claim as Armable)).toBe('halted')
    // The node is not behind for it: that would stop everybody until an operator has decided.
    expect(await reasons()).toEqual([`${kind} test`])
    expect(await claimAll()).toEqual([])
    await world.db.run('delete from delivery_stops')
    expect(await claimAll()).toHaveLength(1)
  })
})

test('41: two nodes ask to arm the same claims at once: each claim is armed by one of them, once', async () => {
  const claims = await world.claimed(
    sender,
    Array.from({ length: 40 }, () => ({})),
  )
  const recorder = makeRecorder(world.db, world.db, await world.node())
  const other = makeRecorder(world.anotherNode(), world.db, await world.node())
  const [ours, theirs] = await Promise.all(
    [recorder, other].map((node) => Promise.all(claims.map((claim) => node.arm(claim)))),
  )
  for (const at of claims.keys()) expect(new Set([ours?.[at], theirs?.[at]])).toEqual(new Set(['armed', 'lost']))
  // Either of them writes down what the other one armed.
  expect(await Promise.all(claims.map((claim) => recorder.finish(endingOf(claim))))).toEqual(claims.map(() => true))
})

test('behind the fence, and in the pause after a failover, nobody reaps, for the rows prove nothing; a drain does not keep the dead from being reaped', async () => {
  const [dead] = await world.claimed(sender, [{ leaseSeconds: -1 }])
  for (const kind of ['fence', 'pause']) {
    await world.db.run('select stop_delivery_1($1, $2, null)', [kind, 'test'])
    expect(await reap(world.db, 10)).toEqual([])
    await setDrain(world.db, true)
    await liftFence(world.db)
    expect(await reasons()).toEqual(['drain operator']) // which is another wish of theirs
  }
  expect(await reap(world.db, 10)).toEqual([{ id: dead?.id, becomes: 'retrying' }])
  await setDrain(world.db, false)
  expect(await reasons()).toEqual([])
})

describe.each(['fence', 'pause'])(
  'behind a %s that nobody has decided about, what a worker tells of a claim of before',
  (kind) => {
    const beforeDot = {
      status: 'failed',
      error: 'no such user',
      outcome: 'failed',
      attempt: { phase: 'rcpt', smtp: { stage: 'rcpt', code: 550 } },
      event: { attempt: 1, reason: 'rcpt_5xx' },
      report: {
        type: 'hard_bounce',
        rank: 3,
        detail: '550',
        bounce: { class: 'recipient', rule: 'x', permanent: true, final: true, source: 'smtp' },
        suppress: true,
        facts: {},
      },
    } as const
    const stop = () => world.db.run('select stop_delivery_1($1, $2, null)', [kind, 'test'])

    test('is no failure before its dot: a claim that is lost may have delivered it, and its 250 is believed', async () => {
      const recorder = makeRecorder(world.db, world.db, await world.node())
      const [claim] = (await world.claimed(sender, [{}])) as [Armable]
      await stop()
      expect(await recorder.finish(endingOf(claim, beforeDot))).toBe('handed_back')
      expect(await statusOf(claim.id)).toBe('retrying')
      expect(await world.value('select attempts from outbound where message_id = $1', [claim.id])).toBe(0)
      const told = `select type, facts from events where message_id = $1 order by sequence desc limit 1`
      expect(await world.db.run(told, [claim.id])).toMatchObject([
        { type: 'message.retrying', facts: { reason: 'shutdown', nextAttemptAt: expect.any(String) as unknown } },
      ])
      expect(await world.value('select count(*)::integer from suppressions')).toBe(0)
      expect(await world.value('select count(*)::integer from reports')).toBe(0)

      const lost = endingOf({ ...claim, epoch: claim.epoch + 1, token: '77' })
      expect(await replayEndings(world.db.rows, [lost])).toEqual(['orphan'])
      expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(1)
      await liftFence(world.db)
      expect(await statusOf(claim.id)).toBe('sent')
    })

    test('is a failure where a receiver has refused its dot, and another try may be told of', async () => {
      const recorder = makeRecorder(world.db, world.db, await world.node())
      const [dotted, tried, armed] = (await world.claimed(sender, [{}, {}, { armed: true }])) as [
        Armable,
        Armable,
        Armable,
      ]
      await stop()
      expect(await recorder.finish(endingOf(dotted, refused))).toBe(true)
      expect(
        await recorder.finish(
          endingOf(tried, { status: 'retrying', delayMs: 1_000, outcome: 'retry', attempt: temporary.attempt }),
        ),
      ).toBe(true)
      expect(await recorder.finish(endingOf(armed, { ...beforeDot, evidence: 'not_written' }))).toBe('handed_back')
      expect(await Promise.all([dotted, tried, armed].map(({ id }) => statusOf(id)))).toEqual([
        'failed',
        'retrying',
        'retrying',
      ])
      // When nothing was lost it is tried again, and fails as ever.
      await world.db.run('delete from delivery_stops')
      const again = (await claimAll()).find(({ id }) => id === armed.id) as Armable
      expect(await recorder.finish(endingOf(again, beforeDot))).toBe(true)
      expect(await statusOf(armed.id)).toBe('failed')
    })
  },
)

describe('replies out of a journal', () => {
  test('of an armed claim are written down; of one that is decided, told again, do nothing', async () => {
    const [accepted, refused] = await world.claimed(sender, [{ armed: true }, { armed: true }])
    const endings = [endingOf(accepted as Armable), endingOf(refused as Armable, temporary)]
    expect(await replayEndings(world.db.rows, endings)).toEqual(['known', 'known'])
    expect(await Promise.all(endings.map(({ id }) => statusOf(id)))).toEqual(['sent', 'retrying'])
    expect(await replayEndings(world.db.rows, endings)).toEqual(['known', 'known'])
    expect(await world.history(endings[0]?.id as never)).toHaveLength(3)
    expect(await reasons()).toEqual([])
  })

  test('are late proof where the reaper was first', async () => {
    const [claim] = await world.claimed(sender, [{ armed: true, leaseSeconds: -1 }])
    await reap(world.db, 10)
    expect(await statusOf(claim?.id as string)).toBe('delivery_unknown')
    expect(await replayEndings(world.db.rows, [endingOf(claim as Armable)])).toEqual(['known'])
    expect(await statusOf(claim?.id as string)).toBe('sent')
  })

  test('of an earlier claim tell nothing of one that was armed behind it, which may have been taken', async () => {
    const [claim] = (await world.claimed(sender, [{ armed: true, leaseSeconds: -1, epoch: 4 }])) as [Armable]
    await reap(world.db, 10)
    expect(await replayEndings(world.db.rows, [endingOf({ ...claim, epoch: 3, token: '5' }, refused)])).toEqual([
      'known',
    ])
    expect(await statusOf(claim.id)).toBe('delivery_unknown')
    expect(await replayEndings(world.db.rows, [endingOf(claim)])).toEqual(['known'])
    expect(await statusOf(claim.id)).toBe('sent')
  })

  test('of a message that is not there are told as gone', async () => {
    const claim = { id: world.nextId(), epoch: 1, token: '1', recipientKey: 'ann@example.org' }
    const relayed = { relay: 'installation', providerMessageId: 'Q1' } as const
    expect(await replayEndings(world.db.rows, [endingOf(claim, relayed)])).toEqual(['gone'])
    expect(await world.value('select count(*)::integer from relayed')).toBe(0)
  })

  // A relay's feed often names a message by nothing but that id: without it, bounces and complaints were about nobody's mail.
  test('tell what the relay calls the message, too, whatever the row says of it', async () => {
    const [armed, reaped, forgotten] = (await world.claimed(sender, [
      { armed: true },
      { armed: true, leaseSeconds: -1 },
      { armed: true },
    ])) as [Armable, Armable, Armable]
    await reap(world.db, 10)
    await world.db.run('update outbound set armed_epoch = null where message_id = $1', [forgotten.id])
    const endings = [
      endingOf(armed, { relay: 'installation', providerMessageId: 'Q1' }),
      endingOf(reaped, { relay: sender.workspaceId, providerMessageId: 'Q2' }),
      endingOf(forgotten, { relay: 'installation', providerMessageId: 'Q3' }),
    ]
    expect(await replayEndings(world.db.rows, endings)).toEqual(['known', 'known', 'orphan'])
    const found = [
      await findRelayed(world.db, 'installation', 'Q1'),
      await findRelayed(world.db, sender.workspaceId, 'Q2'),
      await findRelayed(world.db, 'installation', 'Q3'),
    ]
    expect(found.map((message) => message?.id)).toEqual([armed.id, reaped.id, forgotten.id])
    expect(await replayEndings(world.db.rows, endings.slice(0, 2))).toEqual(['known', 'known'])
  })

  /** What a backup brought back: accepted by the receiver, and unsent in the database. */
  const breaches: [string, (id: string) => Promise<unknown>][] = [
    [
      'queued',
      (id) =>
        world.db.run(
          `update outbound set status = 'queued', epoch = 0, token = null, lease_until = null, lease_owner = null, armed_epoch = null, evidence = 'not_written' where message_id = $1`,
          [id],
        ),
    ],
    [
      'retrying',
      (id) =>
        world.db.run(
          `update outbound set status = 'retrying', lease_until = null, lease_owner = null, armed_epoch = null, evidence = 'not_written' where message_id = $1`,
          [id],
        ),
    ],
    ['never armed', (id) => world.db.run('update outbound set armed_epoch = null where message_id = $1', [id])],
    [
      'claimed anew',
      (id) => world.db.run('update outbound set token = 5, armed_epoch = null where message_id = $1', [id]),
    ],
    // Under the same epoch, which the restored database has counted up again.
    ['armed anew', (id) => world.db.run('update outbound set token = 5 where message_id = $1', [id])],
  ]
  test.each(breaches)(
    'accepted, yet %s: never dropped; everybody stops, and the operator’s decision writes it down',
    async (_, restore) => {
      const [claim, other] = await world.claimed(sender, [{ armed: true }, { armed: true }])
      await restore(claim?.id as string)
      const answers = await replayEndings(world.db.rows, [endingOf(claim as Armable), endingOf(other as Armable)])
      expect(answers).toEqual(['orphan', 'known'])
      expect(await reasons()).toEqual(['fence orphaned_reply'])
      expect(await statusOf(other?.id as string)).toBe('sent')
      expect(await liftFence(world.db)).toBe(1)
      expect([await statusOf(claim?.id as string), await reasons()]).toEqual(['sent', []])
      expect(await world.value('select count(*)::integer from outbound where message_id = $1', [claim?.id])).toBe(0)
      expect(await world.history(claim?.id as never)).toMatchObject(
        [/queued/, /sending/, /delivery_unknown/, /sent/].map((pattern) => expect.stringMatching(pattern) as unknown),
      )
      expect(await world.value('select count(*)::integer from orphaned_replies')).toBe(0)
    },
  )

  test.each([
    ['a 5yz', refused],
    ['a 4yz', temporary],
  ] as const)('%s to a claim that is still to come shows the restore as well', async (_, reply) => {
    const [claim] = await world.claimed(sender, [{ armed: true, epoch: 4 }])
    await world.db.run('update outbound set epoch = 3, armed_epoch = null where message_id = $1', [claim?.id])
    expect(await replayEndings(world.db.rows, [endingOf(claim as Armable, reply)])).toEqual(['orphan'])
    expect(await reasons()).toEqual(['fence orphaned_reply'])
    expect(await liftFence(world.db)).toBe(1)
    expect(await statusOf(claim?.id as string)).toBe('failed')
  })

  test('of two claims of one message: the acceptance is what became of it, whatever was said later', async () => {
    const [claim] = (await world.claimed(sender, [{ armed: true }])) as [Armable]
    await breaches[0]?.[1](claim.id)
    const later = { ...claim, epoch: claim.epoch + 1, token: '5' }
    const told = [endingOf(claim), endingOf(later, temporary)]
    expect(await replayEndings(world.db.rows, told)).toEqual(['orphan', 'orphan'])
    expect(await liftFence(world.db)).toBe(1)
    expect(await statusOf(claim.id)).toBe('sent')
  })

  test.each([
    ['an acceptance', {}, 'sent'],
    ['a refusal for good', refused, 'failed'],
  ] as const)(
    'are the truth also where the operator assumes that everything was sent: %s',
    async (_, reply, became) => {
      const [claim] = (await world.claimed(sender, [{ armed: true }])) as [Armable]
      await breaches[0]?.[1](claim.id)
      expect(await replayEndings(world.db.rows, [endingOf(claim, reply)])).toEqual(['orphan'])
      expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(1)
      expect(await statusOf(claim.id)).toBe('delivery_unknown')
      expect(await liftFence(world.db)).toBe(1)
      expect(await statusOf(claim.id)).toBe(became)
    },
  )

  test.each([
    ['before', 'earlier'],
    ['before', 'later'],
    ['behind', 'earlier'],
    ['behind', 'later'],
  ])(
    'to two claims of what an operator assumes to be sent, told %s that: the acceptance of the %s one is what became of it',
    async (when, which) => {
      const [claim] = (await world.claimed(sender, [{ armed: true }])) as [Armable]
      // A row that was put off still has the token of its last claim, and names no claim that was armed.
      await breaches[when === 'before' ? 0 : 1]?.[1](claim.id)
      const later = { ...claim, epoch: claim.epoch + 1, token: '5' }
      const told = [
        endingOf(which === 'earlier' ? later : claim, refused),
        endingOf(which === 'earlier' ? claim : later),
      ]
      const tell = (answer: string) => async () =>
        expect(await replayEndings(world.db.rows, told)).toEqual([answer, answer])
      const assume = async () => expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(1)
      for (const step of when === 'before' ? [tell('orphan'), assume] : [assume, tell('known')]) await step()
      await liftFence(world.db)
      expect(await statusOf(claim.id)).toBe('sent')
    },
  )

  test.each([
    ['a 4yz', temporary],
    [
      'a refusal before the dot',
      { status: 'failed', evidence: 'not_written', outcome: 'failed', attempt: { phase: 'rcpt', smtp: { code: 550 } } },
    ],
  ] as const)(
    '%s is no end of what an operator assumes to be sent, and hides no reply that is one',
    async (_, noEnd) => {
      const [claim] = (await world.claimed(sender, [{ armed: true }])) as [Armable]
      await breaches[0]?.[1](claim.id)
      expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(1)
      const later = { ...claim, epoch: claim.epoch + 1, token: '5' }
      expect(await replayEndings(world.db.rows, [endingOf(later, noEnd)])).toEqual(['known'])
      expect(await statusOf(claim.id)).toBe('delivery_unknown')
      expect(await replayEndings(world.db.rows, [endingOf(claim)])).toEqual(['known'])
      expect(await statusOf(claim.id)).toBe('sent')
    },
  )

  test('a 4yz that was told before the operator assumed so is no end either', async () => {
    const [claim] = await world.claimed(sender, [{ armed: true, epoch: 4 }])
    await world.db.run('update outbound set epoch = 3, armed_epoch = null where message_id = $1', [claim?.id])
    expect(await replayEndings(world.db.rows, [endingOf(claim as Armable, temporary)])).toEqual(['orphan'])
    const told: number[] = []
    expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000), undefined, (moved) => told.push(moved))).toBe(
      1,
    )
    expect([told[0], told.at(-1)]).toEqual([1, 1])
    expect(await liftFence(world.db)).toBe(0)
    expect(await statusOf(claim?.id as string)).toBe('delivery_unknown')
  })

  test('that are told again by another node meanwhile change nothing', async () => {
    const [claim] = await world.claimed(sender, [{}])
    await Promise.all([1, 2, 3].map(() => replayEndings(world.db.rows, [endingOf(claim as Armable)])))
    expect(await world.value('select count(*)::integer from orphaned_replies')).toBe(1)
  })
})

describe('the operator decides', () => {
  test('to assume that it was sent: what could be sent since becomes delivery_unknown, what came after the stop stays', async () => {
    const [waiting] = await queued()
    const [armed, unarmed] = await world.claimed(sender, [{ armed: true }, {}])
    const [later, old, ended] = await queued(3)
    await world.db.run(`update outbound set due_at = app_now() + interval '1 hour' where message_id = $1`, [later])
    // Since the backup, and before anybody looked: until then it may have been sent.
    await world.db.run(`update outbound set expires_at = app_now() - interval '30 seconds' where message_id = $1`, [
      ended,
    ])
    await world.db.run(`update outbound set expires_at = app_now() - interval '1 hour' where message_id = $1`, [old])
    // Under way, whatever its row says of the next try: the clock of the server that it was claimed on may have been ahead.
    await world.db.run(`update outbound set due_at = app_now() + interval '1 hour' where message_id = $1`, [armed?.id])
    await world.db.run(`select stop_delivery_1('fence', 'behind', null)`)
    const [fresh] = await queued()
    // As a backlog is made due where the clock was set back.
    await world.db.run(`update outbound set due_at = app_now() - interval '1 hour' where message_id = $1`, [fresh])
    const since = new Date(Date.now() - 60_000)
    expect(await assumeSentSince(world.db, since)).toBe(4)
    const statuses = [waiting, armed?.id, unarmed?.id, ended, later, old, fresh].map((id) => statusOf(id as string))
    const unknown = 'delivery_unknown'
    expect(await Promise.all(statuses)).toEqual([unknown, unknown, unknown, unknown, 'queued', 'queued', 'queued'])
    expect(
      await world.value<object>(`select facts from events where message_id = $1 order by sequence desc limit 1`, [
        waiting,
      ]),
    ).toMatchObject({ reason: 'assumed_sent', errorMessage: expect.stringContaining('restored') as unknown })
    // Its worker, somewhere, still holds the reply: that is proof.
    const recorder = makeRecorder(world.db, world.db, await world.node())
    expect(await recorder.finish(endingOf(armed as Armable))).toBe(true)
    expect(await statusOf(armed?.id as string)).toBe('sent')
    // Nobody can hold a reply to a dot that was never armed.
    expect(await recorder.finish(endingOf(unarmed as Armable))).toBe(false)
    expect(await statusOf(unarmed?.id as string)).toBe(unknown)
    expect(await reasons()).toEqual(['fence behind'])
    await world.db.run(`select stop_delivery_1('drain', 'test', null)`)
    await liftFence(world.db)
    // Whoever drains has said so for another reason.
    expect(await reasons()).toEqual(['drain test'])
  })

  test('to assume that it was sent: what found nobody may have gone before its time since, when they were there again; what a server has put off may not', async () => {
    const recorder = makeRecorder(world.db, world.db, await world.node())
    const [unreached, greylisted, handedBack] = (await world.claimed(sender, [{}, {}, {}])) as [
      Armable,
      Armable,
      Armable,
    ]
    const putOff = { status: 'retrying', delayMs: 3_600_000, outcome: 'retry' } as const
    const refusal = { phase: 'rcpt', smtp: { stage: 'rcpt', code: 450 } }
    await recorder.finish(endingOf(unreached, { ...putOff, attempt: { phase: 'connect', trouble: 'connect_failed' } }))
    await recorder.finish(endingOf(greylisted, { ...putOff, attempt: refusal }))
    await recorder.finish(endingOf(handedBack, { ...putOff, usesTry: false, attempt: { phase: 'route' } }))
    const queue = () =>
      world.db.run<{ message_id: string; due_at: Date; attempts: number }>(
        'select message_id, due_at, attempts from outbound order by 1',
      )
    const before = await queue()
    const claims = [unreached, greylisted, handedBack]
    expect(await hastenPutOff(world.db, [unreached])).toEqual(new Set([unreached.id]))
    // Of that, and of what was sent behind it, the database that was put back knows nothing.
    for (const row of before)
      await world.db.run('update outbound set due_at = $2, attempts = $3 where message_id = $1', [
        row.message_id,
        row.due_at,
        row.attempts,
      ])
    await world.db.run(`select stop_delivery_1('fence', 'behind', null)`)
    expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(1)
    expect(await Promise.all(claims.map(({ id }) => statusOf(id)))).toEqual([
      'delivery_unknown',
      'retrying',
      'retrying',
    ])
    expect(await queue()).toEqual(before.filter((row) => row.message_id !== unreached.id))
  })

  test('to assume that it was sent: what was under way at the stop, and was handed back or put off since, another node may have had meanwhile', async () => {
    const recorder = makeRecorder(world.db, world.db, await world.node())
    const [handedBack, putOff] = (await world.claimed(sender, [{}, {}])) as [Armable, Armable]
    await world.db.run(`select stop_delivery_1('fence', 'behind', null)`)
    const retry = { status: 'retrying', outcome: 'retry' } as const
    await recorder.finish(endingOf(handedBack, { ...retry, delayMs: 0, usesTry: false, attempt: { phase: 'route' } }))
    const refusal = { phase: 'rcpt', smtp: { stage: 'rcpt', code: 450 } }
    await recorder.finish(endingOf(putOff, { ...retry, delayMs: 3_600_000, attempt: refusal }))
    expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(2)
    expect(await Promise.all([handedBack, putOff].map(({ id }) => statusOf(id)))).toEqual([
      'delivery_unknown',
      'delivery_unknown',
    ])
  })

  test('to assume that it was sent: what a worker puts off in the pause behind a failover, too, before another one finds what is lost', async () => {
    const recorder = makeRecorder(world.db, world.db, await world.node())
    const [putOff] = (await world.claimed(sender, [{}])) as [Armable]
    await world.db.run(`select stop_delivery_1('pause', 'timeline', null)`)
    const refusal = { phase: 'rcpt', smtp: { stage: 'rcpt', code: 450 } }
    await recorder.finish(
      endingOf(putOff, { status: 'retrying', outcome: 'retry', delayMs: 3_600_000, attempt: refusal }),
    )
    await world.db.run(`select stop_delivery_1('fence', 'behind', null)`)
    expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(1)
    expect(await statusOf(putOff.id)).toBe('delivery_unknown')
  })

  test.each(['pause', 'fence'])(
    'to assume that it was sent: also what came behind a %s that a standby brought along, and that was over on the server before it',
    async (kind) => {
      const mark = await delivering()
      await check(mark.node, { counter: mark.counter, era: 0 })
      await world.db.run(`select stop_delivery_1($1, 'test', null)`, [kind])
      const [accepted] = await queued()
      // All of this came over; the rest of what that server did, and that the mail was sent, did not.
      await world.db.run(`update installation set value = '00000000' where name in ('timeline', 'timeline_seen')`)
      expect(await check(mark.node, { counter: mark.counter + 1, era: 0 })).toMatchObject({ trouble: 'behind' })
      const [later] = await queued()
      expect(await check(mark.node, { counter: mark.counter + 1, era: 0 })).toMatchObject({ trouble: 'behind' })
      expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(1)
      expect(await Promise.all([accepted, later].map((id) => statusOf(id as string)))).toEqual([
        'delivery_unknown',
        'queued',
      ])
    },
  )

  // The last that was accepted before the failover is what was sent, and is lacking.
  test.each(['node', 'operator', 'standby'])(
    'to assume that it was sent: also what was accepted last on a server whose clock was ahead of this one’s (stopped by the %s)',
    async (by) => {
      const mark = await delivering()
      await check(mark.node, { counter: mark.counter, era: 0 })
      const [accepted] = await queued()
      await world.db.run(
        `with ahead as (update messages set created_at = app_now() + interval '20 seconds' where id = $1 returning created_at at)
         update outbound set due_at = ahead.at from ahead where message_id = $1`,
        [accepted],
      )
      if (by === 'standby') await world.db.run(`insert into delivery_stops (kind, reason) values ('fence', 'test')`)
      await world.db.run(`update installation set value = '00000000' where name in ('timeline', 'timeline_seen')`)
      if (by !== 'operator') await check(mark.node, { counter: mark.counter + 1, era: 0 })
      expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(1)
      expect(await statusOf(accepted as string)).toBe('delivery_unknown')
    },
  )

  test('to assume that it was sent: what a worker hands back at any moment before the decision, too', async () => {
    const recorder = makeRecorder(world.db, world.db, await world.node())
    const claims = (await world.claimed(sender, [{}, {}])) as [Armable, Armable]
    await world.db.run(`select stop_delivery_1('fence', 'behind', null)`)
    // Behind all that it looks at before, as close to the decision as it can be.
    const handBack = claims.map((claim) =>
      endingOf(claim, {
        status: 'retrying',
        outcome: 'retry',
        delayMs: 0,
        usesTry: false,
        attempt: { phase: 'route' },
      }),
    )
    const late: Db = {
      ...world.db,
      rows: async (statement, values) => {
        if (statement.name === 'assume-sent') await Promise.all(handBack.splice(0).map((row) => recorder.finish(row)))
        return world.db.rows(statement, values)
      },
    }
    expect(await assumeSentSince(late, new Date(Date.now() - 60_000))).toBe(2)
    const became = await Promise.all(claims.map(({ id }) => statusOf(id)))
    expect(became).toEqual(['delivery_unknown', 'delivery_unknown'])
  })

  test('in bites, however many there are', async () => {
    await queued(1_203)
    await world.db.run(`select stop_delivery_1('fence', 'behind', null)`)
    expect(await assumeSentSince(world.db, new Date(0))).toBe(1_203)
    expect(await world.value('select count(*)::integer from outbound')).toBe(0)
  })

  const pageAfter = async (after?: string) => {
    const page = await catchUp(world.db, sender.workspaceId, after)
    if (isRefusal(page)) throw new Error(page.words)
    return page
  }
  const catchesUp = async (after: string) => (await pageAfter(after)).events.map(({ data }) => data.messageId)
  const placeAt = (tx: number, id: string | undefined) => Buffer.from(`${tx} ${id} 1`).toString('base64url')
  /** Where a reader stands who has read everything. */
  const placeBehindAll = async () => {
    await expect.poll(async () => (await pageAfter()).events.length, { timeout: 30_000 }).toBe(1)
    return (await pageAfter()).next
  }

  test.each(['another_server', 'behind', 'no_mark', 'operator'])(
    'after %s readers of events begin anew: the numbers of transactions went back',
    async (reason) => {
      const [before] = await queued()
      let place = await placeBehindAll()
      if (reason === 'another_server') {
        // As a dump brings it along.
        await world.db.run(`update events set tx = '900000000'`)
        place = placeAt(900_000_000, before)
      }
      await world.db.run(`select stop_delivery_1('fence', $1, null)`, [reason])
      const [after] = await queued()
      expect(await catchesUp(place)).not.toContain(before)
      await liftFence(world.db)
      await expect.poll(() => catchesUp(place), { timeout: 30_000 }).toEqual([before, after])
    },
  )

  test('a reader whose last event the database has lost, or has again under another number, begins anew without any fence', async () => {
    const [before] = await queued()
    const place = await placeBehindAll()
    expect(await catchesUp(place)).toEqual([])
    for (const id of [uuid(), before]) expect(await catchesUp(placeAt(900_000_000, id))).toEqual([before])
    expect(await pageAfter(placeAt(900_000_000, uuid()))).toMatchObject({ next: place })
  })

  test('after `posthorn restore`, which has made them begin anew itself, they go on', async () => {
    await queued()
    const place = await placeBehindAll()
    await world.db.run(`select stop_delivery_1('fence', 'restored', null)`)
    await liftFence(world.db)
    expect(await catchesUp(place)).toEqual([])
  })

  test('and every node’s mark counts from there on, also that of one that was away', async () => {
    const mark = await delivering()
    await queued()
    expect((await check(mark.node, { counter: 50, era: 0 })).trouble).toBe('behind')
    await liftFence(world.db)
    const pardoned = await check(mark.node, { counter: 50, era: 0 })
    expect(pardoned).toMatchObject({ counter: 50, trouble: null })
    expect(pardoned.era).toBeGreaterThan(0)
    expect((await check(uuid(), { counter: 3, era: 0 })).trouble).toBeNull()
    // The next restore is found again.
    await world.db.run('update delivering_nodes set counter = 49')
    expect((await check(mark.node, pardoned)).trouble).toBe('behind')
  })

  test('though the clock was far ahead at an earlier decision: no node is behind at the next one', async () => {
    const mark = await delivering()
    await queued()
    const ahead = Date.now() + 365 * 24 * 3600_000
    await world.db.run(`insert into installation (name, value) values ('era', $1)`, [ahead])
    const known = await check(mark.node, { counter: 50, era: 0 })
    expect(known).toMatchObject({ era: ahead, trouble: null })
    await liftFence(world.db)
    const decided = await check(mark.node, known)
    expect(decided.trouble).toBeNull()
    expect(decided.era).toBeGreaterThan(ahead)
    // A backup is restored from before that decision.
    await world.db.run(`delete from installation where name = 'era'`)
    expect((await check(mark.node, decided)).trouble).toBe('behind')
    await liftFence(world.db)
    expect((await check(mark.node, decided)).trouble).toBeNull()
    expect(await reasons()).toEqual([])
  })

  test('though nodes know of different decisions that are gone: nobody is behind at the next one, in whatever order they came', async () => {
    const [one, other] = [await delivering(), await delivering()]
    await queued()
    const day = 24 * 3600_000
    const marks = [
      [one, { counter: 1, era: Date.now() + 300 * day }],
      [other, { counter: 1, era: Date.now() + 100 * day }],
    ] as const
    for (const [{ node }, mark] of marks) expect((await check(node, mark)).trouble).toBe('behind')
    await liftFence(world.db)
    for (const [{ node }, mark] of marks) expect((await check(node, mark)).trouble).toBeNull()
    expect(await reasons()).toEqual([])
  })
})

test('a node that knows a decision of an earlier database delivers from a new and empty one, also after the first message', async () => {
  const node = uuid()
  const first = await check(node, { counter: 50, era: 1_700_000_000_000 })
  expect(first.trouble).toBeNull()
  await queued()
  expect((await check(node, { counter: 50, era: 1_700_000_000_000 })).trouble).toBeNull()
  expect(await reasons()).toEqual([])
})

async function eventuallyNoLock(): Promise<void> {
  const vouches = `select count(*) > 0 from pg_locks where locktype = 'advisory' and classid = 7364
    and database = (select oid from pg_database where datname = current_database())`
  while (await world.value<boolean>(vouches)) continue
}
