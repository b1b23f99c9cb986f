// A PostgreSQL of Debian's, with a standby that can be promoted: for tests of failover, which the embedded package cannot do (it has no
// pg_basebackup). Everything lies in one folder, listens on a unix socket there, and runs as `postgres` where the tests run as root.
import { execFile, spawn } from 'node:child_process'
import { appendFileSync, chmodSync, closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { withUs } from './with-us.ts'

const programs = '/usr/lib/postgresql/15/bin'
const asRoot = process.getuid?.() === 0
const asPostgres = asRoot ? ['--reuid', 'postgres', '--regid', 'postgres', '--clear-groups'] : []
const startMs = 90_000

export interface ClusterServer {
  /** The folder of its socket, and the number in the socket's name. */
  readonly host: string
  readonly port: number
  query<Row extends object>(text: string): Promise<Row[]>
  start(): Promise<void>
  /** SIGKILL to the whole server. */
  kill(): Promise<void>
  promote(): Promise<void>
}

export interface Cluster {
  readonly primary: ClusterServer
  /** A copy of a server, by default the primary, that follows it. */
  standby(name: string, of?: ClusterServer): Promise<ClusterServer>
  readonly standbys: readonly ClusterServer[]
  /** Whose confirmation each commit of the primary waits for (`synchronous_standby_names`), there or not; '': nobody's. Sessions hear of it a moment later. */
  waitsFor(standbys: string): Promise<void>
  remove(): Promise<void>
}

async function run(program: string, ...args: readonly string[]): Promise<void> {
  await promisify(execFile)(...withUs(join(programs, program), args, asPostgres))
}

/** Not by pg_ctl: what that starts is nobody's child, and stays when the tests are gone. */
async function runServer(data: string, ask: () => Promise<unknown>): Promise<void> {
  const log = openSync(`${data}.log`, 'a')
  const child = spawn(...withUs(join(programs, 'postgres'), ['-D', data], asPostgres), {
    detached: true,
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  child.unref()
  let ended = false
  child.once('exit', () => (ended = true))
  for (const deadline = Date.now() + startMs; ;) {
    try {
      await ask()
      return
    } catch (cause) {
      if (ended || Date.now() > deadline)
        throw new Error(`PostgreSQL does not start: ${readFileSync(`${data}.log`, 'utf8').slice(-2_000)}`, { cause })
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

export async function startCluster(): Promise<Cluster> {
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-cluster-'))
  chmodSync(folder, 0o755)
  if (asRoot) await promisify(execFile)('chown', ['postgres', folder])
  const servers: ClusterServer[] = []
  const serverIn = (name: string, port: number): ClusterServer => {
    const data = join(folder, name)
    const server: ClusterServer = {
      host: folder,
      port,
      query: async (text) => {
        const client = new Client({ host: folder, port, user: 'postgres', database: 'postgres' })
        await client.connect()
        try {
          return (await client.query(text)).rows as never
        } finally {
          await client.end()
        }
      },
      start: () => runServer(data, () => server.query('select')),
      kill: async () => {
        const pid = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
        process.kill(pid, 'SIGKILL')
        // Its backends end when they find it gone; a new one waits for that by itself.
        while (existsSync(`/proc/${pid}`)) await new Promise((resolve) => setTimeout(resolve, 5))
      },
      promote: () => run('pg_ctl', '-D', data, '-w', 'promote'),
    }
    servers.push(server)
    return server
  }
  const configure = (name: string, lines: readonly string[]) =>
    appendFileSync(join(folder, name, 'postgresql.conf'), `${lines.join('\n')}\n`)

  await run('initdb', '-D', join(folder, 'primary'), '-A', 'trust', '-U', 'postgres', '--no-sync')
  configure('primary', [`port = 5501`, `unix_socket_directories = '${folder}'`, `listen_addresses = ''`])
  const primary = serverIn('primary', 5501)
  await primary.start()
  return {
    primary,
    get standbys() {
      return servers.slice(1)
    },
    standby: async (name, of = primary) => {
      const port = 5501 + servers.length
      const from = ['-h', folder, '-p', String(of.port), '-U', 'postgres']
      await run('pg_basebackup', '-D', join(folder, name), ...from, '-R', '-X', 'stream', '--no-sync', '-c', 'fast')
      configure(name, [
        `port = ${port}`,
        `primary_conninfo = 'host=${folder} port=${of.port} user=postgres application_name=${name}'`,
      ])
      const standby = serverIn(name, port)
      await standby.start()
      return standby
    },
    waitsFor: async (standbys) => {
      await primary.query(`alter system set synchronous_standby_names = '${standbys}'`)
      await primary.query('select pg_reload_conf()')
    },
    remove: async () => {
      for (const server of servers) await server.kill().catch(() => undefined)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
