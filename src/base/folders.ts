// Folders, with those above them where they are missing. Node's own `recursive` never returns where the kernel answers ENOENT although the
// folder above is there, as it does below /proc; and a process that hangs so hears no signal either.
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

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
