// How often something went wrong lately: a count for each name, half of which is forgotten in a given time. Bounded in names; the one that
// was quiet for longest goes first.
export class DecayingCounts {
  readonly #counts = new Map<string, { count: number; at: number }>()
  readonly #halfMs: number
  readonly #namesMax: number
  readonly #now: () => number

  constructor(halfMs: number, namesMax: number, now: () => number = Date.now) {
    this.#halfMs = halfMs
    this.#namesMax = namesMax
    this.#now = now
  }

  count(name: string): number {
    const known = this.#counts.get(name)
    return known === undefined ? 0 : known.count * 0.5 ** ((this.#now() - known.at) / this.#halfMs)
  }

  /** The count with this one. */
  add(name: string): number {
    const count = this.count(name) + 1
    this.#counts.delete(name) // set again, so that the map is in order of the latest
    this.#counts.set(name, { count, at: this.#now() })
    if (this.#counts.size > this.#namesMax) this.#counts.delete(this.#counts.keys().next().value as string)
    return count
  }

  forget(name: string): void {
    this.#counts.delete(name)
  }
}
