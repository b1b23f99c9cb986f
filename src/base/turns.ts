// Turns at something scarce: so many at once, so many of them for one owner, and owners who wait come in by turns. The owner goes along with the work
// (AsyncLocalStorage), so that code deep below need not be told.
import { AsyncLocalStorage } from 'node:async_hooks'
import { WaitingLine } from './waiting-line.ts'
import { Tally } from './tally.ts'

const owners = new AsyncLocalStorage<string>()
/** On whose behalf (a workspace) this is done; '' is the installation. */
export const currentOwner = (): string => owners.getStore() ?? ''
/** Whatever this work does, it does for this owner. */
export const doneFor = <T>(owner: string, work: () => T): T => owners.run(owner, work)

/** Waited for its turn longer than it may, or was given up meanwhile. */
export class TurnTooLate extends Error {
  override readonly name = 'TurnTooLate'
}

export interface TurnLimits {
  readonly most: number
  /** Of one owner; the installation has no share. */
  readonly share: number
  /** Left out: as long as it takes. */
  readonly waitMs?: number
}

/** Resolves when the current owner has its turn; the answer ends it. Rejects with `TurnTooLate`, also where the signal is aborted before. */
export type Turns = (signal?: AbortSignal) => Promise<() => void>

export function turns({ most, share, waitMs }: TurnLimits): Turns {
  const inside = new Tally()
  const line = new WaitingLine<() => void>()
  const mayEnter = (owner: string) => inside.total < most && (owner === '' || inside.of(owner) < share)
  const leave = (owner: string) => {
    inside.take(owner)
    // At most one of those who wait can come in now.
    line.next(mayEnter)?.()
  }
  const wait = (owner: string, signal: AbortSignal | undefined) =>
    new Promise<void>((resolve, reject) => {
      const settled = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', giveUp)
      }
      const go = () => {
        settled()
        inside.add(owner)
        resolve()
      }
      const goWithout = (why: string) => {
        settled()
        line.leave(owner, go)
        reject(new TurnTooLate(why))
      }
      const giveUp = () => goWithout(givenUp)
      const timer = waitMs === undefined ? undefined : setTimeout(goWithout, waitMs, `no turn within ${waitMs} ms`)
      signal?.addEventListener('abort', giveUp)
      line.add(owner, go)
    })
  return async (signal) => {
    const owner = currentOwner()
    if (signal?.aborted === true) throw new TurnTooLate(givenUp)
    if (mayEnter(owner)) inside.add(owner)
    else await wait(owner, signal)
    return () => leave(owner)
  }
}

const givenUp = 'given up before its turn came'

/** A turn for this owner. A wait in vain ends with `late` in place of `TurnTooLate`. */
export async function turnFor(
  owner: string,
  turn: Turns,
  late: () => Error,
  signal?: AbortSignal,
): Promise<() => void> {
  return doneFor(owner, () => turn(signal)).catch((error: unknown) => {
    throw error instanceof TurnTooLate ? late() : error
  })
}

/** Does this in one turn. */
export async function inTurn<T>(turn: Turns, work: () => Promise<T>): Promise<T> {
  const leave = await turn()
  return work().finally(leave)
}
