// What monitors are told of a database with a standby: on a real one, that follows, that lags, and that goes away.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCluster, type Cluster, type ClusterServer } from '../test/world/postgres-cluster.ts'
import { serverSamples } from './server-samples.ts'
import { openDatabase, type Db } from './store/database.ts'

let cluster: Cluster
let standby: ClusterServer
let db: Db

beforeAll(async () => {
  cluster = await startCluster()
  standby = await cluster.standby('follower')
  db = open('postgres')
}, 90_000)
afterAll(async () => {
  await db?.close()
  await cluster?.remove()
})

const open = (user: string): Db => {
  const { host, port } = cluster.primary
  const connection = { host, port, user, password: '', database: 'postgres' }
  return openDatabase(connection, { name: 'samples', connectionsMax: 1, answerMs: 5_000 })
}

/** By name, and by the label where there is one. */
const told = async (from: Db = db, now: () => Date = () => new Date()): Promise<Record<string, number>> =>
  Object.fromEntries(
    (await serverSamples(from, now)).map(({ name, label, value }) => [
      `${name.replace('posthorn_database_', '')}${label === undefined ? '' : ` ${label}`}`,
      value,
    ]),
  )
const until = (seen: Record<string, unknown>) => expect.poll(() => told(), { timeout: 30_000 }).toMatchObject(seen)
const write = (bytes: number) =>
  cluster.primary.query(`select pg_logical_emit_message(false, 'test', repeat('x', ${bytes}))`)

test('the clock of the database is compared with the one of this node, whichever of them is wrong', async () => {
  const offset = async (aheadMs: number) =>
    (await told(db, () => new Date(Date.now() + aheadMs)))['clock_offset_seconds'] ?? NaN
  expect(await offset(60_000)).toBeCloseTo(-60, 0)
  expect(await offset(-60_000)).toBeCloseTo(60, 0)
  expect(Math.abs(await offset(0))).toBeLessThan(0.1)
})

test('a standby is counted by whether commits wait for it, and how far it is behind is told, of what it has and of what it has applied', async () => {
  await until({ 'standbys synchronous': 0, 'standbys asynchronous': 1, 'standbys hidden': 0, commits_wait: 0 })
  await until({ 'standby_lag_bytes flush': 0, 'standby_lag_bytes replay': 0, archive_failing: 0 })
  await standby.query('select pg_wal_replay_pause()')
  await write(3_000_000)
  await until({ 'standby_lag_bytes flush': 0, 'standby_lag_bytes replay': expect.toSatisfy((lag) => lag > 3e6) })
  await standby.query('select pg_wal_replay_resume()')
  await until({ 'standby_lag_bytes replay': 0 })
  await cluster.waitsFor('*')
  await until({ 'standbys synchronous': 1, 'standbys asynchronous': 0, commits_wait: 0 })
})

test('a synchronous standby that is away is told before anybody waits for it, and so is what a slot keeps for one that does not come back', async () => {
  await cluster.primary.query(`select pg_create_physical_replication_slot('left', true)`)
  await cluster.primary.query(`select pg_create_physical_replication_slot('unused')`)
  const { 'wal_kept_bytes left': before = NaN } = await told()
  await standby.kill()
  await until({ 'standbys synchronous': 0, 'standbys asynchronous': 0, commits_wait: 1 })
  await write(3_000_000)
  await until({ 'wal_kept_bytes left': expect.toSatisfy((bytes) => bytes > before + 3e6) })
  const seen = await told()
  expect(Object.keys(seen).filter((name) => /lag|unused/.test(name))).toEqual([]) // nobody is behind, and nothing is kept
  await cluster.waitsFor('')
  await until({ commits_wait: 0 })
  await cluster.primary.query(`select pg_drop_replication_slot('left'), pg_drop_replication_slot('unused')`)
  expect(Object.keys(await told()).filter((name) => name.startsWith('wal_kept'))).toEqual([])
})

test('transaction ids are counted for all databases of the server', async () => {
  const { transaction_ids: before = NaN } = await told()
  expect(before).toBeGreaterThan(0)
  await cluster.primary.query('select pg_current_xact_id()')
  await cluster.primary.query('select pg_current_xact_id()')
  expect((await told())['transaction_ids']).toBeGreaterThan(before + 1)
})

test('an archive that takes nothing is told until it takes something', async () => {
  const archive = async (command: string, mode: string) => {
    await cluster.primary.query(`alter system set archive_command = '${command}'`)
    await cluster.primary.query(`alter system set archive_mode = '${mode}'`)
    await cluster.primary.query('select pg_reload_conf()')
  }
  await archive('false', 'on')
  await cluster.primary.kill()
  await cluster.primary.start()
  await cluster.primary.query('select pg_switch_wal()')
  await until({ archive_failing: 1 })
  await archive('true', 'on')
  await until({ archive_failing: 0 })
})

test('a user who may see little is told of a standby that it cannot see into, and of no lag', async () => {
  await standby.start()
  await cluster.primary.query('create role little login')
  const little = open('little')
  try {
    await expect.poll(() => told(little), { timeout: 30_000 }).toMatchObject({ 'standbys hidden': 1, commits_wait: 0 })
    expect(Object.keys(await told(little)).filter((name) => name.includes('lag'))).toEqual([])
  } finally {
    await little.close()
  }
})

test('a server that writes no log itself tells everything else', async () => {
  const { host, port } = standby
  const connection = { host, port, user: 'postgres', password: '', database: 'postgres' }
  const there = openDatabase(connection, { name: 'samples', connectionsMax: 1, answerMs: 5_000 })
  try {
    expect(Object.keys(await told(there)).toSorted()).toEqual([
      'clock_offset_seconds',
      'commits_wait',
      'standbys asynchronous',
      'standbys hidden',
      'standbys synchronous',
      'transaction_ids',
    ])
  } finally {
    await there.close()
  }
})
