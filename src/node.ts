// One process of a node: the roles that it runs, from open to closed. The main process and the delivery process are both one of these.
import { startAll, stopAll } from './base/service.ts'
import type { RoleName } from './config.ts'
import type { Role, RoleTools } from './role.ts'
import { roles } from './roles.ts'

export interface RunningRoles {
  stop(): Promise<void>
}

/** Starts the roles; when one fails, everything that was opened is closed again, and its error thrown. */
export async function startRoles(names: readonly RoleName[], tools: RoleTools): Promise<RunningRoles> {
  const makers = await Promise.all(names.map((name) => roles[name]()))
  const made: Role[] = await Promise.all(makers.map(async (make) => make(tools)))
  const services = made.flatMap((role) => role.services)
  /** Everything is closed, even if closing something else failed. */
  const close = async () => {
    const failures: unknown[] = []
    for (const closing of made.flatMap((role) => role.closing))
      await Promise.resolve()
        .then(closing)
        .catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw failures[0]
  }
  try {
    await startAll(services)
  } catch (error) {
    await close().catch(() => undefined) // the start's error is the one to tell
    throw error
  }
  return {
    stop: async () => {
      try {
        await stopAll(services)
      } finally {
        await close()
      }
    },
  }
}
