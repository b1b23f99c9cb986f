// Keeps the leases of what is in flight (delivery-semantics, heartbeat), and tells when the database does not let anybody keep theirs.
import { limits } from '../config.ts'
import { commitSomething, type Db } from '../store/database.ts'
import { noAnswerWhileHeld } from '../store/held-rows.ts'
import { claimName, extendLeases, extendLocked } from '../store/outbound.ts'
import type { InFlight } from './flight.ts'
import type { Outages } from './outages.ts'

export interface HeartbeatTools {
  readonly db: Db
  /** For heartbeats alone: whatever hangs elsewhere, and however patient its asker is, holds up none. Its answers have `beatAnswerMs`. */
  readonly leaseDb: Db
  readonly leaseMs: number
}

export interface Heartbeat {
  readonly beat: () => Promise<void>
  /** From one heartbeat to the next; behind one that got no answer there is no time to lose. */
  readonly pauseMs: () => number
  /** While one hangs leases run out, ours and those of others, though everybody lives. */
  isLate(): boolean
}

/**
 * How long a heartbeat waits for an answer before it gives up its line for another: a line may be dead without anybody having said so, while the
 * database and all other lines live. Between two heartbeats and a lease that runs out there must be time for that.
 */
export const beatAnswerMs = (leaseMs: number): number => Math.max(limits.databaseAnswerMs, leaseMs / 4)

/** `flights`: by `claimName`. `trouble` hears of what fails beside a heartbeat. */
export function makeHeartbeat(
  { db, leaseDb, leaseMs }: HeartbeatTools,
  flights: ReadonlyMap<string, InFlight>,
  outages: Pick<Outages, 'missed' | 'beat'>,
  trouble: (error: unknown) => void,
): Heartbeat {
  /** Since when one, or the commit behind it, waits for its answer. */
  let since = Infinity
  let failed = false
  /** One waits for rows that are locked. */
  let lingering = false

  const isLate = (): boolean => performance.now() - since > leaseMs / 4

  const extend = async (
    over: Db,
    held: readonly InFlight[],
    statement: typeof extendLeases,
  ): Promise<ReadonlySet<string>> => {
    const claims = held.map((flight) => flight.claimed)
    const askedAt = performance.now()
    const ours = await statement(over, claims, leaseMs)
    for (const flight of held) if (ours.has(claimName(flight.claimed))) flight.leaseEndsAt = askedAt + leaseMs
    return ours
  }

  const extendHeld = async (): Promise<void> => {
    const held = [...flights.values()].filter((flight) => !flight.lost)
    const extended = await extend(leaseDb, held, extendLeases)
    const left = held.filter((flight) => !extended.has(claimName(flight.claimed)))
    if (left.length > 0 && !lingering) linger(left).catch(trouble)
  }

  /**
   * Behind whoever has these rows locked, so that no lock that somebody holds for long costs the others their leases. Whoever waits holds what he has got:
   * so he waits for no longer than a lock may take, for those alone that are not free by now, and begins again.
   */
  const linger = async (left: readonly InFlight[]): Promise<void> => {
    lingering = true
    try {
      for (let rest = left; ;) {
        const free = await extend(db, rest, extendLeases)
        rest = rest.filter(({ claimed }) => !free.has(claimName(claimed)) && flights.has(claimName(claimed)))
        if (rest.length === 0) return
        const ours = await extend(db, rest, extendLocked).catch(noAnswerWhileHeld)
        if (ours !== undefined) return giveUpLost(rest, ours)
      }
    } finally {
      lingering = false
    }
  }

  const giveUpLost = (left: readonly InFlight[], ours: ReadonlySet<string>): void => {
    for (const { claimed, giveUp } of left) {
      const flight = flights.get(claimName(claimed))
      if (flight === undefined || ours.has(claimName(claimed))) continue
      flight.lost = true
      giveUp.abort()
    }
  }

  return {
    /**
     * Also of a node that holds nothing: whose own commits hang, or whose question to the queue does (somebody rewrites the table), knows that the others' do.
     * Reading goes on where commits wait for a standby or a disk, and a heartbeat that met no row has written nothing.
     */
    beat: async () => {
      since = performance.now()
      failed = true
      try {
        await extendHeld()
        await commitSomething(leaseDb)
        failed = false
      } finally {
        if (isLate()) outages.missed()
        else if (!failed) outages.beat()
        since = Infinity
      }
    },
    pauseMs: () => leaseMs / (failed ? 20 : 3),
    isLate,
  }
}
