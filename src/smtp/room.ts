// The memory that one SMTP server has for the messages it is being given, and who gives way where there is none left.

/** Bytes of content that all sessions together may hold, and of them the sessions of one owner, so that the others always find room. */
export class Room {
  #free: number
  readonly #shareBytesMax: number
  readonly #held = new Map<string, number>()
  constructor(bytes: number, shareBytesMax = bytes) {
    this.#free = bytes
    this.#shareBytesMax = shareBytesMax
  }
  take(bytes: number, owner = ''): boolean {
    if (bytes > this.#free || !this.isWithinShare(bytes, owner)) return false
    this.#free -= bytes
    this.#held.set(owner, (this.#held.get(owner) ?? 0) + bytes)
    return true
  }
  protected isWithinShare(bytes: number, owner = ''): boolean {
    return (this.#held.get(owner) ?? 0) + bytes <= this.#shareBytesMax
  }
  give(bytes: number, owner = ''): void {
    this.#free += bytes
    const held = (this.#held.get(owner) ?? 0) - bytes
    if (held > 0) this.#held.set(owner, held)
    else this.#held.delete(owner)
  }
  /** The same for a message that is being read: `holder` is asked to give way, if anybody is. */
  takeFor(_holder: Holder, bytes: number, owner?: string): boolean {
    return this.take(bytes, owner)
  }
  /** It is complete, or gone: from here on it gives way to nobody. */
  leave(_holder: Holder): void {}
}

export interface Holder {
  readonly heldBytes: number
  /** Gives back what it holds. */
  giveWay(): void
}

/**
 * Room in which the largest gives way to the small: who finds none takes it from the message under way that holds most, where that is more than their
 * own. Else a few that are large, or never end, would keep everybody out; and who has many addresses, or workspaces, has many shares.
 */
export class YieldingRoom extends Room {
  readonly #smallBytesMax: number
  readonly #holders = new Set<Holder>()

  /** To what is larger than `smallBytesMax` nobody gives way: large ones would only end each other. */
  constructor(bytes: number, shareBytesMax = bytes, smallBytesMax = bytes) {
    super(bytes, shareBytesMax)
    this.#smallBytesMax = smallBytesMax
  }

  override takeFor(holder: Holder, bytes: number, owner?: string): boolean {
    const own = holder.heldBytes + bytes
    while (!this.take(bytes, owner)) {
      if (own > this.#smallBytesMax || (owner !== undefined && !this.isWithinShare(bytes, owner))) return false
      let largest = holder
      for (const each of this.#holders) if (each.heldBytes > largest.heldBytes) largest = each
      if (largest.heldBytes <= own) return false
      largest.giveWay()
    }
    this.#holders.add(holder)
    return true
  }

  override leave(holder: Holder): void {
    this.#holders.delete(holder)
  }
}
