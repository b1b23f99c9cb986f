// Recipients that a workspace does not write to. Compared by the address in lower case (decisions D), never expiring by themselves.
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'

export const suppressionReasons = ['hard_bounce', 'complaint', 'manual'] as const
export type SuppressionReason = (typeof suppressionReasons)[number]

export interface SuppressionRow {
  readonly recipient_key: string
  readonly recipient: string
  readonly reason: SuppressionReason
  readonly source_message_id: MessageId | null
  readonly rule: string | null
  readonly evidence: string | null
  readonly created_at: Date
}

/** In the order of the keys, so that two imports do not wait for each other in a circle. */
const insertMany = sql(
  'insert-suppressions',
  `insert into suppressions (workspace_id, recipient_key, recipient, reason)
   select $1, s.key, s.recipient, s.reason from unnest($2::text[], $3::text[], $4::text[]) as s (key, recipient, reason) order by s.key
   on conflict (workspace_id, recipient_key) do nothing returning recipient_key`,
)
const one = sql(
  'find-suppression',
  `select recipient_key, recipient, reason, source_message_id, rule, evidence, created_at
     from suppressions where workspace_id = $1 and recipient_key = $2`,
)
const page = sql(
  'page-suppressions',
  `select recipient_key, recipient, reason, source_message_id, rule, evidence, created_at
     from suppressions where workspace_id = $1 and recipient_key > $2 order by recipient_key limit $3`,
)
const remove = sql(
  'delete-suppression',
  `delete from suppressions where workspace_id = $1 and recipient_key = $2
   returning recipient_key, recipient, reason, source_message_id, rule, evidence, created_at`,
)

export interface NewSuppression {
  readonly key: string
  readonly recipient: string
  readonly reason: SuppressionReason
}

/** Returns how many are new; what is there already stays as it is. */
export async function insertSuppressions(
  db: Db,
  workspace: WorkspaceId,
  rows: readonly NewSuppression[],
): Promise<number> {
  const values = [
    workspace,
    rows.map((row) => row.key),
    rows.map((row) => row.recipient),
    rows.map((row) => row.reason),
  ]
  return (await db.rows(insertMany, values)).length
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

export async function deleteSuppression(
  db: Db,
  workspace: WorkspaceId,
  key: string,
): Promise<SuppressionRow | undefined> {
  return (await db.rows<SuppressionRow>(remove, [workspace, key]))[0]
}

const among = sql(
  'suppressed-among',
  `select a.n from unnest($1::uuid[], $2::text[]) with ordinality as a (w, key, n)
     cross join lateral (select from suppressions x where x.workspace_id = a.w and x.recipient_key = a.key limit 1) found`,
)

/** For each pair of a workspace and a recipient, in their order: is it suppressed? */
export async function suppressedAmong(
  db: Db,
  pairs: readonly { readonly workspaceId: WorkspaceId; readonly key: string }[],
): Promise<boolean[]> {
  const values = [pairs.map(({ workspaceId }) => workspaceId), pairs.map(({ key }) => key)]
  const found = new Set((await db.rows<{ n: string }>(among, values)).map(({ n }) => Number(n)))
  return pairs.map((_, at) => found.has(at + 1))
}
