// What this binary can be. Each role is a list of services in the order of their start; `serve` runs them all, `serve --roles api,deliver`
// some. A role is loaded only where it runs: the delivery process needs no HTTP server in its memory.
import { availableParallelism } from 'node:os'
import type { RoleName } from './config.ts'
import type { Role, RoleTools } from './role.ts'

type MakeRole = (tools: RoleTools) => Role | Promise<Role>

/** The roles that this release has; the others of `POSTHORN_ROLES` come with theirs. */
export const roles = {
  api: async (): Promise<MakeRole> => (await import('./role-api.ts')).api,
  smtp: async (): Promise<MakeRole> => (await import('./role-smtp.ts')).smtp,
  deliver: async (): Promise<MakeRole> => (await import('./role-deliver.ts')).deliver,
  webhooks: async (): Promise<MakeRole> => (await import('./role-webhooks.ts')).webhooks,
} satisfies Partial<Record<RoleName, () => Promise<MakeRole>>>

export function isBuilt(name: RoleName): name is keyof typeof roles {
  return name in roles
}

/** A second core is worth a process of its own for delivery: signing and HTTP parsing then do not wait for each other. */
export function runsApart(names: readonly RoleName[]): boolean {
  return (
    names.includes('deliver') && names.some((name) => name !== 'deliver' && isBuilt(name)) && availableParallelism() > 1
  )
}
