// What operators look at in the dashboard: the queue, and the installation.
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { readDatabaseFacts, readLanes } from '../store/views/operations.ts'

export interface QueueLane {
  readonly workspaceId: WorkspaceId
  readonly workspaceName: string
  readonly destination: string
  readonly status: string
  readonly count: number
  readonly oldestDueAt: Date
  readonly attemptsMax: number
}

export interface Queue {
  readonly total: number
  readonly truncated: boolean
  /** Of workspace, destination and state; `lanes` has the largest of them. */
  readonly groups: number
  readonly lanes: readonly QueueLane[]
}

export async function readQueue(db: Db): Promise<Queue> {
  const rows = await readLanes(db, limits.queueRowsReadMax, limits.queueLanesShown)
  return {
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
    })),
  }
}

export interface Health {
  readonly version: string
  readonly database: {
    readonly version: string
    readonly sizeBytes: number
    readonly startedAt: Date
    readonly now: Date
  }
}

export async function readHealth(db: Db, version: string): Promise<Health> {
  const { version: server, now, size_bytes, started_at } = await readDatabaseFacts(db)
  return { version, database: { version: server, sizeBytes: size_bytes, startedAt: started_at, now } }
}
