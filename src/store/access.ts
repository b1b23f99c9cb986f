// API keys: who holds one, and what depends on it. Only hashes are kept.
import type { WorkspaceId } from '../domain/message.ts'
import type { HeldActor } from '../domain/actor.ts'
import { madeBy } from './audit.ts'
import { sql, type Db } from './database.ts'
import { findRole, lockMembers } from './members.ts'

/** Of a key, and of an SMTP credential. */
export interface TermRow {
  readonly created_at: Date
  readonly last_used_at: Date | null
  readonly expires_at: Date | null
  readonly revoked_at: Date | null
  /** By the database's clock, as it is refused. */
  readonly expired: boolean
  /** In lists alone. */
  readonly made_by?: string | null
}

export interface KeyRow extends TermRow {
  readonly id: string
  readonly name: string
  readonly prefix: string
  readonly scopes: readonly string[]
}

/** All that a request needs to know before its body is read. */
export interface HolderRow {
  readonly id: string
  readonly workspace_id: WorkspaceId
  readonly scopes: readonly string[]
  readonly blocked: boolean
  readonly api_sending: boolean
  readonly upgrade_url: string | null
  /** Milliseconds until the key expires; null: never. */
  readonly expires_in_ms: number | null
  /** Nobody has written down in the last minute that it is used. */
  readonly unseen: boolean
}

export const termColumns =
  'created_at, last_used_at, expires_at, revoked_at, coalesce(expires_at <= app_now(), false) expired'
const keyColumns = `id, name, prefix, scopes, ${termColumns}`

// The one statement that names no workspace: the secret says which it is.
const holder = sql(
  'key-holder',
  `select k.id, k.workspace_id, k.scopes, w.status = 'blocked' blocked, p.api_sending, p.upgrade_url,
          (extract(epoch from k.expires_at - app_now()) * 1000)::float8 expires_in_ms,
          coalesce(k.last_used_at < app_now() - interval '1 minute', true) unseen
     from api_keys k join workspaces w on w.id = k.workspace_id join plans p on p.name = w.plan
    where k.secret_hash = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > app_now())`,
)
const used = sql(
  'key-used',
  `update api_keys set last_used_at = app_now()
    where workspace_id = $1 and id = $2 and coalesce(last_used_at < app_now() - interval '1 minute', true)`,
)
const insert = sql(
  'insert-key',
  `insert into api_keys (workspace_id, id, name, prefix, secret_hash, scopes, expires_at) values ($1, $2, $3, $4, $5, $6, $7)
   returning ${keyColumns}`,
)
const keysOf = sql(
  'list-keys',
  `select ${keyColumns}, ${madeBy('k', 'key.created')}
     from api_keys k where workspace_id = $1 order by created_at, id`,
)
const ownerOfKey = sql('owner-of-key', 'select workspace_id from api_keys where id = $1')
const revoke = sql(
  'revoke-key',
  `update api_keys set revoked_at = coalesce(revoked_at, app_now()) where workspace_id = $1 and id = $2
   returning ${keyColumns}`,
)
const live = sql(
  'find-live-key',
  `select expires_at from api_keys
    where workspace_id = $1 and id = $2 and revoked_at is null and (expires_at is null or expires_at > app_now())`,
)
// From the audit log, since the key was made. What is revoked or gone counts in between: else a key made by a key that is gone would be told by nobody. A
// person came in by the last invitation that was sent to the address. Of the endpoint it counts who has set where it posts, and who was shown its secret.
const madeOf = sql(
  'list-made-by-key',
  `with recursive
   told as materialized (
     select a.id, a.actor, a.action, a.target, a.facts ->> 'url' url
       from api_keys k join audit_log a on a.workspace_id = k.workspace_id and a.id >= uuid_floor(k.created_at - interval '10 minutes')
      where k.workspace_id = $1 and k.id = $2 and a.action in ('key.created', 'smtp_credential.created', 'invitation.sent', 'invitation.accepted',
            'webhook.created', 'webhook.changed', 'webhook.secret_prepared')),
   joined as materialized (
     select distinct on (a.id) s.actor inviter, a.actor from told a join told s on s.action = 'invitation.sent' and s.target = a.target and s.id < a.id
      where a.action = 'invitation.accepted' order by a.id, s.id desc),
   made (maker, made) as materialized (
     select t.actor, 'key:' || t.target from told t where t.action = 'key.created' union all select j.inviter, j.actor from joined j),
   makers (maker) as (select 'key:' || $2::uuid union select m.made from makers r join made m on m.maker = r.maker),
   theirs as materialized (
     select t.action, t.target from told t join makers m on m.maker = t.actor where t.action in ('key.created', 'smtp_credential.created')),
   endpoint (maker) as (
     (select t.actor from told t where t.action = 'webhook.created' or t.action = 'webhook.changed' and t.url = 'changed' order by t.id desc limit 1)
     union all
     (select t.actor from told t where t.action in ('webhook.created', 'webhook.secret_prepared') order by t.id desc limit 1))
   select 'key' kind, k.id, k.name from theirs t join api_keys k on k.id::text = t.target
    where t.action = 'key.created' and k.workspace_id = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > app_now())
   union all
   select 'smtp_credential', c.id, c.name from theirs t join smtp_credentials c on c.id::text = t.target
    where t.action = 'smtp_credential.created' and c.workspace_id = $1 and c.revoked_at is null and (c.expires_at is null or c.expires_at > app_now())
   union all
   select 'member', u.id, u.email from members b join users u on u.id = b.user_id
    where b.workspace_id = $1 and 'user:' || u.id in (select m.maker from makers m)
   union all
   select 'webhook', e.workspace_id, split_part(e.url, '/', 3) from webhook_endpoints e
    where e.workspace_id = $1 and exists (select from endpoint x join makers m on m.maker = x.maker)
   order by kind, id`,
)

// Those that ended first go first. Who did what is shown with the id of a key that is gone.
const makeRoom = sql(
  'make-room-for-key',
  `delete from api_keys where workspace_id = $1 and id in (
     select k.id from api_keys k where k.workspace_id = $1 and (k.revoked_at is not null or k.expires_at <= app_now())
      order by least(k.revoked_at, k.expires_at), k.id
      limit greatest(0, (select count(*) from api_keys x where x.workspace_id = $1) - $2 + 1))`,
)

/** Undefined where no key has this hash, or the key is revoked or expired. */
export async function findHolder(db: Db, secretHash: Buffer): Promise<HolderRow | undefined> {
  return (await db.rows<HolderRow>(holder, [secretHash]))[0]
}

/** At most once a minute for each key, however many nodes say so. */
export async function noteUse(db: Db, workspace: WorkspaceId, key: string): Promise<void> {
  await db.rows(used, [workspace, key])
}

export interface NewKey {
  readonly id: string
  readonly name: string
  readonly prefix: string
  readonly secretHash: Buffer
  readonly scopes: readonly string[]
  readonly expiresAt: Date | null
}

export async function insertKey(db: Db, workspace: WorkspaceId, key: NewKey): Promise<KeyRow> {
  const values = [workspace, key.id, key.name, key.prefix, key.secretHash, key.scopes, key.expiresAt]
  return (await db.rows<KeyRow>(insert, values))[0] as KeyRow
}

/** Of `most` or more keys, those that have ended make room for one. */
export async function makeRoomForKey(db: Db, workspace: WorkspaceId, most: number): Promise<void> {
  await db.rows(makeRoom, [workspace, most])
}

export const listKeyRows = (db: Db, workspace: WorkspaceId): Promise<KeyRow[]> => db.rows<KeyRow>(keysOf, [workspace])

/** For operators, who name a key by its id alone. */
export async function workspaceOfKey(db: Db, id: string): Promise<WorkspaceId | undefined> {
  return (await db.rows<{ workspace_id: WorkspaceId }>(ownerOfKey, [id]))[0]?.workspace_id
}

/** A trigger tells every node at once. */
export async function revokeKeyRow(db: Db, workspace: WorkspaceId, id: string): Promise<KeyRow | undefined> {
  return (await db.rows<KeyRow>(revoke, [workspace, id]))[0]
}

/** Undefined where the key is revoked, expired or gone. */
async function findLiveKey(
  db: Db,
  workspace: WorkspaceId,
  id: string,
): Promise<Pick<KeyRow, 'expires_at'> | undefined> {
  return (await db.rows<Pick<KeyRow, 'expires_at'>>(live, [workspace, id]))[0]
}

/**
 * Locks as a revocation and a change of members do, so that nothing is done behind their back, and tells what whoever acts is now. Undefined where the key
 * has ended, or the person is no member any more. Nothing else about an operator at the machine's keyboard.
 */
export async function holdActor(tx: Db, workspace: WorkspaceId, actor: string): Promise<HeldActor | undefined> {
  await lockMembers(tx, workspace)
  const [kind, id = ''] = actor.split(':')
  if (kind === 'user') {
    const role = await findRole(tx, workspace, id)
    return role && { role }
  }
  if (kind !== 'key') return {}
  const key = await findLiveKey(tx, workspace, id)
  return key && (key.expires_at === null ? {} : { ends: key.expires_at })
}

export interface MadeRow {
  readonly kind: 'key' | 'smtp_credential' | 'member' | 'webhook'
  /** Of a member the person's, of the webhook endpoint the workspace's. */
  readonly id: string
  /** Of a member the address, of the endpoint the host. */
  readonly name: string
}

/** What a key has made, or what it made, and so on, as far as the audit log still knows, and that is still valid. */
export const listMadeByKey = (db: Db, workspace: WorkspaceId, id: string): Promise<MadeRow[]> =>
  db.rows<MadeRow>(madeOf, [workspace, id])
