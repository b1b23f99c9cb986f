// How much a workspace has sent: its quota windows as admission sees them, and the hourly counts behind the charts. Statements that write
// events leave a few rows in fresh_counts (migration 0008); they are folded together every second, and readers add up both.
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { inBites } from './bites.ts'
import { sql, type Db } from './database.ts'

/** The windows of a workspace. Limits (null: none) and uses in messages, resets in seconds. */
export interface QuotaRow {
  readonly hourly: number | null
  readonly daily: number | null
  readonly monthly: number | null
  readonly hour_used: number
  readonly day_used: number
  readonly month_used: number
  /** Until another message has room; null where the hour has no limit. */
  readonly hour_resets: number | null
  readonly day_resets: number
  readonly month_resets: number
}

export interface WindowsRow extends QuotaRow {
  readonly plan: string
  readonly api_sending: boolean
  readonly upgrade_url: string | null
  readonly stopped_since: Date | null
}

const windows = sql(
  'usage-windows',
  `select p.name plan, p.api_sending, p.upgrade_url, p.hourly, p.daily, p.monthly,
          hour.used hour_used,
          case when p.hourly is not null then
            60 * (60 - coalesce((
              select max(h.age) from (
                select t.age, t.charged, sum(t.charged) over (order by t.age desc) gone from trailing_hour(u.minutes, u.minute, c.minute) t) h
               where h.charged > 0 and h.gone > hour.used - p.hourly), 0))
              - extract(second from app_now())::integer end hour_resets,
          case when u.day = c.day then u.day_count else 0 end day_used,
          case when u.month = c.month then u.month_count else 0 end month_used,
          extract(epoch from c.day + 1 - (app_now() at time zone 'UTC'))::integer day_resets,
          extract(epoch from c.month + interval '1 month' - (app_now() at time zone 'UTC'))::integer month_resets,
          (select min(s.since) from delivery_stops s) stopped_since
     from usage u join workspaces w on w.id = u.workspace_id join plans p on p.name = w.plan
          cross join lateral charged_at(u.minute, minute_of(app_now())) c
          cross join lateral (select hour_count(u.minutes, u.minute, c.minute) used) hour
    where u.workspace_id = $1`,
)

export async function readWindows(db: Db, workspace: WorkspaceId): Promise<WindowsRow | undefined> {
  return (await db.rows<WindowsRow>(windows, [workspace]))[0]
}

export interface CountRow {
  readonly at: Date
  readonly kind: string
  readonly bucket: number
  readonly many: number
}

const counts = sql(
  'read-counts',
  `select date_trunc($4, c.hour, 'UTC') at, c.kind, c.bucket, sum(c.many)::float8 many from (
     select hour, kind, bucket, many from hourly_counts where workspace_id = $1 and hour >= $2 and hour < $3
     union all
     select hour, kind, bucket, many from fresh_counts where workspace_id = $1 and hour >= $2 and hour < $3) c
   group by 1, 2, 3 order by 1`,
)
// Locks the rows of hourly_counts in the order of their keys, so that two nodes do not wait for each other in a circle.
const fold = sql(
  'fold-counts',
  `with taken as (
     delete from fresh_counts where ctid = any (array(
       select ctid from fresh_counts where ctid >= $2::tid limit $1 for update skip locked))
     returning workspace_id, hour, kind, bucket, many),
   folded as (
     insert into hourly_counts as known (workspace_id, hour, kind, bucket, many)
     select workspace_id, hour, kind, bucket, sum(many) from taken group by 1, 2, 3, 4 order by 1, 2, 3, 4
     on conflict (workspace_id, hour, kind, bucket) do update set many = known.many + excluded.many
     returning 1),
   -- One notification for all that came together: whoever watches a workspace looks again.
   told as (
     select pg_notify('posthorn_live', case when count(distinct workspace_id) > 200 then '*' else string_agg(distinct workspace_id::text, ',') end)
       from taken having count(*) > 0)
   select count(*)::integer many, (select count(*) from told),
          (pg_relation_size('fresh_counts') / current_setting('block_size')::integer)::integer pages from taken`,
)

// Workspace by workspace, as the key goes: before PostgreSQL 18 a search by the hour alone reads all that is kept.
const prune = sql(
  'prune-counts',
  `delete from hourly_counts where ctid = any (array(
     select old.ctid from workspaces w cross join lateral (
       select c.ctid from hourly_counts c where c.workspace_id = w.id and c.hour < app_now() - $1 * interval '1 day' limit 5000) old
      limit 5000)) returning 1`,
)

/** Removes the counts of hours that no chart shows any more. */
export async function pruneCounts(db: Db): Promise<void> {
  await inBites(5_000, async () => (await db.rows(prune, [limits.countsKeptDays])).length)
}

export const readCounts = (db: Db, workspace: WorkspaceId, from: Date, til: Date, step: 'hour' | 'day') =>
  db.rows<CountRow>(counts, [workspace, from, til, step])

/**
 * Folds what has come together, and tells the channel `posthorn_live` whose it was; returns when little is left. While a snapshot is held (a
 * backup), all that was folded since lies there yet: so where going along all of it takes long, a fold begins where the table ended a round ago,
 * and only now and then at its beginning, where there is room again when the snapshot has gone.
 */
export function makeFold(now = () => performance.now()): (db: Db) => Promise<void> {
  let wholeAgainAt = -Infinity
  /** Pages at the end of the last round, and of the one before. */
  let ended = 0
  let endedBefore = 0
  return async (db) => {
    const began = now()
    const isWhole = began >= wholeAgainAt
    const from = isWhole ? 0 : Math.max(0, endedBefore - 1)
    let many: number
    let pages: number
    do {
      const [row] = await db.rows<{ many: number; pages: number }>(fold, [limits.foldCountsRows, `(${from},0)`])
      many = row?.many ?? 0
      pages = row?.pages ?? 0
    } while (many === limits.foldCountsRows)
    endedBefore = ended
    ended = pages
    if (isWhole) wholeAgainAt = now() + (now() - began) / limits.wholeWalkPart
  }
}
