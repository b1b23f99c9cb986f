// One attempt: from a claimed message and its room to how the attempt ended. What was seen is judged in outcome.ts and becomes a row in record.ts; here
// stands whose doing it was that nothing was seen, and what that costs the message.
import { isNothingLeft } from '../base/nothing-left.ts'
import type { Facts, Log } from '../base/log.ts'
import type { Route } from '../config.ts'
import { isDatabaseAway } from '../store/database.ts'
import type { Ending } from '../store/outbound.ts'
import type { InFlight } from './flight.ts'
import type { Leave } from './job.ts'
import { landingOf } from './outcome.ts'
import { GivenUp, NotComposable } from './prepare.ts'
import { endingOf, gaveWay, gaveWayMs, isReplyToDot, ourLackMs, putOff, unable, unattempted, unread } from './record.ts'
import type { TransmitJob, TransmitResult, Transmitter } from './transmit.ts'

export interface AttemptTools {
  readonly transmitter: Pick<Transmitter, 'transmit'>
  readonly log: Log
  readonly timeScale: number
  /** The waits between tries, in seconds. */
  readonly retrySchedule: readonly number[]
}

const composeTriesMax = 3

/** An attempt answers how it ended, undefined where that is for somebody else to write down, and never rejects. `note` hears what was seen of the other side. */
export function makeAttempts(
  { transmitter, log, timeScale, retrySchedule }: AttemptTools,
  jobOf: (flight: InFlight, leave: Leave) => Promise<TransmitJob | undefined>,
  note: (flight: InFlight, route: Route, result: TransmitResult) => void,
): (flight: InFlight, leave: Leave) => Promise<Ending | undefined> {
  return async (flight, leave) => {
    const { claimed, giveUp } = flight
    const now = () => new Date(flight.databaseClockMs + performance.now())
    const startedAt = now()
    const schedule = () => ({ timeScale, retrySchedule, now: now(), startedAt })
    const handedBack = () =>
      flight.gaveWay
        ? putOff(claimed, gaveWayMs(claimed, now()), gaveWay(), schedule())
        : unattempted(claimed, { kind: 'retry', reason: 'shutdown' }, schedule())
    if (giveUp.signal.aborted) return handedBack()
    try {
      const job = await jobOf(flight, leave)
      if (job === undefined) return unattempted(claimed, { kind: 'failed', reason: 'content_lost' }, schedule())
      const result = await transmitter.transmit(job)
      flight.result = result
      flight.replied = isReplyToDot(result)
      flight.landing = landingOf(result, flight.gaveWay)
      const { phase, reply, trouble, peer } = result
      // Whoever asked to arm has to say what became of it.
      const madeWay = flight.gaveWay && trouble === 'shutdown' && !flight.armAsked
      const lacked = flight.armLacked || trouble === 'too_late'
      const waits = madeWay
        ? gaveWayMs(claimed, now())
        : lacked
          ? ourLackMs(claimed, schedule())
          : flight.armAsked
            ? undefined
            : result.pacedMs
      const seen = madeWay ? gaveWay(result) : result
      const ending =
        waits === undefined ? endingOf(claimed, seen, schedule()) : putOff(claimed, waits, seen, schedule())
      log.attempted({
        messageId: claimed.id,
        workspaceId: claimed.workspaceId,
        attempt: claimed.attempt,
        domain: claimed.destination,
        outcome: ending?.outcome ?? 'decided elsewhere',
        phase,
        code: reply?.code,
        trouble: seen.trouble,
        cause: seen.cause,
        host: peer?.host,
        tls: peer?.tls,
        ms: now().getTime() - startedAt.getTime(),
        ...told(ending, now().getTime() - claimed.createdAt.getTime(), result.provider),
      })
      note(flight, job.route, result)
      return ending
    } catch (error) {
      if (error instanceof GivenUp) return handedBack()
      const lacking = isNothingLeft(error)
      // Told in the same words for all, however many there are.
      const fault = lacking
        ? new Error('nothing is left here for one more connection, or mail', { cause: error })
        : error
      log.fault('attempt', fault, { messageId: claimed.id })
      // Perhaps armed, perhaps past the dot: without the heartbeat the lease runs out, and the reaper goes by the row.
      if (flight.armAsked) return undefined
      if (giveUp.signal.aborted) return handedBack()
      // Nobody was asked about it.
      if (lacking) return putOff(claimed, gaveWayMs(claimed, now()), gaveWay(), schedule())
      if (isDatabaseAway(error)) return putOff(claimed, ourLackMs(claimed, schedule()), unread, schedule())
      // What else went wrong on this machine is no fault of the message.
      if (!(error instanceof NotComposable)) return unable(claimed, schedule())
      const outcome =
        claimed.attempt >= composeTriesMax
          ? ({ kind: 'failed', reason: 'not_composable' } as const)
          : ({ kind: 'retry', reason: 'worker_lost' } as const)
      return unattempted(claimed, outcome, schedule())
    }
  }
}

/** What the numbers need to know: how old a message was when it was taken, and what kind of refusal it met at whom. */
function told(ending: Ending | undefined, ageMs: number, provider: string | undefined): Facts {
  const bounce = ending?.report?.bounce as { readonly class?: string } | undefined
  return {
    ...(ending?.outcome === 'accepted' && { ageMs }),
    ...(bounce?.class !== undefined && { report: ending?.report?.type ?? '', bounce: bounce.class, provider }),
  }
}
