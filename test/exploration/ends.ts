// The ends that an attempt can come to, as the real code writes them down: facts of the conversation through `endingOf`, `putOff` and
// `unattempted` of deliver/record.ts, and `endingJson` of store/outbound.ts.
import { endingOf, isReplyToDot, putOff, unattempted, type Schedule } from '../../src/deliver/record.ts'
import type { TransmitResult } from '../../src/deliver/transmit.ts'
import type { MessageId } from '../../src/domain/message.ts'
import { endingJson, type Claimed, type Ending } from '../../src/store/outbound.ts'
import { simulatedWorkspace, type FinishRow } from '../simulation/model-database.ts'
import type { End } from './state.ts'

/** Shorter than a lease, and longer than what happens meanwhile. */
const delayMs = 100

const facts = (changes: Partial<TransmitResult>): TransmitResult => ({
  phase: 'eod',
  peer: { host: 'mx.example' },
  dotWritten: false,
  needsDisarm: false,
  routeKind: 'mx',
  attemptsOnHosts: [],
  dialogue: [],
  ...changes,
})
const said = (code: number) => ({ reply: { code, text: 'so it is' } })
const pastDot = { phase: 'eod', dotWritten: true } as const
const atArm = { phase: 'arm' } as const

/** What the worker saw; of what the database says at the arm, its answer. */
const seen = {
  '250 to the dot': facts({ ...pastDot, ...said(250) }),
  '450 to the dot': facts({ ...pastDot, ...said(450) }),
  '550 to the dot': facts({ ...pastDot, ...said(550) }),
  'no reply to the dot': facts({ ...pastDot, trouble: 'closed' }),
  'the line is cut in the content': facts({ phase: 'content', trouble: 'closed' }),
  '450 to RCPT': facts({ phase: 'rcpt', ...said(450) }),
  '550 to RCPT': facts({ phase: 'rcpt', ...said(550) }),
  'nobody is found': facts({ phase: 'connect', trouble: 'connect_failed' }),
  'an arm without an answer': facts({ ...atArm, trouble: 'arm_failed', needsDisarm: true }),
  'armed too late': facts({ ...atArm, trouble: 'too_late', needsDisarm: true }),
  'armed, and then 550 to the content': facts({ ...atArm, ...said(550), needsDisarm: true }),
  halted: facts({ ...atArm, trouble: 'shutdown' }),
  suppressed: facts({ ...atArm, trouble: 'suppressed' }),
  expired: facts({ ...atArm, trouble: 'expired' }),
} as const satisfies Record<string, TransmitResult>
export type Seen = keyof typeof seen | 'handed back'

/** Nobody's fault outside: it uses no try. */
const ourLack: ReadonlySet<Seen> = new Set(['an arm without an answer', 'armed too late'])

const known = new Map<string, End>()

interface Claim {
  readonly id: MessageId
  readonly epoch: number
  readonly token: string
  readonly attempt: number
}

export function endOf(claim: Claim, what: Seen, triesMax: number): End {
  const key = `${claim.id} ${claim.epoch} ${claim.token} ${claim.attempt} ${what} ${triesMax}`
  const before = known.get(key)
  if (before !== undefined) return before
  const now = new Date(0)
  const schedule: Schedule = { timeScale: 1, retrySchedule: Array(triesMax - 1).fill(1), now, startedAt: now }
  const claimed = { ...claim, workspaceId: simulatedWorkspace, expiresAt: new Date(9e12), destination: 'x.example' }
  const ending = endingAs(claimed as unknown as Claimed, what, schedule)
  const row = JSON.parse(endingJson(ending)) as FinishRow
  const timed = row.delay_ms === undefined || row.delay_ms === 0 ? row : { ...row, delay_ms: delayMs }
  const end: End = {
    name: what,
    row: timed,
    replied: what !== 'handed back' && isReplyToDot(seen[what]),
    ...(what === 'nobody is found' && ending.status === 'retrying' && { outOfReach: true }),
  }
  known.set(key, end)
  return end
}

function endingAs(claimed: Claimed, what: Seen, schedule: Schedule): Ending {
  if (what === 'handed back') return unattempted(claimed, { kind: 'retry', reason: 'shutdown' }, schedule)
  const ending = ourLack.has(what)
    ? putOff(claimed, delayMs, seen[what], schedule)
    : endingOf(claimed, seen[what], schedule)
  if (ending === undefined) throw new Error(`${what} ends nothing`)
  return ending
}
