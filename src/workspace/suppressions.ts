// Suppressed recipients of a workspace: by hand, by a rule that was wrong, and as pages and CSV. Their statements write down who did it, so that
// nothing here is `audited`.
import { given, shown, type Given } from '../base/given.ts'
import { remembered } from '../base/remembered.ts'
import { doneFor } from '../base/turns.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Page } from '../domain/page.ts'
import { parseAddress, unsupportedForm, type EmailAddress } from '../mail/address.ts'
import { parseDateTime } from '../mail/date-time-rfc3339.ts'
import type { Db } from '../store/database.ts'
import {
  countSuppressions,
  countSuppressionsAmong,
  deleteSuppression,
  findSuppression,
  insertSuppressions,
  pageSuppressions,
  searchSuppressions,
  undoSuppressions,
  type SuppressionReason,
  type SuppressionRow,
} from '../store/suppressions.ts'
import type { By } from './by.ts'
import { writeCsv } from './csv-rfc4180.ts'
import { Mistake, notThere } from './mistake.ts'
import { asWords, columns } from './suppression-file.ts'

export type Suppression = Given<Omit<SuppressionRow, 'recipientKey'>>

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

/** How many a workspace has is counted only now and then: one with very many can add some more before it is noticed. */
export function suppressing(
  { db }: { readonly db: Db },
  most: number = limits.suppressionsPerWorkspaceMax,
): (by: By, recipient: string) => Promise<Suppression> {
  // A count that takes too long refuses nobody.
  const count = (workspace: string) => countSuppressions(db, workspace as WorkspaceId, most).catch(() => 0)
  const counted = remembered(count, { keepMs: () => limits.suppressionsCountedMs, most: limits.suppressionAskersMax })
  return async (by, recipient) => {
    const key = parseAddress(recipient)?.key
    const isFull = key !== undefined && (await counted(by.workspaceId)) >= most
    if (isFull && (await countSuppressionsAmong(db, by.workspaceId, [key])) === 0)
      throw new Mistake(`A workspace has at most ${most} suppressed recipients.`, { code: 'conflict' })
    return addSuppression(db, by.workspaceId, recipient, by.actor)
  }
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

export async function unsuppressFor({ db }: { readonly db: Db }, by: By, recipient: string): Promise<void> {
  if (parseAddress(recipient) === undefined) throw notThere('suppression')
  await removeSuppression(db, by.workspaceId, recipient, by.actor)
}

/**
 * Takes back everything that one rule did in a time range: after a wrong rule, or a provider that said wrong things for a day. `mayGoOn` is asked before
 * each bite, and throws where whoever does it may do so no longer.
 */
export async function undoRule(
  db: Db,
  workspace: WorkspaceId,
  range: { readonly rule: string; readonly since: string; readonly until?: string | undefined },
  actor: string,
  mayGoOn?: () => Promise<void>,
): Promise<{ readonly removed: number }> {
  const until = range.until === undefined ? undefined : parseTime(range.until, 'until')
  const parsed = { rule: range.rule, since: parseTime(range.since, 'since'), ...(until !== undefined && { until }) }
  if (until !== undefined && parsed.since >= until)
    throw new Mistake('"since" must be before "until".', { field: 'since' })
  let removed = 0
  for (let after: string | undefined = ''; after !== undefined;) {
    await mayGoOn?.()
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

/** In the order of addresses. The cursor is the last address that the page before looked at: of those with a prefix or reason it looks at a bounded number. */
export async function pageSuppressionsOf(
  { db }: { readonly db: Db },
  workspace: WorkspaceId,
  wish: {
    readonly prefix?: string
    readonly reason?: SuppressionReason
    readonly after?: string
    readonly most: number
  },
): Promise<Page<Suppression>> {
  const { most, reason } = wish
  const text = (wish.prefix ?? '').trim()
  // A whole address is looked for as it is compared.
  const prefix = parseAddress(text)?.key ?? text.toLowerCase().normalize('NFC')
  const { rows, next } = await searchSuppressions(db, workspace, { after: wish.after ?? '', prefix, reason, most })
  return given<Page<Suppression>>({ items: rows.map(presentSuppression), next })
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
    // For each page anew: an export is read after its request has been answered, in whatever context the stream is pulled.
    const rows = await doneFor(workspace, () => pageSuppressions(db, workspace, after, limits.suppressionImportRows))
    for (const row of rows) yield presentSuppression(row)
    const last = rows.at(-1)
    if (last === undefined || rows.length < limits.suppressionImportRows) return
    after = last.recipientKey
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

function requireAddress(text: string): EmailAddress {
  const address = parseAddress(text)
  if (address === undefined)
    throw new Mistake(`"${text}" ${unsupportedForm(text) ?? 'is not an address, such as ada@example.com'}.`, {
      field: 'recipient',
    })
  return address
}

const presentSuppression = ({ recipientKey: _key, ...row }: SuppressionRow): Suppression => shown(row)
