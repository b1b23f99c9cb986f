// What was refused and never became a message (decisions H): code, time, source, the recipient's domain. Written behind the answers, in
// batches; where the database is slower than the refusals, or one workspace has very many, they are counted and not kept: nobody waits for this
// record. Kept 30 days.
import { randomUUIDv7 } from 'node:crypto'
import type { Log } from '../base/log.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { RefusalCode } from '../domain/refusal.ts'
import { Batch } from '../base/batch.ts'
import { dated, sql, mayBlameRows, type Db } from './database.ts'

export interface RefusedSubmission {
  readonly workspaceId: WorkspaceId
  readonly source: 'rest' | 'smtp'
  readonly code: RefusalCode
  /** Left out where it is not known. */
  readonly recipientDomain?: string
}

export interface RefusalRow {
  readonly id: string
  readonly at: Date
  readonly source: 'rest' | 'smtp'
  readonly code: RefusalCode
  readonly recipientDomain: string | null
}

const insert = sql(
  'note-refusals',
  `insert into refused_submissions (workspace_id, id, source, code, recipient_domain)
   select r.w, ${dated('r.id')}, r.source, r.code, r.domain from json_to_recordset($1::text::json) as r (w uuid, id uuid, source text, code text, domain text)`,
)
const latest = sql(
  'latest-refusals',
  `select id, at, source, code, recipient_domain "recipientDomain" from refused_submissions
    where workspace_id = $1 and id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') order by id desc limit $3`,
)
const prune = sql(
  'prune-refusals',
  `with old as materialized (
     select ctid row from refused_submissions where at < app_now() - $1 * interval '1 millisecond' order by at limit 1000 for update skip locked)
   delete from refused_submissions r using old where r.ctid = old.row returning r.id`,
)

export interface RefusalBook {
  /** Never throws, never waits. */
  note(refused: RefusedSubmission): void
  /** Resolves when all that was noted is written or given up. */
  quiet(): Promise<void>
}

export function makeRefusalBook(db: Db, log: Log, now = () => performance.now()): RefusalBook {
  let tooMany = 0
  let unwritten = 0
  /** Of each workspace in this hour. */
  const counts = new Map<WorkspaceId, number>()
  let hourEndsAt = -Infinity
  const isTooMuch = (workspace: WorkspaceId): boolean => {
    if (now() >= hourEndsAt) {
      counts.clear()
      hourEndsAt = now() + 3600_000
    }
    const count = (counts.get(workspace) ?? 0) + 1
    counts.set(workspace, count)
    return count > limits.refusalsPerHourMax
  }
  const write = async (rows: readonly RefusedSubmission[]): Promise<readonly undefined[]> => {
    const json = rows.map(({ workspaceId: w, source, code, recipientDomain: domain }) => ({
      w,
      id: randomUUIDv7(),
      source,
      code,
      domain,
    }))
    await db.rows(insert, [JSON.stringify(json)])
    if (tooMany + unwritten > 0) {
      const why = `${tooMany} beyond what is kept of a workspace in an hour, ${unwritten} that could not be written`
      log.fault('refused submissions: not all are in the record', new Error(why))
      tooMany = 0
      unwritten = 0
    }
    return rows.map(() => undefined)
  }
  const bounds = {
    rowsMax: limits.admitRowsMax,
    bytesMax: limits.admitBytesMax,
    waitingMax: limits.refusalsWaitingMax,
    spacingMs: limits.refusalsSpacingMs,
  }
  const batch = new Batch(write, bounds, mayBlameRows)
  return {
    note: (refused) => {
      if (isTooMuch(refused.workspaceId)) tooMany++
      else
        batch.add(refused).catch(() => {
          unwritten++
        })
    },
    quiet: () => batch.quiet(),
  }
}

/** Newest first; `before` is the id of the last one of the page before. */
export const listRefusals = (db: Db, workspace: WorkspaceId, most: number, before?: string): Promise<RefusalRow[]> =>
  db.rows<RefusalRow>(latest, [workspace, before ?? null, most])

/** Removes up to 1,000 that are older than they are kept; returns how many. */
export async function pruneRefusals(db: Db): Promise<number> {
  return (await db.rows(prune, [limits.refusalsKeptMs])).length
}
