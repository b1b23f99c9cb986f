// Where the walk over the lanes of a workspace goes on (ARCHITECTURE, "Fair claiming"). Each claim carries all of these cursors, so one is kept only
// while it is of use: the last of a burst is mostly taken without a walk to the end of the lanes, and nobody would ever say that its cursor is not needed.
import { limits } from '../config.ts'
import type { LaneCursors } from '../store/claim.ts'

export interface KeptCursors {
  /** For a claim. */
  all(): LaneCursors
  /** What a claim has answered: '' where the walk has reached the last lane. */
  moved(lanes: LaneCursors): void
}

export function makeLaneCursors(now: () => number = () => performance.now()): KeptCursors {
  /** By workspace, in the order in which claims have last moved them. */
  const kept = new Map<string, { readonly lane: string; readonly at: number }>()
  return {
    all: () => {
      for (const [workspace, { at }] of kept) {
        if (now() - at < limits.laneCursorKeptMs && kept.size <= limits.destinationsKnownMax) break
        kept.delete(workspace)
      }
      return Object.fromEntries([...kept].map(([workspace, { lane }]) => [workspace, lane]))
    },
    moved: (lanes) => {
      const at = now()
      for (const [workspace, lane] of Object.entries(lanes)) {
        kept.delete(workspace)
        if (lane !== '') kept.set(workspace, { lane, at })
      }
    },
  }
}
