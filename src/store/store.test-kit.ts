// What every test of a statement needs: a database of its own, workspaces with a plan made to measure, submissions, and a clock that
// can be moved (app_now() is replaced in that database alone).
import { setTimeout } from 'node:timers/promises'
import { Client } from 'pg'
import { atTheEnd } from '../../test/world/ending.ts'
import { freshDatabase, type FreshDatabase } from '../../test/world/postgres.ts'
import type { MailboxId, MessageId, WorkspaceId } from '../domain/message.ts'
import type { AdmissionRow } from './admit.ts'
import type { ClaimRequest } from './claim.ts'
import { openDatabase, type Db } from './database.ts'
import { makeIds } from './message-id.ts'
import type { Armable, Ending, Mark } from './outbound.ts'
import { leastId } from './message-id.ts'

export interface Limits {
  readonly hourly?: number
  readonly daily?: number
  readonly monthly?: number
}
export interface Sender {
  readonly workspaceId: WorkspaceId
  readonly mailboxId: MailboxId
  readonly domainId: string
}

/** Whatever is due. */
export const wholeClaim = {
  cursor: leastId,
  cursors: {},
  most: 1_000,
  rooms: {},
  roomElse: 1_000,
  crowded: [],
  leaseMs: 60_000,
  owner: '00000000-0000-4000-8000-000000000001',
} satisfies ClaimRequest

/** Of a claim of his whose mail the next host has taken. */
export const sentEnding = ({ workspaceId }: Sender, claim: Armable): Ending => ({
  ...claim,
  workspaceId,
  status: 'sent',
  usesTry: true,
  outcome: 'sent',
  attempt: { attempt: 1, phase: 'eod', smtp: { host: 'mx.example.org', stage: 'eod', code: 250 } },
  event: { attempt: 1 },
})

export interface StoreWorld {
  readonly db: Db
  readonly connection: FreshDatabase['connection']
  /** A pool of another node on the same database. */
  anotherNode(): Db
  /** A node that is known to the database, and keeps its mark in memory. */
  node(): Promise<Mark>
  /** One session of its own. */
  session(): Promise<Client>
  /** A session of which this was asked in a transaction, and which holds what it locked or saw until it is rolled back or committed. */
  holding(text: string, values?: unknown[]): Promise<Client>
  sender(plan?: Limits): Promise<Sender>
  nextId(): MessageId
  submission(sender: Sender, fields?: Readonly<Record<string, unknown>>): AdmissionRow
  /** Moves the clock to an instant, or lets it run again. */
  setClock(at?: string): Promise<void>
  /** The only value of the only row. */
  value<T>(text: string, values?: readonly unknown[]): Promise<T>
  /** Resolves when that session waits for a lock that another one holds. */
  untilBlocked(session: Client): Promise<void>
  /** Resolves when somebody waits for a lock that a session of this world holds: short locks among others, as of vacuum, are no sign. */
  untilSomebodyWaits(): Promise<void>
  /** Resolves when so many sessions wait for locks, whoever holds them. */
  untilWaiting(many: number): Promise<void>
  /** Months of messages of nobody, so that plans are those of large tables: they choose one partition for each message. */
  fillMonths(): Promise<void>
  /**
   * Resolves when all transactions have ended that run now, those of other tests in their databases too: what was deleted before can be cleaned
   * up, and readers of events see all that was written.
   */
  settled(): Promise<void>
  /** Messages that are `sending`, as a claim would leave them. */
  claimed(sender: Sender, claims: readonly ClaimedAs[]): Promise<Armable[]>
  /** The history of a message: `sequence type status rank`. */
  history(id: MessageId): Promise<string[]>
  /** A pool waits for all of its lines: one that is not given back within this time is told. */
  close(withinMs?: number): Promise<void>
}

export interface ClaimedAs {
  readonly recipient?: string
  readonly destination?: string
  readonly epoch?: number
  readonly attempts?: number
  readonly armed?: boolean
  /** Until when the lease runs; negative: it has run out. */
  readonly leaseSeconds?: number
  readonly expired?: boolean
}

/** One that closes itself: after the test that makes it, or after the file. */
export async function storeWorld(): Promise<StoreWorld> {
  const world = await openStoreWorld()
  atTheEnd(() => world.close())
  return world
}

/** One that its maker closes. */
export async function openStoreWorld(): Promise<StoreWorld> {
  const database = await freshDatabase()
  const pools: Db[] = []
  const sessions: Client[] = []
  const pidOf = (session: Client): number => (session as unknown as { processID: number }).processID
  const anotherNode = (): Db => {
    const pool = openDatabase(database.connection, { name: 'test', connectionsMax: 4, answerMs: 15_000 })
    pools.push(pool)
    return pool
  }
  const db = anotherNode()
  const ids = makeIds(db)
  await ids.synchronize()
  let count = 0

  const value = async <T>(text: string, values: readonly unknown[] = []): Promise<T> => {
    const [row] = await db.run<Record<string, T>>(text, values)
    return Object.values(row ?? {})[0] as T
  }
  const sender = async (plan: Limits = {}): Promise<Sender> => {
    const name = `w${++count}`
    const [workspaceId, domainId, mailboxId] = [
      ids.next() as string as WorkspaceId,
      ids.next() as string,
      ids.next() as string as MailboxId,
    ]
    await db.run('insert into plans (name, hourly, daily, monthly) values ($1, $2, $3, $4)', [
      name,
      plan.hourly,
      plan.daily,
      plan.monthly,
    ])
    await db.run('insert into workspaces (id, name, plan) values ($1, $2, $2)', [workspaceId, name])
    await db.run('insert into usage (workspace_id) values ($1)', [workspaceId])
    await db.run(
      `insert into domains (workspace_id, id, name, status, ownership_token) values ($1, $2, $3, 'verified', 'x')`,
      [workspaceId, domainId, `${name}.example`],
    )
    await db.run(
      'insert into mailboxes (workspace_id, id, domain_id, address, address_key, name) values ($1, $2, $3, $4, $4, null)',
      [workspaceId, mailboxId, domainId, `post@${name}.example`],
    )
    return { workspaceId, mailboxId, domainId }
  }
  const submission = ({ workspaceId, mailboxId }: Sender, fields: Readonly<Record<string, unknown>> = {}) => ({
    workspaceId,
    fields: {
      id: ids.next(),
      w: workspaceId,
      mailbox: mailboxId,
      source: 'rest',
      recipient: 'Ann@Example.org',
      recipient_key: 'ann@example.org',
      destination: 'example.org',
      subject: 'Hello',
      body: 'Good morning',
      accepted_by: 'node.test',
      age_ms: 93_600_000,
      ...fields,
    },
  })

  const session = async (): Promise<Client> => {
    const made = new Client(database.connection)
    made.on('error', () => undefined) // the database is dropped under it at the end
    await made.connect()
    sessions.push(made)
    return made
  }

  const claimed = async (from: Sender, claims: readonly ClaimedAs[]): Promise<Armable[]> => {
    const made: Armable[] = []
    for (const claim of claims) {
      const { recipient = 'ann@example.org', destination = 'example.org', epoch = 1, attempts = 1 } = claim
      const id = ids.next()
      const token = String(++count * 1_000_003)
      await db.run(
        `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject,
                               accepted_by, created_at)
         values ($1, $2, $3, 'rest', 'sending', 2, 'post@example.com', $4, lower($4), 'Hello', 'node.test', app_now())`,
        [from.workspaceId, id, from.mailboxId, recipient],
      )
      await db.run(
        `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
         values ($1, $2, 1, 'message.queued', 'queued', 0, app_now()), ($1, $2, 2, 'message.sending', 'sending', 0, app_now())`,
        [from.workspaceId, id],
      )
      await db.run('insert into contents (workspace_id, message_id, body_text) values ($1, $2, $$Good morning$$)', [
        from.workspaceId,
        id,
      ])
      await db.run(
        `insert into outbound (message_id, workspace_id, mailbox_id, destination, status, due_at, expires_at, epoch, token, lease_until,
                               lease_owner, armed_epoch, attempts)
         values ($1, $2, $3, $4, 'sending', app_now(), app_now() + $5 * interval '1 second', $6, $7,
                 app_now() + $8 * interval '1 second', $1, $9, $10)`,
        [id, from.workspaceId, from.mailboxId, destination, claim.expired === true ? -1 : 3_600, epoch, token].concat([
          claim.leaseSeconds ?? 60,
          claim.armed === true ? epoch : null,
          attempts,
        ] as never[]),
      )
      made.push({ id, epoch, token, recipientKey: recipient.toLowerCase() })
    }
    return made
  }

  let closed: Promise<void> | undefined
  const close = async (withinMs: number): Promise<void> => {
    ids.stop()
    const given = Promise.all([...pools.map((pool) => pool.close()), ...sessions.map((each) => each.end())])
    const end = await Promise.race([given, setTimeout(withinMs, 'late' as const, { ref: false })])
    await database.drop()
    if (end === 'late') throw new Error('a transaction of this world was never ended: its work waits for something')
  }

  return {
    db,
    connection: database.connection,
    anotherNode,
    node: async () => {
      const node = ids.next() as string
      await db.run(`insert into delivering_nodes (id, name) values ($1, 'node.test')`, [node])
      let counter = 0
      const keep = (value: number) => {
        counter = Math.max(counter, value)
        return Promise.resolve()
      }
      return {
        node,
        get counter() {
          return counter
        },
        keep,
      }
    },
    session,
    holding: async (text, values) => {
      const holder = await session()
      await holder.query('begin')
      await holder.query(text, values)
      return holder
    },
    sender,
    nextId: () => ids.next(),
    submission,
    setClock: async (at) => {
      const now = at === undefined ? 'now()' : `timestamptz '${at}'`
      await db.run(
        `create or replace function app_now() returns timestamptz language sql stable as $$ select ${now} $$`,
      )
      // Ids follow the clock every ten seconds: perhaps just now they have, to where it stood.
      if (at === undefined) await ids.synchronize()
    },
    value,
    untilBlocked: async (session) => {
      while (!(await value<boolean>('select cardinality(pg_blocking_pids($1)) > 0', [pidOf(session)]))) continue
    },
    untilSomebodyWaits: async () => {
      const waiting = `select count(*) > 0 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and pg_blocking_pids(pid) && $1::integer[]`
      while (!(await value<boolean>(waiting, [sessions.map(pidOf)]))) continue
    },
    untilWaiting: async (many) => {
      const waiting = `select count(*)::integer from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      while ((await value<number>(waiting)) < many) continue
    },
    fillMonths: async () => {
      const { workspaceId, mailboxId } = await sender()
      await db.run(`select ensure_partitions(app_now() - interval '100 days', app_now())`)
      await db.run(
        `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at, finished_at)
         select $1, (left(uuid_floor(app_now() - n * interval '3 minutes')::text, 13) || substr(gen_random_uuid()::text, 14))::uuid, $2, 'rest', 'sent', 3,
                'post@example.com', 'x@example.org', 'x@example.org', 'Hello', 'node.test', app_now(), app_now()
           from generate_series(1, 40000) n`,
        [workspaceId, mailboxId],
      )
      await db.run('analyze messages')
    },
    settled: async () => {
      const mine = await value<string>('select pg_current_xact_id()::text')
      // Who has no number may hold a snapshot as old: a worker that takes statistics does.
      const over = `select $1::xid8 < pg_snapshot_xmin(pg_current_snapshot()) and not exists (
        select from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and age(backend_xmin) >= age($1::xid8::xid))`
      while (!(await value<boolean>(over, [mine]))) await setTimeout(20)
    },
    claimed,
    history: async (id) =>
      (
        await db.run<{ line: string }>(
          `select concat_ws(' ', sequence, type, status, delivery_rank) line from events where message_id = $1 order by sequence`,
          [id],
        )
      ).map(({ line }) => line),
    close: (withinMs = 30_000) => (closed ??= close(withinMs)),
  }
}
