// The door for the worker: one message, one attempt, over as many hosts as it takes before a dot is written. Facts come back, never a
// meaning (`outcome.ts`). What must stay true: the arm is asked for at most once, and after it no other connection sees the message.
import { limits, type Route } from '../config.ts'
import type { DestinationLimits } from '../store/destinations.ts'
import { doneFor } from '../base/turns.ts'
import { lifecycle } from '../base/service.ts'
import type { Service } from '../base/service.ts'
import type { Facts } from '../domain/attempt.ts'
import { whenAborted } from './connect.ts'
import type { Mail, Manner, Transaction } from './conversation.ts'
import { note, type Said } from './dialogue.ts'
import { lineTooLong, Pool } from './pool.ts'
import type { Asking, Lease, NoLease, PoolSettings } from './pool.ts'
import { makeDns, type DnsSettings } from '../base/dns.ts'
import { makeStsPolicies, type StsSettings } from './mta-sts.ts'
import { makePace, type Pace } from './pace.ts'
import { nameOf, ofOwner } from './providers.ts'
import { makeReachability, type Reachability } from './reachability.ts'
import { makeResolver } from './resolve.ts'
import { makeRouter } from './route.ts'
import type { RouteKind, Routed, RouterSettings, Target } from './route.ts'
import { makeTlsPolicies } from './tls-policy.ts'

export interface TransmitJob extends Mail {
  readonly route: Route
  /** In whose turn strangers' name servers are asked. */
  readonly workspaceId?: string
  /** It is that workspace's own: what its relay does is nothing to anybody else. */
  readonly ownRoute?: boolean
  /** Told as soon as it is known whose pace counts at the first host (`ofOwner`). */
  heading?(provider: string): void
}

export interface TransmitResult extends Facts {
  /** The five octets were handed to the kernel, or may have been: `phase` is `eod`. */
  readonly dotWritten: boolean
  /** It is armed, or may be (`arm_failed`), and the dot was certainly never written. */
  readonly needsDisarm: boolean
  /** The route that was really taken: the simulator's domain goes to the sandbox on every installation. */
  readonly routeKind: RouteKind
  /** What each host ended with, in order; `weightOf` says which one counts. */
  readonly attemptsOnHosts: readonly Facts[]
  readonly dialogue: readonly Said[]
  /** Whose pace counts at the first host, where there was one. */
  readonly provider?: string
  /** With the trouble `paced`: when a message may go there again. */
  readonly pacedMs?: number
  /** With `paced`: all that its provider allows at once were busy for as long as one waits in line, or a host bears fewer than that. */
  readonly late?: true
}

export interface TransmitterSettings extends Manner, RouterSettings {
  readonly dnsServers: readonly string[]
  readonly allowPrivateMx: boolean
  readonly pool?: Omit<PoolSettings, keyof Manner | 'mannersOf'>
  readonly dns?: Omit<DnsSettings, 'servers'> & { readonly random?: () => number }
  /** The two names of the DNSSEC self-test. */
  readonly probes?: readonly string[]
  readonly sts?: Omit<StsSettings, 'allowPrivate' | 'trustedCa'>
  /** Divides the pauses that destinations ask for (tests). */
  readonly timeScale?: number
}

export interface Transmitter {
  /** Rejects only for a fault of ours. Before `service` has started and after it has stopped, every attempt ends with `shutdown`. */
  transmit(job: TransmitJob): Promise<TransmitResult>
  /** How many messages a provider would take now. */
  roomOf(provider: string): number
  /** Providers that asked for less and are left alone for now: so many of them. */
  paused(most: number): readonly string[]
  /** Whether any name server answers what every one knows. */
  namesAnswer(): Promise<boolean>
  /** And those that asked for less of some workspaces' mail alone: of how many. */
  pausedSenders(most: number): readonly (readonly [provider: string, workspaces: number])[]
  /** What operators have set about destinations. */
  configure(rows: readonly DestinationLimits[]): void
  readonly service: Service
}

export function makeTransmitter(settings: TransmitterSettings): Transmitter {
  const { allowPrivateMx: allowPrivate, trustedCa, hostname, timeoutScale } = settings
  const { random, ...dnsSettings } = settings.dns ?? {}
  const dns = makeDns({ servers: settings.dnsServers, ...dnsSettings })
  const ownServers = settings.dnsServers.length > 0
  const resolver = makeResolver(dns, { allowPrivate, ownServers, ...(random && { random }) })
  const sts = makeStsPolicies(dns, { allowPrivate, ...(trustedCa !== undefined && { trustedCa }), ...settings.sts })
  const [signed = '.', forged = '.'] = settings.probes ?? []
  const router = makeRouter(settings, resolver, makeTlsPolicies(dns, sts, { signed, forged }))
  const pace = makePace(settings.timeScale)
  const pool = new Pool({ hostname, timeoutScale, mannersOf: (provider) => pace.mannersOf(provider), ...settings.pool })
  const towards: Towards = { pool, pace, reachability: makeReachability() }

  const transmit = async (job: TransmitJob): Promise<TransmitResult> => {
    const routeKind = router.kindOf(job.route, job.recipient)
    const dialogue: Said[] = []
    // A relay is the installation's, and its name too.
    const owner = job.route.kind === 'mx' ? (job.workspaceId ?? '') : ''
    const find = () => doneFor(owner, () => router.targetsFor(job.route, job.recipient))
    const found = job.signal?.aborted === true ? shutdown : find()
    const routed = found instanceof Promise ? await unlessAborted(found, job.signal) : found
    if ('trouble' in routed) {
      note(dialogue, 'route', `look up ${job.recipient.domain}`, routed.trouble)
      const facts = { phase: 'route', trouble: routed.trouble } as const
      return { ...facts, ...untouched, routeKind, attemptsOnHosts: [], dialogue }
    }
    const provider = routed.targets[0]?.provider
    const targets = job.ownRoute === true ? ownTargets(routed.targets, job.workspaceId ?? '') : routed.targets
    if (targets[0] !== undefined) job.heading?.(targets[0].provider)
    const walked = await walk(towards, targets, job, dialogue)
    return { ...walked, routeKind, dialogue, ...(provider !== undefined && { provider }) }
  }

  const service = lifecycle(
    'transmitter',
    () => pool.service.start(),
    async () => {
      dns.cancel()
      await pool.service.stop()
    },
  )
  return {
    transmit,
    roomOf: (provider) => pace.roomOf(provider),
    paused: (most) => pace.paused(most),
    namesAnswer: async () => {
      const answers = await Promise.all(dns.servers.map((server) => dns.askServer(server, '.', 'SOA')))
      return answers.some(({ kind }) => kind !== 'failure')
    },
    pausedSenders: (most) => pace.pausedSenders(most),
    configure: (rows) => {
      pace.configure(rows)
      pool.mannersChanged()
    },
    service,
  }
}

/** A workspace's own relay has a pace and a line of its own, also where others use the same one with a login of theirs. Mail hosts count all. */
function ownTargets(targets: readonly Target[], workspaceId: string): readonly Target[] {
  return targets.map((target) => {
    const provider = ofOwner(target.provider, workspaceId)
    return provider === target.provider ? target : { ...target, provider, key: `${target.key} of ${workspaceId}` }
  })
}

const shutdown = { trouble: 'shutdown' } as const

/** DNS may take its time; a shutdown does not wait for it. */
function unlessAborted(routed: Promise<Routed>, signal?: AbortSignal): Promise<Routed | typeof shutdown> {
  if (signal === undefined) return routed
  return new Promise((resolve, reject) => {
    const undo = whenAborted(signal, () => resolve(shutdown))
    routed.then(resolve, reject).finally(undo)
  })
}

const untouched = { dotWritten: false, needsDisarm: false } as const
type Walked = Omit<TransmitResult, 'routeKind' | 'dialogue' | 'provider'>

interface Towards {
  readonly pool: Pool
  readonly pace: Pace
  readonly reachability: Reachability
}

/** One target after the other, until one gives an answer that ends the attempt. A provider that wants a pause is not asked, nor when it began while the message waited in line. */
async function walk(towards: Towards, targets: readonly Target[], job: TransmitJob, dialogue: Said[]): Promise<Walked> {
  const { pool, pace, reachability } = towards
  const workspace = job.workspaceId ?? ''
  const attemptsOnHosts: Facts[] = []
  const waits = new Map<string, number>()
  let counts: Facts = { phase: 'route', trouble: 'no_mail_host' }
  let crowdedBy: string | undefined
  /** Hosts, not addresses: what IPv6 is refused for now, IPv4 may get. */
  const putOffBy = new Set<string>()
  for (const target of reachability.inOrder(targets)) {
    const { provider, address } = target
    if (!waits.has(provider)) waits.set(provider, pace.turn(provider, workspace))
    if (waits.get(provider) !== 0) continue
    const end = await speak(pool, target, job, dialogue, {
      isPaused: () => pace.pausedMs(provider, workspace) > 0,
      // The simulator's refusals are about nobody.
      heard: (said) => void (provider !== 'sandbox' && pace.learn(provider, said, workspace)),
      getsOn: () => job.heard?.(),
    })
    if (end === lineTooLong) {
      // Another attempt may ask them all; but what a host has said of this mail counts.
      if (weightOf(counts) === 2) break
      note(dialogue, 'connect', `wait for a connection to ${nameOf(provider)}`, 'paced')
      return { ...lineTooLong, ...untouched, attemptsOnHosts, pacedMs: limits.gaveWayMs, late: true }
    }
    if (end.trouble === 'paced') {
      waits.set(provider, Math.max(1, pace.pausedMs(provider, workspace)))
      continue
    }
    const facts = factsOf(end)
    attemptsOnHosts.push(facts)
    if ('crowded' in end) crowdedBy ??= provider
    if (facts.trouble !== 'shutdown') reachability.note(address, reachedBy(facts))
    if (isTransaction(end) && (end.armAsked || isRefusedForGood(end))) {
      const { dotWritten, needsDisarm } = end
      return { ...facts, dotWritten, needsDisarm, attemptsOnHosts }
    }
    if (facts.trouble === 'shutdown') {
      counts = facts
      break
    }
    if (attemptsOnHosts.length === 1 || weightOf(facts) >= weightOf(counts)) counts = facts
    if (weightOf(facts) < 2) continue
    // They all know the same mailbox, and what asks for less means all of its provider's hosts: who goes on is a nuisance.
    if (putOffBy.add(target.host).size >= limits.putOffsPerAttemptMax) break
    waits.set(provider, pace.pausedMs(provider, workspace))
  }
  if (crowdedBy !== undefined && weightOf(counts) < 2 && counts.trouble !== 'shutdown') {
    // Its own connections were in the way, and nobody was asked about this mail.
    const pacedMs = Math.max(limits.gaveWayMs, pace.pausedMs(crowdedBy))
    return { ...lineTooLong, ...untouched, attemptsOnHosts, pacedMs, late: true }
  }
  if (attemptsOnHosts.length === 0 && waits.size > 0) {
    note(dialogue, 'connect', `wait for ${[...waits.keys()].map(nameOf).join(', ')}`, 'paced')
    const pacedMs = Math.min(...waits.values())
    return { phase: 'connect', trouble: 'paced', ...untouched, attemptsOnHosts, pacedMs }
  }
  return { ...counts, ...untouched, attemptsOnHosts }
}

/** One target; what it said is heard before anybody else gets the connection. A kept connection that turns out dead before it answered MAIL is replaced once. Nothing was accepted there. */
async function speak(
  pool: Pool,
  target: Target,
  job: TransmitJob,
  dialogue: Said[],
  asking: Asking,
): Promise<Transaction | NoLease> {
  const lease = await pool.take(target, dialogue, job.signal, asking)
  if ('phase' in lease) return lease
  const end = await send(lease, target, job, dialogue)
  if (!lease.reused || !wasDead(end)) {
    asking.heard(end)
    lease.release(end.reusable)
    return end
  }
  const fresh = await lease.renew()
  if ('phase' in fresh) return fresh
  const again = await send(fresh, target, job, dialogue)
  asking.heard(again)
  fresh.release(again.reusable)
  return again
}

async function send(lease: Lease, { host }: Target, job: TransmitJob, dialogue: Said[]): Promise<Transaction> {
  try {
    const end = await lease.conversation.send(job, dialogue)
    // Hosts of several names share a connection, which knows the name that it was opened for: perhaps of another customer's recipients.
    return { ...end, peer: { ...lease.conversation.peer, host } }
  } catch (error) {
    lease.release(false)
    throw error
  }
}

/** Servers drop kept connections without a word, or with a 421 that crosses our MAIL; Amazon SES and Gmail with `451 4.4.2 Timeout`. */
function wasDead({ phase, reply, trouble }: Transaction): boolean {
  if (phase !== 'mail') return false
  return reply?.code === 421 || reply?.enhancedCode === '4.4.2' || trouble === 'closed' || trouble === 'timeout'
}

function isTransaction(end: Transaction | NoLease): end is Transaction {
  return 'armAsked' in end
}

function reachedBy({ phase, trouble }: Facts): boolean | 'silent' {
  return phase === 'greeting' && trouble === 'timeout' ? 'silent' : trouble !== 'connect_failed'
}

/** 5yz to MAIL, RCPT, DATA or early to the content: no other host of the domain is asked (decisions B). */
function isRefusedForGood({ reply, trouble }: Transaction): boolean {
  return trouble === undefined && reply !== undefined && reply.code >= 500
}

/**
 * Of several hosts, the last of the heaviest counts: the provider's word about this mail, which is to be reported, before whatever came in
 * the way of one; and a host that may take it later before one that cannot take such a mail at all.
 */
function weightOf({ phase, reply, trouble }: Facts): number {
  if (trouble === 'size' || trouble === 'smtputf8' || trouble === 'no_8bitmime') return 0
  const aboutMail = phase === 'mail' || phase === 'rcpt' || phase === 'data' || phase === 'content'
  return aboutMail && reply !== undefined && trouble === undefined ? 2 : 1
}

function factsOf({ phase, reply, trouble, cause, peer }: Facts): Facts {
  return {
    phase,
    ...(reply !== undefined && { reply }),
    ...(trouble !== undefined && { trouble }),
    ...(cause !== undefined && { cause }),
    ...(peer !== undefined && { peer }),
  }
}
