// What a statement reads belongs to what it answers, and not to what else lies in its tables (docs/decisions/0006): here they are large, and what is
// asked for is little. Pages are counted, which no busy machine makes more.
import { afterAll, expect, test } from 'vitest'
import { escapeLiteral } from 'pg'
import { limits } from '../config.ts'
import { pageAudit, pageInstallationAudit } from './audit.ts'
import { claimDue } from './claim.ts'
import { makeAdmitter } from './admit.ts'
import { openDatabase, type Db, type Statement } from './database.ts'
import { beginOrderAnew } from './commit-order.ts'
import { expireSome } from './expire.ts'
import { dropUnwantedContents } from './housekeeping.ts'
import { makeRecorder, reap, type Armable } from './outbound.ts'
import { listMadeByKey } from './made-by-key.ts'
import { listMailboxRows, mailboxNamed } from './mailboxes.ts'
import { storeWorld } from './store.test-kit.ts'
import { readWebhookQueueFacts } from './queue-facts.ts'
import { removedFrom } from './removal.ts'
import { pageSandbox } from './sandbox.ts'
import { readRefusalFacts } from './refusal-facts.ts'
import { searchSuppressions, undoSuppressions } from './suppressions.ts'
import { makeFold } from './usage.ts'
import { pageMessages } from './views/message-list.ts'
import { readLaneReasons } from './views/operations.ts'
import { readInCommitOrder } from './views/webhook-events.ts'
import { makeWebhookRecorder } from './webhook-results.ts'
import { makeWebhookClaims } from './webhook-claims.ts'
import { leastId } from './message-id.ts'

const world = await storeWorld()
const sender = await world.sender()
// Many workspaces have little, so that one with very much looks like them to the planner.
await world.db.run(
  `insert into workspaces (id, name, plan) select gen_random_uuid(), 'small ' || n, (select name from plans limit 1) from generate_series(1, 300) n`,
)
// Nobody has taken statistics yet: so it is behind a restore, and wherever a table grows faster than they are taken.
for (const table of ['suppressions', 'users', 'audit_log', 'domains', 'mailboxes', 'outbound', 'webhook_queue'])
  await world.db.run(`alter table ${table} set (autovacuum_enabled = off)`)
const session = openDatabase(world.connection, { name: 'one session', connectionsMax: 1, answerMs: 15_000 })
afterAll(() => session.close())

interface Plan {
  readonly 'Node Type': string
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Join Filter'?: number
  readonly Plans?: readonly Plan[]
}

type Known = string | number | boolean | Date | readonly string[] | null
/** As `pg` has it: said when there is a line to say it on. */
interface ToldLate {
  toPostgres(): Known
}
type Value = Known | ToldLate
const isToldLate = (value: Value): value is ToldLate =>
  typeof value === 'object' && value !== null && 'toPostgres' in value

/** The plan of the one statement that is asked over this. */
async function planOf(ask: (db: Db) => Promise<unknown>, on = session): Promise<Plan> {
  let plan: Plan | undefined
  const explaining = {
    ...on,
    rows: async ({ text }: Statement, values: readonly unknown[] = []) => {
      // Behind a name, so that it is planned as it is in the service: for all values alike.
      await on.run('deallocate all')
      await on.run(`prepare asked as ${text}`)
      const said = (values as readonly Value[]).map((given) => {
        const each = isToldLate(given) ? given.toPostgres() : given
        if (each === null) return 'null'
        return escapeLiteral(
          each instanceof Date ? each.toISOString() : Array.isArray(each) ? `{${each.join(',')}}` : String(each),
        )
      })
      const [row] = await on.run<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
        `explain (analyze, buffers, format json) execute asked (${said.join(', ')})`,
      )
      plan = row?.['QUERY PLAN'][0].Plan
      return []
    },
  } as Db
  // Whoever asks gets no answer to it.
  await ask(explaining).catch((error: unknown) => {
    if (plan === undefined) throw error
  })
  if (plan === undefined) throw new Error('nothing was asked')
  return plan
}
async function pagesOf(ask: (db: Db) => Promise<unknown>): Promise<number> {
  await planOf(ask) // the first one reads the catalogue, too
  const plan = await planOf(ask)
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
}

const lease = { leaseMs: 60_000, owner: '00000000-0000-4000-8000-000000000001' }

test('a page of suppressions, of a workspace with very many', async () => {
  await world.db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason)
     select $1, n || '@b.example', n || '@b.example', 'manual' from generate_series(1, 20000) n
     union all select id, '1@b.example', '1@b.example', 'manual' from workspaces where name like 'small%'`,
    [sender.workspaceId],
  )
  const page = { after: '', prefix: '', most: 50 }
  expect(await pagesOf((db) => searchSuppressions(db, sender.workspaceId, page))).toBeLessThan(100)
})

test('a search in the suppressions of a workspace with very many ends behind what begins so, and looks at a bounded number of others', async () => {
  const own = sender.workspaceId
  const search = (wish: { prefix?: string; reason?: 'complaint'; after?: string }) => (db: Db) =>
    searchSuppressions(db, own, { after: '', prefix: '', most: 50, ...wish })
  await world.db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason, rule) values ($1, '5z@b.example', '5z@b.example', 'complaint', 'wrong')`,
    [own],
  )
  expect(await pagesOf(search({ prefix: '1@' }))).toBeLessThan(100)
  expect(await search({ prefix: '1@' })(world.db)).toMatchObject({ rows: [{ recipient: '1@b.example' }] })
  expect(await search({ prefix: '1@' })(world.db)).not.toHaveProperty('next')
  // The first half of the list, and nothing in it.
  const complaint = search({ reason: 'complaint' })
  expect(await pagesOf(complaint)).toBeLessThan(2 * limits.suppressionsScannedMax)
  const { rows, next = '' } = await complaint(world.db)
  expect(rows).toEqual([])
  expect(await search({ reason: 'complaint', after: next })(world.db)).toMatchObject({ rows: [{ rule: 'wrong' }] })

  const bite = { rule: 'wrong', since: new Date(0), after: '' }
  const undo = (after: string) => (db: Db) => undoSuppressions(db, own, { ...bite, after }, 'x', 1_000)
  expect(await pagesOf(undo(''))).toBeLessThan(2 * limits.suppressionsScannedMax)
  expect(await undo('')(world.db)).toEqual({ removed: 0, last: next })
})

test('a page of the audit log, in an installation with many people', async () => {
  await world.db.run(
    `insert into users (id, email, email_key) select gen_random_uuid(), n || '@b.example', n || '@b.example' from generate_series(1, 5000) n`,
  )
  await world.db.run(
    `insert into audit_log (id, workspace_id, actor, action)
     select gen_random_uuid(), $1::uuid, 'user:' || u.id, 'x' from (select id from users limit 50) u
     union all select gen_random_uuid(), $1::uuid, actor, 'x' from unnest('{user:,user:x,key:,command,user:------------------------------------}'::text[]) actor`,
    [sender.workspaceId],
  )
  expect(await pagesOf((db) => pageAudit(db, sender.workspaceId, undefined, 55))).toBeLessThan(400)
  const rows = await pageAudit(world.db, sender.workspaceId, undefined, 55)
  expect(rows.filter(({ actorName }) => actorName !== null)).toHaveLength(50)
})

test('the mailboxes of a workspace with many domains', async () => {
  await world.db.run(
    `with made as (
       insert into domains (workspace_id, id, name, ownership_token) select $1, gen_random_uuid(), n || '.example', '' from generate_series(1, 500) n
       returning id, name)
     insert into mailboxes (workspace_id, id, domain_id, address, address_key)
     select $1, gen_random_uuid(), id, 'a@' || name, 'a@' || name from made`,
    [sender.workspaceId],
  )
  const compared = ({ Plans: below = [], ...plan }: Plan): number =>
    below.reduce((sum, each) => sum + compared(each), plan['Rows Removed by Join Filter'] ?? 0)
  expect(compared(await planOf((db) => listMailboxRows(db, sender.workspaceId)))).toBe(0)
  expect(await listMailboxRows(world.db, sender.workspaceId)).toHaveLength(501)
})

test('the sender of the installation’s own mail, by id or by address, in an installation with very many mailboxes', async () => {
  await world.db.run(
    `with made as (
       insert into domains (workspace_id, id, name, status, ownership_token)
       select id, gen_random_uuid(), 'many.example', 'verified', '' from workspaces where name like 'small%' returning workspace_id, id)
     insert into mailboxes (workspace_id, id, domain_id, address, address_key)
     select workspace_id, gen_random_uuid(), id, n || '@many.example', n || '@many.example' from made, generate_series(1, 100) n`,
  )
  const own = { workspaceId: sender.workspaceId, mailboxId: sender.mailboxId }
  const address = await world.value<string>('select address_key from mailboxes where id = $1', [own.mailboxId])
  for (const [name, pages] of [
    [own.mailboxId, 10],
    [address, 2_000],
  ] as const) {
    expect(await pagesOf((db) => mailboxNamed(db, name))).toBeLessThan(pages)
    expect(await mailboxNamed(world.db, name)).toEqual(own)
  }
})

test('a look for leases that have run out, beside a long queue', async () => {
  await world.db.run(
    `insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
     select gen_random_uuid(), $1, $2, n % 100 || '.example', app_now(), app_now() + interval '1 day' from generate_series(1, 20000) n`,
    [sender.workspaceId, sender.mailboxId],
  )
  await world.claimed(sender, [{ leaseSeconds: -1 }, {}])
  expect(await pagesOf((db) => reap(db, 10, { before: new Date(0) }))).toBeLessThan(50)
  expect(await pagesOf((db) => reap(db, 10))).toBeLessThan(50)
})

test('a step of the look for what has expired, along a long queue: its pages, and no index', async () => {
  const pages = await world.value<number>(`select pg_relation_size('outbound')::integer / 8192`)
  expect(pages).toBeGreaterThan(100)
  const plan = await planOf((db) => expireSome(db, 0))
  expect(JSON.stringify(plan)).toContain('Tid Range Scan')
  expect(await pagesOf((db) => expireSome(db, 0))).toBeLessThan(pages + 20)
})

test('the end of a webhook, where very many others of its workspace are due', async () => {
  await world.db.run(
    `insert into webhook_queue (workspace_id, message_id, sequence, due_at)
     select $1, gen_random_uuid(), 1, app_now() - n * interval '1 second' from generate_series(1, 5000) n`,
    [sender.workspaceId],
  )
  const { workspaceId } = sender
  const messageId = await world.value<string>('select message_id from webhook_queue limit 1')
  const end = async (db: Db) => {
    const tools = { failingMs: 1e9, disabled: () => undefined, more: () => undefined }
    const result = {
      workspaceId,
      messageId,
      sequence: 1,
      round: 1,
      attempt: 1,
      claim: workspaceId,
      asked: true,
      delivered: true,
    }
    await makeWebhookRecorder(db, tools)
      .record(result)
      .catch(() => undefined)
  }
  expect(await pagesOf(end)).toBeLessThan(60)
})

// While a backup holds its snapshot, no index forgets what was claimed and ended since: a whole walk goes along all of that, and no other.
test.each([
  [
    'outbound',
    `(message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
     select gen_random_uuid(), $1, $1, 'gone.example', app_now() - interval '1 hour', app_now() from generate_series(1, 20000) n`,
    (db: Db, since?: Date) =>
      claimDue(db, {
        cursor: leastId,
        cursors: {},
        since,
        // Of few, the lanes are walked too.
        most: since === undefined ? 100 : 2,
        rooms: {},
        roomElse: 1,
        crowded: [],
        ...lease,
      }),
  ],
  [
    'webhook_queue',
    `(workspace_id, message_id, sequence, due_at)
     select $1, gen_random_uuid(), 1, app_now() - interval '1 hour' from generate_series(1, 20000) n`,
    (db: Db, since?: Date) =>
      makeWebhookClaims(db, 60_000).claim({ cursor: leastId, since, rooms: {}, share: 1, most: 1 }),
  ],
])('a claim from %s goes along what has ended under an open snapshot once, if at all', async (table, rows, claim) => {
  const backup = await world.session()
  await world.db.run(`truncate ${table}`)
  await backup.query('begin isolation level repeatable read')
  await backup.query('select count(*) from plans')
  await world.db.run(`insert into ${table} ${rows}`, [sender.workspaceId])
  await world.db.run(`delete from ${table}`)
  const due = rows.replace("'1 hour'", "'1 second'").replace('20000', '3')
  await world.db.run(`insert into ${table} ${due}`, [sender.workspaceId])
  expect(await pagesOf(claim)).toBeLessThan(30_000)
  const { oldest } = await claim(session)
  expect(await pagesOf((db) => claim(db, oldest ?? undefined))).toBeLessThan(500)
  await backup.query('rollback')
})

// A sender remembers every endpoint that it has posted to, and a claim goes over very many of which nothing is due.
test('a claim of webhooks does not search the rooms of all endpoints once for each that it goes over', async () => {
  await world.db.run('truncate webhook_queue')
  await world.db.run(
    `insert into webhook_queue (workspace_id, message_id, sequence, due_at)
     select id, gen_random_uuid(), 1, app_now() + interval '1 hour' from workspaces where name like 'small%'`,
  )
  const known = await world.db.run<{ id: string }>(
    `select gen_random_uuid()::text id from generate_series(1, 2000) union all select id::text from workspaces`,
  )
  const rooms = Object.fromEntries(known.map(({ id }) => [id, 40]))
  const passedOver = ({ Plans: below = [], ...plan }: Plan): number =>
    below.reduce((sum, each) => sum + passedOver(each), (plan['Rows Removed by Filter'] ?? 0) * plan['Actual Loops'])
  const plan = await planOf((db) =>
    makeWebhookClaims(db, 60_000).claim({ cursor: leastId, rooms, share: 1, most: 500 }),
  )
  expect(passedOver(plan)).toBeLessThan(1_000)
})

// Two rows change with every statement. All that they were since stays behind their keys, too. Beside 250 others the index that tells the newest is
// one level higher than that of the key, which with a sort behind it looks cheaper.
test.each([0, 250])(
  'an admission and an arm do not go along what their rows were under an open snapshot, beside %i others',
  async (others) => {
    const node = world.nextId()
    await world.db.run('delete from usage where workspace_id <> $1', [sender.workspaceId])
    await world.db.run('truncate delivering_nodes')
    await world.db.run('vacuum full usage')
    await world.db.run(
      `insert into usage (workspace_id) select id from workspaces where name like 'small%' order by id limit $1`,
      [others],
    )
    await world.db.run(
      `insert into delivering_nodes (id, name) select gen_random_uuid(), 'x' from generate_series(1, $1)`,
      [others],
    )
    await world.db.run(`insert into delivering_nodes (id, name) values ($1, 'n')`, [node])
    const backup = await world.session()
    await backup.query('begin isolation level repeatable read')
    await backup.query('select count(*) from plans')
    await world.db.run(`
      do $$ declare
        now_minute bigint := minute_of(app_now());
        used tid := (select ctid from usage where workspace_id = '${sender.workspaceId}');
        counted tid := (select ctid from delivering_nodes where id = '${node}');
      begin
        for n in 1..8000 loop -- by their place, or each would go along all that were before
          update usage set minute = now_minute - 8 + n / 1000 where ctid = used returning ctid into strict used;
          update delivering_nodes set counter = n where ctid = counted returning ctid into strict counted;
        end loop;
      end $$`)
    const admit = (db: Db) => makeAdmitter(db).admit(world.submission(sender))
    expect(await pagesOf(admit)).toBeLessThan(200)
    const mark = { node, counter: 8000, keep: () => Promise.resolve() }
    const arm = (db: Db) =>
      makeRecorder(db, db, mark).arm({ id: world.nextId(), epoch: 1, token: '1', recipientKey: 'a@b.example' })
    expect(await pagesOf(arm)).toBeLessThan(40)
    await backup.query('rollback')
  },
)

// A worker's connection keeps its plans for a minute; on a new installation, and behind a restore, that is enough to fill what they were made for.
test('an arm looks up what it needs of each message, also where the plan was made while there was nothing', async () => {
  const fresh = await storeWorld()
  const from = await fresh.sender()
  const tables = ['workspaces', 'mailboxes', 'domains', 'suppressions']
  for (const table of tables) await fresh.db.run(`alter table ${table} set (autovacuum_enabled = off)`)
  await fresh.db.run(`vacuum analyze ${tables.join(', ')}`)
  const worker = openDatabase(fresh.connection, { name: 'a worker', connectionsMax: 1, answerMs: 15_000 })
  const mark = await fresh.node()
  const [first, second, last] = await fresh.claimed(from, [{}, {}, {}])
  expect(await makeRecorder(worker, worker, mark).arm(first as Armable)).toBe('armed')

  await fresh.db.run(
    `insert into workspaces (id, name, plan) select gen_random_uuid(), 'small ' || n, (select name from plans limit 1) from generate_series(1, 20000) n`,
  )
  await fresh.db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason)
     select $1, n || '@b.example', n || '@b.example', 'manual' from generate_series(1, 20000) n`,
    [from.workspaceId],
  )
  await fresh.db.run(
    `with made as (
       insert into domains (workspace_id, id, name, status, ownership_token) select $1, gen_random_uuid(), n || '.example', 'verified', '' from generate_series(1, 20000) n
       returning id, name)
     insert into mailboxes (workspace_id, id, domain_id, address, address_key)
     select $1, gen_random_uuid(), id, 'a@' || name, 'a@' || name from made`,
    [from.workspaceId],
  )
  // What other tests change in the cluster can make a session forget the catalogue meanwhile: the second reads it again, the last does not.
  const armed = (claim?: Armable) => planOf((db) => makeRecorder(db, db, mark).arm(claim as Armable), worker)
  await armed(second)
  const plan = await armed(last)
  expect(plan['Shared Hit Blocks'] + plan['Shared Read Blocks']).toBeLessThan(100)
  await worker.close()
})

test('a fold of the counts goes along what was folded under an open snapshot now and then, not each second', async () => {
  const backup = await world.session()
  await backup.query('begin isolation level repeatable read')
  await backup.query('select count(*) from plans')
  const count = `insert into fresh_counts (workspace_id, hour, kind, bucket, many) select $1, date_trunc('hour', app_now()), 'x', 0, 1 from generate_series(1, $2::integer)`
  let at = 0
  const fold = makeFold(() => (at += 10))
  await world.db.run(count, [sender.workspaceId, 50_000])
  for (let round = 1; round <= 3; round++) {
    await fold(world.db)
    await world.db.run(count, [sender.workspaceId, 10])
  }
  expect(await pagesOf(fold)).toBeLessThan(200)
  await fold(world.db)
  expect(await world.value('select count(*)::integer from fresh_counts')).toBe(0)
  // What lies before it is found by the next whole one.
  await backup.query('rollback')
  await world.db.run('truncate fresh_counts')
  await world.db.run(count, [sender.workspaceId, 10])
  at += 10_000
  await fold(world.db)
  expect(await world.value('select count(*)::integer from fresh_counts')).toBe(0)
})

test('the facts of the webhook queue, of one workspace with a long queue beside many endpoints', async () => {
  await world.db.run('truncate webhook_queue')
  await world.db.run(
    `insert into webhook_endpoints (workspace_id, url, api_version, secret_sealed)
     select id, 'https://a.example/', '2026-11-01', '' from workspaces where name like 'small%'`,
  )
  await world.db.run(
    `insert into webhook_queue (workspace_id, message_id, sequence, due_at)
     select (select min(workspace_id::text)::uuid from webhook_endpoints), gen_random_uuid(), 1, app_now() from generate_series(1, 5000) n`,
  )
  await world.db.run('vacuum analyze webhook_queue')
  expect(await pagesOf(readWebhookQueueFacts)).toBeLessThan(40_000)
  expect((await readWebhookQueueFacts(world.db)).many).toBe(5_000)
})

test('messages of a workspace with few, in months in which another has sent nearly everything', async () => {
  await world.fillMonths()
  // As statistics are taken in the night: of its few there is nothing in them.
  await world.db.run('analyze messages')
  const few = await world.sender()
  await world.db.run(
    `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
     select $1, uuid_floor(app_now() - n * interval '3 days'), $2, 'rest', 'queued', 1, 'a@b.example', 'c@d.example', 'c@d.example', 'x', 'node', app_now()
       from generate_series(1, 20) n`,
    [few.workspaceId, few.mailboxId],
  )
  const recipientKey = 'c@d.example'
  for (const filter of [{}, { status: 'queued' }, { recipientKey }, { recipientKey, text: 'x' }] as const) {
    const page = (db: Db) => pageMessages(db, few.workspaceId, filter, { most: 50 })
    expect(await pagesOf(page), JSON.stringify(filter)).toBeLessThan(200)
    expect((await page(world.db)).messages).toHaveLength(20)
  }
})

test('the audit log and the sandbox of a workspace with little, beside one with very much', async () => {
  const few = await world.sender()
  const row = (many: number) => `generate_series(1, ${many}) n`
  const id = `uuid_floor(app_now() - n * interval '1 second')`
  await world.db.run('truncate audit_log, sandbox_mail')
  await world.db.run(
    `insert into audit_log (id, workspace_id, actor, action) select ${id}, $1, 'x', 'x' from ${row(20_000)}`,
    [sender.workspaceId],
  )
  await world.db.run(
    `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id)
     select ${id}, app_now(), 'a@b.example', 'c@d.example', 'x', $1 from ${row(10_000)}`,
    [sender.workspaceId],
  )
  await world.db.run('vacuum analyze audit_log, sandbox_mail')
  await world.db.run(
    `insert into audit_log (id, workspace_id, actor, action) values (gen_random_uuid(), $1, 'x', 'own'), (gen_random_uuid(), null, 'x', 'all')`,
    [few.workspaceId],
  )
  expect(await pagesOf((db) => pageAudit(db, few.workspaceId, undefined, 55))).toBeLessThan(50)
  expect(await pagesOf((db) => pageInstallationAudit(db, undefined, 55))).toBeLessThan(50)
  expect(await pageAudit(world.db, few.workspaceId, undefined, 55)).toMatchObject([{ action: 'own' }])
  expect(await pageInstallationAudit(world.db, undefined, 55)).toMatchObject([{ action: 'all' }])
  for (const filter of [{}, { text: 'x' }])
    expect(await pagesOf((db) => pageSandbox(db, few.workspaceId, { most: 50 }, filter))).toBeLessThan(50)
})

test('what a key has made, in a workspace with a long audit log; and of a key that has made very many', async () => {
  const { workspaceId } = await world.sender()
  const [script, alive] = [world.nextId() as string, world.nextId() as string]
  await world.db.run('truncate audit_log')
  await world.db.run(
    `insert into api_keys (workspace_id, id, name, prefix, secret_hash, scopes) values ($1, $2, 'script', 'x', 'script', '{}'), ($1, $3, 'alive', 'x', 'alive', '{}')`,
    [workspaceId, script, alive],
  )
  const log = `insert into audit_log (id, workspace_id, actor, action, target)
     select (left(uuid_floor(app_now() + n * interval '1 millisecond')::text, 13) || substr(gen_random_uuid()::text, 14))::uuid, $1, $2, $3::text, coalesce($4, gen_random_uuid())::text from generate_series(1, $5::integer) n`
  await world.db.run(log, [workspaceId, 'user:x', 'suppression.removed', null, 20_000])
  await world.db.run(log, [workspaceId, `key:${script}`, 'key.created', alive, 1])
  const list = (db: Db) => listMadeByKey(db, workspaceId, script)
  expect(await list(world.db)).toEqual([{ kind: 'key', id: alive, name: 'alive' }])
  expect(await pagesOf(list)).toBeLessThan(100)
  // Each of them may have made others. Compared each with each they take longer than a statement may.
  await world.db.run(log, [workspaceId, `key:${script}`, 'key.created', null, 15_000])
  expect(await list(world.db)).toEqual([{ kind: 'key', id: alive, name: 'alive' }])
})

test('why mail waits, of lanes with very many messages that were tried many times', async () => {
  await world.db.run('truncate outbound')
  await world.db.run(
    `with mail as (
       select n, (left(uuid_floor(app_now() - n * interval '1 second')::text, 13) || substr(gen_random_uuid()::text, 14))::uuid id
         from generate_series(1, 20000) n),
     attempt as (
       insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts)
       select $1, id, epoch, app_now(), 'retry', '{"reason": "rcpt_4xx"}' from mail, generate_series(1, 2) epoch)
     insert into outbound (message_id, workspace_id, mailbox_id, destination, status, due_at, expires_at)
     select id, $1, $2, n % 10 || '.example', 'retrying', app_now() + n * interval '1 second', app_now() + interval '1 day' from mail`,
    [sender.workspaceId, sender.mailboxId],
  )
  const lanes = Array.from({ length: 10 }, (_, n) => ({
    workspaceId: sender.workspaceId,
    destination: `${n}.example`,
  }))
  expect(await pagesOf((db) => readLaneReasons(db, lanes))).toBeLessThan(10 * 150)
  expect((await readLaneReasons(world.db, lanes)).map(({ reason }) => reason)).toEqual(lanes.map(() => 'rcpt_4xx'))
})

test('a bite of a removal, where statistics know the mail of another workspace alone', async () => {
  const gone = await world.sender()
  for (const { child } of await world.db.run<{ child: string }>(
    `select child from dated_partitions() where parent = 'events'`,
  ))
    await world.db.run(`alter table ${child} set (autovacuum_enabled = off)`)
  const fill = async (workspaceId: string, many: number) => {
    await world.db.run(
      `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, tx)
       select $1, (left(uuid_floor(app_now() - n * interval '1 millisecond')::text, 13) || substr(gen_random_uuid()::text, 14))::uuid, 1,
              'message.queued', 'queued', 0, app_now(), (3 + n % 500)::text::xid8 from generate_series(1, $2::integer) n`,
      [workspaceId, many],
    )
  }
  await world.db.run('alter table events disable trigger user')
  await fill(sender.workspaceId, 40_000)
  await world.db.run('analyze events')
  await fill(gone.workspaceId, 20_000)
  await world.db.run('alter table events enable trigger user')
  const bite = async (db: Db) => {
    for await (const many of removedFrom['events']?.(db, gone.workspaceId) ?? []) expect(many).toBe(1_000)
  }
  expect(await pagesOf(bite)).toBeLessThan(10 * limits.removalRows)
})

test('a page of the installation’s own log, which a removal goes along, where it is very long', async () => {
  const gone = await world.sender()
  await world.db.run('truncate audit_log')
  await world.db.run(
    `insert into audit_log (id, actor, action) select uuid_floor(app_now() - n * interval '1 second'), 'posthorn', 'session.refused' from generate_series(1, 20000) n`,
  )
  const erase = async (db: Db) => {
    for await (const many of removedFrom['users']?.(db, gone.workspaceId) ?? []) expect(many).toBe(0)
  }
  expect(await pagesOf(erase)).toBeLessThan(100)
})

test('a page of events that were written elsewhere, behind a restore of very many', async () => {
  const few = await world.sender()
  await world.db.run('truncate events')
  await world.db.run('alter table events disable trigger user')
  // As a dump brings them along.
  await world.db.run(
    `with mail as materialized (
       select (left(uuid_floor(app_now() - n * interval '1 second')::text, 13) || substr(gen_random_uuid()::text, 14))::uuid id from generate_series(1, 20000) n)
     insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, tx)
     select $1, id, sequence, 'message.sent', 'sent', 0, app_now(), '900000000' from mail, generate_series(1, 2) sequence`,
    [few.workspaceId],
  )
  await world.db.run('alter table events enable trigger user')
  await beginOrderAnew(world.db)
  await world.settled()
  const start = { tx: '0', messageId: leastId, sequence: 0 }
  expect(await pagesOf((db) => readInCommitOrder(db, few.workspaceId, start, 20))).toBeLessThan(400)
  const seen: string[] = []
  for (let after = start, more = true; more;) {
    const rows = await readInCommitOrder(world.db, few.workspaceId, after, 5_000)
    seen.push(...rows.map(({ message_id, sequence }) => `${message_id} ${sequence}`))
    const last = rows.at(-1)
    more = last !== undefined
    if (last !== undefined) after = { tx: last.tx, messageId: last.message_id, sequence: last.sequence }
  }
  expect(new Set(seen).size).toBe(40_000)
  expect(seen).toHaveLength(40_000)
  const first = new Set<string>()
  for (const each of seen) {
    const [id = '', sequence] = each.split(' ')
    if (sequence === '1') first.add(id)
    else expect(first.has(id)).toBe(true)
  }
})

test('what receivers said of the last day, in an installation that sends very much', async () => {
  // A statement has its time, also on a busy machine: what an event sets off is another test's.
  await world.db.run('alter table events disable trigger user')
  await world.db.run(
    `with mail as (
       select n, (left(uuid_floor(app_now() - n * interval '3 seconds')::text, 13) || substr(gen_random_uuid()::text, 14))::uuid id
         from generate_series(1, 60000) n),
     attempt as (
       insert into attempts (workspace_id, message_id, epoch, ended_at, outcome, facts)
       select $1, id, 1, app_now(), 'accepted', '{"smtp": {"host": "mx.example.org"}}' from mail),
     event as (
       insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
       select $1, id, 3, 'message.soft_bounced', 'retrying', 1, app_now(), '{"smtp": {"host": "mx.example.org"}}' from mail)
     insert into reports (workspace_id, message_id, sequence, type, bounce, source, created_at)
     select $1, id, 3, 'soft_bounce', '{"class": "policy"}', 'session', app_now() from mail where n > 1`,
    [sender.workspaceId],
  )
  await world.db.run('alter table events enable trigger user')
  expect(await pagesOf(readRefusalFacts)).toBeLessThan(5_000)
  const facts = {
    host: 'mx.example.org',
    reports: limits.doctorReportsOfWorkspace,
    byPolicy: limits.doctorReportsOfWorkspace,
  }
  expect(await readRefusalFacts(world.db)).toMatchObject([facts])
})

test('a bite of the content of a workspace that keeps none, where very many of its messages wait', async () => {
  const { workspaceId, mailboxId } = await world.sender()
  await world.db.run('update workspaces set keeps_content = false where id = $1', [workspaceId])
  await world.db.run(
    `with made as (
       insert into messages (workspace_id, id, mailbox_id, source, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
       select $1, uuid_floor(app_now() - n * interval '1 millisecond'), $2, 'rest', 1, 'a', 'b', 'b', 's', 'n', app_now() from generate_series(1, 20000) n
       returning id)
     insert into contents (workspace_id, message_id, body_text) select $1, id, 'Hello' from made`,
    [workspaceId, mailboxId],
  )
  expect(await pagesOf((db) => dropUnwantedContents(db, workspaceId))).toBeLessThan(12 * limits.housekeepingRows)
})
