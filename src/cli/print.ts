// What a command answers: one JSON value with --json, else short text for people. Nothing else goes to standard output.
import { escapedJson, terminalControls } from '../base/terminal-controls.ts'
import { Trouble, wordsOf } from '../base/trouble.ts'

export interface Printer {
  /** `text` is made only when it is shown. */
  show(value: unknown, text: () => string): void
}

export function makePrinter(json: boolean, write: (text: string) => void): Printer {
  return {
    show: (value, text) => {
      const words = json ? escapedJson(JSON.stringify(value, undefined, 2)) : plain(text())
      if (words !== '') write(words.endsWith('\n') ? words : `${words}\n`)
    },
  }
}

/** Text of strangers must not move the cursor. */
const plain = (text: string): string => text.replace(terminalControls, ' ')

type Cell = string | number | boolean | Date | undefined | null

/** Columns under their heads, as wide as their widest cell. */
export function table(heads: readonly string[], rows: readonly (readonly Cell[])[], none: string): string {
  if (rows.length === 0) return none
  const lines = [heads, ...rows.map((row) => row.map(cellText))]
  const widths = heads.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)))
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

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
