// Suppressed recipients as files have them: our own export, what other services export (docs/moving.md), or one address a line. Every line becomes
// a row, or what is wrong with it, in words.
import { given } from '../base/given.ts'
import { setImmediate } from 'node:timers/promises'
import { isUuid } from '../base/uuid.ts'
import { limits } from '../config.ts'
import { parseAddress, unsupportedForm } from '../mail/address.ts'
import { databaseNow, type Db } from '../store/database.ts'
import { suppressionReasons } from '../store/suppressions.ts'
import type { NewSuppression, SuppressionReason } from '../store/suppressions.ts'
import { readCsv, separatorOf, type Separator } from './csv-rfc4180.ts'

export const columns = ['recipient', 'reason', 'createdAt', 'sourceMessageId', 'rule', 'evidence'] as const
type Column = (typeof columns)[number]

/**
 * By which names a head line may call each column, without case, blanks and marks; where it has several of them, the first one here counts. Ours; then
 * those of Postmark (whose `Origin` is who did it), SendGrid, Mailgun, SES, Brevo and Mandrill; and of Resend, whose `origin` is the reason.
 */
const names: Record<Column, readonly string[]> = {
  recipient: ['recipient', 'email', 'address', 'emailaddress'],
  reason: ['reason', 'suppressionreason', 'origin'],
  createdAt: ['createdat', 'created', 'lastupdatetime', 'blockedat'],
  sourceMessageId: ['sourcemessageid'],
  rule: ['rule'],
  evidence: ['evidence', 'error', 'detail'],
}

/** The words of the same services for our reasons. What the recipient or an operator wished is `manual`: there is no reason for each. */
const words: Record<SuppressionReason, readonly string[]> = {
  hard_bounce: ['hardbounce', 'bounce', 'bounced'],
  complaint: ['complaint', 'complained', 'spamcomplaint', 'contactflaggedasspam', 'spam', 'spamreport'],
  manual: [
    'manual',
    'manualsuppression',
    'adminblocked',
    'custom',
    'unsub',
    'unsubscribe',
    'unsubscribed',
    'unsubscribedviaemail',
    'unsubscribedviaapi',
    'unsubscribedviama',
  ],
}
/** What ends by itself suppresses nobody, whatever the list is called that it comes from. */
const passing: readonly string[] = ['softbounce', 'softbounced', 'block', 'transient']

/** Cut first: a cell may be the whole file. */
const plain = (text: string): string =>
  text
    .slice(0, 100)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')

type Places = { readonly recipient: number } & { readonly [C in Column]?: number }

/** How a file is written, as its first line shows. */
export interface FileShape {
  readonly separator: Separator
  readonly places: Places
  /** What its head line names, and nobody reads; undefined where it has no head line. */
  readonly ignored?: readonly string[]
}

export function shapeOf(text: string): FileShape {
  const separator = separatorOf(text)
  const [first] = readCsv(text, separator)
  const places = placesIn(first?.cells ?? [])
  if (places === undefined) return { separator, places: { recipient: 0, reason: 1 } }
  const read = Object.values(places)
  const ignored = first?.cells.filter((cell, at) => cell.trim() !== '' && !read.includes(at)) ?? []
  return { separator, places, ignored: ignored.slice(0, limits.importMistakesShownMax).map(shown) }
}

/** Undefined where the line is no head; a head may name no other column. */
function placesIn(cells: readonly string[]): Places | undefined {
  const head = cells.map(plain)
  const places: { [C in Column]?: number } = {}
  for (const column of columns) {
    const at = names[column].map((name) => head.indexOf(name)).find((each) => each !== -1)
    if (at !== undefined) places[column] = at
  }
  const { recipient, ...others } = places
  return recipient === undefined ? undefined : { recipient, ...others }
}

/**
 * Every line behind the head, as a row or as what is wrong with it. `otherwise` is the reason of lines that tell none. Millions of lines take seconds:
 * others get their turn in between.
 */
export async function* readSuppressions(
  db: Db,
  text: string,
  { separator, places, ignored }: FileShape,
  otherwise?: SuppressionReason,
): AsyncGenerator<{ readonly line: number; readonly row: NewSuppression | string }> {
  /** Read where the file has times of its own: those of a file that is looked at twice lie before both. */
  const now = places.createdAt === undefined ? 0 : (await databaseNow(db)).getTime()
  let turnEndsAt = performance.now() + limits.importTurnMs
  let isFirst = true
  for (const { line, cells } of readCsv(text, separator)) {
    if (performance.now() > turnEndsAt) {
      await setImmediate()
      turnEndsAt = performance.now() + limits.importTurnMs
    }
    if (isFirst) {
      isFirst = false
      if (ignored !== undefined) continue
      if (isForeignHead(cells)) {
        yield { line, row: foreignHead(cells) }
        // Which column of the lines behind it holds what, nobody has said.
        if (cells.length > 1) return
        continue
      }
    }
    yield { line, row: readLine(places, cells, { now, otherwise }) }
  }
}

/** Names of columns, and none that is known here. */
const isForeignHead = (cells: readonly string[]): boolean =>
  cells.every((cell) => !cell.includes('@')) && cells.some((cell) => cell.trim() !== '')

function foreignHead(cells: readonly string[]): string {
  const named = cells.map((cell) => `"${shown(cell)}"`).slice(0, 5)
  const more = cells.length > named.length ? ', ...' : ''
  return `there is no address in it, so it is taken for the head line, which must name the column of the addresses "recipient" (or "email", "address"); it names ${named.join(', ')}${more}`
}

const shown = (cell: string): string => cell.trim().slice(0, 40).replaceAll(controls, ' ')

interface Given {
  readonly now: number
  readonly otherwise: SuppressionReason | undefined
}

/** The row, or what is wrong with it. An empty cell says nothing. */
function readLine(places: Places, cells: readonly string[], { now, otherwise }: Given): NewSuppression | string {
  const written = (column: Column): string => {
    const at = places[column]
    return at === undefined ? '' : (cells[at] ?? '')
  }
  const cell = (column: Column): string => written(column).trim()
  const recipient = fromWords(cell('recipient'))
  const address = parseAddress(recipient)
  if (address === undefined) return `"${recipient.slice(0, 100)}" ${unsupportedForm(recipient) ?? 'is not an address'}`
  const given = cell('reason')
  const reason = reasonOf(given, otherwise)
  if (reason === undefined) return notAReason(given)
  const origin = readOrigin({
    sourceMessageId: cell('sourceMessageId'),
    rule: cell('rule'),
    // Blanks at its ends are the stranger's own.
    evidence: written('evidence') || (reason.isWord ? '' : given.slice(0, limits.evidenceCharactersMax)),
    createdAt: cell('createdAt'),
    now,
  })
  return typeof origin === 'string'
    ? origin
    : { key: address.key, recipient: address.text, reason: reason.is, ...origin }
}

/** Where it is no word for a reason, it is what a mail server said, if somebody has told what all of it means. */
function reasonOf(
  given: string,
  otherwise: SuppressionReason | undefined,
): { readonly is: SuppressionReason; readonly isWord: boolean } | undefined {
  if (given === '') return { is: otherwise ?? 'manual', isWord: true }
  const word = plain(given)
  const is = suppressionReasons.find((each) => words[each].includes(word))
  if (is !== undefined) return { is, isWord: true }
  return otherwise === undefined || passing.includes(word) ? undefined : { is: otherwise, isWord: false }
}

function notAReason(given: string): string {
  if (passing.includes(plain(given)))
    return `the reason "${shown(given)}" suppresses nobody for good: leave the line out`
  return `the reason "${shown(given)}" is no word for ${suppressionReasons.join(', ')}; if it is what a mail server said, say what it means: --reason hard_bounce ("reason" over the API)`
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
  evidence: said,
  createdAt,
  now,
}: Readonly<Record<'sourceMessageId' | 'rule' | 'evidence' | 'createdAt', string>> & { readonly now: number }):
  | Origin
  | string {
  if (sourceMessageId !== '' && !isUuid(sourceMessageId)) return 'the sourceMessageId must be the id of a message'
  if (rule.length > limits.importedRuleCharactersMax || !/^[\w.:-]*$/.test(rule))
    return `the rule must be a name of at most ${limits.importedRuleCharactersMax} letters, digits and hyphens`
  // Before anything is made of it: a cell may be the whole file.
  if (said.length > limits.evidenceCharactersMax + "'".length)
    return `the evidence must have at most ${limits.evidenceCharactersMax} characters; shorten it, or leave its column out`
  const evidence = fromWords(said).toWellFormed().replaceAll(controls, ' ')
  const time = createdAt === '' ? undefined : timeOfFile(createdAt)
  if (createdAt !== '' && time === undefined)
    return `the date "${shown(createdAt)}" must be written like 2026-11-01 or 2026-11-01T08:30:00Z; without its column the day of the import counts`
  if (time !== undefined && time.getTime() < 0) return `the date "${shown(createdAt)}" must not be before 1970`
  if (time !== undefined && time.getTime() > now) return `the date "${shown(createdAt)}" must not be in the future`
  return given<Origin>({
    sourceMessageId: sourceMessageId || undefined,
    rule: rule || undefined,
    evidence: evidence || undefined,
    createdAt: time,
  })
}

/**
 * What a stranger's server said, written so that no spreadsheet takes it for a formula (OWASP, CSV injection): an apostrophe more than it had, also before
 * such words that had one already. And an address, which anybody may have given: in `=cmd|'/cx'!A0+@a.b` all signs are those of an address.
 */
export const asWords = (text = ''): string => (/^'*[=+\-@\t\r]/.test(text) ? `'${text}` : text)
const fromWords = (text: string): string => text.replace(/^'(?='*[=+\-@\t\r])/, '')

/**
 * A date, or a time, in UTC where no zone is named; as mail has them (RFC 5322 3.3, Mailgun); or in seconds since 1970 (SendGrid). What may mean the first of
 * February or the second of January is none.
 */
function timeOfFile(text: string): Date | undefined {
  const time = writtenTime(text)
  return time !== undefined && Number.isNaN(time.getTime()) ? undefined : time
}

function writtenTime(text: string): Date | undefined {
  if (/^\d{9,10}$/.test(text)) return new Date(Number(text) * 1000)
  const mail =
    /^(?:[A-Z][a-z]{2}, )?((\d{1,2}) [A-Z][a-z]{2} (?:19|20)\d\d) \d\d:\d\d:\d\d (?:UTC|GMT|[+-]\d{4})$/.exec(text)
  if (mail !== null) return isThere(`${mail[1]} UTC`, mail[2]) ? new Date(text) : undefined
  const iso =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)\d{0,6} ?(?:(Z|UTC)|([+-]\d\d):?(\d\d)?)?)?$/.exec(
      text,
    )
  if (iso === null) return undefined
  const [, date = '', clock = '00:00', , hours, minutes = '00'] = iso
  if (!isThere(date, date.slice(8))) return undefined
  return new Date(`${date}T${clock}${hours === undefined ? 'Z' : `${hours}:${minutes}`}`)
}

/** `Date` takes the 30 February for the 2 March. */
const isThere = (date: string, day?: string): boolean => new Date(date).getUTCDate() === Number(day)
