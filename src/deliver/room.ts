// A bound on the content that is held at once, in bytes, with a share for each workspace: a host that says nothing keeps what is meant for it
// in memory for minutes. Whoever finds no room waits for as long as it takes, and a large one lets some smaller ones pass; what is bigger than
// the share counts as the whole of it. Whom a host leaves waiting gives its room to those who wait for some (`inTheWay`).
import { ByteRoom } from '../base/byte-room.ts'

export interface Guest {
  readonly owner: string
  /** When it was last heard that it gets on, on the clock of `performance.now()`. */
  readonly heardAt: number
}

export interface Room<G extends Guest = Guest> {
  /** Resolves when there is room, or when the signal is aborted; the answer gives the room back, however often it is called. Never rejects. */
  enter(guest: G, bytes: number, signal: AbortSignal): Promise<() => void>
  /** Of those inside who were not heard of since, the longest silent first: as many as hold what others wait for. */
  inTheWay(since: number): readonly G[]
}

const asLongAsItTakes = 2 ** 31 - 1

export function makeRoom<G extends Guest>(bytesMax: number, shareBytesMax: number): Room<G> {
  const overtakenBytesMax = bytesMax / 4
  const room = new ByteRoom({
    bytesMax,
    shareBytesMax,
    waitMs: asLongAsItTakes,
    waitingMax: Infinity,
    overtakenBytesMax,
  })
  const inside = new Map<G, number>()
  return {
    enter: async (guest, wanted, signal) => {
      const bytes = Math.min(wanted, shareBytesMax)
      // Nothing to hold, nothing to wait for.
      if (bytes === 0 || !(await room.take(guest.owner, bytes, signal))) return () => undefined
      inside.set(guest, bytes)
      let left = false
      return () => {
        if (left) return
        left = true
        inside.delete(guest)
        room.give(guest.owner, bytes)
      }
    },
    inTheWay: (since) => {
      if (room.waiting === 0) return []
      const wanted = new Map(room.wanted)
      return [...inside]
        .filter(([guest]) => guest.heardAt < since)
        .sort(([one], [other]) => one.heardAt - other.heardAt)
        .flatMap(([guest, bytes]) => {
          const from = [guest.owner, ''].find((each) => (wanted.get(each) ?? 0) > 0)
          if (from === undefined) return []
          wanted.set(from, (wanted.get(from) ?? 0) - bytes)
          return [guest]
        })
    },
  }
}
