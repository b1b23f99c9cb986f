// Those who wait for the same thing, and who is next: owners take turns, so that one with much to do delays the others by one piece at a time; items of
// one owner go in the order of arrival.
export class WaitingLine<Item> {
  /** The first owner is next. */
  readonly #owners = new Map<string, Set<Item>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  sizeOf(owner: string): number {
    return this.#owners.get(owner)?.size ?? 0
  }

  add(owner: string, item: Item): void {
    const items = this.#owners.get(owner)
    if (items === undefined) this.#owners.set(owner, new Set([item]))
    else items.add(item)
    this.#size++
  }

  /** Leaves without having been served; false where it was not in the line. */
  leave(owner: string, item: Item): boolean {
    const items = this.#owners.get(owner)
    if (items?.delete(item) !== true) return false
    if (items.size === 0) this.#owners.delete(owner)
    this.#size--
    return true
  }

  /** Owners that may not be served now keep their places. */
  next(may: (owner: string) => boolean = () => true): Item | undefined {
    for (const [owner, items] of this.#owners)
      for (const item of may(owner) ? items : []) {
        this.leave(owner, item)
        this.#owners.delete(owner)
        if (items.size > 0) this.#owners.set(owner, items)
        return item
      }
    return undefined
  }
}
