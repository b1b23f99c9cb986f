// Spans of time as people say them. What is rounded up to a whole minute is one: 60 seconds stand nowhere.

// In the language of the sentences around it. Never "yesterday", "tomorrow" or "last month": 25 hours ago may have been the day before that.
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'long' })
const steps = [
  ['second', 60],
  ['minute', 60],
  ['hour', 24],
  ['day', 30],
  ['month', 12],
] as const

/** How far something is from now, `ms` ahead or, below zero, behind. */
export function said(ms: number): string {
  let amount = ms / 1000
  if (Math.abs(amount) < 2) return 'just now'
  for (const [unit, length] of steps) {
    const whole = Math.round(amount)
    if (Math.abs(whole) < length) return relative.format(whole, unit)
    amount /= length
  }
  return relative.format(Math.round(amount), 'year')
}

/** `1.2 s`, `3 min 20 s`. */
export function duration(ms: number): string {
  const seconds = ms / 1_000
  if (Math.round(ms) < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole} s`
  const minutes = Math.floor(whole / 60)
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
