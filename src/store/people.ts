// Persons: who they are, how they prove it, and where they belong. One function per statement; what concerns a workspace names it.
import type { WorkspaceId } from '../domain/message.ts'
import type { MemberRole } from '../domain/scopes.ts'
import { sql, type Db } from './database.ts'

export interface UserRow {
  readonly id: string
  readonly email: string
  readonly name: string | null
  readonly password_hash: string | null
  readonly operator: boolean
  readonly totp_sealed: Buffer | null
  readonly totp_pending_sealed: Buffer | null
  readonly created_at: Date
  readonly last_sign_in_at: Date | null
}

/** With the workspaces that the person is a member of. */
export interface ListedUserRow extends Pick<
  UserRow,
  'id' | 'email' | 'name' | 'operator' | 'created_at' | 'last_sign_in_at'
> {
  /** Where the list goes on. */
  readonly email_key: string
  readonly two_factor: boolean
  readonly workspaces: readonly { readonly id: WorkspaceId; readonly name: string; readonly role: MemberRole }[]
}

const userColumns =
  'id, email, name, password_hash, operator, totp_sealed, totp_pending_sealed, created_at, last_sign_in_at'

const insert = sql(
  'insert-user',
  `insert into users (id, email, email_key, name, password_hash, operator) values ($1, $2, $3, $4, $5, $6)
   on conflict (email_key) do nothing returning ${userColumns}`,
)
const byEmail = sql('user-by-email', `select ${userColumns} from users where email_key = $1`)
const byId = sql('user-by-id', `select ${userColumns} from users where id = $1`)
const anyone = sql('any-user', 'select id from users limit 1')
const rename = sql('rename-user', `update users set name = $2 where id = $1 returning ${userColumns}`)
const password = sql('set-password', 'update users set password_hash = $2 where id = $1')
const replace = sql(
  'replace-password',
  'update users set password_hash = $3 where id = $1 and password_hash is not distinct from $2 returning id',
)
const operatorFlag = sql('set-operator', 'update users set operator = $2 where id = $1')
const removal = sql('delete-user', 'delete from users where id = $1')
const listedColumns = `u.id, u.email, u.email_key, u.name, u.operator, u.created_at, u.last_sign_in_at,
          u.totp_sealed is not null or exists (select from passkeys p where p.user_id = u.id) two_factor,
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

// ------------------------------------------------------------------------------------------------------------- second factor

const pendTotp = sql('pend-totp', 'update users set totp_pending_sealed = $2 where id = $1')
const confirmTotp = sql(
  'confirm-totp',
  `update users set totp_sealed = totp_pending_sealed, totp_pending_sealed = null, totp_step = $2
    where id = $1 and totp_pending_sealed is not null returning id`,
)
const dropTotp = sql('drop-totp', 'update users set totp_sealed = null, totp_pending_sealed = null where id = $1')
const takeStep = sql('take-totp-step', 'update users set totp_step = $2 where id = $1 and totp_step < $2 returning id')
const dropCodes = sql('drop-recovery-codes', 'delete from recovery_codes where user_id = $1')
const addCodes = sql(
  'add-recovery-codes',
  'insert into recovery_codes (user_id, code_hash) select $1, unnest($2::bytea[])',
)
const takeCode = sql(
  'take-recovery-code',
  'delete from recovery_codes where user_id = $1 and code_hash = $2 returning user_id',
)
const countCodes = sql('count-recovery-codes', 'select count(*)::integer many from recovery_codes where user_id = $1')

export async function setPendingTotp(db: Db, user: string, sealed: Buffer): Promise<void> {
  await db.rows(pendTotp, [user, sealed])
}
/** The pending secret becomes the second factor. */
export async function confirmPendingTotp(db: Db, user: string, step: number): Promise<boolean> {
  return (await db.rows(confirmTotp, [user, step])).length === 1
}
export async function removeTotp(db: Db, user: string): Promise<void> {
  await db.rows(dropTotp, [user])
  await db.rows(dropCodes, [user])
}
/** False where a code of this step, or a later one, was taken before: a code counts once. */
export async function takeTotpStep(db: Db, user: string, step: number): Promise<boolean> {
  return (await db.rows(takeStep, [user, step])).length === 1
}
export async function replaceRecoveryCodes(db: Db, user: string, hashes: readonly Buffer[]): Promise<void> {
  await db.rows(dropCodes, [user])
  await db.rows(addCodes, [user, hashes])
}
export async function takeRecoveryCode(db: Db, user: string, hash: Buffer): Promise<boolean> {
  return (await db.rows(takeCode, [user, hash])).length === 1
}
export async function countRecoveryCodes(db: Db, user: string): Promise<number> {
  return (await db.rows<{ many: number }>(countCodes, [user]))[0]?.many ?? 0
}

// ------------------------------------------------------------------------------------------------------------- password resets

const lockUser = sql('lock-user', 'select id from users where id = $1 for update')
const addReset = sql(
  'add-password-reset',
  `with old as (delete from password_resets where expires_at <= app_now()),
        open as (select count(*) many from password_resets where user_id = $2 and expires_at > app_now())
   insert into password_resets (token_hash, user_id, expires_at)
   select $1, $2, app_now() + $3 * interval '1 millisecond' from open where many < $4 returning user_id`,
)
const findReset = sql(
  'find-password-reset',
  'select user_id from password_resets where token_hash = $1 and expires_at > app_now()',
)
const takeReset = sql(
  'take-password-reset',
  'delete from password_resets where token_hash = $1 and expires_at > app_now() returning user_id',
)
const dropResets = sql('drop-password-resets', 'delete from password_resets where user_id = $1')

/** False where the person has enough open ones. Locks the person first: of those who ask at once each sees what the others were given. */
export async function addPasswordReset(tx: Db, hash: Buffer, user: string, ms: number, most: number): Promise<boolean> {
  await tx.rows(lockUser, [user])
  return (await tx.rows(addReset, [hash, user, ms, most])).length === 1
}
/** The person whose token it is; it stays good. */
export async function findPasswordReset(db: Db, hash: Buffer): Promise<string | undefined> {
  return (await db.rows<{ user_id: string }>(findReset, [hash]))[0]?.user_id
}

/** The same, and it counts once. */
export async function takePasswordReset(db: Db, hash: Buffer): Promise<string | undefined> {
  return (await db.rows<{ user_id: string }>(takeReset, [hash]))[0]?.user_id
}
export async function dropPasswordResets(db: Db, user: string): Promise<void> {
  await db.rows(dropResets, [user])
}

export interface MembershipRow {
  readonly workspace_id: WorkspaceId
  readonly workspace_name: string
  readonly role: MemberRole
}

// Operators are owners of the workspace that sends the installation's own mail.
const membershipsOf = sql(
  'memberships-of-user',
  `select w.id workspace_id, coalesce(w.own_name, w.name) workspace_name, m.role from members m join workspaces w on w.id = m.workspace_id where m.user_id = $1
   union
   select w.id, coalesce(w.own_name, w.name), 'owner' from users u join installation i on i.name = 'system_workspace' join workspaces w on w.id = i.value::uuid
    where u.id = $1 and u.operator and not exists (select from members m where m.workspace_id = w.id and m.user_id = u.id)
   order by 2`,
)
export const listMemberships = (db: Db, user: string): Promise<MembershipRow[]> =>
  db.rows<MembershipRow>(membershipsOf, [user])
