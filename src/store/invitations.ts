// Invitations to a workspace.
import type { WorkspaceId } from '../domain/message.ts'
import type { MemberRole } from '../domain/scopes.ts'
import { sql, type Db } from './database.ts'
import { isLive } from './term.ts'

export interface InvitationRow {
  readonly workspaceId: WorkspaceId
  readonly id: string
  readonly email: string
  readonly emailKey: string
  readonly role: MemberRole
  readonly createdAt: Date
  readonly expiresAt: Date
}

const invitationColumns =
  'i.workspace_id "workspaceId", i.id, i.email, i.email_key "emailKey", i.role, i.created_at "createdAt", i.expires_at "expiresAt"'

// What a key has offered is good for as long as the key.
const stillOffered = `(not starts_with(i.invited_by, 'key:') or exists (
  select from api_keys k where k.workspace_id = i.workspace_id and 'key:' || k.id = i.invited_by
     and ${isLive('k')}))`
// Only where they are many: until then those that are too old are shown, to be sent again.
const dropStale = sql(
  'delete-stale-invitations',
  `delete from invitations i where i.workspace_id = $1 and (i.expires_at <= app_now() or not ${stillOffered})
      and (select count(*) from invitations x where x.workspace_id = $1) >= $2`,
)
const invite = sql(
  'upsert-invitation',
  `insert into invitations as i (workspace_id, id, email, email_key, role, token_hash, invited_by, expires_at)
   select $1, $2, $3, $4, $5, $6, $7, app_now() + $8 * interval '1 millisecond'
    where (select count(*) from invitations x where x.workspace_id = $1 and x.email_key <> $4) < $9
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
  `delete from invitations i where workspace_id = $1 and id = $2 returning ${invitationColumns}`,
)
const withdrawOf = sql(
  'delete-invitations-of',
  `delete from invitations i where workspace_id = $1 and invited_by = $2 and role = any ($3) returning ${invitationColumns}`,
)
// Names no workspace: the token says which it is.
const byToken = sql(
  'invitation-by-token',
  `select ${invitationColumns}, coalesce(w.own_name, w.name) "workspaceName"
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
export type OfferedInvitation = InvitationRow & { readonly workspaceName: string }
export async function invitationByToken(db: Db, tokenHash: Buffer): Promise<OfferedInvitation | undefined> {
  return (await db.rows<OfferedInvitation>(byToken, [tokenHash]))[0]
}
