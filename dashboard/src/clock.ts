// What time it is where the times come from that are shown. The clock of a browser may be wrong by minutes or days: what has just happened would be "in 1
// day", and "the last 24 hours" would be others.

/** An answer tells whole seconds, and may be on its way for a while. */
const slackMs = 10_000
let aheadMs = 0

/** Of an answer that has just come: what its `Date` says. */
export function hearClock(date: string | null): void {
  const ms = Date.parse(date ?? '') - Date.now()
  if (!Number.isNaN(ms)) aheadMs = Math.abs(ms) > slackMs ? ms : 0
}

/** What the browser's clock has shown, by that of the service. */
export const byService = (shownMs: number): number => shownMs + aheadMs

/** As `Date.now()`, by the clock of the service. */
export const serviceNow = (): number => byService(Date.now())
