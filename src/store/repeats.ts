// Keys that only keep a lost answer from becoming a second mail (delivery-semantics 9, decision 0081): each counts for its time (`keep_ms` of the
// admission), and of those that are older than the shortest time the newest of each workspace are kept, whatever was between: neither an outage nor a
// busy neighbour pushes any out.
import { limits } from '../config.ts'
import { sql, type Db } from './database.ts'

/** A row: there are too many. */
const surplus = sql(
  'repeats-surplus',
  `select from idempotency_keys k where k.endpoint = 'smtp-repeat' order by k.created_at desc offset $1::bigint limit 1`,
)
/** Of this time and before are those that a workspace has beyond its share: as many for each, and more where others have fewer. */
const beyond = sql(
  'repeats-beyond-shares',
  `with ranked as materialized (
     select k.workspace_id, k.created_at, row_number() over (partition by k.workspace_id order by k.created_at desc) nth
       from idempotency_keys k where k.endpoint = 'smtp-repeat'),
   share as (select r.nth from ranked r order by r.nth offset $1::bigint limit 1)
   select r.workspace_id workspace, max(r.created_at)::text at from ranked r where r.nth >= (select s.nth from share s) group by r.workspace_id`,
)
/** In the order of the index from where the last bite ended, so that what stays is passed once. */
const sweep = sql(
  'sweep-repeats',
  `with old as materialized (
     select ctid row from idempotency_keys
      where endpoint = 'smtp-repeat' and created_at >= $4::timestamptz and created_at <= app_now() - $1 * interval '1 millisecond'
        and created_at <= greatest(app_now() - $2 * interval '1 millisecond', ($3::text::jsonb ->> workspace_id::text)::timestamptz)
      order by created_at limit 1000 for update skip locked),
   swept as (
     delete from idempotency_keys k using old where k.ctid = old.row returning k.created_at)
   select count(*)::integer many, max(s.created_at)::text last from swept s`,
)

/** Removes those that do not count any more, and of the others what keeps them from being `most`; returns how many. */
export async function sweepRepeats(db: Db, most: number = limits.datedRepeatsKept): Promise<number> {
  const areTooMany = (await db.rows(surplus, [most])).length > 0
  const over = areTooMany ? await db.rows<{ workspace: string; at: string }>(beyond, [most]) : []
  const until = JSON.stringify(Object.fromEntries(over.map(({ workspace, at }) => [workspace, at])))
  const bite = async (from: string) => {
    const asked = [limits.repeatKeptMs, limits.datedRepeatKeptMs, until, from]
    return (await db.rows<{ many: number; last: string }>(sweep, asked))[0]
  }
  let swept = 0
  for (let last = await bite('-infinity'); last !== undefined;) {
    swept += last.many
    last = last.many === 1_000 ? await bite(last.last) : undefined
  }
  return swept
}
