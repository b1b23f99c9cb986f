// Taking out a workspace with all that is its own, in bites (docs/decisions/0067): whoever dies in between leaves it to be carried on, by the same command or
// by housekeeping, and two at once share the work. The order matters: what lets others write goes before what they write, and what names
// rows that name no workspace goes behind them.
import { together, wordsOf } from '../base/trouble.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { writeAudit } from './audit.ts'
import { despiteDeadlocks, sql, type Db } from './database.ts'
import { leastId } from './message-id.ts'

/** What would go with a workspace. `messages` stops at `limits.removalMessagesCounted`. */
export interface RemovalView {
  readonly messages: number
  readonly webhooks: number
  readonly domains: readonly string[]
  /** Of people who belong to nothing else. */
  readonly logins: readonly string[]
}
/** What is not final yet. */
export interface Unfinished {
  readonly waiting: number
  /** A worker has it, and has not begun to transmit. */
  readonly sending: number
  /** It may be with the receiver already. */
  readonly armed: number
}

/** No operator, and a member of this workspace alone. */
const nothingElse = `not u.operator and not exists (select from members x where x.user_id = u.id and x.workspace_id <> $1)`
const view = sql(
  'removal-view',
  `select (select count(*) from (select from messages m where m.workspace_id = $1 limit $2) counted)::integer messages,
          (select count(*) from (select from webhook_endpoints e join webhook_queue q on q.workspace_id = e.workspace_id
                                  where e.workspace_id = $1 and e.state = 'active' limit $2) counted)::integer webhooks,
          array(select d.name from domains d where d.workspace_id = $1 order by d.name) domains,
          array(select u.email from members m join users u on u.id = m.user_id
                 where m.workspace_id = $1 and ${nothingElse} order by u.email_key) logins`,
)
const unfinished = sql(
  'removal-unfinished',
  `select (select count(*) from outbound o where o.workspace_id = $1 and o.lease_until is null and o.attempts >= 0)::integer waiting,
          count(*) filter (where o.armed_epoch is null)::integer sending, count(o.armed_epoch)::integer armed
     from outbound o where o.workspace_id = $1 and o.lease_until is not null`,
)
const cancel = sql('cancel-waiting', 'select cancel_waiting_2($1, $2) many')
const begin = sql('begin-removal', 'select begin_removal_1($1) answer')
// Of the catalogue, whichever release made them. What has no index for it is walked before.
const tables = sql(
  'tables-of-workspaces',
  `select c.relname::text name from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = quote_ident(current_schema())::regnamespace and c.relkind = 'r' and a.attname = 'workspace_id' and not a.attisdropped
      and exists (select from pg_index i where i.indrelid = c.oid and i.indkey[0] = a.attnum and i.indpred is null)
    order by 1`,
)
const hasRow = sql('has-row-of-workspace', 'select has_row_1($1, $2) "has"')
const end = sql('end-removal', 'select end_removal_2($1) answer')
const unended = sql('unended-removals', 'select id from workspaces where removing_since is not null order by id')
const recent = sql(
  'recent-removals',
  `select id from removed_workspaces where removed_at > app_now() - $1 * interval '1 millisecond' order by id`,
)
const forget = sql(
  'forget-removals',
  `delete from removed_workspaces where removed_at <= app_now() - $1 * interval '1 millisecond'`,
)

export const readRemovalView = async (db: Db, workspace: WorkspaceId): Promise<RemovalView> =>
  (await db.rows<RemovalView>(view, [workspace, limits.removalMessagesCounted]))[0] as RemovalView

export const readUnfinished = async (db: Db, workspace: WorkspaceId): Promise<Unfinished> =>
  (await db.rows<Unfinished>(unfinished, [workspace]))[0] as Unfinished

/** Of a blocked workspace, what nobody has claimed: a bite of it becomes `failed`, with its events. Answers how many. */
export async function cancelWaiting(db: Db, workspace: WorkspaceId): Promise<number> {
  const run = () => db.rows<{ many: number }>(cancel, [workspace, limits.removalRows])
  return (await despiteDeadlocks(run))[0]?.many ?? 0
}

/** From there on nothing is admitted for it, on any node. False where some of its mail is not final. */
export async function beginRemoval(db: Db, workspace: WorkspaceId, actor: string): Promise<boolean> {
  return db.transaction(async (tx) => {
    const begun = (await tx.rows<{ answer: string }>(begin, [workspace]))[0]?.answer === 'begun'
    if (begun) await writeAudit(tx, { actor, action: 'workspace.removal_begun', target: workspace })
    return begun
  })
}

/** Yields how many rows a bite of it took; ends with the last. */
type Step = (db: Db, workspace: WorkspaceId) => AsyncGenerator<number>

const eraseRows = sql('erase-rows', 'select * from erase_rows_1($1, $2::text[], $3, $4, $5, $6::text[])')
const eraseContents = sql('erase-contents', 'select * from erase_contents_1($1, $2, $3, $4, $5, $6, $7)')
const feedsOf = sql('feeds-of-workspace', 'select id from feeds where workspace_id = $1 order by id')
const eraseFeedTokens = sql(
  'erase-feed-tokens',
  `with seen as materialized (
     select s.ctid row, s.token_hash from feed_seen s
      where s.feed_id = $1 and s.token_hash > $2 order by s.feed_id, s.token_hash limit $3 for update skip locked),
   gone as (delete from feed_seen where ctid = any (array(select s.row from seen s)) returning 1)
   select (select count(*) from gone)::integer many, (select s.token_hash from seen s order by s.token_hash desc limit 1) last`,
)
// No index has them by workspace, and one would cost every mail that a relay takes: so the table is read, a few pages at a time.
const relayedPages = sql(
  'relayed-pages',
  `select (pg_relation_size('relayed') / current_setting('block_size')::integer)::integer pages`,
)
const eraseRelayed = sql(
  'erase-relayed',
  'delete from relayed r where r.ctid >= $2::tid and r.ctid < $3::tid and r.workspace_id = $1 returning 1',
)
// Before each row said whose it is, only its message did; whose message is gone is nobody's then, and goes by its age. The facts are looked at as they are
// written: there a quotation mark of somebody's words stands behind a backslash. PostgreSQL reads no member of JSON that has U+0000, or half a
// surrogate pair, anywhere in it, and an older release keeps what feeds say with either.
const unmatchedPage = sql(
  'unmatched-of-workspace',
  `with page as materialized (
     select u.id, substring(u.facts::text from '"workspaceId"\\s*:\\s*"([^"]*)"') workspace,
            substring(u.facts::text from '"messageId"\\s*:\\s*"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"')::uuid message
       from unmatched_feedback u where u.id > $2 order by u.id limit $3)
   select (select p.id from page p order by p.id desc limit 1) last,
          array(select p.id from page p left join lateral (
             select x.workspace_id from messages x where x.id = p.message and p.workspace is null limit 1) m on true
            where coalesce(p.workspace, m.workspace_id::text) = $1::uuid::text) ids`,
)
const eraseUnmatched = sql('erase-unmatched', 'delete from unmatched_feedback where id = any ($1::uuid[]) returning 1')

const membersOf = sql(
  'people-of-workspace',
  `select u.id, u.email, ${nothingElse} alone from members m join users u on u.id = m.user_id where m.workspace_id = $1 order by u.id limit $2`,
)
const lockPeople = sql('lock-people', 'select id from users where id = any ($1::uuid[]) order by id for update')
const erasePeople = sql(
  'erase-people',
  `delete from users u where u.id = any ($2::uuid[]) and ${nothingElse}
      and exists (select from members y where y.user_id = u.id and y.workspace_id = $1) returning 1`,
)
const takeOut = sql(
  'take-people-out',
  `delete from members m using users u where m.workspace_id = $1 and m.user_id = any ($2::uuid[]) and u.id = m.user_id and not (${nothingElse}) returning 1`,
)
// The installation's own log: what those people did to their logins, and from where; that the workspace was made stays, without its name. Ordered so
// that the index by workspace brings each page: by the ids alone all that is left would be sorted for it.
const eraseAudit = sql(
  'erase-installation-audit',
  `with page as materialized (
     select a.id, a.actor, a.action, a.target from audit_log a where a.workspace_id is null and a.id > $4
      order by a.workspace_id, a.id limit $5),
   gone as (
     delete from audit_log where id = any (array(select p.id from page p where p.actor = any ($2::text[]) or p.target = any ($3::text[]))) returning 1),
   made as (
     update audit_log set facts = (facts::jsonb - 'name')::json
      where id = any (array(select p.id from page p where p.action = 'workspace.created' and p.target = $1::uuid::text)))
   select (select p.id from page p order by p.id desc limit 1) last, (select count(*) from gone)::integer many`,
)

/** Where a bite ended: in this table or partition, at these keys. */
interface Bitten {
  readonly many: number
  readonly leaf: string | null
  readonly last: unknown
}
/** Bites of up to a number of rows, until one finds none. */
async function* bites(bite: (from: Bitten) => Promise<Bitten[]>): AsyncGenerator<number> {
  for (let at: Bitten = { many: 0, leaf: null, last: null }; ;) {
    const [next] = await despiteDeadlocks(() => bite(at))
    if (next === undefined || next.many === 0) return
    yield next.many
    at = next
  }
}
/** `keys` are what its index has behind the workspace. */
const rowsOf =
  (table: string, keys: readonly string[], most: number = limits.removalRows): Step =>
  (db, workspace) =>
    bites(({ leaf, last }) => db.rows(eraseRows, [table, keys, workspace, most, leaf, last]))
const contentsOf =
  (table: string, column: string): Step =>
  (db, workspace) =>
    bites(({ leaf, last }) =>
      db.rows(eraseContents, [table, column, workspace, limits.removalRows, limits.blobsAtOnce, leaf, last]),
    )
async function* feedTokens(db: Db, workspace: WorkspaceId): AsyncGenerator<number> {
  for (const { id } of await db.rows<{ id: string }>(feedsOf, [workspace]))
    for (let after: Buffer | null = Buffer.alloc(0); after !== null;) {
      const [bite]: { many: number; last: Buffer | null }[] = await db.rows(eraseFeedTokens, [
        id,
        after,
        limits.removalRows,
      ])
      after = bite?.last ?? null
      yield bite?.many ?? 0
    }
}

/**
 * The members, and with the last membership the login of whoever belongs to nothing else, with what the installation's log says of them. Of two workspaces that
 * are removed at once, and have a member in common, one is the last.
 */
async function* people(db: Db, workspace: WorkspaceId): AsyncGenerator<number> {
  for (let first = true; ; first = false) {
    type Member = { id: string; email: string; alone: boolean }
    const found = await db.rows<Member>(membersOf, [workspace, limits.removalPeople])
    const alone = found.filter((member) => member.alone)
    const named = [alone.map(({ id }) => `user:${id}`), alone.map(({ email }) => email)]
    for (let after: string | null = first || alone.length > 0 ? leastId : null; after !== null;) {
      const page: { last: string | null; many: number }[] = await despiteDeadlocks(() =>
        db.rows(eraseAudit, [workspace, ...named, after, limits.removalRows]),
      )
      after = page[0]?.last ?? null
      yield page[0]?.many ?? 0
    }
    if (found.length === 0) return
    // Locked before they are looked at again: somebody may make one a member elsewhere, or take one out. Whoever has been left alone meanwhile comes in the next bite.
    yield await despiteDeadlocks(() =>
      db.transaction(async (tx) => {
        await tx.rows(lockPeople, [found.map(({ id }) => id)])
        const gone = await tx.rows(erasePeople, [workspace, alone.map(({ id }) => id)])
        return gone.length + (await tx.rows(takeOut, [workspace, found.map(({ id }) => id)])).length
      }),
    )
  }
}

async function* relayed(db: Db, workspace: WorkspaceId): AsyncGenerator<number> {
  const pages = (await db.rows<{ pages: number }>(relayedPages))[0]?.pages ?? 0
  const width = limits.housekeepingPages
  for (let page = 0; page < pages; page += width)
    yield (await despiteDeadlocks(() => db.rows(eraseRelayed, [workspace, `(${page},0)`, `(${page + width},0)`])))
      .length
}

async function* unmatched(db: Db, workspace: WorkspaceId): AsyncGenerator<number> {
  for (let after: string | null = leastId; after !== null;) {
    const [page]: { last: string | null; ids: string[] }[] = await db.rows(unmatchedPage, [
      workspace,
      after,
      limits.removalRows,
    ])
    after = page?.last ?? null
    if (page !== undefined && page.ids.length > 0) yield (await db.rows(eraseUnmatched, [page.ids])).length
  }
}

/**
 * Every table with rows of a workspace, and how they go, in this order. A table that is missing here is found by the test that walks the catalogue,
 * and by `whereIsMore`: then there is no end. `outbound` and `usage` are empty when this begins.
 */
export const removedFrom: Readonly<Record<string, Step>> = {
  // Nothing new is told, nobody gets in, no provider is heard.
  webhook_endpoints: rowsOf('webhook_endpoints', []),
  api_keys: rowsOf('api_keys', ['id']),
  smtp_credentials: rowsOf('smtp_credentials', ['id']),
  invitations: rowsOf('invitations', ['id']),
  users: people,
  members: rowsOf('members', ['user_id']),
  feed_seen: feedTokens,
  feeds: rowsOf('feeds', []),
  // While the messages say whose it is; what comes behind it says so itself, and is swept.
  unmatched_feedback: unmatched,
  // No report is recorded for a message that is not there.
  messages: rowsOf('messages', ['id']),
  contents: contentsOf('contents', 'body_blob'),
  attachments: contentsOf('attachments', 'blob_id'),
  sandbox_mail: rowsOf('sandbox_mail', ['id'], limits.blobsAtOnce),
  webhook_queue: rowsOf('webhook_queue', ['message_id']),
  events: rowsOf('events', ['message_id']),
  reports: rowsOf('reports', ['message_id']),
  attempts: rowsOf('attempts', ['message_id']),
  scans: rowsOf('scans', ['message_id']),
  webhook_attempts: rowsOf('webhook_attempts', ['message_id']),
  report_fingerprints: rowsOf('report_fingerprints', ['message_id']),
  relayed,
  orphaned_replies: rowsOf('orphaned_replies', ['message_id']),
  sent_again: rowsOf('sent_again', ['message_id']),
  idempotency_keys: rowsOf('idempotency_keys', ['endpoint', 'key']),
  refused_submissions: rowsOf('refused_submissions', ['id']),
  suppressions: rowsOf('suppressions', ['recipient_key']),
  // In this order they are folded.
  fresh_counts: rowsOf('fresh_counts', []),
  hourly_counts: rowsOf('hourly_counts', ['hour']),
  usage: rowsOf('usage', []),
  mailboxes: rowsOf('mailboxes', ['id']),
  dkim_key_pairs: rowsOf('dkim_key_pairs', ['domain_id']),
  domains: rowsOf('domains', ['id']),
  audit_log: rowsOf('audit_log', ['id']),
}

/** How much is done at most, and who hears of each bite. */
export interface RemovalPace {
  readonly rowsMax?: number
  readonly told?: (rows: number) => void
}

/** They read whole tables; and what comes there behind a removal goes by its age. */
const onceAlone: readonly string[] = ['users', 'relayed']

/** False where there may be more. */
async function erase(
  db: Db,
  workspace: WorkspaceId,
  { rowsMax = Infinity, told }: RemovalPace,
  skipped: readonly string[] = [],
): Promise<boolean> {
  let all = 0
  for (const [table, each] of Object.entries(removedFrom))
    for await (const rows of skipped.includes(table) ? [] : each(db, workspace)) {
      if (rows > 0) told?.(rows)
      if ((all += rows) >= rowsMax) return false
    }
  return true
}

/** The first table or partition that has a row of it yet. Each is looked at by itself: where a snapshot is held, all that was deleted is gone along. */
async function whereIsMore(db: Db, workspace: WorkspaceId): Promise<string | undefined> {
  for (const { name } of await db.rows<{ name: string }>(tables))
    if ((await db.rows<{ has: boolean }>(hasRow, [name, workspace]))[0]?.has === true) return name
  return undefined
}

/** `removed`, `gone` where somebody else has ended it, or what keeps it. */
const endRemoval = (db: Db, workspace: WorkspaceId, actor: string): Promise<string> =>
  despiteDeadlocks(() =>
    db.transaction(async (tx) => {
      const answer = (await tx.rows<{ answer: string }>(end, [workspace]))[0]?.answer ?? 'gone'
      if (answer === 'removed') await writeAudit(tx, { actor, action: 'workspace.removed', target: workspace })
      return answer
    }),
  )

/**
 * Carries a removal on, to its end where the pace allows it: then the workspace is gone, and true answered. Whoever writes a row of it meanwhile makes it
 * begin again, a few times.
 */
export async function carryOnRemoval(
  db: Db,
  workspace: WorkspaceId,
  actor: string,
  pace: RemovalPace = {},
): Promise<boolean> {
  let left = ''
  for (let round = 0; round < limits.removalRounds; round++) {
    if (!(await erase(db, workspace, pace))) return false
    left = (await whereIsMore(db, workspace)) ?? (await endRemoval(db, workspace, actor))
    if (left === 'removed' || left === 'gone') return true
  }
  throw new Error(
    `workspace ${workspace} is not removed to its end: ${left} has rows of it yet. The same command carries it on, and so does the service`,
  )
}

/**
 * What commands have begun and not ended; and rows that came behind a removal, from what was under way elsewhere. One that cannot end holds up none
 * of the others: it is told when they are done, and tried again in the next round.
 */
export async function carryOnRemovals(db: Db): Promise<void> {
  const pace = { rowsMax: limits.removalRowsOfRound }
  const begun = await db.rows<{ id: WorkspaceId }>(unended)
  const ended = await db.rows<{ id: WorkspaceId }>(recent, [limits.removedSweptMs])
  const failures: unknown[] = []
  const each = (id: WorkspaceId, work: Promise<unknown>) =>
    work.catch((cause: unknown) => failures.push(new Error(`removal of workspace ${id}: ${wordsOf(cause)}`, { cause })))
  for (const { id } of begun) await each(id, carryOnRemoval(db, id, 'posthorn', pace))
  for (const { id } of ended) await each(id, erase(db, id, pace, onceAlone))
  if (failures.length > 0) throw together(failures)
}

export async function forgetRemovals(db: Db): Promise<void> {
  await db.rows(forget, [limits.removedKnownMs])
}
