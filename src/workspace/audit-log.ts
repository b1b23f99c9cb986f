// The audit log, as members read that of their workspace and operators that of the installation.
import { given } from '../base/given.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Page } from '../domain/page.ts'
import { pageAudit, pageInstallationAudit, type AuditRow } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { cutPage } from '../store/page.ts'

export interface AuditLine {
  readonly id: string
  readonly at: Date
  readonly actor: string
  readonly actorName?: string
  readonly action: string
  readonly target?: string
  readonly facts?: object
}

/** Newest first. Without a workspace: what concerns the installation. */
export async function readAudit(
  { db }: { readonly db: Db },
  workspace: WorkspaceId | undefined,
  before: string | undefined,
  most: number,
): Promise<Page<AuditLine>> {
  const rows = await (workspace === undefined
    ? pageInstallationAudit(db, before, most + 1)
    : pageAudit(db, workspace, before, most + 1))
  const { shown, last } = cutPage(rows, most)
  return given<Page<AuditLine>>({ items: shown.map(presentAudit), next: last?.id })
}

function presentAudit({ id, at, actor, action, target, facts, actor_name: actorName }: AuditRow): AuditLine {
  return given<AuditLine>({
    id,
    at,
    actor,
    actorName,
    action,
    target,
    facts,
  })
}
