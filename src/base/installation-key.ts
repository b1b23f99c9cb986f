// Where the installation key comes from: the environment, or a file in the data folder that is made once and never replaced by itself. While
// the key is being rotated there are two: the first seals, both open. The file then has a line for each, the new one first.
import { randomBytes } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Settings } from '../config.ts'
import { dataFolderMode } from './data-folder.ts'
import { tryLock, type FileLock } from './file-lock.ts'
import { makeDurably, makeFolders, replaceDurably } from './folders.ts'
import type { KeyRing } from './secret.ts'
import { Trouble } from './trouble.ts'

type KeySettings = Pick<Settings, 'POSTHORN_SECRET_KEY' | 'POSTHORN_SECRET_KEYS_ACCEPTED' | 'POSTHORN_DATA_DIR'>

/**
 * Every process of an installation gets the same. The file is made where it is missing, when the keys are asked for first, and read anew at every
 * question. Throws at once where it is there and holds none.
 */
export function installationKeys(settings: KeySettings): KeyRing {
  const { POSTHORN_SECRET_KEY: key, POSTHORN_SECRET_KEYS_ACCEPTED: accepted } = settings
  if (key !== undefined) {
    const keys = [key, ...accepted]
    return { all: () => keys }
  }
  const path = keyFile(settings)
  const isMissing = (): boolean => readIfThere(path) === undefined
  if (!isMissing()) readKeys(path)
  let known: { readonly mtimeMs: number; readonly ino: number; readonly keys: readonly string[] } | undefined
  return {
    file: path,
    isMissing,
    all: () => {
      // One that goes while we run is not replaced: what it sealed would stay shut.
      if (known === undefined && isMissing()) {
        makeFolders(settings.POSTHORN_DATA_DIR, dataFolderMode())
        makeDurably(path, linesOf([makeKey()]))
      }
      const { mtimeMs, ino } = statSync(path)
      if (known?.mtimeMs !== mtimeMs || known.ino !== ino) known = { mtimeMs, ino, keys: readKeys(path) }
      return known.keys
    },
  }
}

const keyFile = ({ POSTHORN_DATA_DIR: folder }: KeySettings): string => join(folder, 'secret-key')
const makeKey = (): string => randomBytes(32).toString('base64url')
const linesOf = (keys: readonly string[]): string => keys.map((key) => `${key}\n`).join('')

function readKeys(path: string): readonly string[] {
  const keys = (readIfThere(path) ?? '').split('\n').map((line) => line.trim())
  if (keys.some((key) => key.length < 32))
    throw new Trouble(`${path} holds no installation key: put the one from your backup there`)
  return keys
}

/**
 * For whoever changes the keys of the file, as long as that takes; undefined while another does. Of two at once, one could write over a key with which the
 * other has sealed already, or drop the only one that opens what the other has not come to.
 */
export const holdKeyFile = (settings: KeySettings): FileLock | undefined => tryLock(`${keyFile(settings)}.lock`)

/** Puts a new key before the old one. Where there are two already, a rotation was begun, and goes on with them. */
export function addKeyToFile(settings: KeySettings): void {
  const path = keyFile(settings)
  const keys = readKeys(path)
  if (keys.length === 1) replaceDurably(path, linesOf([makeKey(), ...keys]))
}

/** Leaves the newest key alone in the file. */
export function dropOldKeysFromFile(settings: KeySettings): void {
  const path = keyFile(settings)
  const [newest, ...old] = readKeys(path)
  if (newest !== undefined && old.length > 0) replaceDurably(path, linesOf([newest]))
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new Trouble(`${path} cannot be read (${code}): run this as the user who runs Posthorn, or as root`, {
      cause: error,
    })
  }
}
