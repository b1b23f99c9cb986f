// From where on a walk along a queue looks. While a snapshot is held (a backup), its index keeps what was claimed and ended since, and every walk
// from the beginning goes along all of that: it would grow with the age of the snapshot. So only a whole walk does, once in a while; the others
// begin where the last one met the first row that was still there.
import { limits } from '../config.ts'

export interface Floor {
  /** Rows due before this are passed over by the walk under way; undefined: none. */
  readonly since: Date | undefined
  /** What the parts of the walk have taken so far; not what was waited for between them, a free slot say. */
  readonly tookMs: number
  /** A walk begins. */
  begin(): void
  /** What a part of it has met, and when, by the database's clock; `isEnd` says that it was the last. */
  walked(met: { readonly oldest: Date | null; readonly now: Date }, isEnd: boolean, partMs: number): void
  /** The next walk is a whole one: rows may have come into sight that are due since long ago. */
  forget(): void
}

/**
 * A row that comes into sight, due long before, is met by the next whole walk: a commit that took longer than `limits.walkMarginMs`, or a lease
 * that ended without a new time.
 */
export function makeFloor(): Floor {
  let since: Date | undefined
  let known: Date | undefined
  /** Of the walk under way. */
  let oldest = Infinity
  let tookMs = 0
  let wholeAgainAt = -Infinity
  let isForgotten = false
  let isUnderWay = false
  return {
    get since() {
      return since
    },
    get tookMs() {
      return tookMs
    },
    begin: () => {
      // Behind a very old snapshot a whole walk may run into the time limit, again and again: the others get their turns between.
      const hasFailed = isUnderWay && since === undefined && !isForgotten
      since = hasFailed || performance.now() < wholeAgainAt ? known : undefined
      isUnderWay = true
      isForgotten = false
      tookMs = 0
      oldest = Infinity
    },
    walked: (met, isEnd, partMs) => {
      tookMs += partMs
      oldest = Math.min(oldest, met.oldest?.getTime() ?? Infinity, met.now.getTime() - limits.walkMarginMs)
      if (!isEnd) return
      isUnderWay = false
      known = new Date(oldest)
      if (since !== undefined || isForgotten) return
      wholeAgainAt = performance.now() + Math.max(limits.wholeWalkMs, tookMs / limits.wholeWalkPart)
    },
    forget: () => {
      isForgotten = true
      wholeAgainAt = -Infinity
    },
  }
}
