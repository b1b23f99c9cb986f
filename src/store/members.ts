// Members of a workspace and invitations to it. Changes of members lock the workspace's row first, so that two of them cannot leave it
// without an owner.
import type { WorkspaceId } from '../domain/message.ts'
import type { MemberRole } from '../domain/scopes.ts'
import { sql, type Db } from './database.ts'

export interface MemberRow {
  readonly user_id: string
  readonly email: string
  readonly name: string | null
  readonly role: MemberRole
  readonly two_factor: boolean
  readonly created_at: Date
  readonly last_sign_in_at: Date | null
}

export interface InvitationRow {
  readonly workspace_id: WorkspaceId
  readonly id: string
  readonly email: string
  readonly email_key: string
  readonly role: MemberRole
  readonly created_at: Date
  readonly expires_at: Date
}

const memberColumns = `m.user_id, u.email, u.name, m.role,
  u.totp_sealed is not null or exists (select from passkeys p where p.user_id = u.id) two_factor, m.created_at, u.last_sign_in_at`
const invitationColumns = 'workspace_id, id, email, email_key, role, created_at, expires_at'

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
// An operator is an owner of the workspace that sends the installation's own mail (sessions.ts, people.ts).
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
// What a key has offered is good for as long as the key.
const stillOffered = `(not starts_with(i.invited_by, 'key:') or exists (
  select from api_keys k where k.workspace_id = i.workspace_id and 'key:' || k.id = i.invited_by
     and k.revoked_at is null and (k.expires_at is null or k.expires_at > app_now())))`
// Only where they are many: until then those that are too old are shown, to be sent again.
const dropStale = sql(
  'delete-stale-invitations',
  `delete from invitations i where i.workspace_id = $1 and (i.expires_at <= app_now() or not ${stillOffered})
      and (select count(*) from invitations x where x.workspace_id = $1) >= $2`,
)
const invite = sql(
  'upsert-invitation',
  `insert into invitations (workspace_id, id, email, email_key, role, token_hash, invited_by, expires_at)
   select $1, $2, $3, $4, $5, $6, $7, app_now() + $8 * interval '1 millisecond'
    where (select count(*) from invitations where workspace_id = $1) < $9
   on conflict (workspace_id, email_key) do update
     set id = excluded.id, email = excluded.email, role = excluded.role, token_hash = excluded.token_hash, invited_by = excluded.invited_by,
         created_at = app_now(), expires_at = excluded.expires_at
   returning ${invitationColumns}`,
)
const invitationsOf = sql(
  'list-invitations',
  `select ${invitationColumns} from invitations i where i.workspace_id = $1 and ${stillOffered} order by i.email_key`,
)
const withdraw = sql(
  'delete-invitation',
  `delete from invitations where workspace_id = $1 and id = $2 returning ${invitationColumns}`,
)
const withdrawOf = sql(
  'delete-invitations-of',
  `delete from invitations where workspace_id = $1 and invited_by = $2 and role = any ($3) returning ${invitationColumns}`,
)
// Names no workspace: the token says which it is.
const byToken = sql(
  'invitation-by-token',
  `select ${invitationColumns.replace(/(\w+)/g, 'i.$1')}, coalesce(w.own_name, w.name) workspace_name
     from invitations i join workspaces w on w.id = i.workspace_id where i.token_hash = $1 and i.expires_at > app_now()
      and ${stillOffered}`,
)

export interface NewInvitation {
  readonly id: string
  readonly email: string
  readonly emailKey: string
  readonly role: MemberRole
  readonly tokenHash: Buffer
  readonly invitedBy: string
}

/** A later invitation of the same address takes the place of the earlier one. Undefined where too many are open. */
export async function saveInvitation(
  db: Db,
  workspace: WorkspaceId,
  { id, email, emailKey, role, tokenHash, invitedBy }: NewInvitation,
  ms: number,
  most: number,
): Promise<InvitationRow | undefined> {
  await db.rows(dropStale, [workspace, most])
  const values = [workspace, id, email, emailKey, role, tokenHash, invitedBy, ms, most]
  return (await db.rows<InvitationRow>(invite, values))[0]
}
export const listInvitationRows = (db: Db, workspace: WorkspaceId): Promise<InvitationRow[]> =>
  db.rows<InvitationRow>(invitationsOf, [workspace])
export async function deleteInvitation(db: Db, workspace: WorkspaceId, id: string): Promise<InvitationRow | undefined> {
  return (await db.rows<InvitationRow>(withdraw, [workspace, id]))[0]
}
/** Those that one person or key has made, to these roles. */
export const deleteInvitationsOf = (
  db: Db,
  workspace: WorkspaceId,
  invitedBy: string,
  roles: readonly MemberRole[],
): Promise<InvitationRow[]> => db.rows<InvitationRow>(withdrawOf, [workspace, invitedBy, roles])
export async function invitationByToken(
  db: Db,
  tokenHash: Buffer,
): Promise<(InvitationRow & { readonly workspace_name: string }) | undefined> {
  return (await db.rows<InvitationRow & { workspace_name: string }>(byToken, [tokenHash]))[0]
}
