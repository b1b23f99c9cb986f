// How many events of one endpoint may be in flight: a few at first, more with each success, half with each failure. So an endpoint that hangs
// holds little of what all share, and one that answers is not held back.
import { limits } from '../config.ts'

interface Share {
  size: number
  inFlight: number
  /** It had no room when a claim was made: there may be more for it. */
  wanting: boolean
}

export interface Shares {
  /** What may still be claimed for each workspace that is known here. */
  rooms(): Readonly<Record<string, number>>
  begin(workspace: string): void
  /** True where a claim found no room, and half of the share is free by now: few claims of many rather than many of few. */
  end(workspace: string): boolean
  grow(workspace: string): void
  shrink(workspace: string): void
}

export function makeShares(): Shares {
  const shares = new Map<string, Share>()
  const of = (workspace: string): Share => {
    const known = shares.get(workspace)
    if (known !== undefined) return known
    forgetSome(shares)
    const fresh = { size: limits.webhookShareFirst, inFlight: 0, wanting: false }
    shares.set(workspace, fresh)
    return fresh
  }
  return {
    rooms: () => {
      const rooms: Record<string, number> = {}
      for (const [workspace, share] of shares) {
        const room = Math.max(0, share.size - share.inFlight)
        if (room === 0) share.wanting = true
        rooms[workspace] = room
      }
      return rooms
    },
    begin: (workspace) => void of(workspace).inFlight++,
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
