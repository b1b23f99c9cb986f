// An endpoint fails in the time in which somebody posts to it, and in no other.
import { afterEach, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import { storeWorld } from './store.test-kit.ts'
import { watched } from './watched.test-kit.ts'
import { sendersThere } from './webhook-senders.ts'

const world = await storeWorld()
afterEach(async () => {
  vi.useRealTimers()
  await world.setClock()
})

const start = Date.parse('2026-11-01T12:00:00Z')
const at = (ms: number): Promise<void> => world.setClock(new Date(start + ms).toISOString())
/** A node that says it for the first time. */
const said = (): Promise<unknown> => sendersThere(world.db)()
async function failing(sinceMs: number): Promise<() => Promise<number>> {
  const { workspaceId } = await world.sender()
  await world.db.run(
    `insert into webhook_endpoints (workspace_id, url, api_version, secret_sealed, failing_since)
     values ($1, 'https://there.example/', '2026-11-01', '', $2)`,
    [workspaceId, new Date(start + sinceMs)],
  )
  const since = 'select failing_since from webhook_endpoints where workspace_id = $1'
  return async () => (await world.value<Date>(since, [workspaceId])).getTime() - start
}

test('a pause that is no absence counts; of an absence nothing does, also for who began to fail after the last word', async () => {
  await at(0)
  await said()
  const [long, short] = [await failing(0), await failing(limits.webhookAwayMs + 1_000)]
  await at(limits.webhookAwayMs)
  await said()
  expect(await long()).toBe(0)
  const back = 14 * 86_400_000
  await at(back)
  await said()
  expect([await long(), await short()]).toEqual([back - limits.webhookAwayMs, back])
})

// Nothing was posted to anybody until it was free.
test('behind an absence nobody waits for an endpoint that somebody holds', async () => {
  await world.db.run('delete from webhook_endpoints')
  await at(0)
  await said()
  const [held, other] = [await failing(0), await failing(0)]
  const holder = await world.holding(
    'select from webhook_endpoints where failing_since is not null order by workspace_id limit 1 for update',
  )
  const back = 14 * 86_400_000
  await at(back)
  await said()
  expect([await held(), await other()]).toEqual([0, back])
  await holder.query('rollback')
})

test('it is said once in a while, again at once where it could not be said, and also when the clock was set back', async () => {
  let statements = 0
  const there = sendersThere(watched(world.db, { asked: () => statements++ }))
  vi.useFakeTimers({ toFake: ['Date'] })
  await world.db.run('alter table installation rename to elsewhere')
  try {
    await expect(there()).rejects.toThrow('installation')
  } finally {
    await world.db.run('alter table elsewhere rename to installation')
  }
  const before = statements
  for (let n = 0; n < 3; n++) await there()
  expect(statements).toBe(before + 1)
  vi.setSystemTime(Date.now() + limits.webhookThereMs)
  await there()
  expect(statements).toBe(before + 2)
  vi.setSystemTime(Date.now() - 3_600_000)
  await there()
  expect(statements).toBe(before + 3)
})

test('whoever asks while it is being said waits for it: a result that is written before would count the absence', async () => {
  await said()
  const holder = await world.holding(`select from installation where name = 'webhook_senders_there' for update`)
  const there = sendersThere(world.db)
  const order: string[] = []
  const first = there()
  const second = there().then(() => order.push('asked'))
  const blocked =
    'select 1 from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0'
  while ((await world.db.run(blocked)).length === 0);
  order.push('free')
  await holder.query('rollback')
  await Promise.all([first, second])
  expect(order).toEqual(['free', 'asked'])
})
