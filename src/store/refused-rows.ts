// What the database refuses to change in the queue, because the rows of a message contradict each other: after a restore of single tables, or by a hand. It
// refuses the whole statement, of all messages that are in it; so that none holds up the others, it is taken out of their way, and the operator told.
import { limits } from '../config.ts'
import { sql, sqlState, type Db } from './database.ts'

/** Hears of each row that is taken out of the way. */
export type Refused = (error: Error) => void

/** A final record is all that counts. Else what is due waits: nothing of it changes but when it is looked at again. Not what is under way. */
const setAside = sql(
  'set-aside',
  `with named as materialized (
     select o.ctid row, o.message_id, o.lease_until is not null leased, m.status
       from outbound o
       left join lateral (
         select x.status from messages x
          where x.workspace_id = o.workspace_id and x.id = o.message_id and x.status in ('sent', 'failed', 'delivery_unknown') limit 1) m on true
      where o.message_id = any ($1::uuid[]) order by o.message_id),
   gone as (
     delete from outbound o using named n where o.ctid = n.row and n.status is not null and coalesce(o.lease_until <= app_now(), true)
     returning n.message_id, n.status),
   later as (
     update outbound o
        set due_at = case when n.leased then o.due_at else app_now() + $2 * interval '1 millisecond' end,
            lease_until = case when n.leased then app_now() + $2 * interval '1 millisecond' end
       from named n where o.ctid = n.row and n.status is null and not $3 and coalesce(o.lease_until, o.due_at) <= app_now()
     returning n.message_id, null)
   select message_id id, status from gone union all select * from later order by 1`,
)

/** The server names the row in what it says of a trigger, a check or a key. */
function idsIn(error: unknown): string[] {
  if (!sqlState(error)?.startsWith('23')) return []
  const { message, detail } = error as Error & { readonly detail?: string }
  return `${message} ${detail ?? ''}`.match(/\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b/g) ?? []
}

/** Sets aside the rows that this error names, where `endedOnly` those of final records alone; answers how many they were. */
export async function setAsideRefused(db: Db, error: unknown, refused: Refused, endedOnly = false): Promise<number> {
  const ids = idsIn(error)
  if (ids.length === 0) return 0
  const rows = await db.rows<{ id: string; status: string | null }>(setAside, [ids, limits.refusedRowRestMs, endedOnly])
  for (const { id, status } of rows) {
    const what =
      status === null ? 'is put off, because its rows contradict each other' : `is ${status}, and out of the queue now`
    refused(new Error(`message ${id} ${what}: ${(error as Error).message}`, { cause: error }))
  }
  return rows.length
}

/** Asks again without the rows that the database refuses, a bounded number of times. */
export async function pastRefused<T>(db: Db, ask: () => Promise<T>, refused: Refused, endedOnly = false): Promise<T> {
  for (let times = 1; ; times++) {
    try {
      return await ask()
    } catch (error) {
      if ((await setAsideRefused(db, error, refused, endedOnly)) === 0 || times === limits.refusedRowsAtOnce)
        throw error
    }
  }
}
