// Persons: who they are, and their password. Whoever changes what is a person's locks the person first, then workspaces, in the order of their ids, and
// whatever else: two that did it the other way round would wait for each other in a circle.
import type { WorkspaceId } from '../domain/message.ts'
import type { MemberRole } from '../domain/scopes.ts'
import { sql, type Db } from './database.ts'

export interface UserRow {
  readonly id: string
  readonly email: string
  readonly name: string | null
  readonly passwordHash: string | null
  readonly operator: boolean
  readonly totpSealed: Buffer | null
  readonly totpPendingSealed: Buffer | null
  readonly createdAt: Date
}

/** With the workspaces that the person is a member of. */
export interface ListedUserRow extends Pick<UserRow, 'id' | 'email' | 'name' | 'operator' | 'createdAt'> {
  readonly lastSignInAt: Date | null
  /** Where the list goes on. */
  readonly emailKey: string
  /** An authenticator app or a passkey. */
  readonly twoFactor: boolean
  readonly workspaces: readonly { readonly id: WorkspaceId; readonly name: string; readonly role: MemberRole }[]
}

const userColumns = `id, email, name, password_hash "passwordHash", operator, totp_sealed "totpSealed",
   totp_pending_sealed "totpPendingSealed", created_at "createdAt"`

const insert = sql(
  'insert-user',
  `insert into users (id, email, email_key, name, password_hash, operator) values ($1, $2, $3, $4, $5, $6)
   on conflict (email_key) do nothing returning ${userColumns}`,
)
const byEmail = sql('user-by-email', `select ${userColumns} from users where email_key = $1`)
const byId = sql('user-by-id', `select ${userColumns} from users where id = $1`)
const lock = sql('lock-user', 'select id from users where id = $1 for update')
const lockByEmail = sql('lock-user-by-email', `select ${userColumns} from users where email_key = $1 for update`)
const anyone = sql('any-user', 'select id from users limit 1')
const rename = sql('rename-user', `update users set name = $2 where id = $1 returning ${userColumns}`)
const password = sql('set-password', 'update users set password_hash = $2 where id = $1')
const replace = sql(
  'replace-password',
  'update users set password_hash = $3 where id = $1 and password_hash is not distinct from $2 returning id',
)
const operatorFlag = sql('set-operator', 'update users set operator = $2 where id = $1')
const removal = sql('delete-user', 'delete from users where id = $1')
const listedColumns = `u.id, u.email, u.email_key "emailKey", u.name, u.operator, u.created_at "createdAt", u.last_sign_in_at "lastSignInAt",
          u.totp_sealed is not null or exists (select from passkeys p where p.user_id = u.id) "twoFactor",
          coalesce((select json_agg(json_build_object('id', w.id, 'name', w.name, 'role', m.role) order by w.id)
                      from members m join workspaces w on w.id = m.workspace_id where m.user_id = u.id), '[]') workspaces`
const listed = sql(
  'list-users',
  `select ${listedColumns} from users u where u.email_key > $1 order by u.email_key limit $2`,
)
const listedOne = sql('list-user', `select ${listedColumns} from users u where u.id = $1`)
const signedIn = sql(
  'note-sign-in',
  'update users set last_sign_in_at = app_now() where id = $1 and password_hash is not distinct from $2 returning id',
)

export interface NewUser {
  readonly id: string
  readonly email: string
  readonly emailKey: string
  readonly name: string | null
  readonly passwordHash: string | null
  readonly operator: boolean
}

/** Undefined where the address is taken. */
export async function insertUser(db: Db, user: NewUser): Promise<UserRow | undefined> {
  const values = [user.id, user.email, user.emailKey, user.name, user.passwordHash, user.operator]
  return (await db.rows<UserRow>(insert, values))[0]
}
export async function userByEmail(db: Db, emailKey: string): Promise<UserRow | undefined> {
  return (await db.rows<UserRow>(byEmail, [emailKey]))[0]
}
export async function userById(db: Db, id: string): Promise<UserRow | undefined> {
  return (await db.rows<UserRow>(byId, [id]))[0]
}
/** Locks the person, also against whoever makes them a member of something. False where they are gone. */
export async function lockUser(tx: Db, id: string): Promise<boolean> {
  return (await tx.rows(lock, [id])).length === 1
}
/** The same, of somebody with this address. */
export async function lockUserByEmail(tx: Db, emailKey: string): Promise<UserRow | undefined> {
  return (await tx.rows<UserRow>(lockByEmail, [emailKey]))[0]
}
export async function isAnyUser(db: Db): Promise<boolean> {
  return (await db.rows(anyone)).length > 0
}
export async function renameUser(db: Db, id: string, name: string): Promise<UserRow | undefined> {
  return (await db.rows<UserRow>(rename, [id, name]))[0]
}
export async function setPasswordHash(db: Db, id: string, hash: string): Promise<void> {
  await db.rows(password, [id, hash])
}
/** False where it is not `before` any more: whoever knows only that one has not proved anything. Locks the person. */
export async function replacePasswordHash(db: Db, id: string, before: string | null, hash: string): Promise<boolean> {
  return (await db.rows(replace, [id, before, hash])).length === 1
}
export async function setOperator(db: Db, id: string, operator: boolean): Promise<void> {
  await db.rows(operatorFlag, [id, operator])
}
/** With everything that is theirs alone: sessions, second factor, passkeys, memberships. */
export async function deleteUser(db: Db, id: string): Promise<void> {
  await db.rows(removal, [id])
}
/** The next ones behind a key, in the order of keys. */
export const listUserRows = (db: Db, after: string, most: number): Promise<ListedUserRow[]> =>
  db.rows<ListedUserRow>(listed, [after, most])
export async function listUserRow(db: Db, id: string): Promise<ListedUserRow | undefined> {
  return (await db.rows<ListedUserRow>(listedOne, [id]))[0]
}
/** Locks the person as a change of the password does. False where they are gone, or the password is another one than that. */
export async function noteSignIn(db: Db, id: string, passwordHash: string | null): Promise<boolean> {
  return (await db.rows(signedIn, [id, passwordHash])).length === 1
}
