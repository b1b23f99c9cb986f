// What the facts of an attempt mean: the one place that decides between sent, retry, failed and unknown (decisions B), and whether the
// other side's reply is a provider's report (decisions C). Pure.
import type { FailReason, Facts, Outcome, Phase, RetryReason, Trouble } from '../domain/attempt.ts'
import { classify } from '../domain/bounce-rules.ts'
import type { BounceClass } from '../domain/bounce-rules.ts'
import type { DeliveryEventType } from '../domain/message.ts'
import type { RouteKind } from './route.ts'
import type { Landing } from './slots.ts'

const retry = (reason: RetryReason): Outcome => ({ kind: 'retry', reason })
const failed = (reason: FailReason): Outcome => ({ kind: 'failed', reason })
const decided: Outcome = { kind: 'decided' }

/** Troubles that mean the same wherever they came, before the dot. */
const byTrouble = {
  dns_failure: retry('dns'),
  nxdomain: failed('nxdomain'),
  null_mx: failed('null_mx'),
  no_mail_host: failed('no_mail_host'),
  private_mx: failed('private_mx'),
  paced: retry('connect'),
  gave_way: retry('connect'),
  connect_failed: retry('connect'),
  tls_failed: retry('tls'),
  auth_unavailable: retry('auth'),
  size: failed('size'),
  smtputf8: failed('smtputf8'),
  no_8bitmime: failed('no_8bitmime'),
  arm_failed: retry('arm_failed'),
  too_late: retry('arm_failed'),
  shutdown: retry('shutdown'),
  claim_lost: decided,
  expired: failed('expired'),
  workspace_blocked: failed('workspace_blocked'),
  mailbox_not_active: failed('mailbox_not_active'),
  suppressed: failed('recipient_suppressed'),
} as const satisfies Record<Exclude<Trouble, LossTrouble>, Outcome>

type LossTrouble = 'timeout' | 'closed' | 'malformed'

/** Before the dot nothing was accepted, whatever was lost. */
const byLoss: Readonly<Record<Exclude<Phase, 'eod'>, Outcome>> = {
  route: retry('dns'),
  connect: retry('connect'),
  greeting: retry('lost_before_eod'),
  ehlo: retry('lost_before_eod'),
  tls: retry('tls'),
  auth: retry('lost_before_eod'),
  mail: retry('lost_before_eod'),
  rcpt: retry('lost_before_eod'),
  data: retry('lost_before_eod'),
  content: retry('lost_before_eod'),
  arm: retry('lost_before_eod'),
}

/** 4yz and 5yz, by the phase they answer. An early word to the content, armed or not, counts as the answer to DATA. */
const byReply: Readonly<Record<Phase, readonly [temporary: Outcome, permanent: Outcome]>> = {
  route: [retry('dns'), retry('dns')],
  connect: [retry('connect'), retry('connect')],
  greeting: [retry('greeting_4xx'), retry('greeting_5xx')],
  ehlo: [retry('greeting_4xx'), retry('ehlo_5xx')],
  tls: [retry('tls'), retry('tls')],
  auth: [retry('auth'), retry('auth')],
  mail: [retry('mail_4xx'), failed('mail_5xx')],
  rcpt: [retry('rcpt_4xx'), failed('rcpt_5xx')],
  data: [retry('data_4xx'), failed('data_5xx')],
  content: [retry('data_4xx'), failed('data_5xx')],
  arm: [retry('data_4xx'), failed('data_5xx')],
  eod: [retry('eod_4xx'), failed('eod_5xx')],
}

/** The meaning of an attempt's end. `routeKind` where it is known: a relay is the operator's own affair. */
export function outcomeOf({ phase, reply, trouble }: Facts, routeKind?: RouteKind): Outcome {
  if (phase === 'eod') {
    // The dot has left us: only a well-formed reply of theirs says what became of it. Never try again without one (decisions A).
    if (trouble === 'timeout') return { kind: 'unknown', reason: 'eod_timeout' }
    if (trouble === 'malformed') return { kind: 'unknown', reason: 'eod_malformed' }
    if (trouble !== undefined || reply === undefined) return { kind: 'unknown', reason: 'eod_closed' }
    if (reply.code >= 200 && reply.code < 300) return { kind: 'accepted' }
    if (reply.code < 400) return { kind: 'unknown', reason: 'eod_malformed' }
  }
  if (trouble === 'timeout' || trouble === 'closed' || trouble === 'malformed')
    return byLoss[phase as Exclude<Phase, 'eod'>]
  if (trouble !== undefined) return byTrouble[trouble]
  if (reply === undefined || reply.code < 400) return byLoss[phase as Exclude<Phase, 'eod'>]
  // RFC 4954 6, authentication required: it wants a login that the route does not have. No message is to blame.
  if (routeKind === 'relay' && phase === 'mail' && reply.code === 530) return retry('auth')
  return byReply[phase][reply.code < 500 ? 0 : 1]
}

/** What a relay has made of our login, or of our having none; undefined where an attempt does not tell, nor a 4yz, which passes. */
export function loginOf(facts: Facts, routeKind: RouteKind): 'refused' | 'taken' | undefined {
  if (routeKind !== 'relay') return undefined
  const outcome = outcomeOf(facts, routeKind)
  if (outcome.kind === 'retry' && outcome.reason === 'auth')
    return facts.reply === undefined || facts.reply.code >= 500 ? 'refused' : undefined
  return stages[facts.phase] === undefined ? undefined : 'taken'
}

/** Troubles that tell of nobody on the other side. */
const silences: ReadonlySet<Trouble | undefined> = new Set<Trouble>(['dns_failure', 'connect_failed', 'timeout'])

/** What an attempt has shown of its destination. Whoever made way did so because nothing came from there; any other stop is our own affair. */
export function landingOf({ trouble, late }: Pick<Facts, 'trouble'> & { late?: true }, gaveWay: boolean): Landing {
  if (late === true) return 'late'
  if (trouble === 'paced') return 'unasked'
  if (trouble === 'shutdown') return gaveWay ? 'silent' : 'unasked'
  return silences.has(trouble) ? 'silent' : 'answered'
}

/**
 * Whether clear text is worth a try where it is allowed. Also when the line ends in place of the 220, or in the EHLO behind the
 * handshake: with TLS 1.3 our side of it has ended before theirs, so that their no comes there.
 */
export function isBrokenTls({ phase, trouble, peer }: Facts): boolean {
  if (trouble === 'tls_failed') return true
  const encrypting = phase === 'tls' || (phase === 'ehlo' && peer?.tls !== undefined)
  return encrypting && (trouble === 'closed' || trouble === 'timeout')
}

/** What the receiving provider said in the session, for `events`, `deliveryStatus` and suppressions. */
export interface SessionReport {
  readonly type: DeliveryEventType
  /** Their word ends it. A soft bounce that is not final becomes so when the tries are used up. */
  readonly final: boolean
  /** Never for the simulator's domain (decisions J): the caller knows the recipient. */
  readonly suppress: boolean
  readonly bounce?: {
    readonly class: BounceClass
    readonly rule: string
    readonly permanent: boolean
    readonly final: boolean
    readonly source: 'smtp'
  }
}

type Stage = 'mail' | 'rcpt' | 'data' | 'eod'
const stages: Partial<Record<Phase, Stage>> = {
  mail: 'mail',
  rcpt: 'rcpt',
  data: 'data',
  content: 'data',
  arm: 'data',
  eod: 'eod',
}

/** The report in one host's facts. None on a relay: its replies are not the receiving provider's. */
export function reports({ phase, reply, trouble }: Facts, routeKind: RouteKind): SessionReport | undefined {
  const stage = stages[phase]
  if (routeKind === 'relay' || stage === undefined || reply === undefined || trouble !== undefined) return undefined
  if (reply.code < 300) return stage === 'eod' ? { type: 'delivered', final: true, suppress: false } : undefined
  if (reply.code < 400) return undefined
  const found = classify({ ...reply, stage })
  const final = reply.code >= 500
  const bounce = { class: found.class, rule: found.rule, permanent: found.permanent, final, source: 'smtp' } as const
  // A 4yz code is the receiver's "not now", whatever its enhanced code and text say: nobody is suppressed by it.
  const hard = final && found.event === 'hard_bounce'
  return { type: hard ? 'hard_bounce' : 'soft_bounce', final, suppress: hard && found.suppress, bounce }
}
