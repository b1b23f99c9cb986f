import { execFileSync, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { silentLog } from '../base/log.ts'
import { survivesItsLife } from '../base/service.test-kit.ts'
import { sweepCopies } from './binaries.ts'
import { ensureCluster } from './cluster.ts'
import { embeddedPostgres, hasCluster } from './embedded.ts'
import type { EmbeddedConnection } from './embedded.ts'

const asRoot = process.getuid?.() === 0
const folder = fs.mkdtempSync(join(tmpdir(), 'posthorn-embedded-'))
const children: ChildProcess[] = []
let copies = 0

beforeAll(async () => {
  fs.chmodSync(folder, 0o711)
  await whileRunning(join(folder, 'first'), () => Promise.resolve())
})
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
  fs.rmSync(folder, { recursive: true, force: true })
})

/** A data folder as the first start leaves it. A copy is as good, because an installation may be moved. */
function installed(): string {
  const path = join(folder, `copy-${++copies}`)
  execFileSync('cp', ['-a', join(folder, 'first'), path])
  return path
}

const make = (dataDir: string, purpose: 'serve' | 'command' = 'serve') =>
  embeddedPostgres({ dataDir, purpose, log: silentLog, memoryBytes: 512 * 1024 * 1024 })

async function whileRunning<T>(dataDir: string, work: (connection: EmbeddedConnection) => Promise<T>): Promise<T> {
  const postgres = make(dataDir)
  const { connection } = await postgres.start()
  try {
    return await work(connection)
  } finally {
    await postgres.stop()
  }
}

async function query(connection: EmbeddedConnection, sql: string): Promise<unknown[]> {
  const client = new Client(connection)
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows.flatMap((row) => Object.values(row))
  } finally {
    await client.end()
  }
}

/** A cluster that is being made has this file by now. */
const isMaking = (dataDir: string, ...file: string[]) =>
  fs.readdirSync(dataDir).some((name) => name.includes('.making') && fs.existsSync(join(dataDir, name, ...file)))

type Word = { connection?: EmbeddedConnection; trouble?: string; lost?: string }

/** Another process that starts the database of the folder. */
function startChild(dataDir: string, purpose: 'serve' | 'command' = 'serve') {
  const program = fileURLToPath(new URL('embedded.test-child.ts', import.meta.url))
  const child = spawn(process.execPath, [program, dataDir, purpose], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(child)
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const word = async (): Promise<Word> => JSON.parse(String((await lines.next()).value)) as Word
  return { child, pid: child.pid ?? 0, word, ended: once(child, 'exit') }
}

async function started(dataDir: string) {
  const running = startChild(dataDir)
  const { connection, trouble } = await running.word()
  if (connection === undefined) throw new Error(trouble)
  return { ...running, connection, postmaster: Number(pidFile(dataDir).split('\n')[0]) }
}

const pidFile = (dataDir: string): string => fs.readFileSync(join(dataDir, 'postgresql', 'postmaster.pid'), 'utf8')
const runs = (pid: number): boolean => {
  try {
    // A zombie has ended, whether or not anybody has looked.
    return (
      execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
        .trim()
        .startsWith('Z') === false
    )
  } catch {
    return false
  }
}
const gone = (pid: number) => vi.waitFor(() => expect(runs(pid)).toBe(false), { timeout: 30_000, interval: 20 })
const parentOf = (pid: number): number =>
  Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)], { encoding: 'utf8' }))
const childrenOf = (pid: number): number[] =>
  execFileSync('ps', ['-eo', 'pid=,ppid='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([child, parent]) => (parent === pid && child !== undefined ? [child] : []))

describe('a life', () => {
  const shared = join(folder, 'first')
  const connections = new WeakMap<object, EmbeddedConnection>()
  survivesItsLife(
    'embedded PostgreSQL',
    () => {
      const postgres = make(shared)
      const service = {
        name: postgres.name,
        stop: () => postgres.stop(),
        start: async () => {
          connections.set(service, (await postgres.start()).connection)
        },
      }
      return Promise.resolve(service)
    },
    async (service) => {
      const connection = connections.get(service)
      if (connection === undefined) throw new Error('never started')
      await query(connection, 'select 1')
    },
  )

  test('the second start finds the data of the first', async () => {
    const dataDir = installed()
    await whileRunning(dataDir, (connection) => query(connection, 'create table kept as select 42 as answer'))
    expect(await whileRunning(dataDir, (connection) => query(connection, 'select answer from kept'))).toEqual([42])
  })

  test('the start tells the version that the server tells, and not the number of the package that brought it', async () => {
    const told: object[] = []
    const log = { ...silentLog, started: (facts: object) => void told.push(facts) }
    const postgres = embeddedPostgres({ dataDir: installed(), purpose: 'serve', log, memoryBytes: 512 * 1024 * 1024 })
    const { connection } = await postgres.start()
    const [version] = await query(connection, `select current_setting('server_version')`)
    await postgres.stop()
    expect(told).toContainEqual(expect.objectContaining({ service: 'postgresql', version }))
  })

  test('it is durable, UTF-8, sorts by the builtin provider, has checksums, and listens on no network', async () => {
    await whileRunning(installed(), async (connection) => {
      const names = ['fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums', 'server_encoding', 'jit']
      const values = await Promise.all(names.map((name) => query(connection, `select current_setting('${name}')`)))
      expect(values.flat()).toEqual(['on', 'on', 'on', 'on', 'UTF8', 'off'])
      expect(await query(connection, `select current_setting('listen_addresses')`)).toEqual([''])
      // A sixteenth of 512 MB: what the system caches gives way where memory is short, and this does not.
      expect(await query(connection, `select current_setting('shared_buffers')`)).toEqual(['32MB'])
      expect(
        await query(connection, 'select datlocprovider, datlocale from pg_database where datname = current_database()'),
      ).toEqual(['b', 'C.UTF-8'])
    })
  })

  test('what opens the database is for its owner only, and the password is asked for', async () => {
    const dataDir = installed()
    await whileRunning(dataDir, async (connection) => {
      for (const name of ['postgresql.json', 'postgresql.running.json', 'postgresql.log'])
        expect([name, fs.statSync(join(dataDir, name)).mode & 0o777]).toEqual([name, 0o600])
      expect(fs.statSync(connection.host).mode & 0o777).toBe(0o700)
      expect(fs.readFileSync(join(dataDir, 'postgresql.log'), 'utf8')).not.toContain(connection.password)
      await expect(query({ ...connection, password: 'guess' }, 'select 1')).rejects.toThrow(
        /password authentication failed/,
      )
    })
    expect(fs.existsSync(join(dataDir, 'postgresql.running.json'))).toBe(false)
  })

  test('a first start that was cut off is made again from the beginning', async () => {
    const dataDir = installed()
    const state = join(dataDir, 'postgresql.json')
    const remembered = JSON.parse(fs.readFileSync(state, 'utf8')) as object
    fs.writeFileSync(state, JSON.stringify({ ...remembered, made: false }))
    fs.mkdirSync(join(dataDir, 'postgresql.making'))
    fs.rmSync(join(dataDir, 'postgresql', 'global'), { recursive: true })
    expect(await whileRunning(dataDir, (connection) => query(connection, 'select 1 as one'))).toEqual([1])
    expect(fs.existsSync(join(dataDir, 'postgresql.making'))).toBe(false)
  })

  test('a path too long for a socket has its socket elsewhere, and leaves none behind', async () => {
    const dataDir = join(folder, 'long'.repeat(25))
    execFileSync('cp', ['-a', join(folder, 'first'), dataDir])
    const host = await whileRunning(dataDir, async (connection) => {
      expect(await query(connection, 'select 1 as one')).toEqual([1])
      return connection.host
    })
    expect(host.startsWith(dataDir)).toBe(false)
    expect(fs.existsSync(host)).toBe(false)
  })

  test('a comma in the path is no end of it', async () => {
    const dataDir = join(folder, 'mail, "own" and others')
    execFileSync('cp', ['-a', join(folder, 'first'), dataDir])
    expect(await whileRunning(dataDir, (connection) => query(connection, 'select 1 as one'))).toEqual([1])
  })

  test.each([
    ['that is not there', () => join(folder, 'missing')],
    [
      'that is too deep for a socket as well',
      () =>
        fs.mkdirSync(join(folder, 'deep/'.repeat(25)), { recursive: true, mode: 0o755 }) &&
        join(folder, 'deep/'.repeat(25)),
    ],
    ["that PostgreSQL's user may not enter", () => fs.mkdtempSync(join(folder, 'private-'))], // pam_tmpdir makes such a one
  ])('a path too long for a socket, and a temporary folder %s', async (_, makeFolder) => {
    const dataDir = join(folder, `${'long'.repeat(25)}-${++copies}`)
    execFileSync('cp', ['-a', join(folder, 'first'), dataDir])
    vi.stubEnv('TMPDIR', makeFolder())
    try {
      expect(await whileRunning(dataDir, (connection) => query(connection, 'select 1 as one'))).toEqual([1])
    } finally {
      vi.unstubAllEnvs()
    }
  })

  test("PostgreSQL's log goes on when it can be written again", async () => {
    const dataDir = installed()
    const file = join(dataDir, 'postgresql.log')
    const complaint = (connection: EmbeddedConnection, name: string) =>
      expect(query(connection, `select * from ${name}`)).rejects.toThrow(name)
    await whileRunning(dataDir, async (connection) => {
      fs.renameSync(file, `${file}.old`)
      fs.mkdirSync(file) // as unwritable as on a full disk
      await complaint(connection, 'missed')
      fs.rmdirSync(file)
      await vi.waitFor(async () => {
        await complaint(connection, 'told')
        expect(fs.readFileSync(file, 'utf8')).toContain('"told"')
      })
    })
  })

  test("PostgreSQL's log is written where it lies, whatever somebody puts in its place meanwhile", async () => {
    const dataDir = installed()
    const file = join(dataDir, 'postgresql.log')
    const theirs = join(dataDir, 'theirs')
    fs.writeFileSync(theirs, 'theirs')
    await whileRunning(dataDir, async (connection) => {
      fs.rmSync(file)
      fs.symlinkSync(theirs, file)
      await expect(query(connection, 'select * from astray')).rejects.toThrow('astray')
      fs.rmSync(file)
      await vi.waitFor(async () => {
        await expect(query(connection, 'select * from found')).rejects.toThrow('found')
        expect(fs.readFileSync(file, 'utf8')).toContain('"found"')
      })
      expect(fs.statSync(file).mode & 0o777).toBe(0o600)
      expect(fs.readFileSync(theirs, 'utf8')).toBe('theirs')
    })
  })

  test('where PostgreSQL may not enter the data folder, the cluster stands elsewhere and is found again', async () => {
    const dataDir = join(fs.mkdtempSync(join(folder, 'closed-')), 'data') // mkdtemp makes 0700
    await whileRunning(dataDir, (connection) => query(connection, 'create table kept as select 42 as answer'))
    expect(await whileRunning(dataDir, (connection) => query(connection, 'select answer from kept'))).toEqual([42])
    const { cluster } = JSON.parse(fs.readFileSync(join(dataDir, 'postgresql.json'), 'utf8')) as { cluster: string }
    expect(cluster).toMatch(asRoot ? /^\/var\/lib\/posthorn\/clusters\/[0-9a-f]{16}$/ : /^postgresql$/)
    if (asRoot) for (const rest of ['', '.lock', '.socket']) fs.rmSync(cluster + rest, { recursive: true })
  })
})

describe('crashes', () => {
  const commit = 'create table kept as select 42 as answer'
  const finds = async (dataDir: string) =>
    expect(await whileRunning(dataDir, (connection) => query(connection, 'select answer from kept'))).toEqual([42])

  test('when our process is killed, PostgreSQL ends by itself', async () => {
    const dataDir = installed()
    const { child, connection, postmaster } = await started(dataDir)
    await query(connection, commit)
    child.kill('SIGKILL')
    await gone(postmaster)
    await finds(dataDir)
  })

  test('in the middle of the first start: the next one can begin at once, whatever the initdb that was left still writes', async () => {
    const dataDir = fs.mkdtempSync(join(folder, 'first-killed-'))
    fs.chmodSync(dataDir, 0o711)
    const { child, ended } = startChild(dataDir)
    while (!isMaking(dataDir, 'PG_VERSION')) await new Promise((resolve) => setImmediate(resolve))
    child.kill('SIGKILL')
    await ended
    expect(await whileRunning(dataDir, (connection) => query(connection, 'select 1 as one'))).toEqual([1])
  })

  test('a start right after the kill waits for the one that is ending', async () => {
    const dataDir = installed()
    const { child, connection, ended } = await started(dataDir)
    await query(connection, commit)
    child.kill('SIGKILL')
    await ended
    await finds(dataDir)
  })

  test('when PostgreSQL is killed, its owner is told; the next start recovers every commit', async () => {
    const dataDir = installed()
    const { connection, postmaster, word, ended } = await started(dataDir)
    await query(connection, commit)
    process.kill(postmaster, 'SIGKILL')
    expect((await word()).lost).toContain('PostgreSQL ended by itself')
    await ended
    await finds(dataDir)
  })

  test('when everything is killed at once, the next start recovers every commit', async () => {
    const dataDir = installed()
    const { pid, connection, postmaster, ended } = await started(dataDir)
    await query(connection, commit)
    const shell = parentOf(postmaster)
    for (const each of [pid, shell, ...childrenOf(shell)]) process.kill(each, 'SIGKILL')
    await ended
    await finds(dataDir)
  })

  test('a PostgreSQL that lost its watchdog too is ended by the next start', async () => {
    const dataDir = installed()
    const { pid, connection, postmaster, ended } = await started(dataDir)
    await query(connection, commit)
    const shell = parentOf(postmaster)
    for (const each of [pid, shell, ...childrenOf(shell)]) if (each !== postmaster) process.kill(each, 'SIGKILL')
    await ended
    expect(runs(postmaster)).toBe(true)
    await finds(dataDir)
    expect(runs(postmaster)).toBe(false)
  })

  test.runIf(asRoot)('root writes into no file to which the lock file of a dead PostgreSQL leads', async () => {
    const dataDir = installed()
    const roots = join(folder, 'roots.pid')
    fs.writeFileSync(roots, `${process.pid}\n`)
    fs.symlinkSync(roots, join(dataDir, 'postgresql', 'postmaster.pid'))
    await expect(make(dataDir).start()).rejects.toThrow(/ELOOP/)
    expect(fs.readFileSync(roots, 'utf8')).toBe(`${process.pid}\n`)
  })

  test("a stranger who got the dead PostgreSQL's number is left alone, and does not keep us from starting", async () => {
    const dataDir = installed()
    const { pid, connection, postmaster, ended } = await started(dataDir)
    await query(connection, commit)
    const shell = parentOf(postmaster)
    for (const each of [pid, shell, ...childrenOf(shell)]) process.kill(each, 'SIGKILL')
    await ended
    await gone(postmaster)
    // The stranger must be of PostgreSQL's own user, for PostgreSQL to take it for another of its kind.
    const { uid, gid } = fs.statSync(join(dataDir, 'postgresql'))
    const stranger = spawn('sleep', ['60'], { ...(asRoot && { uid, gid }), stdio: 'ignore' })
    children.push(stranger)
    await once(stranger, 'spawn')
    fs.writeFileSync(join(dataDir, 'postgresql', 'postmaster.pid'), lockOf(stranger.pid, dataDir))
    await finds(dataDir)
    expect(stranger.exitCode).toBeNull()
    expect(stranger.signalCode).toBeNull()
  })

  const lockOf = (pid: number | undefined, dataDir: string): string => pidFile(dataDir).replace(/^\d+/, String(pid))
})

describe('one data folder, several processes', () => {
  test('a second server is refused in a sentence that names the first', async () => {
    const dataDir = installed()
    await whileRunning(dataDir, async (connection) => {
      expect((await startChild(dataDir).word()).trouble).toMatch(
        new RegExp(`^Posthorn already runs with the data folder .* \\(process ${process.pid}\\)`),
      )
      expect(await query(connection, 'select 1 as one')).toEqual([1])
    })
  })

  test('a command is the guest of a running server, and leaves it running', async () => {
    const dataDir = installed()
    await whileRunning(dataDir, async (connection) => {
      const { child, word, ended } = startChild(dataDir, 'command')
      expect((await word()).connection).toEqual(connection)
      child.stdin.end()
      expect(await ended).toEqual([0, null])
      expect(await query(connection, 'select 1 as one')).toEqual([1])
    })
  })

  test('a command in a container of its own is a guest all the same, and a server there is refused: numbers of processes mean nothing', async () => {
    const dataDir = installed()
    await whileRunning(dataDir, async (connection) => {
      const file = join(dataDir, 'postgresql.running.json')
      const nobody = { ...(JSON.parse(fs.readFileSync(file, 'utf8')) as object), pid: 2 ** 31 - 2 }
      fs.writeFileSync(file, JSON.stringify(nobody))
      const [command, server] = [startChild(dataDir, 'command'), startChild(dataDir)]
      expect((await command.word()).connection).toEqual(connection)
      expect((await server.word()).trouble).toMatch(/^Posthorn already runs with the data folder/)
      command.child.stdin.end()
      expect(await command.ended).toEqual([0, null])
    })
  })

  test('commands without a server start the database for themselves, one after the other, and stop it', async () => {
    const dataDir = installed()
    const commands = [1, 2, 3].map(() => startChild(dataDir, 'command'))
    for (const { child } of commands) child.stdin.end()
    const words = await Promise.all(commands.map(({ word }) => word()))
    expect(words.map(({ trouble }) => trouble)).toEqual([undefined, undefined, undefined])
    expect(await Promise.all(commands.map(({ ended }) => ended))).toEqual([
      [0, null],
      [0, null],
      [0, null],
    ])
    expect(fs.existsSync(join(dataDir, 'postgresql', 'postmaster.pid'))).toBe(false)
  })

  test('a server waits for the command that holds the folder', async () => {
    const dataDir = installed()
    const command = startChild(dataDir, 'command')
    await command.word()
    const server = startChild(dataDir)
    const order: string[] = []
    const served = server.word().then((word) => {
      order.push('server')
      return word
    })
    const commanded = command.ended.then(() => order.push('command'))
    command.child.stdin.end()
    expect((await served).connection).toBeDefined()
    await commanded
    expect(order).toEqual(['command', 'server'])
    server.child.stdin.end()
    await server.ended
  })
})

describe('a start that is given up', () => {
  /** Gives up when the log, or else the folder, says that it has come so far. Resolves when the start has ended. */
  async function givenUp(dataDir: string, isSoFar: (step: string | undefined) => boolean): Promise<void> {
    const ending = new AbortController()
    const look = setInterval(() => isSoFar(undefined) && ending.abort(), 1)
    const log = {
      ...silentLog,
      started: (facts: object) => isSoFar((facts as { step?: string }).step) && ending.abort(),
    }
    const giveUp = ending.signal
    const postgres = embeddedPostgres({ dataDir, purpose: 'serve', log, giveUp, memoryBytes: 512 * 1024 * 1024 })
    await expect(postgres.start()).rejects.toThrow('This operation was aborted')
    clearInterval(look)
    await postgres.stop()
  }
  const nothingRuns = (dataDir: string) => {
    expect(fs.existsSync(join(dataDir, 'postgresql', 'postmaster.pid'))).toBe(false)
    expect(execFileSync('ps', ['-eo', 'args='], { encoding: 'utf8' })).not.toContain(dataDir)
    expect(fs.existsSync(join(dataDir, 'postgresql.running.json'))).toBe(false)
  }

  test.each([
    ['before anything is made', (_: string, step?: string) => step === 'creating the database'],
    ['while initdb works', (dataDir: string) => isMaking(dataDir, 'PG_VERSION')],
    ['while the cluster gets its database', (dataDir: string) => isMaking(dataDir, 'base', '5')],
  ])('%s leaves nothing behind, and the next one begins anew', async (_, isSoFar) => {
    const dataDir = fs.mkdtempSync(join(folder, 'given-up-'))
    fs.chmodSync(dataDir, 0o711)
    await givenUp(dataDir, (step) => isSoFar(dataDir, step))
    nothingRuns(dataDir)
    expect(fs.readdirSync(dataDir).filter((name) => name.includes('making'))).toEqual([])
    expect(await whileRunning(dataDir, (connection) => query(connection, 'select 1 as one'))).toEqual([1])
  })

  test('while the server starts, it is stopped', async () => {
    const dataDir = installed()
    await givenUp(dataDir, () => fs.existsSync(join(dataDir, 'postgresql', 'postmaster.pid')))
    nothingRuns(dataDir)
    expect(await whileRunning(dataDir, (connection) => query(connection, 'select 1 as one'))).toEqual([1])
  })

  test('while another process holds the data folder, it waits no longer', async () => {
    const dataDir = installed()
    const command = startChild(dataDir, 'command')
    const { connection } = await command.word()
    await givenUp(dataDir, (step) => step === 'waiting')
    expect(await query(connection as EmbeddedConnection, 'select 1 as one')).toEqual([1])
    command.child.stdin.end()
    expect(await command.ended).toEqual([0, null])
  })
})

describe('what the operator is told', () => {
  const trouble = async (dataDir: string): Promise<string> => {
    const postgres = make(dataDir)
    const error: unknown = await postgres.start().then(
      () => postgres.stop(),
      (reason: unknown) => reason,
    )
    return error instanceof Error ? error.message : 'it started'
  }

  test('a data folder that cannot be', async () => {
    const file = join(folder, 'a-file')
    fs.writeFileSync(file, '')
    expect(await trouble(join(file, 'data'))).toMatch(/^The data folder .*a-file\/data cannot be written \(ENOTDIR\): /)
    expect(await trouble(file)).toMatch(/^The data folder .*a-file cannot be written \(EEXIST\): /)
  })

  test('a database that has disappeared is never replaced by an empty one', async () => {
    const dataDir = installed()
    fs.rmSync(join(dataDir, 'postgresql'), { recursive: true })
    expect(await trouble(dataDir)).toMatch(
      /^The database of this data folder should be in .*\/postgresql but cannot be read/,
    )
    expect(fs.existsSync(join(dataDir, 'postgresql'))).toBe(false)
  })

  test.each(['', '{"clus', 'null', '{}', '{"cluster":7,"password":"x","made":true}'])(
    'what it remembers of its database is damaged: %s',
    async (text) => {
      const dataDir = installed()
      fs.writeFileSync(join(dataDir, 'postgresql.json'), text)
      expect(await trouble(dataDir)).toMatch(/\/postgresql\.json is damaged: put the one from your backup there$/)
    },
  )

  test('a folder that lost a part of its database', async () => {
    const dataDir = installed()
    fs.rmSync(join(dataDir, 'postgresql', 'PG_VERSION'))
    expect(await trouble(dataDir)).toMatch(
      /^There is no whole database in .*\/postgresql .*PG_VERSION: ENOENT.*: bring/,
    )
  })

  test('a database of another PostgreSQL', async () => {
    const dataDir = installed()
    fs.writeFileSync(join(dataDir, 'postgresql', 'PG_VERSION'), '17\n')
    expect(await trouble(dataDir)).toMatch(/was made by PostgreSQL 17, this Posthorn brings 18\.\d+: make a backup/)
  })

  test('a database whose postgresql.json is missing: it stays, nothing begins in its place, and it is there again with the file', async () => {
    const dataDir = installed()
    const state = join(dataDir, 'postgresql.json')
    fs.renameSync(state, `${state}.away`)
    for (const purpose of ['serve', 'command'] as const)
      expect(
        await make(dataDir, purpose)
          .start()
          .then(
            () => 'it started',
            (error: Error) => error.message,
          ),
      ).toMatch(/^There is a database in \S+\/postgresql, and \S+\/postgresql\.json, by which it is opened, is missing/)
    expect(hasCluster(dataDir)).toBe(true)
    fs.renameSync(`${state}.away`, state)
    expect(await trouble(dataDir)).toBe('it started')
  })

  test('a database that others may look into or change is closed to them, and starts', async () => {
    const dataDir = installed()
    const cluster = join(dataDir, 'postgresql')
    fs.chmodSync(cluster, 0o770) // as Kubernetes leaves a volume behind that it has given to a group
    expect(await trouble(dataDir)).toBe('it started')
    expect(fs.statSync(cluster).mode & 0o777).toBe(0o700)
  })

  test('copies of the programs of other versions go, and nothing else that is called alike', () => {
    const data = fs.mkdtempSync(join(folder, 'copies-'))
    const [used, kept] = [
      'postgresql-18.4.0-beta.17',
      ['postgresql', 'postgresql-20261127', 'postgresql-18.3', 'postgresql.socket'],
    ]
    for (const name of [used, ...kept, 'postgresql-18.3.0-beta.17', 'postgresql-18.4.0-beta.17.making-77'])
      fs.mkdirSync(join(data, name, 'bin'), { recursive: true })
    const place = { folder: { path: data, owner: undefined }, cluster: join(data, 'postgresql'), copies: data }
    sweepCopies({ ...place, runAs: { uid: 1, gid: 1, name: 'postgres' } }, { path: join(data, used), version: '18.4' })
    expect(fs.readdirSync(data)).toHaveLength(7)
    sweepCopies({ ...place, runAs: undefined }, { path: join(data, used), version: '18.4' })
    expect(fs.readdirSync(data).sort()).toEqual([used, ...kept].sort())
  })

  test.each(['"', '$HOME', '`id`', '\\'])('a folder whose name initdb would give to a shell: %s', async (odd) => {
    const data = fs.mkdtempSync(join(folder, 'odd-'))
    const place = {
      folder: { path: data, owner: undefined },
      cluster: join(data, 'pg'),
      runAs: undefined,
      copies: data,
    }
    const binaries = { path: join(data, odd, 'native'), version: '18.0.0' }
    await expect(ensureCluster(place, binaries, { log: silentLog })).rejects.toThrow(
      /^PostgreSQL cannot be set up from .*: its name holds a character that a shell reads/,
    )
    expect(fs.existsSync(place.cluster)).toBe(false)
  })

  test('a start that fails, with the last words of PostgreSQL', async () => {
    const dataDir = installed()
    fs.rmSync(join(dataDir, 'postgresql', 'global', 'pg_control'))
    expect(await trouble(dataDir)).toMatch(/^PostgreSQL did not start in .* \(status \d\): .*pg_control/)
  })

  test('after a failed start the folder is free again', async () => {
    const dataDir = installed()
    const control = join(dataDir, 'postgresql', 'global', 'pg_control')
    fs.renameSync(control, `${control}.away`)
    await trouble(dataDir)
    fs.renameSync(`${control}.away`, control)
    expect(await trouble(dataDir)).toBe('it started')
  })
})
