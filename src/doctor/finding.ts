// What a look at one thing found: four states, and words that say what to do.

export type CheckStatus = 'ok' | 'warn' | 'fail' | 'skipped'

export interface Finding {
  readonly status: CheckStatus
  /** What was seen, and what to do about it. */
  readonly detail: string
}

export const ok = (detail: string): Finding => ({ status: 'ok', detail })
export const warn = (detail: string): Finding => ({ status: 'warn', detail })
export const fail = (detail: string): Finding => ({ status: 'fail', detail })
export const skipped = (detail: string): Finding => ({ status: 'skipped', detail })
