// Whether anybody posts webhooks at all: the time in which no sender was there (the service off, the machine asleep) is none in which an endpoint failed.
import { limits } from '../config.ts'
import { despiteDeadlocks, sql, type Db } from './database.ts'

// An endpoint that somebody holds (an operator's psql, left open) is passed by, because nothing could be posted to anybody until it was free: of that one the absence
// counts, as if somebody had been there.
const there = sql(
  'webhook-senders-there',
  `with before as materialized (
     select to_timestamp(i.value::float8) at from installation i where i.name = 'webhook_senders_there' for update),
   said as (
     insert into installation (name, value) values ('webhook_senders_there', extract(epoch from app_now())::text)
     on conflict (name) do update set value = excluded.value)
   update webhook_endpoints e set failing_since = app_now() - greatest(interval '0', b.at - e.failing_since)
     from before b where b.at < app_now() - $1 * interval '1 millisecond'
       and e.workspace_id = any (array(select x.workspace_id from webhook_endpoints x where x.failing_since is not null for update skip locked))`,
)

/** Says now and then that senders are there. To be awaited before a result is written: behind a long absence the first failure would disable an endpoint. */
export function sendersThere(db: Db): () => Promise<unknown> {
  let saidAt = -Infinity
  let said: Promise<unknown> = Promise.resolve()
  return () => {
    // By the date: other clocks stand still while the machine sleeps.
    if (Math.abs(Date.now() - saidAt) >= limits.webhookThereMs) {
      saidAt = Date.now()
      said = despiteDeadlocks(() => db.rows(there, [limits.webhookAwayMs]))
      said.catch(() => (saidAt = -Infinity))
    }
    return said
  }
}
