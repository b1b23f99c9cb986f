// A large JSON body is mostly Base64 in a few long strings. They are lifted out of the bytes before the text is parsed, and a short mark
// takes the place of each: so no text and no string of that size is ever made, and files are decoded straight from the bytes. Only strings of
// plain ASCII whose only escape is `\/` are lifted; everything else takes the ordinary way.
import { isAscii } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import { limits } from '../config.ts'
import { decodeBase64 } from '../mail/base64.ts'

export interface Lifted {
  /** The body with marks in place of the strings. */
  readonly rest: Buffer
  isMark(text: string): boolean
  /** The string for a mark. Throws a `SyntaxError` where JSON forbids it, as the parser would have. */
  textOf(mark: string): string
  decodedLengthOf(mark: string): number
  /** What the string decodes to as Base64, or undefined; strict as `decodeBase64`. */
  decode(mark: string): Buffer | undefined
}

interface LongString {
  readonly bytes: Buffer
  /** Times that `/` is written `\/`. */
  readonly escapes: number
}

const quote = 0x22
const backslash = 0x5c
const slash = 0x2f
const colon = 0x3a
const liftedBytesMin = 16 * 1024
/** Small enough that the texts of the pieces die young. */
const pieceBytes = 48 * 1024

export function liftStrings(body: Buffer): Lifted {
  const prefix = `lifted ${randomBytes(16).toString('hex')} `
  const strings = new Map<string, LongString>()
  const parts: Buffer[] = []
  let kept = 0
  let at = 0
  // More strings than that are refused by the parser; they need no lifting.
  for (let count = 0; count < 4 * limits.jsonMembersMax; count++) {
    const opening = body.indexOf(quote, at)
    const closing = opening < 0 ? -1 : closingQuote(body, opening + 1)
    if (closing < 0) break
    at = closing + 1
    if (closing - opening <= liftedBytesMin || isName(body, at)) continue
    const bytes = body.subarray(opening + 1, closing)
    const escapes = isAscii(bytes) ? slashEscapes(bytes) : undefined
    if (escapes === undefined) continue
    const mark = `${prefix}${strings.size}`
    strings.set(mark, { bytes, escapes })
    parts.push(body.subarray(kept, opening + 1), Buffer.from(mark))
    kept = closing
  }
  parts.push(body.subarray(kept))
  const string = (mark: string): LongString => {
    const found = strings.get(mark)
    if (found === undefined) throw new Error('not a mark')
    return found
  }
  return {
    rest: Buffer.concat(parts),
    isMark: (text) => strings.has(text),
    textOf: (mark) => String(JSON.parse(`"${string(mark).bytes.toString('latin1')}"`)),
    decodedLengthOf: (mark) => decodedLength(string(mark)),
    decode: (mark) => decode(string(mark)),
  }
}

/** The index of the closing quote, or -1. Short strings are walked; long ones are jumped over from quote to quote. */
function closingQuote(body: Buffer, from: number): number {
  let at = from
  for (;;) {
    const stop = Math.min(at + 256, body.length)
    for (; at < stop; at++) {
      const byte = body[at]
      if (byte === quote) return at
      if (byte === backslash) at++
    }
    if (at >= body.length) return -1
    const next = body.indexOf(quote, at)
    if (next < 0) return -1
    let escapes = 0
    while (next - 1 - escapes >= at && body[next - 1 - escapes] === backslash) escapes++
    if (escapes % 2 === 0) return next
    at = next + 1
  }
}

function isName(body: Buffer, afterString: number): boolean {
  let at = afterString
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at++
  return body[at] === colon
}

/** How many `\/` there are; undefined where there is another escape. PHP writes every slash so. */
function slashEscapes(bytes: Buffer): number | undefined {
  let count = 0
  for (let at = bytes.indexOf(backslash); at >= 0; at = bytes.indexOf(backslash, at + 2)) {
    if (bytes[at + 1] !== slash) return undefined
    count++
  }
  return count
}

function decodedLength({ bytes, escapes }: LongString): number {
  const padding = bytes.at(-1) !== 0x3d ? 0 : bytes.at(-2) !== 0x3d ? 1 : 2
  return Math.floor(((bytes.length - escapes - padding) * 3) / 4)
}

/** Piece by piece, each a multiple of four characters, into one buffer that can be handed to another thread. */
function decode(string: LongString): Buffer | undefined {
  const { bytes } = string
  const decoded = Buffer.allocUnsafeSlow(decodedLength(string))
  let filled = 0
  let carry = ''
  for (let at = 0; at < bytes.length;) {
    let end = Math.min(at + pieceBytes, bytes.length)
    if (bytes[end - 1] === backslash) end++ // an escape is not torn apart
    const written = bytes.toString('latin1', at, end)
    const text = carry + (string.escapes === 0 ? written : written.replaceAll('\\/', '/'))
    const whole = end === bytes.length ? text.length : text.length - (text.length % 4)
    const piece = decodeBase64(text.slice(0, whole))
    if (piece === undefined || (end < bytes.length && piece.length !== (whole / 4) * 3)) return undefined
    if (filled + piece.length > decoded.length) return undefined
    filled += piece.copy(decoded, filled)
    carry = text.slice(whole)
    at = end
  }
  return filled === decoded.length ? decoded : undefined
}
