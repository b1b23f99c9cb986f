// The acceptance commit: message, content, queue row, quota charge, idempotency key and `message.queued` together, for a whole batch
// in one statement (function `admit_2`). With attachments a submission is looked up first, by the same statement, without writing.
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { Batch, BatchFull } from '../base/batch.ts'
import { watchLoop } from '../base/busy-loop.ts'
import { commitSomething, mayBlameRows, despiteDeadlocks, sql, sqlState, surelyAborted, type Db } from './database.ts'
import { HeldUp, isHeldUp, pastHeld } from './held-rows.ts'
import type { QuotaRow } from './usage.ts'

/** One submission as the statement wants it: a row of its batch, by the names that `admit_2` reads. */
export interface AdmissionRow {
  readonly workspaceId: WorkspaceId
  readonly fields: Readonly<Record<string, unknown>>
  /** The verdict of the malware scan, where there was something to scan. */
  readonly scan?: object
}

/** What the database knows about a submission, admitted or not. */
export interface Admission extends Judgement, Quota {}

interface Judgement {
  readonly admitted: boolean
  /** The mailbox's address; null where the mailbox is not an active one of the workspace on a verified domain. */
  readonly sender: string | null
  readonly suppressed: boolean
  readonly repeated_id: MessageId | null
  /** Where the key made several messages. */
  readonly repeated_ids: readonly MessageId[] | null
  readonly repeated_hash: string | null
}

/** Of a workspace, what the batch has charged included. */
interface Quota extends QuotaRow {
  readonly at: Date
}

/** Rows of one workspace that are admitted together or not at all. */
interface Queued {
  readonly workspaceId: WorkspaceId
  readonly rows: readonly string[]
  /** Some of it is kept apart from its row: attachments, a large text. */
  readonly withFiles: boolean
  readonly scans: readonly ({ readonly id: unknown; readonly record: object } | undefined)[]
  /** On the clock of `performance.now()`: whoever asks does not wait for the answer any longer, so it must not be admitted any more. */
  readonly until: number
}

/** The group could only have been admitted when its caller had stopped waiting for the answer: surely not admitted. */
export class AdmissionTooLate extends Error {
  override readonly name = 'AdmissionTooLate'
}

/** True of an error after which nothing is there that could be looked up. */
export const surelyNotAdmitted = (error: unknown): boolean =>
  surelyAborted(error) || error instanceof AdmissionTooLate || error instanceof BatchFull

/** The answer has a row for each submission, with its place, and one for each workspace, without. */
type Told = ({ n: number } & Judgement) | ({ n: null; workspace_id: WorkspaceId } & Quota)

/** Fields of content that is kept apart from its row. */
const apart = ['files', 'chunks', 'body_blob']

// Who was not told that it is accepted sends again: what a lock has held up for too long raises behind all its work, instead of being
// kept after that (migration 0046).
const statement = sql(
  'admit',
  'select a.*, (select in_time_1($5)) in_time from admit_2($1::text::json, $2::uuid[], $3, $4) a',
)
/** The same for a batch with verdicts to keep, which few have. */
const withScans = sql(
  'admit-scanned',
  `with answered as materialized (select * from admit_2($1::text::json, $2::uuid[], $3, $4)),
   kept as (
     insert into scans (workspace_id, message_id, record)
     select s.w, s.id, s.record from json_to_recordset($5::text::json) as s (n integer, w uuid, id uuid, record json)
       join answered a on a.n = s.n where a.admitted)
   select a.*, (select in_time_1($6)) in_time from answered a`,
)
// A key counts as long as the record of a message that it has made (decisions D); keys and records are not pruned in one stroke. A key is committed
// with its messages, and what is gone does not come back: so nothing is locked between the two, and a key that names another message by now stays.
const recordOfKey = sql(
  'record-of-key',
  `select made.id from unnest($2::uuid[]) made (id)
     cross join lateral (select from messages m where m.workspace_id = $1 and m.id = made.id limit 1) record limit 1`,
)
const forgetKey = sql(
  'forget-key',
  `delete from idempotency_keys where workspace_id = $1 and endpoint = $2 and key = $3 and message_id = $4 returning message_id`,
)
const isTooLate = (error: unknown): boolean => sqlState(error) === 'PH002'
/** Its content was staged so long ago that it is gone (migration 0066). */
const isSwept = (error: unknown): boolean => sqlState(error) === 'PH003'

/** What a caller hears whose workspace was removed since its key was looked at: it has no row of quota, so nothing is answered for it. */
const ofNoWorkspace: Admission = {
  admitted: false,
  sender: null,
  suppressed: false,
  repeated_id: null,
  repeated_ids: null,
  repeated_hash: null,
  at: new Date(0),
  hourly: null,
  daily: null,
  monthly: null,
  hour_used: 0,
  day_used: 0,
  month_used: 0,
  hour_resets: null,
  day_resets: 0,
  month_resets: 0,
}

/** How much time a statement takes: a group that has not as much left would make those late that were sent with it. */
interface Pace {
  needMs: number
}

async function admitBatch(
  db: Db,
  groups: readonly Queued[],
  commit: boolean,
  pace: Pace,
): Promise<readonly (readonly Admission[])[]> {
  const answers: Admission[][] = groups.map(() => [])
  const now = performance.now()
  /** When the first of them would be too late: it takes a while yet to keep it, and to say so. */
  let until = Infinity
  const workspaces = new Set<WorkspaceId>()
  const groupOf: number[] = []
  let files = false
  let json = '['
  const verdicts: object[] = []
  groups.forEach(({ workspaceId, rows, withFiles, scans, ...group }, at) => {
    const end = group.until - limits.admissionKeepMs
    if (end < now + pace.needMs) return
    until = Math.min(until, end)
    files ||= withFiles
    workspaces.add(workspaceId)
    const first = groupOf.length
    for (const [index, row] of rows.entries()) {
      const n = groupOf.push(at) - 1
      if (scans[index] !== undefined) verdicts.push({ n, w: workspaceId, ...scans[index] })
      json += `${n === 0 ? '' : ','}{"n":${n},"g":${first},"size":${rows.length},${row.slice(1)}`
    }
  })
  if (groupOf.length === 0) return answers
  const values = [`${json}]`, [...workspaces], commit, files]
  // Said when a line is there to say it on, which may be long after it was asked for.
  const leftMs = { toPostgres: () => until - performance.now() }
  const told = await despiteDeadlocks(() =>
    verdicts.length === 0
      ? db.rows<Told>(statement, [...values, leftMs])
      : db.rows<Told>(withScans, [...values, JSON.stringify(verdicts), leftMs]),
  ).catch((error: unknown) => {
    if (isSwept(error)) throw new AdmissionTooLate('the content of an admission was swept before it came')
    if (!isTooLate(error)) throw error
    pace.needMs = Math.min(limits.admissionNeedMsMax, Math.max(limits.admissionNeedMsMax / 4, 2 * pace.needMs))
    throw new AdmissionTooLate('the admission came too late')
  })
  // Who is told that it is there already is told that it is kept.
  if (!commit && told.some((row) => row.n !== null && row.repeated_id !== null)) await commitSomething(db)
  pace.needMs = Math.min(limits.admissionNeedMsMax, performance.now() - now)
  const firstOf = new Map<number, number>()
  groupOf.forEach((at, n) => firstOf.has(at) || firstOf.set(at, n))
  const quotas = new Map<WorkspaceId, Quota>()
  for (const row of told) if (row.n === null) quotas.set(row.workspace_id, row)
  for (const row of told) {
    if (row.n === null) continue
    const at = groupOf[row.n] as number
    const quota = quotas.get((groups[at] as Queued).workspaceId)
    if (quota === undefined) throw new Error('an admission without its quota')
    const { admitted, sender, suppressed, repeated_id, repeated_ids, repeated_hash } = row
    const known = { ...quota, admitted, sender, suppressed, repeated_id, repeated_ids, repeated_hash }
    ;(answers[at] as Admission[])[row.n - (firstOf.get(at) as number)] = known
  }
  for (const at of firstOf.keys())
    if (answers[at]?.length === 0) answers[at] = (groups[at] as Queued).rows.map(() => ofNoWorkspace)
  return answers
}

/** Of these workspaces, those whose row of quota nobody could lock now. */
const held = sql(
  'held-quotas',
  `with free as (select u.workspace_id from usage u where u.workspace_id = any ($1::uuid[]) for update skip locked)
   select u.workspace_id id from usage u
    where u.workspace_id = any ($1::uuid[]) and not exists (select from free f where f.workspace_id = u.workspace_id)`,
)

async function heldQuotas(db: Db, groups: readonly Queued[]): Promise<(group: Queued) => boolean> {
  const asked = [...new Set(groups.map(({ workspaceId }) => workspaceId))]
  const ids = new Set((await db.rows<{ id: string }>(held, [asked])).map(({ id }) => id))
  return ({ workspaceId }) => ids.has(workspaceId)
}

export interface Admitter {
  /** Admits durably, together with whoever else is waiting. Throws `AdmissionTooLate` where its turn came after `limits.admissionMs`. */
  admit(row: AdmissionRow): Promise<Admission>
  /** The same answer without admitting. */
  look(row: AdmissionRow): Promise<Admission>
  /** All rows, which are of one workspace, or none. Throws `AdmissionTooLate` where their turn came after `until`. */
  admitGroup(rows: readonly AdmissionRow[], until: number): Promise<readonly Admission[]>
  lookGroup(rows: readonly AdmissionRow[], until: number): Promise<readonly Admission[]>
  /** Forgets the key of this row, by which it was answered as a repeat, where no record is left of what it repeats. False: there is one. */
  forgetOutlived(row: AdmissionRow, known: Admission): Promise<boolean>
  quiet(): Promise<void>
  /** Submissions wait for the statement before theirs: what else is written to the database holds them up. */
  readonly pressed: boolean
}

export function makeAdmitter(db: Db): Admitter {
  const bounds = {
    rowsMax: limits.admitRowsMax,
    bytesMax: limits.admitBytesMax,
    waitingMax: limits.admitWaitingMax,
    patienceMs: limits.admissionMs,
    takingTurns: true,
    whenBusy: { isBusy: watchLoop(), spacingMs: limits.admitSpacingBusyMs },
  }
  const batch = (run: (groups: readonly Queued[]) => Promise<readonly (readonly Admission[] | HeldUp)[]>) =>
    new Batch<Queued, readonly Admission[] | HeldUp>(
      run,
      bounds,
      (error) => mayBlameRows(error) || error instanceof AdmissionTooLate,
    )
  const run = (commit: boolean) => {
    const pace = { needMs: 0 }
    return (groups: readonly Queued[]) => admitBatch(db, groups, commit, pace)
  }
  const admitting = batch(pastHeld(db, (groups) => heldQuotas(db, groups), run(true)))
  const looking = batch(run(false))
  // For workspaces whose row of quota somebody holds, for a moment or for long: they wait in its line, beside all others.
  const admitLocked = run(true)
  const behind = batch((groups) =>
    admitLocked(groups).catch((error: unknown) => {
      if (!isHeldUp(error)) throw error
      return groups.map(() => new HeldUp(error))
    }),
  )
  const add = async (to: typeof admitting, rows: readonly AdmissionRow[], until: number) => {
    const [first] = rows
    if (first === undefined) throw new Error('a group of no rows')
    const texts = rows.map((row) => JSON.stringify(row.fields))
    const scans = rows.map(({ fields, scan }) => (scan === undefined ? undefined : { id: fields['id'], record: scan }))
    const withFiles = rows.some(({ fields }) => apart.some((name) => fields[name] !== undefined))
    const bytes = texts.reduce((sum, text) => sum + text.length, 0)
    const { workspaceId } = first
    const whose = { owner: workspaceId, rows: rows.length }
    const group = { workspaceId, rows: texts, withFiles, scans, until }
    let answers = await to.add(group, bytes, whose)
    while (answers instanceof HeldUp) {
      if (performance.now() > until - limits.admissionKeepMs) throw answers.error
      answers = await behind.add(group, bytes, whose)
      if (answers instanceof HeldUp) answers = await to.add(group, bytes, whose)
    }
    if (answers.length !== rows.length) throw new AdmissionTooLate('the admission came too late')
    return answers
  }
  // A statement that a lock has held up until it was ended is tried again in halves, long after.
  const alone = async (to: typeof admitting, row: AdmissionRow) =>
    (await add(to, [row], performance.now() + limits.admissionMs))[0] as Admission
  return {
    admit: (row) => alone(admitting, row),
    look: (row) => alone(looking, row),
    admitGroup: (rows, until) => add(admitting, rows, until),
    lookGroup: (rows, until) => add(looking, rows, until),
    forgetOutlived: async ({ workspaceId, fields }, { repeated_id: id, repeated_ids: ids }) => {
      if ((await db.rows(recordOfKey, [workspaceId, ids ?? [id]])).length > 0) return false
      await db.rows(forgetKey, [workspaceId, fields['endpoint'], fields['idem'], id])
      return true
    },
    quiet: async () => void (await Promise.all([admitting, looking, behind].map((each) => each.quiet()))),
    get pressed() {
      return admitting.pressed
    },
  }
}
