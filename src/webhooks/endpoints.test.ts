// What becomes of an endpoint: disabled or moved it gets nothing more, and only a receiver that says so, or has taken nothing for long enough, disables it.
import { expect, onTestFinished, test, vi } from 'vitest'
import { ok, status } from '../../test/world/webhook-receiver.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { makeKnownEndpoints } from './known-endpoints.ts'
import { anywhere, customerThere, hanging, leased, receiver, sequences, vault, world } from './sender.test-kit.ts'
import { makeWebhookDesk } from './webhooks.ts'

/** Until the sender has stopped: for it this clock never goes back, and what began by the moved one would wait for so long. */
function moveClock(ms: number): void {
  const now = performance.now.bind(performance)
  const later = vi.spyOn(performance, 'now').mockImplementation(() => now() + ms)
  onTestFinished(() => later.mockRestore())
}

test('an endpoint that is disabled behind a claim gets nothing of it, and no try is counted', async () => {
  const { there, shop } = await customerThere()
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
    moveClock(5_000) // it has waited for a while
    first.open()
    await world.emptied(shop)
    expect(sequences(there.received)).toEqual([1])
  },
)

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
  moveClock(limits.webhookEndpointKeptMs)
  await world.admit(shop)
  await there.count(1)
  expect(lost.received).toHaveLength(1)
})

test('an endpoint that answers 410 to the last try of an event is disabled; the operator reads it in the log', async () => {
  const { there, shop } = await customerThere()
  there.answer = status(410)
  await world.started()
  await world.admit(shop)
  await there.count(8)
  const endpoint = await world.eventually(
    () => world.desk.show(shop.workspaceId),
    (shown) => 'state' in shown && shown.state === 'disabled',
  )
  expect(endpoint).toMatchObject({ state: 'disabled', reason: 'receiver_gone', disabledAt: expect.any(Date) as Date })
  const told = await world.eventually(
    () => world.lines.find(({ facts }) => facts['outcome'] === 'endpoint_disabled'),
    (line) => line !== undefined,
  )
  expect(told?.facts).toMatchObject({ workspaceId: shop.workspaceId, reason: 'receiver_gone' })
  await world.admit(shop)
  expect(await world.queued(shop.workspaceId)).toBe(0)
  expect(there.received).toHaveLength(8)
  expect(await world.value('select count(*)::integer from events where workspace_id = $1', [shop.workspaceId])).toBe(2)
})

test('what a disabled endpoint left in the queue goes in one walk after the other, with no rest between them', async () => {
  const { there, shop } = await customerThere()
  await world.admit(shop, 10 * limits.webhookShareFirst)
  await world.desk.disable(shop.workspaceId, 'operator:test')
  // One that rests for longer than this test may take.
  await world.started({ timeScale: 0.001 })
  await world.emptied(shop, 20_000)
  expect(there.received).toEqual([])
})

test('after 120 hours without one success an endpoint is disabled; a success before that starts anew', async () => {
  const { there, shop } = await customerThere()
  there.answer = status(500)
  const node = await world.started({ timeScale: 1 })
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
  // Its owner is told since when nothing got through, and not only when that was found out.
  expect(
    await world.value<boolean>(
      `select failing_since < app_now() - interval '120 hours' from webhook_endpoints where workspace_id = $1`,
      [shop.workspaceId],
    ),
  ).toBe(true)
  // What still waits for a retry is not posted any more.
  await world.db.run('update webhook_queue set due_at = app_now() where workspace_id = $1', [shop.workspaceId])
  const many = there.received.length
  await world.emptied(shop)
  expect(there.received).toHaveLength(many)
  // Whoever enables it has all that time again.
  await world.desk.enable(shop.workspaceId, 'operator:test')
  expect(await shown()).not.toHaveProperty('failingSince')
  await world.admit(shop)
  expect(
    await world.eventually(shown, (endpoint) => 'state' in endpoint && endpoint.failingSince !== undefined),
  ).toMatchObject({ state: 'active' })
  await node.stop()
})

test('the time in which nobody posted is no time without a success: a start after weeks disables no endpoint at its first failure', async () => {
  const { there, shop } = await customerThere()
  there.answer = status(500)
  const shown = () => world.desk.show(shop.workspaceId)
  const failing = () =>
    world.eventually(shown, (endpoint) => 'state' in endpoint && endpoint.failingSince !== undefined)
  const first = await world.started({ timeScale: 1 })
  await world.admit(shop)
  await failing()
  await first.stop()
  const later = Date.now() + 14 * 86_400_000
  await world.setClock(new Date(later).toISOString())
  try {
    const second = await world.started({ timeScale: 1 })
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
