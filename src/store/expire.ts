// What has expired in the queue, whatever holds it up there. A claim judges what it takes; a message whose destination gets no turn for long
// (a pause, a warm-up) would stay `queued` long after its time.
import { limits } from '../config.ts'
import type { MessageId } from '../domain/message.ts'
import { mayBlameRows, sql, type Db } from './database.ts'
import { setAsideRefused, type Refused } from './refused-rows.ts'

/**
 * What has expired on these pages of the queue, and how many pages it has. No index knows when what expires, for each change of a row would write it; but
 * rows read as they lie cost a fifth of those that an index leads to. One that moves meanwhile is met by the next walk. None while delivery is stopped.
 */
const overdue = sql(
  'overdue',
  `select array(select o.message_id::text from outbound o
                 where o.ctid >= $1::tid and o.ctid < $2::tid and o.lease_until is null and o.expires_at <= (select app_now())
                   and not exists (select from delivery_stops)
                 limit $3::integer) ids,
          ceil(pg_relation_size('outbound') / current_setting('block_size')::float8) pages`,
)

/** Locks what nobody else has taken, in the order of the ids. */
const holdOverdue = sql(
  'hold-overdue',
  `select o.message_id id from outbound o
    where o.message_id = any ($1::uuid[]) and o.lease_until is null and o.expires_at <= app_now() order by o.message_id for update skip locked`,
)

/** As in a claim: the row is gone, the record says `failed`, and so does an event. */
const expire = sql(
  'expire',
  `with gone as (
    delete from outbound o
     where o.message_id = any ($1::uuid[]) and o.lease_until is null and o.expires_at <= app_now() and not exists (select from delivery_stops)
    returning o.message_id, o.workspace_id),
  moved as materialized (select * from gone order by message_id),
  record as (
    update messages m
       set status = 'failed', sequence = m.sequence + 1, finished_at = app_now(),
           error_message = 'The message expired before it could be delivered.'
      from moved j where m.workspace_id = j.workspace_id and m.id = j.message_id
    returning m.workspace_id, m.id, m.sequence, m.status, m.delivery_rank, m.error_message),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.workspace_id, r.id, r.sequence, 'message.' || r.status, r.status, r.delivery_rank, app_now(),
           json_build_object('reason', 'expired', 'errorMessage', r.error_message)
      from record r)
  select id from record`,
)

/** `passed`: that somebody else holds, or the database refuses to end; they are not among those that have `expired`. */
interface Ended {
  readonly expired: readonly MessageId[]
  readonly passed: number
}

/** Where the database refuses them, each half of them alone, so that one message holds up no others. */
async function end(db: Db, ids: readonly string[], refused: Refused): Promise<Ended> {
  try {
    return await db.transaction(async (tx) => {
      const held = (await tx.rows<{ id: MessageId }>(holdOverdue, [ids])).map(({ id }) => id)
      const expired = held.length === 0 ? [] : await tx.rows<{ id: MessageId }>(expire, [held])
      return { expired: expired.map(({ id }) => id), passed: ids.length - held.length }
    })
  } catch (error) {
    if (!mayBlameRows(error)) throw error
    if (ids.length === 1) {
      if ((await setAsideRefused(db, error, refused)) === 0) refused(error as Error)
      return { expired: [], passed: 1 }
    }
    const half = ids.length >> 1
    const [one, other] = [await end(db, ids.slice(0, half), refused), await end(db, ids.slice(half), refused)]
    return { expired: [...one.expired, ...other.expired], passed: one.passed + other.passed }
  }
}

/** One step of a walk over the queue, from this page on: what of it has expired is `failed`. `next`: where the walk goes on; undefined at its end. */
export async function expireSome(
  db: Db,
  from: number,
  refused: Refused = () => undefined,
): Promise<{ readonly expired: readonly MessageId[]; readonly next: number | undefined }> {
  const most = limits.expiryRowsPerLook
  const to = from + limits.expiryPagesPerLook
  const [row] = await db.rows<{ readonly ids: readonly string[]; readonly pages: number }>(overdue, [
    `(${from},0)`,
    `(${to},0)`,
    most,
  ])
  const { ids, pages } = row ?? { ids: [], pages: 0 }
  const { expired, passed } = ids.length === 0 ? { expired: [], passed: 0 } : await end(db, ids, refused)
  // Where none of them could be ended there is nothing to stay for.
  const isLeft = ids.length === most && passed < most
  return { expired, next: isLeft ? from : to < pages ? to : undefined }
}
