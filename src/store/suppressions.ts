// Recipients that a workspace does not write to. Compared by the address in lower case (decisions D), never expiring by themselves. Who
// adds or removes by hand is written down in the same statement.
import { randomUUIDv7 } from 'node:crypto'
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { dated, sql, type Db } from './database.ts'
import { cutPage } from './page.ts'

export const suppressionReasons = ['hard_bounce', 'complaint', 'manual'] as const
export type SuppressionReason = (typeof suppressionReasons)[number]

export interface SuppressionRow {
  readonly recipientKey: string
  readonly recipient: string
  readonly reason: SuppressionReason
  readonly sourceMessageId: MessageId | null
  readonly rule: string | null
  readonly evidence: string | null
  /** Null where no person did it. */
  readonly createdBy: string | null
  readonly createdAt: Date
}

/** As every time is told (decisions D). */
const utc = (at: string): string => `to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
const columns = `recipient_key "recipientKey", recipient, reason, source_message_id "sourceMessageId", rule, evidence, created_by "createdBy",
  created_at "createdAt"`

/**
 * In the order of the keys, so that two imports do not wait for each other in a circle. Who did it is written beside it, one row for all that
 * are new.
 */
const insertMany = sql(
  'insert-suppressions',
  `with added as (
     insert into suppressions (workspace_id, recipient_key, recipient, reason, created_by, source_message_id, rule, evidence, created_at)
     select $1, s.key, s.recipient, s.reason, $5, s.source, s.rule, s.evidence, coalesce(s.at, app_now())
       from unnest($2::text[], $3::text[], $4::text[], $7::uuid[], $8::text[], $9::text[], $10::timestamptz[])
         as s (key, recipient, reason, source, rule, evidence, at) order by s.key
     on conflict (workspace_id, recipient_key) do nothing returning recipient_key, recipient),
   audit as (
     insert into audit_log (id, workspace_id, actor, action, target, facts)
     select ${dated('$6')}, $1, $5, 'suppression.added', case when count(*) = 1 then min(a.recipient) else count(*) || ' recipients' end,
            json_build_object('recipients', json_agg(a.recipient order by a.recipient_key))
       from added a having count(*) > 0)
   select count(*)::int many, case when count(*) > 0 then pg_current_xact_id()::xid::text end by from added`,
)
const countOwn = sql(
  'count-own-suppressions',
  `select count(*)::int own from suppressions
    where workspace_id = $1 and recipient_key = any ($2::text[]) and xmin = any ($3::xid[])`,
)
const countThere = sql(
  'count-suppressions-among',
  `select count(*)::int there from unnest($2::text[]) a (key)
     cross join lateral (select from suppressions x where x.workspace_id = $1 and x.recipient_key = a.key limit 1) found`,
)
// No row takes less than 64 bytes: where all rows of all workspaces cannot be so many, nobody counts.
const countUpTo = sql(
  'count-suppressions',
  `select case when pg_relation_size('suppressions') >= $2::int8 * 64
               then (select count(*)::int from (select from suppressions where workspace_id = $1 limit $2) s) else 0 end many`,
)
const one = sql(
  'find-suppression',
  `select ${columns} from suppressions where workspace_id = $1 and recipient_key = $2`,
)
const page = sql(
  'page-suppressions',
  `select ${columns} from suppressions where workspace_id = $1 and recipient_key > $2 order by recipient_key limit $3`,
)
/**
 * Walks at most $6 of them, in steps of 100, from $2 on and from where addresses begin with $3; the row without a recipient says where it ended. It ends
 * behind these addresses, where the database orders as bytes do: in the order of a language nobody knows where that is.
 */
const searched = sql(
  'search-suppressions',
  `with recursive walk (last, looked, found, hits, within) as (
     select $2::text, 0::bigint, 0, null::text[], true
     union all
     select step.last, w.looked + step.looked, w.found + coalesce(cardinality(step.hits), 0), step.hits, starts_with(step.last, $3) or 'a' < 'Z'
       from walk w cross join lateral (
         select (array_agg(s.recipient_key order by s.recipient_key desc))[1] last, count(*) looked,
                array_agg(s.recipient_key) filter (where starts_with(s.recipient_key, $3) and s.reason = coalesce($4, s.reason)) hits
           from (select x.recipient_key, x.reason from suppressions x
                  where x.workspace_id = $1 and x.recipient_key > w.last and x.recipient_key >= $3 order by x.recipient_key limit 100) s) step
      where w.looked < $6 and w.found < $5 and w.within and step.looked > 0)
   (select ${columns} from walk w cross join lateral unnest(w.hits) hit
      cross join lateral (select * from suppressions x where x.workspace_id = $1 and x.recipient_key = hit limit 1) s
     order by recipient_key limit $5)
   union all
   (select w.last, null, null, null, null, null, null, null from walk w where w.looked >= $6 and w.within limit 1)`,
)
const remove = sql(
  'delete-suppression',
  `with gone as (
     delete from suppressions where workspace_id = $1 and recipient_key = $2 returning ${columns}),
   audit as (
     insert into audit_log (id, workspace_id, actor, action, target, facts)
     select ${dated('$4')}, $1, $3, 'suppression.removed', g.recipient,
            json_strip_nulls(json_build_object('reason', g.reason, 'rule', g.rule, 'sourceMessageId', g."sourceMessageId", 'since', ${utc('g."createdAt"')}))
       from gone g)
   select * from gone`,
)
/** Of the next $9 behind $8. `last` is where the next bite begins; null at the end of the list. */
const undo = sql(
  'undo-suppressions',
  `with seen as materialized (
     select s.recipient_key, s.rule, s.created_at from suppressions s where s.workspace_id = $1 and s.recipient_key > $8 order by s.recipient_key limit $9),
   meant as materialized (
     select s.recipient_key from seen s where s.rule = $2 and s.created_at >= $3 and s.created_at < coalesce($4::timestamptz, 'infinity')
      order by s.recipient_key limit $7),
   chosen as (
     select own.recipient_key from meant m cross join lateral (
       select s.recipient_key from suppressions s where s.workspace_id = $1 and s.recipient_key = m.recipient_key for update) own),
   gone as (
     delete from suppressions s using chosen c where s.workspace_id = $1 and s.recipient_key = c.recipient_key and s.rule = $2
     returning s.recipient_key, s.recipient),
   audit as (
     insert into audit_log (id, workspace_id, actor, action, target, facts)
     select ${dated('$6')}, $1, $5, 'suppression.undone', $2,
            json_strip_nulls(json_build_object('since', ${utc('$3::timestamptz')}, 'until', ${utc('$4::timestamptz')},
                                               'recipients', json_agg(g.recipient order by g.recipient_key)))
       from gone g having count(*) > 0)
   select (select count(*) from gone)::integer removed,
          case when (select count(*) from meant) = $7 then (select max(m.recipient_key) from meant m) else (select max(s.recipient_key) from seen s) end last`,
)

const allKeys = sql('suppressed-keys', 'select recipient_key from suppressions where workspace_id = $1 limit $2')

export interface NewSuppression {
  readonly key: string
  readonly recipient: string
  readonly reason: SuppressionReason
  readonly sourceMessageId?: string
  readonly rule?: string
  readonly evidence?: string
  /** Left out: now. */
  readonly createdAt?: Date
}

/** How many are new, and the transaction that added them; what is there already stays as it is. */
export async function insertSuppressions(
  db: Db,
  workspace: WorkspaceId,
  rows: readonly NewSuppression[],
  actor: string,
): Promise<{ readonly added: number; readonly by?: string }> {
  const values = [
    workspace,
    rows.map((row) => row.key),
    rows.map((row) => row.recipient),
    rows.map((row) => row.reason),
    actor,
    randomUUIDv7(),
    rows.map((row) => row.sourceMessageId ?? null),
    rows.map((row) => row.rule ?? null),
    rows.map((row) => row.evidence ?? null),
    rows.map((row) => row.createdAt ?? null),
  ]
  const [row] = await db.rows<{ many: number; by: string | null }>(insertMany, values)
  return { added: row?.many ?? 0, ...(typeof row?.by === 'string' && { by: row.by }) }
}

/** How many of these were added by one of those transactions. */
export async function countOwnSuppressions(
  db: Db,
  workspace: WorkspaceId,
  keys: readonly string[],
  transactions: readonly string[],
): Promise<number> {
  return (await db.rows<{ own: number }>(countOwn, [workspace, keys, transactions]))[0]?.own ?? 0
}

/** How many of these are there. */
export async function countSuppressionsAmong(db: Db, workspace: WorkspaceId, keys: readonly string[]): Promise<number> {
  return (await db.rows<{ there: number }>(countThere, [workspace, keys]))[0]?.there ?? 0
}

/** How many a workspace has, up to `most`; 0 where all workspaces together surely have fewer than that. */
export async function countSuppressions(db: Db, workspace: WorkspaceId, most: number): Promise<number> {
  return (await db.rows<{ many: number }>(countUpTo, [workspace, most]))[0]?.many ?? 0
}

export async function findSuppression(
  db: Db,
  workspace: WorkspaceId,
  key: string,
): Promise<SuppressionRow | undefined> {
  return (await db.rows<SuppressionRow>(one, [workspace, key]))[0]
}

/** The next ones after a key, in the order of keys. */
export const pageSuppressions = (
  db: Db,
  workspace: WorkspaceId,
  after: string,
  most: number,
): Promise<SuppressionRow[]> => db.rows<SuppressionRow>(page, [workspace, after, most])

/**
 * As `pageSuppressions`, of those that begin with `prefix` and have the reason; `next` is the key behind which the next page begins, which may be behind a
 * page with nothing on it.
 */
export async function searchSuppressions(
  db: Db,
  workspace: WorkspaceId,
  { after, prefix, reason, most }: { after: string; prefix: string; reason?: string | undefined; most: number },
): Promise<{ readonly rows: readonly SuppressionRow[]; readonly next?: string }> {
  const isPlain = prefix === '' && reason === undefined
  const wanted = [workspace, after, prefix, reason ?? null, most + 1, limits.suppressionsScannedMax]
  const rows = await (isPlain
    ? pageSuppressions(db, workspace, after, most + 1)
    : db.rows<SuppressionRow>(searched, wanted))
  const { shown, last } = cutPage(rows, most, (row) => row.recipient === null)
  return { rows: shown, ...(last !== undefined && { next: last.recipientKey }) }
}

export async function deleteSuppression(
  db: Db,
  workspace: WorkspaceId,
  key: string,
  actor: string,
): Promise<SuppressionRow | undefined> {
  return (await db.rows<SuppressionRow>(remove, [workspace, key, actor, randomUUIDv7()]))[0]
}

export interface UndoRange {
  readonly rule: string
  readonly since: Date
  /** Left out: until now. */
  readonly until?: Date
}

/** Removes up to `most` of what one rule did in that time among the next ones after a key; `last` is the key to go on behind, undefined at the end. */
export async function undoSuppressions(
  db: Db,
  workspace: WorkspaceId,
  { rule, since, until, after }: UndoRange & { readonly after: string },
  actor: string,
  most: number,
): Promise<{ readonly removed: number; readonly last?: string }> {
  const range = [workspace, rule, since, until ?? null, actor, randomUUIDv7()]
  const [row] = await db.rows<{ removed: number; last: string | null }>(undo, [
    ...range,
    most,
    after,
    limits.suppressionsScannedMax,
  ])
  return { removed: row?.removed ?? 0, ...(typeof row?.last === 'string' && { last: row.last }) }
}

const among = sql(
  'suppressed-among',
  `select a.n from unnest($1::uuid[], $2::text[]) with ordinality as a (w, key, n)
     cross join lateral (select from suppressions x where x.workspace_id = a.w and x.recipient_key = a.key limit 1) found`,
)

/** The keys of a workspace's list; `most` of them where there are more. */
export async function suppressedKeys(db: Db, workspace: WorkspaceId, most: number): Promise<string[]> {
  const rows = await db.rows<{ recipient_key: string }>(allKeys, [workspace, most])
  return rows.map((row) => row.recipient_key)
}

/** For each pair of a workspace and a recipient, in their order: is it suppressed? */
export async function suppressedAmong(
  db: Db,
  pairs: readonly { readonly workspaceId: WorkspaceId; readonly key: string }[],
): Promise<boolean[]> {
  const values = [pairs.map(({ workspaceId }) => workspaceId), pairs.map(({ key }) => key)]
  const found = new Set((await db.rows<{ n: string }>(among, values)).map(({ n }) => Number(n)))
  return pairs.map((_, at) => found.has(at + 1))
}
