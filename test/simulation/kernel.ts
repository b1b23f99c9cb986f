// A machine for programs that are to run under chance that can be had again: one clock, one queue of things to come, and processes that
// can be stopped and killed between any two of them. Timers and the clock of the real programs are replaced by its own while it runs; which
// process a timer belongs to follows the asynchronous context. Between two things all promises settle.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Chance } from '../world/random.ts'

export interface Process {
  readonly name: string
  state: 'running' | 'stopped' | 'dead'
  readonly parked: Coming[]
}

interface Coming {
  at: number
  readonly order: number
  readonly process: Process | undefined
  run: (() => void) | undefined
}

const real = { setImmediate, performanceNow: performance.now.bind(performance), random: Math.random }
const settle = () => new Promise<void>((resolve) => real.setImmediate(resolve))

/** One for all: each would leave its trace in every context. */
const context = new AsyncLocalStorage<Process | undefined>()

export class Kernel {
  now = 0
  readonly chance: Chance

  readonly #heap: Coming[] = []
  #order = 0

  constructor(chance: Chance) {
    this.chance = chance
  }

  get process(): Process | undefined {
    return context.getStore()
  }

  /** `process` undefined: it belongs to the world, which nobody stops. */
  after(ms: number, run: () => void, process?: Process): Coming {
    const coming = { at: this.now + ms, order: this.#order++, process, run }
    this.#push(coming)
    return coming
  }

  spawn(name: string, main: () => void): Process {
    const process: Process = { name, state: 'running', parked: [] }
    this.after(0, main, process)
    return process
  }

  stop(process: Process): void {
    if (process.state === 'running') process.state = 'stopped'
  }

  goOn(process: Process): void {
    if (process.state !== 'stopped') return
    process.state = 'running'
    for (const coming of process.parked.splice(0)) {
      coming.at = this.now
      this.#push(coming)
    }
  }

  kill(process: Process): void {
    process.state = 'dead'
    process.parked.length = 0
  }

  /** Until it is so, or nothing is to come any more, or the time is over. Answers whether it became so. */
  async run(isOver: () => boolean, untilMs: number): Promise<boolean> {
    for (;;) {
      if (isOver()) return true
      const next = this.#heap[0]
      if (next === undefined || next.at > untilMs) return isOver()
      this.#pop()
      const { run, process } = next
      if (run === undefined || process?.state === 'dead') continue
      this.now = Math.max(this.now, next.at)
      if (process?.state === 'stopped') {
        process.parked.push(next)
        continue
      }
      next.run = undefined
      if (process === undefined) context.exit(run)
      else context.run(process, run)
      await settle()
    }
  }

  /** From here on everything in this process (the one that simulates) lives by this clock. Answers how to take that back. */
  takeOver(): () => void {
    const timer = (ms: number, act: () => void) => {
      const coming = this.after(Math.max(1, ms), act, this.process)
      const handle = { coming, unref: () => handle, ref: () => handle, hasRef: () => true }
      return handle
    }
    type Handle = ReturnType<typeof timer> | undefined
    const forget = (handle: Handle) => {
      if (handle !== undefined) handle.coming.run = undefined
    }
    const before = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate }
    Object.assign(globalThis, {
      setTimeout: (act: (...args: unknown[]) => void, ms = 1, ...args: unknown[]) => timer(ms, () => act(...args)),
      clearTimeout: forget,
      setInterval: (act: () => void, ms: number) => {
        const { process } = this
        const again = () => {
          act()
          handle.coming = this.after(ms, again, process)
        }
        const handle = timer(ms, again)
        return handle
      },
      clearInterval: forget,
      // A turn of the event loop takes its time, and sometimes much: that is when others overtake.
      setImmediate: (act: (...args: unknown[]) => void, ...args: unknown[]) =>
        this.after(
          this.chance.happens(0.02) ? this.chance.next() * 30 : this.chance.next() * 0.1,
          () => act(...args),
          this.process,
        ),
      clearImmediate: (coming: Coming | undefined) => {
        if (coming !== undefined) coming.run = undefined
      },
    })
    performance.now = () => this.now
    Math.random = () => this.chance.next()
    return () => {
      Object.assign(globalThis, before)
      performance.now = real.performanceNow
      Math.random = real.random
    }
  }

  #push(coming: Coming): void {
    const heap = this.#heap
    let at = heap.push(coming) - 1
    while (at > 0) {
      const up = (at - 1) >> 1
      if (!isBefore(coming, heap[up] as Coming)) break
      heap[at] = heap[up] as Coming
      at = up
    }
    heap[at] = coming
  }

  #pop(): Coming | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    let at = 0
    for (;;) {
      let down = 2 * at + 1
      const [left, right] = [heap[down], heap[down + 1]]
      if (left === undefined) break
      if (right !== undefined && isBefore(right, left)) down++
      if (!isBefore(heap[down] as Coming, last)) break
      heap[at] = heap[down] as Coming
      at = down
    }
    heap[at] = last
    return first
  }
}

function isBefore(one: Coming, other: Coming): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order)
}
