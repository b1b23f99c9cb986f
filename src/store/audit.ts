// What people and operators did, and who they were: rows that are written beside the change and never changed.
import { randomUUIDv7 } from 'node:crypto'
import type { WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'

export interface AuditEntry {
  /** Left out: it concerns the installation. */
  readonly workspaceId?: WorkspaceId
  /** `operator:root`, `user:<id>`, `key:<id>`. */
  readonly actor: string
  /** `suppression.added` */
  readonly action: string
  /** What it was done to: an id, a name, an address. */
  readonly target: string
  readonly facts?: object
}

const write = sql(
  'write-audit',
  `insert into audit_log (id, workspace_id, actor, action, target, facts) values ($1, $2, $3, $4, $5, $6::text::json)`,
)

export async function writeAudit(db: Db, entry: AuditEntry): Promise<void> {
  const { workspaceId = null, actor, action, target, facts } = entry
  await db.rows(write, [
    randomUUIDv7(),
    workspaceId,
    actor,
    action,
    target,
    facts === undefined ? null : JSON.stringify(facts),
  ])
}
