// A workspace with rows of its own in every table, for tests that take one out.
import { randomUUIDv7 } from 'node:crypto'
import type { MessageId } from '../domain/message.ts'
import type { Db } from './database.ts'
import type { Sender, StoreWorld } from './store.test-kit.ts'

export interface Whole extends Sender {
  /** `sent` all of them. */
  readonly messages: readonly MessageId[]
  /** Whose login belongs to nothing else. */
  readonly alone: string
}

/** Of tables that may be large, more than one bite. */
const large = 1_100

export async function wholeWorkspace(world: StoreWorld, name: string): Promise<Whole> {
  const { db } = world
  const sender = await world.sender()
  const { workspaceId: w, mailboxId, domainId } = sender
  await db.run('update workspaces set name = $2 where id = $1', [w, name])
  const messages = Array.from({ length: 3 }, () => world.nextId())
  const [first, second] = messages as [MessageId, MessageId]
  for (const id of messages)
    await db.run(
      `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at, finished_at)
       values ($1, $2, $3, 'rest', 'sent', 3, 'post@example.com', 'ann@example.org', 'ann@example.org', 'Hello', 'node.test', app_now(), app_now())`,
      [w, id, mailboxId],
    )
  await largeOnes(db, w, first)
  await contents(db, w, first, second)
  for (const text of [
    `insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts) values ($1, $2, 1, app_now(), 'accepted', '{}')`,
    `insert into reports (workspace_id, message_id, sequence, type, source, created_at) values ($1, $2, 3, 'delivered', 'feed', app_now())`,
    `insert into scans (workspace_id, message_id, record) values ($1, $2, '{}')`,
    `insert into report_fingerprints (workspace_id, message_id, fingerprint, seen_at) values ($1, $2, 'x', app_now())`,
    `insert into relayed (route, provider_id, workspace_id, message_id, at) values (gen_random_uuid(), 'R', $1, $2, app_now())`,
    `insert into orphaned_replies (workspace_id, message_id, epoch, token, ending) values ($1, $2, 1, 1, '{}')`,
    `insert into sent_again (workspace_id, message_id, again_id, at) values ($1, $2, $2, app_now())`,
    `insert into idempotency_keys (workspace_id, endpoint, key, body_hash, message_id, created_at) values ($1, 'send', 'k', 'h', $2, app_now())`,
    `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id, message_id)
     values (gen_random_uuid(), app_now(), '', 'ann@example.org', 'x', $1, $2)`,
    `insert into webhook_attempts (workspace_id, message_id, sequence, round, attempt, ended_at, delivered) values ($1, $2, 1, 1, 1, app_now(), true)`,
  ])
    await db.run(text, [w, first])
  await db.run(
    `insert into unmatched_feedback (id, reason, source, sender, addressee, facts, size_bytes, content)
     values (gen_random_uuid(), 'not_armed', 'mail', '', 'b@node.test', json_build_object('messageId', $1::text), 1, 'x')`,
    [first],
  )
  await access(db, w, name, domainId)
  const alone = await people(db, w, name)
  return { ...sender, messages, alone }
}

async function largeOnes(db: Db, w: string, message: MessageId): Promise<void> {
  // Behind an endpoint, so that its webhooks wait; its partitions are of now and of a week ago.
  await db.run(
    `insert into webhook_endpoints (workspace_id, url, api_version, secret_sealed) values ($1, 'https://there.example/', '2026-11-01', '')`,
    [w],
  )
  await db.run(
    `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
     select $1, case when n % 2 = 0 then $2::uuid else uuid_floor(app_now() - interval '8 days') end, n, 'message.sent', 'sent', 0, app_now()
       from generate_series(1, ${large}) n`,
    [w, message],
  )
  await db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason) select $1, n || '@example.org', n || '@example.org', 'manual'
       from generate_series(1, ${large}) n`,
    [w],
  )
  await db.run(
    `insert into hourly_counts (workspace_id, hour, kind, bucket, many) values ($1, date_trunc('hour', app_now()), 'sent', 0, 1)`,
    [w],
  )
}

/** One text apart, one file apart, and one blob that two messages share. */
async function contents(db: Db, w: string, first: MessageId, second: MessageId): Promise<void> {
  const [text, file] = [randomUUIDv7(), randomUUIDv7()]
  for (const blob of [text, file])
    await db.run(`insert into blobs (id, part, bytes) values ($1, 0, 'x'), ($1, 1, 'y')`, [blob])
  await db.run(
    `insert into contents (workspace_id, message_id, body_blob, shares_blobs) values ($1, $2, $4, true), ($1, $3, $4, true)`,
    [w, first, second, text],
  )
  await db.run(
    `insert into attachments (workspace_id, message_id, position, filename, content_type, size_bytes, blob_id) values ($1, $2, 0, 'f', 'text/plain', 2, $3)`,
    [w, first, file],
  )
}

async function access(db: Db, w: string, name: string, domainId: string): Promise<void> {
  await db.run(
    `insert into dkim_key_pairs (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed) values ($1, $2, 's', 'ed25519-sha256', 'p', 'k')`,
    [w, domainId],
  )
  await db.run(
    `insert into api_keys (workspace_id, id, name, prefix, secret_hash, scopes) values ($1, gen_random_uuid(), 'k', 'ph_', sha256($2::text::bytea), '{mail.send}')`,
    [w, name],
  )
  await db.run(
    `insert into smtp_credentials (workspace_id, id, name, username, password_hash) values ($1, gen_random_uuid(), 'c', $2, 'x')`,
    [w, name],
  )
  const feed = randomUUIDv7()
  await db.run(`insert into feeds (id, workspace_id, provider, secret_sealed) values ($1, $2, 'postmark', 'x')`, [
    feed,
    w,
  ])
  await db.run(`insert into feed_seen (feed_id, token_hash, body_hash) values ($1, 'x', 'y')`, [feed])
  await db.run(
    `insert into refused_submissions (workspace_id, id, source, code) values ($1, gen_random_uuid(), 'rest', 'mailbox_not_active')`,
    [w],
  )
}

/** One who belongs here alone, with all that hangs on a login. */
async function people(db: Db, w: string, name: string): Promise<string> {
  const user = randomUUIDv7()
  const email = `only@${name}.example`
  await db.run('insert into users (id, email, email_key) values ($1, $2, $2)', [user, email])
  await db.run(`insert into members (workspace_id, user_id, role) values ($1, $2, 'owner')`, [w, user])
  await db.run(
    `insert into sessions (id, token_hash, user_id, expires_at, address, agent) values ($1, $2, $3, app_now() + interval '1 day', '192.0.2.1', 'x')`,
    [randomUUIDv7(), Buffer.from(user), user],
  )
  await db.run(
    `insert into passkeys (id, user_id, name, public_key, counter, transports) values ($1, $2, 'p', 'x', 0, '{}')`,
    [user, user],
  )
  await db.run(
    `insert into passkey_challenges (id, challenge, user_id, expires_at) values ($1, 'x', $2, app_now() + interval '1 day')`,
    [user, user],
  )
  await db.run(`insert into password_resets (token_hash, user_id, expires_at) values ($1, $2, app_now())`, [
    Buffer.from(user),
    user,
  ])
  await db.run(`insert into recovery_codes (user_id, code_hash) values ($1, 'x')`, [user])
  await db.run(
    `insert into invitations (workspace_id, id, email, email_key, role, token_hash, invited_by, expires_at)
     values ($1, gen_random_uuid(), 'new@example.org', 'new@example.org', 'viewer', $2, $3, app_now())`,
    [w, Buffer.from(`invitation ${user}`), `user:${user}`],
  )
  const log = `insert into audit_log (id, workspace_id, actor, action, target, facts) values (gen_random_uuid(), $1, $2, $3, $4, $5::text::json)`
  const facts = (more: object): string => JSON.stringify(more)
  await db.run(log, [w, `user:${user}`, 'mailbox.added', `post@${name}.example`, null])
  await db.run(log, [null, `user:${user}`, 'session.opened', null, facts({ address: '192.0.2.1' })])
  await db.run(log, [null, 'operator:root', 'user.created', email, null])
  await db.run(log, [null, 'operator:root', 'workspace.created', w, facts({ name, plan: 'unlimited' })])
  return user
}
