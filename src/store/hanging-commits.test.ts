// The synchronous standby is away for longer than a moment: what may hang with the server, and what goes on.
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startCluster, type Cluster } from '../../test/world/postgres-cluster.ts'
import { isDatabaseAway, openDatabase, surelyAborted, type Db } from './database.ts'
import { listen } from './listen.ts'
import { whyNothingIsWritten, whyUnfit } from './server-facts.ts'

let cluster: Cluster
let url: string
beforeAll(async () => {
  cluster = await startCluster()
  url = `postgres://postgres@localhost/postgres?host=${cluster.primary.host}&port=${cluster.primary.port}`
  await cluster.primary.query('create table kept (n integer primary key)')
}, 60_000)
afterAll(() => cluster?.remove())

const hanging = () => cluster.primary.query(`select from pg_stat_activity where wait_event = 'SyncRep'`)

test('while commits hang, no more of them are left with the server than the pools have lines; questions are answered, and what is written fails at once, surely undone', async () => {
  const name = 'posthorn test'
  const db = openDatabase({ url }, { name, connectionsMax: 2, answerMs: 5_000 })
  const doors: ((n: number, db: Db) => Promise<unknown>)[] = [
    (n, db) => db.run('insert into kept values ($1)', [n]),
    (n, db) => db.transaction((tx) => tx.run('insert into kept values ($1)', [n])),
  ]
  await cluster.waitsFor('follower')
  let n = 0
  const writing = [1, 2].map(async (end) => {
    // The setting is read a moment later.
    for (; (await hanging()).length < end; n += 1) await db.run('insert into kept values ($1)', [n])
  })
  const [ended] = await Promise.allSettled(writing)
  expect(ended?.status).toBe('rejected')
  await Promise.allSettled(writing)

  for (const write of doors)
    for (let times = 0; times < 4; times += 1) {
      const error = await write((n += 1), db).then(
        () => 'written',
        (error: unknown) => error,
      )
      expect(error).toMatchObject({ message: expect.stringContaining('wait for a synchronous standby') as unknown })
      expect([isDatabaseAway(error), surelyAborted(error)]).toEqual([true, true])
    }
  expect(await db.run('select 1 as one')).toEqual([{ one: 1 }])
  expect(await whyNothingIsWritten(db.rows)).toBe('waiting for a synchronous standby: every commit does')
  // It is no server that takes nothing.
  expect(await whyUnfit(db)).toBeUndefined()
  expect((await hanging()).length).toBeLessThanOrEqual(2)

  await cluster.waitsFor('')
  await expect.poll(async () => (await hanging()).length).toBe(0)
  // Lines that only read are given up one after the other, when they have done so for long enough.
  for (const write of doors) await vi.waitFor(() => write((n += 1), db), 10_000)
  await db.close()
}, 60_000)

test('a session that lasts, and was opened while commits hung, writes when that is over', async () => {
  const db = openDatabase({ url }, { name: 'posthorn test', connectionsMax: 1, answerMs: 5_000 })
  await cluster.waitsFor('follower')
  await expect(
    (async () => {
      for (let n = 1_000; ; n += 1) await db.run('insert into kept values ($1)', [n])
    })(),
  ).rejects.toThrow()
  const heard: string[] = []
  const written = Promise.withResolvers<undefined>()
  const ears = listen({ url }, 'posthorn_test', (ask) => {
    ask({ name: 'write', text: 'insert into kept values (-1)' }).then(
      () => written.resolve(undefined),
      (error: Error) => heard.push(error.name),
    )
  })
  await expect.poll(() => heard).toContain('CommitsHang')
  const left = (await hanging()).length
  await cluster.waitsFor('')
  await written.promise
  expect(left).toBe(1)
  await Promise.all([ears.stop(), db.close()])
}, 60_000)
