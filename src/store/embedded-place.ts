// Where the embedded database lives and as whom it runs. PostgreSQL refuses root, and the user that it runs as instead may be
// unable to enter the data folder (0700 parents such as /root or `mktemp -d`): then, and only then, the cluster lives under
// /var/lib/posthorn, and the data folder keeps a pointer to it. A data folder that is deleted means a new installation.
import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { makeFolders, syncFolder } from '../base/folders.ts'
import { Trouble } from '../base/trouble.ts'

/** Something about this machine keeps the embedded database from starting; the message is one sentence for the operator. */
export class EmbeddedTrouble extends Trouble {
  override readonly name = 'EmbeddedTrouble'
}

export interface Account {
  readonly uid: number
  readonly gid: number
  readonly name: string
}

export interface DataFolder {
  readonly path: string
  /** Whom new files in it must belong to; undefined when that is ourselves. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
}

export interface Place {
  readonly folder: DataFolder
  /** The folder of the cluster: PGDATA. */
  readonly cluster: string
  /** The account to become; undefined when we are not root and need not change. */
  readonly runAs: Account | undefined
  /** Where a copy of the binaries goes when those of the checkout are out of reach. */
  readonly copies: string
}

/** What the data folder remembers about its cluster, in postgresql.json (0600). */
export interface Remembered {
  /** Relative to the data folder, so that it can be moved; absolute when under /var/lib/posthorn. */
  readonly cluster: string
  readonly password: string
  /** False until initdb has finished: such a cluster is made anew. */
  readonly made: boolean
}

const machineHome = '/var/lib/posthorn'
const clustersHome = join(machineHome, 'clusters')
const asRoot = (): boolean => process.getuid?.() === 0

export function openDataFolder(dataDir: string): DataFolder {
  const path = resolve(dataDir)
  try {
    // 0711 as root: PostgreSQL's user passes through to its own folder, and sees no other name.
    if (makeFolders(path, 0o711)) fs.chmodSync(path, asRoot() ? 0o711 : 0o700)
    const probe = join(path, `.probe-${process.pid}-${randomBytes(4).toString('hex')}`)
    fs.writeFileSync(probe, '', { flag: 'wx' })
    fs.unlinkSync(probe)
  } catch (error) {
    throw unwritable(path, error)
  }
  const { uid, gid } = fs.statSync(path)
  return { path, owner: asRoot() && uid !== 0 ? { uid, gid } : undefined }
}

export function findPlace(folder: DataFolder): Place {
  const remembered = recall(folder)
  const home = asRoot() ? machineHome : folder.path
  if (remembered === undefined) {
    const runAs = asRoot() ? newAccount(folder) : undefined
    const inside = runAs === undefined || canEnter(runAs, folder.path)
    const cluster = inside ? join(folder.path, 'postgresql') : join(clustersHome, randomBytes(8).toString('hex'))
    if (!inside) makeMachineFolder(clustersHome)
    return { folder, cluster, runAs, copies: home }
  }
  const cluster = resolve(folder.path, remembered.cluster)
  if (isAbsolute(remembered.cluster) && dirname(cluster) !== clustersHome)
    throw new EmbeddedTrouble(`${stateFile(folder)} names a database outside ${clustersHome}: ${cluster}`)
  if (!remembered.made) return { folder, cluster, runAs: asRoot() ? newAccount(folder) : undefined, copies: home }
  const runAs = ownerOf(cluster)
  if (runAs !== undefined && !canEnter(runAs, cluster))
    throw new EmbeddedTrouble(
      `The user ${runAs.name}, whom the database in ${cluster} belongs to, can no longer enter that folder: ` +
        'allow it on every folder above (chmod a+x), or move the data folder back',
    )
  return { folder, cluster, runAs, copies: home }
}

const stateFile = (folder: DataFolder): string => join(folder.path, 'postgresql.json')

export function recall(folder: DataFolder): Remembered | undefined {
  let text: string
  try {
    text = fs.readFileSync(stateFile(folder), 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new EmbeddedTrouble(`${stateFile(folder)} cannot be read (${codeOf(error)}): ${wayOut(error)}`, {
      cause: error,
    })
  }
  const remembered = parsed(text)
  if (remembered === undefined)
    throw new EmbeddedTrouble(`${stateFile(folder)} is damaged: put the one from your backup there`)
  return remembered
}

function parsed(text: string): Remembered | undefined {
  try {
    const { cluster, password, made } = JSON.parse(text) as Partial<Remembered>
    if (typeof cluster !== 'string' || typeof password !== 'string' || typeof made !== 'boolean') return undefined
    return { cluster, password, made }
  } catch {
    return undefined // no JSON, or null
  }
}

/** Whether the data folder has a database. Makes nothing. */
export function hasCluster(dataDir: string): boolean {
  return recall({ path: resolve(dataDir), owner: undefined })?.made === true
}

/** Where the database of this data folder lies, if that is not inside it. Makes nothing. */
export function clusterElsewhere(dataDir: string): string | undefined {
  const cluster = recall({ path: resolve(dataDir), owner: undefined })?.cluster
  return cluster !== undefined && isAbsolute(cluster) ? cluster : undefined
}

export function remember(folder: DataFolder, remembered: Remembered): void {
  writePrivately(folder, 'postgresql.json', JSON.stringify(remembered))
}

/** Replaces a 0600 file as a whole: a reader, and a crash, see the old or the new one. */
export function writePrivately(folder: DataFolder, name: string, text: string): void {
  const file = join(folder.path, name)
  const fresh = `${file}.${randomBytes(6).toString('hex')}`
  try {
    const handle = fs.openSync(fresh, 'wx', 0o600)
    try {
      fs.writeSync(handle, text)
      if (folder.owner !== undefined) fs.fchownSync(handle, folder.owner.uid, folder.owner.gid)
      fs.fsyncSync(handle)
    } finally {
      fs.closeSync(handle)
    }
    fs.renameSync(fresh, file)
    syncFolder(folder.path)
  } catch (error) {
    fs.rmSync(fresh, { force: true })
    throw unwritable(folder.path, error)
  }
}

function unwritable(path: string, error: unknown): EmbeddedTrouble {
  return new EmbeddedTrouble(`The data folder ${path} cannot be written (${codeOf(error)}): ${wayOut(error)}`, {
    cause: error,
  })
}

/** A folder below /var/lib that everyone may pass through and nobody but root may change. */
export function makeMachineFolder(path: string): void {
  try {
    for (const each of [machineHome, path]) {
      if (makeFolders(each, 0o711)) fs.chmodSync(each, 0o711)
      if (fs.lstatSync(each).uid !== 0) throw new EmbeddedTrouble(`${each} must belong to root`)
    }
  } catch (error) {
    if (error instanceof EmbeddedTrouble) throw error
    throw new EmbeddedTrouble(`${path} cannot be made (${codeOf(error)}): ${wayOut(error)}`, { cause: error })
  }
}

/** True when the account can pass through all folders above `path` and enter it. */
export function canEnter(account: Account | undefined, path: string): boolean {
  return runsAs(account, 'cd -- "$1"', path)
}

/** Runs a line of shell as the account, with `path` as $1; true when it succeeds. */
export function runsAs(account: Account | undefined, line: string, path: string): boolean {
  return spawnSync('/bin/sh', ['-c', line, 'sh', path], { ...identity(account), stdio: 'ignore' }).status === 0
}

/** Options of `spawn` to become the account: its ids, no extra groups, a folder it can be in, and nothing of our environment. */
export function identity(account: Account | undefined): {
  uid?: number
  gid?: number
  cwd: string
  env: NodeJS.ProcessEnv
} {
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }
  return { ...(account !== undefined && { uid: account.uid, gid: account.gid }), cwd: '/', env }
}

function newAccount(folder: DataFolder): Account {
  const candidates = [...(folder.owner === undefined ? [] : [String(folder.owner.uid)]), 'postgres', 'nobody']
  for (const candidate of candidates) {
    const found = account(candidate)
    if (found !== undefined && found.uid !== 0) return found
  }
  throw new EmbeddedTrouble(
    'PostgreSQL refuses to run as root, and this machine has neither a user postgres nor a user nobody to run it as: ' +
      'make one (useradd --system postgres), start Posthorn as an ordinary user, or set DATABASE_URL',
  )
}

/** The account that owns an existing cluster, because PostgreSQL insists on it. */
function ownerOf(cluster: string): Account | undefined {
  let uid: number
  try {
    uid = fs.statSync(cluster).uid
  } catch (error) {
    throw new EmbeddedTrouble(
      `The database of this data folder should be in ${cluster} but cannot be read there (${codeOf(error)}): ` +
        'bring it back; or, to begin anew with nothing, set POSTHORN_DATA_DIR to another folder (the key in this one still opens your backups)',
      { cause: error },
    )
  }
  if (!asRoot()) {
    if (uid === process.getuid?.()) return undefined
    throw new EmbeddedTrouble(
      `The database in ${cluster} belongs to another user (${account(String(uid))?.name ?? uid}): ` +
        'run Posthorn as the user who started it first, or as root',
    )
  }
  const owner = account(String(uid))
  if (owner === undefined || uid === 0)
    throw new EmbeddedTrouble(
      `The database in ${cluster} belongs to the user id ${uid}, ` +
        (uid === 0
          ? 'and PostgreSQL refuses root: give the folder back to the user who made it (chown -R)'
          : 'of which this machine knows no name (id): add the user, or run Posthorn as that user'),
    )
  return owner
}

/** Looks an account up by name or number; undefined when the machine does not know it. */
function account(who: string): Account | undefined {
  try {
    const [uid, gid, name] = ['-u', '-g', '-un'].map((flag) =>
      execFileSync('id', [flag, who], { stdio: ['ignore', 'pipe', 'ignore'], encoding: 'utf8' }).trim(),
    )
    return { uid: Number(uid), gid: Number(gid), name: name ?? who }
  } catch {
    return undefined // `id` says so by its exit status
  }
}

export function codeOf(error: unknown): string {
  return String((error as NodeJS.ErrnoException).code ?? error)
}

/** What keeps a folder from being written, and what to do. */
export function wayOut(error: unknown): string {
  switch (codeOf(error)) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'the disk is full'
    case 'EROFS':
      return 'the file system is read-only'
    case 'ENOTDIR':
    case 'EEXIST':
      return 'something on this path is a file and not a folder'
    case 'ENAMETOOLONG':
      return 'its name is too long; set POSTHORN_DATA_DIR to another'
    case 'ENOENT':
      return 'the file system takes no such folder; set POSTHORN_DATA_DIR to another'
    default:
      return 'run this as the user that it belongs to, change its owner or mode, or set POSTHORN_DATA_DIR to another folder'
  }
}

/** What the system has too little of for PostgreSQL, and the way out; undefined where its words (PostgreSQL's, or an error's of ours) are of something else. */
export function tooLittle(words: string): string | undefined {
  return shortages.find(([said]) => said.test(words))?.[1]
}

const shortages: readonly (readonly [RegExp, string])[] = [
  [
    /insufficient file descriptors|Too many open files|\bE[MN]FILE\b/,
    'too few files may be open at once; raise the limit to 1024 or more (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of a container)',
  ],
  [
    /could not fork|\bEAGAIN\b/,
    'too few processes may run at once; raise the limit to 200 or more (ulimit -u, TasksMax= of systemd, --pids-limit of a container)',
  ],
  [
    /Cannot allocate memory|could not map anonymous shared memory|\bENOMEM\b/,
    'there is too little memory; give it 1 GB or more (docs/production.md)',
  ],
]
