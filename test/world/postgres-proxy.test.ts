// The tests' tools are tried too: a campaign believes the proxy about what the server has still to do.
import { Client } from 'pg'
import { expect, test } from 'vitest'
import { emptyDatabase } from './postgres.ts'
import { startPostgresProxy } from './postgres-proxy.ts'

test('is settled when what had been asked is answered, whatever is asked later, and when a line has ended', async () => {
  const database = await emptyDatabase()
  const { host, port } = database.connection
  const proxy = await startPostgresProxy({ host, port })
  const join = async (): Promise<Client> => {
    const client = new Client({ ...database.connection, host: '127.0.0.1', port: proxy.port })
    client.on('error', () => undefined)
    await client.connect()
    return client
  }
  const holder = new Client(database.connection)
  await holder.connect()
  await holder.query('select pg_advisory_lock(1), pg_advisory_lock(2)')
  const [one, two] = [await join(), await join()]
  await proxy.settled()

  const waits = one.query({ name: 'waits', text: 'select pg_advisory_lock($1)', values: [1] })
  await two.query('select 1') // whose answer is back when the proxy has read what was asked before it
  let settled = false
  const settling = proxy.settled().then(() => (settled = true))
  for (let turn = 0; turn < 2; turn++) await two.query('select 1') // it has seen what is open
  const later = two.query('select pg_advisory_lock(2)')
  const waiting = `select count(*)::integer many from pg_locks where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database())`
  while ((await holder.query<{ many: number }>(waiting)).rows[0]?.many !== 2);
  expect(settled).toBe(false)
  await holder.query('select pg_advisory_unlock(1)')
  await Promise.all([settling, waits]) // and not the later one
  await holder.end()
  await later

  const cut = one.query('select pg_sleep(60)').catch(() => 'cut')
  await two.query('select 1')
  proxy.away(true)
  await proxy.settled()
  expect(await cut).toBe('cut')

  for (const client of [one, two]) await client.end()
  await proxy.stop()
  await database.drop()
})
