// Sessions of people in the dashboard: found by the hash of their token, alive while neither idle nor too old, by the database's clock.
import type { WorkspaceId } from '../domain/message.ts'
import type { MemberRole } from '../domain/scopes.ts'
import { inBites } from './bites.ts'
import { sql, type Db } from './database.ts'
import { leastId } from './message-id.ts'
import { lockUser } from './people.ts'

/** What a request with a session's cookie needs to know. */
export interface SessionHolderRow {
  readonly id: string
  readonly user_id: string
  readonly email: string
  readonly name: string | null
  readonly operator: boolean
  /** In the workspace that was asked for; null: not a member of it. */
  readonly workspace_id: WorkspaceId | null
  readonly role: MemberRole | null
  readonly unseen: boolean
}

export interface SessionRow {
  readonly id: string
  readonly createdAt: Date
  readonly lastSeenAt: Date
  readonly expiresAt: Date
  readonly address: string
  readonly agent: string
}

const insert = sql(
  'insert-session',
  `insert into sessions (id, token_hash, user_id, expires_at, address, agent, created_at, seen_at)
   values ($1, $2, $3, app_now() + $4 * interval '1 millisecond', $5, $6, app_now(), app_now())`,
)
// The secret says whose it is. Without a workspace, a person with a single one is in that.
const holder = sql(
  'session-holder',
  `select s.id, s.user_id, u.email, u.name, u.operator, w.workspace_id, w.role,
          s.seen_at not between app_now() - interval '1 minute' and app_now() + interval '1 minute' unseen
     from sessions s join users u on u.id = s.user_id
     left join lateral (
       select min(a.workspace_id::text)::uuid workspace_id, min(a.role) as role from (
         select m.workspace_id, m.role from members m where m.user_id = s.user_id and m.workspace_id = coalesce($3::uuid, m.workspace_id)
         union
         select i.value::uuid, 'owner' from installation i
          where u.operator and i.name = 'system_workspace' and i.value = $3::text
            and not exists (select from members m where m.workspace_id = i.value::uuid and m.user_id = s.user_id)) a
       having count(*) = 1) w on true
    where s.token_hash = $1 and s.expires_at > app_now() and s.seen_at > app_now() - $2 * interval '1 millisecond'`,
)
const seen = sql(
  'note-session',
  'update sessions set seen_at = app_now() where id = (select id from sessions where id = $1 for update skip locked)',
)
const ofUser = sql(
  'list-sessions',
  `select id, created_at "createdAt", seen_at "lastSeenAt", expires_at "expiresAt", address, agent from sessions
    where user_id = $1 and expires_at > app_now() and seen_at > app_now() - $2 * interval '1 millisecond' order by created_at desc, id desc`,
)
const there = sql('find-session', 'select id from sessions where user_id = $1 and id = $2')
const removeOne = sql('delete-session', 'delete from sessions where user_id = $1 and id = $2 returning id')
const removeByToken = sql('delete-session-by-token', 'delete from sessions where token_hash = $1 returning user_id')
const removeOthers = sql(
  'delete-other-sessions',
  `delete from sessions where user_id = $1 and id <> coalesce($2::uuid, '${leastId}')`,
)
const removeOldest = sql(
  'delete-oldest-sessions',
  'delete from sessions where id in (select id from sessions where user_id = $1 order by created_at desc, id desc offset $2)',
)
const sweep = sql(
  'sweep-sessions',
  `delete from sessions where id in (
     select id from sessions where expires_at <= app_now() order by expires_at limit 1000 for update skip locked) returning id`,
)

export interface NewSession {
  readonly id: string
  readonly tokenHash: Buffer
  readonly userId: string
  readonly ms: number
  readonly address: string
  readonly agent: string
}

export async function insertSession(db: Db, session: NewSession, most: number): Promise<void> {
  const { id, tokenHash, userId, ms, address, agent } = session
  await db.rows(insert, [id, tokenHash, userId, ms, address, agent])
  await db.rows(removeOldest, [userId, most])
}

/** Undefined where no living session has this token. */
export async function findSessionHolder(
  db: Db,
  tokenHash: Buffer,
  idleMs: number,
  workspace: string | undefined,
): Promise<SessionHolderRow | undefined> {
  return (await db.rows<SessionHolderRow>(holder, [tokenHash, idleMs, workspace ?? null]))[0]
}
export async function noteSession(db: Db, id: string): Promise<void> {
  await db.rows(seen, [id])
}
/** Locks the person, as whatever ends all of their sessions does. False where this one has ended. */
export async function holdSession(tx: Db, user: string, id: string): Promise<boolean> {
  return (await lockUser(tx, user)) && (await tx.rows(there, [user, id])).length === 1
}
export const listSessionRows = (db: Db, user: string, idleMs: number): Promise<SessionRow[]> =>
  db.rows<SessionRow>(ofUser, [user, idleMs])
export async function deleteSession(db: Db, user: string, id: string): Promise<boolean> {
  return (await db.rows(removeOne, [user, id])).length === 1
}
/** Whose it was; undefined where there was none. */
export async function deleteSessionByToken(db: Db, tokenHash: Buffer): Promise<string | undefined> {
  return (await db.rows<{ user_id: string }>(removeByToken, [tokenHash]))[0]?.user_id
}
/** All of a person, but one perhaps. */
export async function deleteSessions(db: Db, user: string, but?: string): Promise<void> {
  await db.rows(removeOthers, [user, but ?? null])
}
/** Removes those that are too old. */
export async function sweepSessions(db: Db): Promise<void> {
  await inBites(1_000, async () => (await db.rows(sweep)).length)
}
