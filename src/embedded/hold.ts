// One holder per data folder. The hold is a lock of the kernel, and beside it lies a 0600 file in which the holder says who it is and, once ready, how to reach its database.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { codeOf, writePrivately, type DataFolder } from '../base/data-folder.ts'
import { tryLock, type FileLock } from '../base/file-lock.ts'
import type { Log } from '../base/log.ts'
import { Trouble } from '../base/trouble.ts'
import { limits } from '../config.ts'
import type { Place } from './place.ts'

/** How to reach the database. `host` is the folder of the unix socket: nothing listens on the network. */
export interface EmbeddedConnection {
  readonly host: string
  /** Part of the socket's name; given so that PGPORT in the environment means nothing here. */
  readonly port: number
  readonly user: string
  readonly password: string
  readonly database: string
}

type Purpose = 'serve' | 'command'

interface Holder {
  readonly pid: number
  readonly purpose: Purpose
  readonly connection?: EmbeddedConnection
}

export interface Hold {
  readonly kind: 'holder'
  /** A cluster outside the data folder is held too: a copied data folder points to the same one. */
  alsoHold(place: Place): void
  announce(connection: EmbeddedConnection): void
  release(): void
}
interface Guest {
  readonly kind: 'guest'
  readonly connection: EmbeddedConnection
}

/** Rounds of 100 ms. Whoever has the lock says within a moment who it is. */
const roundsUntilSaid = 10

const holderName = 'postgresql.running.json'

/** Becomes the holder, or a guest of a running server. Waits for commands to end, and for a starting server to be ready. */
export async function takeHold(
  folder: DataFolder,
  { purpose, log, giveUp }: { readonly purpose: Purpose; readonly log: Log; readonly giveUp?: AbortSignal },
): Promise<Hold | Guest> {
  const deadline = performance.now() + limits.postgresHoldMs
  for (let round = 0; ; round++) {
    giveUp?.throwIfAborted()
    const lock = tryLock(join(folder.path, 'postgresql.lock'))
    if (lock !== undefined) return holding(folder, purpose, lock)
    const holder = readHolder(folder, round >= roundsUntilSaid)
    if (holder?.purpose === 'serve' && purpose === 'serve')
      throw new Trouble(
        `Posthorn already runs with the data folder ${folder.path} (process ${holder.pid}): stop it first, or set POSTHORN_DATA_DIR`,
      )
    if (holder?.purpose === 'serve' && holder.connection !== undefined)
      return { kind: 'guest', connection: holder.connection }
    if (performance.now() > deadline)
      throw new Trouble(
        `The data folder ${folder.path} is still in use by ${holder === undefined ? 'another process' : `process ${holder.pid}`}: try again when it has ended`,
      )
    if (round % 100 === 10) log.started({ service: 'postgresql', step: 'waiting', forProcess: holder?.pid })
    // The kernel tells nobody that a lock of another process is free: look again.
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

function holding(folder: DataFolder, purpose: Purpose, lock: FileLock): Hold {
  const locks = [lock]
  const me: Holder = { pid: process.pid, purpose }
  const release = (): void => {
    fs.rmSync(join(folder.path, holderName), { force: true })
    for (const each of locks.splice(0)) each.close()
  }
  try {
    writePrivately(folder, holderName, JSON.stringify(me))
  } catch (error) {
    lock.close()
    throw error
  }
  return {
    kind: 'holder',
    alsoHold: (place) => {
      if (place.cluster.startsWith(join(folder.path, '/'))) return
      const second = tryLock(`${place.cluster}.lock`)
      if (second === undefined)
        throw new Trouble(
          `The database in ${place.cluster} is in use through another data folder: ${folder.path} seems to be a copy of that one`,
        )
      locks.push(second)
    },
    announce: (connection) => writePrivately(folder, holderName, JSON.stringify({ ...me, connection })),
    release,
  }
}

/**
 * Who holds the folder; undefined while the holder has not said so yet, and when the file was left by one who died. One that has had its time to say so
 * has done it, whoever has its number here: it may run in a container of its own.
 */
function readHolder(folder: DataFolder, hasSaid: boolean): Holder | undefined {
  try {
    const holder = JSON.parse(fs.readFileSync(join(folder.path, holderName), 'utf8')) as Holder
    return hasSaid || isAlive(holder.pid) ? holder : undefined
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new Trouble(
      `${join(folder.path, holderName)} cannot be read (${codeOf(error)}): run this as the user who runs Posthorn, or as root`,
      { cause: error },
    )
  }
}

/** True also for processes of others. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}
