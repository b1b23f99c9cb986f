// The whole binary for journeys: `bin/posthorn serve` as a process group of its own, driven from outside as the operating contract says
// (environment, command line, HTTP). Its database is a fresh one of the test run's cluster, or, for tests that kill everything, the
// embedded one in a data folder of its own.
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import type { EmbeddedConnection } from '../../src/embedded/embedded.ts'
import { freePorts } from '../../src/base/free-ports.ts'
import { freshDatabase, urlOf, type FreshDatabase } from './postgres.ts'
import { startPostgresProxy, type PostgresProxy } from './postgres-proxy.ts'
import { commandDesk } from './command-desk.ts'
import { withUs } from './with-us.ts'
import { makeWorkspace, type JourneyWorkspace, type WorkspaceOptions } from './journey-workspace.ts'

export interface PosthornOptions {
  /** Environment on top of what a journey needs. */
  readonly settings?: Readonly<Record<string, string>>
  /**
   * `fresh`: a database in the test run's cluster, which outlives the process; `embedded`: PostgreSQL of its own in the data folder; or one of the
   * test's own.
   */
  readonly database?: 'fresh' | 'embedded' | { readonly url: string }
  /** It reaches its fresh database over a wire that the test can cut. */
  readonly proxied?: boolean
  /** The checkout that it runs from: another release. Left out: this one. */
  readonly checkout?: string
}

export interface Posthorn {
  readonly url: string
  readonly smtpPort: number
  readonly smtpsPort: number
  readonly dataDir: string
  readonly env: Readonly<Record<string, string>>
  /** The wire to its database, where it was asked for. */
  proxy(): PostgresProxy
  /** Of the bounce mailbox. */
  readonly feedbackPort: number
  /** All processes of it, those of its own PostgreSQL included. */
  pids(): number[]
  /** Runs a command and answers what it printed with --json. */
  cli<Answer>(...args: readonly string[]): Promise<Answer>
  /** Runs one after the other in one process for all of them, and answers what each printed; `{id}` stands for the id in the first answer. */
  commands<Answers extends readonly object[]>(...commands: readonly (readonly string[])[]): Promise<Answers>
  /** Rows straight from its database, for what only the database knows. */
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>
  /** Ends the test's own session in its database. */
  disconnect(): Promise<void>
  workspace(options?: WorkspaceOptions): Promise<JourneyWorkspace>
  /** Looks until there is something (true, a row), and answers it. Where that does not come, the error has what the program has said. */
  until<Seen>(what: string, look: () => Promise<Seen | Nothing> | Seen | Nothing, withinMs?: number): Promise<Seen>
  /** What it has said on standard output and standard error. */
  said(): string
  /** Another node on the same database, with ports of its own. Ends with this one's `remove`. */
  anotherNode(settings?: Readonly<Record<string, string>>): Promise<Posthorn>
  /** SIGTERM; answers the exit status. */
  stop(): Promise<number | null>
  /** SIGKILL to every process of it at once, its own PostgreSQL included. */
  kill9(): Promise<void>
  /** Resolves when all its processes have ended, whoever ended them. */
  gone(): Promise<void>
  /** Starts it again after `stop` or `kill9`, with these settings changed. */
  startAgain(settings?: Readonly<Record<string, string>>): Promise<void>
  /** Stops it and deletes everything that was made for it. */
  remove(): Promise<void>
}

type Nothing = false | undefined

/** The settings of one that delivers to a receiver on loopback, whose names this server knows. */
export const overMx = (dns: { readonly address: string }, receiver: { readonly port: number }) => ({
  POSTHORN_ROUTE: 'mx',
  POSTHORN_DNS_SERVERS: dns.address,
  POSTHORN_MX_PORT: String(receiver.port),
  POSTHORN_ALLOW_PRIVATE_MX: 'true',
})

const thisCheckout = fileURLToPath(new URL('../..', import.meta.url))
const readyMs = 45_000
const saidCharactersMax = 200_000

export async function startPosthorn({
  settings = {},
  database = 'fresh',
  proxied = false,
  checkout = thisCheckout,
}: PosthornOptions = {}): Promise<Posthorn> {
  const dataDir = mkdtempSync(join(tmpdir(), 'posthorn-journey-'))
  chmodSync(dataDir, 0o711) // as root, PostgreSQL runs as another user and must reach its cluster
  const fresh = database === 'fresh' ? await freshDatabase() : undefined
  const proxy = proxied && fresh !== undefined ? await startPostgresProxy(fresh.connection) : undefined
  const wire = proxy === undefined ? fresh?.connection : { ...fresh?.connection, host: '127.0.0.1', port: proxy.port }
  const shared = {
    POSTHORN_DATA_DIR: dataDir,
    POSTHORN_SECRET_KEY: randomBytes(32).toString('base64'),
    POSTHORN_HOSTNAME: 'node.test',
    ...(wire !== undefined && { DATABASE_URL: urlOf(wire as EmbeddedConnection) }),
    ...(typeof database === 'object' && { DATABASE_URL: database.url }),
    ...settings,
  }
  const forget = async () => {
    await proxy?.stop()
    await fresh?.drop()
    rmSync(dataDir, { recursive: true, force: true })
  }
  try {
    const node = await startNode(shared, dataDir, fresh, join(checkout, 'bin/posthorn'))
    return { ...node, ...(proxy !== undefined && { proxy: () => proxy }), remove: () => node.remove().then(forget) }
  } catch (error) {
    await forget()
    throw error
  }
}

type Settings = Readonly<Record<string, string>>

async function startNode(
  shared: Settings,
  dataDir: string,
  fresh: FreshDatabase | undefined,
  binary: string,
): Promise<Posthorn> {
  const [http, metrics, smtp, smtps, feedback] = await freePorts(5)
  const port = String(http)
  const env: Settings = {
    ...inherited(),
    POSTHORN_FEEDBACK_PORT: String(feedback),
    ...shared,
    POSTHORN_HTTP_PORT: port,
    POSTHORN_METRICS_PORT: String(metrics),
    POSTHORN_SMTP_PORT: String(smtp),
    POSTHORN_SMTPS_PORT: String(smtps),
  }
  const others: Posthorn[] = []
  let running: Running | undefined = await run(binary, env)
  let client: Promise<Client> | undefined
  const desk = commandDesk({ NODE_COMPILE_CACHE: join(thisCheckout, 'node_modules/.cache/posthorn'), ...env })
  let said = ''

  const connect = async (): Promise<Client> => {
    const connectionString = env['DATABASE_URL']
    const made = new Client(
      fresh?.connection ?? (connectionString === undefined ? embeddedConnection(dataDir) : { connectionString }),
    )
    made.on('error', () => (client = undefined)) // it was killed with its server; the next question connects anew
    await made.connect()
    return made
  }
  const ended = async (): Promise<number | null> => {
    const status = (await running?.exited) ?? null
    said = running?.said() ?? said
    running = undefined
    return status
  }
  const node: Posthorn = {
    url: `http://127.0.0.1:${port}`,
    smtpPort: Number(smtp),
    smtpsPort: Number(smtps),
    dataDir,
    env,
    proxy: () => {
      throw new Error('this Posthorn was started without a proxy')
    },
    feedbackPort: Number(env.POSTHORN_FEEDBACK_PORT),
    pids: () => (running === undefined ? [] : familyOf(running.pid)),
    cli: (...args) => command(binary, env, args),
    commands: async <Answers extends readonly object[]>(...all: readonly (readonly string[])[]) => {
      const isOurs = binary === join(thisCheckout, 'bin/posthorn')
      const answers: readonly object[] = isOurs ? await desk.run(all) : await oneByOne(binary, env, all)
      return answers as Answers
    },
    query: async (text, values = []) => (await (await (client ??= connect())).query(text, values as unknown[])).rows,
    disconnect: async () => {
      await (await client?.catch(() => undefined))?.end().catch(() => undefined)
      client = undefined
    },
    workspace: (options = {}) => makeWorkspace(node, options),
    until: async (what, look, withinMs = 90_000) => {
      for (const deadline = Date.now() + withinMs; ;) {
        const seen = await look()
        if (seen !== false && seen !== undefined) return seen
        if (Date.now() > deadline) throw new Error(`${what}: not within ${withinMs} ms\n${node.said().slice(-4_000)}`)
        await wait(20)
      }
    },
    said: () => running?.said() ?? said,
    anotherNode: async (settings = {}) => {
      const other = await startNode({ ...shared, ...settings }, dataDir, fresh, binary)
      others.push(other)
      return other
    },
    stop: async () => {
      if (running !== undefined) signal(running.pid, 'SIGTERM')
      return ended()
    },
    kill9: async () => {
      const family = node.pids()
      // Nobody is to see another one die and act on it.
      for (const pid of family) signal(pid, 'SIGSTOP')
      for (const pid of family) signal(pid, 'SIGKILL')
      await ended()
      while (family.some(isAlive)) await wait(5)
    },
    gone: async () => {
      const family = node.pids()
      await ended()
      while (family.some(isAlive)) await wait(5)
    },
    startAgain: async (settings = {}) => {
      running = await run(binary, { ...env, ...settings })
    },
    remove: async () => {
      await Promise.all(others.map((other) => other.remove()))
      await desk.end()
      await node.disconnect()
      await node.stop()
    },
  }
  return node
}

interface Running {
  readonly pid: number
  readonly exited: Promise<number | null>
  said(): string
}

/** Resolves at the line `posthorn ready`; throws with its words when it ends before. */
async function run(binary: string, env: Settings): Promise<Running> {
  const child = spawn(...withUs(binary, ['serve']), { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  const exited = once(child, 'exit').then(([status]) => status as number | null)
  const hear = (line: string) => {
    said = `${said}${line}\n`.slice(-saidCharactersMax)
  }
  const ready = new Promise<'ready'>((resolve) => {
    createInterface(child.stdout).on('line', (line) => {
      hear(line)
      if (line.startsWith('posthorn ready')) resolve('ready')
    })
  })
  createInterface(child.stderr).on('line', hear)
  const first = await Promise.race([ready, exited, wait(readyMs, 'late' as const, { ref: false })])
  if (first !== 'ready') {
    killGroup(child)
    throw new Error(
      `posthorn was not ready (${first === 'late' ? `${readyMs} ms` : `status ${first}`}):\n${brief(said)}`,
    )
  }
  return { pid: child.pid ?? 0, exited, said: () => said }
}

/** The end of it, and below that what is for people, and the faults: thousands of lines of a log would hide them. */
function brief(said: string): string {
  const notable = said.split('\n').filter((line) => !line.startsWith('{') || line.includes('"level":50'))
  return `${said.slice(-4_000)}\n${notable.slice(-20).join('\n')}`
}

function killGroup(child: ChildProcess): void {
  if (child.pid !== undefined) for (const pid of familyOf(child.pid)) signal(pid, 'SIGKILL')
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** The environment without what a shell may have set for Posthorn, and without what vitest sets for its workers. */
function inherited(): Settings {
  const own = Object.entries(process.env).filter(
    ([name, value]) =>
      value !== undefined && !/^(?:POSTHORN_|PG|DATABASE_URL$|NODE_|VITEST|VITE_|TEST$|DEV$|PROD$|MODE$)/.test(name),
  )
  return Object.fromEntries(own) as Settings
}

async function command<Answer>(binary: string, env: Settings, args: readonly string[]): Promise<Answer> {
  const { stdout } = await promisify(execFile)(binary, [...args, '--json'], { env, maxBuffer: 64 * 1024 * 1024 })
  return JSON.parse(stdout) as Answer
}

/** Another release may not have the program for a desk. */
async function oneByOne(
  binary: string,
  env: Settings,
  all: readonly (readonly string[])[],
): Promise<{ readonly id?: string }[]> {
  const answers: { readonly id?: string }[] = []
  for (const words of all)
    answers.push(
      await command(
        binary,
        env,
        words.map((word) => word.replace('{id}', answers[0]?.id ?? '')),
      ),
    )
  return answers
}

/** The process, its group, and all that descend from them: PostgreSQL has a session of its own. */
function familyOf(root: number): number[] {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const stat = statOf(Number(name))
      return stat === undefined ? [] : [stat]
    })
  const family = new Set([root])
  for (let before = 0; before !== family.size;) {
    before = family.size
    for (const { pid, parent, group } of all) if (family.has(parent) || group === root) family.add(pid)
  }
  return [...family]
}

function statOf(pid: number): { pid: number; parent: number; group: number; state: string } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [state = '', parent, group] = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { pid, parent: Number(parent), group: Number(group), state }
  } catch {
    return undefined // it has ended meanwhile
  }
}

/** A zombie waits for nothing but its parent. */
function isAlive(pid: number): boolean {
  const stat = statOf(pid)
  return stat !== undefined && stat.state !== 'Z'
}

/** The embedded PostgreSQL of a running server, by the file in which it says how it can be reached. */
function embeddedConnection(dataDir: string): EmbeddedConnection {
  const { connection } = JSON.parse(readFileSync(join(dataDir, 'postgresql.running.json'), 'utf8')) as {
    connection: EmbeddedConnection
  }
  return connection
}
