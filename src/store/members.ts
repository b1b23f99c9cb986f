// Members of a workspace. Changes of members lock the workspace's row first, so that two of them cannot leave it
// without an owner.
import type { WorkspaceId } from '../domain/message.ts'
import type { MemberRole } from '../domain/scopes.ts'
import { sql, type Db } from './database.ts'

export interface MemberRow {
  readonly userId: string
  readonly email: string
  readonly name: string | null
  readonly role: MemberRole
  readonly twoFactor: boolean
  readonly createdAt: Date
  readonly lastSignInAt: Date | null
}

const memberColumns = `m.user_id "userId", u.email, u.name, m.role,
  u.totp_sealed is not null or exists (select from passkeys p where p.user_id = u.id) "twoFactor", m.created_at "createdAt", u.last_sign_in_at "lastSignInAt"`

// Against each other, and against whoever blocks or removes the workspace; not against rows that refer to it: an ending that suppresses somebody would
// wait behind a node that stands still in the middle of this, and with it the endings of everybody that came in its statement.
const lockWorkspace = sql('lock-members', 'select id from workspaces where id = $1 for no key update')
const membersOf = sql(
  'list-members',
  `select ${memberColumns} from members m join users u on u.id = m.user_id where m.workspace_id = $1 order by u.email_key`,
)
const oneMember = sql(
  'find-member',
  `select ${memberColumns} from members m join users u on u.id = m.user_id where m.workspace_id = $1 and m.user_id = $2`,
)
// An operator is an owner of the workspace that sends the installation's own mail (sessions.ts, below).
const roleOf = sql(
  'role-of-user',
  `select coalesce(m.role, case when u.operator and i.value is not null then 'owner' end) as role
     from users u
     left join lateral (select x.role from members x where x.workspace_id = $1 and x.user_id = u.id limit 1) m on true
     left join lateral (select x.value from installation x where x.name = 'system_workspace' and x.value = $1::uuid::text limit 1) i on true
    where u.id = $2`,
)
const insert = sql(
  'insert-member',
  `insert into members (workspace_id, user_id, role) values ($1, $2, $3) on conflict (workspace_id, user_id) do nothing returning user_id`,
)
const changeRole = sql('set-member-role', 'update members set role = $3 where workspace_id = $1 and user_id = $2')
const remove = sql('delete-member', 'delete from members where workspace_id = $1 and user_id = $2')
const owners = sql(
  'count-owners',
  `select count(*)::integer many from members where workspace_id = $1 and role = 'owner'`,
)
export async function lockMembers(db: Db, workspace: WorkspaceId): Promise<void> {
  await db.rows(lockWorkspace, [workspace])
}
export const listMemberRows = (db: Db, workspace: WorkspaceId): Promise<MemberRow[]> =>
  db.rows<MemberRow>(membersOf, [workspace])
export async function findMember(db: Db, workspace: WorkspaceId, user: string): Promise<MemberRow | undefined> {
  return (await db.rows<MemberRow>(oneMember, [workspace, user]))[0]
}
/** What a person may do in a workspace; undefined where it is nothing. */
export async function findRole(db: Db, workspace: WorkspaceId, user: string): Promise<MemberRole | undefined> {
  return (await db.rows<{ role: MemberRole | null }>(roleOf, [workspace, user]))[0]?.role ?? undefined
}
/** False where the person is a member already. */
export async function insertMember(db: Db, workspace: WorkspaceId, user: string, role: MemberRole): Promise<boolean> {
  return (await db.rows(insert, [workspace, user, role])).length === 1
}
export async function setMemberRole(db: Db, workspace: WorkspaceId, user: string, role: MemberRole): Promise<void> {
  await db.rows(changeRole, [workspace, user, role])
}
export async function deleteMember(db: Db, workspace: WorkspaceId, user: string): Promise<void> {
  await db.rows(remove, [workspace, user])
}
export async function countOwners(db: Db, workspace: WorkspaceId): Promise<number> {
  return (await db.rows<{ many: number }>(owners, [workspace]))[0]?.many ?? 0
}

export interface MembershipRow {
  readonly workspaceId: WorkspaceId
  readonly name: string
  readonly role: MemberRole
}

// Operators are owners of the workspace that sends the installation's own mail.
const membershipsOf = sql(
  'memberships-of-user',
  `select w.id "workspaceId", coalesce(w.own_name, w.name) as name, m.role from members m join workspaces w on w.id = m.workspace_id where m.user_id = $1
   union
   select w.id, coalesce(w.own_name, w.name), 'owner' from users u join installation i on i.name = 'system_workspace' join workspaces w on w.id = i.value::uuid
    where u.id = $1 and u.operator and not exists (select from members m where m.workspace_id = w.id and m.user_id = u.id)
   order by 2`,
)
export const listMemberships = (db: Db, user: string): Promise<MembershipRow[]> =>
  db.rows<MembershipRow>(membershipsOf, [user])
