// One running PostgreSQL: started as the right user in a session of its own (Ctrl-C in a terminal is for us, and we decide when
// the database ends), stopped when asked, and stopped by its watchdog when we die. It listens on a unix socket only.
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { codeOf } from '../base/data-folder.ts'
import type { Log } from '../base/log.ts'
import { usableMemory } from '../base/memory.ts'
import { Trouble } from '../base/trouble.ts'
import { limits } from '../config.ts'
import { canEnter, identity } from './account.ts'
import type { Binaries } from './binaries.ts'
import { postmasterPid, signalTo } from './cluster.ts'
import type { Place } from './place.ts'
import { sharedMemory } from './shared-memory.ts'
import { tooLittle } from './shortages.ts'

export interface RunningServer {
  readonly socketDir: string
  readonly port: number
  stop(): Promise<void>
}

interface Wishes {
  readonly log: Log
  readonly memoryBytes?: number
  readonly onLost?: (error: Error) => void
  readonly giveUp?: AbortSignal
}

const port = 5432

/**
 * Starts PostgreSQL ("$@") and a watchdog that reads descriptor 3, the other end of which is ours. When it is closed, by us or by
 * the kernel after a kill -9, the watchdog asks for a fast shutdown. The shell waits for PostgreSQL, so its number stays its own
 * until the watchdog is gone.
 */
const watched = `
"$@" </dev/null >/dev/null 3<&- & server=$!
( while read -r _; do :; done; kill -INT $server ) <&3 >/dev/null 2>&1 3<&- & watchdog=$!
exec 3<&-
wait $server; status=$?
kill -KILL $watchdog 2>/dev/null
exit $status`

/** Starts the server and waits until it takes connections, however long a recovery takes, within `postgresStartMs`. */
export async function runServer(place: Place, binaries: Binaries, wishes: Wishes): Promise<RunningServer> {
  for (let tries = 1; ; tries++) {
    wishes.giveUp?.throwIfAborted()
    try {
      return await tryToRun(place, binaries, wishes)
    } catch (error) {
      // Backends of a postmaster that was killed need a moment to notice, and PostgreSQL waits for none.
      if (!(error instanceof StillInUse) || tries === 40) throw error
      await setTimeout(250)
    }
  }
}

class StillInUse extends Trouble {}

async function tryToRun(place: Place, binaries: Binaries, wishes: Wishes): Promise<RunningServer> {
  const socketDir = makeSocketDir(place)
  const journal = openJournal(place)
  const child = spawn(
    '/bin/sh',
    ['-c', watched, 'sh', ...commandLine(place, binaries, socketDir, wishes.memoryBytes)],
    {
      ...identity(place.runAs),
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    },
  )
  const leash = child.stdio[3] as Writable
  leash.on('error', () => undefined) // it ends with the child, which `ended` tells
  const life = { asked: false }
  child.stderr?.on('data', journal.write)
  const ended = once(child, 'exit').then(
    async ([status, signal]) => {
      if (child.stderr?.closed === false) await within(once(child.stderr, 'close'), 500) // its last words
      return String(signal ?? `status ${status}`)
    },
    (error: Error) => error.message,
  )

  const stop = async (): Promise<void> => {
    life.asked = true
    leash.destroy()
    if (!(await within(ended, limits.postgresStopMs))) {
      signalPostmaster(place, 'SIGQUIT')
      if (!(await within(ended, limits.postgresKillMs))) signalPostmaster(place, 'SIGKILL')
    }
    await ended
    clearSocketDir(socketDir, place)
  }

  try {
    await ready({ child, ended, journal, place, giveUp: wishes.giveUp })
  } catch (error) {
    await stop()
    throw error
  }
  void ended.then((how) => {
    leash.destroy()
    if (!life.asked) wishes.onLost?.(new Error(`PostgreSQL ended by itself (${how}): ${journal.lastLines()}`))
  })
  wishes.log.started({ service: 'postgresql', version: binaries.version, socket: socketDir })
  return { socketDir, port, stop }
}

interface Beginning {
  readonly child: ChildProcess
  readonly ended: Promise<string>
  readonly journal: Journal
  readonly place: Place
  readonly giveUp: AbortSignal | undefined
}

/** Resolves at PostgreSQL's own word that it takes connections; throws what it said when it ended instead. */
async function ready({ child, ended, journal, place, giveUp }: Beginning): Promise<void> {
  const givenUp = new Promise<void>((resolve) => giveUp?.addEventListener('abort', () => resolve(), { once: true }))
  const saidSo = new Promise<void>((resolve) => {
    child.stderr?.on('data', () => {
      if (journal.has('database system is ready to accept connections')) resolve()
    })
  })
  const failure = await Promise.race([saidSo, ended, givenUp, late(limits.postgresStartMs)])
  giveUp?.throwIfAborted()
  if (failure === undefined) return
  if (failure === tooLate)
    throw new Trouble(
      `PostgreSQL is not ready after ${limits.postgresStartMs / 60_000} minutes: ${journal.lastLines()}`,
    )
  if (journal.has('No space left on device'))
    throw new Trouble(`The disk that holds ${place.cluster} is full: make room and start again`)
  const inUse =
    journal.has('pre-existing shared memory block') || journal.has('lock file "postmaster.pid" already exists')
  const words = `PostgreSQL did not start in ${place.cluster} (${failure}): ${journal.lastLines()}`
  const short = tooLittle(words)
  throw new (inUse ? StillInUse : Trouble)(short === undefined ? words : `${words}: ${short}`)
}

/** What our own processes take of a small machine; the database's cache is a quarter of the rest. */
const ownBytes = 768 * 1024 * 1024

/** What is read comes from the system's cache, too, which gives way where memory is short, and this does not: a part of a small machine, at the least. */
function cacheMegabytes(memoryBytes: number): number {
  const bytes = Math.max((memoryBytes - ownBytes) / 4, Math.min(memoryBytes / 16, 64 * 2 ** 20))
  return Math.round(Math.min(bytes / 2 ** 20, 1024))
}

function commandLine(place: Place, binaries: Binaries, socketDir: string, memoryBytes = usableMemory()): string[] {
  const settings = {
    listen_addresses: '',
    unix_socket_directories: `"${socketDir.replaceAll('"', '""')}"`, // a list: a comma would begin another
    unix_socket_permissions: '0700',
    port,
    max_connections: 200, // a node with all roles takes at most 47, a command 3; each costs a few KB until it is used
    shared_buffers: `${cacheMegabytes(memoryBytes)}MB`,
    max_wal_size: '4GB',
    checkpoint_timeout: '15min',
    // Queue rows live for seconds: dead ones must go as fast as they come. What is not a queue can wait: its updates leave nothing in an index, and
    // 2 GB of fresh attachments, vacuumed without a pause, made sends wait for half a second.
    autovacuum_naptime: '5s',
    autovacuum_vacuum_scale_factor: 0.2,
    autovacuum_vacuum_insert_scale_factor: 0.5,
    // No plan rests on statistics (docs/decisions/0006), and taking them of tables that grow all the time costs a tenth of a core.
    autovacuum_analyze_scale_factor: 0.5,
    default_statistics_target: 30,
    jit: 'off',
    // Short statements gain nothing from parallel workers, whose memory (/dev/shm) is small in containers.
    max_parallel_workers_per_gather: 0,
    max_parallel_maintenance_workers: 0,
    timezone: 'UTC',
    log_timezone: 'UTC',
    logging_collector: 'off',
    log_destination: 'stderr',
    log_checkpoints: 'off',
    log_line_prefix: '%m [%p] ',
    // Statements and details of errors hold addresses and bodies: they go to whoever sent the statement, never into a file.
    log_error_verbosity: 'terse',
    log_min_error_statement: 'panic',
    log_parameter_max_length_on_error: 0,
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  return [join(binaries.path, 'bin', 'postgres'), '-D', place.cluster, '-c', sharedMemory(place.runAs), ...args]
}

/**
 * A unix socket's path has at most 107 bytes (103 on macOS): beside the cluster where that is short, else in the system's temporary
 * folder. Not yet: there, a kill -9 leaves an empty folder behind.
 */
function makeSocketDir(place: Place): string {
  const beside = `${place.cluster}.socket`
  const fits = (each: string) => holdsSocket(join(each, 'posthorn-XXXXXX')) && canEnter(place.runAs, each)
  let path = beside
  try {
    // TMPDIR may be nowhere, too deep itself, or one user's own (pam_tmpdir).
    if (!holdsSocket(beside)) path = fs.mkdtempSync(join(fits(tmpdir()) ? tmpdir() : '/tmp', 'posthorn-'))
    // Whoever held it is gone; PostgreSQL would take the number in a left lock file for a living one's.
    if (path === beside) fs.rmSync(beside, { recursive: true, force: true })
    if (path === beside) fs.mkdirSync(beside, { mode: 0o700 })
    if (place.runAs !== undefined) fs.lchownSync(path, place.runAs.uid, place.runAs.gid)
  } catch (error) {
    if (!holdsSocket(path))
      throw new Trouble(
        `The path ${path} is too long for a socket, and no temporary folder takes one (${codeOf(error)}): ` +
          'set POSTHORN_DATA_DIR to a shorter one, or TMPDIR to a folder that can be written',
        { cause: error },
      )
    throw new Trouble(`The folder ${path} for PostgreSQL's socket cannot be made (${codeOf(error)})`, {
      cause: error,
    })
  }
  return path
}

const holdsSocket = (folder: string): boolean => Buffer.byteLength(join(folder, `.s.PGSQL.${port}`)) <= 103

function clearSocketDir(socketDir: string, place: Place): void {
  if (socketDir !== `${place.cluster}.socket`) fs.rmSync(socketDir, { recursive: true, force: true })
}

interface Journal {
  readonly write: (chunk: Buffer) => void
  has(words: string): boolean
  lastLines(): string
}

/** PostgreSQL's own log: a file of bounded size in the data folder with one predecessor, and its end in memory for error messages. */
function openJournal(place: Place): Journal {
  const file = join(place.folder.path, 'postgresql.log')
  let recent = ''
  /** Made where it is missing, and never another one than it is called: as root we write into what is somebody else's folder. */
  const open = (): number => {
    const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = fs.constants
    const handle = fs.openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
    if (place.folder.owner !== undefined) fs.fchownSync(handle, place.folder.owner.uid, place.folder.owner.gid)
    return handle
  }
  const keep = (chunk: Buffer): void => {
    const bytes = fs.lstatSync(file, { throwIfNoEntry: false })?.size ?? 0
    if (bytes + chunk.length > limits.postgresLogBytesMax) fs.renameSync(file, `${file}.1`)
    const handle = open()
    try {
      fs.writeFileSync(handle, chunk)
    } finally {
      fs.closeSync(handle)
    }
  }
  return {
    write: (chunk) => {
      recent = (recent + chunk.toString('utf8')).slice(-8_192)
      try {
        keep(chunk)
      } catch {
        // A full disk must not take the service down for its log's sake.
      }
    },
    has: (words) => recent.includes(words),
    lastLines: () =>
      recent
        .split('\n')
        .filter((line) => line.trim() !== '')
        .slice(-5)
        .map((line) => line.replace(/^.*?\] /, ''))
        .join(' / '),
  }
}

const tooLate = Symbol('too late')

/** Does not keep the process alive. */
async function late(ms: number): Promise<typeof tooLate> {
  return setTimeout(ms, tooLate, { ref: false })
}

/** True when it ended within the time. */
async function within(ended: Promise<unknown>, ms: number): Promise<boolean> {
  return (await Promise.race([ended, late(ms)])) !== tooLate
}

function signalPostmaster(place: Place, signal: NodeJS.Signals): void {
  const pid = postmasterPid(place.cluster)
  if (pid !== undefined) signalTo(pid, signal)
}
