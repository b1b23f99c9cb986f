// What operators look at: the queue by state and destination, and whether the database keeps up. Every statement is bounded.
import type { WorkspaceId } from '../../domain/message.ts'
import { sql, type Db } from '../database.ts'
import type { WorkspaceRow } from '../workspaces.ts'

const page = sql(
  'page-workspaces',
  `select id, name, status, plan, route_sealed, keeps_content, created_at from workspaces
    where id < coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') and ($2 = '' or position($2 in lower(name)) > 0)
    order by id desc limit $3`,
)

export const pageWorkspaceRows = (db: Db, before: string | undefined, text: string, most: number) =>
  db.rows<WorkspaceRow>(page, [before ?? null, text, most])

export interface LaneRow {
  readonly workspace_id: WorkspaceId
  readonly workspace_name: string
  readonly destination: string
  readonly status: string
  readonly many: number
  readonly oldest_due_at: Date
  readonly attempts_max: number
  /** Of all that were looked at, in this group and the others. */
  readonly total: number
  readonly groups: number
  /** There are more than were looked at. */
  readonly more: boolean
}

// At most $1 rows of the queue are looked at: of a longer one this is the beginning. The sums are of all its groups, the rows of the $2 largest.
const lanes = sql(
  'queue-lanes',
  `select q.workspace_id, w.name workspace_name, q.destination, q.status, q.many, q.oldest_due_at, q.attempts_max, q.total, q.groups,
          q.total = $1 and exists (select from outbound offset $1 limit 1) more
     from (
       select l.workspace_id, l.destination, l.status, count(*)::integer many, min(l.due_at) oldest_due_at, max(l.attempts) attempts_max,
              (sum(count(*)) over ())::integer total, (count(*) over ())::integer groups
         from (select workspace_id, destination, status, due_at, attempts from outbound limit $1) l
        group by 1, 2, 3 order by many desc, 1, 2, 3 limit $2) q
     cross join lateral (select x.name from workspaces x where x.id = q.workspace_id limit 1) w
    order by q.many desc, 1, 3, 4`,
)

export const readLanes = (db: Db, rowsMax: number, lanesMax: number): Promise<LaneRow[]> =>
  db.rows<LaneRow>(lanes, [rowsMax, lanesMax])

export interface DatabaseFacts {
  readonly version: string
  readonly now: Date
  readonly size_bytes: number
  readonly started_at: Date
}

const facts = sql(
  'database-facts',
  `select current_setting('server_version') version, app_now() now, pg_database_size(current_database())::float8 size_bytes,
          pg_postmaster_start_time() started_at`,
)

export async function readDatabaseFacts(db: Db): Promise<DatabaseFacts> {
  return (await db.rows<DatabaseFacts>(facts))[0] as DatabaseFacts
}
