// Where a delivering node keeps what must survive it: `delivery/N` in the data folder, one seat for each process that shares the folder. A
// seat is held by a lock of the kernel, as the embedded database is; who delivers also looks after the seats that nobody holds any more.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { openDataFolder } from '../base/data-folder.ts'
import { tryLock } from '../base/file-lock.ts'
import { makeFolders, syncFolder } from '../base/folders.ts'
import { Trouble } from '../base/trouble.ts'
import { limits } from '../config.ts'

export interface Seat {
  readonly folder: string
  release(): void
}

/** The first that is free, or a new one. */
export function takeSeat(dataDir: string): Seat {
  const data = openDataFolder(dataDir)
  const home = join(data.path, 'delivery')
  makeFolder(home, data.owner)
  for (let n = 1; n <= limits.nodesPerFolderMax; n++) {
    const folder = join(home, String(n))
    const lock = tryLock(`${folder}.lock`)
    if (lock === undefined) continue
    makeFolder(folder, data.owner)
    return { folder, release: () => lock.close() }
  }
  throw new Trouble(`More than ${limits.nodesPerFolderMax} processes deliver from the data folder ${data.path}`)
}

/** Takes those beside ours that were left by processes that ended, with a mark and perhaps a journal in them. */
export function takeLeftSeats(dataDir: string, own: Seat): Seat[] {
  const left: Seat[] = []
  try {
    for (const folder of seatsBeside(dataDir, own)) {
      const lock = tryLock(`${folder}.lock`)
      if (lock !== undefined) left.push({ folder, release: () => lock.close() })
    }
  } catch (error) {
    // Those that are held already would seem to be somebody's to whoever looks again, and their marks would not count.
    for (const each of left) each.release()
    throw error
  }
  return left
}

/** The folders of the seats beside ours, whether anybody holds them or not. */
export function seatsBeside(dataDir: string, own: Seat): string[] {
  const home = join(openDataFolder(dataDir).path, 'delivery')
  return Array.from({ length: limits.nodesPerFolderMax }, (_, at) => join(home, String(at + 1))).filter(
    (folder) => folder !== own.folder && fs.existsSync(folder),
  )
}

function makeFolder(path: string, owner: { readonly uid: number; readonly gid: number } | undefined): void {
  if (!makeFolders(path, 0o700)) return
  if (owner !== undefined) fs.chownSync(path, owner.uid, owner.gid)
  syncFolder(join(path, '..'))
}
