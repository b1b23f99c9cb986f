// Tells the database what journals have inherited: replies to final dots that an earlier life, or another process, could not tell (delivery-semantics,
// result journal).
import { limits } from '../config.ts'
import type { Log } from '../base/log.ts'
import { commitSomething, isDatabaseAway, surelyAborted, type Ask } from '../store/database.ts'
import { replayEndings } from '../store/fence.ts'
import type { Ending } from '../store/outbound.ts'
import { readRemoved } from '../store/reports.ts'
import type { Journal } from './journal.ts'

export interface Replay {
  /** All of it, once; what the database has answered leaves the journal. False: somebody has rows of some locked, and those are to be told again. */
  tell(ask: Ask, journal: Journal): Promise<boolean>
  /**
   * To a database that may be the wrong one, so that nothing leaves the journal. Only what ends a message: one that is put off again would seem not
   * to have been due when delivery stopped, and that it was sent later was forgotten with the rest. What the database refuses is reported by `tell`.
   */
  forewarn(ask: Ask, journal: Journal): Promise<void>
}

export function makeReplay(log: Log): Replay {
  /** What the database has refused to write stays in the journal, for a start after whatever is wrong there; it holds up nobody. */
  const refused = new Set<Ending>()

  /** Those of which somebody had the rows locked, who may have them for long: said once. */
  const saidHeld = new Set<Ending>()

  const tellSome = async (ask: Ask, journal: Journal, endings: readonly Ending[], held: Set<Ending>): Promise<void> => {
    const answers = await replayEndings(ask, endings)
    // What an earlier life has told may be a commit that was let go before its standby had it (docs/decisions/0082).
    await commitSomething({ rows: ask })
    const removed = answers.includes('gone') ? await readRemoved(ask) : []
    for (const [at, ending] of endings.entries()) {
      if (answers[at] === 'held') {
        held.add(ending)
        continue
      }
      if (answers[at] === 'gone' && !removed.includes(ending.workspaceId))
        // Each with its own words, so that the log writes every one: nothing else tells of it.
        log.fault('journal', new Error(`the database knows nothing of ${ending.id}, which a server has answered`), {
          messageId: ending.id,
          outcome: ending.outcome,
        })
      journal.settle(ending)
    }
  }

  return {
    tell: async (ask, journal) => {
      const held = new Set<Ending>()
      for (;;) {
        const endings = journal.inherited
          .filter((ending) => !refused.has(ending) && !held.has(ending))
          .slice(0, limits.claimsPerStatementMax)
        if (endings.length === 0) break
        await tellEach(
          endings,
          (some) => tellSome(ask, journal, some, held),
          (ending, error) => {
            refused.add(ending)
            log.fault('journal', error, { messageId: ending.id, outcome: ending.outcome })
          },
        )
      }
      for (const ending of held) {
        if (!saidHeld.has(ending))
          log.fault('journal', new Error(`somebody holds locked what the reply to ${ending.id} needs: it waits`), {
            messageId: ending.id,
            outcome: ending.outcome,
          })
        saidHeld.add(ending)
      }
      return held.size === 0
    },
    forewarn: async (ask, journal) => {
      const endings = journal.inherited.filter(({ status }) => status !== 'retrying')
      for (let at = 0; at < endings.length; at += limits.claimsPerStatementMax)
        await tellEach(
          endings.slice(at, at + limits.claimsPerStatementMax),
          (some) => replayEndings(ask, some),
          () => undefined,
        )
    },
  }
}

/** All at once; where the database refuses that, one after the other, so that only what it refuses is left untold. */
async function tellEach(
  endings: readonly Ending[],
  telling: (some: readonly Ending[]) => Promise<unknown>,
  refusing: (ending: Ending, error: unknown) => void,
): Promise<void> {
  const unlessAway = (error: unknown): void => {
    if (!surelyAborted(error) || isDatabaseAway(error)) throw error
  }
  try {
    await telling(endings)
  } catch (error) {
    unlessAway(error)
    for (const ending of endings)
      await telling([ending]).catch((why: unknown) => {
        unlessAway(why)
        refusing(ending, why)
      })
  }
}
