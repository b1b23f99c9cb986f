// From the facts of an attempt to the row that ends it: state, events, report and timeline, for the statement that writes them together.
// Pure. What the facts mean is decided in outcome.ts, and said to people in error-words.ts.
import { limits } from '../config.ts'
import type { Facts, Outcome, RouteTaken } from '../domain/attempt.ts'
import { rankOf } from '../domain/delivery-status.ts'
import { isSimulator } from '../domain/simulator.ts'
import { providerMessageId } from '../mail/queue-id.ts'
import { retryDelayMs } from '../base/backoff.ts'
import type { Claimed, Deferral, Ending } from '../store/outbound.ts'
import type { Said } from './dialogue.ts'
import { errorWords } from './error-words.ts'
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
  const outcome = outcomeOf(result, result.routeKind)
  if (outcome.kind === 'decided') return undefined
  const settled = outcome.kind === 'retry' ? settle(outcome, claimed, schedule, slowDownAskedBy(result)?.ms) : outcome
  return endingAs(settled, claimed, result, schedule)
}

function endingAs(outcome: Settled, claimed: Claimed, result: TransmitResult, schedule: Schedule): Ending {
  const report = reports(result, result.routeKind)
  const deferredBy = deferralsBefore(result, claimed.attempt, report && result.peer?.host)
  const providerId = outcome.kind === 'accepted' && result.reply ? providerMessageId(result.reply) : undefined
  const seen = seenOf(claimed, result)
  return {
    ...ended(outcome, claimed, result, schedule),
    ...(providerId !== undefined && { providerMessageId: providerId }),
    ...(result.routeKind === 'relay' && {
      relay: claimed.routeSealed === null ? ('installation' as const) : claimed.workspaceId,
    }),
    ...evidenceOf(result),
    attempt: {
      ...seen,
      startedAt: schedule.startedAt,
      phase: result.phase,
      ...(result.dotWritten && { route: routeTaken(claimed, result) }),
      ...(result.peer?.tlsPolicy !== undefined && { tlsPolicy: result.peer.tlsPolicy }),
      ...('reason' in outcome && { reason: outcome.reason }),
      ...(result.trouble !== undefined && { trouble: result.trouble }),
      ...(result.cause !== undefined && { cause: result.cause }),
      dialogue: result.dialogue.map(line),
    },
    ...(report !== undefined && { report: reportOf(claimed, report, result, outcome.kind === 'failed', seen) }),
    ...(deferredBy.length > 0 && { deferredBy }),
  }
}

/** What every ending says, whether or not anybody was asked. */
function ended(outcome: Settled, claimed: Claimed, result: TransmitResult, { now }: Schedule): Omit<Ending, 'attempt'> {
  const { id, epoch, token, workspaceId } = claimed
  const error = outcome.kind === 'accepted' ? undefined : errorWords(outcome, result)
  return {
    id,
    epoch,
    token,
    workspaceId,
    status: statusOf[outcome.kind],
    ...(error !== undefined && { error }),
    ...(outcome.kind === 'retry' && { delayMs: outcome.delayMs }),
    usesTry: !(outcome.kind === 'retry' && outcome.reason === 'shutdown'),
    outcome: outcome.kind,
    event: {
      ...seenOf(claimed, result),
      ...('reason' in outcome && { reason: outcome.reason }),
      ...(outcome.kind === 'retry' && { nextAttemptAt: new Date(now.getTime() + outcome.delayMs) }),
      ...(error !== undefined && { errorMessage: error }),
    },
  }
}

function seenOf({ attempt }: Claimed, result: TransmitResult): object {
  const smtp = smtpOf(result)
  return { attempt, ...(smtp && { smtp }) }
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
  needsDisarm: false,
  routeKind: 'relay',
  attemptsOnHosts: [],
  dialogue: [],
}

/** A fault of ours that says nothing about the message (a key that does not open, no memory for it): put off, and told as what it is. */
export const unable = (claimed: Claimed, schedule: Schedule): Ending =>
  putOff(claimed, gaveWayMs(claimed, schedule.now), nothing, schedule, 'worker_lost')

/** The end of a claim whose attempt could not even begin: a mail that nothing can be made of, a shutdown, or content that is gone. */
export function unattempted(claimed: Claimed, outcome: Retry | Failed, schedule: Schedule): Ending {
  const settled = outcome.kind === 'retry' ? settle(outcome, claimed, schedule) : outcome
  const { attempt } = claimed
  return {
    ...ended(settled, claimed, nothing, schedule),
    attempt: { attempt, startedAt: schedule.startedAt, reason: outcome.reason },
  }
}

/**
 * A claim whose attempt was put off (`paced`, `gave_way`, or a lack of our own): it uses no try, and waits for `delayMs`; where it would expire
 * before, it keeps to the schedule.
 */
export function putOff(
  claimed: Claimed,
  delayMs: number,
  result: TransmitResult,
  schedule: Schedule,
  reason: Retry['reason'] = result.trouble === 'arm_failed' || result.trouble === 'too_late' ? 'arm_failed' : 'connect',
): Ending {
  const outcome: Retry = { kind: 'retry', reason }
  if (schedule.now.getTime() + delayMs >= claimed.expiresAt.getTime())
    return endingAs(settle(outcome, claimed, schedule), claimed, result, schedule)
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

type Retry = Extract<Outcome, { kind: 'retry' }>
type Failed = Extract<Outcome, { kind: 'failed' }>
/** An outcome of which the row can be written: a retry has its delay. */
type Settled = Exclude<Outcome, { kind: 'retry' | 'decided' }> | (Retry & { readonly delayMs: number })

/**
 * A retry gets its delay, or becomes a failure when no try or no age is left. The other side's wish counts where it is longer, and the message lives to see
 * it: the words may be misread, and who meant them says them again. A claim handed back at a shutdown is due at once.
 */
function settle(
  outcome: Retry,
  claimed: Claimed,
  { timeScale, retrySchedule, now }: Schedule,
  askedMs = 0,
): (Retry & { readonly delayMs: number }) | Failed {
  if (outcome.reason === 'shutdown') return { ...outcome, delayMs: 0 }
  const delay = retryDelayMs(retrySchedule, claimed.attempt, limits.retryJitter)
  if (delay === undefined) return { kind: 'failed', reason: 'tries_used_up' }
  const leftMs = claimed.expiresAt.getTime() - now.getTime()
  const waits = [Math.max(delay, Math.min(askedMs, limits.pauseMsMax)), delay].map((ms) => Math.ceil(ms / timeScale))
  const delayMs = waits.find((ms) => ms < leftMs)
  return delayMs === undefined ? { kind: 'failed', reason: 'expired' } : { ...outcome, delayMs }
}

const statusOf = {
  accepted: 'sent',
  retry: 'retrying',
  failed: 'failed',
  unknown: 'delivery_unknown',
} as const satisfies Record<Settled['kind'], Ending['status']>

/** Why an armed claim may leave `sending` without being final: the reply to its dot, or the certainty that no dot was written. */
function evidenceOf(result: TransmitResult): { evidence?: 'eod_4xx' | 'not_written' } {
  if (!result.dotWritten) return result.needsDisarm ? { evidence: 'not_written' } : {}
  const refused =
    result.trouble === undefined && result.reply !== undefined && result.reply.code >= 400 && result.reply.code < 500
  return refused ? { evidence: 'eod_4xx' } : {}
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
