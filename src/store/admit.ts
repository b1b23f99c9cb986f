// The acceptance commit: message, content, queue row, quota charge, idempotency key and `message.queued` together, for a whole batch
// in one statement (migration 0002, admit_1). With attachments a submission is looked up first, by the same statement, without writing.
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { Batch } from '../base/batch.ts'
import { repeating, sql, surelyAborted, type Db } from './database.ts'

/** One submission as the statement wants it; `json` is its row, written once, when it is queued. */
export interface AdmissionRow {
  readonly workspaceId: WorkspaceId
  readonly fields: Readonly<Record<string, unknown>>
  /** The verdict of the malware scan, where there was something to scan. */
  readonly scan?: object
}

/** What the database knows about a submission, admitted or not. Limits and uses in messages, resets in seconds. */
export interface Admission {
  readonly admitted: boolean
  /** The mailbox's address; null where the mailbox is not an active one of the workspace on a verified domain. */
  readonly sender: string | null
  readonly suppressed: boolean
  readonly repeated_id: MessageId | null
  readonly repeated_hash: string | null
  readonly at: Date
  readonly hourly: number | null
  readonly daily: number | null
  readonly monthly: number | null
  readonly hour_used: number
  readonly day_used: number
  readonly month_used: number
  readonly hour_resets: number | null
  readonly day_resets: number
  readonly month_resets: number
}

interface Queued {
  readonly workspaceId: WorkspaceId
  readonly json: string
  readonly scan?: { readonly id: unknown; readonly record: object }
}

const statement = sql('admit', 'select * from admit_1($1::text::json, $2::uuid[], $3)')
/** The same for a batch with verdicts to keep, which few have. */
const withScans = sql(
  'admit-scanned',
  `with answered as materialized (select * from admit_1($1::text::json, $2::uuid[], $3)),
   kept as (
     insert into scans (workspace_id, message_id, record)
     select s.w, s.id, s.record from json_to_recordset($4::text::json) as s (n integer, w uuid, id uuid, record json)
       join answered a on a.n = s.n where a.admitted)
   select * from answered`,
)

async function admitBatch(db: Db, rows: readonly Queued[], commit: boolean): Promise<readonly Admission[]> {
  let json = '['
  rows.forEach((row, n) => (json += `${n === 0 ? '' : ','}{"n":${n},${row.json.slice(1)}`))
  const workspaces = [...new Set(rows.map((row) => row.workspaceId))]
  const scans = rows.flatMap(({ workspaceId: w, scan }, n) => (scan === undefined ? [] : [{ n, w, ...scan }]))
  const values = [`${json}]`, workspaces, commit]
  const answers = await repeating(() =>
    scans.length === 0
      ? db.rows<Admission & { n: number }>(statement, values)
      : db.rows<Admission & { n: number }>(withScans, [...values, JSON.stringify(scans)]),
  )
  const inOrder = Array.from<Admission>({ length: rows.length })
  for (const answer of answers) inOrder[answer.n] = answer
  return inOrder
}

export interface Admitter {
  /** Admits durably, together with whoever else is waiting. */
  admit(row: AdmissionRow): Promise<Admission>
  /** The same answer without admitting. */
  look(row: AdmissionRow): Promise<Admission>
  quiet(): Promise<void>
}

export function makeAdmitter(db: Db): Admitter {
  const bounds = { rowsMax: limits.admitRowsMax, bytesMax: limits.admitBytesMax, waitingMax: limits.admitWaitingMax }
  const admitting = new Batch<Queued, Admission>((rows) => admitBatch(db, rows, true), bounds, surelyAborted)
  const looking = new Batch<Queued, Admission>((rows) => admitBatch(db, rows, false), bounds, surelyAborted)
  const queued = ({ workspaceId, fields, scan }: AdmissionRow): Queued => ({
    workspaceId,
    json: JSON.stringify(fields),
    ...(scan !== undefined && { scan: { id: fields['id'], record: scan } }),
  })
  const add = (batch: Batch<Queued, Admission>, row: AdmissionRow) => {
    const entry = queued(row)
    return batch.add(entry, entry.json.length)
  }
  return {
    admit: (row) => add(admitting, row),
    look: (row) => add(looking, row),
    quiet: async () => void (await Promise.all([admitting.quiet(), looking.quiet()])),
  }
}
