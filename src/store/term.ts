// From when to when an API key or an SMTP credential is good, and what is known of its use: both tables have these columns, and what follows from them is
// the same for both.
import type { WorkspaceId } from '../domain/message.ts'
import { madeBy } from './audit.ts'
import { sql, type Db } from './database.ts'
import type { Used } from './uses.ts'

export interface TermRow {
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
  /** Of an SMTP credential: where it was made by a key that ends; then, too. */
  readonly expiresAt: Date | null
  readonly revokedAt: Date | null
  /** By the database's clock, as it is refused. */
  readonly expired: boolean
  /** In lists alone, where the audit log still knows. */
  readonly createdBy?: string | null
}

export const termColumns = `created_at "createdAt", last_used_at "lastUsedAt", expires_at "expiresAt", revoked_at "revokedAt",
  coalesce(expires_at <= app_now(), false) expired`

/** By the database's clock, as it is refused. `row` is the row's name in the statement, as below. */
export const isLive = (row: string): string =>
  `${row}.revoked_at is null and (${row}.expires_at is null or ${row}.expires_at > app_now())`

/** Nobody has written down in the last minute that it is used; a use of a time to come is none of these. */
const isUnseen = (row: string): string =>
  `(${row}.last_used_at between app_now() - interval '1 minute' and app_now() + interval '1 minute') is not true`

/** Whose it is, and whether they may send with it now. */
export interface StandingRow {
  readonly id: string
  readonly workspace_id: WorkspaceId
  readonly blocked: boolean
  readonly api_sending: boolean
  readonly upgrade_url: string | null
  /** Milliseconds until it expires; null: never. */
  readonly expires_in_ms: number | null
  readonly unseen: boolean
}

/** Beside its workspace `w` and the plan `p`. */
export const standingColumns = (row: string): string =>
  `${row}.id, ${row}.workspace_id, w.status = 'blocked' blocked, p.api_sending, p.upgrade_url,
          (extract(epoch from ${row}.expires_at - app_now()) * 1000)::float8 expires_in_ms, ${isUnseen(row)} unseen`

/** What is asked of keys and of credentials alike. `word` is what the audit log and the names of the statements call one. */
export function sharedStatements<Row extends TermRow>(
  table: 'api_keys' | 'smtp_credentials',
  word: 'key' | 'smtp_credential',
  columns: string,
) {
  const used = sql(
    `${word}-used`,
    `update ${table} t set last_used_at = app_now()
       from (select x.workspace_id, x.id from unnest($1::uuid[], $2::uuid[]) used (workspace_id, id) cross join lateral (
               select * from ${table} y where y.workspace_id = used.workspace_id and y.id = used.id and ${isUnseen('y')}
                  for update skip locked) x) mine
      where t.workspace_id = mine.workspace_id and t.id = mine.id`,
  )
  // Those that ended first.
  const room = sql(
    `make-room-for-${word}`,
    `delete from ${table} where workspace_id = $1 and id in (
       select k.id from ${table} k where k.workspace_id = $1 and (k.revoked_at is not null or k.expires_at <= app_now())
        order by least(k.revoked_at, k.expires_at), k.id
        limit greatest(0, (select count(*) from ${table} x where x.workspace_id = $1) - $2 + 1))`,
  )
  const all = sql(
    `list-${word}s`,
    `select ${columns}, ${madeBy('x', `${word}.created`)} from ${table} x where workspace_id = $1 order by created_at, id`,
  )
  const owner = sql(`owner-of-${word}`, `select workspace_id from ${table} where id = $1`)
  const revoke = sql(
    `revoke-${word}`,
    `update ${table} set revoked_at = coalesce(revoked_at, app_now()) where workspace_id = $1 and id = $2 returning ${columns}`,
  )
  return {
    /** At most once a minute for each, however many nodes say so; not while somebody has the row locked: nobody is to wait for that. */
    noteUses: async (db: Db, rows: readonly Used[]): Promise<void> => {
      await db.rows(used, [rows.map((row) => row.workspace_id), rows.map(({ id }) => id)])
    },
    /** Of `most` or more, those that have ended make room for one. Who did what is then shown with the id of one that is gone. */
    makeRoom: async (db: Db, workspace: WorkspaceId, most: number): Promise<void> => {
      await db.rows(room, [workspace, most])
    },
    list: (db: Db, workspace: WorkspaceId): Promise<Row[]> => db.rows<Row>(all, [workspace]),
    /** For operators, who name one by its id alone. */
    workspaceOf: async (db: Db, id: string): Promise<WorkspaceId | undefined> =>
      (await db.rows<{ workspace_id: WorkspaceId }>(owner, [id]))[0]?.workspace_id,
    /** A trigger tells every node at once. */
    revoke: async (db: Db, workspace: WorkspaceId, id: string): Promise<Row | undefined> =>
      (await db.rows<Row>(revoke, [workspace, id]))[0],
  }
}
