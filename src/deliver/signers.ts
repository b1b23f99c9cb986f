// Signatures are most of what a mail costs. They are made in threads of their own, below the event loop's priority: on the thread pool they would stand before
// the mark that every arm waits for, and take the processor from the loop that feeds them.
import { availableParallelism } from 'node:os'
import { Thread, ThreadTrouble } from '../base/thread.ts'
import { limits } from '../config.ts'
import { signOnPool, type Sign, type SigningKey } from '../mail/dkim.ts'

type Key = Pick<SigningKey, 'algorithm' | 'privateKey'>

/** What crosses into a thread: each key once, and the inputs by the places of their keys. */
export interface SignOrder {
  readonly keys: readonly Key[]
  readonly inputs: readonly { readonly key: number; readonly input: string }[]
}
/** In the order of the inputs. */
export type SignAnswer = readonly ({ readonly signature: string } | { readonly fault: string })[]

interface Waiting {
  readonly key: Key
  readonly input: string
  readonly resolve: (signature: string) => void
  readonly reject: (error: unknown) => void
}

export interface Signers {
  readonly sign: Sign
  stop(): Promise<void>
}

/** The threads start with the first signature. Where one fails, the thread pool signs. */
export function makeSigners(): Signers {
  const threads = Array.from(
    { length: Math.min(limits.signingThreadsMax, availableParallelism()) },
    (_, n) =>
      new Thread<SignOrder, SignAnswer>({
        module: new URL('sign-thread.ts', import.meta.url),
        name: `signatures ${n + 1}`,
        waitingMax: 1,
        heapMegabytesMax: limits.signingThreadHeapMegabytesMax,
      }),
  )
  const free = [...threads]
  const waiting: Waiting[] = []

  const next = (): void => {
    for (let thread; waiting.length > 0 && (thread = free.pop()) !== undefined;) void give(thread)
  }
  const give = async (thread: (typeof threads)[number]): Promise<void> => {
    // What waits is shared, so that no thread has nothing while another has it all.
    const share = Math.ceil(waiting.length / threads.length)
    const batch = waiting.splice(0, Math.min(share, limits.signaturesPerOrderMax))
    try {
      const answers = await thread.ask(() => ({ order: orderOf(batch), transfer: [] }), limits.signMs)
      for (const [at, { resolve, reject }] of batch.entries()) {
        const answer = answers[at] ?? { fault: 'no signature came back' }
        if ('signature' in answer) resolve(answer.signature)
        else reject(new Error(answer.fault))
      }
    } catch (error) {
      // A thread that is late, also because the whole process stood still, is no fault of these messages: it may not use up their tries.
      for (const { key, input, resolve, reject } of batch)
        if (error instanceof ThreadTrouble) signOnPool(key, input).then(resolve, reject)
        else reject(error)
    } finally {
      free.push(thread)
      next()
    }
  }
  return {
    sign: (key, input) =>
      new Promise((resolve, reject) => {
        waiting.push({ key, input, resolve, reject })
        next()
      }),
    stop: async () => void (await Promise.all(threads.map((thread) => thread.stop()))),
  }
}

function orderOf(batch: readonly Waiting[]): SignOrder {
  const places = new Map<Key['privateKey'], number>()
  const keys: Key[] = []
  const inputs = batch.map(({ key: { algorithm, privateKey }, input }) => {
    let place = places.get(privateKey)
    if (place === undefined) {
      place = keys.push({ algorithm, privateKey }) - 1
      places.set(privateKey, place)
    }
    return { key: place, input }
  })
  return { keys, inputs }
}
