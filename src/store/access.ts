// API keys: who holds one, and what depends on it. Only hashes are kept.
import type { WorkspaceId } from '../domain/message.ts'
import { madeBy } from './audit.ts'
import { sql, type Db } from './database.ts'

export interface KeyRow {
  readonly id: string
  readonly name: string
  readonly prefix: string
  readonly scopes: readonly string[]
  readonly created_at: Date
  readonly last_used_at: Date | null
  readonly expires_at: Date | null
  readonly revoked_at: Date | null
  /** By the database's clock, as it is refused. */
  readonly expired: boolean
  /** In lists alone. */
  readonly made_by?: string | null
}

/** All that a request needs to know before its body is read. */
export interface HolderRow {
  readonly id: string
  readonly workspace_id: WorkspaceId
  readonly scopes: readonly string[]
  readonly blocked: boolean
  readonly api_sending: boolean
  readonly upgrade_url: string | null
  /** Milliseconds until the key expires; null: never. */
  readonly expires_in_ms: number | null
  /** Nobody has written down in the last minute that it is used. */
  readonly unseen: boolean
}

const keyColumns = `id, name, prefix, scopes, created_at, last_used_at, expires_at, revoked_at,
          coalesce(expires_at <= app_now(), false) expired`

// The one statement that names no workspace: the secret says which it is.
const holder = sql(
  'key-holder',
  `select k.id, k.workspace_id, k.scopes, w.status = 'blocked' blocked, p.api_sending, p.upgrade_url,
          (extract(epoch from k.expires_at - app_now()) * 1000)::float8 expires_in_ms,
          coalesce(k.last_used_at < app_now() - interval '1 minute', true) unseen
     from api_keys k join workspaces w on w.id = k.workspace_id join plans p on p.name = w.plan
    where k.secret_hash = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > app_now())`,
)
const used = sql(
  'key-used',
  `update api_keys set last_used_at = app_now()
    where workspace_id = $1 and id = $2 and coalesce(last_used_at < app_now() - interval '1 minute', true)`,
)
const insert = sql(
  'insert-key',
  `insert into api_keys (workspace_id, id, name, prefix, secret_hash, scopes, expires_at) values ($1, $2, $3, $4, $5, $6, $7)
   returning ${keyColumns}`,
)
const keysOf = sql(
  'list-keys',
  `select ${keyColumns}, ${madeBy('k', 'key.created')}
     from api_keys k where workspace_id = $1 order by created_at, id`,
)
const ownerOfKey = sql('owner-of-key', 'select workspace_id from api_keys where id = $1')
const revoke = sql(
  'revoke-key',
  `update api_keys set revoked_at = coalesce(revoked_at, app_now()) where workspace_id = $1 and id = $2
   returning ${keyColumns}`,
)
const live = sql(
  'find-live-key',
  `select expires_at from api_keys
    where workspace_id = $1 and id = $2 and revoked_at is null and (expires_at is null or expires_at > app_now())`,
)
// What is revoked or gone counts in between: else a key made by a key that is gone would be told by nobody.
const madeOf = sql(
  'list-made-by-key',
  `with recursive
   keys as materialized (
     select k.id, k.name, k.created_at, k.revoked_at is null and (k.expires_at is null or k.expires_at > app_now()) valid, ${madeBy('k', 'key.created')}
       from api_keys k where k.workspace_id = $1),
   logins as materialized (
     select c.id, c.name, c.created_at, ${madeBy('c', 'smtp_credential.created')}
       from smtp_credentials c where c.workspace_id = $1 and c.revoked_at is null and (c.expires_at is null or c.expires_at > app_now())),
   makers (maker) as (select 'key:' || $2::uuid union select 'key:' || k.id from makers m join keys k on k.made_by = m.maker)
   select 'key' kind, k.id, k.name from keys k join makers m on m.maker = k.made_by where k.valid
   union all select 'smtp_credential', c.id, c.name from logins c join makers m on m.maker = c.made_by
   order by kind, id`,
)

// Those that ended first go first. Who did what is shown with the id of a key that is gone.
const makeRoom = sql(
  'make-room-for-key',
  `delete from api_keys where workspace_id = $1 and id in (
     select k.id from api_keys k where k.workspace_id = $1 and (k.revoked_at is not null or k.expires_at <= app_now())
      order by least(k.revoked_at, k.expires_at), k.id
      limit greatest(0, (select count(*) from api_keys x where x.workspace_id = $1) - $2 + 1))`,
)

/** Undefined where no key has this hash, or the key is revoked or expired. */
export async function findHolder(db: Db, secretHash: Buffer): Promise<HolderRow | undefined> {
  return (await db.rows<HolderRow>(holder, [secretHash]))[0]
}

/** At most once a minute for each key, however many nodes say so. */
export async function noteUse(db: Db, workspace: WorkspaceId, key: string): Promise<void> {
  await db.rows(used, [workspace, key])
}

export interface NewKey {
  readonly id: string
  readonly name: string
  readonly prefix: string
  readonly secretHash: Buffer
  readonly scopes: readonly string[]
  readonly expiresAt: Date | null
}

export async function insertKey(db: Db, workspace: WorkspaceId, key: NewKey): Promise<KeyRow> {
  const values = [workspace, key.id, key.name, key.prefix, key.secretHash, key.scopes, key.expiresAt]
  return (await db.rows<KeyRow>(insert, values))[0] as KeyRow
}

/** Of `most` or more keys, those that have ended make room for one. */
export async function makeRoomForKey(db: Db, workspace: WorkspaceId, most: number): Promise<void> {
  await db.rows(makeRoom, [workspace, most])
}

export const listKeyRows = (db: Db, workspace: WorkspaceId): Promise<KeyRow[]> => db.rows<KeyRow>(keysOf, [workspace])

/** For operators, who name a key by its id alone. */
export async function workspaceOfKey(db: Db, id: string): Promise<WorkspaceId | undefined> {
  return (await db.rows<{ workspace_id: WorkspaceId }>(ownerOfKey, [id]))[0]?.workspace_id
}

/** A trigger tells every node at once. */
export async function revokeKeyRow(db: Db, workspace: WorkspaceId, id: string): Promise<KeyRow | undefined> {
  return (await db.rows<KeyRow>(revoke, [workspace, id]))[0]
}

/** Undefined where the key is revoked, expired or gone. */
export async function findLiveKey(
  db: Db,
  workspace: WorkspaceId,
  id: string,
): Promise<Pick<KeyRow, 'expires_at'> | undefined> {
  return (await db.rows<Pick<KeyRow, 'expires_at'>>(live, [workspace, id]))[0]
}

export interface MadeRow {
  readonly kind: 'key' | 'smtp_credential'
  readonly id: string
  readonly name: string
}

/** What a key has made, or a key that it made, and so on, as far as the audit log still knows, and that is still valid. */
export const listMadeByKey = (db: Db, workspace: WorkspaceId, id: string): Promise<MadeRow[]> =>
  db.rows<MadeRow>(madeOf, [workspace, id])
