// What a try at posting an event means: only 2xx, with an answer that ends, is success; everything else is tried again on the ladder, and
// there are eight tries (decisions G). Pure.
import { retryDelayMs } from '../base/backoff.ts'
import { limits } from '../config.ts'
import type { WebhookTrouble } from '../domain/webhook.ts'

/** What one try saw. A status beside a trouble: the answer began, and did not end as it should. */
export interface PostFacts {
  readonly status?: number
  readonly trouble?: WebhookTrouble
  readonly retryAfterSeconds?: number
  readonly excerpt?: string
  readonly durationMs: number
  /** What was lacking here, so that the receiver was not asked at all. */
  readonly lack?: string
}

export interface Verdict {
  readonly delivered: boolean
  /** Left out: there is no next try. */
  readonly delayMs?: number
  /** So long the endpoint wants to be asked for nothing, no other event either. */
  readonly restMs?: number
}

export function verdictOf(
  facts: PostFacts,
  attempt: number,
  timeScale: number,
  random: () => number = Math.random,
): Verdict {
  const { status = 0, trouble } = facts
  if (trouble === undefined && status >= 200 && status < 300) return { delivered: true }
  const step = retryDelayMs(limits.webhookScheduleSeconds, attempt, limits.webhookJitter, random)
  const restMs = restOf(facts)
  return {
    delivered: false,
    ...(step !== undefined && { delayMs: Math.ceil(Math.max(step, askedFor(facts, attempt)) / timeScale) }),
    ...(restMs !== undefined && { restMs: Math.ceil(restMs / timeScale) }),
  }
}

/** RFC 6585 4 and RFC 9110 15.6.4: what is said of whoever asks, and not of this event. With a backlog, all its events would use up their tries at a limit of so many a minute. */
function restOf({ status, retryAfterSeconds }: PostFacts): number | undefined {
  if (status === 429) return Math.min(limits.webhookRestMsMax, (retryAfterSeconds ?? limits.webhookRestSeconds) * 1000)
  if (status === 503 && retryAfterSeconds !== undefined)
    return Math.min(limits.webhookRestMsMax, retryAfterSeconds * 1000)
  return undefined
}

/** `Retry-After` may make a wait longer, up to the next step of the ladder; never shorter. */
function askedFor({ retryAfterSeconds = 0 }: PostFacts, attempt: number): number {
  const steps = limits.webhookScheduleSeconds
  const most = steps[attempt] ?? steps.at(-1) ?? 0
  return Math.min(retryAfterSeconds, most) * 1000
}

/** The ladder without jitter, in milliseconds, for tries that nobody lived to judge. */
export function ladderMs(timeScale: number): number[] {
  return limits.webhookScheduleSeconds.map((seconds) => Math.ceil((seconds * 1000) / timeScale))
}

/** RFC 9110 10.2.3: seconds, or a date. Undefined where it is neither. */
export function parseRetryAfter(field: string | string[] | undefined, now: number): number | undefined {
  if (typeof field !== 'string') return undefined
  // As it came, with the blanks behind it (9110 5.5).
  const value = field.trimEnd()
  if (/^\d{1,9}$/.test(value)) return Number(value)
  const at = value.endsWith('GMT') ? Date.parse(value) : Number.NaN
  return Number.isNaN(at) ? undefined : Math.max(0, Math.round((at - now) / 1000))
}
