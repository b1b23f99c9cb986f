// What work costs, for tests that hold it against a bound.

/** Milliseconds of the processor that this thread has taken for `work`: a machine that stalls meanwhile, or has much else to do, makes it no dearer. */
export function effortOf(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1_000
}

/** The same of work that waits in between; what else this thread does meanwhile is in it. */
export async function effortOfWaiting(work: () => Promise<unknown>): Promise<number> {
  const before = process.threadCpuUsage()
  await work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1_000
}
