// How long to wait before the next try: longer after each failure, with jitter so that many do not come back at once.
import { limits } from '../config.ts'

/** The delay before try `attempt + 1`, after `attempt` tries (from 1); undefined when the schedule has no further try. */
export function retryDelayMs(
  schedule: readonly number[],
  attempt: number,
  jitter: number,
  random: () => number = Math.random,
): number | undefined {
  const seconds = schedule[attempt - 1]
  if (seconds === undefined) return undefined
  return Math.round(seconds * 1000 * (1 + jitter * (2 * random() - 1)))
}

/**
 * How long to pause behind a claim that found few and took so long, in ms. It costs nearly as much as one of many, and the busier the machine the
 * longer it takes: then more share the next one. Where hardly any come, hardly anybody waits.
 */
export function claimPauseMs(found: number, tookMs: number): number {
  return Math.min(limits.claimPauseParts * tookMs, limits.claimPauseMsLeast + found, limits.claimPauseMsMax)
}

/** By the timers that the simulation of delivery takes over: those of `node:timers/promises` would bring real time into it. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
