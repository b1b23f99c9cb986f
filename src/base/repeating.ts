// Work that is done again and again while a service runs: heartbeats, reapers, housekeeping.
import { lifecycle, type Service } from './service.ts'

/** Runs `work` again and again, `pause` milliseconds after it has ended; `stop` waits for the one under way. */
export function repeating(pause: () => number, work: () => Promise<void>, trouble: (error: unknown) => void) {
  let timer: NodeJS.Timeout | undefined
  let working: Promise<void> = Promise.resolve()
  let on = false
  const again = () => {
    timer = setTimeout(() => {
      working = work()
        .catch(trouble)
        .then(() => {
          if (on) again()
        })
    }, pause())
  }
  return {
    start: () => {
      on = true
      again()
    },
    stop: () => {
      on = false
      clearTimeout(timer)
      return working
    },
  }
}

/** The same as a service of its own. */
export function repeatingService(
  name: string,
  pause: () => number,
  work: () => Promise<void>,
  trouble: (error: unknown) => void,
): Service {
  const rounds = repeating(pause, work, trouble)
  return lifecycle(
    name,
    () => Promise.resolve(rounds.start()),
    () => rounds.stop(),
  )
}
