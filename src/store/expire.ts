// What has expired in the queue, whatever holds it up there. A claim judges what it takes; a message whose destination gets no turn for long
// (a pause, a warm-up) would stay `queued` long after its time.
import { limits } from '../config.ts'
import type { MessageId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'

/** Where a walk over the queue goes on. */
export interface QueuePlace {
  readonly workspaceId: string
  /** As the database wrote it: a Date has no microseconds. */
  readonly dueAt: string
  readonly messageId: string
}

const before = '00000000-0000-0000-0000-000000000000'
export const queueBegins: QueuePlace = { workspaceId: before, dueAt: '-infinity', messageId: before }

/** The next rows in the order of the index `outbound_turns`, so many at most, and which of them have expired. None while delivery is stopped. */
const overdue = sql(
  'overdue',
  `with seen as materialized (
    select o.workspace_id, o.due_at, o.message_id, o.expires_at from outbound o
     where o.lease_until is null and o.attempts >= 0 and (o.workspace_id, o.due_at, o.message_id) > ($1::uuid, $2::timestamptz, $3::uuid)
       and not exists (select from delivery_stops)
     order by o.workspace_id, o.due_at, o.message_id limit $4::integer)
  select array(select s.message_id::text from seen s where s.expires_at <= (select app_now()) order by 1) ids, count(*)::integer many,
         (select json_build_object('workspaceId', s.workspace_id, 'dueAt', s.due_at::text, 'messageId', s.message_id) from seen s
           order by s.workspace_id desc, s.due_at desc, s.message_id desc limit 1) last
    from seen`,
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

/** One step of a walk over the queue: what of it has expired is `failed`. `next`: where the walk goes on; undefined at its end. */
export async function expireSome(
  db: Db,
  from: QueuePlace,
): Promise<{ readonly expired: readonly MessageId[]; readonly next: QueuePlace | undefined }> {
  type Row = { readonly ids: readonly string[]; readonly many: number; readonly last: QueuePlace | null }
  const most = limits.expiryRowsPerLook
  const [row] = await db.rows<Row>(overdue, [from.workspaceId, from.dueAt, from.messageId, most])
  const { ids = [], many = 0, last } = row ?? {}
  const expired =
    ids.length === 0
      ? []
      : await db.transaction(async (tx) => {
          const held = await tx.rows<{ id: MessageId }>(holdOverdue, [ids])
          return held.length === 0 ? [] : tx.rows<{ id: MessageId }>(expire, [held.map(({ id }) => id)])
        })
  return { expired: expired.map(({ id }) => id), next: many < most ? undefined : (last ?? undefined) }
}
