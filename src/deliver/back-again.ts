// Mail waits for its next try, minutes or hours, because somebody could not be reached: its hosts, a relay, the name servers. When they are there again
// it goes at once, and the try that found nobody is given back. That they are back is told by other mail that reaches them; name servers are asked a
// question, and the kernel for a way out, for there may be no other mail. Each node for itself, in memory: what it does not know keeps to the schedule.
import { BoundedMap } from '../base/bounded-map.ts'
import { isNoWay } from '../base/way-out.ts'
import { limits } from '../config.ts'
import type { Phase } from '../domain/attempt.ts'
import type { Claim, MessageId } from '../domain/message.ts'
import type { Claimed, Ending } from '../store/outbound.ts'
import type { TransmitResult } from './transmit.ts'

export interface BackAgain {
  /** How an attempt ended, and what is written down of it. */
  note(claimed: Claimed, result: TransmitResult, ending: Ending | undefined): void
  /** Makes those due whose place is there again. */
  readonly look: () => Promise<void>
}

export interface BackAgainTools {
  readonly timeScale: number
  /** Makes those due now that still wait as their claim has left them. */
  hasten(claims: readonly Claim[]): Promise<void>
  /** Whether any name server answers anything. */
  namesAnswer(): Promise<boolean>
  /** Whether this machine has a way to any network. */
  wayOut(): Promise<boolean>
  readonly now?: () => number
}

interface Waiting {
  readonly claim: Claim
  readonly since: number
  /** When the schedule tries it again. */
  readonly until: number
  /** It may wait in several places, and goes with the first of them that is there again: that is once. */
  isBack: boolean
}

/** They have answered something about a mail of ours. */
const spokenTo: ReadonlySet<Phase> = new Set(['mail', 'rcpt', 'data', 'content', 'arm', 'eod'])

const isOutOfReach = ({ phase, trouble, reply }: TransmitResult): boolean =>
  reply === undefined &&
  (trouble === 'dns_failure' ||
    trouble === 'connect_failed' ||
    (phase === 'greeting' && (trouble === 'timeout' || trouble === 'closed')))

const placeOf = ({ routeSealed, workspaceId, destination }: Claimed, { routeKind }: TransmitResult): string =>
  routeKind === 'relay' ? `${relay} ${routeSealed === null ? '' : workspaceId}` : destination
/** In no name of a domain. */
const relay = 'relay of'
const nameServers = 'name servers'
const wayOut = 'a way out'

export function makeBackAgain(tools: BackAgainTools): BackAgain {
  const { timeScale, now = () => performance.now() } = tools
  const places = new Map<string, Map<MessageId, Waiting>>()
  /** Whose place is there again, and from when on. */
  let due: { readonly claim: Claim; readonly from: number }[] = []
  /** How often each was made due like this: it waits twice as long before the next time, since a place may come and go. */
  const times = new BoundedMap<MessageId, number>(limits.outOfReachKnownMax)
  let known = 0
  const common = [
    { name: nameServers, isThere: () => tools.namesAnswer(), away: false },
    { name: wayOut, isThere: () => tools.wayOut(), away: false },
  ]

  const leave = (name: string, id: MessageId): void => {
    const waiting = places.get(name)
    if (waiting?.delete(id) !== true) return
    known--
    if (waiting.size === 0) places.delete(name)
  }

  const take = (name: string): readonly Waiting[] => {
    const waiting = places.get(name)
    places.delete(name)
    known -= waiting?.size ?? 0
    return [...(waiting?.values() ?? [])]
  }

  const enter = (name: string, one: Waiting): void => {
    if (known >= limits.outOfReachKnownMax) return
    const waiting = places.get(name) ?? new Map<MessageId, Waiting>()
    places.set(name, waiting)
    waiting.set(one.claim.id, one)
    known++
  }

  /** Of what another node has tried since, or what expired meanwhile, nothing is heard here, and of a dead domain never that it is there again. */
  const leaveTried = (): void => {
    const at = now()
    for (const [name, waiting] of places) for (const [id, { until }] of waiting) if (until <= at) leave(name, id)
  }

  const back = (name: string): void => {
    for (const one of take(name)) {
      if (one.isBack) continue
      one.isBack = true
      const { claim, since } = one
      const before = times.get(claim.id) ?? 0
      times.set(claim.id, before + 1)
      due.push({ claim, from: since + (limits.backAgainMs * 2 ** before) / timeScale })
    }
  }

  /** What everybody needs is asked for only while somebody waits for it. Where it is there, it was that one name or host; where it was not and is again, it was that. */
  const lookAt = async (need: (typeof common)[number]): Promise<void> => {
    const waiting = [...(places.get(need.name)?.values() ?? [])]
    const isThere = waiting.length === 0 || (await need.isThere())
    if (isThere && need.away) back(need.name)
    else if (isThere) for (const { claim } of waiting) leave(need.name, claim.id)
    need.away = !isThere
  }

  return {
    note: (claimed, result, ending) => {
      const place = placeOf(claimed, result)
      leave(place, claimed.id)
      for (const { name } of common) leave(name, claimed.id)
      if (ending?.status !== 'retrying') times.delete(claimed.id)
      if (result.routeKind === 'sandbox') return
      if (ending?.status === 'retrying' && ending.usesTry && isOutOfReach(result)) {
        const { id, epoch, token } = claimed
        const until = now() + (ending.delayMs ?? 0)
        const one: Waiting = { claim: { id, epoch, token }, since: now(), until, isBack: false }
        enter(place, one)
        const isUnnamed = result.trouble === 'dns_failure'
        if (isUnnamed && result.routeKind === 'mx') enter(nameServers, one)
        // Name servers of this machine itself answer without a way out, what they can.
        if (isUnnamed || isNoWay(result.cause)) enter(wayOut, one)
      } else if (spokenTo.has(result.phase) && result.reply !== undefined) back(place)
    },
    look: async () => {
      if (known >= limits.outOfReachKnownMax) leaveTried()
      for (const need of common) await lookAt(need)
      const at = now()
      const ready = due.filter(({ from }) => from <= at).slice(0, limits.hastenedAtOnce)
      if (ready.length === 0) return
      await tools.hasten(ready.map(({ claim }) => claim))
      const done = new Set(ready)
      due = due.filter((each) => !done.has(each))
    },
  }
}
