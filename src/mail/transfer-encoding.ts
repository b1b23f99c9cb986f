// Content-Transfer-Encoding (RFC 2045 6): how a text or a file travels in lines of 7-bit octets. Texts end their lines with CRLF
// whatever they came with; apart from that they read back exactly.

interface EncodedText {
  readonly encoding: '7bit' | 'quoted-printable' | 'base64'
  /** Without a CRLF at the end that the text does not have. */
  readonly bytes: Buffer
}

const TAB = 9
const LF = 10
const CR = 13
const SPACE = 32
const DASH = 45
const EQUALS = 61
/** RFC 5322 2.1.1 allows 998; a relay may add to a line. */
const plainLineMax = 990
const base64LineBytes = 57
const encodedLineMax = 76

/** The plainest encoding that carries the text; never 7bit where the text has `forbidden`, which stands in no encoded text. */
export function encodeText(text: string, forbidden?: string): EncodedText {
  const given = Buffer.from(text)
  const seen = survey(given)
  const bytes = seen.bareLineEnds === 0 ? given : withCrlf(given, seen.bareLineEnds)
  const allowed = forbidden === undefined || !text.includes(forbidden)
  if (allowed && seen.unsafe === 0 && seen.longestLine <= plainLineMax) return { encoding: '7bit', bytes }
  const escaped = seen.unsafe + seen.equals
  // Each escape costs two octets more, Base64 a third of everything.
  if (escaped * 6 <= bytes.length) {
    const lengthMax = bytes.length + 2 * (escaped + seen.lineEnds + 1)
    return { encoding: 'quoted-printable', bytes: quotedPrintable(bytes, lengthMax) }
  }
  return { encoding: 'base64', bytes: base64(bytes) }
}

interface EncodedOctets extends EncodedText {
  readonly encoding: 'quoted-printable' | 'base64'
}

/** For octets that may not travel as they are: they read back exactly. A text stays readable where that costs less. */
export function encodeOctets(bytes: Buffer, isText: boolean): EncodedOctets {
  const seen = survey(bytes)
  const escaped = seen.unsafe + seen.equals
  // A line end of quoted-printable is CRLF, and to some readers LF: a bare one, and any in what is no text, would not survive.
  if (isText && seen.bareLineEnds === 0 && escaped * 6 <= bytes.length) {
    const lengthMax = bytes.length + 2 * (escaped + seen.lineEnds + 1)
    return { encoding: 'quoted-printable', bytes: quotedPrintable(bytes, lengthMax) }
  }
  return { encoding: 'base64', bytes: base64(bytes) }
}

function base64(bytes: Buffer): Buffer {
  const encoded = Buffer.allocUnsafe(encodedBase64Length(bytes.length))
  encodeBase64Lines(bytes, encoded, 0)
  return encoded
}

interface Survey {
  readonly lineEnds: number
  /** CR or LF alone. */
  readonly bareLineEnds: number
  readonly longestLine: number
  /** Octets that must not travel as they are: controls but for tab and line ends, DEL, and all above 127. */
  readonly unsafe: number
  readonly equals: number
}

/** One pass over every octet of every mail: plain arithmetic only. */
function survey(bytes: Buffer): Survey {
  const length = bytes.length
  let lineEnds = 0
  let bareLineEnds = 0
  let longestLine = 0
  let unsafe = 0
  let equals = 0
  let lineStart = 0
  for (let at = 0; at < length; at++) {
    const octet = bytes[at] as number
    if (octet >= SPACE && octet < 127) {
      if (octet === EQUALS) equals++
    } else if (octet === CR || octet === LF) {
      if (at - lineStart > longestLine) longestLine = at - lineStart
      if (octet === CR && bytes[at + 1] === LF) at++
      else bareLineEnds++
      lineEnds++
      lineStart = at + 1
    } else if (octet !== TAB) unsafe++
  }
  return { lineEnds, bareLineEnds, longestLine: Math.max(longestLine, length - lineStart), unsafe, equals }
}

function withCrlf(bytes: Buffer, bareLineEnds: number): Buffer {
  const out = Buffer.allocUnsafe(bytes.length + bareLineEnds)
  const length = bytes.length
  let to = 0
  for (let at = 0; at < length; at++) {
    const octet = bytes[at] as number
    if (octet === CR || octet === LF) {
      out[to++] = CR
      out[to++] = LF
      if (octet === CR && bytes[at + 1] === LF) at++
    } else out[to++] = octet
  }
  return out
}

/** RFC 2045 6.7, for bytes whose lines end with CRLF. `lengthMax` is the length without soft line breaks. */
function quotedPrintable(bytes: Buffer, lengthMax: number): Buffer {
  const out = Buffer.allocUnsafe(lengthMax + 5 * Math.ceil(lengthMax / 71))
  let to = 0
  let column = 0
  for (let at = 0; at < bytes.length; at++) {
    const octet = bytes[at] as number
    if (octet === CR) {
      out[to++] = CR
      out[to++] = LF
      column = 0
      at++
      continue
    }
    const blank = octet === SPACE || octet === TAB
    // Blanks at the end of a line may be lost on the way (rule 3).
    let literal = blank
      ? at + 1 < bytes.length && bytes[at + 1] !== CR
      : octet > SPACE && octet < 127 && octet !== EQUALS
    if (column + (literal ? 1 : 3) > encodedLineMax - 1) {
      out[to++] = EQUALS
      out[to++] = CR
      out[to++] = LF
      column = 0
      // What stood in the middle of a line must not become a delimiter at the start of one (RFC 2046 5.1.1).
      if (octet === DASH) literal = false
    }
    column += literal ? 1 : 3
    if (literal) out[to++] = octet
    else {
      out[to++] = EQUALS
      out[to++] = hexDigits.charCodeAt(octet >> 4)
      out[to++] = hexDigits.charCodeAt(octet & 15)
    }
  }
  return out.subarray(0, to)
}

const hexDigits = '0123456789ABCDEF'

/** What `encodeBase64Lines` writes for so many bytes. */
export function encodedBase64Length(bytes: number): number {
  const characters = 4 * Math.ceil(bytes / 3)
  return characters + 2 * Math.max(0, Math.ceil(characters / encodedLineMax) - 1)
}

/** Writes Base64 in lines of 76 characters, without a CRLF behind the last; returns how much was written. */
export function encodeBase64Lines(bytes: Buffer, out: Buffer, start: number): number {
  const step = base64LineBytes * 1_024
  const scratch = Buffer.allocUnsafe(Math.min(encodedBase64Length(bytes.length), encodedLineMax * 1_024))
  let to = start
  for (let from = 0; from < bytes.length; from += step) {
    const length = scratch.write(bytes.toString('base64', from, Math.min(from + step, bytes.length)), 'latin1')
    for (let at = 0; at < length; at += encodedLineMax) {
      if (to > start) {
        out[to++] = CR
        out[to++] = LF
      }
      to += scratch.copy(out, to, at, Math.min(at + encodedLineMax, length))
    }
  }
  return to - start
}
