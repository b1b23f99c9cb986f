// What the database says of those who come in, remembered for less than a second from the start of its question, bounded, and forgotten at once when
// anything that it depends on changes: so a revoked key or credential is refused on every node (decisions H). Only what exists is remembered: names are
// guessed. Whoever asks at the same time shares one question.
import { BoundedMap } from '../base/bounded-map.ts'
import { limits } from '../config.ts'

interface Asked<Value> {
  readonly since: number
  readonly answer: Promise<Value | undefined>
}

export class RememberedAccess<Value> {
  readonly #goodForMs: (value: Value) => number
  /** `until` on the clock of `performance.now()`. */
  readonly #values: BoundedMap<string, { readonly value: Value; readonly until: number }>
  readonly #asked = new Map<string, Asked<Value>>()
  /** Changes of access so far: what was asked before one is not remembered after it. */
  #changes = 0

  constructor(most: number, goodForMs: (value: Value) => number) {
    this.#values = new BoundedMap(most)
    this.#goodForMs = goodForMs
  }

  get(name: string, ask: () => Promise<Value | undefined>): Promise<Value | undefined> | Value {
    const now = performance.now()
    const known = this.#values.get(name)
    if (known !== undefined && now < known.until) return known.value
    const question = this.#asked.get(name)
    // An old question may have been answered before the key was revoked.
    if (question !== undefined && now - question.since < limits.principalCacheMs) return question.answer
    const answer = this.#ask(name, ask, now).finally(() => {
      if (this.#asked.get(name)?.answer === answer) this.#asked.delete(name)
    })
    this.#asked.set(name, { since: now, answer })
    return answer
  }

  /** To be called at each notification on the channel `posthorn_access`. */
  forget(): void {
    this.#changes++
    this.#values.clear()
    this.#asked.clear()
  }

  async #ask(name: string, ask: () => Promise<Value | undefined>, since: number): Promise<Value | undefined> {
    const before = this.#changes
    const value = await ask()
    this.#values.delete(name)
    if (value === undefined || before !== this.#changes) return value
    // From the start of the question: how old its answer is by now, nobody knows better.
    const until = since + Math.min(limits.principalCacheMs, this.#goodForMs(value))
    this.#values.set(name, { value, until })
    return value
  }
}
