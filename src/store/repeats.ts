// Keys that only keep a lost answer from becoming a second mail (delivery-semantics 9): after their hour they are swept.
import { limits } from '../config.ts'
import { sql, type Db } from './database.ts'

const sweep = sql(
  'sweep-repeats',
  `with old as materialized (
     select ctid row from idempotency_keys
      where endpoint = 'smtp-repeat' and created_at < app_now() - $1 * interval '1 millisecond'
      order by created_at limit 1000 for update skip locked)
   delete from idempotency_keys k using old where k.ctid = old.row returning k.message_id`,
)

/** Removes up to 1,000 that do not count any more; returns how many. */
export async function sweepRepeats(db: Db): Promise<number> {
  return (await db.rows(sweep, [limits.repeatKeptMs])).length
}
