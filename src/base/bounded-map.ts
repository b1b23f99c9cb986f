// A map of at most so many entries, for what strangers make us remember: the one that was set longest ago makes room.
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #most: number

  constructor(most: number) {
    super()
    this.#most = most
  }

  /** The entry is the newest then, also where it was there before. */
  override set(key: Key, value: Value): this {
    this.delete(key)
    if (this.size >= this.#most)
      for (const oldest of this.keys()) {
        this.delete(oldest)
        break
      }
    return super.set(key, value)
  }
}
