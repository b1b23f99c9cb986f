// Feedback that had no effect, for operators: what it was, why, and its beginning. Bounded in number and in age.
import { randomUUIDv7 } from 'node:crypto'
import { limits } from '../config.ts'
import { inBites } from './bites.ts'
import { dated, sql, type Db } from './database.ts'
import { greatestId, leastId } from './message-id.ts'
import { installationRoute, type RelayRoute } from './reports.ts'

export const unmatchedReasons = [
  'no_report', // it was no report that anybody can read: a vacation note, an answer of a person
  'not_armed', // nothing was ever transmitted for that message
  'unknown_message', // no token or id in it names a message of ours
  'not_a_complaint', // bounces come to return paths
  'reporter_not_proven', // a complaint without a valid, aligned DKIM signature of the reporter
  'sender_not_null', // a bounce with a sender: anybody may have written it
  'other_route', // a feed spoke about a message that did not go over its relay
] as const
export type UnmatchedReason = (typeof unmatchedReasons)[number]

export interface NewUnmatched {
  readonly reason: UnmatchedReason
  /** `mail`, or the name of a feed. */
  readonly source: string
  readonly sender: string
  readonly addressee: string
  readonly facts: object
  readonly content: Buffer
}

export interface Unmatched extends Omit<NewUnmatched, 'content'> {
  readonly id: string
  readonly receivedAt: Date
  readonly sizeBytes: number
}

const insert = sql(
  'insert-unmatched',
  `insert into unmatched_feedback (id, reason, source, sender, addressee, facts, size_bytes, content)
   values (${dated('$1')}, $2, $3, $4, $5, $6::text::json, $7, $8)`,
)
const columns = `id, received_at "receivedAt", reason, source, sender, addressee, facts, size_bytes "sizeBytes"`
const page = sql(
  'page-unmatched',
  `select ${columns} from unmatched_feedback where id < coalesce($1::uuid, '${greatestId}') order by id desc limit $2`,
)
const one = sql('find-unmatched', `select ${columns}, content from unmatched_feedback where id = $1`)
// What other releases kept names no route, and PostgreSQL may not be able to read it: in somebody's words a quotation mark stands behind a backslash.
const late = sql(
  'late-relayed',
  `select u.id, u.received_at::text "at", u.source, u.facts ->> 'route' route, u.content from unmatched_feedback u
    where u.received_at > app_now() - $1 * interval '1 millisecond' and u.reason = 'unknown_message'
      and (u.received_at, u.id) > ($3::timestamptz, $4::uuid)
      and case when position('"route":' in u.facts::text) > 0 then exists (
        select from json_array_elements_text(u.facts -> 'providerMessageIds') as said (id)
          join relayed r on r.provider_id = said.id
           and r.route = coalesce(nullif(u.facts ->> 'route', 'installation')::uuid, '${installationRoute}')) end
    order by u.received_at, u.id limit $2`,
)
const forget = sql('forget-unmatched', 'delete from unmatched_feedback where id = $1')
const pruneOld = sql(
  'prune-unmatched-old',
  `delete from unmatched_feedback where id = any (array(
     select u.id from unmatched_feedback u where u.received_at < app_now() - $1 * interval '1 millisecond'
      order by u.received_at limit $2 for update skip locked)) returning 1`,
)
const pruneMany = sql(
  'prune-unmatched-many',
  `delete from unmatched_feedback where id = any (array(
     select u.id from unmatched_feedback u order by u.received_at desc offset $1 limit $2)) returning 1`,
)

/** As text that PostgreSQL can take members out of: what strangers say may have U+0000 in it, or half a surrogate pair. */
const readable = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\ufffd') : value

export async function keepUnmatched(db: Db, row: NewUnmatched): Promise<void> {
  await db.rows(insert, [
    randomUUIDv7(),
    row.reason,
    row.source,
    row.sender,
    row.addressee,
    JSON.stringify(row.facts, readable),
    row.content.length,
    row.content.subarray(0, limits.unmatchedContentBytesMax),
  ])
}

/** Newest first, from before an id. */
export const pageUnmatched = (db: Db, before: string | undefined, most: number): Promise<Unmatched[]> =>
  db.rows<Unmatched>(page, [before ?? null, most])

export async function findUnmatched(
  db: Db,
  id: string,
): Promise<(Unmatched & { readonly content: Buffer }) | undefined> {
  return (await db.rows<Unmatched & { readonly content: Buffer }>(one, [id]))[0]
}

/** Where a look at them ended: with this one, or before the first. */
export interface LateCursor {
  readonly at: string
  readonly id: string
}
export const beforeAllLate: LateCursor = { at: '-infinity', id: leastId }

export interface LateRelayed extends LateCursor {
  readonly source: string
  readonly route: RelayRoute
  readonly content: Buffer
}

/**
 * Of a feed, and about no known message when it came; of its ids a relay has meanwhile given us one. Only of the last hour, behind the cursor, so many
 * at once.
 */
export const findLateRelayed = (db: Db, behind: LateCursor, most: number): Promise<LateRelayed[]> =>
  db.rows(late, [limits.unmatchedLateMs, most, behind.at, behind.id])

export async function forgetUnmatched(db: Db, id: string): Promise<void> {
  await db.rows(forget, [id])
}

/** Removes what is too old, and the oldest beyond the bound. */
export async function pruneUnmatched(db: Db): Promise<void> {
  const most = limits.prunedAtOnce
  await inBites(most, async () => (await db.rows(pruneOld, [limits.unmatchedFeedbackMs, most])).length)
  await inBites(most, async () => (await db.rows(pruneMany, [limits.unmatchedFeedbackMax, most])).length)
}
