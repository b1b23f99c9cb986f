// Who may have how many messages in flight (ARCHITECTURE, "Fair claiming"). A destination begins with a few slots, gains one with every
// answer that it gives and loses half with every attempt that it leaves without one; what does not answer gets no more until it does. When
// those that do not answer hold more than half of all slots, their youngest give theirs back. A workspace never holds all slots.
import { limits } from '../config.ts'
import type { Rations } from '../store/claim.ts'

export interface Slots {
  launched(destination: string, workspace: string): void
  /** `answered`: the other side said something. `provider`: whose pace counts there. True when the destination or the workspace can take more by that. */
  landed(destination: string, workspace: string, answered: boolean, provider?: string): boolean
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

interface State {
  inFlight: number
  allowance: number
  /** The last answer, or the first launch after a rest. */
  movedAt: number
  /** When it last got something although it did not answer. */
  probedAt: number
  provider: string | undefined
}

export function makeSlots(roomOf: (provider: string) => number, now: () => number = () => performance.now()): Slots {
  const states = new Map<string, State>()
  const byWorkspace = new Map<string, number>()

  const stateOf = (destination: string): State => {
    const known = states.get(destination)
    if (known !== undefined) return known
    const fresh = { inFlight: 0, allowance: limits.slotsAtFirst, movedAt: now(), probedAt: 0, provider: undefined }
    states.set(destination, fresh)
    if (states.size > limits.destinationsKnownMax) forgetOne()
    return fresh
  }
  const forgetOne = () => {
    for (const [destination, { inFlight }] of states)
      if (inFlight === 0) {
        states.delete(destination)
        return
      }
  }
  const isStalled = (state: State): boolean => state.inFlight > 0 && now() - state.movedAt > limits.stalledAfterMs

  /**
   * Few claims of many rather than many of few: nothing until half of the allowance is free. One that does not answer still gets a few now
   * and then, within its allowance: perhaps it is only those messages that hang.
   */
  const freeOf = (state: State): number => {
    const free = Math.floor(state.allowance) - state.inFlight
    if (isStalled(state))
      return now() - state.probedAt > limits.stalledAfterMs ? Math.max(0, Math.min(free, limits.slotsAtLeast)) : 0
    return free < state.allowance / 2 ? 0 : free
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
      if (isStalled(state)) state.probedAt = now()
      if (state.inFlight++ === 0) state.movedAt = now()
      byWorkspace.set(workspace, (byWorkspace.get(workspace) ?? 0) + 1)
    },
    landed: (destination, workspace, answered, provider) => {
      const thinned = landedOf(workspace)
      const state = stateOf(destination)
      const before = freeOf(state)
      state.inFlight = Math.max(0, state.inFlight - 1)
      state.provider = provider ?? state.provider
      if (!answered) {
        state.allowance = Math.max(state.allowance / 2, limits.slotsAtLeast)
        return thinned
      }
      state.movedAt = now()
      state.allowance = Math.min(state.allowance + 1, limits.claimShareMax)
      return thinned || (before === 0 && freeOf(state) > 0)
    },
    rooms: () => {
      const of: Record<string, string> = {}
      const left = new Map<string, number>()
      const rooms: Record<string, number> = {}
      for (const [destination, state] of states) {
        let room = freeOf(state)
        const { provider } = state
        if (provider !== undefined && room > 0) {
          const most = left.get(provider) ?? roomOf(provider)
          if (most <= 0) room = 0
          else if (most < Infinity) {
            of[destination] = provider
            left.set(provider, most)
          }
        }
        // Of those with nothing in flight only the busy ones are worth a word: there may be very many.
        const idle = state.inFlight === 0 && room >= limits.slotsAtFirst && room < 2 * limits.slotsAtFirst
        if (room !== limits.slotsAtFirst && !idle) rooms[destination] = room
      }
      return { rooms, rations: { of, left: Object.fromEntries(left) } }
    },
    crowded: () => [...byWorkspace].flatMap(([workspace, inFlight]) => (isCrowded(inFlight) ? [workspace] : [])),
    mostOfOne: () => {
      let most: number = limits.workspaceSlotsMax
      for (const inFlight of byWorkspace.values())
        if (!isCrowded(inFlight)) most = Math.min(most, limits.workspaceSlotsMax - inFlight)
      return most
    },
    surplus: () => {
      const stalled = [...states].filter(([, state]) => isStalled(state))
      let over = stalled.reduce((sum, [, { inFlight }]) => sum + inFlight, 0) - limits.stalledSlotsMax
      const give = new Map<string, number>()
      for (const [destination, { inFlight }] of stalled.sort(([, one], [, other]) => other.inFlight - one.inFlight)) {
        if (over <= 0) break
        const many = Math.min(over, inFlight - 1)
        if (many > 0) give.set(destination, many)
        over -= many
      }
      return give
    },
  }
}

/** Without room for a whole claim: a few slots for one workspace would make small claims for all. */
const isCrowded = (inFlight: number): boolean => inFlight > limits.workspaceSlotsMax - limits.claimMany

/**
 * Milliseconds until the next claim. Few claims of many cost less than many of few; but where slots come free slowly, a few are better than
 * none. Infinity: not before more are free.
 */
export function untilClaim(freeSlots: number, sinceLastMs: number): number {
  if (freeSlots >= limits.claimMany) return 0
  return freeSlots < limits.claimLeast ? Infinity : Math.max(0, limits.claimWaitMs - sinceLastMs)
}
