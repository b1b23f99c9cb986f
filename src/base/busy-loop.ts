// Whether the event loop of this process is busy: then work that can be done for many at once should be.

/** How much of it is looked at before the answer changes. */
const lookMs = 100
/** The part of its time in which a busy loop has something to do. */
const busyPart = 0.8

/** Answers for the time since the last look; nothing is measured in between. */
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
