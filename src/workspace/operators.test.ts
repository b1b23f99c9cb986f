// What operators are told of the queue, over a real one.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { storeWorld, type Sender, type StoreWorld } from '../store/store.test-kit.ts'
import { readLanes } from '../store/views/operations.ts'
import { setDrain } from '../store/fence.ts'
import { readHealth, readQueue } from './workspace.ts'

let world: StoreWorld
let shop: Sender

beforeAll(async () => {
  world = await storeWorld()
  shop = await world.sender()
})
afterAll(() => world.close())
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

test('what stops delivery is told with the queue and with the installation, without its inner facts', async () => {
  await setDrain(world.db, true)
  const stops = [{ kind: 'drain', reason: expect.any(String) as string, since: expect.any(Date) as Date }]
  expect((await readQueue(world.db)).stops).toEqual(stops)
  expect((await readHealth(world.db, '1')).stops).toEqual(stops)
  await setDrain(world.db, false)
  expect((await readHealth(world.db, '1')).stops).toEqual([])
})
