// One process of a node: the roles that it runs, from open to closed. The main process and the delivery process are both one of these.
import { setMaxListeners } from 'node:events'
import { startAll, stopAll } from './base/service.ts'
import { limits, type RoleName } from './config.ts'
import { warningOfPolicy } from './policy-warnings.ts'
import type { DeliveryState, Role, RoleTools } from './roles/role.ts'
import { roles } from './roles/roles.ts'

export interface RunningRoles {
  /** Waits for the database until `databaseMs` are over; then what was to be written stays unwritten, but for the replies that the journal keeps. */
  stop(databaseMs?: number): Promise<void>
  readonly deliveryState: () => Promise<DeliveryState>
}

/** Makes and starts the roles; when one fails, or `giveUp` fires meanwhile, everything that was opened is closed again, and its error thrown. */
export async function startRoles(
  names: readonly RoleName[],
  given: Omit<RoleTools, 'patience' | 'deliveryState'> & Partial<Pick<RoleTools, 'deliveryState'>>,
): Promise<RunningRoles> {
  const ending = new AbortController()
  const patience = ending.signal
  setMaxListeners(0, patience) // every database of this process
  const connection = { ...given.connection, patience }
  let made: readonly Role[] = []
  const ownStop = () => made.map((role) => role.ownStop?.()).find((each) => each !== undefined)
  const { deliveryState = () => Promise.resolve({ answers: true, ownStop: ownStop() }) } = given
  const tools: RoleTools = { ...given, deliveryState, log: warningOfPolicy(given.log), patience, connection }
  const makers = await Promise.all(names.map((name) => roles[name]()))
  const making = await Promise.allSettled(makers.map(async (make) => make(tools)))
  made = making.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  const services = made.flatMap((role) => role.services)
  /** Everything is closed, even if closing something else failed. The roles do not wait for each other. */
  const close = () =>
    together(
      made.map(async (role) => {
        const failures: unknown[] = []
        for (const closing of role.closing)
          await Promise.resolve()
            .then(closing)
            .catch((error: unknown) => failures.push(error))
        if (failures.length > 0) throw failures[0]
      }),
    )
  try {
    for (const each of making) if (each.status === 'rejected') throw each.reason
    await startAll(services, given.giveUp)
  } catch (error) {
    await close().catch(() => undefined) // the start's error is the one to tell
    throw error
  }
  return {
    deliveryState,
    stop: async (databaseMs = limits.stopMs) => {
      if (databaseMs === 0) ending.abort()
      const late = setTimeout(() => ending.abort(), databaseMs)
      try {
        await together(made.map((role) => stopAll(role.services)))
      } finally {
        await close().finally(() => clearTimeout(late))
      }
    },
  }
}

/** Waits for all of them; throws the first failure at the end. */
async function together(works: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(works)).find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
