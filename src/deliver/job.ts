// What a flight gives the transmitter: its mail, the way to arm it, and how long that may be done. Nothing else holds the content, so that it
// is let go with the arm, and its room with it: the reply to the dot may be ten minutes away.
import { limits, type Route } from '../config.ts'
import type { Log } from '../base/log.ts'
import type { Vault } from '../base/secret.ts'
import type { Sign } from '../mail/dkim.ts'
import { slotsNameOf } from '../store/claim.ts'
import { isDatabaseAway, type Db } from '../store/database.ts'
import type { Recorder } from '../store/outbound.ts'
import type { ArmAnswer } from './arm.ts'
import type { SevenBit } from './conversation.ts'
import { giveWay, type InFlight } from './flight.ts'
import { MarkNotKept } from './mark.ts'
import type { Memory } from './memory.ts'
import { makePreparer, type Prepared } from './prepare.ts'
import type { Room } from './room.ts'
import type { Slots } from './slots.ts'
import type { TransmitJob } from './transmit.ts'

export interface JobTools {
  readonly db: Db
  readonly vault: Vault
  /** Left out: signatures are made on the thread pool. */
  readonly sign?: Sign
  readonly recorder: Pick<Recorder, 'arm'>
  readonly log: Log
  readonly leaseMs: number
  readonly timeScale: number
  /** The installation's route. */
  readonly route: Route
  /** A workspace's own route, out of its sealed column. */
  openRoute(workspaceId: string, sealed: Buffer): Route
}

/** What is encoded is longer: in base64 by a third, and its line ends. */
const encodedParts = 1.4

/** What gives rooms back (each may be called again). */
export interface Leave {
  /** The mail is made, and in memory. */
  readonly made: () => void
  /** Its content is let go. */
  readonly gone: () => void
}

/** The answer is undefined when the content is gone. */
export function makeJobs(
  tools: JobTools,
  slots: Pick<Slots, 'heading'>,
  convertedRoom: Room<InFlight>,
  convertedMemory: Memory,
): (flight: InFlight, leave: Leave) => Promise<TransmitJob | undefined> {
  const preparer = makePreparer(tools.db, tools.vault, tools.sign)

  const armSurely = async (flight: InFlight): Promise<ArmAnswer> => {
    flight.armAsked = true
    try {
      return await tools.recorder.arm(flight.claimed)
    } catch (error) {
      // Committed or not, nobody knows: the dot is renounced for good, and the record says so until it is heard.
      tools.log.fault('arm', error, { messageId: flight.claimed.id })
      flight.armLacked = isDatabaseAway(error) || error instanceof MarkNotKept
      return 'failed'
    }
  }

  const convert = async (
    flight: InFlight,
    size: number,
    make: NonNullable<Prepared['sevenBit']>,
  ): Promise<SevenBit | undefined> => {
    const { signal } = flight.giveUp
    // It holds a connection that others wait for.
    const tooLong = setTimeout(() => giveWay(flight), limits.contentPatienceMs / tools.timeScale)
    const leave = await convertedRoom.enter(flight, size, signal)
    clearTimeout(tooLong)
    if (signal.aborted) {
      leave()
      return undefined
    }
    const leaveMemory = await convertedMemory.enter(flight, size * encodedParts, signal)
    flight.heardAt = performance.now()
    const form = await make()
      .catch((error: unknown) => {
        leave()
        throw error
      })
      .finally(() => leaveMemory(true))
    if (form === undefined) leave()
    return form && { ...form, leave }
  }

  return async (flight, leave) => {
    const { claimed, giveUp } = flight
    const prepared = await preparer.prepare(claimed, giveUp.signal)
    leave.made()
    if (prepared === undefined) return undefined
    const { recipient, envelopeFrom, token, size, needs8bit, needsSmtputf8 } = prepared
    const route = claimed.routeSealed === null ? tools.route : tools.openRoute(claimed.workspaceId, claimed.routeSealed)
    let held: Prepared | undefined = prepared
    return {
      recipient,
      envelopeFrom,
      get content() {
        return held?.content ?? []
      },
      size,
      needs8bit,
      sevenBit: async () => held?.sevenBit && convert(flight, size, held.sevenBit),
      needsSmtputf8,
      route,
      workspaceId: claimed.workspaceId,
      ownRoute: claimed.routeSealed !== null,
      // What a relay takes is not delivered yet; only its reports tell. A mail host's own 250 is all the proof there is.
      reports: { envelopeId: token, success: route.kind === 'relay' },
      heading: (provider) => slots.heading(slotsNameOf(claimed), provider),
      arm: () => {
        held = undefined
        leave.gone()
        return armSurely(flight)
      },
      heard: () => void (flight.heardAt = performance.now()),
      // A tenth of the lease stays as a margin: past it another worker may be deciding.
      deadline: () => flight.leaseEndsAt - tools.leaseMs / 10,
      signal: giveUp.signal,
    }
  }
}
