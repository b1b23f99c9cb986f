// Room for bytes in flight: what is large takes its room before it is read, waits while there is none, and gives it back when it is
// answered. No owner (a workspace) takes more than its share, so that the slow uploads of one do not hold up the others; of those who
// wait, the owner that holds least comes first. Decisions D, attack Q7.
import { Tally } from './tally.ts'

export interface RoomLimits {
  readonly bytesMax: number
  /** What there is room for at this moment, where that can be less. */
  readonly bytesNow?: () => number
  /** Hears of each that waited in vain and would have found room but for that. */
  readonly lacked?: () => void
  /** Of one owner. */
  readonly shareBytesMax: number
  readonly waitMs: number
  /** Of all owners; one alone never takes more than half of the line. */
  readonly waitingMax: number
  /** By how many bytes smaller ones may overtake one that does not fit yet. Left out: by none, else they could keep it out for ever. */
  readonly overtakenBytesMax?: number
}

const lookMs = 500

interface Waiting {
  readonly owner: string
  readonly bytes: number
  readonly settle: (got: boolean) => void
  overtakenBytes: number
}

export class ByteRoom {
  readonly #limits: RoomLimits
  readonly #held = new Tally()
  readonly #waiting = new Set<Waiting>()
  /** While somebody waits: nobody tells when there is more room than there was. */
  #look: NodeJS.Timeout | undefined
  #closed = false

  constructor(limits: RoomLimits) {
    this.#limits = limits
  }

  get heldBytes(): number {
    return this.#held.total
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** For how many bytes others wait: by owner what only that owner can give back, beyond its share, and under '' what anybody can. */
  get wanted(): ReadonlyMap<string, number> {
    const wanted = new Map<string, number>()
    for (const { owner, bytes } of this.#waiting) {
      const from = this.#inShare(owner, bytes) ? '' : owner
      wanted.set(from, (wanted.get(from) ?? 0) + bytes)
    }
    return wanted
  }

  /** True when the room is taken; false when there was none in time, or `gone` (the asker has left) said so. What is taken must be given back. */
  take(owner: string, bytes: number, gone?: AbortSignal): Promise<boolean> {
    const { bytesMax, shareBytesMax, waitingMax, waitMs, lacked = () => undefined } = this.#limits
    if (this.#closed || bytes > shareBytesMax || gone?.aborted === true) return Promise.resolve(false)
    if (this.#waiting.size === 0 && this.#fits(owner, bytes)) {
      this.#held.add(owner, bytes)
      return Promise.resolve(true)
    }
    if (this.#waiting.size >= waitingMax || this.#waitingOf(owner) >= Math.ceil(waitingMax / 2))
      return Promise.resolve(false)
    return new Promise((resolve) => {
      const settle = (got: boolean): void => {
        this.#waiting.delete(waiting)
        clearTimeout(timer)
        if (this.#waiting.size === 0) {
          clearInterval(this.#look)
          this.#look = undefined
        }
        gone?.removeEventListener('abort', leave)
        resolve(got)
      }
      // Who leaves may have stood before others that fit.
      const leave = (): void => {
        settle(false)
        this.#admit()
      }
      const waiting: Waiting = { owner, bytes, settle, overtakenBytes: 0 }
      const tooLate = (): void => {
        if (this.#fits(owner, bytes, bytesMax) && !this.#fits(owner, bytes)) lacked()
        leave()
      }
      const timer = setTimeout(tooLate, waitMs)
      gone?.addEventListener('abort', leave)
      this.#waiting.add(waiting)
      if (this.#limits.bytesNow !== undefined) this.#look ??= setInterval(() => this.#admit(), lookMs)
      this.#admit()
    })
  }

  /** From now on there is room for nobody: who waits hears so at once. */
  close(): void {
    this.#closed = true
    for (const waiting of this.#waiting) waiting.settle(false)
  }

  give(owner: string, bytes: number): void {
    if (bytes === 0) return
    this.#held.take(owner, bytes)
    this.#admit()
  }

  #waitingOf(owner: string): number {
    let count = 0
    for (const waiting of this.#waiting) if (waiting.owner === owner) count++
    return count
  }

  #fits(owner: string, bytes: number, most = this.#mostNow()): boolean {
    return this.#held.total + bytes <= most && this.#inShare(owner, bytes)
  }

  #mostNow(): number {
    const { bytesMax, bytesNow = () => bytesMax } = this.#limits
    return Math.min(bytesMax, bytesNow())
  }

  #inShare(owner: string, bytes: number): boolean {
    return this.#held.of(owner) + bytes <= this.#limits.shareBytesMax
  }

  /** Lets in whoever is next and fits; before one that does not fit yet, smaller ones as far as they may. */
  #admit(): void {
    const { overtakenBytesMax = 0 } = this.#limits
    for (;;) {
      const first = this.#next(() => true)
      if (first === undefined) return
      const fits = this.#fits(first.owner, first.bytes)
      const mayPass = ({ owner, bytes }: Waiting) =>
        first.overtakenBytes + bytes <= overtakenBytesMax && this.#fits(owner, bytes)
      const next = fits || overtakenBytesMax === 0 ? first : this.#next(mayPass)
      if (next === undefined || (next === first && !fits)) return
      if (next !== first) first.overtakenBytes += next.bytes
      this.#held.add(next.owner, next.bytes)
      next.settle(true)
    }
  }

  /** Of those who wait, and not for themselves, the first of the owner that holds least. */
  #next(may: (waiting: Waiting) => boolean): Waiting | undefined {
    let next: Waiting | undefined
    for (const waiting of this.#waiting)
      if (
        this.#inShare(waiting.owner, waiting.bytes) &&
        (next === undefined || this.#held.of(waiting.owner) < this.#held.of(next.owner)) &&
        may(waiting)
      )
        next = waiting
    return next
  }
}
