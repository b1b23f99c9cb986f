// Keys that only keep a lost answer from becoming a second mail (delivery-semantics 9, decision 0081): each counts for its time (`keep_ms` of the
// admission), and of those that are older than the shortest time the newest are kept, whatever was between: an outage pushes none out.
import { limits } from '../config.ts'
import { sql, type Db } from './database.ts'

/** Of this time and before are those that are too many; no row: none is. */
const surplus = sql(
  'repeats-surplus',
  `select k.created_at::text at from idempotency_keys k where k.endpoint = 'smtp-repeat' order by k.created_at desc offset $1::bigint limit 1`,
)
const sweep = sql(
  'sweep-repeats',
  `with old as materialized (
     select ctid row from idempotency_keys
      where endpoint = 'smtp-repeat' and created_at <= greatest(
              app_now() - $2 * interval '1 millisecond',
              least(app_now() - $1 * interval '1 millisecond', $3::timestamptz))
      order by created_at limit 1000 for update skip locked)
   delete from idempotency_keys k using old where k.ctid = old.row returning k.message_id`,
)

/** Removes those that do not count any more, and of the others those beyond the newest `most`; returns how many. */
export async function sweepRepeats(db: Db, most: number = limits.datedRepeatsKept): Promise<number> {
  const [tooMany] = await db.rows<{ at: string }>(surplus, [most])
  const asked = [limits.repeatKeptMs, limits.datedRepeatKeptMs, tooMany?.at ?? '-infinity']
  let swept = 0
  for (let many = 1_000; many === 1_000; swept += many) many = (await db.rows(sweep, asked)).length
  return swept
}
