// Whether a workspace may send at all, whoever asks for it: over HTTP or SMTP, at the dashboard, or at the keyboard of the machine. And whether whoever was
// let in may still do what they came for.
import { refuse, type Refusal } from './refusal.ts'
import { covers, scopesOfRole, type MemberRole, type Scope } from './scopes.ts'
import type { Principal } from './submission.ts'

export type Standing = Pick<Principal, 'blocked' | 'apiSending' | 'upgradeUrl'>

const isBlocked = refuse(
  'workspace_blocked',
  'This workspace is blocked and cannot send; ask the operator of this service.',
)

const keyHasEnded = refuse('insufficient_scope', 'Your API key was revoked or has expired meanwhile.')
const mayLess = refuse(
  'insufficient_scope',
  'You were removed from this workspace meanwhile, or have a role now that does not allow this.',
)

/** Who acts, as they are behind the lock that changes of them take. */
export interface HeldActor {
  /** Of a member. */
  readonly role?: MemberRole
  /** Of a key that has an end. */
  readonly ends?: Date
}

/** Why whoever was let in with this scope is refused by now; `held` is undefined where the key has ended, or the member has left. */
export function mayNoLonger(actor: string, held: HeldActor | undefined, scope: Scope): Refusal | undefined {
  if (held === undefined) return actor.startsWith('key:') ? keyHasEnded : mayLess
  return held.role === undefined || covers(new Set(scopesOfRole[held.role]), [scope]) ? undefined : mayLess
}

/** Blocked, or on a plan without sending. */
export function mayNotSend({ blocked, apiSending, upgradeUrl }: Standing): Refusal | undefined {
  if (blocked) return isBlocked
  if (apiSending) return undefined
  return refuse(
    'upgrade_required',
    'The plan of this workspace does not include sending; upgrade it.',
    upgradeUrl === undefined ? {} : { upgradeUrl },
  )
}
