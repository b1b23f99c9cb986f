// What must happen now and then: partitions ahead, old ones dropped, orphans swept, the sandbox bounded. Every statement takes a small bite
// or an instant's lock, so that nobody who sends waits for it; what must not be done twice at once stands under an advisory lock.
import { setTimeout as wait } from 'node:timers/promises'
import { limits } from '../config.ts'
import { pruneAudit } from './audit.ts'
import { sweepStagedBlobs } from './blobs.ts'
import { sql, type Db } from './database.ts'
import { pruneRefusals } from './refused-submissions.ts'
import { sweepRepeats } from './repeats.ts'
import { pruneReports } from './reports.ts'
import { pruneStsPolicies } from './sts-policies.ts'
import { pruneSandbox } from './sandbox.ts'
import { pruneUnmatched } from './unmatched.ts'
import { sweepSessions } from './sessions.ts'
import { pruneGuesses } from './sign-in-guesses.ts'
import { pruneCounts } from './usage.ts'

/** How long things are kept, in days (decisions K). */
export interface Retention {
  readonly recordsDays: number
  readonly eventsDays: number
  readonly contentDays: number
  readonly auditDays: number
}

const ahead = sql('partitions-ahead', 'select partitions_ahead_2() made')
const tellContentDays = sql(
  'tell-content-days',
  `insert into installation (name, value) values ('keep_content_days', $1)
   on conflict (name) do update set value = excluded.value where installation.value <> excluded.value`,
)
const detach = sql('detach-expired', 'select detach_expired_2($1::text::json) name')
const drop = sql('drop-expired', 'select drop_expired_1() name')
const astray = sql('delete-astray', 'select delete_astray_2($1::text::json, $2) many')
const unwanted = sql('drop-unwanted-contents', 'select drop_unwanted_contents_1($1) many')
// The record of a message that was accepted under a key may live for one period of partitions longer than asked; so do the keys. There are as
// many of them as messages, and an index by age would be written by every admission: so the table is read once, when records have gone, a
// few pages at a time.
const keysDue = sql(
  'idempotency-keys-due',
  `select k.before, (pg_relation_size('idempotency_keys') / current_setting('block_size')::integer)::integer pages
     from (select extract(epoch from coalesce(min(d.ends) - interval '28 days', 'infinity'))::text before
             from dated_partitions() d where d.parent = 'messages') k
    where not exists (select from installation i where i.name = 'keys_pruned_before' and i.value = k.before)`,
)
const keys = sql(
  'prune-idempotency-keys',
  `delete from idempotency_keys k
    where k.ctid >= $3::tid and k.ctid < $4::tid
      and k.created_at < app_now() - $1 * interval '1 day' and k.created_at < to_timestamp($2::text::float8)
   returning k.message_id`,
)
const keysDone = sql(
  'idempotency-keys-pruned',
  `insert into installation (name, value) values ('keys_pruned_before', $1) on conflict (name) do update set value = excluded.value`,
)
// The link between a message and the one that was sent in its place goes when the newer one is gone.
const links = sql(
  'prune-sent-again',
  `delete from sent_again where ctid = any (array(
     select s.ctid from sent_again s
      where s.at < app_now() - $1 * interval '1 day'
        and not exists (select from messages m where m.workspace_id = s.workspace_id and m.id = s.again_id)
      limit $2))
   returning message_id`,
)
// Nothing is due so far ahead, nor claimed for so long: such a row was written while the clock was ahead, and would lie there until that time comes.
// Who is alive says so again within seconds; of the others the reaper decides, after a time that is long for a lease. Along the indexes of leases
// and of what is due in each workspace: a long queue is not read for it. `index` is the condition of the latter (docs/decisions/0006).
const hasten = (queue: 'outbound' | 'webhook_queue', index: string) =>
  sql(
    `hasten-${queue}`,
    `update ${queue} set due_at = least(due_at, app_now()),
            lease_until = case when lease_until is not null then least(lease_until, app_now() + interval '1 hour') end
      where ctid = any (array(
        select claimed.ctid from (
          select q.ctid from ${queue} q where q.lease_until > app_now() + $1 * interval '1 millisecond' limit $2 for update skip locked) claimed
        union all
        select due.ctid from workspaces w cross join lateral (
          select q.ctid from ${queue} q
           where q.workspace_id = w.id and ${index} and q.due_at > app_now() + $1 * interval '1 millisecond' limit $2 for update skip locked) due
        limit $2))
     returning message_id`,
  )
const hastenChecks = sql(
  'hasten-domain-checks',
  `update domains set check_due_at = app_now() where check_due_at > app_now() + $1 * interval '1 millisecond' returning id`,
)
const hastened = [
  [hasten('outbound', 'q.lease_until is null and q.attempts >= 0'), limits.messageAgeMsMax],
  [hasten('webhook_queue', 'q.lease_until is null'), limits.webhookFailingMs],
] as const

/**
 * One round. `pause` waits between tries to take off a partition that is in use. What fails keeps nothing else from being done, for that would
 * grow for as long as it does; the first failure is thrown at the end.
 */
export async function keepHouse(
  db: Db,
  retention: Retention,
  pause: (ms: number) => Promise<unknown> = wait,
): Promise<void> {
  const most = limits.housekeepingRows
  /** Bites of so many, until one finds less. */
  const all = async (many: number, bite: () => Promise<number>): Promise<void> => {
    while ((await bite()) === many);
  }
  const work: readonly (() => Promise<unknown>)[] = [
    () => makeAhead(db, pause),
    () => db.rows(tellContentDays, [String(retention.contentDays)]),
    () => dropExpired(db, retention, pause),
    ...hastened.map(
      ([statement, aheadMs]) =>
        () =>
          all(most, async () => (await db.rows(statement, [aheadMs, most])).length),
    ),
    () => db.rows(hastenChecks, [limits.domainFailedMs]),
    () => all(most, async () => (await db.rows<{ many: number }>(unwanted, [most]))[0]?.many ?? 0),
    () => pruneKeys(db, retention.recordsDays),
    () => all(most, async () => (await db.rows(links, [retention.recordsDays, most])).length),
    () => all(100, () => sweepStagedBlobs(db)),
    () => all(1_000, () => sweepRepeats(db)),
    () => all(1_000, () => pruneRefusals(db)),
    () => pruneSandbox(db),
    () => pruneReports(db, retention.recordsDays),
    () => pruneUnmatched(db),
    () => pruneStsPolicies(db, limits.stsPoliciesMax),
    () => all(1_000, () => sweepSessions(db)),
    () => all(most, () => pruneGuesses(db, most)),
    () => pruneCounts(db),
    () => all(most, () => pruneAudit(db, retention.auditDays, most)),
  ]
  const failures: unknown[] = []
  for (const each of work) await each().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

async function pruneKeys(db: Db, recordsDays: number): Promise<void> {
  const [due] = await db.rows<{ before: string; pages: number }>(keysDue)
  if (due === undefined) return
  const step = limits.housekeepingPages
  for (let page = 0; page < due.pages; page += step)
    await db.rows(keys, [recordsDays, due.before, `(${page},0)`, `(${page + step},0)`])
  await db.rows(keysDone, [due.before])
}

/** One by one: whoever sends waits for a table that is being changed, and so may hold the next. */
async function makeAhead(db: Db, pause: (ms: number) => Promise<unknown>): Promise<void> {
  for (let more = true; more;) {
    const free = await untilFree(async () => {
      const made = (await db.rows<{ made: number | null }>(ahead))[0]?.made ?? null
      more = made === 1
      return made !== null
    }, pause)
    more &&= free
  }
}

/** Contents outlive the end of the latest message of their partition; a message is final a day and a little after it was accepted. */
const daysToTheEnd = Math.ceil(limits.messageAgeMsMax / 86_400_000)

async function dropExpired(
  db: Db,
  { recordsDays, eventsDays, contentDays }: Retention,
  pause: (ms: number) => Promise<unknown>,
): Promise<void> {
  const content = contentDays + daysToTheEnd
  const keep = JSON.stringify({
    messages: recordsDays,
    reports: recordsDays,
    attempts: recordsDays,
    scans: recordsDays,
    events: eventsDays,
    webhook_attempts: eventsDays,
    contents: content,
    attachments: content,
    blobs: content,
  })
  for (let more = true; more;) {
    const free = await untilFree(async () => {
      const [taken] = await db.rows<{ name: string | null }>(detach, [keep])
      more = typeof taken?.name === 'string'
      return taken?.name !== 'busy'
    }, pause)
    more &&= free
  }
  while ((await db.rows<{ name: string | null }>(drop))[0]?.name !== null);
  const most = limits.housekeepingRows
  while ((await db.rows<{ many: number }>(astray, [keep, most]))[0]?.many === most);
}

/** Tries until it could be done, or for a minute: what must wait longer has time until the next round. */
async function untilFree(done: () => Promise<boolean>, pause: (ms: number) => Promise<unknown>): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    if (await done()) return true
    if (tries === limits.housekeepingBusyTries) return false
    await pause(limits.housekeepingBusyMs)
  }
}
