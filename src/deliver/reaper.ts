// Ends leases that ran out, those of other nodes too (delivery-semantics, reap), as far as they may be believed (outages.ts).
import type { ClaimLoop } from '../base/claim-loop.ts'
import type { Log } from '../base/log.ts'
import type { MessageStatus } from '../domain/message.ts'
import { databaseNow, type Db } from '../store/database.ts'
import { hastenBacklog } from '../store/housekeeping.ts'
import { reap } from '../store/outbound.ts'
import type { Gate } from './fence.ts'
import type { Heartbeat } from './heartbeat.ts'
import type { Outages } from './outages.ts'

export interface ReaperTools {
  readonly db: Db
  readonly gate: Gate
  readonly log: Log
  readonly leaseMs: number
  /** The waits between tries. */
  readonly retrySchedule: readonly number[]
}

export interface Reaper {
  /** Nothing is known of the database from before. */
  begin(): void
  readonly look: () => Promise<void>
}

/** What becomes of a message whose worker was lost, in the words of attempts: alerts and metrics count those. */
const reapedAs: Partial<Record<MessageStatus, string>> = { retrying: 'retry', delivery_unknown: 'unknown' }

export function makeReaper(
  { db, gate, log, leaseMs, retrySchedule }: ReaperTools,
  heartbeat: Pick<Heartbeat, 'isLate'>,
  outages: Outages,
  claims: Pick<ClaimLoop, 'poke' | 'lookAnew'>,
  trouble: (what: string) => (error: unknown) => void,
): Reaper {
  /** Nobody here knows whether the clock was set back before the first look. */
  let lookedAt = Infinity
  return {
    begin: () => {
      outages.begin()
      lookedAt = Infinity
    },
    look: async () => {
      if (!gate.knowsDatabase()) return
      const at = await databaseNow(db)
      if (at.getTime() < lookedAt) {
        await hastenBacklog(db).catch(trouble('backlog'))
        if (lookedAt < Infinity) claims.lookAnew()
      }
      lookedAt = at.getTime()
      if (heartbeat.isLate()) outages.missed()
      const believed = outages.heard(lookedAt)
      if (believed === 'none') return
      // A statement that hangs on its way, and meets a database that was away meanwhile, does nothing.
      const before = new Date(at.getTime() + leaseMs / 4)
      const armedToo = believed === 'all'
      const ended = await reap(db, retrySchedule.length + 1, { armedToo, before, refused: trouble('reap') })
      for (const { id, becomes } of ended) {
        log.attempted({ messageId: id, outcome: reapedAs[becomes] ?? becomes, reason: 'worker_lost' })
        claims.poke()
      }
    },
  }
}
