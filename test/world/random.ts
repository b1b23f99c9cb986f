// Chance that can be had again: the same seed gives the same choices (mulberry32).

export interface Chance {
  /** From 0 up to, and without, 1. */
  next(): number
  /** A whole number from 0 up to, and without, `below`. */
  below(below: number): number
  happens(probability: number): boolean
  /** One of them. There must be one. */
  of<T>(these: readonly T[]): T
  /** One of them, each as likely as its weight says. */
  weighted<T extends { readonly weight: number }>(these: readonly T[]): T
}

export function chance(seed: number): Chance {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (most: number): number => Math.floor(next() * most)
  return {
    next,
    below,
    happens: (probability) => next() < probability,
    of: (these) => {
      if (these.length === 0) throw new Error('nothing to choose from')
      return these[below(these.length)] as (typeof these)[number]
    },
    weighted: (these) => {
      let left = next() * these.reduce((sum, { weight }) => sum + weight, 0)
      const one = these.find(({ weight }) => (left -= weight) < 0) ?? these.at(-1)
      if (one === undefined) throw new Error('nothing to choose from')
      return one
    },
  }
}
