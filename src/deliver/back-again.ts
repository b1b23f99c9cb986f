// Mail waits for its next try, minutes or hours, because somebody could not be reached: its hosts, a relay, the name servers. When they are there again
// it goes at once, and the try that found nobody is given back. That they are back is told by other mail that reaches them; a relay is also asked
// by a message of those that wait, and name servers by a question, for there may be no other mail. Each node for itself, in memory: what it
// does not know keeps to the schedule.
import { limits } from '../config.ts'
import type { Phase } from '../domain/attempt.ts'
import type { Claim, MessageId } from '../domain/message.ts'
import type { Claimed, Ending } from '../store/outbound.ts'
import type { TransmitResult } from './transmit.ts'

export interface BackAgain {
  /** How an attempt ended, and what is written down of it. */
  note(claimed: Claimed, result: TransmitResult, ending: Ending | undefined): void
  /** Makes due whose place is there again. */
  readonly look: () => Promise<void>
}

export interface BackAgainTools {
  readonly timeScale: number
  /** Makes those due now that still wait as their claim has left them, and answers which. */
  hasten(claims: readonly Claim[]): Promise<ReadonlySet<MessageId>>
  /** Whether any name server answers anything. */
  namesAnswer(): Promise<boolean>
  readonly now?: () => number
}

interface Waiting {
  readonly claim: Claim
  readonly since: number
}

interface Place {
  readonly beganAt: number
  /** When somebody last tried to reach it. */
  lastAt: number
  readonly waiting: Map<MessageId, Waiting>
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

export function makeBackAgain(tools: BackAgainTools): BackAgain {
  const { timeScale, now = () => performance.now() } = tools
  const places = new Map<string, Place>()
  /** Whose place is there again, or is asked by them, and from when on. */
  let due: { readonly claim: Claim; readonly from: number; readonly asks?: string }[] = []
  /** How often each was made due so: twice as long before each time, since a place may come and go. */
  const times = new Map<MessageId, number>()
  let known = 0
  let namesAway = false

  const leave = (name: string, id: MessageId): void => {
    const place = places.get(name)
    if (place === undefined || !place.waiting.delete(id)) return
    known--
    if (place.waiting.size === 0) places.delete(name)
  }

  const take = (name: string): readonly Waiting[] => {
    const place = places.get(name)
    places.delete(name)
    known -= place?.waiting.size ?? 0
    return [...(place?.waiting.values() ?? [])]
  }

  const enter = (name: string, { id, epoch, token }: Claimed): void => {
    if (known >= limits.outOfReachKnownMax) return
    let place = places.get(name)
    if (place === undefined) places.set(name, (place = { beganAt: now(), lastAt: now(), waiting: new Map() }))
    place.lastAt = now()
    place.waiting.set(id, { claim: { id, epoch, token }, since: now() })
    known++
  }

  const back = (name: string): void => {
    for (const { claim, since } of take(name)) {
      const before = times.get(claim.id) ?? 0
      if (times.size >= limits.outOfReachKnownMax) times.clear()
      times.set(claim.id, before + 1)
      due.push({ claim, from: since + (limits.backAgainMs * 2 ** before) / timeScale })
    }
  }

  /** What comes of asking is for the attempt to tell. */
  const ask = (): void => {
    // The database is away, or many are on their way.
    if (due.length >= limits.hastenedAtOnce) return
    for (const [name, place] of places) {
      const restMs = Math.max(limits.backAgainMs / timeScale, (now() - place.beganAt) * limits.backAgainPart)
      if (!name.startsWith(relay) || now() - place.lastAt < restMs) continue
      const [first] = place.waiting.values()
      if (first === undefined) continue
      place.lastAt = now()
      // At the end of the line, and the place stays known although it was the only one.
      place.waiting.delete(first.claim.id)
      place.waiting.set(first.claim.id, first)
      due.push({ claim: first.claim, from: now(), asks: name })
    }
  }

  /** Where they answer, it was that one name; where they did not and do again, it was them. */
  const lookAtNames = async (): Promise<void> => {
    if (!places.has(nameServers)) {
      namesAway = false
      return
    }
    const asked = [...(places.get(nameServers)?.waiting.values() ?? [])]
    if (!(await tools.namesAnswer())) namesAway = true
    else if (namesAway) {
      namesAway = false
      back(nameServers)
    } else for (const { claim } of asked) leave(nameServers, claim.id)
  }

  return {
    note: (claimed, result, ending) => {
      const place = placeOf(claimed, result)
      // A place that is asked again stays the same one, however few wait for it.
      const waits = ending?.status === 'retrying' && ending.usesTry && isOutOfReach(result)
      if (!waits) {
        leave(place, claimed.id)
        leave(nameServers, claimed.id)
      }
      if (ending?.status !== 'retrying') times.delete(claimed.id)
      if (result.routeKind === 'sandbox') return
      if (waits) {
        for (const name of result.trouble === 'dns_failure' && result.routeKind === 'mx'
          ? [place, nameServers]
          : [place]) {
          if (places.get(name)?.waiting.delete(claimed.id) === true) known--
          enter(name, claimed)
        }
      } else if (spokenTo.has(result.phase) && result.reply !== undefined) back(place)
    },
    look: async () => {
      ask()
      await lookAtNames()
      const at = now()
      const ready = due.filter(({ from }) => from <= at).slice(0, limits.hastenedAtOnce)
      if (ready.length === 0) return
      const hastened = await tools.hasten(ready.map(({ claim }) => claim))
      const done = new Set(ready)
      due = due.filter((each) => !done.has(each))
      // Another node has it, or it is no more.
      for (const { claim, asks } of ready) if (asks !== undefined && !hastened.has(claim.id)) leave(asks, claim.id)
    },
  }
}
