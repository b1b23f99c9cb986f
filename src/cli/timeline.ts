// A message with everything that happened to it, for people: each event in one line of words, each attempt with its SMTP dialogue line by line.
// What is written down of events and attempts is told whole; what these words do not know stands there as it is kept.
import type { MessageStory, Timeline } from '../workspace/workspace.ts'
import { facts, table } from './print.ts'

export function describeMessage(message: MessageStory): string {
  const { events, attempts, reports, queue, scan, sandboxMailId } = message
  const record = facts({
    id: message.id,
    workspace: message.workspaceId,
    status: message.status,
    delivery: message.deliveryStatus,
    from: message.sender,
    to: message.recipient,
    subject: message.subject,
    created: message.createdAt,
    expires: message.expiresAt,
    'provider id': message.providerMessageId,
    error: message.errorMessage,
    'what to do': whatToDo(message),
    scan: scan === undefined ? undefined : JSON.stringify(scan),
    'sandbox mail': sandboxMailId,
    'sent again as': message.sentAgainAs,
    'sent again for': message.sentAgainFor,
    'next try': queue === undefined ? undefined : nextTry(queue),
  })
  const told = (title: string, rows: Rows): string[] =>
    rows.length === 0 ? [] : [table([title, 'TIME', 'WHAT', 'FACTS'], rows, '')]
  return [
    record,
    ...told(
      'EVENT',
      events.map((each) => [each.sequence, each.occurredAt, each.type, words(each.facts)]),
    ),
    ...attempts.map(describeAttempt),
    ...told('WEBHOOK', events.flatMap(postsOf)),
    ...told(
      'REPORT',
      reports.map((each, at) => [at + 1, each.createdAt, each.eventType, each.detail]),
    ),
  ].join('\n\n')
}

/** Where it is the reader's turn, nobody has taken it, and what they are to give would not be refused: its content may be gone, or it came all the same. */
function whatToDo({ id, status, sendAgainAt }: MessageStory): string | undefined {
  if (sendAgainAt === undefined) return undefined
  const again = `./bin/posthorn message send-again ${id}`
  return status === 'delivery_unknown'
    ? `the recipient has it once, or not at all. Where a missing copy does more harm than a second one, from ${sendAgainAt.toISOString()} on: ${again}`
    : `when the cause is mended: ${again}`
}

type Rows = readonly (readonly (string | number | Date | undefined)[])[]

function nextTry({ status, dueAt, stopped }: NonNullable<Timeline['queue']>): string | undefined {
  if (status === 'sending') return undefined
  return stopped
    ? `when delivery goes on, which is stopped for now: posthorn doctor says why`
    : `${dueAt.toISOString()}, or soon after`
}

/** As workers, reapers and reports write it; nothing of it is sure to be there. */
interface Kept {
  readonly attempt?: unknown
  readonly reason?: unknown
  readonly errorMessage?: unknown
  readonly nextAttemptAt?: unknown
  readonly smtp?: Smtp
  readonly bounce?: { readonly class?: string; readonly rule?: string; readonly final?: boolean }
  readonly suppressed?: unknown
}
interface Smtp {
  readonly host?: string
  readonly address?: string
  readonly stage?: string
  readonly code?: number
  readonly reply?: string
  readonly tls?: string
}

/** The error's words hold the reply where there is one. */
function words(kept: object | undefined): string {
  const { attempt, reason, errorMessage, nextAttemptAt, smtp, bounce, suppressed, ...rest } = (kept ?? {}) as Kept
  const said = smtp?.reply === undefined ? undefined : `${smtp.host ?? 'they'} said: ${replyOf(smtp)}`
  const why = [reason, errorMessage ?? said].filter((each) => each !== undefined && each !== '').join(': ')
  return [
    ...(attempt === undefined ? [] : [`try ${text(attempt)}`]),
    ...(why === '' ? [] : [why]),
    ...(bounce === undefined
      ? []
      : [`${bounce.class}, by rule ${bounce.rule}${bounce.final === true ? ', final' : ''}`]),
    ...(suppressed === true ? ['the recipient is suppressed now'] : []),
    ...(nextAttemptAt === undefined ? [] : [`next try ${text(nextAttemptAt)}`]),
    ...Object.entries(rest).map(([name, value]) => `${name} ${text(value)}`),
  ].join('; ')
}

const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
const replyOf = ({ code, reply = '' }: Smtp): string => (code === undefined ? reply : `${code} ${reply}`)

/** One exchange. */
interface Said {
  readonly said?: string
  readonly reply?: string
  readonly trouble?: string
  readonly cause?: string
}

function describeAttempt({ epoch, endedAt, outcome, facts: kept }: Timeline['attempts'][number]): string {
  const { dialogue, smtp, startedAt, phase, tlsPolicy, trouble, cause, ...rest } = kept as Kept &
    Readonly<Record<'dialogue' | 'startedAt' | 'phase' | 'tlsPolicy' | 'trouble' | 'cause', unknown>>
  const host = smtp?.host === undefined ? '' : `${smtp.host}${smtp.address === undefined ? '' : ` (${smtp.address})`}`
  const connected = host !== '' && (smtp?.tls !== undefined || (phase !== 'route' && phase !== 'connect'))
  const tls = `${smtp?.tls ?? 'clear text'}${tlsPolicy === undefined ? '' : `, demanded by ${text(tlsPolicy)}`}`
  const about = facts({
    outcome,
    facts: words(rest) || undefined,
    began: startedAt === undefined ? undefined : text(startedAt),
    ended: endedAt,
    host: host || undefined,
    tls: connected ? tls : undefined,
    'came to': phase === undefined ? undefined : text(phase),
    trouble: trouble === undefined ? undefined : troubleOf(text(trouble), cause),
  })
  const lines = Array.isArray(dialogue) ? (dialogue as unknown[]).flatMap(linesOf) : []
  return [`ATTEMPT ${epoch}`, about, ...lines].join('\n')
}

const troubleOf = (trouble: string, cause: unknown): string =>
  `${trouble.replaceAll('_', ' ')}${cause === undefined ? '' : ` (${text(cause)})`}`

/** Who said it stands before the first line of what was said. */
function linesOf(exchange: unknown): string[] {
  if (typeof exchange !== 'object' || exchange === null) return [`  ${text(exchange)}`]
  const { said = '', reply, trouble, cause } = exchange as Said
  const by = (who: string, what: string): string[] =>
    what.split(/\r?\n/).map((line, at) => `  ${(at === 0 ? who : '').padEnd(6)}${line}`.trimEnd())
  return [
    ...(said === '' ? [] : by('us:', said)),
    ...(reply === undefined ? [] : by('them:', reply)),
    ...(trouble === undefined ? [] : by('!', troubleOf(trouble, cause))),
  ]
}

/** The posts of an event, and when the next is due. */
function postsOf({ sequence, type, webhook }: Timeline['events'][number]): Rows {
  if (webhook === undefined) return []
  const due = webhook.nextAttemptAt
  return [
    ...webhook.attempts.map(({ attempt, endedAt, delivered, status, trouble, durationMs }) => [
      sequence,
      endedAt,
      type,
      `try ${attempt} ${delivered ? 'delivered' : 'failed'}: ${status ?? trouble ?? ''}${durationMs === undefined ? '' : `, ${durationMs} ms`}`,
    ]),
    ...(due === undefined ? [] : [[sequence, due, type, 'next try']]),
  ]
}
