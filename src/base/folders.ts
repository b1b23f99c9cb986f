// Folders, with those above them where they are missing, and the files in them that their owner must be able to use. Node's own `recursive` never returns
// where the kernel answers ENOENT although the folder above is there, as it does below /proc; and a process that hangs so hears no signal either.
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fchownSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Trouble } from './trouble.ts'

/** Answers whether the folder was made: false where it was there. Throws the system's error. */
export function makeFolders(path: string, mode: number): boolean {
  try {
    return makeOne(path, mode)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(path) === path) throw error
    makeFolders(dirname(path), mode)
    return makeOne(path, mode)
  }
}

function makeOne(path: string, mode: number): boolean {
  try {
    mkdirSync(path, { mode })
    return true
  } catch (error) {
    // Whatever the error: a file system that is read-only says so, and not that the folder is there.
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return false
    throw error
  }
}

/** Whom a new file in this folder must belong to, so that its owner may run us next time without root; undefined where it is theirs already. */
function ownerIn(folder: string): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const { uid, gid } = statSync(folder)
  return uid === 0 ? undefined : { uid, gid }
}

/** The same for one that is open. */
export async function giveToOwner(file: FileHandle, folder: string): Promise<void> {
  const owner = ownerIn(folder)
  if (owner !== undefined) await file.chown(owner.uid, owner.gid)
}

/** Puts on the disk which names are in it. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

/** Makes a 0600 file whose bytes are on the disk before anybody gives it its name. Throws the system's error, also where it is there. */
export function writeDurably(path: string, text: string): void {
  const owner = ownerIn(dirname(path))
  const file = openSync(path, 'wx', 0o600)
  try {
    writeFileSync(file, text)
    if (owner !== undefined) fchownSync(file, owner.uid, owner.gid)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** The old file, or the new one, whole: nothing between is ever seen, whatever dies. */
export const replaceDurably = (path: string, text: string): void =>
  byDraft(path, text, (draft) => renameSync(draft, path))

/** The same for one that is made once: of two that start together, the first wins and both read it. */
export const makeDurably = (path: string, text: string): void =>
  byDraft(path, text, (draft) => nameUnlessTaken(draft, path))

function byDraft(path: string, text: string, name: (draft: string) => void): void {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  try {
    writeDurably(draft, text)
    name(draft)
    // A key that seals rows must not be lost with a name that never reached the disk.
    syncFolder(dirname(path))
  } finally {
    rmSync(draft, { force: true })
  }
}

/** What systems say of a filesystem that has no hard links. */
const noLinks: readonly unknown[] = ['EPERM', 'EOPNOTSUPP', 'ENOTSUP', 'ENOSYS']

/** Gives a file that is whole its name, unless it is taken. */
export function nameUnlessTaken(draft: string, path: string): void {
  try {
    linkSync(draft, path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    if (!noLinks.includes(code)) throw error
    const sentence = `${dirname(path)} is on a filesystem without hard links (${code}), such as a share of Windows: set POSTHORN_DATA_DIR to a folder on a disk`
    throw new Trouble(sentence, { cause: error })
  }
}
