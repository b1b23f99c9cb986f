// How much a workspace has sent: its quota windows, and the points of the charts with the time that delivery took.
import { given } from '../base/given.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { databaseNow, type Db } from '../store/database.ts'
import { readCounts, readWindows, type CountRow } from '../store/usage.ts'
import { Mistake, notThere } from './mistake.ts'

export interface UsageWindow {
  readonly window: 'hour' | 'day' | 'month'
  readonly used: number
  /** Left out where the plan has none. */
  readonly limit?: number
  /** Seconds until the window turns. The hour slides: until another message has room in it, where it has a limit. */
  readonly resetSeconds?: number
}

export interface Usage {
  readonly plan: string
  readonly apiSending: boolean
  readonly upgradeUrl?: string
  readonly windows: readonly UsageWindow[]
  /** Of the whole installation; left out while mail goes out. */
  readonly deliveryStoppedSince?: Date
}

export async function readUsage(db: Db, workspace: WorkspaceId): Promise<Usage> {
  const row = await readWindows(db, workspace)
  if (row === undefined) throw notThere('workspace')
  const window = (name: UsageWindow['window'], used: number, limit: number | null, resetSeconds: number | null) =>
    given<UsageWindow>({
      window: name,
      used,
      limit,
      resetSeconds: resetSeconds === null ? null : Math.max(1, resetSeconds),
    })
  return given<Usage>({
    plan: row.plan,
    apiSending: row.api_sending,
    upgradeUrl: row.upgrade_url,
    windows: [
      window('hour', row.hour_used, row.hourly, row.hour_resets),
      window('day', row.day_used, row.daily, row.day_resets),
      window('month', row.month_used, row.monthly, row.month_resets),
    ],
    deliveryStoppedSince: row.stopped_since,
  })
}

/** How events count; the rest of an event's type behind `message.`. */
const kinds = {
  accepted: 'queued',
  sent: 'sent',
  delivered: 'delivered',
  softBounced: 'soft_bounced',
  hardBounced: 'hard_bounced',
  complained: 'complained',
  failed: 'failed',
  unknown: 'delivery_unknown',
} as const

export type Counts = { readonly [Kind in keyof typeof kinds]: number }
/** From acceptance to the server's yes, in milliseconds; within a fifth of the truth. */
export interface Latency {
  readonly p50: number
  readonly p95: number
  readonly p99: number
}
export interface UsagePoint extends Counts {
  readonly at: Date
  readonly latencyMs?: Latency
}
export interface UsageSeries {
  readonly step: 'hour' | 'day'
  readonly from: Date
  readonly to: Date
  readonly totals: Counts & { readonly latencyMs?: Latency }
  /** One for each step, empty ones too, oldest first. */
  readonly points: readonly UsagePoint[]
}

const stepMs = { hour: 3600_000, day: 86_400_000 } as const

/** Whole steps (UTC) that touch the time from `from` to `to`; left out: the last day by hours, or the last 30 by days, until now. */
export async function readSeries(
  db: Db,
  workspace: WorkspaceId,
  step: 'hour' | 'day',
  range: { readonly from?: Date; readonly to?: Date },
): Promise<UsageSeries> {
  const size = stepMs[step]
  const to = range.to ?? (await databaseNow(db))
  const from = range.from ?? new Date(to.getTime() - (step === 'hour' ? 24 : 30) * size)
  const first = Math.floor(from.getTime() / size) * size
  const end = Math.ceil(to.getTime() / size) * size
  const many = (end - first) / size
  if (!(many > 0)) throw new Mistake('"from" must be before "to".', { field: 'from' })
  if (many > limits.chartPointsMax)
    throw new Mistake(`At most ${limits.chartPointsMax} points at once; take "step" day, or a shorter time.`, {
      field: 'step',
    })
  const rows = await readCounts(db, workspace, new Date(first), new Date(end), step)
  const byPoint = Map.groupBy(rows, (row) => row.at.getTime())
  const points = Array.from({ length: many }, (_, n) => {
    const at = first + n * size
    return { at: new Date(at), ...summed(byPoint.get(at) ?? []) }
  })
  return { step, from: new Date(first), to: new Date(end), totals: summed(rows), points }
}

function summed(rows: readonly CountRow[]): Counts & { readonly latencyMs?: Latency } {
  const sumOf = (kind: string): number => rows.reduce((sum, row) => (row.kind === kind ? sum + row.many : sum), 0)
  const counts = Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, sumOf(kind)])) as Counts
  const latencyMs = latencyOf(rows)
  return { ...counts, ...(latencyMs !== undefined && { latencyMs }) }
}

function latencyOf(rows: readonly CountRow[]): Latency | undefined {
  const byBucket = new Map<number, number>()
  for (const { kind, bucket, many } of rows)
    if (kind === kinds.sent) byBucket.set(bucket, (byBucket.get(bucket) ?? 0) + many)
  const buckets = [...byBucket].sort(([one], [other]) => one - other)
  const all = buckets.reduce((sum, [, many]) => sum + many, 0)
  if (all === 0) return undefined
  const percentile = (share: number): number => {
    let left = share * all
    for (const [bucket, many] of buckets) {
      left -= many
      // The middle of the bucket, as migration 0008 cuts them.
      if (left <= 0) return Math.round(2 ** ((bucket + 0.5) / 4)) - 1
    }
    return 0
  }
  return { p50: percentile(0.5), p95: percentile(0.95), p99: percentile(0.99) }
}
