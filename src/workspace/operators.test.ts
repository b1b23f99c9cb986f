// What operators are told of the queue, over a real one.
import { beforeEach, expect, test } from 'vitest'
import { storeWorld } from '../store/store.test-kit.ts'
import { readLanes } from '../store/views/operations.ts'
import { setDrain } from '../store/fence.ts'
import { readHealth, readQueue } from './workspace.ts'

const world = await storeWorld()
const shop = await world.sender()
beforeEach(() => world.db.run('delete from outbound'))

const waiting = (many: number, domains: number) =>
  world.db.run(
    `insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
     select gen_random_uuid(), $1, $2, 'd' || n % $4 || '.example', app_now(), app_now() + interval '1 day' from generate_series(1, $3) n`,
    [shop.workspaceId, shop.mailboxId, many, domains],
  )

test('the total of the queue is of all groups, also of those that are not shown', async () => {
  expect(await readQueue(world.db)).toEqual({ total: 0, truncated: false, groups: 0, lanes: [], stops: [] })
  await waiting(260, 260)
  const { lanes, ...sums } = await readQueue(world.db)
  expect(sums).toEqual({ total: 260, truncated: false, groups: 260, stops: [] })
  expect(lanes).toHaveLength(200)
})

test('the queue is told as truncated exactly where there are more messages than were looked at', async () => {
  await waiting(10, 2)
  const look = async (rowsMax: number) => {
    const [first] = await readLanes(world.db, rowsMax, 1)
    return [first?.total, first?.more]
  }
  expect(await Promise.all([11, 10, 9].map(look))).toEqual([
    [10, false],
    [10, false],
    [9, true],
  ])
})

test('a group tells why it waits: the reason of most of its last attempts, and what one of them saw', async () => {
  const put = async (status: string, reason?: string, trouble?: string) => {
    const id = world.nextId()
    await world.db.run(
      `insert into outbound (message_id, workspace_id, mailbox_id, destination, status, due_at, expires_at)
       values ($1, $2, $3, 'slow.example', $4, app_now(), app_now() + interval '1 day')`,
      [id, shop.workspaceId, shop.mailboxId, status],
    )
    // The one before was another.
    for (const [epoch, facts] of [{ reason: 'dns' }, { reason, trouble }].entries())
      if (reason !== undefined)
        await world.db.run(
          `insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts) values ($1, $2, $3, app_now(), 'retry', $4)`,
          [shop.workspaceId, id, epoch + 1, JSON.stringify(facts)],
        )
    return id
  }
  const why = async () => (await readQueue(world.db)).lanes.map(({ status, reason }) => [status, reason])
  await put('queued')
  expect(await why()).toEqual([['queued', undefined]])
  await put('retrying', 'tls')
  const deferred = [await put('retrying', 'rcpt_4xx'), await put('retrying', 'rcpt_4xx')]
  expect(await why()).toEqual([
    ['retrying', 'rcpt_4xx'],
    ['queued', undefined],
  ])
  const [lane] = (await readQueue(world.db)).lanes
  expect(deferred).toContain(lane?.messageId)
  for (let n = 0; n < 4; n++) await put('retrying', 'connect', 'paced')
  expect((await readQueue(world.db)).lanes[0]).toMatchObject({ reason: 'paced', count: 7 })
})

test('what an attempt saw is told in the words of its message', async () => {
  const id = world.nextId()
  await world.db.run(
    `insert into outbound (message_id, workspace_id, mailbox_id, destination, status, due_at, expires_at)
     values ($1, $2, $3, 'slow.example', 'retrying', app_now(), app_now() + interval '1 day')`,
    [id, shop.workspaceId, shop.mailboxId],
  )
  await world.db.run(
    `insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts) values ($1, $2, 1, app_now(), 'retry', '{"reason": "rcpt_4xx"}')`,
    [shop.workspaceId, id],
  )
  await world.db.run(
    `insert into messages (workspace_id, id, mailbox_id, sender, recipient, recipient_key, subject, source, status, error_message, sequence, accepted_by, created_at)
     values ($1, $2, $3, 'a@b.example', 'c@d.example', 'c@d.example', 's', 'rest', 'retrying', 'mx said to RCPT: 451 later', 3, 'n', app_now())`,
    [shop.workspaceId, id, shop.mailboxId],
  )
  const [lane] = (await readQueue(world.db)).lanes
  expect(lane).toMatchObject({ reason: 'rcpt_4xx', error: 'mx said to RCPT: 451 later', messageId: id })
})

test('what stops delivery is told with the queue and with the installation, without its inner facts', async () => {
  await setDrain(world.db, true)
  const stops = [{ kind: 'drain', reason: expect.any(String) as string, since: expect.any(Date) as Date }]
  expect((await readQueue(world.db)).stops).toEqual(stops)
  expect((await readHealth(world.db, '1')).stops).toEqual(stops)
  await setDrain(world.db, false)
  expect((await readHealth(world.db, '1')).stops).toEqual([])
})
