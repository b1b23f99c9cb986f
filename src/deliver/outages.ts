// Whether a lease that ran out may be believed. Its holder may be alive and cut off by the same outage: after one, those who hold replies
// come first (delivery-semantics, reap; docs/decisions/0051). An outage may be heard as errors or as nothing but silence, and it ends with an
// answer. All times are the database's own, in milliseconds.

/** Of which leases that ran out the end may be written now. */
export type Believed = 'none' | 'unarmed' | 'all'

export interface Outages {
  /** Nothing is known of the database from before. */
  begin(): void
  /**
   * An error says that the database was away. It begins no second wait where a heartbeat of ours has gone through since the first: one statement that
   * always fails, while all that keeps leases goes well, would hold up every reap for ever.
   */
  failed(): void
  /** A heartbeat, or the reaper's own question, went wrong: whoever is alive may have lost his lease by that. */
  missed(): void
  /** A heartbeat of ours has gone through, and a commit behind it. */
  beat(): void
  /** The database has answered. */
  heard(at: number): Believed
}

export function makeOutages(leaseMs: number): Outages {
  let heardAt: number | undefined
  let since = 0
  let away = false
  let sawOutage = false
  /** Not all leases may be believed. */
  let waits = true
  /** A heartbeat has gone through since the errors that this wait is for. */
  let doubted = false
  const missed = () => {
    doubted = false
    away = true
  }
  return {
    begin: () => {
      heardAt = undefined
      away = sawOutage = doubted = false
      waits = true
    },
    failed: () => {
      if (!doubted) away = true
    },
    missed,
    beat: () => {
      doubted = waits || away
    },
    heard: (at) => {
      // A heartbeat comes every third of a lease: after less silence than two thirds nobody who is alive has lost his.
      const silent = heardAt !== undefined && (at < heardAt || at - heardAt > (leaseMs * 2) / 3)
      sawOutage ||= away || silent
      if (silent) doubted = false
      if (away || silent || heardAt === undefined) {
        since = at
        waits = true
      }
      away = false
      heardAt = at
      if (at >= since + leaseMs) {
        waits = doubted = false
        return 'all'
      }
      // Whoever has only just started may have missed an outage; what is not armed need not wait for that.
      return sawOutage ? 'none' : 'unarmed'
    },
  }
}
