// Workspaces: one function per statement.
import type { WorkspaceId } from '../domain/message.ts'
import { sql, sqlState, type Db } from './database.ts'

export interface WorkspaceRow {
  readonly id: WorkspaceId
  /** The operators', unlike any other. */
  readonly name: string
  /** What its members call it, where they have said. */
  readonly ownName: string | null
  readonly status: 'active' | 'blocked'
  readonly plan: string
  readonly routeSealed: Buffer | null
  /** False: body and attachments go as soon as a message is final. */
  readonly keepsContent: boolean
  readonly createdAt: Date
  /** Since when it is being removed: it is blocked for good, and gone when that has ended. */
  readonly removingSince: Date | null
}

export const workspaceColumns = `id, name, own_name "ownName", status, plan, route_sealed "routeSealed", keeps_content "keepsContent",
  created_at "createdAt", removing_since "removingSince"`

// Admission charges the usage row: there is no workspace without one.
const insert = sql(
  'insert-workspace',
  `with made as (
     insert into workspaces (id, name, plan) values ($1, $2, $3) on conflict (name) do nothing
     returning ${workspaceColumns}),
   counted as (insert into usage (workspace_id) select id from made)
   select * from made`,
)
const all = sql('list-workspaces', `select ${workspaceColumns} from workspaces order by name`)
const byId = sql('workspace-by-id', `select ${workspaceColumns} from workspaces where id = $1`)
const byName = sql(
  'workspace-by-name',
  `select ${workspaceColumns} from workspaces where name = $1 or own_name = $1 order by name = $1 desc, id limit 3`,
)
const routes = sql(
  'list-routes',
  `select id, name, route_sealed "routeSealed" from workspaces where route_sealed is not null and status = 'active' order by id limit $1`,
)
const update = sql(
  'update-workspace',
  `update workspaces
      set plan = coalesce($2, plan), status = coalesce($3, status), route_sealed = case when $4 then $5::bytea else route_sealed end,
          keeps_content = coalesce($6, keeps_content), name = coalesce($7, name),
          own_name = case when $7 is null then own_name else nullif(own_name, $7) end
    where id = $1 and removing_since is null
   returning ${workspaceColumns}`,
)
const rename = sql(
  'rename-workspace',
  `update workspaces w
      set own_name = case when $2::text is null then w.own_name else nullif($2, w.name) end, keeps_content = coalesce($3, w.keeps_content)
    where w.id = $1
   returning ${workspaceColumns}`,
)
/** Undefined where the name is taken. */
export async function insertWorkspace(
  db: Db,
  id: string,
  name: string,
  plan: string,
): Promise<WorkspaceRow | undefined> {
  return (await db.rows<WorkspaceRow>(insert, [id, name, plan]))[0]
}

export const listWorkspaces = (db: Db): Promise<WorkspaceRow[]> => db.rows<WorkspaceRow>(all)

export async function workspaceById(db: Db, id: string): Promise<WorkspaceRow | undefined> {
  return (await db.rows<WorkspaceRow>(byId, [id]))[0]
}

/** Whom operators call that; behind it those whose members do. The first few. */
export const workspacesByName = (db: Db, name: string): Promise<WorkspaceRow[]> => db.rows<WorkspaceRow>(byName, [name])

/** Of active workspaces that have their own. */
export const listRoutes = (db: Db, most: number) =>
  db.rows<Pick<WorkspaceRow, 'id' | 'name'> & { readonly routeSealed: Buffer }>(routes, [most])

/** What is left out stays, and so does all of one that is being removed; a route of null takes the installation's. Fails with `isNameTaken` where another has the name. */
export async function updateWorkspace(
  db: Db,
  id: WorkspaceId,
  changes: {
    readonly plan?: string | undefined
    readonly status?: string | undefined
    readonly route?: Buffer | null
    readonly keepsContent?: boolean | undefined
    readonly name?: string | undefined
  },
): Promise<WorkspaceRow | undefined> {
  const { plan = null, status = null, route, keepsContent = null, name = null } = changes
  const values = [id, plan, status, route !== undefined, route ?? null, keepsContent, name]
  return (await db.rows<WorkspaceRow>(update, values))[0]
}

/** True of the error of `updateWorkspace` where another workspace has the name. */
export const isNameTaken = (error: unknown): boolean =>
  error instanceof Error && (error as { constraint?: unknown }).constraint === 'workspaces_name_key'

/** True of the error of any statement that adds something to a workspace that is not there any more. */
export const isWorkspaceGone = (error: unknown): boolean =>
  sqlState(error) === '23503' && (error as { constraint?: string }).constraint?.endsWith('_workspace_id_fkey') === true

/** What its members may change: nobody else learns of their name, and they of no other. Undefined where there is no such workspace. */
export async function changeOwnWorkspace(
  db: Db,
  id: WorkspaceId,
  changes: { readonly name?: string | undefined; readonly keepsContent?: boolean | undefined },
): Promise<WorkspaceRow | undefined> {
  return (await db.rows<WorkspaceRow>(rename, [id, changes.name ?? null, changes.keepsContent ?? null]))[0]
}
