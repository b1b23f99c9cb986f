// A peer: Fastify with the schemas of the contract and one transaction per request, as a conventional service does it, over a pool of 16
// connections to a PostgreSQL of the same kind and settings as ours. Written to be fast: named statements, one for all look-ups and one
// for all inserts, sent in three round trips, ids in time's order, and 50 workspaces so that few requests meet at a quota row.
import { createHash, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fastify } from 'fastify'
import { Pool } from 'pg'
import type { PoolClient } from 'pg'
import { silentLog } from '../../src/base/log.ts'
import type { SendMessageRequest, SendMessageResponse } from '../../src/contract/message.ts'
import { operations } from '../../src/contract/operations.ts'
import { embeddedPostgres } from '../../src/embedded/embedded.ts'

const { send } = operations
const senders = Array.from({ length: 50 }, () => ({
  key: `bench_${randomUUID()}`,
  mailboxId: randomUUID() as string,
}))
const hashOf = (key: string): Buffer => createHash('sha256').update(key).digest()

const postgres = embeddedPostgres({ dataDir: process.env['DATA_DIR'] ?? '', log: silentLog, purpose: 'serve' })
const { connection } = await postgres.start()
const pool = new Pool({ ...connection, max: 16, pipeline: true })
await prepare()

const statements = {
  lookUp: `select w.id workspace, w.status, p.api_sending, k.scopes, m.address, m.status mailbox_status,
      exists (select from suppressions s where s.workspace_id = w.id and s.recipient = $3) suppressed
    from api_keys k join workspaces w on w.id = k.workspace_id join plans p on p.name = w.plan
    left join mailboxes m on m.id = $2 and m.workspace_id = w.id where k.secret_hash = $1`,
  insert: `with message as (
      insert into messages (id, workspace_id, mailbox_id, status, sender, recipient, subject, metadata, created_at)
      values ($1, $2, $3, 'queued', $4, $5, $6, $7, now())),
    content as (insert into contents (message_id, body_text) values ($1, $8)),
    queue as (insert into queue (message_id, workspace_id, destination, due_at) values ($1, $2, $9, now()))
    insert into events (message_id, sequence, type, occurred_at) values ($1, 1, 'message.queued', now())`,
  charge: `update usage u set charged = case when u.hour = date_trunc('hour', now()) then u.charged + 1 else 1 end,
      hour = date_trunc('hour', now())
    from workspaces w, plans p where w.id = u.workspace_id and p.name = w.plan and u.workspace_id = $1
      and (p.hourly is null or u.hour < date_trunc('hour', now()) or u.charged < p.hourly)`,
}

const run = (client: PoolClient, name: keyof typeof statements, values: unknown[]) =>
  client.query<Record<string, unknown>>({ name, text: statements[name], values })

const app = fastify({ logger: false })
app.post<{ Body: SendMessageRequest }>(
  send.path,
  { schema: { body: send.body, response: { 202: send.answers[202].schema } } },
  async (request, reply) => {
    const client = await pool.connect()
    try {
      const answer = await admit(client, request.headers.authorization ?? '', request.body)
      await client.query(typeof answer === 'number' ? 'rollback' : 'commit')
      return typeof answer === 'number'
        ? await reply.code(answer).send({ error: 'no' })
        : await reply.code(202).send(answer)
    } catch (error) {
      await client.query('rollback').catch(() => undefined)
      throw error
    } finally {
      client.release()
    }
  },
)

/** The answer, or the status of a refusal. */
async function admit(
  client: PoolClient,
  bearer: string,
  body: SendMessageRequest,
): Promise<SendMessageResponse | number> {
  const { mailboxId, recipient, subject, bodyText, metadata } = body
  const [, found] = await Promise.all([
    client.query('begin'),
    run(client, 'lookUp', [hashOf(bearer.slice('Bearer '.length)), mailboxId, recipient]),
  ])
  const who = found.rows[0]
  if (who === undefined) return 401
  const { workspace, address } = who as { workspace: string; address: string }
  if (!(who['scopes'] as string[]).includes('mail.send') || who['status'] !== 'active') return 403
  if (who['api_sending'] !== true) return 402
  if (who['mailbox_status'] !== 'active') return 400
  if (who['suppressed'] === true) return 422
  const id = timeOrderedId()
  const destination = recipient.slice(recipient.lastIndexOf('@') + 1)
  const values = [id, workspace, mailboxId, address, recipient, subject, metadata ?? null, bodyText, destination]
  const [, charged] = await Promise.all([run(client, 'insert', values), run(client, 'charge', [workspace])])
  if (charged.rowCount === 0) return 429
  return {
    id,
    status: 'queued',
    message: {
      id,
      organizationId: workspace,
      mailboxId,
      direction: 'outbound',
      status: 'queued',
      sender: address,
      recipient,
      subject,
      bodyText,
      ...(metadata !== undefined && { metadata }),
      createdAt: new Date().toISOString(),
    },
  }
}

/** A UUIDv7, so that inserts lean right. */
function timeOrderedId(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

async function prepare(): Promise<void> {
  await pool.query(readFileSync(new URL('naive.sql', import.meta.url), 'utf8'))
  for (const { key, mailboxId } of senders) {
    const workspace = randomUUID()
    await pool.query("insert into workspaces values ($1, 'active', 'unlimited')", [workspace])
    await pool.query("insert into api_keys values ($1, $2, '{mail.send}')", [hashOf(key), workspace])
    await pool.query("insert into mailboxes values ($1, $2, 'shop@bench.example', 'active')", [mailboxId, workspace])
    await pool.query("insert into usage values ($1, 0, '1970-01-01')", [workspace])
  }
}

process.once('SIGTERM', () => {
  void app
    .close()
    .then(() => pool.end())
    .then(() => postgres.stop())
    .then(() => process.exit(0))
})
await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) })
console.log(`ready ${JSON.stringify(senders)}`)
