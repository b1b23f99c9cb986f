// API keys, and who holds one. Only hashes are kept.
import type { WorkspaceId } from '../domain/message.ts'
import { madeBy } from './audit.ts'
import { sql, type Db } from './database.ts'
import { isLive, makeRoomIn, noteUseIn, standingColumns, termColumns, type StandingRow, type TermRow } from './term.ts'

export interface KeyRow extends TermRow {
  readonly id: string
  readonly name: string
  readonly prefix: string
  readonly scopes: readonly string[]
}

/** All that a request needs to know before its body is read. */
export interface HolderRow extends StandingRow {
  readonly scopes: readonly string[]
}

const keyColumns = `id, name, prefix, scopes, ${termColumns}`

// The one statement that names no workspace: the secret says which it is.
const holder = sql(
  'key-holder',
  `select k.scopes, ${standingColumns('k')}
     from api_keys k join workspaces w on w.id = k.workspace_id join plans p on p.name = w.plan
    where k.secret_hash = $1 and ${isLive('k')}`,
)
const used = sql('key-used', noteUseIn('api_keys'))
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
const makeRoom = sql('make-room-for-key', makeRoomIn('api_keys'))

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

/** Of `most` or more keys, those that have ended make room for one. Who did what is then shown with the id of a key that is gone. */
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
