// Work that would hold up the event loop, in a thread of its own: one order at a time, owners by turns, each with a deadline. A
// thread that is late or broken is ended, and the next order starts another; whoever waited gets an error. It starts at the first
// order, and does not keep the process alive.
import { getPriority, setPriority } from 'node:os'
import { parentPort, Worker } from 'node:worker_threads'
import type { Transferable } from 'node:worker_threads'
import { afterPoll } from './after-poll.ts'
import { isNothingLeft } from './nothing-left.ts'
import { WaitingLine } from './waiting-line.ts'

export interface ThreadOptions {
  /** The module that calls `serveThread`. */
  readonly module: URL
  readonly name: string
  readonly waitingMax: number
  /** Of the JavaScript heap; what buffers hold is not counted. */
  readonly heapMegabytesMax: number
}

interface Made<Order> {
  readonly order: Order
  readonly transfer: readonly Transferable[]
}

interface Waiting<Order, Answer> {
  readonly owner: string
  /** Made when it is its turn, so that what waits holds nothing twice. */
  readonly make: () => Made<Order> | Promise<Made<Order>>
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: Error) => void
  timer?: NodeJS.Timeout
}

/** Of texts that die young; by default each thread would come to hold 48 MB. */
const youngMegabytesMax = 6

/** `lack`: there was no memory for it. */
type Reply<Answer> = { readonly answer: Answer } | { readonly fault: string } | { readonly lack: string }

/** The thread is late, crowded or broken, or there is none, or no memory for it: nothing is known about what was asked. */
export class ThreadTrouble extends Error {
  override readonly name = 'ThreadTrouble'
}

export class Thread<Order, Answer> {
  readonly #options: ThreadOptions
  readonly #waiting = new WaitingLine<Waiting<Order, Answer>>()
  #worker: Worker | undefined
  #current: Waiting<Order, Answer> | undefined
  #stopped = false

  constructor(options: ThreadOptions) {
    this.#options = options
  }

  /** An owner may fill half of the line. */
  ask(make: Waiting<Order, Answer>['make'], deadlineMs: number, owner = ''): Promise<Answer> {
    const { name, waitingMax } = this.#options
    if (this.#stopped) return Promise.reject(new ThreadTrouble(`${name}: stopped`))
    if (this.#waiting.size >= waitingMax || (owner !== '' && this.#waiting.sizeOf(owner) >= waitingMax / 2))
      return Promise.reject(new ThreadTrouble(`${name}: too many are waiting`))
    return new Promise((resolve, reject) => {
      const waiting: Waiting<Order, Answer> = { owner, make, resolve, reject }
      waiting.timer = setTimeout(() => void afterPoll().then(() => this.#late(waiting)), deadlineMs)
      this.#waiting.add(owner, waiting)
      this.#next()
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    const worker = this.#fail('stopped', true)
    await worker?.terminate()
  }

  #next(): void {
    if (this.#current !== undefined) return
    const next = this.#waiting.next()
    if (next === undefined) return
    this.#current = next
    void this.#hand(next)
  }

  async #hand(next: Waiting<Order, Answer>): Promise<void> {
    try {
      const { order, transfer } = await next.make()
      if (next === this.#current) this.#started().postMessage(order, transfer) // else it was late, or all has stopped
    } catch (error) {
      if (next === this.#current) this.#end((current) => current.reject(error as Error))
    }
  }

  #started(): Worker {
    if (this.#worker !== undefined) return this.#worker
    const { name } = this.#options
    const worker = this.#start()
    worker.on('message', (reply: Reply<Answer>) => {
      if (worker !== this.#worker) return // it was given up meanwhile
      if ('answer' in reply) this.#end((current) => current.resolve(reply.answer))
      else if ('lack' in reply) this.#end((current) => current.reject(new ThreadTrouble(`${name}: ${reply.lack}`)))
      else this.#end((current) => current.reject(new Error(`${name}: ${reply.fault}`)))
    })
    worker.on('error', (error) => this.#broke(worker, `broke: ${error instanceof Error ? error.message : 'error'}`))
    worker.on('exit', () => this.#broke(worker, 'ended'))
    worker.unref() // behind `on`, which takes it back
    return (this.#worker = worker)
  }

  #start(): Worker {
    const { module, name, heapMegabytesMax } = this.#options
    try {
      return new Worker(module, {
        name,
        resourceLimits: { maxOldGenerationSizeMb: heapMegabytesMax, maxYoungGenerationSizeMb: youngMegabytesMax },
      })
    } catch (cause) {
      // The system lets this process, or its container, have no thread more.
      throw new ThreadTrouble(`${name}: it cannot be started (${(cause as Error).message})`, { cause })
    }
  }

  #broke(worker: Worker, how: string): void {
    if (worker === this.#worker) this.#fail(how, false)
  }

  /** Unless its answer has come meanwhile. */
  #late(waiting: Waiting<Order, Answer>): void {
    const trouble = new ThreadTrouble(`${this.#options.name}: late`)
    if (waiting === this.#current) {
      const worker = this.#worker
      this.#worker = undefined
      void worker?.terminate()
      return this.#end((current) => current.reject(trouble))
    }
    this.#waiting.leave(waiting.owner, waiting)
    waiting.reject(trouble)
  }

  /** Gives the thread up, with what it was at, and with all that wait where `all`. */
  #fail(how: string, all: boolean): Worker | undefined {
    const worker = this.#worker
    this.#worker = undefined
    const trouble = new ThreadTrouble(`${this.#options.name}: ${how}`)
    for (let waiting = all ? this.#waiting.next() : undefined; waiting !== undefined; waiting = this.#waiting.next()) {
      clearTimeout(waiting.timer)
      waiting.reject(trouble)
    }
    if (this.#current !== undefined) this.#end((current) => current.reject(trouble))
    return worker
  }

  #end(tell: (current: Waiting<Order, Answer>) => void): void {
    const current = this.#current
    if (current === undefined) return
    this.#current = undefined
    clearTimeout(current.timer)
    tell(current)
    this.#next()
  }
}

/** By so much behind the rest of its process, as far as there is room; 19 is the last. */
const niceness = 5

/** The other side, called once by the thread's module. */
export function serveThread(
  work: (order: never) => { readonly answer: unknown; readonly transfer: readonly Transferable[] },
): void {
  giveWay()
  parentPort?.on('message', (order: unknown) => {
    try {
      const { answer, transfer } = work(order as never)
      parentPort?.postMessage({ answer } satisfies Reply<unknown>, transfer)
    } catch (error) {
      const words = error instanceof Error ? (error.stack ?? error.message) : String(error)
      parentPort?.postMessage((isNothingLeft(error) ? { lack: words } : { fault: words }) satisfies Reply<unknown>)
    }
  })
}

/**
 * On Linux a thread has a priority of its own: what can wait does not take the processor from what answers callers. It begins with that of its
 * process, which may itself be started with another one (`nice`, `Nice=` of systemd): nobody but root may go before that. It is a wish: a sandbox
 * that refuses it must not cost the work.
 */
function giveWay(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(Math.min(getPriority() + niceness, 19))
  } catch {}
}
