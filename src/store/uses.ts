// When API keys and SMTP credentials were used last. No request waits for it, and many share a statement: one for each, with its commit, was most of what
// a little mail of each of thousands of workspaces cost.
import { Batch } from '../base/batch.ts'
import type { Log } from '../base/log.ts'
import { limits } from '../config.ts'
import type { Db } from './database.ts'
import type { StandingRow } from './term.ts'

export type Used = Pick<StandingRow, 'id' | 'workspace_id'>

export interface Uses {
  /** Never throws, never waits. What somebody wrote down in the last minute is passed over. */
  note(row: Pick<StandingRow, 'id' | 'workspace_id' | 'unseen'>): void
  /** Resolves when all that was noted is written or given up. */
  quiet(): Promise<void>
}

export function makeUses(
  db: Db,
  write: (db: Db, used: readonly Used[]) => Promise<void>,
  log: Log,
  what: string,
): Uses {
  const run = async (used: readonly Used[]): Promise<readonly undefined[]> => {
    await write(db, used).catch((error: unknown) => log.fault(what, error))
    return used.map(() => undefined)
  }
  const { usesAtOnceMax: rowsMax, usesSpacingMs: spacingMs, principalsMax: waitingMax } = limits
  const batch = new Batch(run, { rowsMax, bytesMax: Infinity, waitingMax, spacingMs }, () => false)
  return {
    note: ({ unseen, ...used }) => {
      if (unseen) batch.add(used).catch(() => undefined) // too many wait: who uses it again says so again
    },
    quiet: () => batch.quiet(),
  }
}
