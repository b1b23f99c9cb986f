// The story of a message, told from top to bottom: what happened when, in plain words, with the servers' own words and the whole dialogue for
// those who want them. Everything that comes from outside is text here, and never anything else.
import { Ban, ChevronRight, type LucideIcon } from 'lucide-react'
import { Fragment, type ReactNode } from 'react'
import { serviceNow } from '../clock.ts'
import type { BounceClass, EndReason, MessageTimeline, TimelineAttempt, TimelineEvent } from '../shapes.ts'
import { states, tones, type Tone } from '../ui/badge.tsx'
import { duration } from '../ui/span.ts'
import { ClockTime, Time } from '../ui/time.tsx'
import { Posts } from './posts.tsx'

interface Smtp {
  readonly host?: string
  readonly address?: string
  readonly stage?: string
  readonly code?: number
  readonly enhancedCode?: string
  readonly reply?: string
  readonly tls?: string
}
interface Facts {
  readonly attempt?: number
  readonly reason?: string
  readonly nextAttemptAt?: string
  readonly errorMessage?: string
  readonly smtp?: Smtp
  readonly suppressed?: boolean
  readonly bounce?: {
    readonly class?: string
    readonly rule?: string
    readonly final?: boolean
    readonly source?: string
  }
  readonly event?: { readonly detail?: string }
}

/** Why it was not accepted, for somebody who does not know SMTP. */
const reasons = {
  dns: 'The address book of the internet (DNS) gave no answer for the recipient’s domain.',
  connect: 'No mail server of the recipient could be reached.',
  tls: 'No encrypted connection could be made, and one is required.',
  greeting_4xx: 'The server said at once that it does not want to talk now.',
  greeting_5xx: 'The server said at once that it does not talk to us.',
  ehlo_5xx: 'The server refused our greeting.',
  auth: 'The relay refused our login.',
  mail_4xx: 'The server does not take mail from this sender for now.',
  rcpt_4xx: 'The server does not take mail for this recipient for now. Many do that to every first try.',
  data_4xx: 'The server does not take the content for now.',
  eod_4xx: 'The server read the mail and asked to try again later.',
  lost_before_eod: 'The line broke before the mail was handed over.',
  arm_failed: 'Our own database could not write down that the last step comes next, so it was not done.',
  worker_lost: 'The process that was sending it ended unexpectedly.',
  shutdown: 'The service was being stopped; the message was put back.',
  mail_5xx: 'The server refuses mail from this sender.',
  rcpt_5xx: 'The server refuses mail for this recipient.',
  data_5xx: 'The server refuses the content.',
  eod_5xx: 'The server read the mail and refused it.',
  nxdomain: 'The recipient’s domain does not exist.',
  null_mx: 'The recipient’s domain says that it takes no mail.',
  no_mail_host: 'The recipient’s domain has no mail server.',
  private_mx: 'The recipient’s mail server has only private addresses.',
  expired: 'The time for trying was over.',
  tries_used_up: 'All tries were used.',
  recipient_suppressed: 'The recipient was suppressed meanwhile.',
  workspace_blocked: 'The workspace was blocked meanwhile.',
  mailbox_not_active: 'The mailbox was disabled or removed meanwhile, or its domain is not verified any more.',
  eod_timeout: 'The mail was handed over, and the server never said whether it took it.',
  eod_closed: 'The mail was handed over, and the line broke before the server said whether it took it.',
  eod_malformed: 'The mail was handed over, and the answer was nothing that means yes or no.',
  eod_4xx_late:
    'The server read the mail and asked to try again later. That became known when the mail had been told as unknown, and somebody may have sent it again: so it is given up.',
  size: 'The mail is larger than the server takes.',
  smtputf8: 'The server takes no addresses beyond ASCII.',
  no_8bitmime: 'The server takes 7-bit mail alone, and this mail cannot be written so.',
  content_lost: 'Its content could not be read from our database.',
  not_composable: 'No mail could be made of its content.',
  assumed_sent: 'After a restore nobody knew whether it was sent; an operator decided to leave it so.',
} as const satisfies Record<EndReason, string>

/** What a refusal for good was about, by its words: a server that refuses at RCPT TO may mean the mail or us, and not the recipient. */
const refusals = {
  policy:
    'The server refused this mail by its policy: for what it holds, who sent it or where it comes from. The recipient is not to blame.',
  content: 'The server refuses the content, or its size. The recipient is not to blame.',
  sender: 'The server refuses mail from this sender. The recipient is not to blame.',
  capacity: 'The recipient’s mailbox is full.',
  system: 'Something is wrong at the server or on the way to it. The recipient is not to blame.',
  temporary: 'The server speaks of something that passes, and yet refused for good.',
  bad_mailbox: 'The server knows no such recipient.',
  bad_domain: 'The recipient’s domain takes no mail.',
  inactive: 'The recipient’s mailbox is not in use any more.',
} as const satisfies Partial<Record<BounceClass, string>>

/** What a report of the provider was about, for somebody who does not know its codes. */
const reports = {
  ...refusals,
  temporary: 'The server speaks of something that passes.',
  delay: 'The server has it and could not hand it on yet; it goes on trying.',
  owner_changed: 'The recipient’s address belongs to somebody else now.',
  filtered: 'The server refused it by a filter. The recipient is not to blame.',
  unknown: 'What the server means is not clear, so nothing is held against the recipient.',
} as const satisfies Partial<Record<BounceClass, string>>
/** Of a reply that became one, the step of its attempt has said it already. */
function reportOf({ bounce, attempt }: Facts, events: readonly TimelineEvent[]): string | undefined {
  const words = (reports as Readonly<Record<string, string>>)[bounce?.class ?? '']
  const all = events.map(({ facts }) => (facts ?? {}) as Facts)
  const isTold =
    bounce?.source === 'smtp' && all.some((each) => each.attempt === attempt && reasonOf(each, events) === words)
  return isTold ? undefined : words
}

/** By the class where there is one, else by the stage. The class stands in the report that the same reply became. */
function reasonOf({ reason, attempt }: Facts, events: readonly TimelineEvent[]): string | undefined {
  if (reason === undefined) return undefined
  const told = events
    .map(({ facts }) => (facts ?? {}) as Facts)
    .find(({ bounce, attempt: of }) => bounce?.source === 'smtp' && of === attempt)?.bounce?.class
  const byClass = reason.endsWith('_5xx') ? (refusals as Readonly<Record<string, string>>)[told ?? ''] : undefined
  return byClass ?? (reasons as Readonly<Record<string, string>>)[reason] ?? reason
}

/** Failed by the other side's word; all else was given up here. */
const refusedFor: ReadonlySet<string | undefined> = new Set<EndReason>([
  'mail_5xx',
  'rcpt_5xx',
  'data_5xx',
  'eod_5xx',
  'null_mx',
])

interface Chapter {
  readonly state: keyof typeof states
  readonly title: string
}
function chapterOf({ type }: TimelineEvent, { attempt, smtp, reason }: Facts): Chapter {
  const to = smtp?.host === undefined ? '' : ` by ${smtp.host}`
  switch (type) {
    case 'message.queued':
      return { state: 'queued', title: 'Accepted and kept' }
    case 'message.sending':
      return { state: 'sending', title: attempt === undefined || attempt === 1 ? 'First try' : `Try ${attempt}` }
    case 'message.sent':
      return { state: 'sent', title: `Taken${to}` }
    case 'message.retrying':
      return { state: 'retrying', title: 'Not accepted yet' }
    case 'message.failed':
      return { state: 'failed', title: refusedFor.has(reason) ? 'Refused for good' : 'Given up' }
    case 'message.delivery_unknown':
      return { state: 'delivery_unknown', title: 'Outcome unknown' }
    case 'message.delivered':
      return { state: 'delivered', title: 'The provider confirms: delivered' }
    case 'message.soft_bounced':
      return { state: 'soft_bounce', title: 'The provider reports a soft bounce' }
    case 'message.hard_bounced':
      return { state: 'hard_bounce', title: 'The provider reports a hard bounce' }
    case 'message.complained':
      return { state: 'complaint', title: 'The recipient called it spam' }
    default:
      return { state: 'queued', title: type }
  }
}

export function Story({ timeline }: { readonly timeline: MessageTimeline }) {
  const { events, attempts, queue } = timeline
  const attemptOf = attemptsByEvent(events, attempts)
  return (
    <ol className="grid">
      {events.map((event, index) => {
        const facts = (event.facts ?? {}) as Facts
        const before = events[index - 1]
        const tookMs = before === undefined ? 0 : Date.parse(event.occurredAt) - Date.parse(before.occurredAt)
        const attempt = attemptOf.get(event.sequence)
        return (
          <Step
            key={event.id}
            {...chapterOf(event, facts)}
            at={event.occurredAt}
            after={tookMs > 0 ? `+${duration(tookMs)}` : ''}
            isLast={index === events.length - 1 && queue === undefined}
          >
            <Words event={event} facts={facts} meaning={reasonOf(facts, events) ?? reportOf(facts, events)} />
            {attempt !== undefined && <Dialogue attempt={attempt} />}
            {event.webhook !== undefined && <Posts id={event.id} webhook={event.webhook} />}
          </Step>
        )
      })}
      {queue !== undefined && queue.status !== 'sending' && (
        <Step
          state="queued"
          title={queue.attempts === 0 ? 'Waiting for its first try' : 'Waiting for the next try'}
          isLast
          after=""
        >
          <p className="text-sm text-soft">
            {queue.stopped ? (
              <>
                Delivery is stopped on the whole installation; this message is tried when its operators let it go on. It
                is given up <Time at={queue.expiresAt} />.
              </>
            ) : (
              <>
                Due <Time at={queue.dueAt} />; it is given up <Time at={queue.expiresAt} />.
              </>
            )}
          </p>
        </Step>
      )}
    </ol>
  )
}

/** The event that an ended attempt led to: the n-th of those that end attempts. */
function attemptsByEvent(
  events: readonly TimelineEvent[],
  attempts: readonly TimelineAttempt[],
): Map<number, TimelineAttempt> {
  const ends = events.filter(({ type }) =>
    ['message.sent', 'message.retrying', 'message.failed', 'message.delivery_unknown'].includes(type),
  )
  return new Map(
    attempts.flatMap((attempt): [number, TimelineAttempt][] => {
      const number = (attempt.facts as Facts).attempt
      const found = ends.find(({ facts }) => number !== undefined && (facts as Facts | undefined)?.attempt === number)
      const end = found ?? ends[attempts.indexOf(attempt)]
      return end === undefined ? [] : [[end.sequence, attempt]]
    }),
  )
}

function Step({
  state,
  title,
  at,
  after,
  isLast,
  children,
}: Chapter & {
  readonly at?: string
  readonly after: string
  readonly isLast: boolean
  readonly children?: ReactNode
}) {
  const { icon: Icon, tone }: { icon: LucideIcon; tone: Tone } = states[state]
  return (
    <li className="grid grid-cols-[2rem_minmax(0,1fr)] gap-x-3">
      <div className="flex flex-col items-center">
        <span className={`flex size-8 shrink-0 items-center justify-center rounded-full ${tones[tone]}`}>
          <Icon aria-hidden className="size-4" />
        </span>
        {!isLast && <span aria-hidden className="w-px flex-1 bg-line" />}
      </div>
      <div className={`grid gap-1.5 pt-1 ${isLast ? '' : 'pb-6'}`}>
        <div className="flex flex-wrap items-baseline justify-between gap-x-4">
          <h3 className="font-medium">{title}</h3>
          {at !== undefined && (
            <p className="text-xs text-soft tabular-nums">
              {after !== '' && <span className="mr-2">{after}</span>}
              <ClockTime at={at} />
            </p>
          )}
        </div>
        {children}
      </div>
    </li>
  )
}

function Words({
  event,
  facts,
  meaning,
}: {
  readonly event: TimelineEvent
  readonly facts: Facts
  readonly meaning: string | undefined
}) {
  const { smtp, bounce, nextAttemptAt, suppressed, errorMessage } = facts
  const theirs = smtp?.reply ?? facts.event?.detail
  return (
    <>
      {meaning !== undefined && <p className="text-sm">{meaning}</p>}
      {meaning === undefined && errorMessage !== undefined && <p className="text-sm">{errorMessage}</p>}
      {theirs !== undefined && event.type !== 'message.delivered' && (
        <blockquote className="border-l-2 border-line pl-3 font-mono text-xs break-words whitespace-pre-wrap text-soft">
          {smtp?.code} {theirs}
        </blockquote>
      )}
      {nextAttemptAt !== undefined && Date.parse(nextAttemptAt) > serviceNow() && (
        <p className="text-sm text-soft">
          Next try <Time at={nextAttemptAt} />.
        </p>
      )}
      {bounce !== undefined && (
        <p className="text-xs text-soft">
          For programs: class <code className="font-mono">{bounce.class}</code>, rule{' '}
          <code className="font-mono">{bounce.rule}</code>
        </p>
      )}
      {suppressed === true && (
        <p className="inline-flex items-center gap-1.5 text-sm text-bad">
          <Ban aria-hidden className="size-4" /> The recipient is now suppressed: no more mail is accepted for it.
        </p>
      )}
    </>
  )
}

/** One exchange, as the worker kept it. */
interface Said {
  readonly stage: string
  readonly said: string
  readonly reply?: string
  readonly trouble?: string
}

function Dialogue({ attempt }: { readonly attempt: TimelineAttempt }) {
  const { smtp, dialogue, hosts } = attempt.facts as {
    readonly smtp?: Smtp
    readonly dialogue?: readonly Said[]
    readonly hosts?: readonly { readonly host?: string; readonly trouble?: string }[]
  }
  const lines = Array.isArray(dialogue) ? dialogue : []
  const where = [smtp?.host, smtp?.address].filter((part) => part !== undefined).join(' · ')
  if (where === '' && lines.length === 0) return null
  return (
    <details className="group rounded-lg border border-line">
      <summary className="flex list-none items-center gap-1.5 px-2.5 py-1.5 text-sm text-soft hover:text-ink">
        <ChevronRight aria-hidden className="size-4 shrink-0 transition-transform group-open:rotate-90" />
        <span className="wrap-anywhere">The conversation{where === '' ? '' : ` with ${where}`}</span>
      </summary>
      <div className="grid gap-2 border-t border-line p-3">
        <p className="text-xs text-soft">
          {smtp?.tls === undefined ? 'Not encrypted' : `Encrypted (${smtp.tls})`}
          {hosts !== undefined &&
            hosts.length > 1 &&
            `, after ${hosts.length === 2 ? 'another host' : `${hosts.length - 1} other hosts`}`}
        </p>
        {lines.length > 0 && (
          <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 font-mono text-xs leading-relaxed">
            {lines.map(({ said, reply, trouble }, index) => (
              // A dialogue only grows at its end.
              // oxlint-disable-next-line react/no-array-index-key
              <Fragment key={index}>
                {said !== '' && <Line who="us" text={said} />}
                {reply !== undefined && <Line who="them" text={reply} />}
                {trouble !== undefined && <Line who="" text={trouble.replaceAll('_', ' ')} />}
              </Fragment>
            ))}
          </dl>
        )}
      </div>
    </details>
  )
}

function Line({ who, text }: { readonly who: 'us' | 'them' | ''; readonly text: string }) {
  return (
    <>
      <dt className={who === 'us' ? 'text-accent' : 'text-soft'}>{who === '' ? '!' : who}</dt>
      <dd className={`break-words whitespace-pre-wrap ${who === '' ? 'text-bad' : ''}`}>{text}</dd>
    </>
  )
}
