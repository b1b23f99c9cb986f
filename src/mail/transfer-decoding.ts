// Content-Transfer-Encoding undone (RFC 2045 6) as mail readers do it: whatever does not belong is passed over, and a text that is cut
// gives what it has. One pass, and never more octets than came in (of uuencode, three).

const LF = 10
const CR = 13
const SPACE = 32
const TAB = 9
const EQUALS = 61

type Decoder = (bytes: Buffer) => Buffer
const decoders: Readonly<Record<string, Decoder>> = {
  base64,
  'quoted-printable': quotedPrintable,
  uuencode,
  'x-uuencode': uuencode,
  'x-uue': uuencode,
  uue: uuencode,
}

/** `7bit`, `8bit`, `binary` and unknown ones are taken as they are. */
export function isEncoded(encoding: string): boolean {
  return Object.hasOwn(decoders, encoding)
}

export function decodeTransfer(bytes: Buffer, encoding: string): Buffer {
  return Object.hasOwn(decoders, encoding) ? (decoders[encoding] as Decoder)(bytes) : bytes
}

/** Node's own decoder passes over what does not belong but stops at the first `=`; mail joins texts that were padded apart. */
function base64(bytes: Buffer): Buffer {
  const firstPadding = bytes.indexOf(EQUALS)
  if (firstPadding === -1 || !hasSextetBehind(bytes, firstPadding))
    return Buffer.from(bytes.toString('latin1'), 'base64')
  const out = Buffer.allocUnsafe(Math.ceil((bytes.length * 3) / 4))
  let to = 0
  let held = 0
  let bits = 0
  for (const octet of bytes) {
    const sextet = sextetOf[octet] as number
    if (sextet < 64) {
      held = ((held << 6) | sextet) & 0xffffff
      bits += 6
      if (bits >= 8) {
        bits -= 8
        out[to++] = held >> bits
      }
    } else if (octet === EQUALS) bits = 0
  }
  return out.subarray(0, to)
}

function hasSextetBehind(bytes: Buffer, start: number): boolean {
  for (let at = start; at < bytes.length; at++) if ((sextetOf[bytes[at] as number] as number) < 64) return true
  return false
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const sextetOf = new Uint8Array(256).fill(64)
for (let index = 0; index < 64; index++) sextetOf[alphabet.charCodeAt(index)] = index
sextetOf['-'.charCodeAt(0)] = 62
sextetOf['_'.charCodeAt(0)] = 63

function quotedPrintable(bytes: Buffer): Buffer {
  const out = Buffer.allocUnsafe(bytes.length)
  let to = 0
  /** Behind the last octet that is no blank: blanks before a line end were added on the way (rule 3). */
  let solid = 0
  for (let at = 0; at < bytes.length; at++) {
    const octet = bytes[at] as number
    if (octet === CR || octet === LF) {
      to = solid
      out[to++] = octet
      if (octet === CR && bytes[at + 1] === LF) {
        out[to++] = LF
        at++
      }
      solid = to
    } else if (octet !== EQUALS) {
      out[to++] = octet
      if (octet !== SPACE && octet !== TAB) solid = to
    } else {
      const high = hexOf(bytes[at + 1])
      if (high !== -1 && at + 2 === bytes.length) break // cut within a code
      const low = hexOf(bytes[at + 2])
      const next = high === -1 || low === -1 ? behindSoftBreak(bytes, at + 1) : at + 3
      if (next === -1) out[to++] = octet
      else {
        if (next === at + 3 && high !== -1 && low !== -1) out[to++] = high * 16 + low
        at = next - 1
      }
      solid = to
    }
  }
  return out.subarray(0, solid)
}

/** Where the next line begins, if only blanks stand before the line end (or the end); else -1. */
function behindSoftBreak(bytes: Buffer, start: number): number {
  let at = start
  while (at < bytes.length && at - start < 998 && (bytes[at] === SPACE || bytes[at] === TAB)) at++
  if (at >= bytes.length) return at
  if (bytes[at] === CR) return bytes[at + 1] === LF ? at + 2 : at + 1
  return bytes[at] === LF ? at + 1 : -1
}

function hexOf(octet: number | undefined): number {
  if (octet === undefined) return -1
  if (octet >= 48 && octet <= 57) return octet - 48
  if (octet >= 65 && octet <= 70) return octet - 55
  if (octet >= 97 && octet <= 102) return octet - 87
  return -1
}

/** From behind `begin`, or from the first line where there is none, to `end`. */
function uuencode(bytes: Buffer): Buffer {
  const out = Buffer.allocUnsafe(bytes.length + 3)
  let to = 0
  for (let at = 0; at < bytes.length;) {
    let end = at
    while (end < bytes.length && bytes[end] !== LF && bytes[end] !== CR) end++
    const start = at
    at = bytes[end] === CR && bytes[end + 1] === LF ? end + 2 : end + 1
    if (end === start || isWord(bytes, start, 'begin ')) continue
    if (end - start === 3 && isWord(bytes, start, 'end')) break
    const wanted = ((bytes[start] as number) - SPACE) & 63
    for (let from = start + 1, given = 0; given < wanted && from < end; from += 4, given += 3) {
      const value = (index: number): number =>
        (((from + index < end ? bytes[from + index] : SPACE) as number) - SPACE) & 63
      const triple = (value(0) << 18) | (value(1) << 12) | (value(2) << 6) | value(3)
      for (let octet = 0; octet < Math.min(3, wanted - given); octet++) out[to++] = (triple >> (16 - 8 * octet)) & 255
    }
  }
  return out.subarray(0, to)
}

function isWord(bytes: Buffer, start: number, word: string): boolean {
  return bytes.toString('latin1', start, start + word.length) === word
}
