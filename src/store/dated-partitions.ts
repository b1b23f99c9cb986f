// The partitions of a backup: a restore makes those that there were, and no others. For years of records, and days of content, there would be more of them than the
// server has room for locks.
import type { Client } from 'pg'

export interface DatedPartition {
  readonly parent: string
  readonly low: string
  readonly high: string
}

/** A column of a select. */
export const datedPartitions = `(
  select coalesce(json_agg(json_build_object('parent', parent, 'low', low, 'high', high)), '[]') from dated_partitions())`

const made = 'select child from dated_partitions()'
const makeAgain = `
  select make_partition_1(p.parent, instant_of(p.low), instant_of(p.high))
    from json_to_recordset($1::text::json) as p (parent text, low uuid, high uuid)`
const makeAhead = `select ensure_partitions(app_now() - interval '1 day', app_now() + interval '14 days')`

/** In place of those that migrations have made, which are empty; and what mail of today needs. */
export async function makePartitionsAgain(client: Client, partitions: readonly DatedPartition[]): Promise<void> {
  for (const { child } of (await client.query<{ child: string }>(made)).rows) await client.query(`drop table ${child}`)
  await client.query(makeAgain, [JSON.stringify(partitions)])
  await client.query(makeAhead)
}
