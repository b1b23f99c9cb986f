// A bound on the content that is held at once, in bytes, with a share for each workspace: a host that says nothing keeps what is meant for it
// in memory for minutes. Whoever finds no room waits for as long as it takes; what is bigger than the share counts as the whole of it.
import { ByteRoom } from '../base/byte-room.ts'

export interface Room {
  /** Resolves when there is room, or when the signal is aborted; the answer gives the room back. Never rejects. */
  enter(owner: string, bytes: number, signal: AbortSignal): Promise<() => void>
}

const asLongAsItTakes = 2 ** 31 - 1

export function makeRoom(bytesMax: number, shareBytesMax: number): Room {
  const room = new ByteRoom({ bytesMax, shareBytesMax, waitMs: asLongAsItTakes, waitingMax: Infinity })
  return {
    enter: async (owner, wanted, signal) => {
      const bytes = Math.min(wanted, shareBytesMax)
      // Nothing to hold, nothing to wait for.
      if (bytes === 0 || !(await room.take(owner, bytes, signal))) return () => undefined
      return () => room.give(owner, bytes)
    },
  }
}
