// Ends of claims that the database has not heard yet: each is told until it has. What it refuses to write, and what is still unheard when the time for a
// shutdown is over, is left to the reaper; but a reply to a dot is kept in the journal, for the next start (delivery-semantics, result journal).
import { limits } from '../config.ts'
import { pause } from '../base/backoff.ts'
import type { Log } from '../base/log.ts'
import { commitSomething, isDatabaseAway, surelyAborted, type Db } from '../store/database.ts'
import { replayEndings } from '../store/fence.ts'
import { untilFree } from '../store/held-rows.ts'
import type { Ending, Recorder } from '../store/outbound.ts'
import type { Journal } from './journal.ts'

/** Whose end it is. */
interface Teller {
  /** On the clock of `performance.now()`; the heartbeat moves it on. */
  readonly leaseEndsAt: number
  /** The other side has answered the dot: worth a line in the journal. */
  readonly replied: boolean
}

export interface UnheardTools {
  readonly db: Db
  readonly recorder: Recorder
  readonly journal: Journal
  readonly log: Log
  readonly leaseMs: number
  /** Fires when a stop waits for the database no longer. */
  readonly patience: AbortSignal
}

export interface Unheard {
  /** Resolves when the database has heard it, or it is left to others. Never rejects. */
  tell(ending: Ending, teller: Teller): Promise<void>
  /** Keeps in the journal what it has not heard for `limits.journalAfterMs`. */
  readonly journalLate: () => Promise<void>
  /** From then on, on the clock of `performance.now()`, what is unheard is left to others; Infinity: nobody is stopping. */
  stopAt(ms: number): void
}

interface Waiting {
  readonly ending: Ending
  readonly teller: Teller
  readonly since: number
  journalled: boolean
}

/** How often the database may refuse to write one ending before its claim is left to the reaper. */
const refusedEndingsMax = 5

export function makeUnheard({ db, recorder, journal, log, leaseMs, patience }: UnheardTools): Unheard {
  const waiting = new Set<Waiting>()
  let stopsAt = Infinity
  // Several times within the lease that reapers wait after an outage.
  const delayMostMs = Math.min(2_000, leaseMs / 4)

  const keep = async (one: Waiting): Promise<void> => {
    if (!one.teller.replied || one.journalled) return
    one.journalled = true
    try {
      await journal.keep(one.ending)
    } catch (error) {
      one.journalled = false
      log.fault('journal', error, { messageId: one.ending.id })
    }
  }

  const isOver = ({ leaseEndsAt }: Teller): boolean =>
    stopsAt < Infinity && (patience.aborted || performance.now() > Math.min(leaseEndsAt, stopsAt))

  /** False where it is left to others. */
  const untilHeard = async (ending: Ending, teller: Teller): Promise<boolean> => {
    let refusals = 0
    for (let delayMs = 50, asked = 1; ; delayMs = Math.min(delayMs * 2, delayMostMs), asked++) {
      try {
        const done = await recorder.finish(ending)
        // Asked again after an answer that never came, "not yours any more" may be our own doing.
        if (!done && asked === 1)
          log.fault('finish', new Error('the claim was decided elsewhere'), {
            messageId: ending.id,
            epoch: ending.epoch,
          })
        if (!done && teller.replied) await keepEvidence(ending)
        // The attempt's own line has said what was seen, which is not what became of it.
        if (done === 'handed_back')
          log.attempted({
            messageId: ending.id,
            workspaceId: ending.workspaceId,
            outcome: 'retry',
            trouble: 'shutdown',
            reason: 'handed_back',
          })
        return true
      } catch (error) {
        log.fault('finish', error, { messageId: ending.id })
        if (surelyAborted(error) && !isDatabaseAway(error) && ++refusals === refusedEndingsMax) return false
        if (isOver(teller)) return false
        await pause(delayMs)
      }
    }
  }

  /**
   * A database that was restored under us has forgotten the claim, and takes the message for unsent: the reply is told like one out of a
   * journal, so that it is kept there and stops delivery, whatever the fence makes of the counters. And what has decided may be a commit of our own that was
   * let go before its standby had it (docs/decisions/0082): one behind it proves that the reply is known there, too.
   */
  const keepEvidence = async (ending: Ending): Promise<void> => {
    const answer = await untilFree(async () => (await replayEndings(db.rows, [ending]))[0])
    await commitSomething(db)
    if (answer !== 'known')
      log.fault(
        'finish',
        new Error(`a server has answered ${ending.id}, which the database has forgotten (${answer})`),
        {
          messageId: ending.id,
          outcome: ending.outcome,
        },
      )
  }

  return {
    tell: async (ending, teller) => {
      const one = { ending, teller, since: performance.now(), journalled: false }
      waiting.add(one)
      const isHeard = await untilHeard(ending, teller)
      if (!isHeard) await keep(one)
      waiting.delete(one)
      if (isHeard && one.journalled) journal.settle(ending)
    },
    journalLate: async () => {
      const late = performance.now() - limits.journalAfterMs
      await Promise.all([...waiting].filter(({ since }) => since < late).map(keep))
    },
    stopAt: (ms) => void (stopsAt = ms),
  }
}
