// Work that is done again and again, with a pause after each time.

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
