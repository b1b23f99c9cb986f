// The process as its operator meets it: clear words when it cannot start, an end when one of its two processes dies, nothing left behind,
// numbers of both processes in one text, and a log without anybody's address, key or letter.
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, constants, existsSync, openSync, readFileSync, readSync, readdirSync, writeSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { constants as system } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { ending, temporaryFolder } from '../test/world/ending.ts'
import { freePorts } from './base/free-ports.ts'
import { limits } from './config.ts'
import { emptyDatabase, freshDatabase, urlOf } from '../test/world/postgres.ts'
import { withUs } from '../test/world/with-us.ts'
import { openDatabase } from './store/database.ts'
import { poolerBetween } from './store/database-away.ts'

const binary = fileURLToPath(new URL('../bin/posthorn', import.meta.url))
const children: ChildProcess[] = []

const database = await ending(freshDatabase)
const folder = temporaryFolder()
const environment = {
  PATH: process.env['PATH'] ?? '',
  HOME: process.env['HOME'] ?? '/',
  DATABASE_URL: urlOf(database.connection),
  POSTHORN_SECRET_KEY: randomBytes(32).toString('base64'),
  POSTHORN_DATA_DIR: folder,
  POSTHORN_HOSTNAME: 'node.test',
  // On one processor both roles would share a process.
  POSTHORN_ROLES: 'api,deliver',
}
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
})

interface Running {
  readonly pid: number
  readonly child: ChildProcess
  readonly url: string
  readonly metricsUrl: string
  readonly exited: Promise<number | null>
  stdout(): string
  stderr(): string
}

/** `serve`, until it is ready or has ended. */
async function serve(changes: Record<string, string> = {}): Promise<Running> {
  const [http = 0, metrics = 0, feedback = 0] = await freePorts(3)
  const env = {
    ...environment,
    POSTHORN_HTTP_PORT: String(http),
    POSTHORN_METRICS_PORT: String(metrics),
    POSTHORN_FEEDBACK_PORT: String(feedback),
    ...changes,
  }
  // As systemd and Docker start it: with leave to write core files.
  const start = ['-c', 'ulimit -S -c "$(ulimit -H -c)"; exec "$0" serve', binary]
  const child = spawn(...withUs('/bin/sh', start), { env, stdio: ['ignore', 'pipe', 'pipe'] })
  children.push(child)
  let stdout = ''
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const exited = once(child, 'close').then(([status]) => status as number | null)
  const ready = new Promise<void>((resolve) => {
    createInterface(child.stdout).on('line', (line) => {
      stdout += `${line}\n`
      if (line.startsWith('posthorn ready')) resolve()
    })
  })
  await Promise.race([ready, exited])
  return {
    pid: child.pid ?? 0,
    child,
    url: `http://127.0.0.1:${http}`,
    metricsUrl: `http://127.0.0.1:${env.POSTHORN_METRICS_PORT}/metrics`,
    exited,
    stdout: () => stdout,
    stderr: () => stderr,
  }
}

/** What a person reads on standard error: the lines that are not the log's. */
const sentences = (run: Running): string[] =>
  run
    .stderr()
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('{'))

/** The delivery process. */
function childOf(pid: number): number {
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    const stat = statOf(Number(name))
    if (stat?.parent === pid) return Number(name)
  }
  throw new Error(`process ${pid} has no child`)
}
function statOf(pid: number): { parent: number; state: string } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [state = '', parent] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state, parent: Number(parent) }
  } catch {
    return undefined // it has ended
  }
}
const isGone = (pid: number): boolean => (statOf(pid)?.state ?? 'Z') === 'Z'
async function gone(pid: number): Promise<void> {
  while (!isGone(pid)) await new Promise((resolve) => setTimeout(resolve, 5))
}

describe('a start that cannot be', () => {
  test('all wrong settings are listed together', async () => {
    const run = await serve({
      POSTHORN_HTTP_PORT: 'abc',
      POSTHORN_ROUTE: 'nowhere',
      POSTHORN_TYPO: 'x',
      POSTHORN_SECRET_KEY: '',
    })
    expect(await run.exited).toBe(1)
    expect(sentences(run).map((line) => line.split(' ')[0])).toEqual([
      'POSTHORN_HTTP_PORT',
      'POSTHORN_ROUTE',
      'POSTHORN_TYPO',
      'POSTHORN_SECRET_KEY',
    ])
  })

  test.each([
    ['POSTHORN_HTTP_PORT', 'http'],
    ['POSTHORN_METRICS_PORT', 'metrics'],
    ['POSTHORN_SMTP_PORT', 'submission'],
    ['POSTHORN_SMTPS_PORT', 'submissions'],
    ['POSTHORN_FEEDBACK_PORT', 'feedback'],
  ])('a busy port is one clear sentence that names %s', async (name, what) => {
    const busy = createServer().listen(0, '127.0.0.1')
    await once(busy, 'listening')
    const { port } = busy.address() as AddressInfo
    const open = { POSTHORN_SMTP_PORT: '0', POSTHORN_SMTPS_PORT: '0', POSTHORN_ROLES: 'api,smtp,feedback' }
    const run = await serve({ ...open, [name]: String(port) })
    expect(await run.exited).toBe(1)
    busy.close()
    expect(sentences(run)).toEqual([
      `posthorn: ${what} cannot listen on 127.0.0.1:${port}: another program has the port; end it, or set ${name} to another port`,
    ])
    expect(run.stderr()).not.toContain('"event":"fault"')
  })

  test('all busy ports are told at once, so that a second copy on a machine needs one start to be told what to set', async () => {
    const names = ['HTTP', 'SMTP', 'SMTPS', 'FEEDBACK', 'METRICS'].map((name) => `POSTHORN_${name}_PORT`)
    const busy = await Promise.all(
      names.map(async (name) => {
        const server = createServer().listen(0, '127.0.0.1')
        await once(server, 'listening')
        return { name, server, port: (server.address() as AddressInfo).port }
      }),
    )
    const run = await serve({
      POSTHORN_ROLES: 'api,smtp,feedback',
      ...Object.fromEntries(busy.map(({ name, port }) => [name, String(port)])),
    })
    expect(await run.exited).toBe(1)
    for (const { server } of busy) server.close()
    expect(sentences(run)).toEqual(
      busy.map(({ name, port }) =>
        expect.stringMatching(new RegExp(`:${port}: another program has the port; .*${name} to`)),
      ),
    )
  })

  test.each([
    ['POSTHORN_HTTP_HOST', 'http cannot listen on 192.0.2.1:'],
    ['POSTHORN_FEEDBACK_HOST', 'feedback cannot listen on 192.0.2.1:'],
  ])('an address of another machine is one clear sentence that names %s', async (name, words) => {
    const run = await serve({ POSTHORN_ROLES: 'api,feedback', [name]: '192.0.2.1' })
    expect(await run.exited).toBe(1)
    expect(sentences(run)).toEqual([
      expect.stringMatching(new RegExp(`^posthorn: ${words}\\d+: that is no address of this machine; set ${name}`)),
    ])
  })

  test('one port for two of our own is a wrong setting', async () => {
    const run = await serve({ POSTHORN_HTTP_PORT: '3946', POSTHORN_METRICS_PORT: '3946' })
    expect(await run.exited).toBe(1)
    expect(sentences(run)).toEqual([
      'POSTHORN_METRICS_PORT is 3946, which POSTHORN_HTTP_PORT is too: each needs a port of its own',
    ])
  })

  test('TLS files that cannot be used are wrong settings, and nothing is made', async () => {
    const dataDir = join(folder, 'never-made')
    const run = await serve({
      POSTHORN_ROLES: 'feedback',
      POSTHORN_TLS_CERT: join(folder, 'no-cert.pem'),
      POSTHORN_TLS_KEY: join(folder, 'no-key.pem'),
      POSTHORN_DATA_DIR: dataDir,
      POSTHORN_TYPO: 'x',
    })
    expect(await run.exited).toBe(1)
    expect(sentences(run)).toEqual([
      'POSTHORN_TYPO is not a setting; docs/config.md lists them',
      `POSTHORN_TLS_CERT names ${folder}/no-cert.pem, which does not exist`,
      `POSTHORN_TLS_KEY names ${folder}/no-key.pem, which does not exist`,
    ])
    expect(existsSync(dataDir)).toBe(false)
  })

  test.each([
    ['below /proc', '/proc/posthorn/data', /^posthorn: The data folder \/proc\/posthorn\/data cannot be written/],
    ['below a file', join(fileURLToPath(import.meta.url), 'data'), /^posthorn: The data folder .* is a file and not/],
  ])('a data folder %s: one clear sentence, with either database', async (_, dataDir, words) => {
    for (const url of ['', environment['DATABASE_URL'] ?? '']) {
      const run = await serve({ POSTHORN_DATA_DIR: dataDir, DATABASE_URL: url })
      expect(await run.exited).toBe(1)
      expect(sentences(run)).toEqual([expect.stringMatching(words)])
      expect(run.stderr()).not.toContain('"event":"fault"')
    }
  })

  test.each([
    ['nobody listens', 'postgres://me@127.0.0.1:1/none', /^posthorn: .*ECONNREFUSED.*database cannot be reached/],
    [
      'nobody listens on any address of a name',
      'postgres://me@localhost:1/none',
      /^posthorn: .*ECONNREFUSED.*database cannot be reached/,
    ],
    ['no such socket', 'postgres://me@/none?host=/nowhere', /^posthorn: .*ENOENT.*database cannot be reached/],
  ])('no database, %s: one clear sentence', async (_, url, words) => {
    const run = await serve({ DATABASE_URL: url })
    expect(await run.exited).toBe(1)
    expect(sentences(run)).toEqual([expect.stringMatching(words)])
    expect(run.stderr()).not.toContain('"event":"fault"')
  })

  test('a database without a connection to spare: one clear sentence with the way out', async () => {
    const few = await emptyDatabase()
    const { database: name } = few.connection
    const owner = openDatabase(few.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
    await owner.run(`create role "${name}" login password 'secret' connection limit 0`)
    const url = urlOf({ ...few.connection, user: name, password: 'secret' })
    const run = await serve({ DATABASE_URL: url })
    expect(await run.exited).toBe(1)
    await owner.run(`drop role "${name}"`)
    await owner.close()
    await few.drop()
    expect(sentences(run)).toEqual([expect.stringMatching(/^posthorn: too many connections .*; raise max_connections/)])
  })

  test('a pooler that takes no options of a session is named as what it is', async () => {
    // The words of PgBouncer 1.18.
    const said = 'SFATAL\0C08P01\0Munsupported startup parameter: options\0\0'
    const head = Buffer.alloc(5, 'E')
    head.writeInt32BE(said.length + 4, 1)
    const pooler = createServer((line) => line.once('data', () => line.end(Buffer.concat([head, Buffer.from(said)]))))
    await once(pooler.listen(0, '127.0.0.1'), 'listening')
    const { port } = pooler.address() as AddressInfo
    const run = await serve({ DATABASE_URL: `postgres://me:secret@127.0.0.1:${port}/none` })
    expect(await run.exited).toBe(1)
    pooler.close()
    expect(sentences(run)).toEqual([`posthorn: unsupported startup parameter: options: ${poolerBetween}`])
  })

  test('a database that wants a password which nobody has given: one clear sentence, and the end at once', async () => {
    const url = new URL(environment['DATABASE_URL'] ?? '')
    url.password = ''
    const run = await serve({ DATABASE_URL: url.href })
    const said = /^posthorn: .*password.*: PostgreSQL is there and wants the right password; look at .* in DATABASE_URL/
    expect(await run.exited).toBe(1)
    expect(sentences(run)).toEqual([expect.stringMatching(said)])
    // The server itself would wait a minute for the password.
    const env = { ...environment, DATABASE_URL: url.href }
    const command = promisify(execFile)(binary, ['workspace', 'list'], { env, timeout: 15_000 })
    await expect(command).rejects.toMatchObject({ code: 1, stderr: expect.stringMatching(said) as string })
  }, 90_000)
})

describe('two processes', () => {
  test('serve, tell their numbers in one text, write no secrets, and end together within seconds', async () => {
    const run = await serve({ POSTHORN_LOG_LEVEL: 'trace' })
    const { stdout } = await promisify(execFile)(binary, ['workspace', 'list', '--json'], { env: environment })
    const workspace = (JSON.parse(stdout) as { id: string }[])[0]?.id ?? ''
    const key = /ph_\S+|(?<=Bearer )[^']+/.exec(run.stdout())?.[0] ?? ''
    const mailboxId = /"mailboxId":"([^"]+)"/.exec(run.stdout())?.[1]
    expect([workspace === '', key === '', mailboxId === undefined]).toEqual([false, false, false])
    const send = (recipient: string, headers: Record<string, string> = {}) =>
      fetch(`${run.url}/api/v1/send`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({
          mailboxId,
          recipient,
          subject: 'canary-subject',
          bodyText: 'canary-body',
          metadata: { a: 'canary-metadata' },
        }),
      })
    const answers = await Promise.all([
      send('canary-one@example.org'),
      send('delivered@simulator.posthorn.test', { 'idempotency-key': 'canary-idempotency' }),
      send('canary two@not an address'),
      send('canary-three@example.org', { authorization: `Bearer ${key}canary-key` }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 400, 401])
    const metrics = await untilDelivered(run.metricsUrl, 2)
    const declared = metrics.split('\n').flatMap((line) => /^# (?:HELP|TYPE) \S+/.exec(line)?.[0] ?? [])
    expect(declared).toEqual([...new Set(declared)])
    expect(metrics).toMatch(/^posthorn_accepted_total\{.*process="main".*\} 2$/m)
    expect(metrics).toMatch(/^posthorn_refused_total\{.*code="invalid_api_key".*\} 1$/m)
    for (const process of ['main', 'deliver'])
      expect(metrics).toMatch(new RegExp(`^process_cpu_seconds_total\\{.*process="${process}".*\\}`, 'm'))
    // Every sample stands below the TYPE of its own family.
    let family = ''
    for (const line of metrics.trimEnd().split('\n')) {
      family = /^# TYPE (\S+)/.exec(line)?.[1] ?? family
      if (!line.startsWith('#')) expect(line.startsWith(family)).toBe(true)
    }
    expect((await fetch(run.metricsUrl.replace('/metrics', '/'))).status).toBe(404)
    expect((await fetch(`${run.metricsUrl}?from=scraper`)).status).toBe(200)
    expect(run.stdout()).toMatch(/^ {2}API .*\n {2}Dashboard .*\n {2}Metrics .*\n {2}Mail goes .*\n {2}Scanner /m) // what runs, and no more
    const delivery = childOf(run.pid)
    const began = performance.now()
    run.child.kill('SIGTERM')
    expect(await run.exited).toBe(0)
    expect(performance.now() - began).toBeLessThan(10_000)
    expect(isGone(delivery)).toBe(true)
    const log = run.stderr()
    for (const event of ['started', 'accepted', 'refused', 'attempted', 'stopped'])
      expect(log).toContain(`"event":"${event}"`)
    expect(log).not.toMatch(/canary/)
    expect(log).not.toContain(key)
    expect(log).not.toContain('"event":"fault"')
    expect(sentences(run)).toEqual([])
  })

  test('the delivery process killed: the whole ends, and not with success', async () => {
    const run = await serve()
    process.kill(childOf(run.pid), 'SIGKILL')
    expect(await run.exited).toBe(1)
    expect(sentences(run)).toEqual(['posthorn: the delivery process ended (SIGKILL)'])
    // Another start needs no first workspace any more, and keeps its mouth shut about keys.
    const again = await serve()
    expect(again.stdout()).toContain('Keys and passwords are kept as hashes only')
    again.child.kill('SIGINT')
    expect(await again.exited).toBe(0)
  })

  test.each([
    ['SIGTERM', 'SIGINT'],
    ['SIGINT', 'SIGTERM'],
  ] as const)('a second signal ends a stop that waits at once, be it another one: %s, %s', async (first, second) => {
    const run = await serve()
    const exited = once(run.child, 'exit')
    const delivery = nodeChildOf(run.pid)
    process.kill(delivery, 'SIGSTOP') // waited for, as long as a stop may take
    try {
      run.child.kill(first)
      run.child.kill(second)
      expect(await exited).toEqual([130, null])
    } finally {
      process.kill(delivery, 'SIGCONT')
    }
    await gone(delivery)
  })

  // A closed terminal sends SIGHUP and its shell does again, systemd beside the SIGTERM that ends a session: nobody is in haste.
  test.each([
    ['SIGTERM', 'SIGHUP'],
    ['SIGHUP', 'SIGTERM'],
  ] as const)('SIGHUP hurries no stop, and is none that another signal hurries: %s, %s', async (first, second) => {
    const run = await serve()
    run.child.kill(first)
    run.child.kill(second)
    expect(await run.exited).toBe(0)
  })

  // Node's own answer is a debugger on loopback: whoever is logged in on the machine would run code in the process, and read its keys.
  test('SIGUSR1, as tools that turn logs send it, opens no debugger and ends nothing; and no core file is left of what ends otherwise', async () => {
    const run = await serve()
    for (const pid of [run.pid, nodeChildOf(run.pid)]) {
      expect(readFileSync(`/proc/${pid}/limits`, 'utf8')).toMatch(/^Max core file size +0 /m)
      const caught = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
      expect(BigInt(`0x${caught}`) & (1n << BigInt(system.signals.SIGUSR1 - 1))).toBe(0n)
      process.kill(pid, 'SIGUSR1')
    }
    expect((await fetch(`${run.url}/readyz`)).status).toBe(200)
    run.child.kill('SIGTERM')
    expect(await run.exited).toBe(0)
    expect(sentences(run)).toEqual([])
  })

  test('a delivery process that hangs is no readiness, and the answer names it; one that wakes up is', async () => {
    const run = await serve()
    const ready = async () => {
      const answer = await fetch(`${run.url}/readyz`)
      return [answer.status, await answer.json()]
    }
    const soon = { timeout: 30_000, interval: 20 } // on a busy machine it may be late with an answer
    const well = [200, { status: 'ready', detail: { database: 'reachable', delivery: 'not stopped' } }]
    await expect.poll(ready, soon).toEqual(well)
    const delivery = nodeChildOf(run.pid)
    process.kill(delivery, 'SIGSTOP')
    try {
      const hangs = { database: 'reachable', delivery: 'its process does not answer' }
      const not = [503, { status: 'not_ready', detail: hangs, nodeStop: 'silent' }]
      expect(await Promise.all([ready(), ready()])).toEqual([not, not])
      expect(await ready()).toEqual(not)
    } finally {
      process.kill(delivery, 'SIGCONT')
    }
    await expect.poll(ready, soon).toEqual(well)
  })

  test('a start that is not at its end is no readiness, at neither port: who waits for that finds what the first start makes', async () => {
    const ports = await freePorts(2)
    const ready = () =>
      Promise.all(
        ports.map(async (port) => {
          const answer = await fetch(`http://127.0.0.1:${port}/readyz`)
          return [answer.status, await answer.json()]
        }),
      )
    const detail = { database: 'reachable', delivery: 'not stopped' }
    const not = [503, { status: 'not_ready', detail: { ...detail, start: 'not at its end yet' } }]
    const well = [200, { status: 'ready', detail }]
    const [http, metrics] = ports.map(String) as [string, string]
    const owner = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 60_000 })
    let starting: ReturnType<typeof serve> | undefined
    try {
      await owner.transaction(async (tx) => {
        // The first login is the last that is made.
        await tx.run('lock table users in access exclusive mode')
        starting = serve({ POSTHORN_HTTP_PORT: http, POSTHORN_METRICS_PORT: metrics })
        const seen = async () => {
          await tx.run('select') // or the server would end a transaction that does nothing
          return ready().catch(() => [])
        }
        await expect.poll(seen, { timeout: 60_000, interval: 50 }).toEqual([not, not])
      })
    } finally {
      await owner.close()
    }
    await starting
    expect(await ready()).toEqual([well, well])
  })

  test('a database that takes nothing any more is no readiness, and the answer says why', async () => {
    const run = await serve({ POSTHORN_ROLES: 'api' })
    // The lines that were ended are heard of one by one.
    const ready = async (): Promise<unknown[]> => {
      const answer = await fetch(`${run.url}/readyz`)
      const { detail } = (await answer.json()) as { detail: { database: string } }
      return detail.database === 'not reachable' ? ready() : [answer.status, detail.database]
    }
    expect(await ready()).toEqual([200, 'reachable'])
    const owner = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
    const end = `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
    const name = database.connection.database
    try {
      // As a standby is, to whoever asks: after a failover the old primary may come back as one behind the same address.
      await owner.run(`alter database ${name} set default_transaction_read_only = on`)
      await owner.run(end)
      expect(await ready()).toEqual([503, 'read-only: a standby, or default_transaction_read_only is on'])
    } finally {
      await owner.run('set default_transaction_read_only = off')
      await owner.run(`alter database ${name} reset default_transaction_read_only`)
      await owner.run(end)
      await owner.close()
    }
    expect(await ready()).toEqual([200, 'reachable'])
  })

  test('a node without an API says beside its metrics that it lives, and whether it can work', async () => {
    const run = await serve({ POSTHORN_ROLES: 'deliver' })
    const ask = async (path: string) => {
      const answer = await fetch(run.metricsUrl.replace('/metrics', path))
      return [answer.status, await answer.json()]
    }
    expect(await ask('/healthz')).toEqual([200, { status: 'ok' }])
    const detail = { database: 'reachable', delivery: 'not stopped' }
    expect(await ask('/readyz')).toEqual([200, { status: 'ready', detail }])
    const owner = openDatabase(database.connection, { name: 'test', connectionsMax: 1, answerMs: 5_000 })
    try {
      await owner.run('alter table delivery_stops rename to elsewhere')
      const away = { database: 'not reachable' }
      expect(await ask('/readyz')).toEqual([503, { status: 'not_ready', detail: away }])
    } finally {
      await owner.run('alter table elsewhere rename to delivery_stops')
      await owner.close()
    }
    expect(await ask('/readyz')).toEqual([200, { status: 'ready', detail }])
  })

  test.each(['webhooks', 'deliver,feedback'])(
    'a node with %s is ready at an address where it listens',
    async (roles) => {
      const run = await serve({ POSTHORN_ROLES: roles, POSTHORN_METRICS_PORT: '0' })
      const [, url = ''] = /^posthorn ready (.*)$/m.exec(run.stdout()) ?? []
      expect((await fetch(`${url}/readyz`)).status).toBe(200)
    },
  )

  test('a port of 0 is any that is free, and what is printed names it', async () => {
    const run = await serve({ POSTHORN_HTTP_PORT: '0', POSTHORN_METRICS_PORT: '0', POSTHORN_FEEDBACK_PORT: '0' })
    const [, url = ''] = /^posthorn ready (.*)$/m.exec(run.stdout()) ?? []
    expect(new URL(url).port).toMatch(/^[1-9]/)
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    const [, metrics = ''] = /^ {2}Metrics +(.*)$/m.exec(run.stdout()) ?? []
    expect(await (await fetch(metrics)).text()).toContain('process="deliver"')
  })

  test('a standard output that nobody reads holds up neither the service nor its end, and gets its words when somebody does', async () => {
    const pipe = join(folder, 'pipe')
    await promisify(execFile)('mkfifo', [pipe])
    const ends = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK)
    const fill = () => {
      try {
        for (;;) writeSync(ends, Buffer.alloc(4_096, '.'))
      } catch (error) {
        expect(error).toMatchObject({ code: 'EAGAIN' })
      }
    }
    const read = Buffer.alloc(1 << 20)
    const start = async () => {
      fill()
      const [http, metrics] = await freePorts(2)
      const ports = { POSTHORN_HTTP_PORT: String(http), POSTHORN_METRICS_PORT: String(metrics) }
      const env = { ...environment, POSTHORN_ROLES: 'api', ...ports }
      const stdout = openSync(pipe, 'w')
      const child = spawn(...withUs(binary, ['serve']), { env, stdio: ['ignore', stdout, 'pipe'] })
      closeSync(stdout)
      children.push(child)
      // The last line of a start; it is written by the loop that a write without an end would hold.
      for await (const line of createInterface(child.stderr as Readable)) if (line.includes('"roles":"api"')) break
      return child
    }
    const ended = await start()
    ended.kill('SIGTERM')
    expect(await once(ended, 'exit')).toEqual([0, null])
    const late = await start()
    let said = ''
    while (!said.includes('posthorn ready http')) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      try {
        said += read.toString('utf8', 0, readSync(ends, read)).replaceAll('.'.repeat(64), '')
      } catch (error) {
        expect(error).toMatchObject({ code: 'EAGAIN' })
      }
    }
    late.kill('SIGTERM')
    expect(await once(late, 'exit')).toEqual([0, null])
    closeSync(ends)
  }, 180_000)

  test('the main process killed: the delivery process ends too', async () => {
    const run = await serve()
    const delivery = childOf(run.pid)
    run.child.kill('SIGKILL')
    await run.exited
    await gone(delivery)
  })

  test('a signal during the start ends it, with nothing left behind', async () => {
    const [http = 0] = await freePorts(1)
    const child = spawn(...withUs(binary, ['serve']), {
      env: {
        ...environment,
        POSTHORN_HTTP_PORT: String(http),
        POSTHORN_METRICS_PORT: '0',
        POSTHORN_FEEDBACK_PORT: '0',
      },
      stdio: ['ignore', 'ignore', 'ignore'],
    })
    children.push(child)
    const exited = once(child, 'exit')
    let delivery: number | undefined
    // The earliest sign of life that can be seen from outside: its second process.
    while (delivery === undefined && child.exitCode === null) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      try {
        delivery = nodeChildOf(child.pid ?? 0)
      } catch {
        // not yet
      }
    }
    child.kill('SIGTERM')
    expect(await exited).toEqual([0, null])
    await gone(delivery ?? 0)
    expect(isGone(delivery ?? 0)).toBe(true)
  })

  test('a signal during the start ends it at once, where the database never answers', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as AddressInfo
    const env = { ...environment, DATABASE_URL: `postgres://me:secret@127.0.0.1:${port}/none` }
    const child = spawn(...withUs(binary, ['serve']), { env, stdio: ['ignore', 'ignore', 'pipe'] })
    children.push(child)
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
    await once(silent, 'connection')
    const began = performance.now()
    child.kill('SIGTERM')
    expect(await once(child, 'close')).toEqual([0, null])
    expect(performance.now() - began).toBeLessThan(limits.databasePatientWaitMs / 2)
    silent.close()
    expect(said.trimEnd().split('\n')).toEqual([expect.stringContaining('"event":"stopped"')])
  })
})

test('a system mailbox that there is not is told at the start, not only when somebody waits for a password reset', async () => {
  const run = await serve({ POSTHORN_SYSTEM_MAILBOX: 'nobody@nowhere.example' })
  run.child.kill('SIGTERM')
  expect(await run.exited).toBe(0)
  expect(sentences(run)).toEqual([
    expect.stringMatching(
      /^posthorn: POSTHORN_SYSTEM_MAILBOX names nobody@nowhere\.example, and there is no such mailbox/,
    ),
  ])
})

test('a machine with too little memory is told so at the start, before the kernel ends anything there', async () => {
  const small = 'process.constrainedMemory=()=>536870912'
  const run = await serve({ NODE_OPTIONS: `--import=data:text/javascript,${small}`, POSTHORN_ROLES: 'api' })
  run.child.kill('SIGTERM')
  expect(await run.exited).toBe(0)
  expect(sentences(run)).toEqual([
    expect.stringMatching(
      /^posthorn: 0\.5 GB of memory: .* large mail is often told to come again .* the kernel may end the service/,
    ),
  ])
})

test('a system mailbox that only the first start vouches for is told at each start that sends real mail, until it is mended', async () => {
  const own = await freshDatabase()
  const DATABASE_URL = (environment['DATABASE_URL'] ?? '').replace(
    database.connection.database,
    own.connection.database,
  )
  const started = async (more: Record<string, string>) => {
    const run = await serve({ DATABASE_URL, POSTHORN_ROLES: 'api', ...more })
    run.child.kill('SIGTERM')
    expect(await run.exited).toBe(0)
    return sentences(run)
  }
  try {
    // The quick start, and production on its data.
    expect(await started({ POSTHORN_HOSTNAME: 'laptop' })).toEqual([])
    expect(await started({ POSTHORN_HOSTNAME: 'mta.shop.de', POSTHORN_ROUTE: 'mx' })).toEqual([
      expect.stringMatching(
        /^posthorn: Password resets, invitations and notices come from no-reply@posthorn\.localhost, a name that nobody can have/,
      ),
    ])
  } finally {
    await own.drop()
  }
})

/** Not the shell's and bootstrap's children of the very start. */
function nodeChildOf(pid: number): number {
  const child = childOf(pid)
  if (!readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('delivery-process')) throw new Error('another one')
  return child
}

async function untilDelivered(url: string, n: number): Promise<string> {
  for (;;) {
    const answer = await fetch(url)
    expect(answer.headers.get('content-type')).toContain('text/plain; version=0.0.4')
    const text = await answer.text()
    if (new RegExp(`^posthorn_attempts_total\\{.*outcome="accepted".*process="deliver".*\\} ${n}$`, 'm').test(text))
      return text
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
