// Whether relays take our logins. That one does not is no fault of any message: its mail waits, and only an operator can help. So it is told when it
// begins and when it ends, once for each route, and how many do not is a number; what each attempt saw is with its message.
import { limits } from '../config.ts'
import type { Log } from '../base/log.ts'
import type { Claimed } from '../store/outbound.ts'
import { loginOf } from './outcome.ts'
import type { TransmitResult } from './transmit.ts'

export interface Logins {
  note(claimed: Pick<Claimed, 'workspaceId' | 'routeSealed'>, result: TransmitResult): void
  /** Routes whose relay does not take our login, as far as mail of late has shown. */
  readonly refused: number
}

export function makeLogins(log: Log, now: () => number = () => performance.now()): Logins {
  /** By whose the route is: when its relay refused last. */
  const refusedAt = new Map<string, number>()
  return {
    note: ({ workspaceId, routeSealed }, result) => {
      const isOwn = routeSealed !== null
      // It has another route by now.
      if (!isOwn || result.routeKind === 'mx') refusedAt.delete(workspaceId)
      const whose = isOwn ? workspaceId : 'installation'
      const login = loginOf(result, result.routeKind)
      const last = refusedAt.get(whose)
      const say = (words: string) =>
        log.warned('relay login', words, {
          relay: result.provider,
          route: whose,
          code: result.reply?.code,
          trouble: result.trouble,
        })
      if (login === 'refused') {
        if (last === undefined) {
          say(refused)
          if (refusedAt.size >= limits.providersKnownMax) refusedAt.delete(refusedAt.keys().next().value ?? '')
        }
        refusedAt.set(whose, now())
      } else if (login === 'taken' && last !== undefined && now() - last >= limits.loginTakenAfterMs) {
        refusedAt.delete(whose)
        say('The relay takes our login again.')
      }
    },
    get refused() {
      for (const [whose, at] of refusedAt) if (now() - at > limits.loginForgottenMs) refusedAt.delete(whose)
      return refusedAt.size
    },
  }
}

const refused =
  'The relay does not take our login, or wants one: its mail waits and is tried again. posthorn doctor tells what it says.'
