// A lock of the kernel on a file: SQLite's exclusive lock on an empty one, because Node has no flock of its own. It ends with its process whatever ends
// that, and there is no stale lock to judge.
import { DatabaseSync } from 'node:sqlite'
import { codeOf } from './data-folder.ts'
import { writeDurably } from './folders.ts'
import { Trouble } from './trouble.ts'

export interface FileLock {
  close(): void
}

/** The lock, or undefined while another has it. It ends with `close`, or with the process. */
export function tryLock(file: string): FileLock | undefined {
  let database: DatabaseSync | undefined
  try {
    makeEmpty(file)
    database = new DatabaseSync(file, { timeout: 0 })
    database.exec('pragma journal_mode = memory; begin exclusive')
    return database
  } catch (error) {
    database?.close()
    if ((error as { errcode?: unknown }).errcode === 5) return undefined // SQLITE_BUSY
    throw new Trouble(
      `${file} cannot be locked (${error instanceof Error ? error.message : codeOf(error)}): ` +
        'run Posthorn as the user who started it first, or as root',
      { cause: error },
    )
  }
}

function makeEmpty(file: string): void {
  try {
    writeDurably(file, '')
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
}
