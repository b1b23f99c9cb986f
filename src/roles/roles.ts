// What this binary can be. Each role is a list of services in the order of their start; `serve` runs them all, `serve --roles api,deliver`
// some. A role is loaded only where it runs: the delivery process needs no HTTP server in its memory.
import { availableParallelism } from 'node:os'
import type { RoleName } from '../config.ts'
import type { Role, RoleTools } from './role.ts'

type MakeRole = (tools: RoleTools) => Role | Promise<Role>

/** How each is made; its files are loaded only then. */
export const roles: Readonly<Record<RoleName, () => Promise<MakeRole>>> = {
  api: async () => (await import('./api.ts')).api,
  smtp: async () => (await import('./smtp.ts')).smtp,
  deliver: async () => (await import('./deliver.ts')).deliver,
  webhooks: async () => (await import('./webhooks.ts')).webhooks,
  feedback: async () => (await import('./feedback.ts')).feedback,
}

/** A second core is worth a process of its own for delivery: signing and HTTP parsing then do not wait for each other. */
export function runsApart(names: readonly RoleName[]): boolean {
  return names.includes('deliver') && names.some((name) => name !== 'deliver') && availableParallelism() > 1
}
