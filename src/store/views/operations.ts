// What operators look at: the queue by state and destination, and whether the database keeps up. Every statement is bounded.
import { limits } from '../../config.ts'
import type { MessageId, WorkspaceId } from '../../domain/message.ts'
import { sql, type Db } from '../database.ts'
import { greatestId } from '../message-id.ts'
import { workspaceColumns, type WorkspaceRow } from '../workspaces.ts'

const page = sql(
  'page-workspaces',
  `select ${workspaceColumns} from workspaces
    where id < coalesce($1::uuid, '${greatestId}') and ($2 = '' or position(lower($2) in lower(name)) > 0 or position(lower($2) in lower(own_name)) > 0)
    order by id desc limit $3`,
)

export const pageWorkspaceRows = (db: Db, before: string | undefined, text: string, most: number) =>
  db.rows<WorkspaceRow>(page, [before ?? null, text, most])

export interface LaneRow {
  readonly workspaceId: WorkspaceId
  readonly workspaceName: string
  readonly destination: string
  readonly status: string
  readonly count: number
  readonly oldestDueAt: Date
  readonly attemptsMax: number
  /** Of all that were looked at, in this group and the others. */
  readonly total: number
  readonly groups: number
  /** There are more than were looked at. */
  readonly more: boolean
}

// At most $1 rows of the queue are looked at: of a longer one this is the beginning. The sums are of all its groups, the rows of the $2 largest.
const lanes = sql(
  'queue-lanes',
  `select q.workspace_id "workspaceId", w.name "workspaceName", q.destination, q.status, q.many as count, q.oldest_due_at "oldestDueAt",
          q.attempts_max "attemptsMax", q.total, q.groups,
          q.total = $1 and exists (select from outbound offset $1 limit 1) more
     from (
       select l.workspace_id, l.destination, l.status, count(*)::integer many, min(l.due_at) oldest_due_at, max(l.attempts) attempts_max,
              (sum(count(*)) over ())::integer total, (count(*) over ())::integer groups
         from (select workspace_id, destination, status, due_at, attempts from outbound limit $1) l
        group by 1, 2, 3 order by many desc, 1, 2, 3 limit $2) q
     cross join lateral (select x.name from workspaces x where x.id = q.workspace_id limit 1) w
    order by q.many desc, 1, 3, 4`,
)

export const readLanes = (db: Db, rowsMax: number, lanesMax: number): Promise<LaneRow[]> =>
  db.rows<LaneRow>(lanes, [rowsMax, lanesMax])

export interface LaneReason {
  readonly workspaceId: WorkspaceId
  readonly destination: string
  readonly reason: string
  readonly messageId: MessageId
  /** In the words of the message: what its last attempt saw. */
  readonly error: string | null
}

// Of each lane $3 rows at the far end of its index are looked at, since what was tried often is due last, and of up to $4 of them the last attempt.
const laneReasons = sql(
  'lane-reasons',
  `select l.workspace_id "workspaceId", l.destination, most.reason, most.message_id "messageId", said.error_message error
     from unnest($1::uuid[], $2::text[]) l (workspace_id, destination)
     cross join lateral (
       select tried.reason, (array_agg(tried.message_id order by tried.ended_at desc))[1] message_id
         from (
           select o.message_id
             from (select x.message_id, x.status from outbound x
                    where x.workspace_id = l.workspace_id and x.destination = l.destination and x.destination <> '' and x.lease_until is null
                    order by x.due_at desc, x.message_id desc limit $3) o
            where o.status = 'retrying' limit $4) waiting
         cross join lateral (
           select a.message_id, a.ended_at, case when a.facts ->> 'trouble' in ('paced', 'gave_way') then a.facts ->> 'trouble' else a.facts ->> 'reason' end reason
             from attempts a where a.workspace_id = l.workspace_id and a.message_id = waiting.message_id order by a.epoch desc limit 1) tried
        where tried.reason is not null
        group by tried.reason order by count(*) desc, tried.reason limit 1) most
     left join lateral (
       select m.error_message from messages m where m.workspace_id = l.workspace_id and m.id = most.message_id limit 1) said on true`,
)

/** Why the mail of these lanes waits for another try, as most of their last attempts have it; none of a lane where nobody has tried. */
export const readLaneReasons = (
  db: Db,
  of: readonly Pick<LaneRow, 'workspaceId' | 'destination'>[],
): Promise<LaneReason[]> =>
  db.rows<LaneReason>(laneReasons, [
    of.map((lane) => lane.workspaceId),
    of.map((lane) => lane.destination),
    limits.queueLaneRowsRead,
    limits.queueLaneAttemptsRead,
  ])

export interface DatabaseFacts {
  readonly version: string
  readonly now: Date
  readonly sizeBytes: number
  readonly startedAt: Date
}

const facts = sql(
  'database-facts',
  `select current_setting('server_version') version, app_now() now, pg_database_size(current_database())::float8 "sizeBytes",
          pg_postmaster_start_time() "startedAt"`,
)

export async function readDatabaseFacts(db: Db): Promise<DatabaseFacts> {
  return (await db.rows<DatabaseFacts>(facts))[0] as DatabaseFacts
}
