// Large mail is made (read, composed, signed) only while this machine has memory left for it, and waits else for as long as it takes: no try is charged,
// and small mail goes on beside it. How much may be held on a machine of this size is room.ts' matter.
import { ByteRoom } from '../base/byte-room.ts'
import type { Log } from '../base/log.ts'
import { delivered, largeMailFault, promiseMemory, roomInMemory } from '../base/spare-memory.ts'
import { limits, type Route } from '../config.ts'
import { isSimulator } from '../domain/simulator.ts'
import type { InFlight } from './flight.ts'

export interface MemoryTools {
  readonly log: Log
  readonly timeScale: number
  /** The installation's. */
  readonly route: Route
  /** How much large mail there is memory for at this moment. */
  readonly memoryNow?: () => number
}

/** What the sandbox receives is here another time, and again on its way to the database, which has it, too. */
const timesMoreReceived = 3

export type Memory = ReturnType<typeof makeMemory>

export function makeMemory({ log, timeScale, route, memoryNow }: MemoryTools) {
  // What is promised to those inside counts there already.
  const left = (): number => roomInMemory(room.heldBytes * delivered.timesHeld, delivered)
  const room: ByteRoom = new ByteRoom({
    bytesMax: Infinity,
    bytesNow: memoryNow ?? left,
    shareBytesMax: Infinity,
    waitMs: limits.deliveryMemoryWaitMs / timeScale,
    waitingMax: Infinity,
  })
  /** It goes to the sandbox of this very process. */
  const isReceivedHere = ({ claimed: { routeSealed, destination } }: InFlight): boolean =>
    (routeSealed === null && route.kind === 'sandbox') || isSimulator(destination)

  /**
   * Resolves when there is memory for it, or when the signal is aborted. What is answered is called when the mail is made, as from then on the memory that
   * is left tells of it; and at the end, however often.
   */
  const enter = async (
    flight: InFlight,
    contentBytes: number,
    signal: AbortSignal,
  ): Promise<(isOver: boolean) => void> => {
    const { owner } = flight
    if (contentBytes <= limits.largeRequestBytes) return () => undefined
    const isHere = isReceivedHere(flight)
    let bytes = contentBytes * (isHere ? timesMoreReceived : 1)
    while (!(await room.take(owner, bytes, signal))) {
      if (signal.aborted) return () => undefined
      // So much always finds room, when nobody else has some.
      bytes = Math.min(bytes, limits.mailWithoutMemoryBytes)
      log.fault(largeMailFault, new Error('no memory is left to deliver it: it waits, and goes alone'), {
        messageId: flight.claimed.id,
        bytes: contentBytes,
      })
    }
    const unpromise = promiseMemory(bytes * delivered.timesHeld)
    let isHeld = true
    return (isOver) => {
      if (!isHeld || (isHere && !isOver)) return
      isHeld = false
      unpromise()
      room.give(owner, bytes)
    }
  }
  return { enter }
}
