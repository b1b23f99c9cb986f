// Where connections lead, and who has the next turn there: a place is one host, spoken to in one way; a group is all places of one provider. Pure.
import { BoundedMap } from '../base/bounded-map.ts'
import { limits } from '../config.ts'
import type { Facts } from '../domain/attempt.ts'
import type { Conversation } from './conversation.ts'

/** One to a place, counted from before it is opened: then it has no conversation yet. */
export interface Connection {
  readonly place: Place
  conversation: Conversation | undefined
  /** The conversation had been used before. */
  reused: boolean
  idleSince: number
  /** Its place has had it since then. */
  readonly since: number
}

/** `undefined`: it is given up. */
export type NoConnection = 'late' | undefined

/** All connections to the hosts of one provider. */
export interface Group {
  readonly provider: string
  readonly places: Set<Place>
  open: number
}

/** With its connections. */
export function moveTo(group: Group, place: Place): void {
  place.group.places.delete(place)
  place.group.open -= place.open
  place.group = group
  group.places.add(place)
  group.open += place.open
}

/** How many at once a place was seen to bear, and until when that is believed. */
export interface Borne {
  readonly connections: number
  readonly until: number
}

/** All connections under one key. */
export interface Place {
  readonly key: string
  group: Group
  readonly connectionsMax: number
  borne: Borne
  readonly idle: Connection[]
  open: number
  /** When it last got a connection, or was first asked for. */
  servedAt: number
  readonly waiting: ((connection: Connection | NoConnection) => void)[]
}

export function mayOpenOneMore({ open, connectionsMax, borne }: Place): boolean {
  return open < connectionsMax && (open < borne.connections || performance.now() >= borne.until)
}

/** In place of a greeting it asks us to come later. */
export function greetsLater({ phase, reply, trouble }: Facts): boolean {
  const greets = phase === 'greeting' || phase === 'ehlo'
  return greets && trouble === undefined && reply !== undefined && reply.code < 500
}

/** It names no reason: a wrapper that counts connections (xinetd, a firewall) has none to give. */
export function hangsUp({ phase, trouble }: Facts): boolean {
  return phase === 'greeting' && trouble === 'closed'
}

/** Kept beyond the place itself, else everybody who comes together would be one too many, again and again, and nobody have been tried. */
export function makeBorne() {
  const known = new BoundedMap<string, Borne>(limits.providersKnownMax)
  return {
    of: (key: string): Borne => known.get(key) ?? { connections: Infinity, until: 0 },
    noMoreThan: (connections: number, place: Place, ms: number): void => {
      place.borne = { connections, until: performance.now() + ms }
      known.set(place.key, place.borne)
    },
  }
}

/** Those that have said their QUIT, kept beyond the place itself. */
export function makeLeaving() {
  const known = new Map<string, Promise<unknown>>()
  return {
    /** Resolves when the last of them has gone; undefined where nobody leaves. */
    from: ({ key }: Place): Promise<unknown> | undefined => known.get(key),
    add: ({ key }: Place, quit: Promise<void>): void => {
      const gone = Promise.all([known.get(key), quit]).finally(() => {
        if (known.get(key) === gone) known.delete(key)
      })
      known.set(key, gone)
    },
    allGone: (): Promise<unknown> => Promise.all(known.values()),
  }
}

export function longestIdle(places: Iterable<Place>): Connection | undefined {
  let longest: Connection | undefined
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
      mayOpenOneMore(place) &&
      (place.group === leaving?.group || !isFull(place.group)) &&
      (next === undefined || place.open < next.open || (place.open === next.open && place.servedAt < next.servedAt))
    )
      next = place
  return next
}
