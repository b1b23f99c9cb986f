// States, the same everywhere: a colour, an icon and a word, never the colour alone.
import {
  Ban,
  Check,
  CheckCheck,
  CircleHelp,
  Clock,
  Flag,
  Info,
  MailWarning,
  MailX,
  Minus,
  RotateCw,
  Send,
  Trash2,
  TriangleAlert,
  X,
  type LucideIcon,
} from 'lucide-react'
import type { ReactNode } from 'react'

export const tones = {
  idle: 'bg-sunken text-soft',
  accent: 'bg-accent-wash text-accent',
  good: 'bg-good-wash text-good',
  warn: 'bg-warn-wash text-warn',
  bad: 'bg-bad-wash text-bad',
  unknown: 'bg-unknown-wash text-unknown',
} as const
export type Tone = keyof typeof tones

interface State {
  readonly tone: Tone
  readonly icon: LucideIcon
  readonly word: string
  /** For somebody who does not know SMTP. */
  readonly meaning: string
}

export const states = {
  queued: { tone: 'idle', icon: Clock, word: 'Queued', meaning: 'Kept safely, waiting for its first attempt.' },
  sending: { tone: 'accent', icon: Send, word: 'Sending', meaning: 'An attempt is under way.' },
  retrying: { tone: 'warn', icon: RotateCw, word: 'Retrying', meaning: 'Not accepted yet; it will be tried again.' },
  sent: { tone: 'good', icon: Check, word: 'Sent', meaning: 'The next server took it.' },
  failed: { tone: 'bad', icon: X, word: 'Failed', meaning: 'Refused, or given up; it will not be tried again.' },
  delivery_unknown: {
    tone: 'unknown',
    icon: CircleHelp,
    word: 'Unknown',
    meaning: 'It may have arrived; nobody can prove it. It is never sent twice.',
  },
  pending: { tone: 'idle', icon: Minus, word: 'No report', meaning: 'The receiving provider has said nothing yet.' },
  delivered: { tone: 'good', icon: CheckCheck, word: 'Delivered', meaning: 'The receiving provider took it.' },
  soft_bounce: {
    tone: 'warn',
    icon: MailWarning,
    word: 'Soft bounce',
    meaning: 'Refused, but the recipient is not to blame.',
  },
  hard_bounce: {
    tone: 'bad',
    icon: MailX,
    word: 'Hard bounce',
    meaning: 'The recipient does not exist; it is suppressed.',
  },
  complaint: { tone: 'bad', icon: Flag, word: 'Complaint', meaning: 'The recipient called it spam; it is suppressed.' },
  active: { tone: 'good', icon: Check, word: 'Active', meaning: 'In use.' },
  failing: {
    tone: 'warn',
    icon: TriangleAlert,
    word: 'Failing',
    meaning: 'No try has got through since the time that stands there; it is tried again.',
  },
  disabled: { tone: 'idle', icon: Ban, word: 'Disabled', meaning: 'Not in use.' },
  blocked: { tone: 'bad', icon: Ban, word: 'Blocked', meaning: 'May not send.' },
  removing: {
    tone: 'bad',
    icon: Trash2,
    word: 'Being removed',
    meaning: 'Blocked for good, and gone when that has ended.',
  },
  verified: { tone: 'good', icon: Check, word: 'Verified', meaning: 'Its records are right.' },
  degraded: {
    tone: 'warn',
    icon: TriangleAlert,
    word: 'Degraded',
    meaning: 'A record is missing; it still sends for 72 hours.',
  },
  broken: {
    tone: 'bad',
    icon: X,
    word: 'Failed',
    meaning: 'Its records were broken for 72 hours. It sends again when they are right.',
  },
  awaited: { tone: 'warn', icon: Clock, word: 'Not seen yet', meaning: 'Its records were not found yet.' },
  not_ready: {
    tone: 'idle',
    icon: Clock,
    word: 'Not ready',
    meaning: 'Its value is not known yet; it is not to be set.',
  },
  wrong: { tone: 'bad', icon: X, word: 'Wrong', meaning: 'Something else stands there.' },
  advised: { tone: 'idle', icon: Info, word: 'Advised', meaning: 'Worth having, but nothing waits for it.' },
  retiring: {
    tone: 'idle',
    icon: Clock,
    word: 'Retiring',
    meaning: 'Of a key that was replaced; it stays for a while.',
  },
  ok: { tone: 'good', icon: Check, word: 'Fine', meaning: 'As it should be.' },
  warn: { tone: 'warn', icon: TriangleAlert, word: 'Look at it', meaning: 'It works, but not as well as it could.' },
  fail: { tone: 'bad', icon: X, word: 'Broken', meaning: 'Mail suffers from it.' },
  skipped: { tone: 'idle', icon: Minus, word: 'Not needed', meaning: 'Not needed here.' },
  revoked: { tone: 'idle', icon: Ban, word: 'Revoked', meaning: 'Works no more.' },
  expired: { tone: 'idle', icon: Clock, word: 'Expired', meaning: 'Its time is over: it works no more.' },
} as const satisfies Record<string, State>
export type StateName = keyof typeof states

export function Badge({
  tone,
  icon: Icon,
  children,
  title,
}: {
  readonly tone: Tone
  readonly icon?: LucideIcon
  readonly children: ReactNode
  readonly title?: string
}) {
  return (
    <span
      title={title}
      className={`inline-flex items-center gap-1 rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap ${tones[tone]}`}
    >
      {Icon !== undefined && <Icon aria-hidden className="size-3.5" strokeWidth={2.2} />}
      {/* Its line is that of its word, not of its picture: beside other words it stands level with them. */}
      <span className="self-baseline">{children}</span>
    </span>
  )
}

export function StateBadge({ state }: { readonly state: string }) {
  const known = (states as Readonly<Record<string, State>>)[state]
  if (known === undefined) return <Badge tone="idle">{state}</Badge>
  return (
    <Badge tone={known.tone} icon={known.icon} title={known.meaning}>
      {known.word}
    </Badge>
  )
}

/** Two of its states are called as others, and mean something else. */
export function DomainBadge({ status }: { readonly status: string }) {
  return <StateBadge state={status === 'pending' ? 'awaited' : status === 'failed' ? 'broken' : status} />
}
