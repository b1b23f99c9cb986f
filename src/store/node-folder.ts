// Where a delivering node keeps what must survive it: `delivery/N` in the data folder, one seat for each process that shares the folder. A
// seat is held by a lock of the kernel, as the embedded database is; who starts also finds the seats that nobody holds any more.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { makeFolders } from '../base/folders.ts'
import { Trouble } from '../base/trouble.ts'
import { limits } from '../config.ts'
import { tryLock } from './embedded-hold.ts'
import { openDataFolder, syncFolder } from './embedded-place.ts'

export interface Seat {
  readonly folder: string
  release(): void
}

/** The first is ours; the others were left by processes that ended, with a mark and perhaps a journal in them. */
export type Seats = readonly [own: Seat, ...left: Seat[]]

export function takeSeats(dataDir: string): Seats {
  const data = openDataFolder(dataDir)
  const home = join(data.path, 'delivery')
  makeFolder(home, data.owner)
  const free: Seat[] = []
  for (let n = 1; n <= limits.nodesPerFolderMax; n++) {
    const folder = join(home, String(n))
    const isNew = !fs.existsSync(folder)
    if (isNew && free.length > 0) break
    const lock = tryLock(`${folder}.lock`, data)
    if (lock === undefined) continue
    makeFolder(folder, data.owner)
    free.push({ folder, release: () => lock.close() })
    if (isNew) break
  }
  const [own, ...left] = free
  if (own === undefined)
    throw new Trouble(`More than ${limits.nodesPerFolderMax} processes deliver from the data folder ${data.path}`)
  return [own, ...left]
}

function makeFolder(path: string, owner: { readonly uid: number; readonly gid: number } | undefined): void {
  if (!makeFolders(path, 0o700)) return
  if (owner !== undefined) fs.chownSync(path, owner.uid, owner.gid)
  syncFolder(join(path, '..'))
}
