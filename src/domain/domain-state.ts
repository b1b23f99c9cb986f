// What becomes of a sending domain when its records are checked (decisions H): a table of its states, and when it is looked at again.
import { limits } from '../config.ts'

export type DomainStatus = 'pending' | 'verified' | 'degraded' | 'failed'

/**
 * `unanswered`: nobody who speaks for the zone could be asked, so that nothing is known. `unasked`: nor anybody else; the trouble is ours, and
 * tells nothing of the domain.
 */
export type DomainVerdict = 'good' | 'bad' | 'unanswered' | 'unasked'

export interface DomainState {
  readonly status: DomainStatus
  readonly createdAt: Date
  /** Since when it is broken; null where it is not. */
  readonly degradedAt: Date | null
  /** Checks without an answer in a row. */
  readonly unanswered: number
}

export interface NextDomainState {
  readonly status: DomainStatus
  readonly degradedAt: Date | null
  readonly unanswered: number
  /** Null: not by itself any more. */
  readonly checkInMs: number | null
}

/** A broken domain: what it becomes while it is broken for less than 72 hours, and after that. */
const broken = {
  pending: ['pending', 'pending'],
  verified: ['degraded', 'degraded'],
  degraded: ['degraded', 'failed'],
  failed: ['failed', 'failed'],
} as const satisfies Record<DomainStatus, readonly [DomainStatus, DomainStatus]>

export function afterCheck(state: DomainState, verdict: DomainVerdict, now: Date): NextDomainState {
  const unanswered = verdict === 'unanswered' ? state.unanswered + 1 : verdict === 'unasked' ? state.unanswered : 0
  // Silence once may be the network's; silence that lasts is what receivers see too.
  const isBroken = verdict === 'bad' || (verdict === 'unanswered' && unanswered >= limits.domainUnansweredMax)
  const since = state.degradedAt ?? now
  const late = now.getTime() - since.getTime() >= limits.domainDegradedMsMax
  const status = verdict === 'good' ? 'verified' : isBroken ? broken[state.status][late ? 1 : 0] : state.status
  return {
    status,
    degradedAt: status === 'degraded' || (status === 'failed' && state.degradedAt !== null) ? since : null,
    unanswered,
    checkInMs: checkInMs(status, unanswered, now.getTime() - state.createdAt.getTime()),
  }
}

function checkInMs(status: DomainStatus, unanswered: number, ageMs: number): number | null {
  switch (status) {
    case 'verified':
      return unanswered > 0 ? limits.domainDegradedMs : limits.domainVerifiedMs
    case 'degraded':
      return limits.domainDegradedMs
    case 'failed':
      return limits.domainFailedMs
    case 'pending':
      return limits.domainPendingSteps.find(({ untilMs }) => ageMs < untilMs)?.everyMs ?? null
  }
}
