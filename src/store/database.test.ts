// What every connection promises by itself (decisions A1), whatever the server's default is.
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { Client } from 'pg'
import { expect, test, vi } from 'vitest'
import { temporaryFolder } from '../../test/world/ending.ts'
import { certificateFor } from '../../test/world/certificates.ts'
import { startPostgresProxy } from '../../test/world/postgres-proxy.ts'
import { freshDatabase, urlOf } from '../../test/world/postgres.ts'
import { doneFor } from '../base/turns.ts'
import { limits } from '../config.ts'
import { serverOf } from './connection.ts'
import { isDatabaseAway, mayBlameRows, openDatabase, over, sql, surelyAborted, type Ask } from './database.ts'
import { listen } from './listen.ts'
import { makeRecorder } from './outbound.ts'
import { storeWorld } from './store.test-kit.ts'
import { watched } from './watched.test-kit.ts'

test('a server whose default is to commit without waiting for the disk cannot weaken an acceptance, its staged content, or what a restore has put back', async () => {
  const fresh = await freshDatabase()
  const open = () => openDatabase(fresh.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
  const before = open()
  await before.run(`alter database ${fresh.connection.database} set synchronous_commit = off`)
  await before.close()
  const db = open()
  const settings = await db.rows<{ name: string; setting: string }>(
    sql(
      'test-settings',
      `select name, setting from pg_settings where name in ('synchronous_commit', 'plan_cache_mode') order by name`,
    ),
  )
  await db.close()
  const forgetful = openDatabase(fresh.connection, {
    name: 'test',
    connectionsMax: 1,
    answerMs: 5_000,
    mayForget: true,
  })
  const [forgets] = await forgetful.run(`select current_setting('synchronous_commit') at`)
  await forgetful.close()
  const other = new Client(serverOf(fresh.connection))
  await other.connect()
  const { rows } = await other.query(`select current_setting('synchronous_commit') at`)
  await other.end()
  await fresh.drop()
  expect(settings.map(({ name, setting }) => [name, setting])).toEqual([
    ['plan_cache_mode', 'force_generic_plan'],
    ['synchronous_commit', 'on'],
  ])
  expect([forgets, rows[0]]).toEqual([{ at: 'off' }, { at: 'on' }])
})

test("a server whose defaults are an administrator's own changes neither what statements see and mean, nor how times are read, nor how long a backup may take", async () => {
  const fresh = await freshDatabase()
  const open = () => openDatabase(fresh.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
  const before = open()
  // Under the first, an arm that has waited for its row would not see the suppression that was committed meanwhile.
  for (const setting of [
    "default_transaction_isolation = 'repeatable read'",
    "datestyle = 'German'",
    "timezone = 'America/New_York'",
    'statement_timeout = 1',
    // A pattern that looks for \s would look for s: what a removed workspace has left in unmatched feedback was not found by it.
    'standard_conforming_strings = off',
  ])
    await before.run(`alter database ${fresh.connection.database} set ${setting}`)
  await before.close()
  const db = open()
  // A day that is counted over a change to or from summer time has 24 hours all the same.
  const [seen] = await db.run<{ isolation: string; at: Date; told: string; later: Date; pattern: string }>(
    String.raw`select '\s' pattern, current_setting('transaction_isolation') isolation, timestamptz '2026-11-22T12:00:00Z' at,
            json_build_object('at', timestamptz '2026-11-22T12:00:00Z') ->> 'at' told, timestamptz '2026-10-31T12:00:00Z' + interval '1 day' later`,
  )
  await db.close()
  const other = new Client(serverOf(fresh.connection))
  await other.connect()
  const { rows } = await other.query(`select timestamptz '2026-11-22T12:00:00Z' at from pg_sleep(0.1)`)
  await other.end()
  await fresh.drop()
  expect(seen).toEqual({
    isolation: 'read committed',
    at: new Date('2026-11-22T12:00:00Z'),
    told: '2026-11-22T12:00:00+00:00',
    later: new Date('2026-11-01T12:00:00Z'),
    pattern: String.raw`\s`,
  })
  expect(rows).toEqual([{ at: new Date('2026-11-22T12:00:00Z') }])
})

test('options in DATABASE_URL count, but not against what every connection asks for', async () => {
  const fresh = await freshDatabase()
  const { host, port, user, password, database } = fresh.connection
  const url = new URL(`postgres://${user}:${encodeURIComponent(password)}@localhost/${database}`)
  url.search = String(
    new URLSearchParams({ host, port: String(port), options: '-c synchronous_commit=off -c work_mem=7MB' }),
  )
  const db = openDatabase({ url: url.href }, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
  const settings = await db.run(
    `select name, setting from pg_settings where name in ('synchronous_commit', 'plan_cache_mode', 'work_mem') order by name`,
  )
  await db.close()
  await fresh.drop()
  expect(settings).toEqual([
    { name: 'plan_cache_mode', setting: 'force_generic_plan' },
    { name: 'synchronous_commit', setting: 'on' },
    { name: 'work_mem', setting: '7168' },
  ])
})

test('DATABASE_URL reaches databases and users of any name, over a socket that is named as a host too, and PostgreSQL hears no warning', async () => {
  const fresh = await freshDatabase()
  const { host, port } = fresh.connection
  const owner = openDatabase(fresh.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
  const name = `${fresh.connection.database} "a"/b&c:d@e%41 ü`
  const quoted = `"${name.replaceAll('"', '""')}"`
  await owner.run(`create role ${quoted} login password 'p@s/s:%41 ü'`)
  await owner.run(`create database ${quoted} owner ${quoted}`)
  const login = `${encodeURIComponent(name)}:${encodeURIComponent('p@s/s:%41 ü')}`
  const seen = []
  for (const url of [
    `postgres://${login}@${encodeURIComponent(host)}:${port}/${encodeURIComponent(name)}`,
    `postgres://${login}@/${encodeURIComponent(name)}?host=${encodeURIComponent(host)}&port=${port}`,
    `postgres://${login}@/?host=${encodeURIComponent(host)}&port=${port}`,
  ]) {
    const db = openDatabase({ url }, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
    seen.push(
      await db.run('select current_user::text us, current_database()::text at').catch((error: unknown) => error),
    )
    await db.close()
  }
  await owner.run(`drop database ${quoted} with (force)`)
  await owner.run(`drop role ${quoted}`)
  await owner.close()
  await fresh.drop()
  const reached = [{ us: name.slice(0, 63), at: name.slice(0, 63) }]
  expect(seen).toEqual([reached, reached, reached])
})

test.each(['prefer', 'require', 'verify-ca', 'verify-full'])(
  'sslmode=%s checks the certificate, and says nothing on standard error',
  async (mode) => {
    const warned: unknown[] = []
    const hear = (warning: unknown) => void warned.push(warning)
    process.on('warning', hear)
    const client = new Client(serverOf({ url: `postgres://u:p@db.example/d?sslmode=${mode}` }))
    await new Promise(setImmediate)
    process.off('warning', hear)
    expect([client.ssl, client.host, warned]).toEqual([{}, 'db.example', []])
  },
)

test.each(['', '&sslmode=verify-full'])(
  'sslrootcert=system%s is no file: the certificate is checked against the well-known authorities',
  (mode) => {
    const client = new Client(serverOf({ url: `postgres://u:p@db.example/d?sslrootcert=system${mode}` }))
    expect([client.ssl, client.host]).toEqual([{}, 'db.example'])
  },
)

test.each([
  ['', false],
  ['&channel_binding=disable', false],
  ['&channel_binding=prefer', true],
  ['&channel_binding=require', true],
])(
  'the login is bound to its connection where DATABASE_URL asks for that (sslmode=verify-full%s)',
  (asked, isBound) => {
    const client = new Client(serverOf({ url: `postgres://u:p@db.example/d?sslmode=verify-full${asked}` }))
    expect(client).toMatchObject({ enableChannelBinding: isBound })
  },
)

test.each([
  ['28000', 'role "posthorn" is not permitted to log in'],
  ['28P01', 'password authentication failed for user "posthorn"'],
  ['3D000', 'database "posthorn" does not exist'],
  ['53300', 'sorry, too many clients already'],
  ['55000', 'database "posthorn" is not currently accepting connections'],
])('a server that lets nobody in (%s) is an outage, has surely done nothing, and no row is to blame', (code, words) => {
  const error = Object.assign(new Error(words), { code, severity: 'FATAL' })
  expect([surelyAborted(error), isDatabaseAway(error), mayBlameRows(error)]).toEqual([true, true, false])
})

test.each(['57P01', '57P02', '57P03', '57P05', '08006'])(
  'a session that the server has ended (%s) is an outage, and proves nothing: it may have been on the way back from its commit',
  (code) => {
    const error = Object.assign(new Error('terminating connection'), { code, severity: 'FATAL' })
    expect([surelyAborted(error), isDatabaseAway(error), mayBlameRows(error)]).toEqual([false, true, false])
  },
)

test.each(['GetNewTransactionId', 'GetNewMultiXactId'])(
  'a server that has no ids left for transactions (%s) is an outage until somebody vacuums: replies are kept for it, and no row is to blame',
  (routine) => {
    const words = 'database is not accepting commands to avoid wraparound data loss in database "posthorn"'
    const error = Object.assign(new Error(words), { code: '54000', severity: 'ERROR', routine })
    expect([surelyAborted(error), isDatabaseAway(error), mayBlameRows(error)]).toEqual([true, true, false])
    const large = Object.assign(new Error('index row size 3000 exceeds btree version 4 maximum 2704'), {
      code: '54000',
      severity: 'ERROR',
      routine: '_bt_check_third_page',
    })
    expect([surelyAborted(large), isDatabaseAway(large), mayBlameRows(large)]).toEqual([true, false, true])
  },
)

test.each(['23505', '22P05', '57014', '40P01'])('a statement that failed with %s may be tried in halves', (code) => {
  expect(mayBlameRows(Object.assign(new Error('no'), { code, severity: 'ERROR' }))).toBe(true)
})

test('rows that wait for a database which lets nobody in are refused together: each half of them would cost one more login', async () => {
  const world = await storeWorld()
  const name = await world.value<string>('select current_database()')
  let asked = 0
  const real = openDatabase(world.connection, { name: 'test shut out', connectionsMax: 1, answerMs: 5_000 })
  const db = watched(real, { asked: () => asked++ })
  const recorder = makeRecorder(db, db, await world.node())
  const doorkeeper = new Client({ ...serverOf(world.connection), database: 'postgres' })
  await doorkeeper.connect()
  try {
    await doorkeeper.query(`alter database "${name}" allow_connections false`)
    const claims = Array.from({ length: 100 }, (_, n) => ({
      id: world.nextId(),
      epoch: 1,
      token: `${n}`,
      recipientKey: 'a@b',
    }))
    const ends = await Promise.allSettled(claims.map((claim) => recorder.arm(claim)))
    expect(new Set(ends.map(({ status }) => status))).toEqual(new Set(['rejected']))
    expect(asked).toBeLessThanOrEqual(2)
  } finally {
    await doorkeeper.query(`alter database "${name}" allow_connections true`)
    await doorkeeper.end()
    await real.close()
  }
})

test("a line that breaks is an outage and proves nothing, though its error's name has five letters like the server's; so does one that the server ended for its time", () => {
  const broken = Object.assign(new Error('write EPIPE'), { code: 'EPIPE', errno: -32, syscall: 'write' })
  expect([surelyAborted(broken), isDatabaseAway(broken)]).toEqual([false, true])
  const late = Object.assign(new Error('terminating connection due to transaction timeout'), { code: '25P04' })
  expect([surelyAborted(late), isDatabaseAway(late)]).toEqual([false, true])
  const refused = Object.assign(new Error('duplicate key'), { code: '23505', severity: 'ERROR' })
  expect([surelyAborted(refused), isDatabaseAway(refused)]).toEqual([true, false])
})

test.each(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'])(
  'a network that says %s is an outage',
  (code) => {
    const error = Object.assign(new Error(`somewhere ${code}`), { code, syscall: 'connect' })
    expect([surelyAborted(error), isDatabaseAway(error)]).toEqual([false, true])
  },
)

test.each(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EAGAIN'])(
  'a machine with nothing left for one more connection (%s) is an outage: callers are told to come back, and not that something is broken',
  (code) => {
    const error = Object.assign(new Error(`connect ${code} 127.0.0.1:5432`), { code, syscall: 'connect' })
    expect([surelyAborted(error), isDatabaseAway(error), mayBlameRows(error)]).toEqual([false, true, false])
  },
)

test('so is one that has no memory for bytes: they came from nobody who did anything wrong', () => {
  const errors = [
    Object.assign(new RangeError('Failed to allocate memory'), { code: 'ERR_MEMORY_ALLOCATION_FAILED' }),
    new RangeError('Array buffer allocation failed'),
  ]
  for (const error of errors) expect([surelyAborted(error), isDatabaseAway(error)]).toEqual([false, true])
  expect(isDatabaseAway(new RangeError('Invalid string length'))).toBe(false)
})

test('of a pool with shares one workspace does not take all connections, and who waits too long hears what an outage sounds like', async () => {
  const fresh = await freshDatabase()
  const db = openDatabase(fresh.connection, { name: 'test', connectionsMax: 2, shareMax: 1, answerMs: 1_000 })
  const ask = sql('test-one', 'select 1 one')
  await doneFor('flood', () =>
    db.transaction(async () => {
      const late = doneFor('flood', () => db.rows(ask)).catch((error: unknown) => error)
      expect(await doneFor('shop', () => db.rows(ask))).toEqual([{ one: 1 }])
      expect(await doneFor('', () => db.rows(ask))).toEqual([{ one: 1 }])
      expect(isDatabaseAway(await late)).toBe(true)
    }),
  )
  expect(await doneFor('flood', () => db.rows(ask))).toEqual([{ one: 1 }])
  await db.close()
  await fresh.drop()
})

test('a line that lies idle is looked after by the kernel within seconds, so that a dead one is not asked', async () => {
  const fresh = await freshDatabase()
  const proxy = await startPostgresProxy(fresh.connection)
  const at = { ...fresh.connection, host: '127.0.0.1', port: proxy.port }
  const db = openDatabase(at, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
  await db.run('select')
  // Addresses, state, queues, then the timer and when it fires, in hundredths of a second (proc(5)).
  const toProxy = `0100007F:${proxy.port.toString(16).toUpperCase().padStart(4, '0')}`
  const fires = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , remote, state]) => remote === toProxy && state === '01')
    .map(([, , , , , timer]) => timer?.split(':'))
  await db.close()
  await proxy.stop()
  await fresh.drop()
  expect(fires).toEqual([['02', expect.any(String)]])
  expect(Number.parseInt(fires[0]?.[1] ?? '', 16)).toBeLessThan(1_100)
})

test('either end asks within a minute whether the other is still there: by itself a server would hold the places of a machine that vanished for two hours', async () => {
  const fresh = await freshDatabase()
  const db = openDatabase(fresh.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
  // Over a Unix socket they count for nothing, and are told as 0.
  const rows = await db.run<{ name: string; reset_val: string }>(
    `select name, reset_val from pg_settings where name like 'tcp_keepalives_%' and source = 'client'`,
  )
  await db.close()
  await fresh.drop()
  const {
    tcp_keepalives_idle: idle,
    tcp_keepalives_interval: interval,
    tcp_keepalives_count: count,
  } = Object.fromEntries(rows.map((row) => [row.name, Number(row.reset_val)]))
  expect(serverOf(fresh.connection)).toMatchObject({ keepAlive: true, keepAliveInitialDelayMillis: 10_000 })
  expect((idle ?? Infinity) + (interval ?? Infinity) * (count ?? Infinity)).toBeLessThanOrEqual(60)
})

test('a machine that stalls for ten seconds ends no start, which nobody would try again; a request is answered long before', async () => {
  const fresh = await freshDatabase()
  const proxy = await startPostgresProxy(fresh.connection)
  const at = { ...fresh.connection, host: '127.0.0.1', port: proxy.port }
  const db = openDatabase(at, { name: 'test', connectionsMax: 1, answerMs: 60_000 })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    proxy.hold(true)
    const starting = over(at, (db) => db.run('select 1 one'))
    const requested = expect(db.run('select 1 one')).rejects.toThrow('connection timeout')
    await vi.advanceTimersByTimeAsync(10_000)
    await requested
    proxy.hold(false)
    expect(await starting).toEqual([{ one: 1 }])
  } finally {
    vi.useRealTimers()
    await db.close()
    await proxy.stop()
    await fresh.drop()
  }
})

test.each(['before', 'after'] as const)(
  'a session that listens is replaced when its line falls silent and nobody closes it (%s a question reaches the server)',
  async (moment) => {
    const fresh = await freshDatabase()
    const proxy = await startPostgresProxy(fresh.connection)
    const sessions: Ask[] = []
    let heard: () => void = () => undefined
    const next = () => new Promise<void>((resolve) => (heard = resolve))
    let came = next()
    const ears = listen(
      { ...fresh.connection, host: '127.0.0.1', port: proxy.port },
      'test',
      (ask) => {
        sessions.push(ask)
        heard()
      },
      { pulseMs: 500, answerMs: 500 },
    )
    try {
      await came
      came = next()
      await proxy.silence('still-there', moment)
      // What is asked meanwhile does not wait for ever either: the fence makes one comparison after the other.
      await expect(sessions[0]?.(sql('test-late', 'select 1'))).rejects.toThrow()
      await came
      expect(sessions[1]).not.toBe(sessions[0])
      came = next()
      const db = openDatabase(fresh.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
      await db.run('notify test')
      await db.close()
      await came
    } finally {
      await ears.stop()
      await proxy.stop()
      await fresh.drop()
    }
  },
)

test.each([
  ['while it asks', true],
  ['between two statements', false],
])('a session that ends %s costs its transaction, and not the process', async (_, asking) => {
  const fresh = await freshDatabase()
  const open = (name: string) => openDatabase(fresh.connection, { name, connectionsMax: 1, answerMs: 5_000 })
  const [db, executioner] = [open('test'), open('test executioner')]
  const uncaught: unknown[] = []
  const catchIt = (error: unknown) => void uncaught.push(error)
  process.on('uncaughtException', catchIt)
  try {
    const end = await db
      .transaction(async (tx) => {
        await tx.run('create table half_done ()')
        const [session] = await tx.run<{ pid: number }>('select pg_backend_pid() pid')
        const slow = asking ? tx.run('select pg_sleep(5)').catch((error: unknown) => error) : undefined
        const ended = () =>
          executioner.run<{ left: number }>(
            'select count(pg_terminate_backend(pid))::integer "left" from pg_stat_activity where pid = $1',
            [session?.pid],
          )
        await vi.waitFor(async () => expect(await ended()).toEqual([{ left: 0 }]))
        await slow
        await tx.run('select')
      })
      .catch((error: unknown) => error)
    expect(isDatabaseAway(end)).toBe(true)
    expect(await db.run(`select to_regclass('half_done') "there"`)).toEqual([{ there: null }])
    expect(uncaught).toEqual([])
  } finally {
    process.off('uncaughtException', catchIt)
    await db.close()
    await executioner.close()
    await fresh.drop()
  }
})

test('a line that died in silence is given up within seconds, and one over which a statement takes long is not', async () => {
  const fresh = await freshDatabase()
  const proxy = await startPostgresProxy(fresh.connection)
  const behind = { ...fresh.connection, host: '127.0.0.1', port: proxy.port }
  const db = openDatabase(behind, { name: 'test', connectionsMax: 2, answerMs: 60_000 })
  const holder = new Client(fresh.connection)
  holder.on('error', () => undefined) // the database is dropped under it at the end
  await holder.connect()
  const asked = sql('test-asked', 'select 1 one')
  try {
    await db.rows(asked)
    await holder.query('select pg_advisory_lock(1)')
    const slow = db.run('select pg_advisory_lock(1)').catch((why: unknown) => why) // for longer than both of these lines
    for (const moment of ['before', 'after'] as const) {
      const silent = proxy.silence('test-asked', moment)
      const error: unknown = await db.rows(asked).catch((why: unknown) => why)
      await silent
      // Ended by whoever watches over lines, and not by the limit for an answer.
      expect([isDatabaseAway(error), String(error)]).toEqual([true, 'Error: Connection terminated unexpectedly'])
      expect(await db.rows(asked)).toEqual([{ one: 1 }])
    }
    expect(limits.silentLineMs + limits.silentLineAnswerMs).toBeLessThan(9_000)
    await holder.query('select pg_advisory_unlock(1)')
    expect(await slow).toHaveLength(1)
  } finally {
    await db.close()
    await holder.end()
    await proxy.stop()
    await fresh.drop()
  }
})

test('a line that falls silent within a transaction is waited for once: its caller is told, and its place is free', async () => {
  const fresh = await freshDatabase()
  const proxy = await startPostgresProxy(fresh.connection)
  const answerMs = 1_500
  const behind = { ...fresh.connection, host: '127.0.0.1', port: proxy.port }
  const db = openDatabase(behind, { name: 'test', connectionsMax: 1, answerMs, waitMs: 10_000 })
  try {
    const silenced = proxy.silence('test-silenced', 'before')
    let askedAt = 0
    const end = db.transaction(async (tx) => {
      await tx.run('create table half_done ()')
      askedAt = performance.now()
      await tx.rows(sql('test-silenced', 'select 1'))
    })
    await silenced
    expect(isDatabaseAway(await end.catch((error: unknown) => error))).toBe(true)
    expect(performance.now() - askedAt).toBeLessThan(2 * answerMs)
    expect(await db.run(`select to_regclass('half_done') "there"`)).toEqual([{ there: null }])
  } finally {
    await db.close()
    await proxy.stop()
    await fresh.drop()
  }
})

test('a server that shows a certificate which has run out, or is for another host, is away: what is accepted waits, callers are told to come back, and each is told why', async () => {
  const { key, cert, ca } = certificateFor('db.example')
  const authority = join(temporaryFolder(), 'ca.pem')
  writeFileSync(authority, ca)
  const server = createServer((line) =>
    line.once('data', () => {
      line.write('S')
      new TLSSocket(line, { isServer: true, key, cert }).on('error', () => undefined)
    }),
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const url = `postgres://me:secret@127.0.0.1:${port}/none?sslmode=verify-full&sslrootcert=${authority}`
  const db = openDatabase({ url }, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
  const doors = [() => db.run('select 1'), () => db.transaction((tx) => tx.run('select 1'))]
  const errors = await Promise.all(doors.map((ask) => ask().catch((error: unknown) => error)))
  await db.close()
  server.close()
  expect(errors.map(String)).toEqual(Array(2).fill(expect.stringContaining("does not match certificate's altnames")))
  expect(errors.map(isDatabaseAway)).toEqual([true, true])
})

test('a file of DATABASE_URL that is away while it is renewed costs the lines that would be opened then, and neither the process nor what was asked over others', async () => {
  const fresh = await freshDatabase()
  const folder = temporaryFolder()
  const file = join(folder, 'client.crt')
  // Read whatever sslmode says.
  const there = { url: `${urlOf(fresh.connection)}&sslmode=disable&sslcert=${file}` }
  const db = openDatabase(there, { name: 'renewed', connectionsMax: 1, answerMs: 5_000 })
  const heard = Promise.withResolvers<void>()
  const listening = listen(there, 'renewed', () => heard.resolve())
  const away = expect.objectContaining({ code: 'ENOENT', path: file }) as Error
  try {
    const told: unknown = await db.run('select').catch((error: unknown) => error)
    expect([told, isDatabaseAway(told)]).toEqual([away, true])

    writeFileSync(file, '')
    let next: Promise<unknown> | undefined
    const ended: unknown = await db
      .transaction(async (tx) => {
        next = db.run('select').catch((error: unknown) => error)
        rmSync(file)
        await tx.run('select pg_terminate_backend(pg_backend_pid())')
      })
      .catch((error: unknown) => error)
    expect(ended).toMatchObject({ code: '57P01' })
    expect(await next).toEqual(away)

    writeFileSync(file, '')
    expect(await db.run('select 1 one')).toEqual([{ one: 1 }])
    await heard.promise
  } finally {
    await listening.stop()
    await db.close()
    await fresh.drop()
  }
})
