// Members of a workspace and how they come in: by an invitation that is mailed to them, or by the operator's command (logins.ts). Nobody gives a role that
// can do more than they can themselves, only owners make and remove owners, and a workspace always keeps one.
import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { shown, type Given } from '../base/given.ts'
import { hashSecret } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { covers, memberRoles, scopesOfRole, type MemberRole } from '../domain/scopes.ts'
import { workspaceBlocked } from '../domain/standing.ts'
import { parseAddress } from '../mail/address.ts'
import type { Db } from '../store/database.ts'
import { countAudit, writeAudit } from '../store/audit.ts'
import {
  deleteInvitation,
  deleteInvitationsOf,
  invitationByToken,
  listInvitationRows,
  saveInvitation,
  type InvitationRow,
  type OfferedInvitation,
} from '../store/invitations.ts'
import {
  countOwners,
  deleteMember,
  findMember,
  insertMember,
  listMemberRows,
  lockMembers,
  setMemberRole,
  type MemberRow,
} from '../store/members.ts'
import { insertUser, lockUser, userByEmail, type UserRow } from '../store/people.ts'
import { workspaceById } from '../store/workspaces.ts'
import { audited, stillBy, type By } from './by.ts'
import { Mistake, notThere, parseName } from './mistake.ts'
import { findSender, type Notify } from './notices.ts'
import type { Browser, People, SignedIn } from './people.ts'
import type { Holder } from './sessions.ts'

const hourMs = 3600_000

export type Member = Given<MemberRow>
export type Invitation = Omit<InvitationRow, 'workspaceId' | 'emailKey'>

export async function listMembers(db: Db, workspace: WorkspaceId): Promise<Member[]> {
  return (await listMemberRows(db, workspace)).map(shown)
}

export function changeMember(db: Db, by: By, userId: string, role: MemberRole): Promise<Member> {
  return audited(
    db,
    by,
    'member.changed',
    async (tx) => {
      const { now } = await stillBy(tx, by, 'members.write')
      const member = await findMember(tx, by.workspaceId, userId)
      if (member === undefined) throw notThere('member')
      mayHandle(now, member.role)
      mayHandle(now, role)
      await setMemberRole(tx, by.workspaceId, userId, role)
      await keepsOwner(tx, by.workspaceId)
      await withdrawInvitationsOf(tx, by, `user:${userId}`, role)
      return { ...shown(member), role }
    },
    (member) => ({ target: member.email, facts: { role } }),
  )
}

/** Whoever may remove members may also leave. */
export async function removeMember(db: Db, by: By, userId: string): Promise<void> {
  await audited(
    db,
    by,
    'member.removed',
    async (tx) => {
      const { now } = await stillBy(tx, by, 'members.write')
      const member = await findMember(tx, by.workspaceId, userId)
      if (member === undefined) throw notThere('member')
      if (by.actor !== `user:${userId}`) mayHandle(now, member.role)
      await deleteMember(tx, by.workspaceId, userId)
      await keepsOwner(tx, by.workspaceId)
      await withdrawInvitationsOf(tx, by, `user:${userId}`)
      await withdrawInvitationTo(tx, by, member.email)
      return member
    },
    (member) => ({ target: member.email }),
  )
}

export async function listInvitations(db: Db, workspace: WorkspaceId): Promise<Invitation[]> {
  return (await listInvitationRows(db, workspace)).map(presentInvitation)
}

export async function invite(
  {
    db,
    notify,
    publicUrl,
    systemMailbox,
  }: {
    readonly db: Db
    readonly notify: Notify
    readonly publicUrl: string
    readonly systemMailbox?: string | undefined
  },
  by: By,
  email: string,
  role: MemberRole,
): Promise<Invitation> {
  const address = parseAddress(email.trim())
  if (address === undefined)
    throw new Mistake('"email" must be one e-mail address such as ada@example.com.', { field: 'email' })
  const token = randomBytes(32).toString('base64url')
  const invitation = await audited(
    db,
    by,
    'invitation.sent',
    async (tx) => {
      const { now } = await stillBy(tx, by, 'members.write')
      // It is mail, in the workspace's own words and to whomever it likes.
      if ((await workspaceById(tx, by.workspaceId))?.status === 'blocked')
        throw new Mistake(workspaceBlocked.words, workspaceBlocked)
      mayHandle(now, role)
      if ((await countAudit(tx, by.workspaceId, 'invitation.sent', hourMs)) >= limits.invitationsPerHourMax)
        throw new Mistake(`At most ${limits.invitationsPerHourMax} invitations an hour; try again later.`, {
          code: 'too_many_attempts',
          retryAfterSeconds: hourMs / 1000,
        })
      const user = await userByEmail(tx, address.key)
      if (user !== undefined && (await findMember(tx, by.workspaceId, user.id)) !== undefined)
        throw new Mistake(`${address.text} is a member already.`, { code: 'conflict', field: 'email' })
      const before = (await listInvitationRows(tx, by.workspaceId)).find((each) => each.emailKey === address.key)
      if (before !== undefined) mayHandle(now, before.role) // it is replaced
      const row = await saveInvitation(
        tx,
        by.workspaceId,
        {
          id: randomUUIDv7(),
          email: address.text,
          emailKey: address.key,
          role,
          tokenHash: hashSecret(token),
          invitedBy: by.actor,
        },
        limits.invitationMs,
        limits.invitationsPerWorkspaceMax,
      )
      if (row === undefined)
        throw new Mistake('There are too many open invitations; withdraw some first.', { code: 'conflict' })
      return row
    },
    (row) => ({ target: row.email, facts: { role } }),
  )
  const workspace = await workspaceById(db, by.workspaceId)
  const called = workspace?.ownName ?? workspace?.name
  const isMailed = await notify({
    to: address.text,
    subject: `Invitation to ${called ?? 'a workspace'}`,
    bodyText: [
      `You are invited to the workspace "${called ?? ''}" at Posthorn as ${role}.`,
      '',
      'Accept here; the link is good once, for 7 days:',
      `${publicUrl}/accept-invitation#token=${token}`,
      '',
      'If you did not expect this, ignore it.',
      '',
    ].join('\n'),
  })
  // Where nobody sends at all, the page of members says so, and what to do (docs/decisions/0069).
  if (!isMailed && (await findSender(db, systemMailbox)) !== undefined)
    throw new Mistake(
      `The invitation is open, but its mail to ${address.text} was not accepted: the operator of this service finds the reason in its log. Invite once more behind that.`,
      { code: 'service_unavailable', retryAfterSeconds: 60 },
    )
  return presentInvitation(invitation)
}

export async function withdrawInvitation(db: Db, by: By, id: string): Promise<void> {
  await audited(
    db,
    by,
    'invitation.withdrawn',
    async (tx) => {
      const { now } = await stillBy(tx, by, 'members.write')
      const row = await deleteInvitation(tx, by.workspaceId, id)
      if (row === undefined) throw notThere('invitation')
      mayHandle(now, row.role)
      return row
    },
    (row) => ({ target: row.email }),
  )
}

/**
 * Withdraws the invitations that somebody (`user:<id>` or `key:<id>`) could no longer make. Otherwise whoever is about to be removed, or to lose a key,
 * would first invite herself under another address.
 */
export async function withdrawInvitationsOf(
  tx: Db,
  { workspaceId, actor }: Pick<By, 'workspaceId' | 'actor'>,
  inviter: string,
  role?: MemberRole,
): Promise<void> {
  const may: readonly MemberRole[] = role === 'owner' ? memberRoles : role === 'admin' ? belowOwner : []
  const others = memberRoles.filter((each) => !may.includes(each))
  for (const { email } of await deleteInvitationsOf(tx, workspaceId, inviter, others))
    await writeAudit(tx, { workspaceId, actor, action: 'invitation.withdrawn', target: email })
}
const belowOwner = memberRoles.filter((role) => role !== 'owner')

export interface InvitationShown extends Pick<OfferedInvitation, 'email' | 'role' | 'workspaceId' | 'workspaceName'> {
  /** The address has an account: sign in with it before accepting. */
  readonly hasAccount: boolean
}

export async function showInvitation(db: Db, token: string): Promise<InvitationShown> {
  const { email, emailKey, role, workspaceId, workspaceName } = await requireInvitation(db, token)
  return { email, role, workspaceId, workspaceName, hasAccount: (await userByEmail(db, emailKey)) !== undefined }
}

/** The token proves the address. Somebody with an account must be signed in to it; somebody without chooses a password and gets one. */
export async function acceptInvitation(
  { db, people }: { readonly db: Db; readonly people: Pick<People, 'passwords' | 'welcome'> },
  token: string,
  wish: { readonly name?: string; readonly password?: string },
  holder: Holder | undefined,
  browser: Browser,
): Promise<SignedIn | undefined> {
  const offered = await requireInvitation(db, token)
  const known = await userByEmail(db, offered.emailKey)
  if (known !== undefined && holder?.userId !== known.id) throw signInFirst(offered.email)
  if (known === undefined && wish.password === undefined)
    throw new Mistake('"password" is missing; choose one for your new account.', { field: 'password' })
  const passwordHash =
    known === undefined ? await people.passwords.hash(wish.password as string, offered.email) : undefined

  const user = await db.transaction(async (tx) => {
    const { workspaceId, id, email } = await requireInvitation(tx, token)
    // The person before the workspace, as everybody who locks both; and a login may have been removed meanwhile.
    if (known !== undefined && !(await lockUser(tx, known.id))) throw signInFirst(email)
    const joined = known ?? (await newUser(tx, email, wish.name, passwordHash as string, false))
    // Whoever invites the same address meanwhile waits, and then finds a member.
    await lockMembers(tx, workspaceId)
    // Only what is deleted here counts: it may have been withdrawn or replaced meanwhile.
    const row = await deleteInvitation(tx, workspaceId, id)
    if (row === undefined) throw noInvitation()
    await insertMember(tx, workspaceId, joined.id, row.role)
    const act = { actor: `user:${joined.id}`, target: row.email }
    // A login belongs to the installation, whose log tells of every one that is made.
    if (known === undefined) await writeAudit(tx, { ...act, action: 'user.created', facts: { operator: false } })
    await writeAudit(tx, {
      ...act,
      workspaceId,
      action: 'invitation.accepted',
      facts: { role: row.role },
    })
    return joined
  })
  return known === undefined ? people.welcome(user, browser, 'invitation') : undefined
}

/** Throws where somebody has the address. */
export async function newUser(
  tx: Db,
  email: string,
  name: string | undefined,
  passwordHash: string,
  operator: boolean,
) {
  const clean = name === undefined || name.trim() === '' ? null : parseName(name, 'person')
  const emailKey = parseAddress(email)?.key ?? email.toLowerCase()
  const user = await insertUser(tx, { id: randomUUIDv7(), email, emailKey, name: clean, passwordHash, operator })
  if (user === undefined) throw new Mistake(`There is already a user ${email}.`, { code: 'conflict' })
  return user satisfies UserRow
}

/** Of somebody who is in, or was: an open one would lead them back in. */
export async function withdrawInvitationTo(
  tx: Db,
  { workspaceId, actor }: Pick<By, 'workspaceId' | 'actor'>,
  email: string,
): Promise<void> {
  const key = parseAddress(email)?.key
  const open = (await listInvitationRows(tx, workspaceId)).find((each) => each.emailKey === key)
  if (open === undefined) return
  await deleteInvitation(tx, workspaceId, open.id)
  await writeAudit(tx, { workspaceId, actor, action: 'invitation.withdrawn', target: email })
}

/** Throws where the role can do more than the caller; and for owners, where the caller is none. */
function mayHandle(by: By, role: MemberRole): void {
  if (role === 'owner' ? by.role === 'owner' : covers(by.scopes, scopesOfRole[role])) return
  throw new Mistake(
    role === 'owner'
      ? 'Only an owner makes, changes or removes owners.'
      : `The role ${role} can do more than you can; ask somebody who has it.`,
    { code: 'insufficient_scope' },
  )
}

/** To be asked after the change, in its transaction: the members are locked. */
export async function keepsOwner(tx: Db, workspace: WorkspaceId): Promise<void> {
  if ((await countOwners(tx, workspace)) > 0) return
  throw new Mistake('A workspace keeps at least one owner; make somebody else an owner first.', { code: 'conflict' })
}

async function requireInvitation(db: Db, token: string): Promise<OfferedInvitation> {
  const row = await invitationByToken(db, hashSecret(token))
  if (row === undefined) throw noInvitation()
  return row
}

const signInFirst = (email: string): Mistake =>
  new Mistake(`Sign in as ${email} first, then accept again.`, { code: 'not_signed_in' })

const noInvitation = (): Mistake =>
  new Mistake('This invitation was accepted or withdrawn, or has expired; ask for a new one.', {
    code: 'wrong_credentials',
  })

const presentInvitation = ({ id, email, role, createdAt, expiresAt }: InvitationRow): Invitation => ({
  id,
  email,
  role,
  createdAt,
  expiresAt,
})
