// The cluster on the disk: made once, whole or not at all, and freed from whoever an earlier life left in it.
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../base/data-folder.ts'
import { syncFolder } from '../base/folders.ts'
import type { Log } from '../base/log.ts'
import { Trouble } from '../base/trouble.ts'
import { limits } from '../config.ts'
import { identity, runsAs } from './account.ts'
import { isPlain, type Binaries } from './binaries.ts'
import { isAlive } from './hold.ts'
import { recall, remember, type Place } from './place.ts'
import { sharedMemory } from './shared-memory.ts'
import { tooLittle } from './shortages.ts'

interface Wishes {
  readonly log: Log
  readonly giveUp?: AbortSignal
}

/** Makes the cluster if there is none. Returns the password of its owner, the user `posthorn`. */
export async function ensureCluster(place: Place, binaries: Binaries, { log, giveUp }: Wishes): Promise<string> {
  const remembered = recall(place.folder)
  if (remembered?.made === true) {
    checkMajor(place, binaries)
    closeToOthers(place)
    return remembered.password
  }
  if (!isPlain(binaries.path))
    throw new Trouble(
      `PostgreSQL cannot be set up from ${binaries.path}: its name holds a character that a shell reads (", $, \`, \\ or a line's end). ` +
        'Set POSTHORN_DATA_DIR to a folder without one, or move the checkout to one',
    )
  log.started({ service: 'postgresql', step: 'creating the database', folder: place.cluster })
  const inside = dirname(place.cluster) === place.folder.path
  const birth = {
    cluster: inside ? basename(place.cluster) : place.cluster,
    password: randomBytes(24).toString('base64url'),
  }
  // Remembered before it is made: a start that was cut off is found here, and begins this cluster again.
  remember(place.folder, { ...birth, made: false })
  await make(place, binaries, birth.password, giveUp)
  remember(place.folder, { ...birth, made: true })
  return birth.password
}

/** A new cluster is 40 MB, and its write-ahead log begins with a few pieces. */
const newClusterBytes = 64 * 1024 * 1024

const initdbOptions = [
  // A new piece of the log is filled with zeros while commits wait: pieces of 4 MB instead of 16 keep that wait short.
  ...'-U posthorn --auth=scram-sha-256 --data-checksums --wal-segsize=4 --no-instructions -E UTF8'.split(' '),
  // The builtin provider sorts the same on every system, and never otherwise because a library has a new version.
  ...'--locale-provider=builtin --builtin-locale=C.UTF-8 --locale=C'.split(' '),
]

async function make(place: Place, binaries: Binaries, password: string, giveUp?: AbortSignal): Promise<void> {
  // A name of its own: the initdb of a start that was killed may still be writing to the one before.
  const fresh = `${place.cluster}.making-${randomBytes(4).toString('hex')}`
  const passwordFile = `${fresh}.password`
  const run = async (program: string, args: readonly string[], input = ''): Promise<void> => {
    giveUp?.throwIfAborted()
    const result = await runToItsEnd(join(binaries.path, 'bin', program), args, { place, input, giveUp })
    giveUp?.throwIfAborted()
    if (result.status !== 0 || /^.*(?:ERROR|FATAL|PANIC): /m.test(result.stderr))
      throw cannotMake(place, program, result)
  }
  try {
    fs.rmSync(place.cluster, { recursive: true, force: true })
    fs.mkdirSync(fresh, { mode: 0o700 })
    fs.writeFileSync(passwordFile, password, { mode: 0o600, flag: 'wx' })
    for (const each of [fresh, passwordFile])
      if (place.runAs !== undefined) fs.lchownSync(each, place.runAs.uid, place.runAs.gid)
    await run('initdb', [...initdbOptions, '-c', sharedMemory(place.runAs), `--pwfile=${passwordFile}`, '-D', fresh])
    await run('postgres', ['--single', '-D', fresh, 'postgres'], 'create database posthorn\n')
    fs.renameSync(fresh, place.cluster)
    syncFolder(dirname(place.cluster))
    sweepUnfinished(place)
  } catch (error) {
    fs.rmSync(fresh, { recursive: true, force: true })
    if (error instanceof Trouble || giveUp?.aborted === true) throw error
    const why = (error as NodeJS.ErrnoException).syscall === 'lchown' ? `: ${givesNothing}` : ''
    throw new Trouble(`The database cannot be created in ${place.cluster} (${codeOf(error)})${why}`, { cause: error })
  } finally {
    fs.rmSync(passwordFile, { force: true })
  }
}

const givesNothing =
  'root can give nothing to another user there, as without CAP_CHOWN, or where the file system keeps no owners (a share, a memory stick); start Posthorn as an ordinary user, or set POSTHORN_DATA_DIR to a folder on a disk of this system'

/** What starts that were killed have left. By now their initdb has ended too, as a rule; what it still holds does no harm. */
function sweepUnfinished({ cluster }: Place): void {
  for (const name of fs.readdirSync(dirname(cluster)))
    if (name.startsWith(`${basename(cluster)}.making`))
      try {
        fs.rmSync(join(dirname(cluster), name), { recursive: true, force: true })
      } catch {
        // It is in nobody's way.
      }
}

interface Result {
  readonly stderr: string
  readonly error?: Error
  readonly status: number | null
  readonly signal: string | null
}

/** Resolves when it has ended and written its last; one that is given up is asked to end, and cleans up behind itself. */
function runToItsEnd(
  program: string,
  args: readonly string[],
  { place, input, giveUp }: { place: Place; input: string; giveUp: AbortSignal | undefined },
): Promise<Result> {
  const child = spawn(program, args, { ...identity(place.runAs), stdio: ['pipe', 'ignore', 'pipe'] })
  const end = () => child.kill('SIGTERM')
  giveUp?.addEventListener('abort', end, { once: true })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  child.stdin.on('error', () => undefined).end(input) // that it is gone, its end tells
  return new Promise<Result>((resolve) => {
    child.once('error', (error) => resolve({ stderr, error, status: null, signal: null }))
    child.once('close', (status, signal) => resolve({ stderr, status, signal }))
  }).finally(() => giveUp?.removeEventListener('abort', end))
}

function cannotMake(place: Place, program: string, result: Result): Trouble {
  const words = `${result.stderr}\n${result.error?.message ?? ''}`
  // initdb has cleaned up behind itself, and its words after a full disk are many: what is free now says it as well.
  const { bavail, bsize } = fs.statfsSync(dirname(place.cluster))
  if (/No space left on device|Disk quota exceeded/.test(words) || bavail * bsize < newClusterBytes)
    return new Trouble(`The disk that holds ${place.cluster} is full: the database needs 100 MB to begin with`)
  if (/could not look up effective user ID/.test(words))
    return new Trouble(
      `PostgreSQL needs a name for the user id ${process.getuid?.()}, and /etc/passwd has none: add one, or set DATABASE_URL`,
    )
  const short = tooLittle(words)
  if (short !== undefined)
    return new Trouble(`The database cannot be created in ${place.cluster}: ${short}`, { cause: result.error })
  const last = words.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('initdb: removing'))
  return new Trouble(
    `The database cannot be created in ${place.cluster}: ${program} ended with ${result.signal ?? result.status}: ${last.slice(-3).join(' / ')}`,
    { cause: result.error },
  )
}

function checkMajor(place: Place, binaries: Binaries): void {
  const major = majorOf(place.cluster)
  if (major !== binaries.version.split('.')[0])
    throw new Trouble(
      `The database in ${place.cluster} was made by PostgreSQL ${major}, this Posthorn brings ${binaries.version}: ` +
        'make a backup with the Posthorn that made it, and restore it into a new data folder',
    )
}

/**
 * PostgreSQL begins in no folder that others may change or look into: what a copy without modes leaves behind, and Kubernetes (`fsGroup`) makes of it
 * each time that it mounts the volume. By its own user, who can close nobody else's, wherever a link leads.
 */
function closeToOthers({ cluster, runAs }: Place): void {
  if ((fs.statSync(cluster).mode & 0o027) !== 0) runsAs(runAs, 'chmod 700 "$1"', cluster)
}

function majorOf(cluster: string): string {
  try {
    return fs.readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim()
  } catch (error) {
    throw new Trouble(
      `There is no whole database in ${cluster} (its file PG_VERSION: ${codeOf(error)}): bring back all of that folder from your backup`,
      { cause: error },
    )
  }
}

/**
 * Ends the PostgreSQL that an earlier life left running in the cluster. Whoever calls holds the data folder, so nobody uses it any
 * more; usually its watchdog is ending it already.
 */
export async function retireOrphan(place: Place, { log, giveUp }: Wishes): Promise<void> {
  const orphan = postmasterPid(place.cluster)
  if (orphan === undefined || !isAlive(orphan)) return
  if (!isPostmaster(orphan, place.cluster)) return forget(place, orphan)
  log.started({ service: 'postgresql', step: 'ending the one that was left running', pid: orphan })
  for (const [signal, ms] of [
    ['SIGINT', limits.postgresStopMs],
    ['SIGQUIT', limits.postgresKillMs],
  ] as const) {
    signalTo(orphan, signal)
    const deadline = performance.now() + ms
    while (performance.now() < deadline) {
      giveUp?.throwIfAborted()
      if (!isPostmaster(orphan, place.cluster)) return
      await new Promise((resolve) => setTimeout(resolve, 20)) // not our child: nobody tells us when it has ended
    }
  }
  throw new Trouble(`An earlier PostgreSQL (process ${orphan}) still runs in ${place.cluster} and does not end: end it`)
}

export function postmasterPid(cluster: string): number | undefined {
  try {
    const pid = Number(fs.readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n')[0])
    return Number.isSafeInteger(pid) && pid > 1 ? pid : undefined
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** A postmaster works in its cluster's folder, which tells it from a stranger who got its number after a crash. */
function isPostmaster(pid: number, cluster: string): boolean {
  if (process.platform === 'linux') {
    try {
      return fs.readlinkSync(`/proc/${pid}/cwd`) === fs.realpathSync(cluster)
    } catch {
      return false // gone, a zombie, or somebody else's
    }
  }
  return spawnSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).stdout.includes(cluster)
}

/**
 * The number in postmaster.pid is a stranger's now, and PostgreSQL would refuse to start beside it. The number is replaced by one
 * that no process can have; the rest stays, because PostgreSQL reads there whether a survivor still uses the shared memory.
 */
function forget(place: Place, stranger: number): void {
  const file = join(place.cluster, 'postmaster.pid')
  const text = fs.readFileSync(file, 'utf8')
  if (!text.startsWith(`${stranger}\n`)) return
  // As root we write into a folder of somebody else's: through no link that lies there under this name.
  const { O_WRONLY, O_TRUNC, O_NOFOLLOW } = fs.constants
  const handle = fs.openSync(file, O_WRONLY | O_TRUNC | O_NOFOLLOW)
  try {
    fs.writeFileSync(handle, text.replace(/^\d+/, '2147483646'))
  } finally {
    fs.closeSync(handle)
  }
}

/** One that has just gone needs none. */
export function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (codeOf(error) !== 'ESRCH') throw error
  }
}
