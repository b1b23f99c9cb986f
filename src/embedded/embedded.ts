// The PostgreSQL that comes with Posthorn: made at the first start, found again at the second, recovered after any crash, and
// gone within about two seconds when the process that started it dies. One process holds a data folder at a time; the operator's
// commands share the database of a running server, or start it for themselves (operating contract, "The posthorn command").
import { openDataFolder } from '../base/data-folder.ts'
import type { Log } from '../base/log.ts'
import { lifecycle } from '../base/service.ts'
import { sweepCopies, usableBinaries } from './binaries.ts'
import { ensureCluster, retireOrphan } from './cluster.ts'
import { takeHold, type EmbeddedConnection, type Hold } from './hold.ts'
import { findPlace } from './place.ts'
import { runServer, type RunningServer } from './server.ts'

export type { EmbeddedConnection } from './hold.ts'
export { disksOf, existingClusterElsewhere, type Disk } from './disks.ts'
export { hasCluster } from './place.ts'

export interface EmbeddedOptions {
  readonly dataDir: string
  readonly log: Log
  /** `serve` keeps the data folder for itself; `command` is short, and a guest where a server runs. */
  readonly purpose: 'serve' | 'command'
  /** Memory to plan with, in bytes; the machine's when left out. */
  readonly memoryBytes?: number
  /** PostgreSQL ended although nobody asked it to: whoever called cannot go on. */
  readonly onLost?: (error: Error) => void
  /** A start that is under way is given up, with this signal's reason. What it had begun is ended, or made anew by the next one. */
  readonly giveUp?: AbortSignal
}

export interface EmbeddedPostgres {
  readonly name: string
  start(): Promise<{ readonly connection: EmbeddedConnection }>
  stop(): Promise<void>
}

/** Nothing happens before `start`. Every error of `start` is one sentence for the operator. */
export function embeddedPostgres(options: EmbeddedOptions): EmbeddedPostgres {
  let connection: EmbeddedConnection | undefined
  let hold: Hold | undefined
  let server: RunningServer | undefined

  const life = lifecycle(
    'postgresql',
    async () => {
      const folder = openDataFolder(options.dataDir)
      const held = await takeHold(folder, options)
      if (held.kind === 'guest') {
        connection = held.connection
        return
      }
      try {
        const place = findPlace(folder)
        held.alsoHold(place)
        const binaries = usableBinaries(place)
        await retireOrphan(place, options) // which may run from another copy
        sweepCopies(place, binaries)
        const password = await ensureCluster(place, binaries, options)
        server = await runServer(place, binaries, options)
        connection = { host: server.socketDir, port: server.port, user: 'posthorn', password, database: 'posthorn' }
        held.announce(connection)
        hold = held
      } catch (error) {
        await server?.stop()
        server = undefined
        held.release()
        throw error
      }
    },
    async () => {
      await server?.stop()
      server = undefined
      hold?.release()
      hold = undefined
    },
  )

  return {
    name: life.name,
    stop: () => life.stop(),
    start: async () => {
      await life.start()
      // It stays known after a stop, so that a start that is overtaken by a stop still resolves, as every service's does.
      return { connection: connection as EmbeddedConnection }
    },
  }
}
