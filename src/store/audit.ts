// Who did what, kept beside what was done: `writeAudit` belongs into the transaction of the change itself.
import { randomUUIDv7 } from 'node:crypto'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { inBites } from './bites.ts'
import { dated, sql, type Db } from './database.ts'
import { greatestId } from './message-id.ts'

export interface AuditEntry {
  /** Left out for what concerns the installation. */
  readonly workspaceId?: WorkspaceId
  /** `user:<id>`, `key:<id>`, `operator:<login name>` for commands, `posthorn` for itself. */
  readonly actor: string
  /** What was done, as `thing.verb`: `key.created`. */
  readonly action: string
  /** To what: an id, a name or an address. */
  readonly target?: string
  readonly facts?: object
}

export interface AuditRow {
  readonly id: string
  readonly at: Date
  readonly actor: string
  readonly action: string
  readonly target: string | null
  readonly facts: object | null
  /** The e-mail address of a person or the name of a key, as it is now. */
  readonly actorName: string | null
}

const insert = sql(
  'write-audit',
  `insert into audit_log (workspace_id, id, at, actor, action, target, facts) values ($1, ${dated('$2')}, app_now(), $3, $4, $5, $6::text::json)`,
)
const named = `coalesce(u.email, k.name) "actorName"`
/** As an id, so that it is found by its key, and not among the texts of all ids. */
const idBehind = (kind: string): string =>
  `case when a.actor ~ '^${kind}[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then substr(a.actor, ${kind.length + 1})::uuid end`
const actors = `
  left join lateral (select x.email from users x where x.id = ${idBehind('user:')} limit 1) u on true
  left join lateral (
    select x.name from api_keys x where x.workspace_id = a.workspace_id and x.id = ${idBehind('key:')} limit 1) k on true`
// Compared and ordered so that only the index by workspace fits: by the ids alone it would go through the log of everybody else (decision 0006).
const page = sql(
  'page-audit',
  `select a.id, a.at, a.actor, a.action, a.target, a.facts, ${named}
     from (select * from audit_log x
            where (x.workspace_id, x.id) < ($1::uuid, coalesce($2::uuid, '${greatestId}')) and x.workspace_id >= $1
            order by x.workspace_id desc, x.id desc limit $3) a ${actors} order by a.id desc`,
)
const installationPage = sql(
  'page-installation-audit',
  `select a.id, a.at, a.actor, a.action, a.target, a.facts, ${named}
     from (select * from audit_log x where x.workspace_id is null and x.id < coalesce($1::uuid, '${greatestId}')
            order by x.workspace_id desc, x.id desc limit $2) a ${actors} order by a.id desc`,
)

/** Of a row with `workspace_id`, `id` and `created_at`: who made it, where the log still has it. Ids of older rows tell a node's time. */
export const madeBy = (table: string, action: string): string => `(
  select a.actor from audit_log a
   where a.workspace_id = ${table}.workspace_id and a.action = '${action}' and a.target = ${table}.id::text
     and a.id >= uuid_floor(${table}.created_at - interval '10 minutes') and a.id < uuid_floor(${table}.created_at + interval '10 minutes')
   limit 1) "createdBy"`

const recent = sql(
  'count-audit',
  `select count(*)::integer many from audit_log
    where workspace_id = $1 and id >= uuid_floor(app_now() - $3 * interval '1 millisecond') and action = $2`,
)

// Along the key, whose ids begin with the time; the row's own time decides.
const prune = sql(
  'prune-audit',
  `delete from audit_log where id = any (array(
     select x.id from audit_log x
      where x.id < uuid_floor(app_now() - $1 * interval '1 day') and x.at < app_now() - $1 * interval '1 day' order by x.id limit $2 for update skip locked))
   returning id`,
)

/** Drops the entries that are older than that, the oldest first. */
export async function pruneAudit(db: Db, days: number): Promise<void> {
  const most = limits.housekeepingRows
  await inBites(most, async () => (await db.rows(prune, [days, most])).length)
}

/** How often something was done in a workspace in the last `ms`. */
export async function countAudit(db: Db, workspace: WorkspaceId, action: string, ms: number): Promise<number> {
  return (await db.rows<{ many: number }>(recent, [workspace, action, ms]))[0]?.many ?? 0
}

export async function writeAudit(db: Db, entry: AuditEntry): Promise<void> {
  const { workspaceId, actor, action, target, facts } = entry
  const json = facts === undefined ? null : JSON.stringify(facts)
  await db.rows(insert, [workspaceId ?? null, randomUUIDv7(), actor, action, target ?? null, json])
}

/** Newest first, from before an id. */
export const pageAudit = (db: Db, workspace: WorkspaceId, before: string | undefined, most: number) =>
  db.rows<AuditRow>(page, [workspace, before ?? null, most])

export const pageInstallationAudit = (db: Db, before: string | undefined, most: number) =>
  db.rows<AuditRow>(installationPage, [before ?? null, most])
