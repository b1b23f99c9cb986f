// What a role is: services to start in order, and what to close when they have stopped.
import type { Log } from '../base/log.ts'
import type { Metrics } from '../base/metrics.ts'
import type { Vault } from '../base/secret.ts'
import type { Service } from '../base/service.ts'
import type { Settings } from '../config.ts'
import type { OwnStop } from '../domain/delivery-stop.ts'
import type { Connection } from '../store/connection.ts'
import type { Db } from '../store/database.ts'

export interface RoleTools {
  readonly settings: Settings
  readonly connection: Connection
  /** Fires when a stop waits for the database no longer, as it does on `connection`. */
  readonly patience: AbortSignal
  /** Fires when a stop is asked for while the roles are starting: what takes long is then given up. */
  readonly giveUp?: AbortSignal
  readonly vault: Vault
  readonly log: Log
  readonly metrics: Metrics
  /** The folder of the built dashboard; left out where there is none to show. */
  readonly dashboard?: string | undefined
  /** Of the process that delivers beside this one, or of this one. */
  readonly deliveryState: () => Promise<DeliveryState>
  /** False until the start is at its end: a node is ready when all is there that it makes. Left out: always. */
  readonly hasStarted?: () => boolean
}

/** What delivery says of itself on this node. */
export interface DeliveryState {
  /** False: its process says nothing. */
  readonly answers: boolean
  readonly ownStop?: OwnStop | undefined
}

/** Something that a role opened and that is closed after its services have stopped. */
type Closing = () => Promise<void> | void

export interface Role {
  readonly services: readonly Service[]
  readonly closing: readonly Closing[]
  /** Of the role that delivers. */
  readonly ownStop?: () => OwnStop | undefined
}

export function closeAll(...databases: readonly Db[]): Closing[] {
  return [async () => void (await Promise.all(databases.map((db) => db.close())))]
}

/** Work that must be done once before what follows can start. */
export function starting(name: string, work: () => Promise<void>): Service {
  return { name, start: work, stop: () => Promise.resolve() }
}
