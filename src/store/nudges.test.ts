// A commit that notifies waits for every other one that does: the busy pools leave it to a session that waits for no disk.
import { afterEach, expect, test, vi } from 'vitest'
import type { Notification } from 'pg'
import { limits } from '../config.ts'
import { makeAdmitter } from './admit.ts'
import { openDatabase, type Db } from './database.ts'
import { makeNudges, type Nudges } from './nudges.ts'
import { storeWorld } from './store.test-kit.ts'

const heard: Notification[] = []
const ends: (() => Promise<void>)[] = []
const world = await storeWorld()
const listener = await world.session()
listener.on('notification', (notification) => heard.push(notification))
await listener.query('listen posthorn_due; listen posthorn_webhooks')
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
  await world.db.run('delete from webhook_endpoints')
  heard.length = 0
})

function nudging(): Nudges {
  const nudges = makeNudges(world.connection)
  ends.push(() => nudges.close())
  return nudges
}
function pool(nudge?: () => void): Db {
  const db = openDatabase(world.connection, {
    name: 'test',
    connectionsMax: 1,
    answerMs: 10_000,
    ...(nudge !== undefined && { nudge }),
  })
  ends.unshift(() => db.close())
  return db
}
const admitOver = async (db: Db): Promise<number | undefined> => {
  const sender = await world.sender()
  await world.db.run(
    `insert into webhook_endpoints (workspace_id, url, api_version, secret_sealed) values ($1, 'https://a.example/', '2026-11-01', '')`,
    [sender.workspaceId],
  )
  expect(await makeAdmitter(db).admit(world.submission(sender))).toMatchObject({ admitted: true })
  return (await db.run<{ pid: number }>('select pg_backend_pid() pid'))[0]?.pid
}
const channels = () => heard.map(({ channel }) => channel).toSorted()

test('an admission over a pool that tells behind its statements notifies nobody itself, and everybody hears of it', async () => {
  const admitter = await admitOver(pool(nudging().of('posthorn_due', 'posthorn_webhooks')))
  await expect.poll(channels, { timeout: 30_000 }).toEqual(['posthorn_due', 'posthorn_webhooks'])
  expect(heard.map(({ processId }) => processId)).not.toContain(admitter)
})

test('over any other pool, and from an older release, the commit itself notifies', async () => {
  const admitter = await admitOver(pool())
  await expect.poll(channels, { timeout: 30_000 }).toEqual(['posthorn_due', 'posthorn_webhooks'])
  expect(heard.map(({ processId }) => processId)).toEqual([admitter, admitter])
})

test('what comes together is told once; of webhooks only where somebody wants any', async () => {
  const tell = nudging().of('posthorn_due', 'posthorn_webhooks')
  for (let n = 0; n < 1_000; n++) tell()
  // At once for the first of them, and once more for those behind it.
  await expect.poll(channels, { timeout: 30_000 }).toEqual(['posthorn_due', 'posthorn_due'])
  tell()
  await expect.poll(channels, { timeout: 30_000 }).toEqual(['posthorn_due', 'posthorn_due', 'posthorn_due'])
})

test('behind a quiet time it is told again', async () => {
  const quiet = Promise.withResolvers<void>()
  const real = globalThis.setTimeout
  const spaced = vi.spyOn(globalThis, 'setTimeout').mockImplementation((work: () => void, ms?: number) =>
    real(() => {
      work()
      if (ms === limits.nudgeSpacingMs) setImmediate(quiet.resolve)
    }, ms),
  )
  const tell = nudging().of('posthorn_due')
  tell()
  await quiet.promise
  spaced.mockRestore()
  tell()
  await expect.poll(channels, { timeout: 30_000 }).toEqual(['posthorn_due', 'posthorn_due'])
})

test('what was noted before the end is told before it', async () => {
  const nudges = makeNudges(world.connection)
  for (let n = 0; n < 2; n++) nudges.of('posthorn_due')()
  await nudges.close()
  await expect.poll(channels, { timeout: 30_000 }).toEqual(['posthorn_due', 'posthorn_due'])
})

test('a statement whose answer was lost may have been committed, and is told of', async () => {
  const db = pool(nudging().of('posthorn_due'))
  const asked = db.rows({ name: 'cut', text: 'select pg_terminate_backend(pg_backend_pid())' })
  await expect(asked).rejects.toThrow()
  await expect.poll(channels, { timeout: 30_000 }).toEqual(['posthorn_due'])
})

test('while the database is away nobody is told, and nobody minds', async () => {
  const nudges = makeNudges({ url: 'postgres://a:b@127.0.0.1:1/x' })
  nudges.of('posthorn_due')()
  await expect(nudges.close()).resolves.toBeUndefined()
})
