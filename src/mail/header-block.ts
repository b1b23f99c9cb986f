// The header of a mail whose lines end with CRLF (RFC 5322 2.2), read strictly: every line is a field or its continuation, so that no
// reader finds another end of the header than we do. A character is an octet (latin1), whatever the octets mean.
import { limits } from '../config.ts'

export interface HeaderLine {
  /** Lower case. */
  readonly name: string
  /** What stands behind the colon: folds included, without the CRLF at its end. */
  readonly value: string
  /** Octets of the whole field with its CRLF: `[start, end)`. */
  readonly start: number
  readonly end: number
}

export interface HeaderBlock {
  readonly lines: readonly HeaderLine[]
  /** Where the empty line, or else the end of the mail, begins. */
  readonly end: number
  readonly bodyStart: number
}

const fieldName = /^[!-9;-~]+(?=:)/

/** Where the header ends; undefined where it is longer than `bytesMax`. */
export function headerEnd(mail: Buffer, bytesMax: number): number | undefined {
  const empty = mail.subarray(0, bytesMax + 4).indexOf('\r\n\r\n')
  const end = mail[0] === 13 ? 0 : empty < 0 ? mail.length : empty + 2
  return end > bytesMax ? undefined : end
}

/** Undefined where a line is no field, or the header is longer than `bytesMax`. */
export function readHeaderBlock(mail: Buffer, bytesMax: number): HeaderBlock | undefined {
  const end = headerEnd(mail, bytesMax)
  if (end === undefined) return undefined
  const text = mail.toString('latin1', 0, end)
  const lines: HeaderLine[] = []
  for (let at = 0; at < end;) {
    let next = text.indexOf('\r\n', at) + 2
    // A continuation begins with a blank (2.2.3).
    while (next > 1 && next < end && (text[next] === ' ' || text[next] === '\t')) next = text.indexOf('\r\n', next) + 2
    if (next < 2) next = end
    const name = fieldName.exec(text.slice(at, Math.min(next, at + nameOctetsMax)))?.[0]
    if (name === undefined) return undefined
    const valueEnd = text.startsWith('\r\n', next - 2) ? next - 2 : next
    lines.push({ name: name.toLowerCase(), value: text.slice(at + name.length + 1, valueEnd), start: at, end: next })
    at = next
  }
  return { lines, end, bodyStart: end === mail.length ? end : end + 2 }
}

const nameOctetsMax = 998

/** The value in one line, its octets read as UTF-8. */
export function lineText({ value }: HeaderLine): string {
  const text = value.includes('\r') ? value.replaceAll('\r\n', '') : value
  return withoutBlanks(/[^\x00-\x7f]/.test(text) ? Buffer.from(text, 'latin1').toString() : text)
}

/**
 * Without space and tab at both ends, which alone are white space (RFC 5322 3.2.2): what JavaScript takes for it besides, a form feed or
 * U+00A0, belongs to the value for other readers.
 */
export function withoutBlanks(text: string): string {
  const isBlank = (at: number): boolean => text[at] === ' ' || text[at] === '\t'
  let start = 0
  let end = text.length
  while (start < end && isBlank(start)) start++
  while (end > start && isBlank(end - 1)) end--
  return text.slice(start, end)
}

/** Whether a line has more than so many octets, its CRLF apart. Every line ends within each window of the limit: no need to look at lines one by one. */
export function hasLongLine(mail: Buffer, octetsMax: number): boolean {
  const window = octetsMax + 2
  for (let at = 0; mail.length - at > window;) {
    const end = mail.lastIndexOf(10, at + window - 1)
    if (end < at) return true
    at = end + 1
  }
  return false
}

/** How many fields have this name, in the header as far as it is read. Its lines may end with LF or CR alone. */
export function countFields(mail: Buffer, name: string): number {
  const text = mail.toString('latin1', 0, limits.mimeHeaderBytesMax)
  const end = text.search(/\n\r?\n|\r\r/)
  return (end < 0 ? text : text.slice(0, end)).match(new RegExp(`^${name}:`, 'gim'))?.length ?? 0
}
