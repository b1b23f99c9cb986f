// Suppressed recipients of a workspace: by hand, and as CSV in and out.
import { setImmediate } from 'node:timers/promises'
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { parseAddress, unsupportedForm } from '../mail/address.ts'
import type { EmailAddress } from '../mail/address.ts'
import { databaseNow, repeating, type Db } from '../store/database.ts'
import {
  countOwnSuppressions,
  countSuppressions,
  countSuppressionsAmong,
  deleteSuppression,
  findSuppression,
  insertSuppressions,
  pageSuppressions,
  suppressionReasons,
  undoSuppressions,
} from '../store/suppressions.ts'
import type { NewSuppression, SuppressionReason, SuppressionRow } from '../store/suppressions.ts'
import { Mistake } from './mistake.ts'
import { readCsv, writeCsv } from './csv-rfc4180.ts'

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
  for (let removed = 0; ;) {
    const gone = await undoSuppressions(db, workspace, parsed, actor, limits.suppressionImportRows)
    removed += gone.length
    if (gone.length < limits.suppressionImportRows) return { removed }
  }
}

/** A date, or a time with its zone. */
function timeIn(text: string): Date | undefined {
  const time = new Date(text)
  const isWritten = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(text)
  return isWritten && !Number.isNaN(time.getTime()) ? time : undefined
}

function parseTime(text: string, name: string): Date {
  const time = timeIn(text)
  if (time === undefined)
    throw new Mistake(`"${name}" must be a date, or a time with its zone, such as 2026-11-01 or 2026-11-01T08:30:00Z.`)
  return time
}

/** All of them, in the order of their addresses, page by page. */
export async function* listSuppressions(db: Db, workspace: WorkspaceId): AsyncGenerator<Suppression> {
  let after = ''
  for (;;) {
    const rows = await pageSuppressions(db, workspace, after, limits.suppressionImportRows)
    for (const row of rows) yield presentSuppression(row)
    const last = rows.at(-1)
    if (last === undefined || rows.length < limits.suppressionImportRows) return
    after = last.recipient_key
  }
}

const columns = ['recipient', 'reason', 'createdAt', 'sourceMessageId', 'rule', 'evidence'] as const

/**
 * What a stranger's server said, written so that no spreadsheet takes it for a formula (OWASP, CSV injection): an apostrophe more than it had, also before
 * such words that had one already.
 */
const asWords = (text = ''): string => (/^'*[=+\-@\t\r]/.test(text) ? `'${text}` : text)
const fromWords = (text: string): string => text.replace(/^'(?='*[=+\-@\t\r])/, '')

/** CSV with a head line, line by line. What it writes, `importSuppressions` reads. */
export async function* exportSuppressions(db: Db, workspace: WorkspaceId): AsyncGenerator<string> {
  yield writeCsv(columns)
  for await (const { createdAt, ...row } of listSuppressions(db, workspace)) {
    const cells: Partial<Record<(typeof columns)[number], string>> = {
      ...row,
      createdAt: createdAt.toISOString(),
      evidence: asWords(row.evidence),
    }
    yield writeCsv(columns.map((column) => cells[column] ?? ''))
  }
}

/**
 * CSV whose head line names `recipient` (or `email`, `address`) and perhaps the other columns of an export, or one address a line. A wrong line is named, and
 * nothing is written: the text is read to look first, and then to write, because all rows of it at once are ten times as large. Each bite of rows is
 * committed by itself, with who did it: events come in sight behind every older transaction, so a long one would hold those of all workspaces back. An
 * import that was cut off is repeated: what is there stays as it is.
 */
export async function importSuppressions(
  db: Db,
  workspace: WorkspaceId,
  text: string,
  actor: string,
  most: number = limits.suppressionsPerWorkspaceMax,
): Promise<{ readonly added: number; readonly alreadyThere: number }> {
  if (text.length > limits.suppressionImportBytesMax)
    throw new Mistake(`The file is larger than ${limits.suppressionImportBytesMax} bytes: split it.`, { field: 'csv' })
  await requireRoom(db, workspace, text, await refuseMistakes(db, text), most)
  const sum = { added: 0, alreadyThere: 0 }
  const transactions: string[] = []
  for await (const rows of readBites(db, text)) {
    // Mail that is refused meanwhile suppresses in an order of its own: PostgreSQL may end one of two that wait in a circle.
    const { added, by } = await repeating(() => insertSuppressions(db, workspace, rows, actor))
    if (by !== undefined) transactions.push(by)
    sum.added += added
    if (added === rows.length) continue
    // Where the file repeats one of its own, that line is neither.
    const keys = rows.map((row) => row.key)
    sum.alreadyThere += rows.length - (await countOwnSuppressions(db, workspace, keys, transactions))
  }
  return sum
}

/** Throws where there would be too many. Imports at the same time do not see each other: so many more there may be. */
async function requireRoom(db: Db, workspace: WorkspaceId, text: string, lines: number, most: number): Promise<void> {
  const many = await countSuppressions(db, workspace, most)
  if (many + lines <= most) return
  let fresh = 0
  for await (const rows of readBites(db, text)) {
    const keys = rows.map((row) => row.key)
    fresh += keys.length - (await countSuppressionsAmong(db, workspace, keys))
  }
  if (fresh > 0 && many + fresh > most)
    throw new Mistake(
      `Nothing was imported. A workspace has at most ${most} suppressed recipients; this one has ${many}, and the file has ${fresh} more.`,
      { code: 'conflict', field: 'csv' },
    )
}

/** The rows of a file whose lines are right. */
async function* readBites(db: Db, text: string): AsyncGenerator<readonly NewSuppression[]> {
  let byKey = new Map<string, NewSuppression>()
  for await (const { row } of readSuppressions(db, text)) {
    if (typeof row === 'string') throw new Error('a line that was right is wrong')
    // Of two spellings the first stays, as it does in the table.
    if (!byKey.has(row.key)) byKey.set(row.key, row)
    if (byKey.size < limits.suppressionImportRows) continue
    yield [...byKey.values()]
    byKey = new Map()
  }
  if (byKey.size > 0) yield [...byKey.values()]
}

/** How many rows it has. Throws where a line is wrong, with the first of them. */
async function refuseMistakes(db: Db, text: string): Promise<number> {
  const mistakes: string[] = []
  let [rows, more] = [0, 0]
  for await (const { line, row } of readSuppressions(db, text)) {
    rows++
    if (typeof row !== 'string') continue
    if (mistakes.length < limits.importMistakesShownMax) mistakes.push(`line ${line}: ${row}`)
    else more++
  }
  if (mistakes.length > 0)
    throw new Mistake(['Nothing was imported.', ...mistakes, ...(more > 0 ? [`and ${more} more`] : [])].join('\n'), {
      field: 'csv',
    })
  return rows
}

/** Every line behind the head, as a row or as what is wrong with it. Millions of lines take seconds: others get their turn in between. */
async function* readSuppressions(
  db: Db,
  text: string,
): AsyncGenerator<{ readonly line: number; readonly row: NewSuppression | string }> {
  let places: Places | undefined
  /** Read where the file has times of its own: those of a file that is looked at twice lie before both. */
  let now = 0
  let turnEndsAt = performance.now() + limits.importTurnMs
  for (const { line, cells } of readCsv(text)) {
    if (performance.now() > turnEndsAt) {
      await setImmediate()
      turnEndsAt = performance.now() + limits.importTurnMs
    }
    if (places === undefined) {
      const named = placesIn(cells)
      places = named ?? { recipient: 0, reason: 1 }
      if (places.createdAt !== undefined) now = (await databaseNow(db)).getTime()
      if (named !== undefined) continue
      if (isForeignHead(cells)) {
        yield { line, row: foreignHead(cells) }
        // Which column of the lines behind it holds what, nobody has said.
        if (cells.length > 1) return
        continue
      }
    }
    yield { line, row: readLine(places, cells, now) }
  }
}

type Places = { readonly recipient: number } & { readonly [Column in (typeof columns)[number]]?: number }

/** Undefined where the line is no head; a head may name no other column. */
function placesIn(cells: readonly string[]): Places | undefined {
  const head = cells.map((cell) => cell.trim().toLowerCase())
  const recipient = head.findIndex((cell) => ['recipient', 'email', 'address'].includes(cell))
  if (recipient === -1) return undefined
  const others = columns.flatMap((column) => {
    const at = head.indexOf(column.toLowerCase())
    return at === -1 || column === 'recipient' ? [] : [[column, at] as const]
  })
  return { recipient, ...Object.fromEntries(others) }
}

/** Names of columns, as other services write them, and none that is known here. */
const isForeignHead = (cells: readonly string[]): boolean =>
  cells.every((cell) => !cell.includes('@')) && cells.some((cell) => cell.trim() !== '')

function foreignHead(cells: readonly string[]): string {
  const names = cells.map((cell) => `"${cell.trim().slice(0, 40)}"`).slice(0, 5)
  const more = cells.length > names.length ? ', ...' : ''
  return `there is no address in it, so it is taken for the head line, which must name the column of the addresses "recipient"; it names ${names.join(', ')}${more}`
}

/** The row, or what is wrong with it. An empty cell says nothing. */
function readLine(places: Places, cells: readonly string[], now: number): NewSuppression | string {
  const written = (column: (typeof columns)[number]): string => {
    const at = places[column]
    return at === undefined ? '' : (cells[at] ?? '')
  }
  const cell = (column: (typeof columns)[number]): string => written(column).trim()
  const recipient = cell('recipient')
  const address = parseAddress(recipient)
  if (address === undefined) return `"${recipient.slice(0, 100)}" ${unsupportedForm(recipient) ?? 'is not an address'}`
  const given = cell('reason') || 'manual'
  const reason = suppressionReasons.find((each) => each === given)
  if (reason === undefined) return `the reason must be one of ${suppressionReasons.join(', ')}`
  const origin = readOrigin({
    sourceMessageId: cell('sourceMessageId'),
    rule: cell('rule'),
    evidence: written('evidence'), // blanks at its ends are the stranger's own
    createdAt: cell('createdAt'),
    now,
  })
  return typeof origin === 'string' ? origin : { key: address.key, recipient: address.text, reason, ...origin }
}

/** Of one line or several, as a report's own words are kept. */
const controls = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]/g

type Origin = Pick<NewSuppression, 'sourceMessageId' | 'rule' | 'evidence' | 'createdAt'>

/**
 * Where a suppression came from, as an export tells it. A rule need not be one of this release: it is a name by which what it did can be taken
 * back, and those of other releases mean what they meant.
 */
function readOrigin({
  sourceMessageId,
  rule,
  evidence: words,
  createdAt,
  now,
}: Readonly<Record<'sourceMessageId' | 'rule' | 'evidence' | 'createdAt', string>> & { readonly now: number }):
  | Origin
  | string {
  if (sourceMessageId !== '' && !/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(sourceMessageId))
    return 'the sourceMessageId must be the id of a message'
  if (rule.length > limits.importedRuleCharactersMax || !/^[\w.:-]*$/.test(rule))
    return `the rule must be a name of at most ${limits.importedRuleCharactersMax} letters, digits and hyphens`
  // Before anything is made of it: a cell may be the whole file.
  if (words.length > limits.evidenceCharactersMax + "'".length)
    return `the evidence must have at most ${limits.evidenceCharactersMax} characters`
  const evidence = fromWords(words).toWellFormed().replaceAll(controls, ' ')
  const time = createdAt === '' ? undefined : timeIn(createdAt)
  if (createdAt !== '' && time === undefined) return 'the createdAt must be a date, or a time with its zone'
  if (time !== undefined && time.getTime() < 0) return 'the createdAt must not be before 1970'
  if (time !== undefined && time.getTime() > now) return 'the createdAt must not be in the future'
  return {
    ...(sourceMessageId !== '' && { sourceMessageId }),
    ...(rule !== '' && { rule }),
    ...(evidence !== '' && { evidence }),
    ...(time !== undefined && { createdAt: time }),
  }
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
