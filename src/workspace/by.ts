// On whose behalf something is done, and that it is written down: a change and its audit row are one transaction.
import type { WorkspaceId } from '../domain/message.ts'
import type { MemberRole } from '../domain/scopes.ts'
import { writeAudit } from '../store/audit.ts'
import type { Db } from '../store/database.ts'

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
    await writeAudit(tx, {
      actor: by.actor,
      action,
      ...(by.workspaceId !== undefined && { workspaceId: by.workspaceId }),
      ...(target !== undefined && { target }),
      ...(facts !== undefined && { facts }),
    })
    return result
  })
}
