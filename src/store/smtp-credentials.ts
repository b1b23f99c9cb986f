// SMTP credentials, and whose they are. A password is kept as a keyed hash alone.
import type { WorkspaceId } from '../domain/message.ts'
import { madeBy } from './audit.ts'
import { sql, type Db } from './database.ts'
import { isLive, makeRoomIn, noteUseIn, standingColumns, termColumns, type StandingRow, type TermRow } from './term.ts'

export interface CredentialRow extends TermRow {
  readonly id: string
  readonly name: string
  readonly username: string
}

/** All that a session needs to know about its user. */
export interface SubmitterRow extends StandingRow {
  readonly password_hash: Buffer
}

const columns = `id, name, username, ${termColumns}`

// The one statement that names no workspace: the username says which it is.
const submitter = sql(
  'submitter',
  `select c.password_hash, ${standingColumns('c')}
     from smtp_credentials c join workspaces w on w.id = c.workspace_id join plans p on p.name = w.plan
    where c.username = $1 and ${isLive('c')}`,
)
const used = sql('credential-used', noteUseIn('smtp_credentials'))
const insert = sql(
  'insert-credential',
  `insert into smtp_credentials (workspace_id, id, name, username, password_hash, expires_at) values ($1, $2, $3, $4, $5, $6)
   returning ${columns}`,
)
const credentialsOf = sql(
  'list-credentials',
  `select ${columns}, ${madeBy('c', 'smtp_credential.created')}
     from smtp_credentials c where workspace_id = $1 order by created_at, id`,
)
const ownerOfCredential = sql('owner-of-credential', 'select workspace_id from smtp_credentials where id = $1')
const revoke = sql(
  'revoke-credential',
  `update smtp_credentials set revoked_at = coalesce(revoked_at, app_now()) where workspace_id = $1 and id = $2
   returning ${columns}`,
)
const makeRoom = sql('make-room-for-credential', makeRoomIn('smtp_credentials'))

/** Undefined where no credential has this username, or it is revoked or expired. */
export async function findSubmitter(db: Db, username: string): Promise<SubmitterRow | undefined> {
  return (await db.rows<SubmitterRow>(submitter, [username]))[0]
}

/** At most once a minute for each, however many nodes say so. */
export async function noteCredentialUse(db: Db, workspace: WorkspaceId, id: string): Promise<void> {
  await db.rows(used, [workspace, id])
}

export interface NewCredential {
  readonly id: string
  readonly name: string
  readonly username: string
  readonly passwordHash: Buffer
  /** Left out: it has no end. */
  readonly expiresAt?: Date | undefined
}

export async function insertCredential(db: Db, workspace: WorkspaceId, made: NewCredential): Promise<CredentialRow> {
  const values = [workspace, made.id, made.name, made.username, made.passwordHash, made.expiresAt ?? null]
  return (await db.rows<CredentialRow>(insert, values))[0] as CredentialRow
}

/** Of `most` or more credentials, those that have ended make room for one. */
export async function makeRoomForCredential(db: Db, workspace: WorkspaceId, most: number): Promise<void> {
  await db.rows(makeRoom, [workspace, most])
}

export const listCredentialRows = (db: Db, workspace: WorkspaceId): Promise<CredentialRow[]> =>
  db.rows<CredentialRow>(credentialsOf, [workspace])

/** For operators, who name a credential by its id alone. */
export async function workspaceOfCredential(db: Db, id: string): Promise<WorkspaceId | undefined> {
  return (await db.rows<{ workspace_id: WorkspaceId }>(ownerOfCredential, [id]))[0]?.workspace_id
}

/** A trigger tells every node at once. */
export async function revokeCredentialRow(
  db: Db,
  workspace: WorkspaceId,
  id: string,
): Promise<CredentialRow | undefined> {
  return (await db.rows<CredentialRow>(revoke, [workspace, id]))[0]
}
