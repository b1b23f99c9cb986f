// Routes that workspaces have of their own, sealed as they are kept; and whether mail really leaves the machine over one of them, or over the installation's:
// where it does, something would be lost with the database, and a secret that lies about is worth something.
import { sealedAs, type Vault } from '../base/secret.ts'
import { limits, parseRoute, type Route } from '../config.ts'
import type { Db } from './database.ts'
import { listRoutes } from './workspaces.ts'

/** Throws where it does not open, or is none. */
export const openRoute = (vault: Vault, workspace: string, sealed: Buffer): Route =>
  parseRoute(vault.open(sealed, sealedAs.route(workspace)))

/** The kind of way that asks most of this machine, of the installation's and of those that workspaces have of their own: `mx` before a relay before the sandbox. */
export async function boldestRoute(db: Db, vault: Vault, route: Route): Promise<Route['kind']> {
  const kinds = new Set<Route['kind']>([route.kind])
  for (const { id, routeSealed: sealed } of await listRoutes(db, limits.doctorRoutesRead)) {
    try {
      kinds.add(openRoute(vault, id, sealed).kind)
    } catch {
      // One that does not open is told where the routes of workspaces are looked at.
    }
  }
  return (['mx', 'relay'] as const).find((kind) => kinds.has(kind)) ?? 'sandbox'
}

/** `route`: the installation's. Of the routes of workspaces, one that does not open is none of the sandbox for all we know. */
export async function isMailReal(db: Db, vault: Vault, route: Route): Promise<boolean> {
  if (route.kind !== 'sandbox') return true
  const isReal = (id: string, sealed: Buffer): boolean => {
    try {
      return openRoute(vault, id, sealed).kind !== 'sandbox'
    } catch {
      return true
    }
  }
  return (await listRoutes(db, limits.doctorRoutesRead)).some(({ id, routeSealed: sealed }) => isReal(id, sealed))
}
