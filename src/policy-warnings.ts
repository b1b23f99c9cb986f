// Refusals by a receiver's policy (our reputation, authentication, content) suppress nobody and are no fault of one message: only an operator can do
// something about them. So the log warns of them, once for each provider and hour, whether they come in the session or in a report.
import { BoundedMap } from './base/bounded-map.ts'
import type { Facts, Log } from './base/log.ts'
import { limits } from './config.ts'
import type { BounceClass } from './domain/bounce-rules.ts'

/** The log, with that warning. */
export function warningOfPolicy(log: Log, now: () => number = () => performance.now()): Log {
  const warned = new BoundedMap<string, { readonly at: number; unwritten: number }>(limits.providersKnownMax)
  const look = ({ bounce, provider, domain, messageId, host, code }: Facts): void => {
    if (bounce !== ('policy' satisfies BounceClass)) return
    const who = String(provider ?? domain)
    if (who === 'sandbox') return // the simulator's refusals are about nobody
    const last = warned.get(who)
    if (last !== undefined && now() - last.at < limits.policyWarnedAgainMs) return void last.unwritten++
    warned.set(who, { at: now(), unwritten: 0 })
    const unwritten = last === undefined || last.unwritten === 0 ? undefined : last.unwritten
    log.warned('policy', words, { provider: who, messageId, host, code, unwritten })
  }
  return {
    ...log,
    attempted: (facts) => {
      log.attempted(facts)
      look(facts)
    },
    reported: (facts) => {
      log.reported(facts)
      if (facts['outcome'] === 'recorded') look(facts)
    },
  }
}

const words =
  'The receiver refuses mail by its policy: reputation, authentication or content. posthorn message show tells its words, posthorn doctor how much it is.'
