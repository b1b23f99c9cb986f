// The data folder: made where it is missing, found to be writable before anything is put in it, and with files that belong to its owner. What is wrong with it
// is told in one sentence for the operator.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join, resolve } from 'node:path'
import { makeFolders, replaceDurably } from './folders.ts'
import { Trouble } from './trouble.ts'

export interface DataFolder {
  readonly path: string
  /** Whom new files in it must belong to; undefined when that is ourselves. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
}

export const asRoot = (): boolean => process.getuid?.() === 0

/** As root, PostgreSQL's user passes through it to its own folder, and sees no other name. */
export const dataFolderMode = (): number => (asRoot() ? 0o711 : 0o700)

export function openDataFolder(dataDir: string): DataFolder {
  const path = resolve(dataDir)
  try {
    if (makeFolders(path, 0o711)) fs.chmodSync(path, dataFolderMode())
    const probe = join(path, `.probe-${process.pid}-${randomBytes(4).toString('hex')}`)
    fs.writeFileSync(probe, '', { flag: 'wx' })
    fs.unlinkSync(probe)
  } catch (error) {
    throw unwritable(path, error)
  }
  const { uid, gid } = fs.statSync(path)
  return { path, owner: asRoot() && uid !== 0 ? { uid, gid } : undefined }
}

/** A 0600 file, new or in place of the one that is there. */
export function writePrivately(folder: DataFolder, name: string, text: string): void {
  try {
    replaceDurably(join(folder.path, name), text)
  } catch (error) {
    throw unwritable(folder.path, error)
  }
}

function unwritable(path: string, error: unknown): Trouble {
  return new Trouble(`The data folder ${path} cannot be written (${codeOf(error)}): ${whyNotWritten(error)}`, {
    cause: error,
  })
}

export function codeOf(error: unknown): string {
  return String((error as NodeJS.ErrnoException).code ?? error)
}

/** What keeps a folder from being written, and what to do. */
export function whyNotWritten(error: unknown): string {
  switch (codeOf(error)) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'the disk is full'
    case 'EROFS':
      return 'the file system is read-only; where systemd makes it so (ProtectSystem=), the unit needs ReadWritePaths= with this folder'
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
