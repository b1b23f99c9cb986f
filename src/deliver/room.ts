// A bound on what is held at once, in bytes: whoever finds no room waits in line, first come, first served. One that is bigger than the
// whole room goes in when nobody else is there, so that nothing waits for ever.

export interface Room {
  /** Resolves when there is room, or when the signal is aborted; the answer gives the room back. Never rejects. */
  enter(bytes: number, signal: AbortSignal): Promise<() => void>
}

export function makeRoom(bytesMax: number): Room {
  let held = 0
  let inside = 0
  const line: { readonly bytes: number; go(): void }[] = []
  const fits = (bytes: number) => inside === 0 || held + bytes <= bytesMax
  const take = (bytes: number) => {
    held += bytes
    inside++
  }
  const leaver = (bytes: number) => () => {
    held -= bytes
    inside--
    for (let next = line[0]; next !== undefined && fits(next.bytes); next = line[0]) {
      line.shift()
      take(next.bytes)
      next.go()
    }
  }

  const enter = (bytes: number, signal: AbortSignal): Promise<() => void> => {
    // Nothing to hold, nothing to wait for.
    if (bytes === 0 || signal.aborted) return Promise.resolve(() => undefined)
    if (line.length === 0 && fits(bytes)) {
      take(bytes)
      return Promise.resolve(leaver(bytes))
    }
    return new Promise((resolve) => {
      const left = () => {
        line.splice(line.indexOf(waiting), 1)
        resolve(() => undefined)
      }
      const waiting = {
        bytes,
        go: () => {
          signal.removeEventListener('abort', left)
          resolve(leaver(bytes))
        },
      }
      line.push(waiting)
      signal.addEventListener('abort', left, { once: true })
    })
  }
  return { enter }
}
