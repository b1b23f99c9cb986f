// The memory that one SMTP server has for the messages it is being given, and who gives way where there is none left.
import { Tally } from '../base/tally.ts'

export interface ContentRoomLimits {
  /** What all sessions together may hold. */
  readonly bytesMax: number
  /** What they may hold at this moment, where that can be less, while they hold so much. */
  readonly bytesNow?: (heldBytes: number) => number
  /** Hears of each message that would have found room but for that. */
  readonly lacked?: () => void
  /** What the sessions of one owner may hold of it, so that the others always find room. Left out: all. */
  readonly shareBytesMax?: number
  /** A message that is not larger finds room at the cost of one that is. Left out: nobody gives way. */
  readonly smallBytesMax?: number
}

/** A message that is being read. */
export interface Holder {
  readonly heldBytes: number
  /** Gives back what it holds. */
  giveWay(): void
}

/**
 * Where there is no room for a small message, the one under way that holds most gives way to it. Else a few that are large, or never end, would keep
 * everybody out; and who has many addresses, or workspaces, has many shares. Large ones would only end each other.
 */
export class ContentRoom {
  readonly #bytesMax: number
  readonly #bytesNow: (heldBytes: number) => number
  readonly #lacked: () => void
  readonly #shareBytesMax: number
  readonly #smallBytesMax: number
  readonly #held = new Tally()
  readonly #holders = new Set<Holder>()

  constructor({
    bytesMax,
    bytesNow = () => bytesMax,
    lacked = () => undefined,
    shareBytesMax = bytesMax,
    smallBytesMax = 0,
  }: ContentRoomLimits) {
    this.#bytesMax = bytesMax
    this.#bytesNow = bytesNow
    this.#lacked = lacked
    this.#shareBytesMax = shareBytesMax
    this.#smallBytesMax = smallBytesMax
  }

  take(bytes: number, owner = ''): boolean {
    const { total } = this.#held
    if (total + bytes > this.#bytesMax || !this.#isWithinShare(bytes, owner)) return false
    if (total + bytes > this.#bytesNow(total)) {
      this.#lacked()
      return false
    }
    this.#held.add(owner, bytes)
    return true
  }

  give(bytes: number, owner = ''): void {
    this.#held.take(owner, bytes)
  }

  /** The same as `take`, for a message under way: from now on it may have to give way itself. */
  takeFor(holder: Holder, bytes: number, owner?: string): boolean {
    const own = holder.heldBytes + bytes
    while (!this.take(bytes, owner)) {
      if (own > this.#smallBytesMax || (owner !== undefined && !this.#isWithinShare(bytes, owner))) return false
      let largest = holder
      for (const each of this.#holders) if (each.heldBytes > largest.heldBytes) largest = each
      if (largest.heldBytes <= own) return false
      largest.giveWay()
    }
    this.#holders.add(holder)
    return true
  }

  /** It is complete, or gone: it gives way to nobody any more. */
  leave(holder: Holder): void {
    this.#holders.delete(holder)
  }

  #isWithinShare(bytes: number, owner: string): boolean {
    return this.#held.of(owner) + bytes <= this.#shareBytesMax
  }
}
