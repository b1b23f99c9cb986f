// How deep the queue is and how late: for metrics and the doctor. Looks at a bounded number of rows; a deeper queue is told as that deep.
import { limits } from '../config.ts'
import { sql, type Db } from './database.ts'
import type { RelayRoute } from './reports.ts'

export interface QueueFacts {
  readonly byStatus: readonly { readonly status: 'queued' | 'retrying' | 'sending'; readonly many: number }[]
  /** How long the oldest message that nobody has claimed is due; 0 where none is. */
  readonly oldestDueSeconds: number
  /** There are more than were counted. */
  readonly truncated: boolean
}

const read = sql(
  'queue-facts',
  `select q.status, count(*)::integer many,
          coalesce(extract(epoch from app_now() - min(q.due_at) filter (where q.status <> 'sending')), 0)::float8 "oldestDueSeconds"
     from (select o.status, o.due_at from outbound o limit $1) q group by q.status order by q.status`,
)

export async function readQueueFacts(db: Db): Promise<QueueFacts> {
  const rows = await db.rows<{ status: 'queued' | 'retrying' | 'sending'; many: number; oldestDueSeconds: number }>(
    read,
    [limits.queueFactsRowsMax],
  )
  return {
    byStatus: rows.map(({ status, many }) => ({ status, many })),
    oldestDueSeconds: Math.max(0, ...rows.map((row) => row.oldestDueSeconds)),
    truncated: rows.reduce((sum, { many }) => sum + many, 0) >= limits.queueFactsRowsMax,
  }
}

// Row by row: as a join the queue would be read once for each endpoint (docs/decisions/0006).
const webhooks = sql(
  'webhook-queue-facts',
  `select count(*)::integer many,
          greatest(0, coalesce(extract(epoch from app_now() - min(q.due_at) filter (where q.lease_until is null)), 0))::float8 "oldestDueSeconds"
     from (select w.due_at, w.lease_until from webhook_queue w cross join lateral (
             select from webhook_endpoints e where e.workspace_id = w.workspace_id and e.state = 'active' limit 1) wanted limit $1) q`,
)

/** Events that wait for an endpoint that is active. */
export async function readWebhookQueueFacts(
  db: Db,
): Promise<{ readonly many: number; readonly oldestDueSeconds: number }> {
  const [row] = await db.rows<{ many: number; oldestDueSeconds: number }>(webhooks, [limits.queueFactsRowsMax])
  return row ?? { many: 0, oldestDueSeconds: 0 }
}

// One look-up in `outbound_turns` for each workspace, as a claim does; of what is in flight there are few.
const waitedFor = sql(
  'routes-waited-for',
  `with sending as materialized (select o.workspace_id from outbound o where o.lease_until is not null),
        waits as materialized (
     select w.id, w.route_sealed is not null own from workspaces w
      where (($2 and w.route_sealed is null) or (w.id = any ($1::uuid[]) and w.route_sealed is not null))
        and (exists (select from outbound o where o.workspace_id = w.id and o.lease_until is null and o.attempts >= 0)
             or w.id in (select s.workspace_id from sending s)))
   select distinct case when own then id::text else 'installation' end whose from waits`,
)

/** Those of these routes that mail which is not final goes over. */
export async function routesWaitedFor(db: Db, whose: readonly RelayRoute[]): Promise<readonly RelayRoute[]> {
  const own = whose.filter((each) => each !== 'installation')
  const rows = await db.rows<{ whose: RelayRoute }>(waitedFor, [own, own.length < whose.length])
  return rows.map((row) => row.whose)
}
