// What operators look at in the dashboard: the queue, and the installation.
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { readStops, type DeliveryStop } from '../store/fence.ts'
import { readDatabaseFacts, readLaneReasons, readLanes, type LaneReason } from '../store/views/operations.ts'

export interface QueueLane {
  readonly workspaceId: WorkspaceId
  readonly workspaceName: string
  readonly destination: string
  readonly status: string
  readonly count: number
  readonly oldestDueAt: Date
  readonly attemptsMax: number
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
    lanes: rows.map((row) => ({
      workspaceId: row.workspace_id,
      workspaceName: row.workspace_name,
      destination: row.destination,
      status: row.status,
      count: row.many,
      oldestDueAt: row.oldest_due_at,
      attemptsMax: row.attempts_max,
      ...(row.status === 'retrying' && whyOf(reasons.get(laneOf(row)))),
    })),
  }
}

const laneOf = (row: { readonly workspace_id: WorkspaceId; readonly destination: string }): string =>
  `${row.workspace_id} ${row.destination}`

function whyOf(why: LaneReason | undefined): Pick<QueueLane, 'reason' | 'error' | 'messageId'> {
  if (why === undefined) return {}
  return { reason: why.reason, messageId: why.message_id, ...(why.error !== null && { error: why.error }) }
}

export interface Health {
  readonly version: string
  readonly database: {
    readonly version: string
    readonly sizeBytes: number
    readonly startedAt: Date
    readonly now: Date
  }
  readonly stops: readonly Stop[]
}

export async function readHealth(db: Db, version: string): Promise<Health> {
  const [{ version: server, now, size_bytes, started_at }, stops] = await Promise.all([
    readDatabaseFacts(db),
    readStopsOf(db),
  ])
  return { version, database: { version: server, sizeBytes: size_bytes, startedAt: started_at, now }, stops }
}
