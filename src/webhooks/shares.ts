// How many events of one endpoint may be in flight: a few at first, more with each success, half with each failure. Who kept a slot for long and failed, or asked
// to be left alone, has one until it answers, and all of those together have half of the slots. Nobody takes more than a twentieth of what is free, so something always
// is: an endpoint that hangs holds little of what all share, however many do so at once, and one that answers is not held back (docs/decisions/0011).
import { limits } from '../config.ts'

interface Share {
  size: number
  inFlight: number
  /** It had no room when a claim was made: there may be more for it. */
  wanting: boolean
  /** When an event of it was claimed last. */
  usedAt: number
  /** It has asked to be left alone until then. */
  restsUntil: number
}

export interface Shares {
  /** Slots that nobody holds. */
  readonly free: number
  /** What may still be claimed for each workspace that is busy, or has failed; and for each that is not named. */
  rooms(): { readonly rooms: Readonly<Record<string, number>>; readonly share: number }
  begin(workspace: string): void
  /** True where a claim found no room, and half of the share is free by now: few claims of many rather than many of few. */
  end(workspace: string): boolean
  grow(workspace: string): void
  /** It failed, after so long, and perhaps asked to be left alone. */
  shrink(workspace: string, heldMs: number, restMs?: number): void
}

/** Of those that are down to one. */
const hangingMost = limits.webhooksInFlightMax / 2

export function makeShares(now: () => number = () => performance.now()): Shares {
  const shares = new Map<string, Share>()
  const of = (workspace: string): Share => {
    const known = shares.get(workspace)
    if (known !== undefined) return known
    forgetSome(shares)
    const fresh = { size: limits.webhookShareFirst, inFlight: 0, wanting: false, usedAt: now(), restsUntil: 0 }
    shares.set(workspace, fresh)
    return fresh
  }
  let free: number = limits.webhooksInFlightMax
  /** Claims bring many at a time, each counted by itself: what is new and hangs must not have taken everything before the first has failed. */
  const most = () => Math.floor((free * limits.webhookShareMax) / limits.webhooksInFlightMax)
  const hanging = () => {
    let held = 0
    for (const { size, inFlight } of shares.values()) if (size === 1) held += inFlight
    return held
  }
  return {
    get free() {
      return free
    },
    rooms: () => {
      const rooms: Record<string, number> = {}
      const at = now()
      const longAgo = at - limits.webhookShareRestMs
      const ofOne = most()
      const ofHanging = hanging() < hangingMost ? 1 : 0
      for (const [workspace, share] of shares) {
        // There may be very many, and each claim would carry them all: of those that rest only the ones that failed are worth a word.
        const isResting = share.restsUntil > at
        if (share.usedAt < longAgo && share.inFlight === 0 && share.size >= limits.webhookShareFirst && !isResting)
          continue
        const size = share.size === 1 ? ofHanging : Math.min(share.size, ofOne)
        const room = isResting ? 0 : Math.max(0, size - share.inFlight)
        if (room === 0) share.wanting = true
        rooms[workspace] = room
      }
      return { rooms, share: Math.min(limits.webhookShareFirst, ofOne) }
    },
    begin: (workspace) => {
      const share = of(workspace)
      share.inFlight++
      free--
      share.usedAt = now()
    },
    end: (workspace) => {
      const share = of(workspace)
      share.inFlight--
      free++
      if (!share.wanting || share.inFlight > Math.min(share.size, most()) / 2) return false
      share.wanting = false
      return true
    },
    grow: (workspace) => {
      const share = of(workspace)
      share.size = Math.min(limits.webhookShareMax, share.size + 1)
    },
    shrink: (workspace, heldMs, restMs) => {
      const share = of(workspace)
      if (restMs !== undefined) share.restsUntil = Math.max(share.restsUntil, now() + restMs)
      const isQuick = restMs === undefined && heldMs < limits.webhookShareSlowMs
      share.size = isQuick ? Math.max(limits.webhookShareLeast, share.size >> 1) : 1
    },
  }
}

/** Of the endpoints with nothing in flight, the one that was met first. */
function forgetSome(shares: Map<string, Share>): void {
  if (shares.size < limits.webhookEndpointsKnownMax) return
  for (const [workspace, { inFlight }] of shares)
    if (inFlight === 0) {
      shares.delete(workspace)
      return
    }
}
