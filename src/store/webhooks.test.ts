// The outbox and the reading of events, on real PostgreSQL: beside every event in its transaction, for those who want it; shared fairly; never
// past an event that commits late.
import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import type { WorkspaceId } from '../domain/message.ts'
import { limits } from '../config.ts'
import { storeWorld, type Sender } from './store.test-kit.ts'
import { watched } from './watched.test-kit.ts'
import { makeAdmitter } from './admit.ts'
import { openDatabase, type Db } from './database.ts'
import { changeEndpoint, disableEndpoint, insertEndpoint, prepareSecret, promoteSecret } from './webhook-endpoints.ts'
import { makeWebhookClaims, type WebhookClaims } from './webhook-claims.ts'
import { extendWebhookLeases, reapWebhooks, type ClaimedWebhook } from './webhooks.ts'
import { replayRange } from './webhook-replay.ts'
import { makeWebhookRecorder } from './webhook-results.ts'
import type { WebhookLogFilter } from '../domain/webhook.ts'
import { readInCommitOrder, readWebhookLog, searchWebhookLog } from './views/webhook-events.ts'
import { leastId } from './message-id.ts'

const world = await storeWorld()
beforeEach(() => world.db.run('delete from webhook_queue'))

async function customer(types: readonly string[] | null = null): Promise<Sender> {
  const sender = await world.sender()
  await insertEndpoint(world.db, sender.workspaceId, {
    url: 'https://example.com/',
    types,
    apiVersion: '2026-11-01',
    secret: Buffer.from('sealed'),
  })
  return sender
}
const admit = async (sender: Sender, many = 1): Promise<string[]> => {
  const admitter = makeAdmitter(world.db)
  const rows = Array.from({ length: many }, () => world.submission(sender))
  await Promise.all(rows.map((row) => admitter.admit(row)))
  return rows.map(({ fields: { id } }) => id as string)
}
const event = (sender: Sender, id: string, sequence: number, type = 'message.sending') => ({
  text: `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
         values ($1, $2, $3, $4, 'sending', 0, app_now())`,
  values: [sender.workspaceId, id, sequence, type],
})
const put = async (sender: Sender, id: string, sequence: number, type?: string) => {
  const { text, values } = event(sender, id, sequence, type)
  await world.db.run(text, values)
}
const queue = (sender: Sender) =>
  world.db.run<{ sequence: number }>(
    'select sequence from webhook_queue where workspace_id = $1 order by message_id, sequence',
    [sender.workspaceId],
  )
const node = () => makeWebhookClaims(world.db, 30_000)
const whole = { cursor: leastId, rooms: {}, share: 32, most: 500 }
const claim = async (by: WebhookClaims = node(), changes: Partial<Parameters<WebhookClaims['claim']>[0]> = {}) =>
  (await by.claim({ ...whole, ...changes })).claimed
const named = (claimed: readonly ClaimedWebhook[]) => claimed.map(({ sequence, attempt }) => `${sequence}.${attempt}`)
const recorder = makeWebhookRecorder(world.db, { failingMs: 1e9, disabled: () => undefined, more: () => more++ })
let more = 0

describe('the outbox', () => {
  test('fills itself in the transaction of the event, and empties itself with it', async () => {
    const shop = await customer()
    const [id = ''] = await admit(shop)
    expect(await queue(shop)).toEqual([{ sequence: 1 }])
    const session = await world.session()
    await session.query('begin')
    await session.query(event(shop, id, 2))
    await session.query('rollback')
    expect(await queue(shop)).toEqual([{ sequence: 1 }])
  })

  test('takes only what an active endpoint wants; every event is written all the same', async () => {
    const [all, some, off, nobody] = [
      await customer(),
      await customer(['message.sent']),
      await customer(),
      await world.sender(),
    ]
    await disableEndpoint(world.db, off.workspaceId)
    for (const sender of [all, some, off, nobody]) {
      const [id = ''] = await admit(sender)
      await put(sender, id, 2, 'message.sent')
      expect(await world.history(id as never)).toHaveLength(2)
    }
    expect(await queue(all)).toEqual([{ sequence: 1 }, { sequence: 2 }])
    expect(await queue(some)).toEqual([{ sequence: 2 }])
    expect([await queue(off), await queue(nobody)]).toEqual([[], []])
  })

  test('costs one probe of an index where nobody has an endpoint', async () => {
    const plan = await world.db.run<{ 'QUERY PLAN': string }>(
      `explain select from webhook_endpoints where state = 'active'`,
    )
    const session = await world.session()
    await session.query('set enable_seqscan = off')
    const { rows } = await session.query<{ 'QUERY PLAN': string }>(
      `explain select from webhook_endpoints where state = 'active' limit 1`,
    )
    expect(plan.length).toBeGreaterThan(0)
    expect(rows.map((row) => row['QUERY PLAN']).join('\n')).toMatch(/webhook_endpoints_active/)
  })
})

describe('a claim', () => {
  test('counts the try, and gives an event to one node alone', async () => {
    const shop = await customer()
    await admit(shop, 100)
    const [one, other] = await Promise.all([claim(), claim()])
    const taken = [...one, ...other].map(({ messageId }) => messageId)
    expect(new Set(taken).size).toBe(taken.length)
    expect(taken.length).toBeGreaterThan(0)
    expect([...one, ...other].every(({ attempt, round }) => attempt === 1 && round === 1)).toBe(true)
  })

  test('takes one event of every endpoint before the second of any, and no more than each has room for', async () => {
    const busy = await customer()
    await admit(busy, 60)
    const others = await Promise.all(Array.from({ length: 5 }, () => customer()))
    for (const other of others) await admit(other, 2)
    const claimed = await claim(node(), { most: 6 })
    expect(new Set(claimed.map(({ workspaceId }) => workspaceId)).size).toBe(6)
    const rooms = { [busy.workspaceId]: 3 }
    const next = await claim(node(), { rooms })
    expect(next.filter(({ workspaceId }) => workspaceId === busy.workspaceId)).toHaveLength(3)
    expect(next.filter(({ workspaceId }) => workspaceId !== busy.workspaceId)).toHaveLength(5)
  })

  test('leaves an event whose earlier one is under way elsewhere; one that waits for a retry is no hindrance', async () => {
    const shop = await customer()
    const [here, there] = [node(), node()]
    const [id = ''] = await admit(shop)
    const [first] = await claim(here)
    await put(shop, id, 2)
    expect(await claim(there)).toEqual([])
    const [second] = await claim(here) // the same node keeps the order itself
    expect(second).toMatchObject({ sequence: 2, attempt: 1 })
    await put(shop, id, 3)
    more = 0
    if (first === undefined || second === undefined) throw new Error('nothing was claimed')
    await recorder.record({ ...first, asked: true, delivered: false, status: 500, delayMs: 60_000 })
    expect(more).toBe(1)
    await recorder.record({ ...second, asked: true, delivered: true, status: 200 })
    expect(named(await claim(there))).toEqual(['3.1'])
  })

  test.each([
    ['where one is claimed at a time', { most: 1 }, [['1.1'], ['2.1'], ['3.1']]],
    ['where the share of the endpoint does not reach to it', { share: 1 }, [[], ['1.1'], ['2.1'], ['3.1']]],
  ])('an event whose earlier one is due later has its turn behind that, %s', async (_where, changes, turns) => {
    const shop = await customer()
    const [id = ''] = await admit(shop)
    for (const sequence of [2, 3]) await put(shop, id, sequence)
    // Posted again by hand, or from before the clock was set back.
    await world.db.run(
      `update webhook_queue set due_at = app_now() - (case sequence when 1 then 1 else 60 end) * interval '1 second' where workspace_id = $1`,
      [shop.workspaceId],
    )
    const one = node()
    const claims: string[][] = []
    for (let n = 0; n < turns.length; n++) claims.push(named(await claim(one, changes)))
    expect(claims).toEqual(turns)
  })

  test('an event behind one that another claim is just taking is left', async () => {
    const shop = await customer()
    const [id = ''] = await admit(shop)
    await put(shop, id, 2)
    const session = await world.session()
    await session.query('begin')
    await session.query('select 1 from webhook_queue where workspace_id = $1 and sequence = 1 for update', [
      shop.workspaceId,
    ])
    expect(await claim()).toEqual([])
    await session.query('rollback')
    expect(named(await claim())).toEqual(['1.1', '2.1'])
  })

  test('an event behind one that another node has taken and given back since the claim began is left', async () => {
    const shop = await customer()
    const [id = ''] = await admit(shop)
    // A claim looks at the queue, and then it locks: between the two it is held up here.
    const session = await world.session()
    await session.query('select pg_advisory_lock(8)')
    await world.db.run('alter function lock_due_webhooks_2 rename to lock_due_webhooks')
    await world.db
      .run(`create function lock_due_webhooks_2(space uuid, since timestamptz, most integer, thorough boolean)
      returns table (workspace_id uuid, message_id uuid, sequence integer, due_at timestamptz, round integer, attempts integer, "row" tid) language plpgsql as
      'begin perform pg_advisory_xact_lock_shared(8); return query select * from lock_due_webhooks(space, since, most, thorough); end'`)
    await put(shop, id, 2)
    const late = claim()
    await world.untilSomebodyWaits()
    const first = `update webhook_queue set attempts = attempts + $2, lease_until = null where workspace_id = $1 and sequence = 1`
    for (const change of [1, -1]) await world.db.run(first, [shop.workspaceId, change])
    await session.query('select pg_advisory_unlock(8)')
    expect(named(await late)).toEqual([])
    await world.db.run('drop function lock_due_webhooks_2')
    await world.db.run('alter function lock_due_webhooks rename to lock_due_webhooks_2')
    expect(named(await claim())).toEqual(['1.1', '2.1'])
  })

  test('drops what a disabled endpoint left in the queue', async () => {
    const shop = await customer()
    await admit(shop, 3)
    await disableEndpoint(world.db, shop.workspaceId)
    expect(await claim()).toEqual([])
    expect(await queue(shop)).toEqual([])
  })

  test('walks on over more endpoints than one claim looks at', async () => {
    const spare = limits.webhookLanesPerClaimMax
    await world.db.run(
      `insert into webhook_queue (workspace_id, message_id, sequence, due_at)
       select gen_random_uuid(), gen_random_uuid(), 1, app_now() + interval '1 hour' from generate_series(1, $1)`,
      [spare + 10],
    )
    const ask = (cursor: string) => node().claim({ ...whole, cursor })
    const first = await ask(leastId)
    expect(first.cursor).not.toBe(leastId)
    expect((await ask(first.cursor)).cursor).toBe(leastId)
  })
})

describe('a claim whose answer is lost', () => {
  /** A node whose next claim is committed, and not heard of. */
  const deafNode = () => {
    const failing = { isOn: true }
    const rows: Db['rows'] = async <Row extends object>(...asked: Parameters<Db['rows']>) => {
      const answer = await world.db.rows<Row>(...asked)
      if (failing.isOn) throw Object.assign(new Error('the line was cut'), { code: 'ECONNRESET' })
      return answer
    }
    return { failing, mine: makeWebhookClaims({ ...world.db, rows }, 30_000) }
  }

  test('leaves later events of its messages where they are, and gives back what it took, without a try', async () => {
    const shop = await customer()
    const { failing, mine } = deafNode()
    const [id = ''] = await admit(shop)
    await expect(claim(mine)).rejects.toThrow('cut')
    failing.isOn = false
    await put(shop, id, 2)
    expect(await claim(mine)).toEqual([])
    expect(await mine.giveBackLost()).toBe(true)
    expect(named(await claim(mine))).toEqual(['1.1', '2.1'])
    // Said again, it takes nothing from the claim that came after it.
    expect(await mine.giveBackLost()).toBe(false)
    expect(await reapWebhooks(world.db, [0])).toBe(0)
  })

  test('takes nothing with it that was claimed before; a later event of that waits until it has ended', async () => {
    const shop = await customer()
    const { failing, mine } = deafNode()
    failing.isOn = false
    const [id = ''] = await admit(shop)
    const [first] = await claim(mine)
    if (first === undefined) throw new Error('nothing was claimed')
    await admit(shop)
    failing.isOn = true
    await expect(claim(mine)).rejects.toThrow('cut')
    failing.isOn = false
    expect(await mine.giveBackLost()).toBe(true)
    await put(shop, id, 2)
    expect((await claim(mine)).map(({ sequence, messageId }) => [sequence, messageId === id])).toEqual([[1, false]])
    await recorder.record({ ...first, asked: true, delivered: true, status: 200 })
    expect(named(await claim(mine))).toEqual(['2.1'])
  })

  test('is nothing where the database has surely refused it', async () => {
    const shop = await customer()
    const [id = ''] = await admit(shop)
    let refuses = false
    const rows: Db['rows'] = (...asked) =>
      refuses ? Promise.reject(Object.assign(new Error('no'), { code: '53200' })) : world.db.rows(...asked)
    const mine = makeWebhookClaims({ ...world.db, rows }, 30_000)
    expect(named(await claim(mine))).toEqual(['1.1'])
    refuses = true
    await expect(claim(mine)).rejects.toThrow('no')
    refuses = false
    await put(shop, id, 2)
    expect(named(await claim(mine))).toEqual(['2.1']) // as ever: the sender keeps the order
  })
})

test('a result counts only for its own attempt: what was sent again meanwhile stays queued', async () => {
  const shop = await customer()
  await admit(shop)
  const [claimed] = await claim()
  if (claimed === undefined) throw new Error('nothing was claimed')
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000), undelivered: false }
  expect(await replayRange(world.db, shop.workspaceId, range)).toBe(1)
  await recorder.record({ ...claimed, asked: true, delivered: true, status: 200 })
  expect(await queue(shop)).toEqual([{ sequence: 1 }])
  expect((await claim())[0]).toMatchObject({ round: 2, attempt: 1 })
})

describe('an endpoint whose receiver is gone for good', () => {
  const lastTry = async () => {
    const shop = await customer()
    await admit(shop)
    const [claimed] = await claim()
    if (claimed === undefined) throw new Error('nothing was claimed')
    const { version, ...rest } = claimed
    const gone = { ...rest, asked: true, delivered: false, status: 410 }
    const state = () => world.value('select state from webhook_endpoints where workspace_id = $1', [shop.workspaceId])
    const change = (url: string) => changeEndpoint(world.db, shop.workspaceId, { url })
    return { shop, version, gone, state, change }
  }

  test('is disabled, also by a release that does not say which address it asked', async () => {
    for (const says of [true, false]) {
      const { version, gone, state } = await lastTry()
      await recorder.record({ ...gone, ...(says && { version }) })
      expect(await state()).toBe('disabled')
    }
  })

  test.each([
    ['before', [200, 410]],
    ['behind', [410, 200]],
  ])('is disabled also where another event was delivered %s it in the same batch', async (_, statuses) => {
    const { shop, state } = await lastTry()
    await admit(shop, 2)
    const claimed = await claim()
    expect(claimed).toHaveLength(2)
    const disabled: unknown[] = []
    const recorder = makeWebhookRecorder(world.db, {
      failingMs: 1e9,
      disabled: (...told) => void disabled.push(told),
      more: () => undefined,
    })
    // What comes in one turn of the event loop is written together.
    await Promise.all(
      claimed.map((each, at) =>
        recorder.record({ ...each, asked: true, delivered: statuses[at] === 200, status: statuses[at] as number }),
      ),
    )
    expect(await state()).toBe('disabled')
    expect(disabled).toEqual([[shop.workspaceId, 'receiver_gone']])
  })

  test('stays active where the event was sent again meanwhile: its eighth try is still to come', async () => {
    const { shop, version, gone, state } = await lastTry()
    const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000), undelivered: false }
    expect(await replayRange(world.db, shop.workspaceId, range)).toBe(1)
    await recorder.record({ ...gone, version })
    expect(await state()).toBe('active')
  })

  test('stays active where its owner has given another address meanwhile: that one has not answered', async () => {
    const { shop, version, gone, state, change } = await lastTry()
    await change('https://new.example.com/')
    await recorder.record({ ...gone, version })
    expect(await state()).toBe('active')
    expect(await queue(shop)).toEqual([])
  })
})

test.each([
  ['none was delivered', () => ({ delivered: false, delayMs: 60_000 })],
  [
    'one was delivered, and another one was the last for a receiver that is gone',
    (at: number) => (at === 0 ? { delivered: true, status: 200 } : { delivered: false, status: 410 }),
  ],
])(
  'results lock the endpoint before the rows of its queue, so that two batches do not wait for each other in a circle: %s',
  async (_, ending) => {
    const shop = await customer()
    await admit(shop, 3)
    const claimed = await claim()
    const session = await world.session()
    await session.query('begin')
    await session.query('select from webhook_endpoints where workspace_id = $1 for update', [shop.workspaceId])
    const recorded = claimed.map((each, at) => recorder.record({ ...each, asked: true, ...ending(at) }))
    await world.untilSomebodyWaits()
    const free = 'select from webhook_queue where workspace_id = $1 for update skip locked'
    expect((await session.query(free, [shop.workspaceId])).rows).toHaveLength(3)
    await session.query('rollback')
    await Promise.all(recorded)
  },
)

describe('what is said twice, or too late, does nothing to the claim that came after it', () => {
  const claimed = async (by?: WebhookClaims): Promise<ClaimedWebhook> => {
    const [one] = await claim(by)
    if (one === undefined) throw new Error('nothing was claimed')
    return one
  }
  const held = (shop: Sender) =>
    world.value<string>(
      `select concat_ws(' ', round, attempts, lease_owner) from webhook_queue where workspace_id = $1`,
      [shop.workspaceId],
    )

  test.each(['another', 'the same'])('a try that was given back, said again when %s node has it', async (whose) => {
    const shop = await customer()
    const mine = node()
    await admit(shop)
    const unasked = { ...(await claimed(mine)), asked: false, delivered: false }
    await recorder.record(unasked)
    const again = await claimed(whose === 'another' ? node() : mine)
    expect(again).toMatchObject({ round: 1, attempt: 1 })
    await recorder.record(unasked)
    await extendWebhookLeases(world.db, [unasked], 3_600_000)
    expect(await held(shop)).toBe(`1 1 ${again.claim}`)
    expect(await world.value(`select lease_until < app_now() + interval '1 minute' from webhook_queue where workspace_id = $1`, [shop.workspaceId])).toBe(true) // prettier-ignore
  })

  test('a success of the ladder before, when the same node has the first try of the next', async () => {
    const shop = await customer()
    await admit(shop)
    const mine = node()
    const first = await claimed(mine)
    const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000), undelivered: false }
    await replayRange(world.db, shop.workspaceId, range)
    const next = await claimed(mine)
    await recorder.record({ ...first, asked: true, delivered: true, status: 200 })
    expect(await held(shop)).toBe(`2 1 ${next.claim}`)
  })

  test('a refusal of a try whose lease ran out, when the same node makes the next', async () => {
    const shop = await customer()
    await admit(shop)
    const mine = node()
    const first = await claimed(mine)
    await world.db.run(`update webhook_queue set lease_until = app_now() - interval '1 second'`)
    expect(await reapWebhooks(world.db, [0, 0])).toBe(1)
    const next = await claimed(mine)
    await recorder.record({ ...first, asked: true, delivered: false, status: 500, delayMs: 3_600_000 })
    expect(await held(shop)).toBe(`1 2 ${next.claim}`)
  })
})

test('a try whose node was lost counts, and takes no other one with it: eight, and then none', async () => {
  const shop = await customer()
  await admit(shop)
  const waits = Array.from({ length: 7 }, () => 0)
  for (let attempt = 1; attempt <= 8; attempt++) {
    expect(named(await claim())).toEqual([`1.${attempt}`])
    await world.db.run(`update webhook_queue set lease_until = app_now() - interval '1 second'`)
    expect(await reapWebhooks(world.db, waits)).toBe(1)
  }
  expect(await queue(shop)).toEqual([])
})

// Between two tries lie hours: the time without a success may be over while nothing is tried, and end with one.
test('an endpoint that has failed for too long is not disabled by a success, also beside a failure', async () => {
  for (const answers of [[true], [false, true], [true, false]]) {
    const shop = await customer()
    await admit(shop, answers.length)
    const claimed = await claim()
    await world.db.run(
      `update webhook_endpoints set failing_since = app_now() - interval '20 days' where workspace_id = $1`,
      [shop.workspaceId],
    )
    await Promise.all(
      claimed.map((each, at) => recorder.record({ ...each, asked: true, delivered: answers[at] === true })),
    )
    expect(
      await world.db.run('select state, failing_since from webhook_endpoints where workspace_id = $1', [
        shop.workspaceId,
      ]),
    ).toEqual([{ state: 'active', failing_since: null }])
  }
})

// The new address, or secret, was told to have failed for as long as the old one, or was disabled for it at once.
describe('a failure says nothing of an endpoint that was changed since it was asked', () => {
  const failing = async () => {
    const shop = await customer()
    const { workspaceId } = shop
    await admit(shop, 2)
    const claimed = await claim()
    const since = `update webhook_endpoints set failing_since = app_now() - interval '20 days' where workspace_id = $1`
    await world.db.run(since, [workspaceId])
    const fail = (changes: Partial<ClaimedWebhook> = {}) =>
      recorder.record({ ...claimed[0], ...changes, asked: true, delivered: false, status: 500 } as never)
    const standing = () =>
      world.value(
        `select concat_ws(' ', state, reason, app_now() - failing_since > interval '19 days') from webhook_endpoints where workspace_id = $1`,
        [workspaceId],
      )
    return { workspaceId, fail, standing, change: (url: string) => changeEndpoint(world.db, workspaceId, { url }) }
  }

  test('which failed for too long, and has another secret now, is not disabled before that one was tried', async () => {
    const { workspaceId, fail, standing } = await failing()
    await prepareSecret(world.db, workspaceId, Buffer.from('next'))
    expect((await promoteSecret(world.db, workspaceId, 1_000))?.version).toBe(3)
    await fail()
    expect(await standing()).toBe('active t')
    await fail({ version: 3 })
    expect(await standing()).toBe('disabled no_success t')
  })

  test('another address begins without a failure, also where one of the old comes behind it', async () => {
    const { fail, standing, change } = await failing()
    await change('https://new.example.com/')
    await fail()
    expect(await standing()).toBe('active')
  })

  test('also where both come at the same moment', async () => {
    const { workspaceId, fail, standing } = await failing()
    const session = await world.session()
    await session.query('begin')
    await session.query(
      `update webhook_endpoints set url = 'https://new.example.com/', failing_since = null, version = version + 1 where workspace_id = $1`,
      [workspaceId],
    )
    const failed = fail()
    await world.untilSomebodyWaits()
    await session.query('commit')
    await failed
    expect(await standing()).toBe('active')
  })
})

// Somebody's psql, left open within a transaction, kept the results of everybody's tries from being written, and their leases from being extended.
test.each(['webhook_queue', 'webhook_endpoints'])(
  'a row of %s that somebody holds keeps nobody else waiting, neither for a result nor for a heartbeat',
  async (table) => {
    const [held, free] = [await customer(), await customer()]
    await admit(held)
    await admit(free)
    const claimed = await claim()
    const lockMs = 300
    const db = openDatabase(world.connection, { name: 'test', connectionsMax: 1, answerMs: 30_000, lockMs })
    const recorder = makeWebhookRecorder(db, {
      failingMs: 1e9,
      disabled: () => undefined,
      more: () => undefined,
    })
    const record = (of: Sender) =>
      Promise.all(
        claimed
          .filter(({ workspaceId }) => workspaceId === of.workspaceId)
          .map((each) => recorder.record({ ...each, asked: true, delivered: false, status: 500 })),
      )
    const holder = await world.session()
    await holder.query('begin')
    await holder.query(`select from ${table} where workspace_id = $1 for update`, [held.workspaceId])
    const extended = await extendWebhookLeases(world.db, claimed, 30_000)
    expect(extended.size).toBe(table === 'webhook_queue' ? 1 : 2)
    const [one, other] = await Promise.allSettled([record(held), record(free)])
    expect([one, other]).toMatchObject([{ status: 'rejected', reason: { code: '55P03' } }, { status: 'fulfilled' }])
    expect([(await queue(held)).length, (await queue(free)).length]).toEqual([1, 0])
    await holder.query('rollback')
    await record(held)
    expect(await queue(held)).toEqual([])
    await db.close()
  },
)

test('a heartbeat keeps what is claimed from the reaper', async () => {
  const shop = await customer()
  await admit(shop)
  const [claimed] = await claim()
  if (claimed === undefined) throw new Error('nothing was claimed')
  await world.db.run(`update webhook_queue set lease_until = app_now() - interval '1 second'`)
  await extendWebhookLeases(world.db, [claimed], 30_000)
  expect(await reapWebhooks(world.db, [0])).toBe(0)
  expect(await claim()).toEqual([])
})

test('what was tried in vain is sent again with a range of what nobody has; what happened after its end is not', async () => {
  const shop = await customer()
  const [id = ''] = await admit(shop)
  const [first] = await claim()
  if (first === undefined) throw new Error('nothing was claimed')
  await recorder.record({ ...first, asked: true, delivered: false, status: 500 })
  expect(await queue(shop)).toEqual([])
  await world.db.run(
    `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
     values ($1, $2, 2, 'message.complained', 'sent', 4, app_now() + interval '1 hour')`,
    [shop.workspaceId, id],
  )
  await world.db.run('delete from webhook_queue')
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000), undelivered: true }
  expect(await replayRange(world.db, shop.workspaceId, range)).toBe(1)
  expect(await queue(shop)).toEqual([{ sequence: 1 }])
})

test('what waits for a later try was not delivered: it is sent again at once, and what is being posted, or due, is left alone', async () => {
  const shop = await customer()
  const [waiting, leased, due] = await admit(shop, 3)
  await world.db.run(
    `update webhook_queue set attempts = 5, due_at = app_now() + interval '10 hours' where workspace_id = $1 and message_id = any ($2)`,
    [shop.workspaceId, [waiting, leased]],
  )
  await world.db.run(
    `update webhook_queue set lease_owner = $2, lease_until = app_now() + interval '1 minute' where message_id = $1`,
    [leased, randomUUID()],
  )
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000), undelivered: true }
  expect(await replayRange(world.db, shop.workspaceId, range)).toBe(1)
  const rows = await world.db.run<{ id: string }>(
    `select message_id id, round, attempts, due_at <= app_now() due from webhook_queue where workspace_id = $1`,
    [shop.workspaceId],
  )
  const rowOf = (message: string | undefined) => rows.find(({ id }) => id === message)
  expect(rowOf(waiting)).toMatchObject({ round: 2, attempts: 0, due: true })
  expect(rowOf(leased)).toMatchObject({ round: 1, attempts: 5, due: false })
  expect(rowOf(due)).toMatchObject({ round: 1, attempts: 0, due: true })
})

test('a time range is sent again in slices, whole', async () => {
  const shop = await customer()
  const many = limits.webhookReplaySlice + 7
  await world.db.run(
    `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
     select $1, $2::uuid, n, 'message.retrying', 'retrying', 0, app_now() from generate_series(1, $3) n`,
    [shop.workspaceId, world.nextId(), many],
  )
  await world.db.run('delete from webhook_queue')
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000), undelivered: true }
  expect(await replayRange(world.db, shop.workspaceId, range)).toBe(many)
  expect(await replayRange(world.db, shop.workspaceId, range)).toBe(0) // they are on their way
  const all = { from: new Date(0), to: range.to, undelivered: false }
  expect(await replayRange(world.db, shop.workspaceId, all)).toBe(many)
  const past = { ...range, from: new Date(0), to: new Date(Date.now() - 3600_000) }
  expect(await replayRange(world.db, shop.workspaceId, past)).toBe(0)
})

test('a few events of a time among very many others are found in steps that look at many, and each is sent again once', async () => {
  const shop = await customer()
  const [before, within, behind] = [
    limits.webhookReplayLook - 3,
    limits.webhookReplaySlice + 5,
    limits.webhookReplayLook,
  ]
  await world.db.run(
    `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
     select $1, $2::uuid, n, 'message.retrying', 'retrying', 0,
            app_now() - case when n <= $3::integer then interval '2 days' when n <= $3::integer + $4::integer then interval '0' else interval '-2 days' end
       from generate_series(1, $3::integer + $4::integer + $5::integer) n`,
    [shop.workspaceId, world.nextId(), before, within, behind],
  )
  await world.db.run('delete from webhook_queue')
  let steps = 0
  const counted = watched(world.db, { asked: (name) => void (name === 'webhook-replay-some' && steps++) })
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000), undelivered: false }
  expect(await replayRange(counted, shop.workspaceId, range)).toBe(within)
  expect((await queue(shop)).map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: within }, (_, n) => before + 1 + n),
  )
  expect(await world.value('select max(round) from webhook_queue where workspace_id = $1', [shop.workspaceId])).toBe(1)
  expect(steps).toBeLessThan(6)
})

test('an event is of its own time, also where its message was accepted by a clock that was ahead', async () => {
  const shop = await customer()
  await world.db.run(
    `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
     values ($1, uuid_floor(app_now() + interval '1 hour'), 3, 'message.sent', 'sent', 0, app_now())`,
    [shop.workspaceId],
  )
  await world.db.run('delete from webhook_queue')
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000), undelivered: true }
  expect(await replayRange(world.db, shop.workspaceId, range)).toBe(1)
})

test('a late report on an old message is of its own time, and sent again with it', async () => {
  const shop = await customer()
  await world.db.run(
    `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
     values ($1, uuid_floor(app_now() - interval '60 days'), 7, 'message.complained', 'sent', 4, app_now())`,
    [shop.workspaceId],
  )
  await world.db.run('delete from webhook_queue')
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000), undelivered: false }
  expect(await replayRange(world.db, shop.workspaceId, range)).toBe(1)
  expect(await queue(shop)).toEqual([{ sequence: 7 }])
})

describe('catching up', () => {
  const start = { tx: '0', messageId: leastId, sequence: 0 }
  const read = async (workspace: WorkspaceId, after = start, most = 100) =>
    (await readInCommitOrder(world.db, workspace, after, most)).map(({ tx, message_id: messageId, sequence }) => ({
      tx,
      messageId,
      sequence,
    }))

  test('an event that commits late is never passed by: nothing newer than an open transaction is told', async () => {
    const shop = await world.sender()
    const [early = ''] = await admit(shop)
    const late = await world.session()
    await late.query('begin')
    await late.query(event(shop, early, 2))
    await put(shop, early, 3) // begun later, committed sooner
    const first = await untilSome(() => read(shop.workspaceId))
    expect(first.map(({ sequence }) => sequence)).toEqual([1])
    const cursor = first.at(-1) ?? start
    expect(await read(shop.workspaceId, cursor)).toEqual([])
    await late.query('commit')
    // A transaction of another database of this server may have begun between the two, and holds the second up.
    const rest = await untilSome(
      () => read(shop.workspaceId, cursor),
      (rows) => rows.length === 2,
    )
    expect(rest.map(({ sequence }) => sequence)).toEqual([2, 3])
    expect(await read(shop.workspaceId, rest.at(-1))).toEqual([])
  })

  test('pages follow each other without a gap or a repeat, also inside one transaction, and show no other workspace', async () => {
    const [shop, neighbour] = [await world.sender(), await world.sender()]
    await Promise.all([admit(shop, 50), admit(neighbour, 50)])
    const all = await untilSome(
      () => read(shop.workspaceId, start, 1_000),
      (rows) => rows.length === 50,
    )
    const seen: string[] = []
    for (let cursor = start; ;) {
      const page = await read(shop.workspaceId, cursor, 7)
      seen.push(...page.map(({ messageId }) => messageId))
      const last = page.at(-1)
      if (last === undefined) break
      cursor = last
    }
    expect(seen).toEqual(all.map(({ messageId }) => messageId))
  })

  /** Other tests of this cluster have transactions of their own, which end soon. */
  async function untilSome<T>(
    ask: () => Promise<T[]>,
    enough: (rows: T[]) => boolean = (rows) => rows.length > 0,
  ): Promise<T[]> {
    const deadline = performance.now() + 10_000
    for (;;) {
      const rows = await ask()
      if (enough(rows)) return rows
      if (performance.now() > deadline) throw new Error(`still ${rows.length} events`)
    }
  }
})

test('the log goes from the latest message back, page by page, and shows no other workspace', async () => {
  const [shop, neighbour] = [await customer(), await customer()]
  const ids = await admit(shop, 5)
  await admit(neighbour, 5)
  const end = { messageId: 'ffffffff-ffff-ffff-ffff-ffffffffffff', sequence: 0 }
  const first = await readWebhookLog(world.db, shop.workspaceId, end, 3)
  const last = first.at(-1)
  const rest = await readWebhookLog(
    world.db,
    shop.workspaceId,
    { messageId: last?.message_id ?? '', sequence: last?.sequence ?? 0 },
    3,
  )
  expect([...first, ...rest].map(({ message_id: id }) => id)).toEqual(ids.toSorted().toReversed())
})

test('the log is searched by state, type and message among a bounded number of events, and goes on behind those', async () => {
  const shop = await customer()
  const ids = (await admit(shop, 12)).toSorted()
  const [oldest = '', next = ''] = ids
  // The oldest message is told about last; another one has failed.
  await world.db.run(
    `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
     values ($1, $2, 2, 'message.complained', 'sent', 4, app_now())`,
    [shop.workspaceId, oldest],
  )
  await world.db.run('delete from webhook_queue where workspace_id = $1 and message_id = any ($2) and sequence = 1', [
    shop.workspaceId,
    [oldest, next],
  ])
  await world.db.run(
    `insert into webhook_attempts (workspace_id, message_id, sequence, round, attempt, ended_at, delivered, status)
     values ($1, $2, 1, 1, 8, app_now(), false, 500)`,
    [shop.workspaceId, next],
  )
  const start = { messageId: 'ffffffff-ffff-ffff-ffff-ffffffffffff', sequence: 0 }
  const found = async (filter: WebhookLogFilter, most = 50, scanned = 100) => {
    const pages: string[][] = []
    for (let before = start; ;) {
      const { rows, end } = await searchWebhookLog(world.db, shop.workspaceId, filter, before, { most, scanned })
      pages.push(rows.map((row) => `${ids.indexOf(row.message_id)} ${row.sequence} ${row.type}`))
      if (end === undefined) return pages
      before = end
    }
  }
  expect(await found({ messageId: oldest })).toEqual([['0 2 message.complained', '0 1 message.queued']])
  expect(await found({ messageId: oldest }, 1)).toEqual([['0 2 message.complained'], ['0 1 message.queued'], []])
  expect(await found({ type: 'message.complained' })).toEqual([['0 2 message.complained']])
  expect(await found({ state: 'failed' }, 50, 5)).toEqual([[], [], ['1 1 message.queued']])
  expect(await found({ state: 'not_sent' })).toEqual([['0 1 message.queued']])
  expect((await found({ state: 'waiting', type: 'message.queued' }, 4)).map((page) => page.length)).toEqual([4, 4, 2])
  const neighbour = await customer()
  await admit(neighbour, 1)
  expect((await found({ state: 'waiting' })).flat()).toHaveLength(11)
})
