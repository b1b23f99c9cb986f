// What operators look at in the dashboard: the queue, and the installation.
import { limits } from '../config.ts'
import type { MessageId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { readStops, type DeliveryStop } from '../store/fence.ts'
import {
  readDatabaseFacts,
  readLaneReasons,
  readLanes,
  type DatabaseFacts,
  type LaneReason,
  type LaneRow,
} from '../store/views/operations.ts'

export interface QueueLane extends Omit<LaneRow, 'total' | 'groups' | 'more'> {
  /** Why it waits for another try: of most last attempts that were looked at, with what one of them saw. */
  readonly reason?: string
  readonly error?: string
  readonly messageId?: MessageId
}

export interface Queue {
  readonly total: number
  readonly truncated: boolean
  /** Of workspace, destination and state; `lanes` has the largest of them. */
  readonly groups: number
  readonly lanes: readonly QueueLane[]
  readonly stops: readonly Stop[]
}

/** What stops delivery everywhere. */
export type Stop = Pick<DeliveryStop, 'kind' | 'reason' | 'since'>

const readStopsOf = async (db: Db): Promise<readonly Stop[]> =>
  (await readStops(db.rows)).map(({ kind, reason, since }) => ({ kind, reason, since }))

export async function readQueue(db: Db): Promise<Queue> {
  const [rows, stops] = await Promise.all([
    readLanes(db, limits.queueRowsReadMax, limits.queueLanesShown),
    readStopsOf(db),
  ])
  const tried = rows.filter(({ status }) => status === 'retrying')
  const reasons = new Map(
    (tried.length === 0 ? [] : await readLaneReasons(db, tried)).map((row) => [laneOf(row), row] as const),
  )
  return {
    stops,
    total: rows[0]?.total ?? 0,
    truncated: rows[0]?.more ?? false,
    groups: rows[0]?.groups ?? 0,
    lanes: rows.map(({ total: _total, groups: _groups, more: _more, ...lane }) => ({
      ...lane,
      ...(lane.status === 'retrying' && whyOf(reasons.get(laneOf(lane)))),
    })),
  }
}

const laneOf = (row: Pick<LaneRow, 'workspaceId' | 'destination'>): string => `${row.workspaceId} ${row.destination}`

function whyOf(why: LaneReason | undefined): Pick<QueueLane, 'reason' | 'error' | 'messageId'> {
  if (why === undefined) return {}
  const { reason, error, messageId } = why
  return { reason, messageId, ...(error !== null && { error }) }
}

export interface Health {
  readonly version: string
  readonly database: DatabaseFacts
  readonly stops: readonly Stop[]
}

export async function readHealth(db: Db, version: string): Promise<Health> {
  const [database, stops] = await Promise.all([readDatabaseFacts(db), readStopsOf(db)])
  return { version, database, stops }
}
