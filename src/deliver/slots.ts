// Who may have how many messages in flight (ARCHITECTURE, "Fair claiming"). A destination begins with a few slots, gains one with every
// answer that it gives and loses half with every attempt that it leaves without one; what does not answer gets no more until it does. When
// those that do not answer hold more than half of all slots, their youngest give theirs back. What is known of a provider counts for all of
// its destinations: each may have a single message. A workspace never holds all slots.
import { limits } from '../config.ts'
import type { Rations } from '../store/claim.ts'

export interface Slots {
  launched(destination: string, workspace: string): void
  /** Whose pace counts there, as soon as that is known. */
  heading(destination: string, provider: string): void
  /** True when the destination, its provider or the workspace can take more by that. */
  landed(destination: string, workspace: string, landing: Landing): boolean
  /**
   * How many more each destination may have. What is not named may have `limits.slotsAtFirst`. What a provider takes by its rate is a ration of all
   * its destinations together, since nobody knows here which of them have anything due.
   */
  rooms(): { readonly rooms: Readonly<Record<string, number>>; readonly rations: Rations }
  /** Workspaces that have their share of all slots, until there is room for a whole claim again. */
  crowded(): string[]
  /** How many any one workspace may get at once and have no more than its share: `limits.claimMany` or more. */
  mostOfOne(): number
  /** How many messages of which destination are to give their slots back. */
  surplus(): ReadonlyMap<string, number>
}

/**
 * `answered`: the other side said something. `late`: no connection was free for as long as one waits, so that what is under way to its
 * provider is too much. `unasked`: nobody there was asked, which shows neither that they answer nor that they are silent.
 */
export type Landing = 'answered' | 'silent' | 'late' | 'unasked'

interface State {
  inFlight: number
  /** Infinity: as many as there are slots. */
  allowance: number
  /** The last answer, or the first launch after a rest. */
  movedAt: number
  /** When it last got something although it did not answer. */
  probedAt: number
}

interface Destination extends State {
  launchedAt: number
  provider: string | undefined
}

interface Provider extends State {
  /** When its allowance was last halved: all that waited together are one sign. */
  halvedAt: number
}

export function makeSlots(roomOf: (provider: string) => number, now: () => number = () => performance.now()): Slots {
  const states = new Map<string, Destination>()
  const providers = new Map<string, Provider>()
  const byWorkspace = new Map<string, number>()

  const stateOf = (destination: string): Destination => {
    const known = states.get(destination)
    if (known !== undefined) return known
    const fresh = {
      inFlight: 0,
      allowance: limits.slotsAtFirst,
      movedAt: now(),
      probedAt: 0,
      launchedAt: 0,
      provider: undefined,
    }
    states.set(destination, fresh)
    forgetOne(states, limits.destinationsKnownMax)
    return fresh
  }
  const providerOf = (provider: string): Provider => {
    const known = providers.get(provider)
    if (known !== undefined) return known
    const fresh = { inFlight: 0, allowance: Infinity, movedAt: now(), probedAt: 0, halvedAt: -Infinity }
    providers.set(provider, fresh)
    forgetOne(providers, limits.providersKnownMax)
    return fresh
  }
  const isStalled = (state: State): boolean => state.inFlight > 0 && now() - state.movedAt > limits.stalledAfterMs
  const mayProbe = (state: State): boolean => now() - state.probedAt > limits.stalledAfterMs
  const launch = (state: State, many: number) => {
    if (many === 0) return
    if (isStalled(state)) state.probedAt = now()
    if (state.inFlight === 0) state.movedAt = now()
    state.inFlight += many
  }

  /**
   * Few claims of many rather than many of few: nothing until half of the allowance is free. One that does not answer still gets a few now
   * and then, within its allowance: perhaps it is only those messages that hang.
   */
  const freeOf = (state: Destination): number => {
    const free = Math.floor(state.allowance) - state.inFlight
    if (isStalled(state)) return mayProbe(state) ? Math.max(0, Math.min(free, limits.slotsAtLeast)) : 0
    return free < state.allowance / 2 ? 0 : free
  }

  /** Of all its destinations together. One that says nothing keeps its connections busy with what it has. */
  const freeOfProvider = (name: string): number => {
    const state = providers.get(name)
    if (state === undefined) return Infinity
    const free = Math.max(0, Math.floor(state.allowance) - state.inFlight)
    if (!isStalled(state)) return free
    return mayProbe(state) ? Math.max(0, Math.min(free, limits.slotsAtLeast, limits.slotsAtFirst - state.inFlight)) : 0
  }

  /** True when much of what it may have is free again: what was due at any of its destinations has been left out, and nobody else would tell the claims. */
  const landedAt = (state: Provider, landing: Landing): boolean => {
    const hadRoom = hasRoom(state)
    if (landing === 'answered') {
      state.movedAt = now()
      if (++state.allowance >= limits.messagesInFlightMax) state.allowance = Infinity
    } else if (landing === 'late' && now() - state.halvedAt > limits.stalledAfterMs) {
      state.halvedAt = now()
      state.allowance = Math.max(limits.slotsAtFirst, Math.min(state.allowance, state.inFlight) / 2)
    }
    state.inFlight = Math.max(0, state.inFlight - 1)
    return !hadRoom && hasRoom(state)
  }

  /** True when it is not crowded any more: nobody else would tell the claims, which left it out. */
  const landedOf = (workspace: string): boolean => {
    const inFlight = (byWorkspace.get(workspace) ?? 0) - 1
    if (inFlight > 0) byWorkspace.set(workspace, inFlight)
    else byWorkspace.delete(workspace)
    return isCrowded(inFlight + 1) && !isCrowded(inFlight)
  }

  return {
    launched: (destination, workspace) => {
      const state = stateOf(destination)
      launch(state, 1)
      state.launchedAt = now()
      if (state.provider !== undefined) launch(providerOf(state.provider), 1)
      byWorkspace.set(workspace, (byWorkspace.get(workspace) ?? 0) + 1)
    },
    heading: (destination, provider) => {
      const state = stateOf(destination)
      if (state.provider === provider) return
      const before = state.provider === undefined ? undefined : providers.get(state.provider)
      if (before !== undefined) before.inFlight = Math.max(0, before.inFlight - state.inFlight)
      state.provider = provider
      launch(providerOf(provider), state.inFlight)
    },
    landed: (destination, workspace, landing) => {
      const thinned = landedOf(workspace)
      const state = stateOf(destination)
      const before = freeOf(state)
      state.inFlight = Math.max(0, state.inFlight - 1)
      const eased = state.provider !== undefined && landedAt(providerOf(state.provider), landing)
      if (landing === 'silent' || landing === 'late') {
        state.allowance = Math.max(state.allowance / 2, limits.slotsAtLeast)
        return thinned
      }
      if (landing === 'answered') {
        state.movedAt = now()
        state.allowance = Math.min(state.allowance + 1, limits.claimShareMax)
      }
      return thinned || eased || (before === 0 && freeOf(state) > 0)
    },
    rooms: () => {
      const of: Record<string, string> = {}
      const left = new Map<string, number>()
      const rooms: Record<string, number> = {}
      const longAgo = now() - limits.slotsRestMs
      for (const [destination, state] of states) {
        let room = freeOf(state)
        const { provider } = state
        if (provider !== undefined && room > 0) {
          const most = left.get(provider) ?? Math.min(roomOf(provider), freeOfProvider(provider))
          left.set(provider, most)
          if (most <= 0) room = 0
          else if (most < Infinity) of[destination] = provider
        }
        // There may be very many, and each claim carries what is named here: of those with nothing in flight only the busy ones are worth a word.
        const idle =
          state.inFlight === 0 &&
          room >= limits.slotsAtFirst &&
          (room < 2 * limits.slotsAtFirst || state.movedAt < longAgo)
        if (room !== limits.slotsAtFirst && !idle) rooms[destination] = room
      }
      return {
        rooms,
        rations: { of, left: Object.fromEntries([...left].filter(([, most]) => most > 0 && most < Infinity)) },
      }
    },
    crowded: () => [...byWorkspace].flatMap(([workspace, inFlight]) => (isCrowded(inFlight) ? [workspace] : [])),
    mostOfOne: () => {
      let most: number = limits.workspaceSlotsMax
      for (const inFlight of byWorkspace.values())
        if (!isCrowded(inFlight)) most = Math.min(most, limits.workspaceSlotsMax - inFlight)
      return most
    },
    surplus: () => {
      const saysNothing = ({ provider }: Destination) => provider === undefined || isStalled(providerOf(provider))
      // A single message may only wait for its turn at a provider that is busy.
      const stalled = [...states].filter(([, state]) => isStalled(state) && (state.inFlight > 1 || saysNothing(state)))
      let over = stalled.reduce((sum, [, { inFlight }]) => sum + inFlight, 0) - limits.stalledSlotsMax
      const give = new Map<string, number>()
      if (over <= 0) return give
      const take = (destination: string, many: number) => {
        give.set(destination, (give.get(destination) ?? 0) + many)
        over -= many
      }
      stalled.sort(([, one], [, other]) => other.launchedAt - one.launchedAt)
      // The largest crowd first, down to one of it: all that waits at a silent provider, or else for one destination.
      const crowdOf = (state: Destination): State =>
        state.provider !== undefined && saysNothing(state) ? providerOf(state.provider) : state
      const crowds = Map.groupBy(stalled, ([, state]) => crowdOf(state))
      for (const [{ inFlight: all }, of] of [...crowds].sort(([one], [other]) => other.inFlight - one.inFlight)) {
        let spare = all - 1
        for (const [destination, { inFlight }] of of) {
          const many = Math.min(over, spare, inFlight)
          if (many <= 0) continue
          take(destination, many)
          spare -= many
        }
      }
      // Each crowd has one left now, or had no more. Whoever is with many others at a silent provider goes first: one that is new there, or of which the
      // provider is not known yet, may only be slow.
      const crowd = ({ provider }: Destination) => (provider === undefined ? 0 : providerOf(provider).inFlight)
      stalled.sort(([, one], [, other]) => crowd(other) - crowd(one) || other.launchedAt - one.launchedAt)
      for (const [destination, state] of stalled) {
        if (over <= 0) return give
        if (!saysNothing(state) || (give.get(destination) ?? 0) >= state.inFlight) continue
        // Beside a silent backlog it would go back each time that it is tried, and never get through.
        if (crowd(state) <= 1 && now() - state.launchedAt < limits.slowGreetingMs) continue
        take(destination, 1)
      }
      return give
    },
  }
}

/** The first that is idle, where there are too many. */
function forgetOne(states: Map<string, State>, most: number): void {
  if (states.size <= most) return
  for (const [name, { inFlight }] of states)
    if (inFlight === 0) {
      states.delete(name)
      return
    }
}

/** As for a destination, few claims of many. */
const hasRoom = ({ allowance, inFlight }: State): boolean => allowance - inFlight >= allowance / 2

/** Without room for a whole claim: a few slots for one workspace would make small claims for all. */
const isCrowded = (inFlight: number): boolean => inFlight > limits.workspaceSlotsMax - limits.claimMany

/**
 * Milliseconds until the next claim. Few claims of many cost less than many of few; but where slots come free slowly, a few are better than
 * none, and a message that could go does not wait for more than a moment, however few are free. Infinity: not before some are free.
 */
export function untilClaim(freeSlots: number, sinceLastMs: number): number {
  if (freeSlots >= limits.claimMany) return 0
  if (freeSlots <= 0) return Infinity
  return Math.max(0, (freeSlots < limits.claimLeast ? limits.claimFewMs : limits.claimWaitMs) - sinceLastMs)
}
