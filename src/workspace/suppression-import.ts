// Suppressed recipients from a file: a wrong line is named and nothing is written; else its rows are written bite by bite.
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { despiteDeadlocks, type Db } from '../store/database.ts'
import {
  countOwnSuppressions,
  countSuppressions,
  countSuppressionsAmong,
  insertSuppressions,
  type NewSuppression,
  type SuppressionReason,
} from '../store/suppressions.ts'
import { Mistake } from './mistake.ts'
import { readSuppressions, shapeOf, type FileShape } from './suppression-file.ts'

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
