// Whether a workspace may send at all, as the database has it.
import { given } from '../base/given.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Standing } from '../domain/standing.ts'
import type { Db } from '../store/database.ts'
import { readWindows } from '../store/usage.ts'
import { workspaceById } from '../store/workspaces.ts'

/** `publicUrl` stands before upgrade URLs that are paths. */
export function standingIn(
  row: { readonly blocked: boolean; readonly api_sending: boolean; readonly upgrade_url: string | null },
  publicUrl: string,
): Standing {
  const url = row.upgrade_url
  return given<Standing>({
    blocked: row.blocked,
    apiSending: row.api_sending,
    upgradeUrl: url?.startsWith('/') ? publicUrl + url : url,
  })
}

/** What a key's holder knows already, for a person. */
export async function standingOf(db: Db, workspace: WorkspaceId, publicUrl: string): Promise<Standing | undefined> {
  const [row, plan] = await Promise.all([workspaceById(db, workspace), readWindows(db, workspace)])
  if (row === undefined || plan === undefined) return undefined
  return standingIn({ ...plan, blocked: row.status === 'blocked' }, publicUrl)
}
