// What follows from what the database knows about a submission. The order of the list is the precedence of refusals (decisions D): the first check that
// objects decides. Used twice with the same facts: before the malware scan, and on the answer of the admission itself.
import type { Refusal } from '../domain/refusal.ts'
import { refuse } from '../domain/refusal.ts'
import type { QuotaState, Submission } from '../domain/submission.ts'
import type { Admission } from '../store/admit.ts'
import type { QuotaRow } from '../store/usage.ts'

/** What the checks need to know of a submission: `messages` are admitted together or not at all. */
interface Asked {
  readonly idempotency?: Submission['idempotency']
  readonly messages?: number
}

type Check = (submission: Asked, known: Admission) => Refusal | undefined

const keyIsNotReused: Check = ({ idempotency }, { repeated_id, repeated_hash }) =>
  repeated_id !== null && repeated_hash !== idempotency?.bodyHash
    ? refuse(
        'idempotency_key_reused',
        'This Idempotency-Key was used before with another body; use a new key for a new message.',
        {
          field: 'Idempotency-Key',
        },
      )
    : undefined

// Unknown, disabled, foreign and on an unverified domain: one answer for all four, so that ids cannot be probed.
const mailboxIsActive: Check = (_submission, { sender }) =>
  sender === null
    ? refuse(
        'mailbox_not_active',
        '"mailboxId" is not an active mailbox of this workspace on a verified domain; use the id of one that is.',
        {
          field: 'mailboxId',
        },
      )
    : undefined

const recipientIsWelcome: Check = (_submission, { suppressed }) =>
  suppressed
    ? refuse(
        'recipient_suppressed',
        'The recipient is on the suppression list of this workspace; remove the suppression before you send again.',
        {
          field: 'recipient',
        },
      )
    : undefined

// Not admitted with room left: the next batch has it (`roundsMax`).
const quotaIsLeft: Check = ({ messages = 1 }, known) => {
  if (known.admitted) return undefined
  // The longest wait counts: when the month is used up, waiting for the hour is no way out; and where it would never fit, no wait is.
  const short = quotaOf(known)
    .toReversed()
    .filter(({ remaining }) => remaining < messages)
  const window = short.find(({ limit }) => limit < messages) ?? short[0]
  if (window === undefined) return undefined
  const { code, words } = usedUp[window.window]
  const why = window.limit === 0 ? noneAllowed[window.window] : `${shortOf(window, messages)}${words(window)}`
  // A wait stands beside it also where none helps: every 429 has one (decisions D).
  return refuse(code, why, { retryAfterSeconds: Math.max(1, window.resetSeconds) })
}

/** Several messages need more room than one. */
function shortOf({ limit, remaining }: QuotaState, messages: number): string {
  if (messages === 1) return ''
  if (messages > limit)
    return `${messages} messages at once are more than are ever allowed: send to fewer recipients at a time. `
  return `${messages} messages at once need more than the ${remaining} that are left. `
}

const usedUp = {
  hour: {
    code: 'hourly_limit_reached',
    words: ({ limit, remaining, resetSeconds }: QuotaState) =>
      `The limit of ${limit} messages in 60 minutes ${isReached(remaining)}; try again in ${resetSeconds} seconds.`,
  },
  day: {
    code: 'daily_limit_reached',
    words: ({ limit, remaining }: QuotaState) =>
      `The limit of ${limit} messages a day ${isReached(remaining)}; it turns at midnight UTC.`,
  },
  month: {
    code: 'monthly_limit_reached',
    words: ({ limit, remaining }: QuotaState) =>
      `The limit of ${limit} messages a month ${isReached(remaining)}; it turns with the month (UTC).`,
  },
} as const

const none = (inTime: string): string =>
  `The plan of this workspace allows no messages ${inTime}: waiting is no way out, only another plan.`
const noneAllowed = { hour: none('in 60 minutes'), day: none('a day'), month: none('a month') } as const

const isReached = (remaining: number): string => (remaining === 0 ? 'is reached' : 'would be passed')

/** What is not admitted, and no check objects, stands behind a group that did not fit and kept its places: so often the next batch is asked for. */
export const roundsMax = 100
/** Behind the last of them, or of the time that its caller has. */
export const tooSlow = refuse(
  'service_unavailable',
  'The service is too slow at this moment; nothing was accepted. Try again later.',
)

/** Before the order of the list: a repeat of an accepted submission skips everything behind the first check. */
export const checks: readonly Check[] = [keyIsNotReused, mailboxIsActive, recipientIsWelcome, quotaIsLeft]

/** The first refusal; `repeated` when the same submission was accepted before; undefined when nothing objects. */
export function judge(submission: Asked, known: Admission): Refusal | 'repeated' | undefined {
  for (const check of checks) {
    const refusal = check(submission, known)
    if (refusal !== undefined) return { ...refusal, quota: quotaOf(known) }
    if (check === keyIsNotReused && known.repeated_id !== null) return 'repeated'
  }
  return undefined
}

/** The limited windows of the workspace, as they stand after this submission. */
export function quotaOf(known: QuotaRow): readonly QuotaState[] {
  const windows: QuotaState[] = []
  const add = (window: QuotaState['window'], limit: number | null, used: number, resetSeconds: number | null) => {
    if (limit !== null)
      windows.push({ window, limit, remaining: Math.max(0, limit - used), resetSeconds: resetSeconds ?? 0 })
  }
  add('hour', known.hourly, known.hour_used, known.hour_resets)
  add('day', known.daily, known.day_used, known.day_resets)
  add('month', known.monthly, known.month_used, known.month_resets)
  return windows
}
