// Where the database lives. PostgreSQL refuses root, and the user that it runs as instead (account.ts) may be
// unable to enter the data folder (0700 parents such as /root or `mktemp -d`): then, and only then, the cluster lives under
// /var/lib/posthorn, and the data folder keeps a pointer to it. A data folder that is deleted means a new installation.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { asRoot, codeOf, whyNotWritten, writePrivately, type DataFolder } from '../base/data-folder.ts'
import { makeFolders } from '../base/folders.ts'
import { Trouble } from '../base/trouble.ts'
import { accountOf, canEnter, newAccount, type Account } from './account.ts'

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

export function findPlace(folder: DataFolder): Place {
  const remembered = recall(folder)
  const home = asRoot() ? machineHome : folder.path
  if (remembered === undefined) {
    if (holdsCluster(folder))
      throw new Trouble(
        `There is a database in ${clusterInside(folder)}, and ${stateFile(folder)}, by which it is opened, is missing: put the one from your backup there; ` +
          'or, to begin anew with nothing, set POSTHORN_DATA_DIR to another folder',
      )
    const runAs = asRoot() ? newAccount(folder) : undefined
    const inside = runAs === undefined || canEnter(runAs, folder.path)
    const cluster = inside ? clusterInside(folder) : join(clustersHome, randomBytes(8).toString('hex'))
    if (!inside) makeMachineFolder(clustersHome)
    return { folder, cluster, runAs, copies: home }
  }
  const cluster = resolve(folder.path, remembered.cluster)
  if (isAbsolute(remembered.cluster) && dirname(cluster) !== clustersHome)
    throw new Trouble(`${stateFile(folder)} names a database outside ${clustersHome}: ${cluster}`)
  if (!remembered.made) return { folder, cluster, runAs: asRoot() ? newAccount(folder) : undefined, copies: home }
  const runAs = ownerOf(cluster)
  if (runAs !== undefined && !canEnter(runAs, cluster))
    throw new Trouble(
      `The user ${runAs.name}, whom the database in ${cluster} belongs to, can no longer enter that folder: ` +
        'allow it on every folder above (chmod a+x), or move the data folder back',
    )
  return { folder, cluster, runAs, copies: home }
}

const clusterInside = (folder: DataFolder): string => join(folder.path, 'postgresql')

/** Before anything is made there, `remember` has told of it: what lies there without is somebody's database, and no start that was cut off. */
function holdsCluster(folder: DataFolder): boolean {
  try {
    return fs.readdirSync(clusterInside(folder)).length > 0
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw new Trouble(`${clusterInside(folder)} cannot be looked into (${codeOf(error)}): ${whyNotWritten(error)}`, {
      cause: error,
    })
  }
}

const stateFile = (folder: DataFolder): string => join(folder.path, 'postgresql.json')

export function recall(folder: DataFolder): Remembered | undefined {
  let text: string
  try {
    text = fs.readFileSync(stateFile(folder), 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new Trouble(`${stateFile(folder)} cannot be read (${codeOf(error)}): ${whyNotWritten(error)}`, {
      cause: error,
    })
  }
  const remembered = parsed(text)
  if (remembered === undefined) throw new Trouble(`${stateFile(folder)} is damaged: put the one from your backup there`)
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

/** Whether the data folder has a database. Makes nothing. One that cannot be opened is one, as whoever opens it tells. */
export function hasCluster(dataDir: string): boolean {
  const folder = { path: resolve(dataDir), owner: undefined }
  return recall(folder)?.made ?? holdsCluster(folder)
}

/** Where the database of this data folder lies, if that is not inside it. Makes nothing. */
export function clusterElsewhere(dataDir: string): string | undefined {
  const cluster = recall({ path: resolve(dataDir), owner: undefined })?.cluster
  return cluster !== undefined && isAbsolute(cluster) ? cluster : undefined
}

export function remember(folder: DataFolder, remembered: Remembered): void {
  writePrivately(folder, 'postgresql.json', JSON.stringify(remembered))
}

/** A folder below /var/lib that everyone may pass through and nobody but root may change. */
export function makeMachineFolder(path: string): void {
  try {
    for (const each of [machineHome, path]) {
      if (makeFolders(each, 0o711)) fs.chmodSync(each, 0o711)
      if (fs.lstatSync(each).uid !== 0) throw new Trouble(`${each} must belong to root`)
    }
  } catch (error) {
    if (error instanceof Trouble) throw error
    throw new Trouble(`${path} cannot be made (${codeOf(error)}): ${whyNotWritten(error)}`, { cause: error })
  }
}

/** The account that owns an existing cluster, because PostgreSQL insists on it. */
function ownerOf(cluster: string): Account | undefined {
  let uid: number
  try {
    uid = fs.statSync(cluster).uid
  } catch (error) {
    throw new Trouble(
      `The database of this data folder should be in ${cluster} but cannot be read there (${codeOf(error)}): ` +
        'bring it back; or, to begin anew with nothing, set POSTHORN_DATA_DIR to another folder (the key in this one still opens your backups)',
      { cause: error },
    )
  }
  if (!asRoot()) {
    if (uid === process.getuid?.()) return undefined
    throw new Trouble(
      `The database in ${cluster} belongs to another user (${accountOf(String(uid))?.name ?? uid}): ` +
        'run Posthorn as the user who started it first, or as root',
    )
  }
  const owner = accountOf(String(uid))
  if (owner === undefined || uid === 0)
    throw new Trouble(
      `The database in ${cluster} belongs to the user id ${uid}, ` +
        (uid === 0
          ? 'and PostgreSQL refuses root: give the folder back to the user who made it (chown -R)'
          : 'of which this machine knows no name (id): add the user, or run Posthorn as that user'),
    )
  return owner
}
