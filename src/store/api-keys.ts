// API keys, and who holds one. Only hashes are kept.
import type { WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'
import { isLive, sharedStatements, standingColumns, termColumns, type StandingRow, type TermRow } from './term.ts'

export interface KeyRow extends TermRow {
  readonly id: string
  readonly name: string
  /** The visible beginning. */
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
const insert = sql(
  'insert-key',
  `insert into api_keys (workspace_id, id, name, prefix, secret_hash, scopes, expires_at) values ($1, $2, $3, $4, $5, $6, $7)
   returning ${keyColumns}`,
)

export const {
  noteUses: noteKeyUses,
  makeRoom: makeRoomForKey,
  list: listKeyRows,
  workspaceOf: workspaceOfKey,
  revoke: revokeKeyRow,
} = sharedStatements<KeyRow>('api_keys', 'key', keyColumns)

/** Undefined where no key has this hash, or the key is revoked or expired. */
export async function findHolder(db: Db, secretHash: Buffer): Promise<HolderRow | undefined> {
  return (await db.rows<HolderRow>(holder, [secretHash]))[0]
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
