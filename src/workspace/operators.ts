// What operators look at in the dashboard: the queue, and the installation.
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { readDatabaseFacts, readLanes } from '../store/views/operations.ts'

/** Rows of the queue that the overview looks at. */
const queueRowsMax = 100_000

export interface QueueLane {
  readonly workspaceId: WorkspaceId
  readonly workspaceName: string
  readonly destination: string
  readonly status: string
  readonly count: number
  readonly oldestDueAt: Date
  readonly attemptsMax: number
}

export async function readQueue(
  db: Db,
): Promise<{ readonly total: number; readonly truncated: boolean; readonly lanes: readonly QueueLane[] }> {
  const rows = await readLanes(db, queueRowsMax)
  const total = rows.reduce((sum, row) => sum + row.many, 0)
  return {
    total,
    truncated: total >= queueRowsMax || rows.length >= 200,
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
