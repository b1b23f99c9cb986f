// The loop of a worker that claims what is due in a queue: walk after walk along it, each in parts. Behind a whole walk that has found nothing it rests
// until it is poked, or for a while; behind one that has found few it pauses, since such a claim costs nearly as much as one of many.
import { claimPauseMs, pause } from './backoff.ts'
import { makeFloor } from './floor.ts'

/** One part of a walk, as the queue's statement answers it. */
export interface WalkPart {
  readonly claimed: readonly unknown[]
  /** Where the next part goes on: before the first again where the walk has reached the end. */
  readonly cursor: string
  /** When the oldest row is due that was met; null: there was none. */
  readonly oldest: Date | null
  /** The database's clock. */
  readonly now: Date
}

export interface ClaimTools<Part extends WalkPart> {
  /** The cursor before all that is in the queue. */
  readonly first: string
  /** Fewer are few. */
  readonly least: number
  /** The least time from the start of one claim to that of the next. Left out: none. */
  readonly spacingMs?: number
  /** How long to rest behind a walk that took so long, and found nothing. */
  restMs(walkMs: number): number
  /** How long nothing is to be claimed, so many ms behind the start of the last claim; Infinity: until a poke. */
  waitMs(sinceLastMs: number): number
  /** Rows due before `since` are to be passed over; undefined: none (floor.ts). */
  claim(cursor: string, since: Date | undefined): Promise<Part>
  /** Sets out with what was claimed; `askedAt` is on the clock of `performance.now()`. False where the part took nothing out of the queue. */
  launch(part: Part, askedAt: number): boolean
  trouble(error: unknown): void
}

export interface ClaimLoop {
  start(): void
  /** Resolves when the claim under way has launched what it brought. */
  stop(): Promise<void>
  /** Something may have become due. */
  readonly poke: () => void
  /** The same, and perhaps with a due time of long ago. */
  lookAnew(): void
  /** Resolves when the claim under way, which may not have seen what was committed meanwhile, has launched what it brought. Never rejects. */
  launched(): Promise<unknown>
}

const lookAgainMs = 1_000

export function makeClaimLoop<Part extends WalkPart>(tools: ClaimTools<Part>): ClaimLoop {
  const { first, least, spacingMs = 0 } = tools
  const floor = makeFloor()
  let running = false
  let cursor = first
  let askedAt = -Infinity
  let foundInWalk = false
  /** Something may have become due since the walk began, perhaps in a place that it had passed already. */
  let stale = false
  let wake: () => void = () => undefined
  let looping: Promise<void> = Promise.resolve()
  let claiming: Promise<unknown> = Promise.resolve()

  const poke = () => {
    stale = true
    wake()
  }

  const sleep = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  /** One part of a walk, and when the next one should be: after so many ms, or when something comes. */
  const claimSome = async (): Promise<number | 'rest'> => {
    askedAt = performance.now()
    if (cursor === first) {
      stale = false
      foundInWalk = false
      floor.begin()
    }
    const part = await tools.claim(cursor, floor.since)
    cursor = part.cursor
    const tookMs = performance.now() - askedAt
    floor.walked(part, cursor === first, tookMs)
    if (tools.launch(part, askedAt)) foundInWalk = true
    const found = part.claimed.length
    const spareMs = spacingMs - tookMs
    if (cursor !== first || found >= least) return spareMs
    // A whole walk without anything due: rest.
    return foundInWalk || stale ? Math.max(spareMs, claimPauseMs(found, tookMs)) : 'rest'
  }

  const isRunning = () => running
  const loop = async (): Promise<void> => {
    while (isRunning()) {
      // Between the look and the sleep nothing can land.
      const waitMs = tools.waitMs(performance.now() - askedAt)
      if (waitMs > 0) {
        await sleep(Math.min(waitMs, lookAgainMs))
        continue
      }
      try {
        const some = claimSome()
        claiming = some.catch(() => undefined)
        const next = await some
        if (next === 'rest') {
          if (isRunning() && !stale) await sleep(tools.restMs(floor.tookMs))
        } else if (next > 0) await pause(next)
      } catch (error) {
        tools.trouble(error)
        cursor = first
        if (isRunning()) await sleep(500)
      }
    }
  }

  return {
    start: () => {
      running = true
      cursor = first
      looping = loop()
    },
    stop: () => {
      running = false
      poke()
      return looping
    },
    poke,
    lookAnew: () => {
      floor.forget()
      poke()
    },
    launched: () => claiming,
  }
}
