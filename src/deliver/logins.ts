// Whether relays take our logins. That one does not is no fault of any message: its mail waits, and only an operator can help. So it is told when it
// begins and when it ends, once for each route, and how many do not is a number; what each attempt saw is with its message. It ends, too, where no mail
// waits for that relay any more: its workspace is removed or blocked, has another route, or has given up.
import { BoundedMap } from '../base/bounded-map.ts'
import { limits, type Route } from '../config.ts'
import type { Log } from '../base/log.ts'
import type { Claimed } from '../store/outbound.ts'
import type { RelayRoute } from '../store/reports.ts'
import { loginOf } from './outcome.ts'
import type { TransmitResult } from './transmit.ts'

export interface Logins {
  /** `route`: where the mail was to go; `result` may tell of the sandbox instead, as for the simulator's addresses. */
  note(claimed: Pick<Claimed, 'workspaceId' | 'routeSealed' | 'claimedAt'>, route: Route, result: TransmitResult): void
  /** Forgets routes that no mail waits for. `waiting` is asked which of these it does, by whose each is; not at all where there are none. */
  look(waiting: (whose: readonly RelayRoute[]) => Promise<readonly RelayRoute[]>): Promise<void>
  /** Routes whose relay does not take our login, as far as mail of late has shown. */
  readonly refused: number
}

interface Refusal {
  /** The last one. */
  readonly at: number
  /** When its mail was claimed, and so what its route was then; the database's clock. */
  readonly claimedAt: Date
}

export function makeLogins(log: Log, now: () => number = () => performance.now()): Logins {
  /** By whose the route is. */
  const refusals = new BoundedMap<RelayRoute, Refusal>(limits.providersKnownMax)
  const forget = (): void => {
    for (const [whose, { at }] of refusals) if (now() - at > limits.loginForgottenMs) refusals.delete(whose)
  }
  return {
    note: ({ workspaceId, routeSealed, claimedAt }, route, result) => {
      const isOwn = routeSealed !== null
      const before = refusals.get(workspaceId)
      // It has another route by now. Mail that was claimed earlier, and ends later, says nothing of that.
      if (before !== undefined && claimedAt > before.claimedAt && (!isOwn || route.kind !== 'relay'))
        refusals.delete(workspaceId)
      const whose = isOwn ? workspaceId : 'installation'
      const login = loginOf(result, result.routeKind)
      if (login === undefined) return
      forget()
      const last = refusals.get(whose)
      const say = (words: string) =>
        log.warned('relay login', words, {
          relay: result.provider,
          route: whose,
          code: result.reply?.code,
          trouble: result.trouble,
        })
      if (login === 'refused') {
        if (last === undefined) say(refused)
        refusals.set(whose, { at: now(), claimedAt })
      } else if (last !== undefined && now() - last.at >= limits.loginTakenAfterMs) {
        refusals.delete(whose)
        say('The relay takes our login again.')
      }
    },
    look: async (waiting) => {
      forget()
      if (refusals.size === 0) return
      const seen = new Map(refusals)
      const still = new Set(await waiting([...seen.keys()]))
      for (const [whose, refusal] of seen) {
        if (still.has(whose) || refusals.get(whose) !== refusal) continue
        refusals.delete(whose)
        log.warned('relay login', 'No mail waits any more for the relay that did not take our login.', { route: whose })
      }
    },
    get refused() {
      forget()
      return refusals.size
    },
  }
}

const refused =
  'The relay does not take our login, or wants one: its mail waits and is tried again. posthorn doctor tells what it says.'
