// What a command answers: one JSON value with --json, else short text for people. Nothing else goes to standard output.
import { escapedJson, terminalControls } from '../base/terminal-controls.ts'
import { Trouble, wordsOf } from '../base/trouble.ts'

export interface Printer {
  /** `text` is made only when it is shown. */
  show(value: unknown, text: () => string): void
  /** A list of any length, as it comes: what is written is let go. `text` has whole lines. */
  showEach<T>(values: AsyncIterable<T>, text: (values: AsyncIterable<T>) => AsyncIterable<string>): Promise<void>
}

export function makePrinter(json: boolean, write: (text: string) => void): Printer {
  return {
    show: (value, text) => {
      const words = json ? escapedJson(JSON.stringify(value, undefined, 2)) : plain(text())
      if (words !== '') write(words.endsWith('\n') ? words : `${words}\n`)
    },
    showEach: async (values, text) => {
      for await (const words of json ? asArray(values) : text(values)) write(json ? escapedJson(words) : plain(words))
    },
  }
}

/** As `JSON.stringify` writes the whole. */
async function* asArray(values: AsyncIterable<unknown>): AsyncGenerator<string> {
  let isEmpty = true
  for await (const value of values) {
    yield `${isEmpty ? '[' : ','}\n  ${JSON.stringify(value, undefined, 2).replaceAll('\n', '\n  ')}`
    isEmpty = false
  }
  yield isEmpty ? '[]\n' : '\n]\n'
}

/** Text of strangers must not move the cursor. */
const plain = (text: string): string => text.replace(terminalControls, ' ')

type Cell = string | number | boolean | Date | undefined | null

/** Columns under their heads, as wide as their widest cell. Where there are as many rows as were asked for, nobody could see that there are more. */
export function table(
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
  none: string,
  limit = Infinity,
): string {
  if (rows.length === 0) return none
  const lines = [heads, ...rows.map((row) => row.map(cellText))]
  const more = rows.length < limit ? [] : ['', `(the latest ${limit}; a higher --limit shows older ones)`]
  return [...inColumns(lines, widthsOf(lines)), ...more].join('\n')
}

/** The rows of a long table whose columns are as wide as their widest cell: behind them a wider cell widens its column. */
const rowsMeasured = 1_000

/** The same for rows without end, in pieces. */
export async function* longTable(
  heads: readonly string[],
  rows: AsyncIterable<readonly Cell[]>,
  none: string,
): AsyncGenerator<string> {
  let widths: readonly number[] = []
  let lines: (readonly string[])[] = [heads]
  let some = false
  const piece = (): string => {
    widths = widthsOf(lines, widths)
    const text = inColumns(lines, widths).map((line) => `${line}\n`)
    lines = []
    return text.join('')
  }
  for await (const row of rows) {
    some = true
    if (lines.push(row.map(cellText)) > rowsMeasured) yield piece()
  }
  if (some) yield piece()
  else yield `${none}\n`
}

const widthsOf = (lines: readonly (readonly string[])[], before: readonly number[] = []): readonly number[] =>
  (lines[0] ?? before).map((_, column) =>
    lines.reduce((most, line) => Math.max(most, columnsOf(line[column] ?? '')), before[column] ?? 0),
  )

/** How many columns a terminal gives a text: two to Han, Kana, Hangul and pictures, none to what stands on another letter. */
const columnsOf = (text: string): number =>
  isPlainAscii.test(text) ? text.length : Array.from(text, columnsOfOne).reduce((all, of) => all + of, 0)
const isPlainAscii = /^[ -~]*$/
const columnsOfOne = (letter: string): number => (isOnAnother.test(letter) ? 0 : isWide.test(letter) ? 2 : 1)
const isOnAnother = /[\p{M}\p{Cf}]/u
const isWide =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60]/u

const inColumns = (lines: readonly (readonly string[])[], widths: readonly number[]): string[] =>
  lines.map((line) =>
    line
      .map((cell, column) => cell + ' '.repeat(Math.max(0, (widths[column] ?? 0) - columnsOf(cell))))
      .join('  ')
      .trimEnd(),
  )

/** `name: value` lines; what has no value is left out. */
export function facts(pairs: Readonly<Record<string, Cell>>): string {
  const known = Object.entries(pairs).filter(([, value]) => value !== undefined && value !== null)
  const width = Math.max(...known.map(([name]) => name.length)) + 2
  return known.map(([name, value]) => `${`${name}:`.padEnd(width)}${cellText(value)}`).join('\n')
}

/** Whether a key or a login still lets in, and until when. */
export function endOf({
  revokedAt,
  expiresAt,
  expired,
}: {
  revokedAt?: Date
  expiresAt?: Date
  expired: boolean
}): string {
  if (revokedAt !== undefined) return `revoked ${revokedAt.toISOString()}`
  if (expiresAt === undefined) return 'valid'
  return `${expired ? 'expired' : 'valid until'} ${expiresAt.toISOString()}`
}

/** A name as a shell reads it, in a command to paste. */
export const asWord = (name: string): string => (/^\w[\w.-]*$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`)

/** A cell has one line. */
function cellText(value: Cell): string {
  if (value === undefined || value === null) return ''
  if (value instanceof Date) return value.toISOString()
  return String(value).replace(/\p{Cc}/gu, ' ')
}

/** The words of an error and its causes, for people. Trouble says all there is to say. */
export function sentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const words = wordsOf(error)
  return plain(error.cause === undefined || error instanceof Trouble ? words : `${words}: ${sentenceOf(error.cause)}`)
}
