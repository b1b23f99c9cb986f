// What an owner does with the endpoint and sees of it: the story of each event, sending again, the filter, a new secret, a test event.
import { expect, onTestFinished, test } from 'vitest'
import { ok, status } from '../../test/world/webhook-receiver.ts'
import { eventId } from '../domain/event.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { isRefusal, type Refusal } from '../domain/refusal.ts'
import type { Db } from '../store/database.ts'
import { readWebhooksOfMessage } from '../store/views/message-webhooks.ts'
import { anywhere, customerThere, sequences, vault, world } from './sender.test-kit.ts'
import { makeWebhookDesk } from './webhooks.ts'

const audited = (workspace: WorkspaceId, action: string) =>
  world.db.run('select actor, target, facts from audit_log where workspace_id = $1 and action = $2 order by id', [
    workspace,
    action,
  ])

test('the story of a message tells each post of its events, and when the next is due', async () => {
  const { there, shop } = await customerThere()
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

test('what the filter does not want, or a disabled endpoint, is kept, and sent on request: same id, same bytes, eight new tries', async () => {
  const { there, shop } = await customerThere(['message.sent'])
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
  const { there, shop } = await customerThere(['message.failed'])
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
  const { there, shop } = await customerThere()
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

test('a rotation while events flow: every one proves a secret that its receiver knows', async () => {
  // In real time: a busy machine may take longer than a scaled day.
  const desk = makeWebhookDesk({ db: world.db, vault, targets: anywhere, timeScale: 1 })
  const { there, shop } = await customerThere()
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

test('of two people who have the same endpoint before them, the second hears that the first was there', async () => {
  const shop = await world.sender()
  const { desk } = world
  const at = shop.workspaceId
  const actor = 'operator:test'
  const [first, second] = ['http://127.0.0.1:1/first', 'http://127.0.0.1:1/second']
  const found = <T extends object>(answer: T | Refusal): T => {
    if (isRefusal(answer)) throw new Error(answer.words)
    return answer
  }
  const refused = {
    refused: true,
    code: 'conflict',
    words: expect.stringContaining('changed since you read it') as string,
  }
  // Both have seen that there is none.
  const made = found(await desk.set(at, { url: first, version: 0 }, actor))
  expect(await desk.set(at, { url: second, version: 0 }, actor)).toMatchObject(refused)
  expect(found(await desk.show(at))).toMatchObject({ url: first, version: made.version })
  // One moves it, the other narrows it.
  const moved = found(await desk.set(at, { url: second, version: made.version }, actor))
  expect(await desk.set(at, { url: first, events: ['message.sent'], version: made.version }, actor)).toMatchObject(
    refused,
  )
  expect(found(await desk.show(at))).toEqual(moved)
  // One has given the new secret to the receiver, the other would put another in its place, or promotes what neither knows.
  const prepared = found(await desk.rotate(at, actor, moved.version))
  expect(await desk.rotate(at, actor, moved.version)).toMatchObject(refused)
  const replaced = found(await desk.rotate(at, actor, prepared.version))
  expect(await desk.promote(at, actor, prepared.version)).toMatchObject(refused)
  expect(found(await desk.show(at))).toMatchObject({ rotating: true, version: replaced.version })
  const promoted = found(await desk.promote(at, actor, replaced.version))
  expect(await desk.promote(at, actor, promoted.version)).toMatchObject({
    words: expect.stringContaining('prepared') as string,
  })
  // Whoever names none has it as before: a script that sets what it wants.
  expect(found(await desk.set(at, { url: first }, actor))).toMatchObject({ url: first })
  expect((await audited(at, 'webhook.changed')).length).toBe(2)
  expect((await audited(at, 'webhook.secret_prepared')).length).toBe(2)
})

test('who waits for a change of somebody else behind its lock does not undo it', async () => {
  const shop = await world.sender()
  const { desk } = world
  const made = await desk.set(shop.workspaceId, { url: 'http://127.0.0.1:1/first' }, 'operator:test')
  const version = 'version' in made ? made.version : 0
  const answers = await Promise.all(
    ['second', 'third'].map((path) =>
      desk.set(shop.workspaceId, { url: `http://127.0.0.1:1/${path}`, version }, 'operator:test'),
    ),
  )
  expect(answers.filter((answer) => 'url' in answer)).toHaveLength(1)
  expect(answers.filter((answer) => 'code' in answer)).toMatchObject([{ code: 'conflict' }])
})

test('a test event is posted whatever the filter says, and not more often than once a second', async () => {
  const { there, shop } = await customerThere(['message.failed'])
  await world.started()
  // It stands: beside much else more than a second may lie between the two.
  await world.setClock(new Date().toISOString())
  onTestFinished(() => world.setClock())
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

test('a clock that was ahead at the last test holds back no other, and of an endpoint that is disabled meanwhile nobody is told to wait', async () => {
  const { shop } = await customerThere()
  onTestFinished(() => world.setClock())
  const again = () => world.desk.test(shop.workspaceId, 'operator:test')
  await world.setClock(new Date(Date.now() + 3_600_000).toISOString())
  expect(await again()).toHaveProperty('eventId')
  await world.setClock()
  expect(await again()).toHaveProperty('eventId')
  // Disabled by a failing event, say, between the look and the statement.
  const rows: Db['rows'] = async (statement, values) => {
    if (statement.name === 'webhook-test') await world.desk.disable(shop.workspaceId, 'operator:test')
    return world.db.rows(statement, values)
  }
  const transaction: Db['transaction'] = (work) => world.db.transaction((tx) => work({ ...tx, rows }))
  const slow = makeWebhookDesk({ db: { ...world.db, transaction }, vault, targets: anywhere, timeScale: 1 })
  expect(await slow.test(shop.workspaceId, 'operator:test')).toMatchObject({ code: 'conflict' })
})
