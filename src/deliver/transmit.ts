// The door for the worker: one message, one attempt, over as many hosts as it takes before a dot is written. Facts come back, never a
// meaning (`outcome.ts`). What must stay true: the arm is asked for at most once, and after it no other connection sees the message.
import type { Route } from '../config.ts'
import { lifecycle } from '../base/service.ts'
import type { Service } from '../base/service.ts'
import type { Facts, Trouble } from '../domain/attempt.ts'
import { whenAborted } from './connect.ts'
import { note } from './conversation.ts'
import type { Mail, Manner, Said, Transaction } from './conversation.ts'
import { Pool } from './pool.ts'
import type { Lease, PoolSettings } from './pool.ts'
import { makeResolver } from './resolve.ts'
import type { ResolverSettings } from './resolve.ts'
import { makeRouter } from './route.ts'
import type { RouteKind, Routed, RouterSettings, Target } from './route.ts'

export interface TransmitJob extends Mail {
  readonly route: Route
}

export interface TransmitResult extends Facts {
  /** The five octets were handed to the kernel, or may have been: `phase` is `eod`. */
  readonly dotWritten: boolean
  readonly armed: boolean
  /** It is armed, or may be (`arm_failed`), and the dot was certainly never written. */
  readonly needsDisarm: boolean
  /** The route that was really taken: the simulator's domain goes to the sandbox on every installation. */
  readonly routeKind: RouteKind
  /** What each host ended with, in order; the last is the one that counts, but for hosts that merely cannot take such a message. */
  readonly attemptsOnHosts: readonly Facts[]
  readonly dialogue: readonly Said[]
}

export interface TransmitterSettings extends Manner, RouterSettings {
  readonly dnsServers: readonly string[]
  readonly allowPrivateMx: boolean
  readonly pool?: Omit<PoolSettings, keyof Manner>
  readonly dns?: Omit<ResolverSettings, 'servers' | 'allowPrivate'>
}

export interface Transmitter {
  /** Rejects only for a fault of ours. Before `service` has started and after it has stopped, every attempt ends with `shutdown`. */
  transmit(job: TransmitJob): Promise<TransmitResult>
  readonly service: Service
}

export function makeTransmitter(settings: TransmitterSettings): Transmitter {
  const resolver = makeResolver({
    servers: settings.dnsServers,
    allowPrivate: settings.allowPrivateMx,
    ...settings.dns,
  })
  const router = makeRouter(settings, resolver)
  const pool = new Pool({ hostname: settings.hostname, timeoutScale: settings.timeoutScale, ...settings.pool })

  const transmit = async (job: TransmitJob): Promise<TransmitResult> => {
    const routeKind = router.kindOf(job.route, job.recipient)
    const dialogue: Said[] = []
    const routed = await unlessAborted(router.targetsFor(job.route, job.recipient), job.signal)
    if ('trouble' in routed) {
      note(dialogue, 'route', `look up ${job.recipient.domain}`, routed.trouble)
      const facts = { phase: 'route', trouble: routed.trouble } as const
      return { ...facts, ...untouched, routeKind, attemptsOnHosts: [], dialogue }
    }
    return { ...(await walk(pool, routed.targets, job, dialogue)), routeKind, dialogue }
  }

  const service = lifecycle(
    'transmitter',
    () => pool.service.start(),
    async () => {
      resolver.cancel()
      await pool.service.stop()
    },
  )
  return { transmit, service }
}

/** DNS may take its time; a shutdown does not wait for it. */
function unlessAborted(routed: Promise<Routed>, signal?: AbortSignal): Promise<Routed | { trouble: 'shutdown' }> {
  if (signal === undefined) return routed
  if (signal.aborted) return Promise.resolve({ trouble: 'shutdown' })
  return new Promise((resolve, reject) => {
    const undo = whenAborted(signal, () => resolve({ trouble: 'shutdown' }))
    routed.then(resolve, reject).finally(undo)
  })
}

const untouched = { dotWritten: false, armed: false, needsDisarm: false } as const
type Walked = Omit<TransmitResult, 'routeKind' | 'dialogue'>

/** One target after the other, until one gives an answer that ends the attempt. */
async function walk(pool: Pool, targets: readonly Target[], job: TransmitJob, dialogue: Said[]): Promise<Walked> {
  const attemptsOnHosts: Facts[] = []
  let counts: Facts = { phase: 'route', trouble: 'no_mail_host' }
  for (const target of targets) {
    const end = await speak(pool, target, job, dialogue)
    const facts = factsOf(end)
    attemptsOnHosts.push(facts)
    if (isTransaction(end) && (end.armAsked || isRefusedForGood(end))) {
      const { dotWritten, armed, needsDisarm } = end
      return { ...facts, dotWritten, armed, needsDisarm, attemptsOnHosts }
    }
    // A host that cannot take such a message at all says less than one that may take it later.
    if (attemptsOnHosts.length === 1 || !isImpossible(facts.trouble) || isImpossible(counts.trouble)) counts = facts
    if (facts.trouble === 'shutdown') break
  }
  return { ...counts, ...untouched, attemptsOnHosts }
}

/** One target: a kept connection that turns out dead before it answered MAIL is replaced once. Nothing was accepted there. */
async function speak(pool: Pool, target: Target, job: TransmitJob, dialogue: Said[]): Promise<Transaction | Facts> {
  const lease = await pool.take(target, dialogue, job.signal)
  if ('phase' in lease) return lease
  const end = await send(lease, job, dialogue)
  if (!lease.reused || !wasDead(end)) {
    lease.release(end.reusable)
    return end
  }
  const fresh = await lease.renew()
  if ('phase' in fresh) return fresh
  const again = await send(fresh, job, dialogue)
  fresh.release(again.reusable)
  return again
}

async function send(lease: Lease, job: TransmitJob, dialogue: Said[]): Promise<Transaction> {
  try {
    return await lease.conversation.send(job, dialogue)
  } catch (error) {
    lease.release(false)
    throw error
  }
}

/** Servers drop kept connections without a word, or with a 421 that crosses our MAIL. */
function wasDead({ phase, reply, trouble }: Transaction): boolean {
  if (phase !== 'mail') return false
  return reply?.code === 421 || trouble === 'closed' || trouble === 'timeout'
}

function isTransaction(end: Transaction | Facts): end is Transaction {
  return 'armAsked' in end
}

/** 5yz to MAIL, RCPT, DATA or early to the content: no other host of the domain is asked (decisions B). */
function isRefusedForGood({ reply, trouble }: Transaction): boolean {
  return trouble === undefined && reply !== undefined && reply.code >= 500
}

function isImpossible(trouble: Trouble | undefined): boolean {
  return trouble === 'size' || trouble === 'smtputf8' || trouble === 'no_8bitmime'
}

function factsOf({ phase, reply, trouble, peer }: Facts): Facts {
  return {
    phase,
    ...(reply !== undefined && { reply }),
    ...(trouble !== undefined && { trouble }),
    ...(peer !== undefined && { peer }),
  }
}
