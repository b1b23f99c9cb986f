import { expect, test } from 'vitest'
import { storeWorld } from '../../src/store/store.test-kit.ts'
import { unrestBehind } from './unrest.ts'

const world = await storeWorld()
const query = <Row extends object>(text: string) => world.db.run<Row>(text)

test('a campaign whose time to come to rest is over says what is still open', async () => {
  expect(await unrestBehind(60_000, query)).toEqual([])
  const sender = await world.sender()
  await world.claimed(sender, [{}])
  const event = '01900000-0000-7000-8000-000000000001'
  await world.db.run(
    `insert into webhook_queue (workspace_id, message_id, sequence, due_at)
     values ($1, $2, 3, app_now()), ($1, $2, 4, app_now() + interval '5 minutes')`,
    [sender.workspaceId, event],
  )
  expect(await unrestBehind(0, query)).toEqual([
    expect.stringMatching(/^not quiet: message [0-9a-f-]{36} attempts .* leased until /),
    expect.stringMatching(`^not quiet: webhook ${event} 3 round 1 `),
  ])
})
