// A workspace as its members see and change it; what operators do with workspaces stands in workspace.ts.
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { dropUnwantedContents } from '../store/housekeeping.ts'
import { changeOwnWorkspace, workspaceById, type WorkspaceRow } from '../store/workspaces.ts'
import { audited, type By } from './by.ts'
import { notThere, parseWorkspaceName } from './mistake.ts'

export type OwnWorkspace = Pick<WorkspaceRow, 'id' | 'name' | 'status' | 'plan' | 'keepsContent' | 'createdAt'>

export async function showWorkspace({ db }: { readonly db: Db }, id: WorkspaceId): Promise<OwnWorkspace> {
  const row = await workspaceById(db, id)
  if (row === undefined) throw notThere('workspace')
  return presentOwn(row)
}

export async function changeWorkspace(
  { db }: { readonly db: Db },
  by: By,
  changes: { readonly name?: string; readonly keepsContent?: boolean },
): Promise<OwnWorkspace> {
  const { keepsContent } = changes
  const name = changes.name === undefined ? undefined : parseWorkspaceName(changes.name)
  // What has been dropped so far, perhaps only by name, does not come back with the switch. In bites that are committed each: there may be many.
  if (keepsContent === true) await dropUnwantedContents(db, by.workspaceId)
  return audited(
    db,
    by,
    'workspace.changed',
    async (tx) => {
      if (keepsContent === true) await dropUnwantedContents(tx, by.workspaceId) // what has ended meanwhile
      const row = await changeOwnWorkspace(tx, by.workspaceId, { name, keepsContent })
      if (row === undefined) throw notThere('workspace')
      return presentOwn(row)
    },
    () => ({ target: by.workspaceId, facts: changes }),
  )
}

function presentOwn({ id, name, ownName, status, plan, keepsContent, createdAt }: WorkspaceRow): OwnWorkspace {
  return { id, name: ownName ?? name, status, plan, keepsContent, createdAt }
}
