// Where the walk over the lanes of a workspace goes on (ARCHITECTURE, "Fair claiming"). Each claim carries all of these places, so one is kept only while
// it is of use: the last of a burst is mostly taken without a walk to the end of the lanes, and nobody would ever say that the place is not needed.
import { limits } from '../config.ts'
import type { LaneCursors } from '../store/claim.ts'

export interface Places {
  /** For a claim. */
  all(): LaneCursors
  /** What a claim has answered: '' where the walk has reached the last lane. */
  moved(lanes: LaneCursors): void
}

export function makeLaneCursors(now: () => number = () => performance.now()): Places {
  /** By workspace; the one that was told of for the last time longest ago comes first. */
  const places = new Map<string, { readonly lane: string; readonly at: number }>()
  return {
    all: () => {
      for (const [workspace, { at }] of places) {
        if (now() - at < limits.laneCursorKeptMs && places.size <= limits.destinationsKnownMax) break
        places.delete(workspace)
      }
      return Object.fromEntries([...places].map(([workspace, { lane }]) => [workspace, lane]))
    },
    moved: (lanes) => {
      const at = now()
      for (const [workspace, lane] of Object.entries(lanes)) {
        places.delete(workspace)
        if (lane !== '') places.set(workspace, { lane, at })
      }
    },
  }
}
