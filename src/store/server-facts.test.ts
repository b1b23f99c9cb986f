// Whether a PostgreSQL may hold accepted mail: what is unfit is refused, what ends badly is told, and each in a sentence that says what to do.
import { afterAll, expect, test } from 'vitest'
import { emptyDatabase, freshDatabase, urlOf } from '../../test/world/postgres.ts'
import { checkDatabase, checkReplication } from '../doctor/database-checks.ts'
import { noDatabase } from '../start-trouble.ts'
import { awayWords, poolerBetween } from './database-away.ts'
import { openDatabase, over } from './database.ts'
import { migrate } from './migrate.ts'
import { readStandbys, warningsAboutStandbys } from './replication.ts'
import { warningsAboutUpkeep, whyNothingIsWritten, whyUnfit } from './server-facts.ts'

const database = await freshDatabase()
afterAll(() => database.drop())

test.each([
  [
    'the wrong password',
    (url: URL) => (url.password = 'wrong'),
    /password authentication failed.*wants the right password/,
  ],
  ['a user who is none', (url: URL) => (url.username = 'no_such_user'), /no_such_user.*PostgreSQL is there/],
  [
    'a database that is not there',
    (url: URL) => (url.pathname = '/none'),
    /"none" does not exist: .* make the database/,
  ],
  ['TLS without TLS', (url: URL) => (url.search += '&sslmode=require'), /does not support SSL.*: .*take sslmode away/],
  ['a setting that is none', (url: URL) => (url.search += '&options=-cfoo%3D1'), /"foo": .*look at options=/],
  ['no value for it', (url: URL) => (url.search += '&options=-cwork_mem%3Da'), /"work_mem": "a": .*look at options=/],
  ['no value for now', (url: URL) => (url.search += '&options=-cport%3D1'), /without restarting.*look at options=/],
  ['no option', (url: URL) => (url.search += '&options=-z'), /server process: -z: .*look at options=/],
  [
    'no authority',
    (url: URL) => (url.search += '&sslmode=require&sslrootcert=/no'),
    /'\/no': a file that DATABASE_URL/,
  ],
])(
  'a database that is there and not to be had (%s) is not told as one that cannot be reached',
  async (_, change, words) => {
    const url = new URL(urlOf(database.connection))
    change(url)
    const told = await over({ url: url.href }, whyUnfit).catch((error: unknown) => noDatabase(error, false).message)
    expect(told).toMatch(words)
    expect(told).not.toContain('cannot be reached')
    const command = await migrate({ url: url.href }).catch((error: unknown) => error)
    expect(command).toMatchObject({ name: 'Trouble', message: told })
  },
)

test.each([
  ['certificate has expired', /has run out, or a clock is wrong/],
  ['self-signed certificate in certificate chain', /sslrootcert= names the file of its authority/],
  ['connection requires a valid client certificate', /that we show it; look at sslcert/],
  ['certificate authentication failed for user "me"', /whether it is for that user/],
  [
    '0A:error:0A000415:SSL routines:ssl3_read_bytes:ssl/tls alert certificate expired:',
    /that we show it; look at sslcert/,
  ],
  ['Feature not supported: RDS Proxy currently doesn’t support command-line options.', /must name PostgreSQL itself/],
])('whose certificate it is, and what stands before the server: %s', (said, way) => {
  expect(awayWords(new Error(said), false)).toMatch(way)
})

test('what works today and ends badly is told: nothing swept up, ids that run out, texts sorted by another library', async () => {
  const db = openDatabase(database.connection, { name: 'upkeep', connectionsMax: 1, answerMs: 5_000 })
  try {
    expect(await warningsAboutUpkeep(db)).toEqual([])
    await db.run('create schema slow')
    await db.run(`create function slow.current_setting(name text) returns text language sql as $$
      select case name when 'autovacuum' then 'off' else pg_catalog.current_setting(name) end $$`)
    await db.run(`create function slow.age(xid) returns integer language sql as 'select 1600000000'`)
    await db.run(
      `create function slow.pg_database_collation_actual_version(oid) returns text language sql as $$ select '2.41' $$`,
    )
    await db.run(`create view slow.pg_database as
      select oid, datname, '2.36' datcollversion, datfrozenxid, datminmxid from pg_catalog.pg_database`)
    await db.run('set search_path = public, slow, pg_catalog')
    expect(await warningsAboutUpkeep(db)).toEqual([
      expect.stringContaining('autovacuum or track_counts is off'),
      expect.stringContaining('used 1600 million transaction ids'),
      expect.stringContaining('(2.36 then, 2.41 now)'),
    ])
    expect((await checkDatabase(db)).detail).toContain('autovacuum')
  } finally {
    await db.run('reset search_path')
    await db.run('drop schema if exists slow cascade')
    await db.close()
  }
})

test('texts sorted by a library that told no version, or looked for by one that tells none, are told too, with a way out that ends it', async () => {
  const db = openDatabase(database.connection, { name: 'upkeep', connectionsMax: 1, answerMs: 5_000 })
  const sorted = (version: string | null) =>
    db.run('update pg_database set datcollversion = $1 where datname = current_database()', [version])
  const [{ us, actual } = { us: '', actual: '' }] = await db.run<{ us: string; actual: string }>(
    `select quote_ident(datname) us, pg_database_collation_actual_version(oid) actual from pg_database where datname = current_database()`,
  )
  try {
    // An image of Alpine, and then one of Debian, over the same data: https://github.com/docker-library/postgres/issues/1288, the other way round.
    await sorted(null)
    const [told = ''] = await warningsAboutUpkeep(db)
    expect(told).toContain(`(none told then, ${actual} now)`)
    await expect(db.run(`alter database ${us} refresh collation version`)).rejects.toThrow('collation version')
    const wayOut = /then \(as a superuser\) (update .*)\.$/.exec(told)?.[1] ?? ''
    await db.run(wayOut)
    expect(await warningsAboutUpkeep(db)).toEqual([])
    await db.run(`create schema musl`)
    await db.run(
      `create function musl.pg_database_collation_actual_version(oid) returns text language sql as 'select null::text'`,
    )
    await db.run('set search_path = public, musl, pg_catalog')
    expect(await warningsAboutUpkeep(db)).toEqual([expect.stringContaining(`(${actual} then, none told now)`)])
  } finally {
    await db.run('reset search_path')
    await db.run('drop schema if exists musl cascade')
    await sorted(actual)
    await db.close()
  }
})

test('a write-ahead log that nobody takes is told before it fills the disk: for a slot without a bound, and where it cannot be archived', async () => {
  const db = openDatabase(database.connection, { name: 'upkeep', connectionsMax: 1, answerMs: 5_000 })
  const slot = (name: string, behind: number, bound = 'null', temporary = false) =>
    `select '${name}' slot_name, false active, null::integer active_pid, 'physical' slot_type, ${temporary} temporary, ${bound}::bigint safe_wal_size, null::xid xmin,
            '2/80000000'::pg_lsn - ${behind}::numeric restart_lsn`
  const slots = [slot(`gone''s`, 5e9), slot('near', 3e9), slot('bounded', 9e9, '1'), slot('copy', 9e9, 'null', true)]
  try {
    await db.run('create schema kept')
    await db.run(`create view kept.pg_replication_slots as ${slots.join(' union all ')}`)
    await db.run(
      `create function kept.pg_current_wal_lsn() returns pg_lsn language sql as $$ select '2/80000000'::pg_lsn $$`,
    )
    await db.run(`create function kept.current_setting(name text) returns text language sql as $$
      select case name when 'archive_mode' then 'on' else pg_catalog.current_setting(name) end $$`)
    await db.run(`create view kept.pg_stat_archiver as
      select '000000010000000000000003' last_failed_wal, now() last_failed_time, now() - interval '1 minute' last_archived_time`)
    await db.run('set search_path = public, kept, pg_catalog')
    const told = await warningsAboutUpkeep(db)
    expect(told).toEqual([
      expect.stringMatching(
        /keeps 5\.0 GB .* slot 'gone''s', which nobody reads, .*pg_drop_replication_slot\('gone''s'\)/,
      ),
      expect.stringContaining('could not archive its write-ahead log when it last tried (000000010000000000000003)'),
    ])
    expect((await checkDatabase(db)).detail).toContain(told[0])
    await db.run(`create or replace view kept.pg_stat_archiver as
      select '000000010000000000000003' last_failed_wal, now() - interval '1 minute' last_failed_time, now() last_archived_time`)
    expect(await warningsAboutUpkeep(db)).toEqual(told.slice(0, 1))
    // A service that does not say where its log ends.
    await db.run(
      `create or replace function kept.pg_current_wal_lsn() returns pg_lsn language sql as $$ select 'none'::text::pg_lsn $$`,
    )
    expect(await warningsAboutUpkeep(db)).toEqual([])
  } finally {
    await db.run('reset search_path')
    await db.run('drop schema if exists kept cascade')
    await db.close()
  }
})

test('a server that may lose commits is refused, and says which setting it is', async () => {
  // What PostgreSQL answers about itself cannot be changed for one database; so the question is asked of functions that stand before it.
  const db = openDatabase(database.connection, { name: 'unfit', connectionsMax: 1, answerMs: 5_000 })
  expect(await whyUnfit(db)).toBeUndefined()
  await db.run('create schema liar')
  await db.run('create table liar.settings (name text, value text)')
  await db.run(`create function liar.current_setting(name text) returns text language sql as $$
    select coalesce((select value from liar.settings s where s.name = $1), pg_catalog.current_setting($1)) $$`)
  await db.run('set search_path = liar, pg_catalog, public')
  for (const [name, value, words] of [
    ['fsync', 'off', 'PostgreSQL runs with fsync off: accepted mail could be lost. Turn it on.'],
    ['full_page_writes', 'off', 'PostgreSQL runs with full_page_writes off: accepted mail could be lost. Turn it on.'],
    ['server_version_num', '140012', 'PostgreSQL 15 or newer is needed; this server is 14.'],
    ['plan_cache_mode', 'auto', poolerBetween],
    ['server_encoding', 'LATIN1', expect.stringMatching(/encoding LATIN1, .* make one with encoding UTF8/)],
  ]) {
    await db.run('insert into liar.settings values ($1, $2)', [name, value])
    expect(await whyUnfit(db)).toEqual(words)
    await db.run('delete from liar.settings')
  }
  // Where recovery_target_time is all that somebody has said, it waits there for a word.
  for (const [paused, words] of [
    [false, 'PostgreSQL is a standby: DATABASE_URL must name the primary.'],
    [true, expect.stringMatching(/^PostgreSQL is in a recovery that has paused.*pg_wal_replay_resume\(\)/)],
  ]) {
    await db.run(`create or replace function liar.pg_is_in_recovery() returns boolean language sql as 'select true'`)
    await db.run(
      `create or replace function liar.pg_is_wal_replay_paused() returns boolean language sql as 'select ${String(paused)}'`,
    )
    expect(await whyUnfit(db)).toEqual(words)
  }
  await db.run('drop schema liar cascade')
  await db.close()
})

test.each([
  ['search_path = nowhere', emptyDatabase, /^The search_path of \S+ \(nowhere\) names no schema that exists/],
  ['search_path = other', freshDatabase, /^Posthorn's tables are in the schema public .*\(other\)/],
  // As where somebody makes a schema of the user's name, which comes first by itself.
  ['search_path = other, public', freshDatabase, /^Posthorn's tables are in the schema public .*leads to other first/],
  ['default_transaction_read_only = on', emptyDatabase, /^PostgreSQL lets \S+ only read here/],
  ["transaction_timeout = '100s'", emptyDatabase, /^PostgreSQL ends every transaction of \S+ after 100s/],
  ['session_replication_role = replica', emptyDatabase, /^PostgreSQL runs no triggers for \S+ \(session_repl/],
])(
  'a database where an administrator set something is refused in one sentence, by commands too (%s)',
  async (set, make, words) => {
    const made = await make()
    const open = () => openDatabase(made.connection, { name: 'unfit', connectionsMax: 1, answerMs: 5_000 })
    const before = open()
    await before.run('create schema other')
    await before.run(`alter database ${made.connection.database} set ${set}`)
    await before.close()
    const db = open()
    const unfit = await whyUnfit(db)
    await db.close()
    const told = await migrate(made.connection).catch((error: unknown) => error)
    await made.drop()
    expect(unfit).toMatch(words)
    expect(told).toMatchObject({ name: 'Trouble', message: unfit })
  },
)

test.each([
  ['the user', (name: string) => `alter role "${name}" connection limit 2`],
  // The administrator's own session is one of those.
  ['the database', (name: string) => `alter database "${name}" connection limit 3`],
])('who has almost no connection left is told which limit to raise: that of %s', async (whose, limit) => {
  const fresh = await emptyDatabase()
  const { database: name } = fresh.connection
  const owner = openDatabase(fresh.connection, { name: 'unfit', connectionsMax: 1, answerMs: 5_000 })
  await owner.run(`create role "${name}" login password 'secret'`)
  await owner.run(`alter database "${name}" owner to "${name}"`)
  await owner.run(limit(name))
  const as = { ...fresh.connection, user: name, password: 'secret' }
  const held = openDatabase(as, { name: 'held', connectionsMax: 1, answerMs: 5_000 })
  await held.run('select 1')
  const { status, detail } = await over(as, checkDatabase)
  await held.close()
  await owner.run(`alter database "${name}" owner to current_user`)
  await owner.run(`drop role "${name}"`)
  await owner.close()
  await fresh.drop()
  expect(status).toBe('warn')
  expect(detail).toMatch(/(?:2 of 2|3 of 3) connections/)
  expect(detail).toContain(`raise the connection limit of ${whose} ${name}`)
})

test('a user who may not make tables is told which right is missing', async () => {
  const fresh = await emptyDatabase()
  const { database } = fresh.connection
  const owner = openDatabase(fresh.connection, { name: 'unfit', connectionsMax: 1, answerMs: 5_000 })
  await owner.run(`create role "${database} Who" login password 'secret'`)
  const connection = { ...fresh.connection, user: `${database} Who`, password: 'secret' }
  const told = await migrate(connection).catch((error: unknown) => error)
  await owner.run(`drop role "${database} Who"`)
  await owner.close()
  await fresh.drop()
  expect(told).toMatchObject({
    name: 'Trouble',
    message: `PostgreSQL does not let "${database} Who" make tables in the schema public of this database: grant create on schema public to "${database} Who", or make it the database's owner.`,
  })
})

test('who follows changes, or keeps the WAL, is no standby: nobody fails over to them', async () => {
  const db = openDatabase(database.connection, { name: 'followers', connectionsMax: 1, answerMs: 5_000 })
  try {
    await db.run('create schema followed')
    await db.run(
      `create table followed.pg_stat_replication (pid integer, sync_state text, replay_lsn pg_lsn, flush_lsn pg_lsn)`,
    )
    await db.run(`create view followed.pg_replication_slots as
      select 1 active_pid, 'logical' slot_type union all select 3, 'physical'`)
    await db.run('set search_path = followed, pg_catalog, public')
    const asynchronous = [expect.stringMatching(/^PostgreSQL has asynchronous standbys only/)]
    for (const [what, standbys, warnings] of [
      ["1, 'async', '0/1'", 0, []], // a subscriber
      ["2, 'async', null", 0, []], // pg_receivewal
      ['1, null, null', 0, []], // a subscriber, seen by a user who may not look
      ["3, 'async', '0/1'", 1, asynchronous],
      ['3, null, null', 1, asynchronous],
    ] as const) {
      await db.run(`insert into followed.pg_stat_replication values (${what})`)
      const { asynchronous: seen, hidden } = await readStandbys(db)
      expect([what, seen + hidden, await warningsAboutStandbys(db)]).toEqual([what, standbys, warnings])
      await db.run('delete from followed.pg_stat_replication')
    }
  } finally {
    await db.run('drop schema followed cascade')
    await db.close()
  }
})

test('a standby that comes while the doctor looks is called what it is', async () => {
  const db = openDatabase(database.connection, { name: 'followed', connectionsMax: 1, answerMs: 5_000 })
  try {
    await db.run('create schema followed')
    await db.run('create sequence followed.looks')
    await db.run('create table followed.from_look (n integer)')
    await db.run(`create view followed.pg_stat_replication as
      select 1 pid, 'async' sync_state, '0/1'::pg_lsn replay_lsn, '0/1'::pg_lsn flush_lsn
        from followed.from_look where n <= nextval('followed.looks')`)
    await db.run('set search_path = followed, pg_catalog, public')
    for (const look of [1, 2, 3, 4, 5]) {
      await db.run('delete from from_look')
      await db.run('insert into from_look values ($1)', [look])
      await db.run('alter sequence looks restart')
      const found = await checkReplication(db)
      expect([look, found.status, found.detail]).not.toEqual([look, 'ok', expect.any(String)])
    }
  } finally {
    await db.run('drop schema followed cascade')
    await db.close()
  }
})

test('a user who may use the tables and does not own them is refused at the start: nobody would make the partitions of the weeks that come', async () => {
  const fresh = await freshDatabase()
  const { database: name, user } = fresh.connection
  const owner = openDatabase(fresh.connection, { name: 'unfit', connectionsMax: 1, answerMs: 5_000 })
  const login = `${name} Login`
  await owner.run(`create role ${name}_owner`)
  await owner.run(`create role "${login}" login password 'secret'`)
  await owner.run(`grant create, usage on schema public to ${name}_owner, "${login}"`)
  await owner.run(`grant all on all tables in schema public to "${login}"`)
  const told = () => over({ ...fresh.connection, user: login, password: 'secret' }, whyUnfit)
  const untilOwned = `Posthorn's tables belong to ${user}, and "${login}" is no member of that role: it could make no partitions for the weeks that come, and then nothing would be accepted. Do grant ${user} to "${login}", and alter role "${login}" set role ${user}, so that what it makes belongs to the same role.`
  expect(await told()).toEqual(untilOwned)
  await owner.run(`do $$ declare t regclass; begin
    for t in select oid from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') loop
      execute format('alter table %s owner to ${name}_owner', t);
    end loop; end $$`)
  expect(await told()).toContain(`grant ${name}_owner to "${login}"`)
  await owner.run(`grant ${name}_owner to "${login}"`)
  await owner.run(`alter role "${login}" set role ${name}_owner`)
  expect(await told()).toBeUndefined()
  await owner.close()
  await fresh.drop()
  const rest = openDatabase(database.connection, { name: 'unfit', connectionsMax: 1, answerMs: 5_000 })
  await rest.run(`drop role "${login}", ${name}_owner`)
  await rest.close()
})

test('that every commit waits is seen of sessions whose login acts as another role, too', async () => {
  const db = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
  try {
    await db.transaction(async (tx) => {
      await tx.run('create schema waiting')
      // PostgreSQL tells the login, whatever role it acts as.
      await tx.run(`create view waiting.pg_stat_activity as
        select session_user usename, 'SyncRep' wait_event, now() - interval '1 minute' state_change`)
      await tx.run('create role somebody_else')
      await tx.run('grant usage on schema waiting to somebody_else')
      await tx.run('grant select on waiting.pg_stat_activity to somebody_else')
      await tx.run('set local search_path = waiting, pg_catalog, public')
      await tx.run('set local role somebody_else')
      expect(await whyNothingIsWritten(tx.rows)).toMatch(/^waiting for a synchronous standby/)
      throw new Error('undo it')
    })
  } catch (error) {
    expect(error).toMatchObject({ message: 'undo it' })
  } finally {
    await db.close()
  }
})
