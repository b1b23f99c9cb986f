// Where connections lead, and who has the next turn there: a place is one host, spoken to in one way; a group is all places of one provider. Pure.
import type { Conversation } from './conversation.ts'

/** The right to one connection to a place, with a conversation or, at first, without one. */
export interface Slot {
  readonly place: Place
  conversation: Conversation | undefined
  /** The conversation had been used before. */
  reused: boolean
  idleSince: number
  /** Its place has had it since then. */
  readonly since: number
}

/** `undefined`: it is given up. */
export type NoSlot = 'late' | undefined

/** All connections to the hosts of one provider. */
export interface Group {
  readonly provider: string
  readonly places: Set<Place>
  open: number
}

/** All connections under one key. */
export interface Place {
  readonly key: string
  readonly group: Group
  readonly connectionsMax: number
  readonly idle: Slot[]
  open: number
  /** When it last got a connection, or was first asked for. */
  servedAt: number
  readonly waiting: ((slot: Slot | NoSlot) => void)[]
}

export function longestIdle(places: Iterable<Place>): Slot | undefined {
  let longest: Slot | undefined
  for (const { idle } of places)
    if (idle[0] !== undefined && (longest === undefined || idle[0].idleSince < longest.idleSince)) longest = idle[0]
  return longest
}

/**
 * Of the places where somebody waits and that may have one more, the one with the fewest connections, and of several the one that had to do
 * without a new one for longest: none starves beside a busy one. A connection of `leaving`, which is not meant, is about to be free.
 */
export function nextInLine(
  places: Iterable<Place>,
  isFull: (group: Group) => boolean,
  leaving?: Place,
): Place | undefined {
  let next: Place | undefined
  for (const place of places)
    if (
      place !== leaving &&
      place.waiting.length > 0 &&
      place.open < place.connectionsMax &&
      (place.group === leaving?.group || !isFull(place.group)) &&
      (next === undefined || place.open < next.open || (place.open === next.open && place.servedAt < next.servedAt))
    )
      next = place
  return next
}
