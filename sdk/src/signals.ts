// What a caller's signal calls off: requests, pauses, and a place in line. Nothing of it stays at the signal when it is over.

/**
 * Does what ends with the caller's signal and with the time. `AbortSignal.any` would keep something of each request (half a kilobyte) for as long as the
 * caller's signal lives, which may be as long as the program.
 */
export async function underBoth<Result>(
  caller: AbortSignal | undefined,
  late: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  if (caller === undefined) return work(late)
  const both = new AbortController()
  const signals = [caller, late]
  const stop = () => both.abort(signals.find((signal) => signal.aborted)?.reason)
  if (signals.some((signal) => signal.aborted)) stop()
  const ends = signals.map((signal) => onAbort(signal, stop))
  try {
    return await work(both.signal)
  } finally {
    for (const end of ends) end()
  }
}

/** What each signal is to stop: one listener for all of it, because Node 20 takes the eleventh for a leak. */
const stopsOf = new WeakMap<AbortSignal, Set<() => void>>()

/** Gives what takes it away again. */
function onAbort(signal: AbortSignal, stop: () => void): () => void {
  const stops = stopsOf.get(signal) ?? new Set()
  stopsOf.set(signal, stops.add(stop))
  signal.addEventListener('abort', stopAll)
  return () => {
    stops.delete(stop)
    if (stops.size === 0) signal.removeEventListener('abort', stopAll)
  }
}

function stopAll({ target }: Event): void {
  for (const stop of stopsOf.get(target as AbortSignal) ?? []) stop()
}

/** Timers hold no more than 24 days: a longer one is over at once. */
export const longestTimerMs = 2 ** 31 - 1

export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  for (let leftMs = ms; leftMs > 0; leftMs -= longestTimerMs)
    await unlessCalledOff(signal, (done) => {
      const timer = setTimeout(done, Math.min(leftMs, longestTimerMs))
      return () => clearTimeout(timer)
    })
}

/** Waits for what `begin` gives `done` to; `begin` returns what undoes it. */
export function unlessCalledOff(
  signal: AbortSignal | undefined,
  begin: (done: () => void) => () => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const undo = begin(() => {
      end?.()
      resolve()
    })
    const stop = () => {
      undo()
      end?.()
      reject(signal?.reason as Error)
    }
    const end = signal && onAbort(signal, stop)
    if (signal?.aborted === true) stop()
  })
}
