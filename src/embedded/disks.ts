// The disks that hold what must survive: that of the data folder, and that of a database which lies elsewhere.
import { existsSync } from 'node:fs'
import { stat, statfs } from 'node:fs/promises'
import { clusterElsewhere } from './place.ts'

export interface Disk {
  /** A folder that lies on it. */
  readonly folder: string
  /** For those who are not root. */
  readonly freeBytes: number
  readonly bytes: number
}

/** Each once, that of the data folder first; it must be there. `isEmbedded`: whether the database is the one that comes with us. */
export async function disksOf(dataDir: string, isEmbedded: boolean): Promise<readonly Disk[]> {
  const elsewhere = isEmbedded ? existingClusterElsewhere(dataDir) : undefined
  const own = await diskOf(dataDir)
  if (elsewhere === undefined || (await stat(elsewhere)).dev === (await stat(dataDir)).dev) return [own]
  return [own, await diskOf(elsewhere)]
}

async function diskOf(folder: string): Promise<Disk> {
  const { bavail, blocks, bsize } = await statfs(folder)
  return { folder, freeBytes: bavail * bsize, bytes: blocks * bsize }
}

/** As root the database may lie where PostgreSQL's user can get at it (place.ts). What cannot be read, or is damaged, is no answer: whoever opens it tells. */
export function existingClusterElsewhere(dataDir: string): string | undefined {
  try {
    const cluster = clusterElsewhere(dataDir)
    return cluster !== undefined && existsSync(cluster) ? cluster : undefined
  } catch {
    return undefined
  }
}
