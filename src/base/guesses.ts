// Guessing keys and passwords is slowed down (decisions D and F): every failure of one address, or for one username, makes its next
// refusal later, and nobody else's; what is right is never slowed. Bounded in addresses and in refusals held back at the same time.
import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '../config.ts'
import { BoundedMap } from './bounded-map.ts'
import { sourceOf } from './networks.ts'

export class Guesses {
  readonly #failures = new BoundedMap<string, { count: number; at: number }>(limits.guessersMax)
  readonly #now: () => number
  #held = 0

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /**
   * Counts a failure of this address and returns how long its refusal should wait, in milliseconds. Failures are
   * forgotten by and by.
   */
  failed(address: string): number {
    const source = sourceOf(address)
    const now = this.#now()
    const before = this.#failures.get(source)
    // Half of what there was is forgotten per `guessForgottenMs`.
    const kept = before === undefined ? 0 : before.count * 0.5 ** ((now - before.at) / limits.guessForgottenMs)
    const count = Math.min(kept + 1, 1_000)
    this.#failures.set(source, { count, at: now })
    return guessDelayMs(count)
  }

  /**
   * Waits as long as a failure of these (an address, a username) should. Too many at once are not held: that would be a door of its own.
   */
  async slow(...sources: readonly string[]): Promise<void> {
    const waitMs = Math.max(...sources.map((source) => this.failed(source)))
    if (waitMs === 0 || this.#held >= limits.guessesDelayedMax) return
    this.#held++
    await delay(waitMs)
    this.#held--
  }
}

/** How long the refusal behind so many failures waits. */
export function guessDelayMs(failures: number): number {
  const over = Math.ceil(failures - limits.guessesFree)
  return over <= 0 ? 0 : Math.min(limits.guessDelayMsMax, 25 * 2 ** Math.min(over, 20))
}
