// A message that this node has claimed, until its end is told.
import { limits } from '../config.ts'
import type { Claimed } from '../store/outbound.ts'
import type { Guest } from './room.ts'
import type { Landing } from './slots.ts'
import type { TransmitResult } from './transmit.ts'

export interface InFlight extends Guest {
  readonly claimed: Claimed
  heardAt: number
  /** What it holds in memory while it is tried, roughly; small texts are not counted. */
  readonly contentBytes: number
  /** Database time less `performance.now()`, as the claim told it: this machine's own date counts for nothing. */
  readonly databaseClockMs: number
  /** Aborted when the lease is lost, and at a shutdown: a dot that is not written by then never is. */
  readonly giveUp: AbortController
  /** The row is somebody else's: it is not on the heartbeat's list any more. */
  lost: boolean
  /** It waits for a host that says nothing, and others need its slot, or its room. */
  gaveWay: boolean
  /** What the attempt has shown of its destination. */
  landing: Landing
  /** From here on the row may be armed, so that a fault of ours proves nothing. */
  armAsked: boolean
  /** The database was away at its arm, or this machine's disk, or its answer came when the lease was over: no word about the message. */
  armLacked: boolean
  result: TransmitResult | undefined
  /** On the clock of `performance.now()`; moved on by the heartbeat. */
  leaseEndsAt: number
  /** The other side has answered the dot: worth a line in the journal. */
  replied: boolean
}

/** `claimedAt`: when the claim was asked for, on the clock of `performance.now()`. */
export function flightOf(claimed: Claimed, claimedAt: number, leaseMs: number): InFlight {
  return {
    claimed,
    owner: claimed.workspaceId,
    heardAt: performance.now(),
    contentBytes: claimed.attachmentsBytes + (claimed.bodyBlob === null ? 0 : limits.bodyTextBytesMax),
    databaseClockMs: claimed.claimedAt.getTime() - claimedAt,
    giveUp: new AbortController(),
    lost: false,
    gaveWay: false,
    landing: 'unasked',
    armAsked: false,
    armLacked: false,
    result: undefined,
    leaseEndsAt: claimedAt + leaseMs,
    replied: false,
  }
}

/** Hands it back to the queue, where that still can be. */
export function giveWay(flight: InFlight): void {
  flight.gaveWay = true
  flight.giveUp.abort()
}
