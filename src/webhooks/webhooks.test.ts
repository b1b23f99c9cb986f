// The sender against a real database and a receiver of the tests' own: nothing lost, at most eight requests, in order, and nobody waits for
// somebody else's receiver (issue 3, delivery-semantics 49).
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  ok,
  silence,
  startWebhookReceiver,
  status,
  type Received,
  type WebhookReceiver,
} from '../../test/world/webhook-receiver.ts'
import { survivesItsLife } from '../base/service.test-kit.ts'
import { limits } from '../config.ts'
import { eventId } from '../domain/event.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { readWebhooksOfMessage } from '../store/views/message-webhooks.ts'
import { reapWebhooks } from '../store/webhooks.ts'
import { anywhere, vault, webhookWorld, type WebhookWorld } from './sender.test-kit.ts'
import { makeKnownEndpoints } from './known-endpoints.ts'
import { makeWebhookDesk } from './webhooks.ts'

const scale = 100_000
let world: WebhookWorld
const receivers: WebhookReceiver[] = []
beforeAll(async () => {
  world = await webhookWorld(scale)
})
afterEach(async () => {
  await world.calm()
  for (const receiver of receivers.splice(0)) await receiver.stop()
  await world.db.run('delete from webhook_queue')
  await world.db.run(`update webhook_endpoints set state = 'disabled', reason = 'by_hand' where state = 'active'`)
  world.lines.length = 0
})
afterAll(() => world?.close())

async function receiver(): Promise<WebhookReceiver> {
  const made = await startWebhookReceiver()
  receivers.push(made)
  return made
}
const sequences = (all: readonly Received[]) => all.map(({ event }) => event.data.sequence)
const faults = () => world.lines.filter(({ verb }) => verb === 'fault')

test('a try is signed with the time of the database: a node whose clock is wrong is not refused as stale', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  there.secrets.push(shop.secret)
  await world.setClock('2031-01-01T00:00:00Z')
  try {
    await world.started()
    await world.admit(shop)
    const [one] = await there.count(1)
    const off = Number(one?.headers['webhook-timestamp']) - Date.parse('2031-01-01T00:00:00Z') / 1000
    expect(off).toBeGreaterThanOrEqual(0)
    expect(off).toBeLessThan(60)
    expect(one?.proved.current).toBe(shop.secret)
  } finally {
    await world.setClock()
  }
})

describe('events from while the clock was ahead are not told only when that time comes', () => {
  const ahead = () => world.setClock(new Date(Date.now() + 3_600_000).toISOString())
  afterEach(() => world.setClock())

  test('where the clock is set back under a sender that runs', async () => {
    const there = await receiver()
    const shop = await world.customer(there.url)
    await ahead()
    // One that has no slot for it, for as long as the clock is ahead.
    const { db } = world
    let [most, sawAhead] = [0, Promise.withResolvers<void>()]
    const rows: Db['rows'] = async (statement, values = []) => {
      if (statement.name !== 'webhook-claim') return db.rows<never>(statement, values)
      const answer = await db.rows<never>(statement, most === 0 ? values.with(4, 0) : values)
      sawAhead.resolve()
      return answer
    }
    await world.started({ db: { ...db, rows } })
    await world.admit(shop)
    sawAhead = Promise.withResolvers<void>()
    await sawAhead.promise
    await world.setClock()
    most = 1
    await there.count(1)
  })

  test('where it is set back before the sender starts', async () => {
    const there = await receiver()
    const shop = await world.customer(there.url)
    await ahead()
    await world.admit(shop)
    await world.setClock()
    await world.started()
    await there.count(1)
  })
})

test('an accepted message is told: body, headers and signature as the specification says', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  there.secrets.push(shop.secret)
  await world.started()
  const [id = ''] = await world.admit(shop, 1, { subject: 'Zoë / \u2028 🎺', metadata: { order: '1042' } })
  const [one] = await there.count(1)
  expect(one?.proved).toEqual({ current: shop.secret, next: undefined, previous: undefined })
  expect(one?.headers['content-type']).toBe('application/json')
  expect(one?.headers['webhook-id']).toBe(one?.event.id)
  // To the letter: some gateways hand the names on as they were written, to receivers that look for exactly these.
  expect(one?.rawHeaders).toEqual(expect.arrayContaining(['Webhook-Id', 'Webhook-Timestamp', 'Webhook-Signature']))
  expect(one?.event.id).toBe(eventId(id as MessageId, 1))
  expect(Math.abs(Number(one?.headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(5)
  expect(one?.headers['webhook-signature']).toMatch(/^v1=[0-9a-f]{64}$/)
  expect(one?.event).toEqual({
    id: eventId(id as MessageId, 1),
    type: 'message.queued',
    createdAt: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/) as string,
    apiVersion: '2026-11-01',
    data: {
      messageId: id,
      organizationId: shop.workspaceId,
      mailboxId: shop.mailboxId,
      sender: expect.any(String) as string,
      recipient: 'Ann@Example.org',
      subject: 'Zoë / \u2028 🎺',
      status: 'queued',
      deliveryStatus: 'pending',
      sequence: 1,
      occurredAt: one?.event.createdAt,
      metadata: { order: '1042' },
    },
  })
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
  )
  expect(faults()).toEqual([])
})

test('what comes into sight long after it was due is told, although most walks begin behind it', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  await world.admit(shop)
  await world.db.run(
    `update webhook_queue set due_at = app_now() - interval '1 hour', lease_until = app_now() + interval '1 hour', lease_owner = $1`,
    [shop.workspaceId],
  )
  const since: unknown[] = []
  const watched: Db = {
    ...world.db,
    rows: (statement, values) => {
      if (statement.name === 'webhook-claim') since.push(values?.at(-1))
      return world.db.rows(statement, values)
    },
  }
  await world.started({ db: watched })
  await world.eventually(
    () => since,
    (seen) => seen.at(-1) instanceof Date,
  )
  await world.db.run('update webhook_queue set lease_until = null, lease_owner = null')
  await there.count(1)
  expect(since.filter((each) => each === '-infinity').length).toBeGreaterThan(1)
})

test('eight tries on the ladder, to the attempt; same id, same bytes, each with a signature and a time of its own', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  there.secrets.push(shop.secret)
  there.answer = status(500)
  await world.started()
  await world.admit(shop)
  await there.count(8)
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
  )
  expect(there.received).toHaveLength(8)
  expect(new Set(there.received.map(({ raw }) => raw.toString('hex'))).size).toBe(1)
  expect(new Set(there.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
  expect(there.received.every(({ proved }) => proved.current === shop.secret)).toBe(true)
  // What lay between: never sooner than the scaled step less its jitter.
  const steps = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000].map((seconds) => (seconds * 1000) / scale)
  there.received.slice(1).forEach(({ at }, index) => {
    expect(at - (there.received[index]?.at ?? 0)).toBeGreaterThanOrEqual((steps[index] ?? 0) * 0.8 - 1)
  })
  const log = await world.db.run<{ attempt: number; status: number }>(
    'select attempt, status from webhook_attempts where workspace_id = $1 order by attempt',
    [shop.workspaceId],
  )
  expect(log).toEqual(Array.from({ length: 8 }, (_, index) => ({ attempt: index + 1, status: 500 })))
  const [entry] = items(await world.desk.log(shop.workspaceId, undefined))
  expect(entry?.state).toBe('failed')
})

function items<T>(page: { readonly items: readonly T[] } | object): readonly T[] {
  if ('items' in page) return page.items
  throw new Error(JSON.stringify(page))
}

test('the story of a message tells each post of its events, and when the next is due', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  there.answer = status(503)
  const node = await world.started({ timeScale: 1 })
  const [id = ''] = await world.admit(shop)
  const webhooks = () => readWebhooksOfMessage(world.db, shop.workspaceId, id as MessageId)
  const told = await world.eventually(webhooks, (map) => map.get(1)?.attempts.length === 1)
  expect(told.get(1)).toEqual({
    state: 'waiting',
    nextAttemptAt: expect.any(Date) as Date,
    attempts: [
      {
        round: 1,
        attempt: 1,
        endedAt: expect.any(Date) as Date,
        delivered: false,
        status: 503,
        durationMs: expect.any(Number) as number,
      },
    ],
  })
  await node.stop()
  there.answer = status(500)
  await world.started()
  await world.db.run('update webhook_queue set due_at = app_now() where message_id = $1', [id])
  await world.db.run(`select pg_notify('posthorn_webhooks', '')`)
  const ended = await world.eventually(webhooks, (map) => map.get(1)?.state === 'failed')
  expect(ended.get(1)?.nextAttemptAt).toBeUndefined()
  expect(ended.get(1)?.attempts.map(({ attempt, status }) => [attempt, status])).toEqual([
    [1, 503],
    ...[2, 3, 4, 5, 6, 7, 8].map((attempt) => [attempt, 500]),
  ])
  there.answer = ok
  await world.desk.replayEvent(shop.workspaceId, eventId(id as MessageId, 1), 'operator:test')
  const again = await world.eventually(webhooks, (map) => map.get(1)?.state === 'delivered')
  expect(again.get(1)?.attempts.at(-1)).toMatchObject({ round: 2, attempt: 1, delivered: true, status: 200 })
  // A stranger to the workspace hears nothing, whatever id it names.
  const stranger = await world.sender()
  expect(await readWebhooksOfMessage(world.db, stranger.workspaceId, id as MessageId)).toEqual(new Map())
})

describe('order', () => {
  test('events of one message come in the order of their sequence, however they were claimed', async () => {
    const there = await receiver()
    const shop = await world.customer(there.url)
    const ids = await world.admit(shop, 20)
    for (const sequence of [2, 3, 4]) for (const id of ids) await world.event(shop, id, sequence)
    // Slow and uneven, so that only the order of posting can make the order of arrival.
    there.answer = (one, response) =>
      void setTimeout(() => ok(one, response), (one.event.data.sequence ?? 0) === 1 ? 30 : 1)
    await Promise.all([world.started(), world.started()]) // two nodes
    await there.count(80)
    for (const id of ids)
      expect(sequences(there.received.filter(({ event }) => event.data.messageId === id))).toEqual([1, 2, 3, 4])
    await world.eventually(
      () => world.queued(shop.workspaceId),
      (many) => many === 0,
    )
    expect(there.received).toHaveLength(80)
  })

  test('an event does not wait for an earlier one that waits for a retry', async () => {
    const there = await receiver()
    const shop = await world.customer(there.url)
    const slow = await webhookNode(1)
    there.answer = (one, response) => (one.event.data.sequence === 1 ? status(503)(one, response) : ok(one, response))
    const [id = ''] = await world.admit(shop)
    await there.count(1)
    await world.event(shop, id, 2)
    await there.count(2)
    expect(sequences(there.received)).toEqual([1, 2])
    await slow.stop()
  })
})

const webhookNode = (timeScale: number) => world.started({ timeScale })

describe('a worker that dies', () => {
  test('between claim and request, during it and before the result: at most eight requests, and the event is not lost', async () => {
    const there = await receiver()
    const shop = await world.customer(there.url)
    // Of a node that is killed only its lease stays: a claim whose sender is cut from the database at this moment.
    await world.admit(shop)
    for (let death = 1; death <= 3; death++) {
      const claimed = await world.db.run(
        `update webhook_queue set attempts = attempts + 1, lease_until = app_now() - interval '1 second', lease_owner = gen_random_uuid()
          where workspace_id = $1 returning 1`,
        [shop.workspaceId],
      )
      expect(claimed).toHaveLength(1)
      expect(await reapWebhooks(world.db, [0, 0, 0, 0, 0, 0, 0])).toBe(1)
    }
    there.answer = status(500)
    await world.started()
    await there.count(5)
    await world.eventually(
      () => world.queued(shop.workspaceId),
      (many) => many === 0,
    )
    expect(there.received).toHaveLength(5)
    const troubles = await world.db.run<{ trouble: string | null }>(
      'select trouble from webhook_attempts where workspace_id = $1 order by attempt',
      [shop.workspaceId],
    )
    expect(troubles.map(({ trouble }) => trouble)).toEqual([
      'worker_lost',
      'worker_lost',
      'worker_lost',
      null,
      null,
      null,
      null,
      null,
    ])
  })

  test('a shutdown gives back what was not asked yet, and the next node posts it', async () => {
    const there = await receiver()
    const shop = await world.customer(there.url)
    let open: (() => void) | undefined
    there.answer = (one, response) => {
      open ??= () => ok(one, response)
    }
    const node = await world.started()
    const [id = ''] = await world.admit(shop)
    await there.count(1)
    await world.event(shop, id, 2)
    await world.eventually(
      () => world.value<number>('select count(*)::integer from webhook_queue where lease_until is not null'),
      (many) => many === 2,
    )
    const stopping = node.stop()
    open?.()
    await stopping
    expect(sequences(there.received)).toEqual([1])
    expect(await world.value('select attempts from webhook_queue where workspace_id = $1', [shop.workspaceId])).toBe(0)
    there.answer = ok
    await world.started()
    await there.count(2)
    expect(sequences(there.received)).toEqual([1, 2])
  })
})

test('what waits for its answer longer than a lease is nobody else’s meanwhile: one request', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  const go = Promise.withResolvers<void>()
  there.answer = (one, response) => void go.promise.then(() => ok(one, response))
  const leaseMs = 3_000
  for (let node = 1; node <= 2; node++) await world.started({ leaseMs })
  await world.admit(shop)
  await there.count(1)
  const leases = () =>
    world.db.run<{ lease_until: Date | null }>('select lease_until from webhook_queue where workspace_id = $1', [
      shop.workspaceId,
    ])
  const first = Number((await leases())[0]?.lease_until)
  // Kept once more after the first one would have run out.
  await world.eventually(leases, ([row]) => Number(row?.lease_until) > first + leaseMs || there.received.length > 1)
  go.resolve()
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
  )
  expect(there.received).toHaveLength(1)
})

test('what goes wrong on our side takes one of the eight tries, too: nothing is claimed for ever', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  await world.db.run(`update webhook_endpoints set secret_sealed = '\\x00' where workspace_id = $1`, [shop.workspaceId])
  await world.started()
  await world.admit(shop)
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
  )
  expect(faults()).toHaveLength(8)
  expect(there.received).toEqual([])
  expect(await world.value(`select count(*)::integer from webhook_attempts where workspace_id = $1 and trouble = 'worker_lost'`, [shop.workspaceId])).toBe(8) // prettier-ignore
})

test('a lack of our own takes none of the eight tries and is no failure of the endpoint, however long; what waited comes once, and in its order', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  let isOutOfFiles = true
  let asked = 0
  const find: typeof anywhere.find = (host) => {
    asked++
    return isOutOfFiles
      ? Promise.reject(Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' }))
      : anywhere.find(host)
  }
  const [id = ''] = await world.admit(shop)
  for (const sequence of [2, 3]) await world.event(shop, id, sequence)
  await world.db.run(`update webhook_endpoints set url = replace(url, '127.0.0.1', 'localhost') where workspace_id = $1`, [shop.workspaceId]) // prettier-ignore
  await world.started({ poster: { targets: { ...anywhere, find } } })
  const beganAt = performance.now()
  await world.eventually(
    () => asked,
    (times) => times > 3,
  )
  // Nobody is worn out by looking, and the operator is told.
  expect(performance.now() - beganAt).toBeGreaterThan(2 * limits.webhookLackMs)
  expect(faults()[0]?.facts['error']).toMatchObject({ message: expect.stringContaining('nothing is left here') })
  isOutOfFiles = false
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
  )
  expect(sequences(there.received)).toEqual([1, 2, 3])
  expect(await world.db.run('select attempt, trouble from webhook_attempts where workspace_id = $1', [shop.workspaceId])).toEqual([1, 2, 3].map(() => ({ attempt: 1, trouble: null }))) // prettier-ignore
  expect(await world.value('select failing_since from webhook_endpoints where workspace_id = $1', [shop.workspaceId])).toBeNull() // prettier-ignore
})

test('an event is not posted before an earlier one that could not be asked, as long as that waits to be given back', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  let asked = 0
  const find: typeof anywhere.find = (host) =>
    asked++ === 0 ? Promise.reject(Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' })) : anywhere.find(host)
  const results = world.anotherNode()
  const gate = Promise.withResolvers<undefined>()
  const rows: Db['rows'] = async (statement, values) => {
    await gate.promise
    return results.rows(statement, values)
  }
  const [id = ''] = await world.admit(shop)
  await world.db.run(`update webhook_endpoints set url = replace(url, '127.0.0.1', 'localhost') where workspace_id = $1`, [shop.workspaceId]) // prettier-ignore
  await world.started({ poster: { targets: { ...anywhere, find } }, resultDb: { ...results, rows } })
  await world.eventually(
    () => asked,
    (times) => times === 1,
  )
  await world.event(shop, id, 2)
  await world.eventually(leased, (many) => many === 2)
  gate.resolve(undefined)
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
  )
  expect(sequences(there.received)).toEqual([1, 2])
})

test('a database that is away between claim and request takes no try, either', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  const db = world.anotherNode()
  let away = 2
  const rows: Db['rows'] = (statement, values) =>
    statement.name === 'webhook-endpoint' && away-- > 0
      ? Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }))
      : db.rows(statement, values)
  await world.admit(shop)
  await world.started({ db: { ...db, rows } })
  await there.count(1)
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
  )
  expect([away, faults().length]).toEqual([-1, 2])
  expect(await world.db.run('select attempt, delivered from webhook_attempts where workspace_id = $1', [shop.workspaceId])).toEqual([{ attempt: 1, delivered: true }]) // prettier-ignore
})

test('what the filter does not want, or a disabled endpoint, is kept, and sent on request: same id, same bytes, eight new tries', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url, ['message.sent'])
  there.secrets.push(shop.secret)
  await world.started()
  const [id = ''] = await world.admit(shop)
  await world.event(shop, id, 2, 'message.sent')
  await there.count(1)
  expect(sequences(there.received)).toEqual([2])
  const first = eventId(id as MessageId, 1)
  const stateOf = async (event: string) => {
    const detail = await world.desk.event(shop.workspaceId, event)
    return 'state' in detail ? detail.state : detail
  }
  expect(await stateOf(first)).toBe('not_sent')

  there.answer = status(500)
  expect(await world.desk.replayEvent(shop.workspaceId, first, 'operator:test')).toEqual({ replayed: 1 })
  await there.count(9)
  await world.eventually(
    () => stateOf(first),
    (state) => state === 'failed',
  )
  there.answer = ok
  await world.desk.replayEvent(shop.workspaceId, first, 'operator:test')
  await there.count(10)
  const firsts = there.received.filter(({ event }) => event.id === first)
  expect(firsts).toHaveLength(9)
  expect(new Set(firsts.map(({ raw }) => raw.toString('hex'))).size).toBe(1)
  expect(firsts.every(({ proved }) => proved.current === shop.secret)).toBe(true)
  await world.eventually(
    () => stateOf(first),
    (state) => state === 'delivered',
  )

  await world.desk.disable(shop.workspaceId, 'operator:test')
  expect(await world.desk.replayEvent(shop.workspaceId, first, 'operator:test')).toMatchObject({
    refused: true,
    code: 'conflict',
  })
  await world.desk.set(shop.workspaceId, { url: there.url, events: null }, 'operator:test')
  const [second = ''] = await world.admit(shop)
  expect(await world.queued(shop.workspaceId)).toBe(0)
  await world.desk.enable(shop.workspaceId, 'operator:test')
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000) }
  expect(await world.desk.replayRange(shop.workspaceId, { ...range, undelivered: true }, 'operator:test')).toEqual({
    replayed: 1,
  })
  await there.until((all) => all.some(({ event }) => event.id === eventId(second as MessageId, 1)))
  // All of a time: what was delivered, too.
  const before = there.received.length
  expect(await world.desk.replayRange(shop.workspaceId, { ...range, undelivered: false }, 'operator:test')).toEqual({
    replayed: 3,
  })
  await there.count(before + 3)
  // Who did it stays known.
  const { host: target } = new URL(there.url)
  expect(await audited(shop.workspaceId, 'webhook.replayed')).toEqual([
    { actor: 'operator:test', target, facts: { event: first } },
    { actor: 'operator:test', target, facts: { event: first } },
    {
      actor: 'operator:test',
      target,
      facts: { from: range.from.toISOString(), to: range.to.toISOString(), undelivered: true },
    },
    {
      actor: 'operator:test',
      target,
      facts: { from: range.from.toISOString(), to: range.to.toISOString(), undelivered: false },
    },
  ])
})

test('what is sent again of a time is what the filter wants: an outage does not end in a flood of what nobody asked for', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url, ['message.failed'])
  const [id = ''] = await world.admit(shop)
  await world.event(shop, id, 2, 'message.failed')
  await world.db.run('delete from webhook_queue')
  const range = { from: new Date(Date.now() - 60_000), to: new Date(Date.now() + 60_000) }
  const again = async (undelivered: boolean) => {
    const answer = await world.desk.replayRange(shop.workspaceId, { ...range, undelivered }, 'operator:test')
    const queued = await world.value('select array_agg(sequence) from webhook_queue where workspace_id = $1', [
      shop.workspaceId,
    ])
    await world.db.run('delete from webhook_queue')
    return { answer, queued }
  }
  expect(await again(true)).toEqual({ answer: { replayed: 1 }, queued: [2] })
  expect(await again(false)).toEqual({ answer: { replayed: 1 }, queued: [2] })
  // Who has asked for more since gets the earlier ones, too.
  await world.desk.set(shop.workspaceId, { url: there.url, events: null }, 'operator:test')
  expect((await again(true)).answer).toEqual({ replayed: 2 })
})

test('what waits for its next try waits no more while the endpoint is disabled, in the log and in the story of the message', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  there.answer = status(500)
  const node = await world.started({ timeScale: 1 })
  const [id = ''] = await world.admit(shop)
  const event = eventId(id as MessageId, 1)
  const told = async () => {
    const [detail, log, story] = await Promise.all([
      world.desk.event(shop.workspaceId, event),
      world.desk.log(shop.workspaceId, undefined),
      readWebhooksOfMessage(world.db, shop.workspaceId, id as MessageId),
    ])
    if (!('state' in detail) || !('items' in log)) throw new Error('refused')
    return [detail, log.items[0], story.get(1)].map((each) => [each?.state, each?.nextAttemptAt !== undefined])
  }
  await there.count(1)
  await world.eventually(told, ([first]) => first?.[0] === 'waiting')
  await node.stop()
  await world.desk.disable(shop.workspaceId, 'operator:test')
  expect(await told()).toEqual(Array.from({ length: 3 }, () => ['failed', false]))
  // Before it came due: it goes on where it was.
  await world.desk.enable(shop.workspaceId, 'operator:test')
  expect(await told()).toEqual(Array.from({ length: 3 }, () => ['waiting', true]))
})

test('an endpoint that is disabled behind a claim gets nothing of it, and no try is counted', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  const db = world.anotherNode()
  let claims = 0
  await world.started({
    db: {
      ...db,
      rows: async (statement, values) => {
        const rows = await db.rows(statement, values)
        if (statement.name === 'webhook-claim' && rows.length > 1 && ++claims === 1)
          await world.desk.disable(shop.workspaceId, 'operator:test')
        return rows as never
      },
    },
  })
  await world.admit(shop)
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0 && claims > 0,
  )
  expect(there.received).toEqual([])
  expect(await world.value('select count(*)::integer from webhook_attempts where workspace_id = $1', [shop.workspaceId])).toBe(0) // prettier-ignore
})

/** Its first request waits for an answer until `open`. */
function hanging(there: WebhookReceiver): { open: () => void } {
  const first = { open: (): void => undefined }
  there.answer = (one, response) => {
    there.answer = ok
    first.open = () => ok(one, response)
  }
  return first
}
const leased = () => world.value<number>('select count(*)::integer from webhook_queue where lease_until is not null')

test.each([
  ['disabled', (shop: WorkspaceId) => world.desk.disable(shop, 'operator:test')],
  ['moved', async (shop: WorkspaceId) => world.desk.set(shop, { url: (await receiver()).url }, 'operator:test')],
] as const)(
  'an endpoint that is %s while an event waits behind one that hangs gets that event no more',
  async (_how, change) => {
    const there = await receiver()
    const first = hanging(there)
    const shop = await world.customer(there.url)
    await world.started()
    const [id = ''] = await world.admit(shop)
    await there.count(1)
    await world.event(shop, id, 2)
    await world.eventually(leased, (many) => many === 2)
    await change(shop.workspaceId)
    // It has waited for a while.
    const now = performance.now.bind(performance)
    const later = vi.spyOn(performance, 'now').mockImplementation(() => now() + 5_000)
    try {
      first.open()
      await world.eventually(
        () => world.queued(shop.workspaceId),
        (many) => many === 0,
      )
    } finally {
      later.mockRestore()
    }
    expect(sequences(there.received)).toEqual([1])
  },
)

test('a sender that wakes up behind its lease takes its own tries for lost only where somebody else did', async () => {
  const there = await receiver()
  const first = hanging(there)
  const shop = await world.customer(there.url)
  const db = world.anotherNode()
  const date = Date.now.bind(Date)
  const asked: string[] = []
  let sleeps = false
  const sleepy: Db = {
    ...db,
    rows: async (statement, values) => {
      if (sleeps || asked.length > 0) asked.push(statement.name)
      if (sleeps && statement.name === 'webhook-reap') {
        sleeps = false
        await db.run(
          `update webhook_queue set lease_until = app_now() - interval '1 hour' where lease_until is not null`,
        )
        vi.spyOn(Date, 'now').mockImplementation(() => date() + 3600_000)
        throw new Error('the line is down')
      }
      return db.rows(statement, values)
    },
  }
  await world.started({ db: sleepy })
  await world.admit(shop)
  await there.count(1)
  sleeps = true
  try {
    await world.eventually(
      () => asked.filter((name) => name === 'webhook-reap').length,
      (many) => many > 2,
    )
    first.open()
    await world.eventually(
      () => world.queued(shop.workspaceId),
      (many) => many === 0,
    )
  } finally {
    vi.restoreAllMocks()
  }
  expect(there.received).toHaveLength(1)
  const [id] = there.received.map(({ event }) => event.data.messageId)
  expect(
    await world.db.run('select attempt, delivered, trouble from webhook_attempts where message_id = $1', [id]),
  ).toEqual([{ attempt: 1, delivered: true, trouble: null }])
})

test('an endpoint whose last change a failover has lost is not remembered as it was before that', async () => {
  const [lost, there] = [await receiver(), await receiver()]
  const shop = await world.customer(there.url)
  await world.desk.set(shop.workspaceId, { url: lost.url }, 'operator:test')
  await world.started()
  await world.admit(shop)
  await lost.count(1)
  await world.db.run('update webhook_endpoints set url = $2, version = version - 1 where workspace_id = $1', [
    shop.workspaceId,
    there.url,
  ])
  const now = performance.now.bind(performance)
  const later = vi.spyOn(performance, 'now').mockImplementation(() => now() + limits.webhookEndpointKeptMs)
  try {
    await world.admit(shop)
    await there.count(1)
  } finally {
    later.mockRestore()
  }
  expect(lost.received).toHaveLength(1)
})

test("a sender that is cut off from the database for longer than its lease posts nothing of what is others' by now", async () => {
  const there = await receiver()
  const first = hanging(there)
  const shop = await world.customer(there.url)
  const db = world.anotherNode()
  let isCut = true
  const cut: Db = {
    ...db,
    rows: (statement, values) =>
      isCut && statement.name === 'webhook-heartbeat'
        ? Promise.reject(new Error('the line is down'))
        : db.rows(statement, values),
  }
  await world.started({ db: cut, leaseMs: 2_000 })
  const [id = ''] = await world.admit(shop)
  await there.count(1)
  await world.event(shop, id, 2)
  await world.eventually(leased, (many) => many === 2)
  // Both were taken away from it. It has claimed them anew, and keeps the order: they wait behind what hangs.
  const lost = `select count(*)::integer from webhook_attempts where message_id = $1 and trouble = 'worker_lost' and attempt = 1`
  await world.eventually(
    () => world.value<number>(lost, [id]),
    (many) => many === 2,
  )
  isCut = false
  first.open()
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
  )
  expect(sequences(there.received)).toEqual([1, 1, 2])
})

test('what a receiver has answered is written down when the database answers again, and the event is not posted again for it', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  const db = world.anotherNode()
  let refusals = 0
  const away: Db = {
    ...db,
    rows: (statement, values) =>
      statement.name === 'webhook-end' && ++refusals <= 2
        ? Promise.reject(Object.assign(new Error('the line was cut'), { code: 'ECONNRESET' }))
        : db.rows(statement, values),
  }
  await world.started({ resultDb: away })
  await world.admit(shop)
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
  )
  expect(refusals).toBeGreaterThan(2)
  expect(there.received).toHaveLength(1)
})

test('what retention has taken away meanwhile leaves the queue, and is not claimed for ever', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  const [id = ''] = await world.admit(shop)
  await world.db.run('delete from events where message_id = $1', [id])
  await world.started()
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
    5_000,
  )
  expect(there.received).toEqual([])
})

test('an endpoint that answers 410 to the last try of an event is disabled; the operator reads it in the log', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  there.answer = status(410)
  await world.started()
  await world.admit(shop)
  await there.count(8)
  const endpoint = await world.eventually(
    () => world.desk.show(shop.workspaceId),
    (shown) => 'state' in shown && shown.state === 'disabled',
  )
  expect(endpoint).toMatchObject({ state: 'disabled', reason: 'receiver_gone', disabledAt: expect.any(Date) as Date })
  expect(world.lines.find(({ facts }) => facts['outcome'] === 'endpoint_disabled')?.facts).toMatchObject({
    workspaceId: shop.workspaceId,
    reason: 'receiver_gone',
  })
  await world.admit(shop)
  expect(await world.queued(shop.workspaceId)).toBe(0)
  expect(there.received).toHaveLength(8)
  expect(await world.value('select count(*)::integer from events where workspace_id = $1', [shop.workspaceId])).toBe(2)
})

test('what a disabled endpoint left in the queue goes in one walk after the other, with no rest between them', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  await world.admit(shop, 10 * limits.webhookShareFirst)
  await world.desk.disable(shop.workspaceId, 'operator:test')
  // One that rests for longer than this test may take.
  await world.started({ timeScale: 0.001 })
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (many) => many === 0,
    20_000,
  )
  expect(there.received).toEqual([])
})

test('after 120 hours without one success an endpoint is disabled; a success before that starts anew', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  there.answer = status(500)
  const node = await webhookNode(1)
  const failingFor = (hours: number) =>
    world.db.run(
      `update webhook_endpoints set failing_since = app_now() - $2 * interval '1 hour' where workspace_id = $1`,
      [shop.workspaceId, hours],
    )
  const shown = () => world.desk.show(shop.workspaceId)
  await world.admit(shop)
  await world.eventually(shown, (endpoint) => 'failingSince' in endpoint && endpoint.failingSince !== undefined)
  await failingFor(119)
  await world.admit(shop)
  await there.count(2)
  there.answer = ok
  await world.admit(shop)
  await world.eventually(shown, (endpoint) => 'state' in endpoint && endpoint.failingSince === undefined)
  there.answer = status(500)
  await world.admit(shop)
  await world.eventually(shown, (endpoint) => 'state' in endpoint && endpoint.failingSince !== undefined)
  await failingFor(121)
  // The same URL again, as when only the filter is changed, is no new beginning; another one is.
  const elsewhere = `${there.url}moved`
  await world.desk.set(shop.workspaceId, { url: there.url }, 'operator:test')
  expect(await shown()).toHaveProperty('failingSince')
  await world.desk.set(shop.workspaceId, { url: elsewhere }, 'operator:test')
  expect(await shown()).not.toHaveProperty('failingSince')
  await failingFor(121)
  await world.admit(shop)
  expect(
    await world.eventually(shown, (endpoint) => 'state' in endpoint && endpoint.state === 'disabled'),
  ).toMatchObject({
    reason: 'no_success',
  })
  // What still waits for a retry is not posted any more.
  await world.db.run('update webhook_queue set due_at = app_now() where workspace_id = $1', [shop.workspaceId])
  const many = there.received.length
  await world.eventually(
    () => world.queued(shop.workspaceId),
    (left) => left === 0,
  )
  expect(there.received).toHaveLength(many)
  await node.stop()
})

test('the time in which nobody posted is no time without a success: a start after weeks disables no endpoint at its first failure', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  there.answer = status(500)
  const shown = () => world.desk.show(shop.workspaceId)
  const failing = () =>
    world.eventually(shown, (endpoint) => 'state' in endpoint && endpoint.failingSince !== undefined)
  const first = await webhookNode(1)
  await world.admit(shop)
  await failing()
  await first.stop()
  const later = Date.now() + 14 * 86_400_000
  await world.setClock(new Date(later).toISOString())
  try {
    const second = await webhookNode(1)
    await there.count(2)
    await world.eventually(
      () =>
        world.value<boolean>('select count(*) > 1 from webhook_attempts where workspace_id = $1', [shop.workspaceId]),
      (written) => written,
    )
    expect(await shown()).toMatchObject({ state: 'active', failingSince: expect.any(Date) as Date })
    const since = await world.value<Date>('select failing_since from webhook_endpoints where workspace_id = $1', [shop.workspaceId]) // prettier-ignore
    expect(later - since.getTime()).toBeLessThan(86_400_000)
    await second.stop()
  } finally {
    await world.setClock()
  }
})

test('a rotation while events flow: every one proves a secret that its receiver knows', async () => {
  // In real time: a busy machine may take longer than a scaled day.
  const desk = makeWebhookDesk({ db: world.db, vault, targets: anywhere, timeScale: 1 })
  const there = await receiver()
  const shop = await world.customer(there.url)
  there.secrets.push(shop.secret)
  await world.started()
  const flow = async (many: number) => {
    const before = there.received.length
    await world.admit(shop, many)
    await there.count(before + many)
    return there.received.slice(before)
  }
  const flowing = flow(100)
  const rotated = await desk.rotate(shop.workspaceId, 'operator:test')
  const fresh = 'secret' in rotated ? (rotated.secret ?? '') : ''
  expect(fresh).toMatch(/^whsec_[\w-]{43}$/)
  there.secrets.push(fresh)
  await flowing
  const prepared = await flow(1)
  expect(prepared[0]?.proved).toEqual({ current: shop.secret, next: fresh, previous: undefined })
  const during = flow(100)
  await desk.promote(shop.workspaceId, 'operator:test')
  expect((await during).every(({ proved }) => proved.current !== false)).toBe(true)
  const promoted = await flow(1)
  expect(promoted[0]?.proved).toEqual({ current: fresh, next: undefined, previous: shop.secret })
  // Almost 24 hours later; the sender may have read that, or not.
  await world.db.run(
    `update webhook_endpoints set previous_until = app_now() + interval '0.3 seconds', version = version + 1 where workspace_id = $1`,
    [shop.workspaceId],
  )
  await flow(1)
  await world.eventually(
    () => desk.show(shop.workspaceId),
    (endpoint) => 'state' in endpoint && endpoint.previousUntil === undefined,
  )
  expect((await flow(1))[0]?.proved).toEqual({ current: fresh, next: undefined, previous: undefined })
  expect(await desk.promote(shop.workspaceId, 'operator:test')).toMatchObject({ code: 'conflict' })
})

// What is left of it was true when the database was asked.
test('a replaced secret signs no longer than it should, however late the database answers', async () => {
  const late: Db = {
    ...world.db,
    rows: async (statement, values) => {
      const answer = await world.db.rows(statement, values)
      await new Promise((resolve) => setTimeout(resolve, 150))
      return answer as never
    },
  }
  const shop = await world.customer('http://127.0.0.1:9/')
  const desk = makeWebhookDesk({ db: world.db, vault, targets: anywhere, timeScale: 1 })
  await desk.rotate(shop.workspaceId, 'operator:test')
  await desk.promote(shop.workspaceId, 'operator:test')
  const endpoint = async (forMs: number) => {
    await world.db.run(
      `update webhook_endpoints set previous_until = app_now() + $2 * interval '1 millisecond' where workspace_id = $1`,
      [shop.workspaceId, forMs],
    )
    return makeKnownEndpoints(late, vault).get(shop.workspaceId, 0, 0)
  }
  expect((await endpoint(60_000))?.signers().previous).toBeDefined()
  expect((await endpoint(140))?.signers().previous).toBeUndefined()
})

test('10 hanging endpoints of 100: the others hear of everything within 2 seconds', async () => {
  const [good, bad] = [await receiver(), await receiver()]
  bad.answer = silence
  const customers = await Promise.all(
    Array.from({ length: 100 }, (_, index) => world.customer(`${index < 10 ? bad.url : good.url}/${index}`)),
  )
  await webhookNode(1)
  const began = new Map<string, number>()
  for (let round = 0; round < 4; round++)
    for (const [index, shop] of customers.entries()) {
      const ids = await world.admit(shop, index < 10 ? 20 : 2)
      for (const id of ids) began.set(id, performance.now())
    }
  await good.count(4 * 2 * 90)
  const late = good.received
    .map(({ event, at }) => at - (began.get(event.data.messageId ?? '') ?? 0))
    .sort((a, b) => a - b)
  expect(late[Math.floor(late.length * 0.95)]).toBeLessThan(2_000)
})

test('connections are kept for one workspace alone, also where two have the same URL', async () => {
  const there = await receiver()
  const [one, other] = [await world.customer(there.url), await world.customer(there.url)]
  await world.started()
  for (let turn = 0; turn < 3; turn++) {
    for (const shop of [one, other]) {
      const before = there.received.length
      await world.admit(shop)
      await there.count(before + 1)
    }
  }
  const used = (shop: typeof one) =>
    new Set(
      there.received
        .filter(({ event }) => event.data.organizationId === shop.workspaceId)
        .map(({ connection }) => connection),
    )
  expect([...used(one)].filter((connection) => used(other).has(connection))).toEqual([])
  expect(there.connections()).toBeLessThan(6)
})

test('a test event is posted whatever the filter says, and not more often than once a second', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url, ['message.failed'])
  await world.started()
  const asked = await world.desk.test(shop.workspaceId, 'operator:test')
  const [one] = await there.count(1)
  expect(one?.event).toMatchObject({
    id: 'eventId' in asked ? asked.eventId : '',
    type: 'webhook.test',
    data: { test: true, message: expect.any(String) as string },
  })
  expect(await world.desk.test(shop.workspaceId, 'operator:test')).toMatchObject({ code: 'too_many_attempts' })
  expect(await audited(shop.workspaceId, 'webhook.tested')).toEqual([
    { actor: 'operator:test', target: new URL(there.url).host, facts: { event: one?.event.id } },
  ])
})

test('an event reaches the receiver soon, and an idle sender asks the database seldom', async () => {
  const there = await receiver()
  const shop = await world.customer(there.url)
  await webhookNode(1)
  const late: number[] = []
  for (let turn = 0; turn < 20; turn++) {
    const [id = ''] = await world.admit(shop)
    const at = performance.now()
    await there.until((all) => all.some(({ event }) => event.data.messageId === id))
    late.push(performance.now() - at)
  }
  // Far above what it takes, far below the pause between two looks: the notification wakes it.
  expect(late.sort((a, b) => a - b)[10]).toBeLessThan(250)
})

survivesItsLife(
  'webhooks',
  () => Promise.resolve(world.senderNode()),
  async (_, withinMs) => {
    const there = await receiver()
    const shop = await world.customer(there.url)
    await world.admit(shop)
    await there.count(1, withinMs)
    await world.eventually(
      () => world.queued(shop.workspaceId),
      (many) => many === 0,
    )
  },
)

const audited = (workspace: WorkspaceId, action: string) =>
  world.db.run('select actor, target, facts from audit_log where workspace_id = $1 and action = $2 order by id', [
    workspace,
    action,
  ])
