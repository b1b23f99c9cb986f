// Readers of events go by the numbers of transactions (views/webhook-events.ts), which mean something in their own cluster alone, and go back with a
// database that is put back. Then all readers begin anew: better twice than never. Who stood at a commit
// that a failover has lost notices by its event, which is gone.
import { limits } from '../config.ts'
import { inBites } from './bites.ts'
import { despiteDeadlocks, sql, type Db } from './database.ts'

/**
 * The number of an event that was written elsewhere: older than all that come, since every cluster has spent more of them on itself. One for each message,
 * whose events stay in their order by it; and some hundreds for all, because each page that is read goes along all events of its number.
 */
export const ofAnotherCluster = (messageId: string): string => `(3 + (hashtext(${messageId}::text) & 511))::text::xid8`

/** Readers notice by it that their place in the order is gone. */
export const renewMarkText = `insert into installation (name, value) values ('restored', gen_random_uuid()::text)
   on conflict (name) do update set value = excluded.value`
const renewMark = sql('renew-restored-mark', renewMarkText)

/** What we see was committed before we looked; a number that no transaction has had by then came with a dump, and would hide its event until then. */
const adopt = sql(
  'adopt-events',
  `with strange as materialized (
     select x.workspace_id, x.message_id, x.sequence from workspaces w cross join lateral (
       select e.workspace_id, e.message_id, e.sequence from events e
        where e.workspace_id = w.id and e.tx >= pg_snapshot_xmax(pg_current_snapshot()) order by e.tx desc limit $1) x limit $1),
   adopted as (
     update events e set tx = ${ofAnotherCluster('e.message_id')} from strange s
      where e.workspace_id = s.workspace_id and e.message_id = s.message_id and e.sequence = s.sequence returning 1)
   select count(*)::integer many from adopted`,
)

export async function beginOrderAnew(db: Db): Promise<void> {
  const most: number = limits.eventsAdoptedSlice
  await inBites(
    most,
    async () => (await despiteDeadlocks(() => db.rows<{ many: number }>(adopt, [most])))[0]?.many ?? 0,
  )
  await despiteDeadlocks(() => db.rows(renewMark))
}
