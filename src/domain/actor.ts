// Whether whoever was let in may still do what they came for: a key may have been revoked since, and a person removed, or given another role.
import { refuse, type Refusal } from './refusal.ts'
import { covers, scopesOfRole, type MemberRole, type Scope } from './scopes.ts'

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
