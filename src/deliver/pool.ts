// Kept connections: a mail to a place where one just went costs no greeting. Few connections to one place, and to all hosts of a provider, and
// a limit over all; who finds none free waits in line, where a busy host leaves some to the others. The pool knows nothing of mails, only
// whether a conversation can go on.
import { limits } from '../config.ts'
import type { Facts } from '../domain/attempt.ts'
import { lifecycle, type Service } from '../base/service.ts'
import { eitherOf, whenAborted } from './connect.ts'
import { Conversation, openConversation, type Manner } from './conversation.ts'
import type { Said } from './dialogue.ts'
import { greetsLater, hangsUp, longestIdle, makeBorne, mayOpenOneMore } from './places.ts'
import { makeLeaving, moveTo, nextInLine } from './places.ts'
import type { Connection, Group, NoConnection, Place } from './places.ts'
import { isWellKnown } from './providers.ts'
import type { Target } from './route.ts'

export interface PoolSettings extends Manner {
  /** Instead of what the target allows. */
  readonly perDestinationMax?: number
  readonly connectionsMax?: number
  /** How many connections to all hosts of a provider, and how many mails over one of them. */
  readonly mannersOf?: (provider: string) => { readonly connections: number; readonly messagesPerConnection: number }
  /** Instead of what manners say (tests). */
  readonly mailsPerConnectionMax?: number
  readonly idleMs?: number
  /** Instead of `limits.connectionTurnMs` and `limits.connectionLineMs` (tests). */
  readonly turnMs?: number
  readonly lineMs?: number
  /** How long a stop waits for the conversations under way before it cuts them. */
  readonly stopMs?: number
}

type Optional = 'perDestinationMax' | 'mailsPerConnectionMax'

export interface Lease {
  readonly conversation: Conversation
  readonly reused: boolean
  /** In place of a kept connection that has turned out dead: a new one, without waiting in line again. */
  renew(): Promise<Lease | NoLease>
  /** Gives it back. A conversation that cannot go on is dropped. */
  release(reusable: boolean): void
}

/** Why there is no connection. */
export interface NoLease extends Facts {
  /** In place of a greeting a 4yz, or nothing but the end, beside other connections of ours to the same place: whatever the words are, it bears no more of them at once. */
  readonly crowded?: true
}

/** No connection was free for `limits.connectionLineMs`. */
export const lineTooLong: NoLease = { phase: 'connect', trouble: 'paced' }

/** What a pause needs to know, and tells. */
export interface Asking {
  /** Whether the place is to be left alone by now; asked behind the line. */
  isPaused(): boolean
  /** Why there is no connection, before whoever is next in line gets its place. */
  heard(facts: NoLease): void
  /** A step was made towards a connection. */
  getsOn?(): void
}
interface Wish {
  readonly target: Target
  readonly dialogue: Said[]
  readonly signal: AbortSignal | undefined
  readonly asking: Asking
}
const nobodyAsks: Asking = { isPaused: () => false, heard: () => undefined }

export class Pool {
  readonly service: Service
  readonly #settings: Required<Omit<PoolSettings, Optional>> & Pick<PoolSettings, Optional>
  readonly #places = new Map<string, Place>()
  readonly #groups = new Map<string, Group>()
  readonly #bears = makeBorne()
  readonly #busy = new Set<Connection>()
  readonly #leaving = makeLeaving()
  #stopping = new AbortController()
  #open = 0
  #running = false
  #sweep: NodeJS.Timeout | undefined
  #quiet: (() => void) | undefined

  constructor(settings: PoolSettings) {
    this.#settings = {
      connectionsMax: limits.connectionsMax,
      mannersOf: () => ({ connections: Infinity, messagesPerConnection: limits.messagesPerConnectionMax }),
      idleMs: limits.connectionIdleMs,
      turnMs: limits.connectionTurnMs,
      lineMs: limits.connectionLineMs,
      stopMs: limits.shutdownMs,
      ...settings,
    }
    this.service = lifecycle(
      'connections',
      () => this.#begin(),
      () => this.#finish(),
    )
  }

  /** How many connections exist, used and idle. */
  get open(): number {
    return this.#open
  }

  /** Providers may have other limits than before: nobody waits for a connection that he may have by now. */
  mannersChanged(): void {
    this.#serve()
  }

  /** A connection ready for a mail, or why there is none. */
  async take(
    target: Target,
    dialogue: Said[],
    signal?: AbortSignal,
    asking: Asking = nobodyAsks,
  ): Promise<Lease | NoLease> {
    const kept = this.#connection(target, signal)
    const connection = kept instanceof Promise ? await kept : kept
    if (connection === 'late') return lineTooLong
    if (connection === undefined) return { phase: 'connect', trouble: 'shutdown' }
    const { conversation } = connection
    if (kept instanceof Promise && asking.isPaused()) {
      this.#release(connection, conversation, true)
      return { phase: 'connect', trouble: 'paced' }
    }
    const wish = { target, dialogue, signal, asking }
    return conversation === undefined ? this.#openFor(connection, wish) : this.#leaseOf(connection, conversation, wish)
  }

  async #openFor(connection: Connection, wish: Wish): Promise<Lease | NoLease> {
    const { target, dialogue, signal, asking } = wish
    const { place } = connection
    // A host that bears one counts the one that leaves, until it has gone: with 421 it would have refused the only connection of ours.
    const before = place.open === 1 ? this.#leaving.from(place) : undefined
    if (before !== undefined) await before
    const { either, undo } = eitherOf(signal, this.#stopping.signal)
    const opened = await openConversation(target, this.#settings, dialogue, either, () => asking.getsOn?.())
      .catch((error: unknown) => {
        this.#drop(connection)
        throw error
      })
      .finally(undo)
    if (!(opened instanceof Conversation)) {
      const isCrowded = place.open > 1 && (greetsLater(opened) || hangsUp(opened))
      const refused: NoLease = isCrowded ? { ...opened, crowded: true } : opened
      if (isCrowded && hangsUp(opened)) this.#bears.noMoreThan(place.open - 1, place, limits.connectionsBorneMs)
      asking.heard(refused)
      this.#drop(connection)
      return refused
    }
    connection.conversation = opened
    return this.#leaseOf(connection, opened, wish)
  }

  #leaseOf(connection: Connection, conversation: Conversation, wish: Wish): Lease {
    const { reused } = connection
    return {
      conversation,
      reused,
      renew: () => {
        conversation.close()
        connection.conversation = undefined
        connection.reused = false
        return this.#openFor(connection, wish)
      },
      release: (reusable) => this.#release(connection, conversation, reusable),
    }
  }

  /** A kept connection, a new one, or a place in the line. */
  #connection(target: Target, signal?: AbortSignal): Connection | undefined | Promise<Connection | NoConnection> {
    if (!this.#running || signal?.aborted === true) return undefined
    const place = this.#placeOf(target)
    const kept = this.#wakeIdle(place) ?? this.#newConnection(place)
    if (kept !== undefined) return kept
    return new Promise((resolve) => {
      const settle = (connection: Connection | NoConnection) => {
        clearTimeout(late)
        undo()
        resolve(connection)
      }
      const leave = (why: NoConnection) => {
        const at = place.waiting.indexOf(settle)
        if (at !== -1) place.waiting.splice(at, 1)
        this.#forget(place)
        settle(why)
      }
      const late = setTimeout(() => leave('late'), this.#settings.lineMs)
      const undo = whenAborted(signal, () => leave(undefined))
      place.waiting.push(settle)
    })
  }

  #placeOf(target: Target): Place {
    const known = this.#places.get(target.key)
    const group = known?.group ?? this.#groupOf(target.provider)
    if (known !== undefined) {
      // Anybody may give one of Gmail's addresses a name, and be the first to come; the limits of that name are not for Gmail's mail.
      if (group.provider === target.provider || !isWellKnown(target.provider) || isWellKnown(group.provider))
        return known
      moveTo(this.#groupOf(target.provider), known)
      if (group.places.size === 0) this.#groups.delete(group.provider)
      return known
    }
    const connectionsMax = this.#settings.perDestinationMax ?? target.connectionsMax
    const place: Place = {
      key: target.key,
      group,
      connectionsMax,
      borne: this.#bears.of(target.key),
      idle: [],
      open: 0,
      servedAt: performance.now(),
      waiting: [],
    }
    this.#places.set(target.key, place)
    group.places.add(place)
    return place
  }

  #groupOf(provider: string): Group {
    const group = this.#groups.get(provider) ?? { provider, places: new Set(), open: 0 }
    this.#groups.set(provider, group)
    return group
  }

  readonly #isFull = ({ provider, open }: Group): boolean => open >= this.#settings.mannersOf(provider).connections

  /** The one used last, which is the one least likely to have been given up by the other side. */
  #wakeIdle(place: Place): Connection | undefined {
    const connection = place.idle.pop()
    if (connection?.conversation === undefined) return undefined
    connection.conversation.surprised = undefined
    this.#busy.add(connection)
    return connection
  }

  /** Where the limits allow one more; an idle connection elsewhere gives way. */
  #newConnection(place: Place): Connection | undefined {
    if (!mayOpenOneMore(place)) return undefined
    if (this.#isFull(place.group)) {
      const beside = longestIdle(place.group.places)
      if (beside === undefined) return undefined
      this.#evict(beside)
      if (this.#isFull(place.group)) return undefined
    }
    if (this.#open >= this.#settings.connectionsMax) {
      const elsewhere = longestIdle(this.#places.values())
      if (elsewhere === undefined) return undefined
      this.#evict(elsewhere)
      if (this.#open >= this.#settings.connectionsMax) return undefined
    }
    place.servedAt = performance.now()
    const connection: Connection = {
      place,
      conversation: undefined,
      reused: false,
      idleSince: 0,
      since: place.servedAt,
    }
    place.open++
    place.group.open++
    this.#open++
    this.#busy.add(connection)
    return connection
  }

  #release(connection: Connection, conversation: Conversation | undefined, reusable: boolean): void {
    if (!reusable || conversation?.alive !== true) return this.#drop(connection)
    const mailsMax =
      this.#settings.mailsPerConnectionMax ??
      this.#settings.mannersOf(connection.place.group.provider).messagesPerConnection
    const refusesAll = conversation.refused >= limits.refusalsPerConnectionMax
    const usedUp = conversation.sent >= mailsMax || conversation.isUsedUp
    if (!this.#running || usedUp || refusesAll) return this.#retire(connection)
    connection.reused = true
    const rival = this.#rivalOf(connection)
    if (rival !== undefined) return this.#retire(connection, rival)
    const next = connection.place.waiting.shift()
    if (next !== undefined) next(connection)
    else {
      this.#busy.delete(connection)
      connection.idleSince = performance.now()
      connection.place.idle.push(connection)
      conversation.surprised = () => this.#evict(connection)
    }
    // What was just said there may have given its provider another one.
    this.#serve(connection.place.group)
  }

  /** To whoever waits although he may have a new one: of all, or at one provider. */
  #serve(group?: Group): void {
    for (;;) {
      const next = nextInLine(group?.places ?? this.#places.values(), this.#isFull)
      const fresh = next && this.#newConnection(next)
      if (fresh === undefined) return
      next?.waiting.shift()?.(fresh)
    }
  }

  /**
   * The other place that gets this connection's room although its own would have a use for it: a connection to one host is of none to another.
   * Only when all connections, or all of one provider, are in use does anybody wait while its place may have more. The busier place gives, down
   * to an even share; of its only one, after a turn with it.
   */
  #rivalOf({ place, since }: Connection): Place | undefined {
    const { group } = place
    const allInUse = this.#open >= this.#settings.connectionsMax
    if (!allInUse && (group.places.size === 1 || !this.#isFull(group))) return undefined
    const rival = nextInLine(allInUse ? this.#places.values() : group.places, this.#isFull, place)
    if (rival === undefined || place.waiting.length === 0 || rival.open + 1 < place.open) return rival
    const hadItsTurn = place.open > 1 || performance.now() - since >= this.#settings.turnMs
    return rival.open === 0 && hadItsTurn ? rival : undefined
  }

  /** Takes an idle connection out of use at once; it says its QUIT on the side. */
  #evict(connection: Connection): void {
    const at = connection.place.idle.indexOf(connection)
    if (at === -1) return
    connection.place.idle.splice(at, 1)
    this.#retire(connection)
  }

  #retire(connection: Connection, successor?: Place): void {
    const { conversation } = connection
    if (conversation !== undefined) {
      conversation.surprised = undefined
      this.#leaving.add(connection.place, conversation.quit())
    }
    this.#free(connection, successor)
  }

  #drop(connection: Connection): void {
    connection.conversation?.close()
    this.#free(connection)
  }

  /** It is no more: whoever waits may open another. */
  #free(connection: Connection, successor?: Place): void {
    const { place } = connection
    this.#busy.delete(connection)
    place.open--
    place.group.open--
    this.#open--
    const allWereInUse = this.#open + 1 >= this.#settings.connectionsMax
    const fresh = successor && this.#newConnection(successor)
    if (fresh !== undefined) successor?.waiting.shift()?.(fresh)
    this.#serve(allWereInUse ? undefined : place.group)
    this.#forget(place)
    if (this.#busy.size === 0) this.#quiet?.()
  }

  #forget(place: Place): void {
    if (place.open > 0 || place.waiting.length > 0) return
    this.#places.delete(place.key)
    place.group.places.delete(place)
    if (place.group.places.size === 0) this.#groups.delete(place.group.provider)
  }

  async #begin(): Promise<void> {
    this.#running = true
    this.#stopping = new AbortController()
    this.#sweep = setInterval(
      () => this.#closeIdle(performance.now() - this.#settings.idleMs),
      this.#settings.idleMs / 4,
    )
    this.#sweep.unref()
  }

  async #finish(): Promise<void> {
    this.#running = false
    clearInterval(this.#sweep)
    for (const place of this.#places.values()) {
      for (const waiter of place.waiting.splice(0)) waiter(undefined)
      this.#forget(place)
    }
    this.#stopping.abort() // connections that are only being opened carry no mail yet
    this.#closeIdle(Infinity)
    if (this.#busy.size > 0) await this.#untilQuiet()
    await this.#leaving.allGone()
  }

  /** Waits for the conversations under way; cuts those that take too long, which ends them as `closed`. */
  async #untilQuiet(): Promise<void> {
    const cut = setTimeout(() => {
      for (const connection of this.#busy) connection.conversation?.close()
    }, this.#settings.stopMs)
    await new Promise<void>((resolve) => {
      this.#quiet = resolve
    })
    clearTimeout(cut)
    this.#quiet = undefined
  }

  #closeIdle(since: number): void {
    for (const place of this.#places.values())
      for (const connection of place.idle.filter(({ idleSince }) => idleSince <= since)) this.#evict(connection)
  }
}
