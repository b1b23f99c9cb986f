// How many events of one endpoint may be in flight: a few at first, more with each success, half with each failure. So an endpoint that hangs
// holds little of what all share, and one that answers is not held back.
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
  /** What may still be claimed for each workspace that is busy, or has failed. What is not named may have `limits.webhookShareFirst`. */
  rooms(): Readonly<Record<string, number>>
  begin(workspace: string): void
  /** True where a claim found no room, and half of the share is free by now: few claims of many rather than many of few. */
  end(workspace: string): boolean
  grow(workspace: string): void
  shrink(workspace: string): void
}

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
  return {
    rooms: () => {
      const rooms: Record<string, number> = {}
      const longAgo = now() - limits.webhookShareRestMs
      for (const [workspace, share] of shares) {
        // There may be very many, and each claim would carry them all: of those that rest only the ones that failed are worth a word.
        if (share.usedAt < longAgo && share.inFlight === 0 && share.size >= limits.webhookShareFirst) continue
        const room = Math.max(0, share.size - share.inFlight)
        if (room === 0) share.wanting = true
        rooms[workspace] = room
      }
      return rooms
    },
    begin: (workspace) => {
      const share = of(workspace)
      share.inFlight++
      share.usedAt = now()
    },
    end: (workspace) => {
      const share = of(workspace)
      share.inFlight--
      if (!share.wanting || share.inFlight > share.size / 2) return false
      share.wanting = false
      return true
    },
    grow: (workspace) => {
      const share = of(workspace)
      share.size = Math.min(limits.webhookShareMax, share.size + 1)
    },
    shrink: (workspace) => {
      const share = of(workspace)
      share.size = Math.max(limits.webhookShareLeast, share.size >> 1)
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
