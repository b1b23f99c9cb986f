// Sessions: a random token in the person's cookie, its hash in PostgreSQL, so that signing out, a changed password or an operator ends it on
// every node at once. Each sign-in makes a new one: a token that somebody planted before is worth nothing after.
import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { hashSecret } from '../base/secret.ts'
import { isUuid } from '../base/uuid.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { scopesOfRole, type MemberRole, type Scope } from '../domain/scopes.ts'
import { writeAudit } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { listMemberships, type MembershipRow } from '../store/members.ts'
import { noteSignIn, type UserRow } from '../store/people.ts'
import {
  deleteSession,
  deleteSessionByToken,
  findSessionHolder,
  holdSession,
  insertSession,
  listSessionRows,
  noteSession,
  type SessionRow,
} from '../store/sessions.ts'
import { audited } from './by.ts'
import { Mistake, notThere } from './mistake.ts'

/** Where a request comes from: shown to the person in the list of sessions. */
export interface Origin {
  readonly address: string
  readonly agent: string
}

/** Who is behind a cookie. */
export interface Holder {
  readonly sessionId: string
  readonly userId: string
  readonly email: string
  readonly name?: string
  readonly operator: boolean
  /** The workspace that was asked for, or the only one; left out where the person is not a member. */
  readonly workspaceId?: WorkspaceId
  readonly role?: MemberRole
}

export interface Membership extends MembershipRow {
  readonly scopes: readonly Scope[]
}

export interface SessionInfo extends SessionRow {
  readonly current: boolean
}

const looksLikeToken = (text: string): boolean => /^[A-Za-z0-9_-]{43}$/.test(text)

/**
 * A session for somebody who has just proved who they are; `user` is as they were when they began to. The one that the browser had before ends. Throws where
 * the password was changed since: checking one takes long, and the change has ended the sessions that there were.
 */
export async function openSession(
  db: Db,
  user: Pick<UserRow, 'id' | 'passwordHash'>,
  { address, agent }: Origin,
  before: string | undefined,
  how: string,
): Promise<string> {
  const token = randomBytes(32).toString('base64url')
  const session = {
    id: randomUUIDv7(),
    tokenHash: hashSecret(token),
    userId: user.id,
    ms: limits.sessionMs,
    address,
    agent: agent.slice(0, 300).replace(/\p{C}/gu, ' '),
  }
  await audited(
    db,
    { actor: `user:${user.id}` },
    'session.opened',
    async (tx) => {
      // First, for its lock: a change that comes now ends this session, too.
      if (!(await noteSignIn(tx, user.id, user.passwordHash))) throw changedMeanwhile()
      if (before !== undefined && looksLikeToken(before)) await deleteSessionByToken(tx, hashSecret(before))
      await insertSession(tx, session, limits.sessionsPerUserMax)
    },
    () => ({ target: session.id, facts: { how, address } }),
  )
  return token
}

export const changedMeanwhile = (): Mistake =>
  new Mistake('The password of this account was changed meanwhile; sign in again.', { code: 'wrong_credentials' })

/** Undefined where the session has ended. `workspace` is what the request asked for. */
export async function findHolder(db: Db, token: string, workspace: string | undefined): Promise<Holder | undefined> {
  if (!looksLikeToken(token)) return undefined
  const asked = workspace !== undefined && isUuid(workspace) ? workspace.toLowerCase() : undefined
  const row = await findSessionHolder(db, hashSecret(token), limits.sessionIdleMs, asked)
  if (row === undefined) return undefined
  if (row.unseen) await noteSession(db, row.id)
  const { workspace_id: workspaceId, role } = row
  const belongs = (workspace === undefined || asked !== undefined) && workspaceId !== null && role !== null
  return {
    sessionId: row.id,
    userId: row.user_id,
    email: row.email,
    ...(row.name !== null && { name: row.name }),
    operator: row.operator,
    ...(belongs && { workspaceId, role }),
  }
}

export async function closeSession(db: Db, holder: Holder): Promise<void> {
  const { userId, sessionId: target } = holder
  await db.transaction(async (tx) => {
    // Of two clicks, or behind what ended it meanwhile, nothing is left to close.
    if (await deleteSession(tx, userId, target))
      await writeAudit(tx, { actor: `user:${userId}`, action: 'session.closed', target })
  })
}

/**
 * For what opens an account, or keeps others out of it, in its transaction: whoever takes a password away from a thief ends the sessions that it opened, and
 * what one of these asked for in that moment is not to come behind that.
 */
export async function stillSignedIn(tx: Db, { userId, sessionId }: Holder): Promise<void> {
  if (!(await holdSession(tx, userId, sessionId)))
    throw new Mistake('Your session has ended meanwhile; sign in again.', { code: 'not_signed_in' })
}

/** Ends another session of the same person. */
export async function endSession(db: Db, holder: Holder, id: string): Promise<void> {
  await audited(
    db,
    { actor: `user:${holder.userId}` },
    'session.ended',
    async (tx) => {
      if (!(await deleteSession(tx, holder.userId, id))) throw notThere('session')
    },
    () => ({ target: id }),
  )
}

export async function listSessions(db: Db, holder: Holder): Promise<SessionInfo[]> {
  const rows = await listSessionRows(db, holder.userId, limits.sessionIdleMs)
  return rows.map((row) => ({ ...row, current: row.id === holder.sessionId }))
}

export async function listMembershipsOf(db: Db, userId: string): Promise<Membership[]> {
  const rows = await listMemberships(db, userId)
  return rows.map((row) => ({ ...row, scopes: scopesOfRole[row.role] }))
}
