// What gets no turn has its time all the same: a walk over the whole queue, again and again, fails what has expired there (store/expire.ts).
import { limits } from '../config.ts'
import type { Log } from '../base/log.ts'
import type { Db } from '../store/database.ts'
import { expireSome } from '../store/expire.ts'
import type { Gate } from './fence.ts'

export interface ExpiryTools {
  readonly db: Db
  readonly gate: Gate
  readonly log: Log
  readonly timeScale: number
}

export interface Expiry {
  readonly look: () => Promise<void>
  /** Until the next step: a rest behind a whole walk, and within one a part of the time that the last step took. */
  readonly pauseMs: () => number
}

export function makeExpiry({ db, gate, log, timeScale }: ExpiryTools): Expiry {
  const restMs = Math.max(20, limits.expiryRestMs / timeScale)
  let pauseMs = restMs
  let page = 0
  return {
    pauseMs: () => pauseMs,
    look: async () => {
      if (!gate.isOpen()) return
      const began = performance.now()
      const { expired, next } = await expireSome(db, page, (error) => log.fault('expiry', error))
      for (const messageId of expired) log.attempted({ messageId, outcome: 'failed', reason: 'expired' })
      page = next ?? 0
      const tookMs = performance.now() - began
      pauseMs = next === undefined ? restMs : Math.min(restMs, tookMs / limits.expiryLookPart)
    },
  }
}
