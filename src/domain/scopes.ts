// What a caller may do, and which of it comes with each role of a member (decisions H): the one table of permissions.
export const scopes = [
  'mail.send',
  'mail.status.read',
  'mail.read',
  'domains.read',
  'domains.write',
  'mailboxes.read',
  'mailboxes.write',
  'suppressions.read',
  'suppressions.write',
  'webhooks.read',
  'webhooks.write',
  'keys.read',
  'keys.write',
  'smtp-credentials.read',
  'smtp-credentials.write',
  'members.read',
  'members.write',
  'workspace.read',
  'workspace.write',
  'usage.read',
  'audit.read',
] as const
export type Scope = (typeof scopes)[number]

export const memberRoles = ['owner', 'admin', 'developer', 'viewer'] as const
export type MemberRole = (typeof memberRoles)[number]

const looking: readonly Scope[] = scopes.filter((scope) => scope.endsWith('.read') && scope !== 'audit.read')
const building: readonly Scope[] = scopes.filter((scope) =>
  /^(?:mail|domains|mailboxes|suppressions|webhooks|keys|smtp-credentials)\./.test(scope),
)

/** An owner differs from an admin by being the one whom only owners may make and remove. */
export const scopesOfRole = {
  owner: scopes,
  admin: scopes,
  developer: [...new Set([...looking, ...building])],
  viewer: looking,
} as const satisfies Record<MemberRole, readonly Scope[]>

/** True when a caller with these scopes lacks none of those: nobody gives what they do not have. */
export function covers(own: ReadonlySet<string>, given: readonly string[]): boolean {
  return given.every((scope) => own.has(scope))
}
