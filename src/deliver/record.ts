// From the facts of an attempt to the row that ends it: state, events, report and timeline, for the statement that writes them together.
// Pure. What the facts mean is decided in outcome.ts; here it is put into words and dates.
import { limits } from '../config.ts'
import type { Facts, Outcome, RouteTaken, Trouble } from '../domain/attempt.ts'
import { rankOf } from '../domain/delivery-status.ts'
import { isSimulator } from '../domain/simulator.ts'
import { providerMessageId } from '../mail/queue-id.ts'
import { retryDelayMs } from '../base/backoff.ts'
import type { Claimed, Deferral, Ending } from '../store/outbound.ts'
import type { Said } from './dialogue.ts'
import { outcomeOf, reports, type SessionReport } from './outcome.ts'
import { slowDownAskedBy } from './slow-down.ts'
import type { TransmitResult } from './transmit.ts'

export interface Schedule {
  /** Divides the delays between tries. */
  readonly timeScale: number
  /** Those delays, in seconds; behind the last one no try is left. */
  readonly retrySchedule: readonly number[]
  readonly now: Date
  readonly startedAt: Date
}

/** The row that ends a claim; undefined when someone else has decided. */
export function endingOf(claimed: Claimed, result: TransmitResult, schedule: Schedule): Ending | undefined {
  const outcome = settle(outcomeOf(result, result.routeKind), claimed, schedule, slowDownAskedBy(result)?.ms)
  return outcome.kind === 'decided' ? undefined : endingAs(outcome, claimed, result, schedule)
}

function endingAs(
  outcome: Exclude<Settled, { kind: 'decided' }>,
  claimed: Claimed,
  result: TransmitResult,
  schedule: Schedule,
): Ending {
  const smtp = smtpOf(result)
  const report = reports(result, result.routeKind)
  const deferredBy = deferralsBefore(result, claimed.attempt, report && result.peer?.host)
  const error = outcome.kind === 'accepted' ? undefined : errorWords(outcome, result)
  const providerId = result.reply && result.phase === 'eod' ? providerMessageId(result.reply) : undefined
  const common = { attempt: claimed.attempt, ...(smtp && { smtp }) }
  return {
    id: claimed.id,
    epoch: claimed.epoch,
    token: claimed.token,
    workspaceId: claimed.workspaceId,
    status: statusOf[outcome.kind],
    ...(error !== undefined && { error }),
    ...(providerId !== undefined && outcome.kind === 'accepted' && { providerMessageId: providerId }),
    ...(result.routeKind === 'relay' && {
      relay: claimed.routeSealed === null ? ('installation' as const) : claimed.workspaceId,
    }),
    ...(outcome.kind === 'retry' && { delayMs: outcome.delayMs }),
    ...evidenceOf(outcome, result),
    usesTry: !(outcome.kind === 'retry' && outcome.reason === 'shutdown'),
    outcome: outcome.kind,
    attempt: {
      ...common,
      startedAt: schedule.startedAt,
      phase: result.phase,
      ...(result.dotWritten && { route: routeTaken(claimed, result) }),
      ...(result.peer?.tlsPolicy !== undefined && { tlsPolicy: result.peer.tlsPolicy }),
      ...('reason' in outcome && { reason: outcome.reason }),
      ...(result.trouble !== undefined && { trouble: result.trouble }),
      ...(result.cause !== undefined && { cause: result.cause }),
      dialogue: result.dialogue.map(line),
    },
    event: {
      ...common,
      ...('reason' in outcome && { reason: outcome.reason }),
      ...(outcome.kind === 'retry' && { nextAttemptAt: new Date(schedule.now.getTime() + outcome.delayMs) }),
      ...(error !== undefined && { errorMessage: error }),
    },
    ...(report !== undefined && { report: reportOf(claimed, report, result, outcome.kind === 'failed', common) }),
    ...(deferredBy.length > 0 && { deferredBy }),
  }
}

/**
 * What hosts said about the message besides the one that is reported, each once, whatever number of addresses it has (decisions C). They said 4yz: with
 * anything else none would have been asked after it.
 */
function deferralsBefore(result: TransmitResult, attempt: number, reported: string | undefined): readonly Deferral[] {
  const { attemptsOnHosts, routeKind } = result
  if (attemptsOnHosts.length < 2) return []
  const last = new Map<string, Deferral>()
  for (const facts of attemptsOnHosts) {
    const report = reports(facts, routeKind)
    const host = facts.peer?.host
    if (report?.bounce === undefined || host === undefined || host === reported) continue
    const { bounce } = report
    last.delete(host)
    last.set(host, { detail: detailOf(facts), bounce, report: { attempt, smtp: smtpOf(facts), bounce } })
  }
  return [...last.values()]
}

/** Routes change: by this it is known later whose feed may speak about the message. Told to nobody else (store/views/message-timeline.ts). */
function routeTaken({ routeSealed }: Claimed, { routeKind }: TransmitResult): RouteTaken {
  if (routeKind !== 'relay') return routeKind
  return routeSealed === null ? 'installation' : 'workspace'
}

/** Nobody outside was asked, so there is nobody's report. */
const nothing: TransmitResult = {
  phase: 'route',
  dotWritten: false,
  armed: false,
  needsDisarm: false,
  routeKind: 'relay',
  attemptsOnHosts: [],
  dialogue: [],
}

/** The end of a claim whose attempt could not even begin: a fault of ours, a shutdown, or content that is gone. */
export function unattempted(
  claimed: Claimed,
  outcome: Extract<Outcome, { kind: 'retry' | 'failed' }>,
  schedule: Schedule,
): Ending {
  const settled = settle(outcome, claimed, schedule)
  const error = settled.kind === 'retry' || settled.kind === 'failed' ? errorWords(settled, nothing) : undefined
  return {
    id: claimed.id,
    epoch: claimed.epoch,
    token: claimed.token,
    workspaceId: claimed.workspaceId,
    status: settled.kind === 'retry' ? 'retrying' : 'failed',
    ...(error !== undefined && { error }),
    ...(settled.kind === 'retry' && { delayMs: settled.delayMs }),
    usesTry: !(outcome.kind === 'retry' && outcome.reason === 'shutdown'),
    outcome: settled.kind,
    attempt: { attempt: claimed.attempt, startedAt: schedule.startedAt, reason: outcome.reason },
    event: {
      attempt: claimed.attempt,
      reason: 'reason' in settled ? settled.reason : outcome.reason,
      ...(settled.kind === 'retry' && { nextAttemptAt: new Date(schedule.now.getTime() + settled.delayMs) }),
      ...(error !== undefined && { errorMessage: error }),
    },
  }
}

/**
 * A claim whose attempt was put off (`paced`, `gave_way`, or a lack of our own): it uses no try, and waits for `delayMs`; where it would expire
 * before, it keeps to the schedule.
 */
export function putOff(claimed: Claimed, delayMs: number, result: TransmitResult, schedule: Schedule): Ending {
  const { trouble } = result
  const outcome = {
    kind: 'retry',
    reason: trouble === 'arm_failed' || trouble === 'too_late' ? 'arm_failed' : 'connect',
  } as const
  if (schedule.now.getTime() + delayMs >= claimed.expiresAt.getTime()) {
    const settled = settle(outcome, claimed, schedule)
    return settled.kind === 'decided'
      ? unattempted(claimed, outcome, schedule)
      : endingAs(settled, claimed, result, schedule)
  }
  return { ...endingAs({ ...outcome, delayMs }, claimed, result, schedule), usesTry: false }
}

/** What was seen of an attempt that had to make way for others, be it nothing: it was cut off as by a shutdown, and is told as what it is. */
export function gaveWay(seen: TransmitResult = nothing): TransmitResult {
  const trouble = 'gave_way'
  return {
    ...seen,
    trouble,
    dialogue: seen.dialogue.map((said) => (said.trouble === 'shutdown' ? { ...said, trouble } : said)),
  }
}

/**
 * How long it waits then: twice as long each time, for every time is told, and no longer than half of what is left to it. A claim that used no try
 * is one of these times, mostly.
 */
export function gaveWayMs({ epoch, attempt, expiresAt }: Claimed, now: Date): number {
  const grown = Math.min(limits.gaveWayMs * 2 ** (epoch - attempt), limits.gaveWayMsMax)
  return Math.ceil(Math.max(limits.gaveWayMs, Math.min(grown, (expiresAt.getTime() - now.getTime()) / 2)))
}

/** The database was away before anything of the content was read. */
export const unread: TransmitResult = { ...nothing, trouble: 'arm_failed' }

/**
 * How long it waits where the database, or this process, was away at its turn, and nobody outside was to blame: that it waits is written down when the
 * database is back, so it goes at once then; where it happens again and again, twice as long each time.
 */
export function ourLackMs({ epoch, attempt }: Claimed, { timeScale }: Schedule): number {
  return Math.ceil(Math.min(limits.ourLackMs * 2 ** (epoch - attempt), limits.ourLackMsMax) / timeScale)
}

type Settled =
  | Exclude<Outcome, { kind: 'retry' }>
  | (Extract<Outcome, { kind: 'retry' }> & { readonly delayMs: number })

/** A retry gets its delay, the other side's wish where that is longer, or becomes a failure when no try or no age is left. A claim handed back at a shutdown is due at once. */
function settle(outcome: Outcome, claimed: Claimed, { timeScale, retrySchedule, now }: Schedule, askedMs = 0): Settled {
  if (outcome.kind !== 'retry') return outcome
  if (outcome.reason === 'shutdown') return { ...outcome, delayMs: 0 }
  const delay = retryDelayMs(retrySchedule, claimed.attempt, limits.retryJitter)
  if (delay === undefined) return { kind: 'failed', reason: 'tries_used_up' }
  const delayMs = Math.ceil(Math.max(delay, Math.min(askedMs, limits.pauseMsMax)) / timeScale)
  if (now.getTime() + delayMs >= claimed.expiresAt.getTime()) return { kind: 'failed', reason: 'expired' }
  return { ...outcome, delayMs }
}

const statusOf = {
  accepted: 'sent',
  retry: 'retrying',
  failed: 'failed',
  unknown: 'delivery_unknown',
} as const satisfies Record<Exclude<Outcome['kind'], 'decided'>, Ending['status']>

/** Why an armed claim may leave `sending` without being final: the reply to its dot, or the certainty that no dot was written. */
function evidenceOf(outcome: Settled, result: TransmitResult): { evidence?: 'eod_4xx' | 'not_written' } {
  if (!result.dotWritten) return result.armed || result.needsDisarm ? { evidence: 'not_written' } : {}
  const refused =
    result.trouble === undefined && result.reply !== undefined && result.reply.code >= 400 && result.reply.code < 500
  return refused && outcome.kind !== 'accepted' ? { evidence: 'eod_4xx' } : {}
}

/** The other side has said what became of the mail behind the dot: a fact that must not be lost. */
export function isReplyToDot({ dotWritten, reply, trouble }: TransmitResult): boolean {
  return (
    dotWritten && trouble === undefined && reply !== undefined && outcomeOf({ phase: 'eod', reply }).kind !== 'unknown'
  )
}

function smtpOf({ peer, phase, reply }: Facts): object | undefined {
  if (peer === undefined) return undefined
  return {
    host: peer.host,
    ...(peer.address !== undefined && { address: peer.address }),
    stage: phase,
    ...(reply !== undefined && { code: reply.code, enhancedCode: reply.enhancedCode, reply: reply.text }),
    ...(peer.tls !== undefined && { tls: peer.tls }),
  }
}

function reportOf(
  claimed: Claimed,
  report: SessionReport,
  result: TransmitResult,
  ends: boolean,
  common: object,
): NonNullable<Ending['report']> {
  const final = report.final || ends
  const suppress = report.suppress && !isSimulator(claimed.destination)
  const bounce = report.bounce && { ...report.bounce, final }
  return {
    type: report.type,
    rank: rankOf({ type: report.type, final }),
    detail: detailOf(result),
    ...(bounce !== undefined && { bounce }),
    suppress,
    facts: { ...common, ...(bounce !== undefined && { bounce }), ...(suppress && { suppressed: true }) },
  }
}

const detailOf = ({ reply }: Facts): string => (reply === undefined ? '' : `${reply.code} ${reply.text}`)

function line({ stage, said, reply, trouble, cause }: Said): object {
  return {
    stage,
    said,
    ...(reply !== undefined && { reply: `${reply.code} ${reply.text}` }),
    ...(trouble !== undefined && { trouble }),
    ...(cause !== undefined && { cause }),
  }
}

const troubleWords = {
  dns_failure: 'The DNS gave no answer.',
  nxdomain: "The recipient's domain does not exist.",
  null_mx: "The recipient's domain accepts no mail (null MX).",
  no_mail_host: "The recipient's domain has no mail host.",
  private_mx: "The recipient's mail hosts have only private addresses.",
  paced: 'The destination wants fewer messages for now; nobody was asked.',
  gave_way: 'The message made way for others while it waited for an answer, or for room.',
  connect_failed: 'No connection could be made.',
  timeout: 'The other side did not answer in time.',
  closed: 'The other side closed the connection.',
  malformed: 'The other side answered with something that is no SMTP reply.',
  tls_failed: 'No TLS session could be made.',
  auth_unavailable: 'The relay offers no way to log in.',
  size: 'The message is larger than the next host accepts.',
  smtputf8: 'The address, or a header field, needs SMTPUTF8, which the next host does not offer.',
  no_8bitmime:
    'The message has 8-bit content that cannot be converted, such as raw header fields, and the next host does not offer 8BITMIME: encode it.',
  arm_failed: 'The database could not be asked for the message, or record that it is about to be sent.',
  claim_lost: 'Another worker took over.',
  too_late: 'The lease ran out before the message could be sent.',
  expired: 'The message expired before it could be delivered.',
  workspace_blocked: 'The workspace was blocked before the message could be delivered.',
  mailbox_not_active: 'The sender mailbox or its domain is not active any more.',
  suppressed: 'The recipient was suppressed meanwhile.',
  shutdown: 'Delivery was stopped before the message was sent.',
} as const satisfies Record<Trouble, string>

/** Of `connect_failed`. Whatever else the system says stands as it is. */
const causeWords: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'it was refused',
  ECONNRESET: 'it was reset',
  ETIMEDOUT: 'nobody answered in time',
  EHOSTUNREACH: 'the host is out of reach',
  ENETUNREACH: 'its network is out of reach',
}

/** Of `tls_failed` before any host was asked. */
const policyWords =
  "The recipient's domain demands TLS (DANE or MTA-STS), and its policy allows none of its mail hosts for now; nobody was asked."

const wordsOf = (trouble: Trouble, cause: string | undefined): string =>
  cause === undefined ? troubleWords[trouble] : `${troubleWords[trouble].slice(0, -1)}: ${causeWords[cause] ?? cause}.`

/** Where in the conversation it was, for people: `mx.example.org said to RCPT: 550 no such user`. */
const whereWords = {
  route: 'before the connection',
  connect: 'at the connection',
  greeting: 'as its greeting',
  ehlo: 'to EHLO',
  tls: 'to STARTTLS',
  auth: 'to the login',
  mail: 'to MAIL',
  rcpt: 'to RCPT',
  data: 'to DATA',
  content: 'during the content',
  arm: 'before the final dot',
  eod: 'to the final dot',
} as const satisfies Record<Facts['phase'], string>

/** Of `paced`, where other hosts were asked before the one that was left for later: what the last of them did follows. */
const othersAskedWords = 'The destination wants fewer messages for now; nobody else was asked.'

function seenWords({ reply, trouble, cause, peer, phase }: Facts): string {
  const host = peer?.host ?? 'The other side'
  const said = reply === undefined ? '' : `${host} said ${whereWords[phase]}: ${reply.code} ${reply.text}`
  if (trouble === undefined) return said
  if (trouble === 'tls_failed' && phase === 'route') return policyWords
  if (trouble === 'tls_failed' && reply !== undefined) return `${troubleWords[trouble]} ${said}`
  return `${wordsOf(trouble, cause)}${peer === undefined ? '' : ` (${peer.host}, ${phase})`}`
}

function errorWords(outcome: Exclude<Settled, { kind: 'accepted' | 'decided' }>, result: TransmitResult): string {
  const { trouble, attemptsOnHosts } = result
  const asked = trouble === 'paced' ? attemptsOnHosts.at(-1) : undefined
  const seen = asked === undefined ? seenWords(result) : `${othersAskedWords} ${seenWords(asked)}`
  if (outcome.kind === 'unknown')
    return `Remote acceptance cannot be proven; the message is not sent again. ${seen}`.trim()
  const before = {
    tries_used_up: 'No try is left. ',
    expired: trouble === 'expired' ? '' : 'The message would expire before the next try. ',
  } as Record<string, string>
  const alone = {
    content_lost: 'The content of the message is gone.',
    not_composable: 'The message could not be composed or signed.',
    worker_lost: 'The worker could not go on before the message was sent.',
    shutdown: 'Delivery was stopped before the message was sent.',
  } as Record<string, string>
  return `${before[outcome.reason] ?? ''}${seen || (alone[outcome.reason] ?? '')}`.trim()
}
