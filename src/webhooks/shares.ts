// How many events of one endpoint may be in flight: a few at first, more with each success, half with each failure. Who kept a slot for long and failed has one
// until it answers, and all of those together half of the slots; and nobody takes more than a twentieth of what is free, so that something is always free:
// an endpoint that hangs holds little of what all share, however many do so at once, and one that answers is not held back.
import { limits } from '../config.ts'

interface Share {
  size: number
  inFlight: number
  /** It had no room when a claim was made: there may be more for it. */
  wanting: boolean
  /** When an event of it was claimed last. */
  usedAt: number
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
  /** It failed, after so long. */
  shrink(workspace: string, heldMs: number): void
}

/** Of those that are down to one. */
const hangingMost = limits.webhooksInFlightMax / 2

export function makeShares(now: () => number = () => performance.now()): Shares {
  const shares = new Map<string, Share>()
  const of = (workspace: string): Share => {
    const known = shares.get(workspace)
    if (known !== undefined) return known
    forgetSome(shares)
    const fresh = { size: limits.webhookShareFirst, inFlight: 0, wanting: false, usedAt: now() }
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
      const longAgo = now() - limits.webhookShareRestMs
      const ofOne = most()
      const ofHanging = hanging() < hangingMost ? 1 : 0
      for (const [workspace, share] of shares) {
        // There may be very many, and each claim would carry them all: of those that rest only the ones that failed are worth a word.
        if (share.usedAt < longAgo && share.inFlight === 0 && share.size >= limits.webhookShareFirst) continue
        const size = share.size === 1 ? ofHanging : Math.min(share.size, ofOne)
        const room = Math.max(0, size - share.inFlight)
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
    shrink: (workspace, heldMs) => {
      const share = of(workspace)
      share.size = heldMs < limits.webhookShareSlowMs ? Math.max(limits.webhookShareLeast, share.size >> 1) : 1
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
