// Snapshots that are held from elsewhere: a standby tells what its readers can still see (hot_standby_feedback), and nothing of that is cleaned up here. It is in no
// transaction of this server, and a slot keeps it when the standby is gone (docs/decisions/0060).
import { limits } from '../config.ts'
import type { Db } from './database.ts'

interface Held {
  readonly whose: string
  /** The slot, where nobody is connected to it. */
  readonly left: string | null
  /** So many have begun since. How long that is nobody knows; but it is by them that the tables grow. */
  readonly transactions: number
}

/** The oldest of them, as one sentence, where it is of longer ago than so many transactions. */
export async function warningsAboutSnapshots(
  db: Db,
  transactions: number = limits.snapshotTransactionsMost,
): Promise<string[]> {
  const [held] = await db.run<Held>(
    `select * from (
       select 'the replication slot ' || quote_literal(slot_name) whose, case when not active then quote_literal(slot_name) end "left", age(xmin) transactions
         from pg_replication_slots where xmin is not null
       union all
       select 'the standby ' || quote_literal(application_name), null, age(backend_xmin) from pg_stat_replication where backend_xmin is not null) held
      where held.transactions > $1 order by held.transactions desc limit 1`,
    [transactions],
  )
  if (held === undefined) return []
  const { whose, left } = held
  const way =
    left === null
      ? 'Look on that standby for who has been reading for so long (pg_stat_activity), or turn hot_standby_feedback off there.'
      : `Nobody is connected to it: bring its standby back; for one that will not come, select pg_drop_replication_slot(${left}).`
  return [
    `What could be seen ${held.transactions} transactions ago is kept for ${whose} (hot_standby_feedback): until it lets go nothing that was deleted since is cleaned up, so the database grows and slows down. ${way}`,
  ]
}
