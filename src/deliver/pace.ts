// How fast each provider is written to: no faster than its manners allow, and slower when it says so. A refusal of the "slow down" kind
// pauses the whole destination, longer each time that it comes again without a success between; "too many connections", be it in words or by
// greeting one more with a 4yz, halves them, and successes bring them back. Each process keeps to the limits for itself.
import { limits } from '../config.ts'
import type { DestinationLimits } from '../store/destinations.ts'
import type { NoLease } from './pool.ts'
import { builtInManners, nameOf, type Manners } from './providers.ts'
import { slowDownAskedBy } from './slow-down.ts'

export interface Pace {
  mannersOf(provider: string): Manners
  /** Whether a message of this workspace may go there now: 0, and it is counted; else after so many milliseconds. */
  turn(provider: string, workspace?: string): number
  /** How long it is still left alone because it asked for that, be it for less of this workspace's mail. Counts nothing. */
  pausedMs(provider: string, workspace?: string): number
  /** How many could go now. */
  roomOf(provider: string): number
  /** Names of providers that are left alone for now, those first that are for longest; no more than so many. */
  paused(most: number): readonly string[]
  /** For how many workspaces each provider is left alone that asked for less of their mail alone; those first that have most, no more than so many. */
  pausedSenders(most: number): readonly (readonly [provider: string, workspaces: number])[]
  /** What a host of this provider said to mail of this workspace. */
  learn(provider: string, facts: NoLease, workspace?: string): void
  /** What operators have set, instead of what is built in; `*` for whatever has no row of its own. */
  configure(rows: readonly DestinationLimits[]): void
}

interface State {
  pausedUntil: number
  /** Pauses in a row. */
  pauses: number
  /** The first host that has asked for a long one in this row. */
  longBy: string | undefined
  /** Of its connections, how many are used: 1 is all. */
  part: number
  successes: number
  tokens: number
  countedAt: number
}

/** The day's messages of a destination that is being warmed up: doubled each day, until the limits that hold anyway are the lower ones. */
function warmUpPerMinute(ageDays: number): number {
  return (limits.warmUpFirstDay * 2 ** ageDays) / (24 * 60)
}

export function makePace(timeScale = 1, now: () => number = () => performance.now()): Pace {
  const states = new Map<string, State>()
  let set = new Map<string, DestinationLimits>()
  let setAt = now()

  /** The one that was met first; one that has asked for a pause only where all have, and then the one that is over soonest. */
  const forgetOne = (): void => {
    const at = now()
    let [soonest, until] = ['', Infinity]
    for (const [provider, { pausedUntil }] of states) {
      if (pausedUntil < until) [soonest, until] = [provider, pausedUntil]
      if (until <= at) break
    }
    states.delete(soonest)
  }

  const stateOf = (provider: string): State => {
    const known = states.get(provider)
    if (known !== undefined) return known
    if (states.size >= limits.providersKnownMax) forgetOne()
    const fresh = {
      pausedUntil: 0,
      pauses: 0,
      longBy: undefined,
      part: 1,
      successes: 0,
      tokens: Infinity,
      countedAt: now(),
    }
    states.set(provider, fresh)
    return fresh
  }

  const allowed = (provider: string): Manners => {
    const name = nameOf(provider)
    const own = set.get(name) ?? set.get('*')
    const built = builtInManners(name)
    if (own === undefined) return built
    const warm =
      own.warmUpDays === null ? Infinity : warmUpPerMinute(own.warmUpDays + Math.floor((now() - setAt) / 86_400_000))
    const perMinute = Math.min(own.perMinute ?? built.perMinute ?? Infinity, warm)
    return {
      connections: own.connections ?? built.connections,
      messagesPerConnection: own.messagesPerConnection ?? built.messagesPerConnection,
      ...(perMinute !== Infinity && { perMinute }),
    }
  }

  const mannersOf = (provider: string): Manners => {
    const manners = allowed(provider)
    const { part } = stateOf(provider)
    return part === 1 ? manners : { ...manners, connections: Math.max(1, Math.floor(manners.connections * part)) }
  }

  /** The tokens of a bucket that is filled by the minute and holds ten seconds' worth. */
  const tokensOf = (state: State, perMinute: number): number => {
    const most = Math.max(1, perMinute / 6)
    const at = now()
    state.tokens = Math.min(most, state.tokens + ((at - state.countedAt) / 60_000) * perMinute)
    state.countedAt = at
    return state.tokens
  }

  /** A long pause is believed when a second host asks for one too, or the first again when its time is over: one machine does not speak for all. */
  const pause = (state: State, host: string, saidMs = 0) => {
    const paused = now() < state.pausedUntil
    const seconded = state.longBy !== undefined && (state.longBy !== host || !paused)
    // What was under way when the pause began says nothing new.
    if (paused && !seconded) return
    const asked = Math.min(saidMs, seconded ? limits.pauseMsMax : limits.firstPauseMsMax)
    if (saidMs > limits.firstPauseMsMax) state.longBy ??= host
    const steps = limits.pauseStepsMs
    const own = paused ? 0 : (steps[Math.min(state.pauses, steps.length - 1)] ?? 0)
    if (!paused) state.pauses++
    state.pausedUntil = Math.max(state.pausedUntil, now() + Math.max(own, asked) / timeScale)
  }

  const pausedMs = (provider: string, workspace: string): number => {
    const until = Math.max(
      states.get(provider)?.pausedUntil ?? 0,
      states.get(ofSender(provider, workspace))?.pausedUntil ?? 0,
    )
    return Math.max(0, Math.ceil(until - now()))
  }

  return {
    mannersOf,
    turn: (provider, workspace = '') => {
      const state = stateOf(provider)
      const rest = pausedMs(provider, workspace)
      if (rest > 0) return rest
      const { perMinute } = allowed(provider)
      if (perMinute === undefined) return 0
      const tokens = tokensOf(state, perMinute)
      if (tokens < 1) return Math.ceil(((1 - tokens) / perMinute) * 60_000)
      state.tokens--
      return 0
    },
    pausedMs: (provider, workspace = '') => pausedMs(provider, workspace),
    roomOf: (provider) => {
      const state = states.get(provider)
      // Asked of thousands at each claim: the clock is read for those alone that ever had a pause.
      if (state !== undefined && state.pausedUntil > 0 && now() < state.pausedUntil) return 0
      const { perMinute } = allowed(provider)
      return perMinute === undefined ? Infinity : Math.floor(tokensOf(state ?? stateOf(provider), perMinute))
    },
    paused: (most) => {
      const at = now()
      const names = [...states]
        .filter(([provider, { pausedUntil }]) => pausedUntil > at && !provider.includes(forSender))
        .sort(([, a], [, b]) => b.pausedUntil - a.pausedUntil)
        .map(([provider]) => nameOf(provider))
      return [...new Set(names)].slice(0, most)
    },
    pausedSenders: (most) => {
      const at = now()
      const many = new Map<string, number>()
      for (const [key, { pausedUntil }] of states) {
        const end = key.indexOf(forSender)
        if (end === -1 || pausedUntil <= at) continue
        const name = nameOf(key.slice(0, end))
        many.set(name, (many.get(name) ?? 0) + 1)
      }
      return [...many].sort(([, a], [, b]) => b - a).slice(0, most)
    },
    learn: (provider, facts, workspace = '') => {
      const asked = slowDownAskedBy(facts)
      const crowded = facts.crowded === true
      if (asked !== undefined && (asked.scope !== 'message' || crowded)) {
        const state = stateOf(asked.scope === 'sender' ? ofSender(provider, workspace) : provider)
        if ((asked.fewerConnections || crowded) && now() >= state.pausedUntil)
          state.part = Math.max(state.part / 2, 1 / allowed(provider).connections)
        state.successes = 0
        return pause(state, facts.peer?.host ?? '', asked.ms)
      }
      if (facts.phase !== 'eod' || facts.trouble !== undefined || (facts.reply?.code ?? 500) >= 300) return
      for (const key of [provider, ofSender(provider, workspace)]) {
        const paused = states.get(key)
        if (paused === undefined) continue
        paused.pauses = 0
        paused.longBy = undefined
      }
      const state = states.get(provider)
      if (state === undefined) return
      if (state.part < 1 && ++state.successes >= limits.successesPerStep) {
        state.successes = 0
        state.part = Math.min(1, state.part * 1.5)
      }
    },
    configure: (rows) => {
      set = new Map(rows.map((row) => [row.name, row]))
      setAt = now()
    },
  }
}

/** A provider may have had enough of one workspace's mail and be glad of everybody else's. */
const ofSender = (provider: string, workspace: string): string => `${provider}${forSender}${workspace}`
/** In no name of a host. */
const forSender = ' for '
