// Header fields as they are read (RFC 5322 2.2, 2045 5.1): unfolding, parameters with their extended form (RFC 2231), encoded words
// (RFC 2047). Lenient and linear: strangers wrote them.
import { decodeCharset, decodePieces, utf8OrWindows1252 } from './charset.ts'

export interface MimeField {
  /** Lower case. */
  readonly name: string
  /** The whole field as it stood, folds included, without the line end at its end. */
  readonly raw: Buffer
  /** Where its colon stands. */
  readonly at: number
}

export interface Parameterized {
  /** Lower case: `text/plain`, `attachment`, `base64`. */
  readonly value: string
  /** By lower-case name; the first one of a name counts. */
  readonly parameters: ReadonlyMap<string, string>
  /** No semicolon stands between the two: readers differ in what they make of it. */
  readonly isLoose?: true
}

/** The value in one line, without blanks around it. */
export function unfolded(field: MimeField): string {
  const text = utf8OrWindows1252(field.raw.subarray(field.at + 1))
  // Only line ends go (RFC 5322 2.2.3).
  return (/[\r\n]/.test(text) ? text.replace(/[\r\n]+/g, '') : text).trim()
}

/** `value; name=text; name="text"; name*=utf-8''text; name*0=...`, with comments. Whatever is broken is left out. */
export function parseParameterized(text: string): Parameterized {
  const scan = new Scan(text)
  const sections = new Map<string, string>()
  const take = (name: string): void => {
    const given = scan.pass('=') ? scan.token(';') : undefined
    if (name !== '' && given !== undefined && !sections.has(name)) sections.set(name, given)
  }
  let value = scan.token('=;').toLowerCase()
  // `text/html charset=utf-8`, or a parameter alone.
  const isLoose = scan.isAt('=')
  if (isLoose) {
    const blank = Math.max(value.lastIndexOf(' '), value.lastIndexOf('\t'))
    take(value.slice(blank + 1))
    value = value.slice(0, Math.max(0, blank)).trimEnd()
  }
  while (scan.pass(';')) take(scan.token('=;').toLowerCase())
  return { value, parameters: joined(sections), ...(isLoose && { isLoose }) }
}

/** Goes once over the text; quoted strings lose their quotes, comments (RFC 5322 3.2.2) vanish. */
class Scan {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  isAt(character: string): boolean {
    return this.#text[this.#at] === character
  }

  pass(character: string): boolean {
    if (!this.isAt(character)) return false
    this.#at++
    return true
  }

  token(ends: string): string {
    let out = ''
    /** Blanks behind this stood outside quotes: they are not part of it. */
    let kept = 0
    let quoted = false
    for (; this.#at < this.#text.length; this.#at++) {
      const character = this.#text.charAt(this.#at)
      if (!quoted && ends.includes(character)) break
      if (!quoted && character === '(') {
        this.#comment()
        continue
      }
      const blank = !quoted && (character === ' ' || character === '\t')
      if (character === '"') quoted = !quoted
      else if (quoted && character === '\\' && this.#at + 1 < this.#text.length) out += this.#text.charAt(++this.#at)
      else if (!blank || out !== '') out += character
      if (!blank) kept = out.length
    }
    return out.slice(0, kept)
  }

  #comment(): void {
    let depth = 0
    for (; this.#at < this.#text.length; this.#at++) {
      const character = this.#text.charAt(this.#at)
      if (character === '\\') this.#at++
      else if (character === '(') depth++
      else if (character === ')' && --depth === 0) return
    }
  }
}

interface Section {
  /** -1: it is the whole. */
  readonly number: number
  readonly isEncoded: boolean
  readonly text: string
}

/** RFC 2231. The extended form wins over the plain one. */
function joined(sections: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const out = new Map<string, string>()
  const extended = new Map<string, Section[]>()
  for (const [name, text] of sections) {
    if (!name.includes('*')) out.set(name, text)
    const [, base, digits, star] = /^([^*]+)\*(?:(\d{1,9})(\*?))?$/.exec(name) ?? []
    if (base === undefined) continue
    const all = extended.get(base) ?? []
    all.push({ number: Number(digits ?? -1), isEncoded: digits === undefined || star === '*', text })
    extended.set(base, all)
  }
  for (const [base, all] of extended) out.set(base, decoded(all))
  return out
}

/** In the order of their numbers, whichever these are: other readers, too, join what has a gap, or begins with 1. The first one tells the charset. */
function decoded(all: readonly Section[]): string {
  const sorted = all.toSorted(
    (one, other) => one.number - other.number || Number(other.isEncoded) - Number(one.isEncoded),
  )
  const each = sorted[0]?.number === -1 ? sorted.slice(0, 1) : sorted
  let charset: string | undefined
  const octets: Buffer[] = []
  for (const [at, { number, isEncoded, text }] of each.entries()) {
    if (number === each[at - 1]?.number) continue
    const prefix = at === 0 && isEncoded ? /^([^']{0,40})'[^']{0,40}'/.exec(text) : null
    charset ??= prefix?.[1]
    octets.push(isEncoded ? percentDecoded(text.slice(prefix?.[0].length ?? 0)) : Buffer.from(text))
  }
  return decodeCharset(Buffer.concat(octets), charset)
}

function percentDecoded(text: string): Buffer {
  return Buffer.from(
    text
      .replace(/[^\x00-\xff]/g, '?')
      .replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  )
}

const encodedWord = /=\?([^?\s*]{1,40})(?:\*[^?\s]{0,40})?\?([BbQq])\?([^?\r\n]{0,998})\?=/g

/**
 * Text with its encoded words read, each for itself, also those that hold blanks, as some programs write them. Blanks between two of them vanish, and a
 * character may be split over two (which RFC 2047 forbids, as it does blanks inside).
 */
export function decodeWords(text: string): string {
  if (!text.includes('=?')) return text
  let out = ''
  let pending: { charset: string; bytes: Buffer[] } | undefined
  let end = 0
  const flush = (): void => {
    if (pending !== undefined) out += decodePieces(pending.bytes, pending.charset)
    pending = undefined
  }
  for (const match of text.matchAll(encodedWord)) {
    const [whole, charset = '', encoding = '', content = ''] = match
    const between = text.slice(end, match.index)
    if (pending === undefined || /\S/.test(between)) {
      flush()
      out += between
    } else if (pending.charset !== charset.toLowerCase()) flush()
    pending ??= { charset: charset.toLowerCase(), bytes: [] }
    pending.bytes.push(encoding.toUpperCase() === 'B' ? Buffer.from(content, 'base64') : qDecoded(content))
    end = match.index + whole.length
  }
  flush()
  return out + text.slice(end)
}

function qDecoded(text: string): Buffer {
  return Buffer.from(
    text
      .replaceAll('_', ' ')
      .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  )
}
