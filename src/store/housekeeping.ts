// What must happen now and then: partitions ahead, old ones dropped, orphans swept, the sandbox bounded. Every statement takes a small bite
// or an instant's lock, so that nobody who sends waits for it; what must not be done twice at once stands under an advisory lock.
import { setTimeout as wait } from 'node:timers/promises'
import { together } from '../base/trouble.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { pruneAudit } from './audit.ts'
import { inBites } from './bites.ts'
import { sweepStagedBlobs } from './blobs.ts'
import { sql, type Db, type Statement } from './database.ts'
import { leastId } from './message-id.ts'
import { carryOnRemovals, forgetRemovals } from './removal.ts'
import { pruneRefusals } from './refused-submissions.ts'
import { sweepRepeats } from './repeats.ts'
import { pruneReports } from './reports.ts'
import { pruneStsPolicies } from './sts-policies.ts'
import { pruneSandbox } from './sandbox.ts'
import { pruneUnmatched } from './unmatched.ts'
import { sweepSessions } from './sessions.ts'
import { pruneGuesses } from './sign-in-guesses.ts'
import { makeFold, pruneCounts } from './usage.ts'

/** How long things are kept, in days (decisions K). */
export interface Retention {
  readonly recordsDays: number
  readonly eventsDays: number
  readonly contentDays: number
  readonly auditDays: number
}

const ahead = sql('partitions-ahead', 'select partitions_ahead_2() made')
/** How wide partitions are made, and from when on content is gone to readers, functions of the database say. */
const tellKeptDays = sql(
  'tell-kept-days',
  `insert into installation (name, value) values ('keep_content_days', $1), ('keep_events_days', $2), ('keep_records_days', $3)
   on conflict (name) do update set value = excluded.value where installation.value <> excluded.value`,
)
const detach = sql('detach-expired', 'select detach_expired_2($1::text::json) name')
const drop = sql('drop-expired', 'select drop_expired_1() name')
const astray = sql('delete-astray', 'select delete_astray_2($1::text::json, $2) many')
const keepingNone = sql(
  'workspaces-keeping-no-content',
  'select id from workspaces where not keeps_content order by id',
)
const unwanted = sql('drop-unwanted-contents', 'select drop_unwanted_contents_2($1, $2, $3, $4) "last"')
// A key goes behind the last record of what it has made, and never before it: else a repeat would be a second message. Its own time says nothing of
// that: the record lies where the time of its id is, a little earlier, and lives for up to one period of partitions longer than asked. There are as
// many keys as messages, and an index for this would be written by every admission: so the table is read once, when records have gone, a few pages
// at a time. Meanwhile those that are left do not count any more (`forgetOutlived` in admit.ts).
const keysDue = sql(
  'idempotency-keys-due',
  `select k.before, (pg_relation_size('idempotency_keys') / current_setting('block_size')::integer)::integer pages
     from (select d.low::text before from dated_partitions() d where d.parent = 'messages' order by d.low limit 1) k
    where not exists (select from installation i where i.name = 'keys_pruned_before' and i.value = k.before)`,
)
/** What is gone does not come back: nothing is locked while it is looked for. */
const keysOutlived = sql(
  'idempotency-keys-outlived',
  `select k.message_id "id" from idempotency_keys k left join lateral (
     select made.id from unnest(coalesce(k.message_ids, array[k.message_id])) made (id)
       cross join lateral (select from messages m where m.workspace_id = k.workspace_id and m.id = made.id limit 1) record limit 1) last on true
    where k.ctid >= $2::tid and k.ctid < $3::tid and k.message_id < $1::uuid and last.id is null`,
)
const keys = sql(
  'prune-idempotency-keys',
  `delete from idempotency_keys k where k.ctid >= $2::tid and k.ctid < $3::tid and k.message_id = any ($1::uuid[]) returning k.message_id`,
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
/** Never tried, it was due when it came: it was written just before the clock was set back. Walks along the index as `hasten` does. */
const hastenUntried = (queue: 'outbound' | 'webhook_queue', index: string, untried: string) =>
  sql(
    `hasten-untried-${queue}`,
    `update ${queue} set due_at = app_now()
      where ctid = any (array(
        select due.ctid from workspaces w cross join lateral (
          select q.ctid from ${queue} q
           where q.workspace_id = w.id and ${index} and q.due_at > app_now() and ${untried}
           order by q.due_at limit $1 for update skip locked) due
        limit $1))
     returning message_id`,
  )
const hastenChecks = sql(
  'hasten-domain-checks',
  `update domains set check_due_at = app_now() where check_due_at > app_now() + $1 * interval '1 millisecond' returning id`,
)
const dueMail = 'q.lease_until is null and q.attempts >= 0'
const dueWebhooks = 'q.lease_until is null'
const hastened = [
  [hasten('outbound', dueMail), limits.messageAgeMsMax],
  [hasten('webhook_queue', dueWebhooks), limits.webhookFailingMs],
] as const
const untriedMail = hastenUntried('outbound', dueMail, `q.status = 'queued'`)
const untriedWebhooks = hastenUntried('webhook_queue', dueWebhooks, 'q.attempts = 0')

// A clock that ran ahead makes everything look old, and what was dropped does not come back with the right time. So each round leaves its time
// (`seen`), and behind a gap no age is believed until the clock has gone on for a while from there (`since`). Only one such wait: an installation
// that runs for an hour a month deletes in the second of them. A clock that stands before that time has been set right; by less than a minute, it is that of
// a node which began its look before another one, and ended behind it.
const look = sql(
  'look-at-clock',
  `with clock as (select extract(epoch from app_now())::float8 at),
   before as materialized (
     select split_part(i.value, ' ', 1)::float8 seen, split_part(i.value, ' ', 2)::float8 since
       from installation i where i.name = 'housekeeping_clock' for update),
   after as materialized (
     select c.at, b.seen, case when b.seen is null or c.at < b.since - 60 then 0
                               when c.at - b.seen > $1 and b.seen - b.since >= $2 then c.at
                               else b.since end since
       from clock c left join before b on true),
   kept as (
     insert into installation (name, value) select 'housekeeping_clock', concat(a.at, ' ', a.since) from after a
     on conflict (name) do update set value = excluded.value)
   select a.at - a.since >= $2 "isSteady", case when a.since = a.at then floor((a.at - a.seen) / 86400)::integer end "daysGone" from after a`,
)

const unmade = sql(
  'partitions-unmade',
  `select p.parent, max(d.ends) ends from partition_days() p left join dated_partitions() d on d.parent = p.parent
    group by p.parent having coalesce(max(d.ends), '-infinity') < app_now() + $1 * interval '1 day' order by ends nulls first, p.parent`,
)

/** For the doctor: what is written once the last partition is over goes to one without dates, which is cleaned up row by row, and grows. */
export async function whyHouseIsNotKept(db: Db): Promise<string | undefined> {
  const rows = await db.rows<{ parent: string; ends: Date | null }>(unmade, [limits.doctorPartitionDays])
  const [first] = rows
  if (first === undefined) return undefined
  const until = first.ends === null ? 'there are none' : `they end on ${first.ends.toISOString().slice(0, 10)}`
  return `Housekeeping has made no new partitions of ${rows.map(({ parent }) => parent).join(', ')} for a week (${until}): what comes after those cannot be cleaned up as a whole, and what is old may not have been either, so the database grows. Does a node with the role deliver run? what=housekeeping in its log tells what keeps it from that; without such a line, somebody has been using those tables all the time (a transaction that was left open).`
}

/** For a clock that was set back: a backlog is not to wait for the time that it came from. What is tried again waits that much longer. */
export const hastenBacklog = (db: Db): Promise<void> => hastenAll(db, untriedMail)
export const hastenWebhooks = (db: Db): Promise<void> => hastenAll(db, untriedWebhooks)

async function hastenAll(db: Db, statement: Statement): Promise<void> {
  const most = limits.housekeepingRows
  await inBites(most, async () => (await db.rows(statement, [most])).length)
}

/** What a workspace that keeps none still has of messages that are final: nobody may read it any more, and it goes for good. */
export async function dropUnwantedContents(db: Db, workspace: WorkspaceId): Promise<void> {
  const bite = [limits.housekeepingRows, limits.blobsAtOnce]
  for (let last: string | null = leastId; last !== null;)
    last = (await db.rows<{ last: string | null }>(unwanted, [workspace, last, ...bite]))[0]?.last ?? null
}

/** Of all of them: where that of one cannot go (somebody holds it), that of the others does. */
async function dropAllUnwantedContents(db: Db): Promise<void> {
  const failures: unknown[] = []
  for (const { id } of await db.rows<{ id: WorkspaceId }>(keepingNone))
    await dropUnwantedContents(db, id).catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw together(failures)
}

/**
 * One round. `pause` waits between tries to take off a partition that is in use. What fails keeps nothing else from being done, for that would
 * grow for as long as it does; all failures are thrown at the end. Where the clock has leapt since the last round, nothing that goes by its
 * age is deleted for a day.
 */
export async function keepHouse(
  db: Db,
  retention: Retention,
  pause: (ms: number) => Promise<unknown> = wait,
): Promise<void> {
  const most = limits.housekeepingRows
  const ageless: readonly (() => Promise<unknown>)[] = [
    () => db.rows(tellKeptDays, [retention.contentDays, retention.eventsDays, retention.recordsDays].map(String)),
    () => makeAhead(db, pause),
    ...hastened.map(
      ([statement, aheadMs]) =>
        () =>
          inBites(most, async () => (await db.rows(statement, [aheadMs, most])).length),
    ),
    () => db.rows(hastenChecks, [limits.domainFailedMs]),
    () => dropAllUnwantedContents(db),
    () => pruneSandbox(db),
    // Nodes that serve the API do it every second; where there is none, counts would come together without end.
    () => makeFold()(db),
  ]
  const byAge: readonly (() => Promise<unknown>)[] = [
    () => dropExpired(db, retention, pause),
    () => pruneKeys(db),
    () => inBites(most, async () => (await db.rows(links, [retention.recordsDays, most])).length),
    () => sweepStagedBlobs(db),
    () => sweepRepeats(db),
    () => pruneRefusals(db),
    () => pruneReports(db, retention.recordsDays),
    () => pruneUnmatched(db),
    () => pruneStsPolicies(db, limits.stsPoliciesMax),
    () => sweepSessions(db),
    () => pruneGuesses(db),
    () => pruneCounts(db),
    () => pruneAudit(db, retention.auditDays),
    () => forgetRemovals(db),
  ]
  const failures: unknown[] = []
  const isSteady = await isClockSteady(db).catch((error: unknown) => {
    failures.push(error)
    return false
  })
  // A large workspace takes long: last, so that nothing waits for it.
  for (const each of [...ageless, ...(isSteady ? byAge : []), () => carryOnRemovals(db)])
    await each().catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw together(failures)
}

/** Throws where it has just leapt: whoever set it has a day to set it right. */
async function isClockSteady(db: Db): Promise<boolean> {
  const gone = [limits.clockGapMs / 1000, limits.clockSteadyMs / 1000]
  const [clock] = await db.rows<{ isSteady: boolean; daysGone: number | null }>(look, gone)
  const days = clock?.daysGone ?? null
  if (days === null) return clock?.isSteady === true
  throw new Error(
    `by the database's clock the last housekeeping was ${days} days ago: nothing is deleted for its age for a day; if no node ran all that time, all is well, else set that clock`,
  )
}

async function pruneKeys(db: Db): Promise<void> {
  const [due] = await db.rows<{ before: string; pages: number }>(keysDue)
  if (due === undefined) return
  const step = limits.housekeepingPages
  for (let page = 0; page < due.pages; page += step) {
    const pages = [`(${page},0)`, `(${page + step},0)`]
    const gone = await db.rows<{ id: string }>(keysOutlived, [due.before, ...pages])
    if (gone.length > 0) await db.rows(keys, [gone.map(({ id }) => id), ...pages])
  }
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
  await inBites(most, async () => (await db.rows<{ many: number }>(astray, [keep, most]))[0]?.many ?? 0)
}

/** Tries until it could be done, or for a minute: what must wait longer has time until the next round. */
async function untilFree(done: () => Promise<boolean>, pause: (ms: number) => Promise<unknown>): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    if (await done()) return true
    if (tries === limits.housekeepingBusyTries) return false
    await pause(limits.housekeepingBusyMs)
  }
}
