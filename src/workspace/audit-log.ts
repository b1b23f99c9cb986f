// The audit log, as members read that of their workspace and operators that of the installation.
import { given, shown, type Given } from '../base/given.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Page } from '../domain/page.ts'
import { pageAudit, pageInstallationAudit, type AuditRow } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { cutPage } from '../store/page.ts'

export type AuditLine = Given<AuditRow>

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
  const page = cutPage(rows, most)
  return given<Page<AuditLine>>({ items: page.shown.map(shown), next: page.last?.id })
}
