// How much of something each of many names holds. A name that holds nothing is forgotten: strangers choose names, too.
export class Tally {
  readonly #held = new Map<string, number>()
  #total = 0

  get total(): number {
    return this.#total
  }

  /** How many names hold anything. */
  get names(): number {
    return this.#held.size
  }

  of(name: string): number {
    return this.#held.get(name) ?? 0
  }

  add(name: string, more = 1): void {
    this.#total += more
    const held = this.of(name) + more
    if (held === 0) this.#held.delete(name)
    else this.#held.set(name, held)
  }

  take(name: string, less = 1): void {
    this.add(name, -less)
  }
}
