// SMTP credentials, and whose they are. A password is kept as a keyed hash alone.
import type { WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'
import { isLive, sharedStatements, standingColumns, termColumns, type StandingRow, type TermRow } from './term.ts'

export interface CredentialRow extends TermRow {
  readonly id: string
  readonly name: string
  readonly username: string
}

/** All that a session needs to know about its user. */
export interface SubmitterRow extends StandingRow {
  readonly passwordHash: Buffer
}

const columns = `id, name, username, ${termColumns}`

// The one statement that names no workspace: the username says which it is.
const submitter = sql(
  'submitter',
  `select c.password_hash "passwordHash", ${standingColumns('c')}
     from smtp_credentials c join workspaces w on w.id = c.workspace_id join plans p on p.name = w.plan
    where c.username = $1 and ${isLive('c')}`,
)
const insert = sql(
  'insert-credential',
  `insert into smtp_credentials (workspace_id, id, name, username, password_hash, expires_at) values ($1, $2, $3, $4, $5, $6)
   returning ${columns}`,
)

export const {
  noteUses: noteCredentialUses,
  makeRoom: makeRoomForCredential,
  list: listCredentialRows,
  workspaceOf: workspaceOfCredential,
  revoke: revokeCredentialRow,
} = sharedStatements<CredentialRow>('smtp_credentials', 'smtp_credential', columns)

/** Undefined where no credential has this username, or it is revoked or expired. */
export async function findSubmitter(db: Db, username: string): Promise<SubmitterRow | undefined> {
  return (await db.rows<SubmitterRow>(submitter, [username]))[0]
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
