// Whether a lease that ran out may be believed. Its holder may be alive and cut off by the same outage: after one, those who hold replies
// come first (delivery-semantics, reap; docs/decisions/0051). An outage may be heard as errors or as nothing but silence, and it ends with an
// answer. All times are the database's own, in milliseconds.

/** Of which leases that ran out the end may be written now. */
export type Believed = 'none' | 'unarmed' | 'all'

export interface Outages {
  /** An error says that the database was away. */
  failed(): void
  /** The database has answered. */
  heard(at: number): Believed
}

export function makeOutages(leaseMs: number): Outages {
  let heardAt: number | undefined
  let since = 0
  let away = false
  let sawOutage = false
  return {
    failed: () => {
      away = true
    },
    heard: (at) => {
      // A heartbeat comes every third of a lease: after less silence than two thirds nobody who is alive has lost his.
      const silent = heardAt !== undefined && (at < heardAt || at - heardAt > (leaseMs * 2) / 3)
      sawOutage ||= away || silent
      if (away || silent || heardAt === undefined) since = at
      away = false
      heardAt = at
      if (at >= since + leaseMs) return 'all'
      // Whoever has only just started may have missed an outage; what is not armed need not wait for that.
      return sawOutage ? 'none' : 'unarmed'
    },
  }
}
