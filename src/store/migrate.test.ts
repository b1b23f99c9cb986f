import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { startCluster } from '../../test/world/postgres-cluster.ts'
import { emptyDatabase } from '../../test/world/postgres.ts'
import { over, type Db } from './database.ts'
import { storeWorld, type StoreWorld } from './store.test-kit.ts'
import { migrate } from './migrate.ts'

test.each([
  ['nobody listens', 'postgres://a:b@127.0.0.1:1/x', /ECONNREFUSED/],
  ['its name is unknown', 'postgres://a:b@nohost.invalid/x', /ENOTFOUND|EAI_AGAIN/],
])('where %s, the database is away, and the setting that names it is told', async (_, url, code) => {
  const error = await migrate({ url }).catch((error: unknown) => error as Error)
  expect(error).toMatchObject({
    name: 'Trouble',
    message: expect.stringMatching(
      /: the database cannot be reached; look at DATABASE_URL \(docs\/config.md\)\.$/,
    ) as string,
    cause: { message: expect.stringMatching(code) as string },
  })
})

test('a database that its server does not have cannot be reached, in the words of the server', async () => {
  const world = await storeWorld()
  await expect(migrate({ ...world.connection, database: 'nobody_has_this' })).rejects.toMatchObject({
    name: 'Trouble',
    message:
      'database "nobody_has_this" does not exist: the database cannot be reached; postgresql.log in the data folder says why.',
  })
})

test('in a database that the service would refuse nothing is made, by a command neither', async () => {
  const empty = await emptyDatabase(`locale_provider libc encoding 'LATIN1'`)
  const { connection } = empty
  await expect(migrate(connection)).rejects.toThrow(
    /^The database has the encoding LATIN1, which cannot hold every mail/,
  )
  expect(await over(connection, (db) => db.run('select from pg_tables where schemaname = current_schema()'))).toEqual(
    [],
  )
  await empty.drop()
})

test('the version is the newest migration, also where nothing is to be done', async () => {
  const world = await storeWorld()
  const newest = readdirSync(new URL('./migrations/', import.meta.url))
    .sort()
    .at(-1)
  expect(`${(await migrate(world.connection)).version}.sql`).toBe(newest)
})

test('a history with a gap is a fault of its own, and no newer release', async () => {
  const world = await storeWorld()
  await world.db.run(`delete from kysely_migration where name like '0020-%'`)
  await expect(migrate(world.connection)).rejects.toMatchObject({
    name: 'Error',
    message: 'a migration failed; the database is unchanged',
  })
})

test('a database that a newer release has migrated is refused in one sentence with its newest schema, and left as it is', async () => {
  const world = await storeWorld()
  for (const name of ['9998-of-today', '9999-of-tomorrow', '9997-of-yesterday'])
    await world.db.run(`insert into kysely_migration (name, timestamp) values ($1, '2027-01-01')`, [name])
  await expect(migrate(world.connection)).rejects.toMatchObject({
    name: 'Trouble',
    message: expect.stringMatching(
      /^the database belongs to a newer release: it has the schema 9999-of-tomorrow, and this one ends with \d{4}-/,
    ) as string,
  })
})

test.each([
  ['tables', 'create table messages (a int)', /relation "messages" already exists/],
  [
    'migrations by the same library',
    `create table kysely_migration as select '2024-init' name, '2024-02-01' timestamp`,
    /2024-init/,
  ],
])(
  'a database in which another program has %s is refused in one sentence, and what is there stays',
  async (_, theirs, why) => {
    const database = await emptyDatabase()
    const run = (text: string) => over(database.connection, (db) => db.run(text))
    await run(theirs)
    const error = await migrate(database.connection).catch((error: unknown) => error as Error)
    expect(error).toMatchObject({
      name: 'Trouble',
      message: expect.stringMatching(/^this database is not empty, .* name it in DATABASE_URL/) as string,
    })
    expect(error).toMatchObject({ message: expect.stringMatching(why) as string })
    expect(await run(`select from pg_tables where tablename = 'workspaces'`)).toEqual([])
    await database.drop()
  },
)

/** As the release left it that had no 0027 yet, as far as the migrations since then notice. */
async function worldBefore0027(): Promise<StoreWorld> {
  const world = await storeWorld()
  await world.db.run(`delete from kysely_migration where name >= '0027'`)
  await world.db.run('create index idempotency_keys_age on idempotency_keys using brin (created_at)')
  await world.db.run('drop function arm_5, handed_back_1, stopped_at_1, is_unknown_server_1, finish_2')
  await world.db.run('create function webhook_results_of(json) returns integer return 0')
  await world.db.run('drop index usage_newest')
  await world.db.run('alter table delivering_nodes drop column thousand')
  await world.db.run(
    'alter table refused_submissions drop column field, drop column error, drop column caller_id, drop column request_id, drop column sender',
  )
  await world.db.run('alter table workspaces drop column removing_since')
  await world.db.run('drop table removed_workspaces')
  await world.db.run('drop view dkim_keys')
  await world.db.run('alter table dkim_key_pairs rename to dkim_keys')
  return world
}

test('a migration that needs a table which a backup reads holds up nobody behind it, and is made when that is over', async () => {
  const world = await worldBefore0027()
  const [backup, sender] = [await world.session(), await world.session()]
  await backup.query('begin')
  await backup.query('select from idempotency_keys')
  await sender.query(`set statement_timeout = '4s'`)

  let hasRead = false
  // The backup ends behind the reader, who must not have waited for it.
  const pause = async (): Promise<void> => {
    if (hasRead) await backup.query('commit')
  }
  const migrated = migrate(world.connection, () => undefined, pause, 10_000)
  await untilAsked(world.db, 'AccessExclusiveLock')
  await sender.query('select from idempotency_keys limit 1') // would wait behind it until the backup ends
  hasRead = true
  await migrated
  expect(await world.value(`select to_regclass('idempotency_keys_age')::text`)).toBeNull()
})

test('a migration that never gets its table gives up with the reason, and has changed nothing', async () => {
  const world = await worldBefore0027()
  const backup = await world.holding('select from idempotency_keys')
  let pauses = 0
  const pause = (): Promise<unknown> => {
    pauses += 1
    return backup.query('select')
  }
  await backup.query(`set application_name = 'psql'`)
  const told: string[] = []
  await expect(migrate(world.connection, (words) => void told.push(words), pause, 3)).rejects.toMatchObject({
    name: 'Trouble',
    message: expect.stringMatching(/cannot be migrated now: .*a backup.*Nothing is changed/) as string,
  })
  expect(pauses).toBe(2) // three tries
  expect(told).toEqual([
    expect.stringMatching(/is in use .*longest of all by process \d+ of \S+, psql\. It is tried again/),
  ])
  await backup.query('commit')
  expect(await world.value(`select to_regclass('idempotency_keys_age')::text`)).toBe('idempotency_keys_age')
})

test('a signal that ends the start, or a server that goes, in the middle of a migration is told to whoever waits, and ends no process by itself', async () => {
  const world = await worldBefore0027()
  const backup = await world.holding('select from idempotency_keys')
  const given = new AbortController()
  const migrated = migrate({ ...world.connection, patience: given.signal })
  const refused = expect(migrated).rejects.toMatchObject({
    name: 'Trouble',
    message:
      'Connection terminated unexpectedly: the database cannot be reached; postgresql.log in the data folder says why.',
  })
  await untilAsked(world.db, 'AccessExclusiveLock')
  given.abort()
  await refused
  await backup.query('commit')
})

test('a migration whose commit waits for a synchronous standby says for whom, and is made when that is back', async () => {
  const cluster = await startCluster()
  try {
    await cluster.waitsFor('away')
    const { host, port } = cluster.primary
    let heard: (words: string) => void = () => undefined
    const told = new Promise<string>((resolve) => (heard = resolve))
    const url = `postgres://postgres@localhost/postgres?host=${host}&port=${port}`
    const migrated = migrate({ url }, (words) => heard(words))
    expect(await told).toMatch(/^the migration waits, .*synchronous_standby_names is away.*none is connected/)
    await cluster.waitsFor('')
    expect((await migrated).version).toMatch(/^\d{4}-/)
  } finally {
    await cluster.waitsFor('')
    await cluster.remove()
  }
})

async function untilAsked(db: Db, mode: string): Promise<void> {
  const asked = `select from pg_locks where mode = $1 and not granted and database = (select oid from pg_database where datname = current_database())`
  while ((await db.run(asked, [mode])).length === 0) continue
}
