// Waiting longer after each failure, with jitter so that many do not come back at once.

/** The delay before try `attempt + 1`, after `attempt` tries (from 1); undefined when the schedule has no further try. */
export function retryDelayMs(
  schedule: readonly number[],
  attempt: number,
  jitter: number,
  random: () => number = Math.random,
): number | undefined {
  const seconds = schedule[attempt - 1]
  if (seconds === undefined) return undefined
  return Math.round(seconds * 1000 * (1 + jitter * (2 * random() - 1)))
}
