// RateLimit headers of the tightest window (decisions D): the one in which the fewest messages are left, so that as many as they name will be
// taken; among equals the one that takes longest to give room again.
import type { QuotaState } from '../domain/submission.ts'

function tightest(quota: readonly QuotaState[]): QuotaState | undefined {
  let found: QuotaState | undefined
  for (const state of quota) if (found === undefined || isTighter(state, found)) found = state
  return found
}

function isTighter(one: QuotaState, other: QuotaState): boolean {
  const difference = one.remaining - other.remaining
  return difference === 0 ? one.resetSeconds > other.resetSeconds : difference < 0
}

/** None for an unlimited plan. */
export function rateLimitHeaders(quota: readonly QuotaState[]): Record<string, string> {
  const state = tightest(quota)
  if (state === undefined) return {}
  return {
    'ratelimit-limit': String(state.limit),
    'ratelimit-remaining': String(state.remaining),
    'ratelimit-reset': String(Math.ceil(state.resetSeconds)),
  }
}
