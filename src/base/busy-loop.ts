// Whether the event loop of this process has anything left: then what can be done for many at once should be.

/** How much of it is looked at before the answer changes. */
const lookMs = 100
/** The part of its time in which a busy loop has something to do. */
const busyPart = 0.8

/** Answers for what was lately; nothing is measured between two questions. */
export function watchLoop(): () => boolean {
  let from = performance.eventLoopUtilization()
  let busy = false
  return () => {
    const now = performance.eventLoopUtilization()
    const { active, idle, utilization } = performance.eventLoopUtilization(now, from)
    if (active + idle >= lookMs) {
      from = now
      busy = utilization > busyPart
    }
    return busy
  }
}
