import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCluster, type Cluster } from '../../test/world/postgres-cluster.ts'
import { checkDatabase } from '../doctor/database-checks.ts'
import { openDatabase, type Db } from './database.ts'
import { warningsAboutSnapshots } from './held-snapshots.ts'
import { migrate } from './migrate.ts'

let cluster: Cluster
let db: Db
beforeAll(async () => {
  cluster = await startCluster()
  const url = `postgres://postgres@localhost/postgres?host=${cluster.primary.host}&port=${cluster.primary.port}`
  await migrate({ url })
  db = openDatabase({ url }, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
}, 60_000)
afterAll(async () => {
  await db?.close()
  await cluster?.remove()
})

/** Each in a transaction of its own. */
async function write(times: number): Promise<void> {
  for (let n = 0; n < times; n += 1) await db.run('select pg_current_xact_id()')
}
const told = async (most = 10): Promise<string> => (await warningsAboutSnapshots(db, most)).join()

test('a snapshot that a standby holds is told, which no transaction of this server shows; and one that a slot keeps for a standby that is gone', async () => {
  const standby = await cluster.standby('reader')
  await standby.query('alter system set hot_standby_feedback = on')
  await standby.query('alter system set wal_receiver_status_interval = 1')
  await standby.query('select pg_reload_conf()')
  await write(20)
  const reader = new Client({ host: standby.host, port: standby.port, user: 'postgres', database: 'postgres' })
  reader.on('error', () => undefined)
  await reader.connect()
  await reader.query('begin isolation level repeatable read')
  await reader.query('select 1')
  await write(20)
  await expect
    .poll(() => told(), { timeout: 20_000 })
    .toMatch(/ago is kept for the standby '[a-z]+' .*hot_standby_feedback off/)
  expect(await warningsAboutSnapshots(db)).toEqual([])
  await reader.end()
  await expect.poll(() => told(), { timeout: 20_000 }).toBe('')

  await db.run(`select pg_create_physical_replication_slot('gone')`)
  await standby.query(`alter system set primary_slot_name = 'gone'`)
  await standby.query('select pg_reload_conf()')
  await expect
    .poll(() => db.run('select from pg_replication_slots where xmin is not null'), { timeout: 20_000 })
    .toHaveLength(1)
  await write(20)
  await expect.poll(() => told(), { timeout: 20_000 }).toBe('')
  await standby.kill()
  await expect.poll(() => db.run('select from pg_replication_slots where active')).toHaveLength(0)
  await write(20)
  expect(await told()).toMatch(/the replication slot 'gone' .*Nobody is connected.*pg_drop_replication_slot\('gone'\)/)
  expect((await checkDatabase(db)).detail).not.toContain('gone')
  await db.run(`create function public.age(xid) returns integer language sql as 'select 2000000'`)
  await db.run('set search_path = public, pg_catalog')
  expect(await checkDatabase(db)).toMatchObject({
    status: 'warn',
    detail: expect.stringContaining(`'gone'`) as unknown,
  })
}, 90_000)
