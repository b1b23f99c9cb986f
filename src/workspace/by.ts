// On whose behalf something is done, and that it is written down: a change and its audit row are one transaction.
import { given } from '../base/given.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { scopesOfRole, type MemberRole, type Scope } from '../domain/scopes.ts'
import { mayNoLonger } from '../domain/actor.ts'
import { holdActor } from '../store/actors.ts'
import { writeAudit, type AuditEntry } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { Mistake } from './mistake.ts'

export interface By {
  readonly workspaceId: WorkspaceId
  /** `user:<id>` or `key:<id>`. */
  readonly actor: string
  readonly scopes: ReadonlySet<string>
  /** Of a person; a key has none. */
  readonly role?: MemberRole
}

export interface Told {
  readonly target?: string | undefined
  readonly facts?: object
}

/** Does the work and writes down who did it, both or neither. */
export function audited<T>(
  db: Db,
  by: Pick<By, 'actor'> & { readonly workspaceId?: WorkspaceId },
  action: string,
  work: (tx: Db) => Promise<T>,
  told: (result: T) => Told = () => ({}),
): Promise<T> {
  return db.transaction(async (tx) => {
    const result = await work(tx)
    const { target, facts } = told(result)
    await writeAudit(
      tx,
      given<AuditEntry>({
        actor: by.actor,
        action,
        workspaceId: by.workspaceId,
        target,
        facts,
      }),
    )
    return result
  })
}

/**
 * Locks the members, and says what the caller may do now and when their key ends: since they were let in, the key may have been revoked, or the person
 * removed or given another role. Throws where they no longer have `scope`.
 */
export async function stillBy(
  tx: Db,
  by: By,
  scope: Scope,
): Promise<{ readonly now: By; readonly end: Date | undefined }> {
  const held = await holdActor(tx, by.workspaceId, by.actor)
  const refused = mayNoLonger(by.actor, held, scope)
  if (refused !== undefined) throw new Mistake(refused.words, refused)
  const { role, ends: end } = held ?? {}
  return { now: role === undefined ? by : { ...by, role, scopes: new Set(scopesOfRole[role]) }, end }
}
