// Whether all mail to a provider, or over a relay, is put off: it cannot be reached, TLS does not come about, or each attempt gets a 4yz. Nothing is
// broken in any message, and nothing is late, since none is due before its next try. So it is told when it has gone on for minutes and when it ends,
// once for each; what each attempt saw is with its message.
import { limits } from '../config.ts'
import type { Log } from '../base/log.ts'
import type { RetryReason } from '../domain/attempt.ts'
import type { Claimed } from '../store/outbound.ts'
import { loginOf, outcomeOf } from './outcome.ts'
import type { TransmitResult } from './transmit.ts'

export interface Deferrals {
  note(claimed: Pick<Claimed, 'id' | 'destination'>, result: TransmitResult): void
}

interface Silence {
  readonly beganAt: number
  lastAt: number
  attempts: number
  /** Of the first attempt; of look-ups, one domain alone may be the one that is broken. */
  readonly destination: string
  several: boolean
}

/** Reasons of ours, which say nothing of the other side. */
const ours: ReadonlySet<RetryReason> = new Set(['arm_failed', 'worker_lost', 'shutdown'])

export function makeDeferrals(log: Log, now: () => number = () => performance.now()): Deferrals {
  const silent = new Map<string, Silence>()
  const told = new Set<Silence>()
  const forget = (who: string): Silence | undefined => {
    const known = silent.get(who)
    silent.delete(who)
    if (known !== undefined) told.delete(known)
    return known
  }
  const forgetOld = () => {
    for (const [who, { lastAt }] of silent) if (now() - lastAt > limits.deferralsForgottenMs) forget(who)
  }
  /** Where the machine has no network it is so with everybody at once: a few names tell that. But dead hosts that little is sent to hide nobody who is written to much. */
  const hasRoomFor = ({ attempts }: Silence): boolean => {
    if (told.size < limits.deferralsToldMax) return true
    forgetOld()
    if (told.size < limits.deferralsToldMax) return true
    let [least] = told
    for (const each of told) if (least !== undefined && each.attempts < least.attempts) least = each
    if (least === undefined || attempts < limits.deferralsOutdone * least.attempts) return false
    told.delete(least)
    return true
  }

  const ends = (who: string) => {
    if (silent.size === 0) return
    const known = silent.get(who)
    const wasTold = known !== undefined && told.has(known)
    forget(who)
    if (!wasTold) return
    log.warned('deferred', 'It takes mail again.', { provider: who, minutes: minutesSince(known, now()) })
  }

  const goesOn = (who: string, { id, destination }: Pick<Claimed, 'id' | 'destination'>, result: TransmitResult) => {
    const known = silent.get(who)
    if (known === undefined || now() - known.lastAt > limits.deferralsForgottenMs) {
      forget(who)
      if (silent.size >= limits.providersKnownMax) forget(silent.keys().next().value ?? '')
      silent.set(who, { beganAt: now(), lastAt: now(), attempts: 1, destination, several: false })
      return
    }
    known.lastAt = now()
    known.attempts++
    known.several ||= known.destination !== destination
    if (
      told.has(known) ||
      known.attempts < limits.deferralsLeast ||
      now() - known.beganAt < limits.deferralsToldAfterMs
    )
      return
    if (who === nameServers.mx && !known.several) return
    if (!hasRoomFor(known)) return
    told.add(known)
    log.warned('deferred', words, {
      provider: who,
      attempts: known.attempts,
      minutes: minutesSince(known, now()),
      messageId: id,
      phase: result.phase,
      code: result.reply?.code,
      trouble: result.trouble,
      cause: result.cause,
      host: result.peer?.host,
    })
  }

  return {
    note: (claimed, result) => {
      const { routeKind, provider, trouble } = result
      if (routeKind === 'sandbox' || trouble === 'paced') return
      const outcome = outcomeOf(result, routeKind)
      // Where hosts were found, whatever they do, the name servers have answered; a name that does not exist is an answer, too.
      if (provider !== undefined || outcome.kind === 'failed') ends(nameServers[routeKind])
      if (outcome.kind === 'accepted' || outcome.kind === 'failed') {
        if (provider !== undefined) ends(provider)
        return
      }
      if (outcome.kind !== 'retry' || ours.has(outcome.reason)) return
      // That is told apart (logins.ts).
      if (loginOf(result, routeKind) === 'refused') return
      goesOn(provider ?? nameServers[routeKind], claimed, result)
    },
  }
}

/** In the place of a provider, where no mail host was found to ask. */
const nameServers = { mx: 'name servers', relay: 'name servers, for a relay' } as const

const minutesSince = ({ beganAt }: Silence, now: number): number => Math.round((now - beganAt) / 60_000)

const words =
  'Every attempt there is put off, none was taken: its mail waits and is tried again. posthorn message show tells what the attempts saw, posthorn doctor what it finds.'
