// Suppressed recipients of a workspace: by hand, and as CSV in and out.
import { doneFor } from '../base/turns.ts'
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { parseAddress, unsupportedForm } from '../mail/address.ts'
import type { EmailAddress } from '../mail/address.ts'
import { parseDateTime } from '../mail/date-time-rfc3339.ts'
import { despiteDeadlocks, type Db } from '../store/database.ts'
import {
  countOwnSuppressions,
  countSuppressions,
  countSuppressionsAmong,
  deleteSuppression,
  findSuppression,
  insertSuppressions,
  pageSuppressions,
  undoSuppressions,
} from '../store/suppressions.ts'
import type { NewSuppression, SuppressionReason, SuppressionRow } from '../store/suppressions.ts'
import { Mistake } from './mistake.ts'
import { writeCsv } from './csv-rfc4180.ts'
import { asWords, columns, readSuppressions, shapeOf, type FileShape } from './suppression-file.ts'

export interface Suppression {
  readonly recipient: string
  readonly reason: SuppressionReason
  readonly sourceMessageId?: MessageId
  readonly rule?: string
  readonly evidence?: string
  /** Who added it, where a person did. */
  readonly createdBy?: string
  readonly createdAt: Date
}

/** A recipient that is suppressed already keeps its reason. */
export async function addSuppression(
  db: Db,
  workspace: WorkspaceId,
  text: string,
  actor: string,
): Promise<Suppression> {
  const { key, text: recipient } = requireAddress(text)
  await insertSuppressions(db, workspace, [{ key, recipient, reason: 'manual' }], actor)
  const row = await findSuppression(db, workspace, key)
  if (row === undefined) throw new Mistake(`${recipient} was removed meanwhile.`, { code: 'conflict' })
  return presentSuppression(row)
}

export async function removeSuppression(
  db: Db,
  workspace: WorkspaceId,
  text: string,
  actor: string,
): Promise<Suppression> {
  const { key, text: recipient } = requireAddress(text)
  const row = await deleteSuppression(db, workspace, key, actor)
  if (row === undefined) throw new Mistake(`${recipient} is not suppressed in this workspace.`, { code: 'not_found' })
  return presentSuppression(row)
}

/** Takes back everything that one rule did in a time range: after a wrong rule, or a provider that said wrong things for a day. */
export async function undoRule(
  db: Db,
  workspace: WorkspaceId,
  range: { readonly rule: string; readonly since: string; readonly until?: string | undefined },
  actor: string,
): Promise<{ readonly removed: number }> {
  const until = range.until === undefined ? undefined : parseTime(range.until, 'until')
  const parsed = { rule: range.rule, since: parseTime(range.since, 'since'), ...(until !== undefined && { until }) }
  if (until !== undefined && parsed.since >= until)
    throw new Mistake('"since" must be before "until".', { field: 'since' })
  let removed = 0
  for (let after: string | undefined = ''; after !== undefined;) {
    const bite = await undoSuppressions(db, workspace, { ...parsed, after }, actor, limits.suppressionImportRows)
    removed += bite.removed
    after = bite.last
  }
  return { removed }
}

/** A date, or a time with its zone; of a day that there is. */
function parseTime(text: string, name: string): Date {
  const [, date = '', clock, seconds = ':00', zone] =
    /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d)(:\d\d(?:\.\d{1,3})?)?(Z|[+-]\d\d:\d\d))?$/.exec(text) ?? []
  const time = parseDateTime(clock === undefined ? `${date}T00:00:00Z` : `${date}T${clock}${seconds}${zone}`)
  if (time === undefined)
    throw new Mistake(`"${name}" must be a date, or a time with its zone, such as 2026-11-01 or 2026-11-01T08:30:00Z.`)
  return new Date(time)
}

/** All of them, in the order of their addresses, page by page; `mayGoOn` is asked between two, and throws where whoever reads may do so no longer. */
export async function* listSuppressions(
  db: Db,
  workspace: WorkspaceId,
  mayGoOn: () => Promise<void> = () => Promise.resolve(),
): AsyncGenerator<Suppression> {
  let after = ''
  for (;;) {
    if (after !== '') await mayGoOn()
    // Said with each page: an export is read by whoever sends it, when the request that asked for it has been let go.
    const rows = await doneFor(workspace, () => pageSuppressions(db, workspace, after, limits.suppressionImportRows))
    for (const row of rows) yield presentSuppression(row)
    const last = rows.at(-1)
    if (last === undefined || rows.length < limits.suppressionImportRows) return
    after = last.recipient_key
  }
}

/** CSV with a head line, line by line. What it writes, `importSuppressions` reads. */
export async function* exportSuppressions(
  db: Db,
  workspace: WorkspaceId,
  mayGoOn?: () => Promise<void>,
): AsyncGenerator<string> {
  yield writeCsv(columns)
  for await (const { createdAt, ...row } of listSuppressions(db, workspace, mayGoOn)) {
    const cells: Partial<Record<(typeof columns)[number], string>> = {
      ...row,
      recipient: asWords(row.recipient),
      createdAt: createdAt.toISOString(),
      evidence: asWords(row.evidence),
    }
    yield writeCsv(columns.map((column) => cells[column] ?? ''))
  }
}

export interface ImportWish {
  /** Of the lines that tell none; `manual` where nothing is said. */
  readonly reason?: SuppressionReason | undefined
  /** Says what would happen, and writes nothing. */
  readonly dryRun?: boolean | undefined
  readonly most?: number
  /** Asked between two bites; throws where whoever imports may do so no longer. */
  readonly mayGoOn?: () => Promise<void>
}

export interface Imported {
  readonly added: number
  readonly alreadyThere: number
  /** How many lines have which reason. */
  readonly reasons: Readonly<Record<SuppressionReason, number>>
  /** Columns that were not read, by the names that the head line gives them. */
  readonly ignoredColumns: readonly string[]
}

/** The text, and what its lines are read by. */
interface ImportFile {
  readonly text: string
  readonly shape: FileShape
  readonly reason: SuppressionReason | undefined
}

/**
 * CSV whose head line names `recipient` and perhaps the other columns of an export, by their names or those of other services, or one address a line. A wrong
 * line is named, and nothing is written: the text is read to look first, and then to write, because all rows of it at once are ten times as large. Each bite
 * of rows is committed by itself, with who did it: events come in sight behind every older transaction, so a long one would hold those of all workspaces
 * back. An import that was cut off is repeated: what is there stays as it is.
 */
export async function importSuppressions(
  db: Db,
  workspace: WorkspaceId,
  text: string,
  actor: string,
  { reason, dryRun = false, most = limits.suppressionsPerWorkspaceMax, mayGoOn }: ImportWish = {},
): Promise<Imported> {
  if (text.length > limits.suppressionImportBytesMax)
    throw new Mistake(`The file is larger than ${limits.suppressionImportBytesMax} bytes: split it.`, { field: 'csv' })
  const file = { text, shape: shapeOf(text), reason }
  const reasons = await refuseMistakes(db, file)
  const facts = { reasons, ignoredColumns: file.shape.ignored ?? [] }
  const lines = Object.values(reasons).reduce((sum, many) => sum + many, 0)
  const many = await countSuppressions(db, workspace, most)
  if (dryRun || many + lines > most) {
    const would = await lookAhead(db, workspace, file)
    // Imports at the same time do not see each other: so many more there may be.
    if (would.added > 0 && many + would.added > most)
      throw new Mistake(
        `Nothing was imported. A workspace has at most ${most} suppressed recipients; this one has ${many}, and the file has ${would.added} more.`,
        { code: 'conflict', field: 'csv' },
      )
    if (dryRun) return { ...would, ...facts }
  }
  return { ...(await write(db, workspace, file, actor, mayGoOn)), ...facts }
}

type Counts = Pick<Imported, 'added' | 'alreadyThere'>

async function write(
  db: Db,
  workspace: WorkspaceId,
  file: ImportFile,
  actor: string,
  mayGoOn: ImportWish['mayGoOn'],
): Promise<Counts> {
  const sum = { added: 0, alreadyThere: 0 }
  const transactions: string[] = []
  for await (const rows of readBites(db, file)) {
    await mayGoOn?.()
    // Mail that is refused meanwhile suppresses in an order of its own: PostgreSQL may end one of two that wait in a circle.
    const { added, by } = await despiteDeadlocks(() => insertSuppressions(db, workspace, rows, actor))
    if (by !== undefined) transactions.push(by)
    sum.added += added
    if (added === rows.length) continue
    // Where the file repeats one of its own, that line is neither.
    const keys = rows.map((row) => row.key)
    sum.alreadyThere += rows.length - (await countOwnSuppressions(db, workspace, keys, transactions))
  }
  return sum
}

/** What writing would do. A new recipient that the file names again far behind counts twice. */
async function lookAhead(db: Db, workspace: WorkspaceId, file: ImportFile): Promise<Counts> {
  const sum = { added: 0, alreadyThere: 0 }
  for await (const rows of readBites(db, file)) {
    const keys = rows.map((row) => row.key)
    const there = await countSuppressionsAmong(db, workspace, keys)
    sum.added += keys.length - there
    sum.alreadyThere += there
  }
  return sum
}

/** The rows of a file whose lines are right. */
async function* readBites(db: Db, { text, shape, reason }: ImportFile): AsyncGenerator<readonly NewSuppression[]> {
  let byKey = new Map<string, NewSuppression>()
  for await (const { row } of readSuppressions(db, text, shape, reason)) {
    if (typeof row === 'string') throw new Error('a line that was right is wrong')
    // Of two spellings the first stays, as it does in the table.
    if (!byKey.has(row.key)) byKey.set(row.key, row)
    if (byKey.size < limits.suppressionImportRows) continue
    yield [...byKey.values()]
    byKey = new Map()
  }
  if (byKey.size > 0) yield [...byKey.values()]
}

/** How many rows it has of each reason. Throws where a line is wrong, with the first of them. */
async function refuseMistakes(db: Db, { text, shape, reason }: ImportFile): Promise<Imported['reasons']> {
  const mistakes: string[] = []
  const reasons = { hard_bounce: 0, complaint: 0, manual: 0 }
  let more = 0
  for await (const { line, row } of readSuppressions(db, text, shape, reason)) {
    if (typeof row !== 'string') reasons[row.reason]++
    else if (mistakes.length < limits.importMistakesShownMax) mistakes.push(`line ${line}: ${row}`)
    else more++
  }
  if (mistakes.length > 0)
    throw new Mistake(['Nothing was imported.', ...mistakes, ...(more > 0 ? [`and ${more} more`] : [])].join('\n'), {
      field: 'csv',
    })
  return reasons
}

function requireAddress(text: string): EmailAddress {
  const address = parseAddress(text)
  if (address === undefined)
    throw new Mistake(`"${text}" ${unsupportedForm(text) ?? 'is not an address, such as ada@example.com'}.`, {
      field: 'recipient',
    })
  return address
}

export function presentSuppression(row: SuppressionRow): Suppression {
  return {
    recipient: row.recipient,
    reason: row.reason,
    ...(row.source_message_id !== null && { sourceMessageId: row.source_message_id }),
    ...(row.rule !== null && { rule: row.rule }),
    ...(row.evidence !== null && { evidence: row.evidence }),
    ...(row.created_by !== null && { createdBy: row.created_by }),
    createdAt: row.created_at,
  }
}
