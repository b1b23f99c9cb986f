// Octets that claim a charset become text. Total: an unknown or wrong charset gives text too, never an error. What TextDecoder knows are
// WHATWG's names; mail has more of them, which are compared as UTS #22 1.4 does, by their letters and digits alone.
// Not yet: the code pages of DOS (cp437, cp850), hz-gb-2312, iso-2022-kr, iso-2022-cn, utf-32, which no mailer of today writes.
import { isAscii, isUtf8 } from 'node:buffer'
import { TextDecoder } from 'node:util'
import { sextets } from './lenient-decoding.ts'

interface Reader {
  readonly decode: (bytes: Buffer) => string
  /** Octets mean what those before them have switched to. */
  readonly stateful?: boolean
}

const utf8 = new TextDecoder('utf-8')
const windows1252 = new TextDecoder('windows-1252')
const utf16le = new TextDecoder('utf-16le')
const utf16be = new TextDecoder('utf-16be')
/** Nothing that can be relied on was said. */
const guess: Reader = { decode: utf8OrWindows1252 }
/** Labels whose mail is as often UTF-8 as what they say. */
const says =
  /^(?:|us-ascii|ascii|ansi_x3\.4-1968|unknown|unknown-8bit|x-unknown|utf-?8|unicode-1-1-utf-8|default|none)$/
const readersMax = 64
const readers = new Map<string, Reader>()

export function decodeCharset(bytes: Buffer, charset: string | undefined): string {
  return readerOf(charset).decode(bytes)
}

/**
 * Pieces that should be readable one by one (RFC 2047 5 (3)). Some senders cut within a character: what a piece lacks at its end is looked
 * for in the next one. Not where the charset has a state: each piece begins anew in it.
 */
export function decodePieces(pieces: readonly Buffer[], charset: string | undefined): string {
  const reader = readerOf(charset)
  if (reader.stateful === true || pieces.length === 1) return pieces.map((piece) => reader.decode(piece)).join('')
  let out = ''
  let begun: Buffer = Buffer.alloc(0)
  for (const piece of pieces) {
    let octets = begun.length === 0 ? piece : Buffer.concat([begun, piece])
    let whole = wholeOctets(octets, reader)
    if (whole === undefined && begun.length > 0) {
      out += reader.decode(begun)
      octets = piece
      whole = wholeOctets(octets, reader)
    }
    out += reader.decode(octets.subarray(0, whole))
    begun = octets.subarray(whole ?? octets.length)
  }
  return out + reader.decode(begun)
}

/** How many are whole characters, where no more than a begun one follows: three octets at most. Undefined where something else is wrong. */
function wholeOctets(octets: Buffer, reader: Reader): number | undefined {
  for (let length = octets.length; length >= Math.max(0, octets.length - 3); length--) {
    const [part, rest] = [octets.subarray(0, length), octets.subarray(length)]
    if (reader === guess ? isUtf8(part) && beginsUtf8(rest) : !reader.decode(part).includes('\ufffd')) return length
  }
  return undefined
}

function beginsUtf8([first, ...others]: Buffer): boolean {
  return first === undefined || (first >= 0xc2 && first <= 0xf4 && others.every((octet) => (octet & 0xc0) === 0x80))
}

/**
 * What it is, where nobody says it: whatever reads as UTF-8 was meant so, also where somebody, we ourselves among them, has cut it within a
 * character. Such a character is left out.
 */
export function utf8OrWindows1252(bytes: Buffer): string {
  if (isUtf8(bytes)) return utf8.decode(bytes)
  const whole = bytes.subarray(0, wholeOctets(bytes, guess) ?? 0)
  return isAscii(whole) ? windows1252.decode(bytes) : utf8.decode(whole)
}

function readerOf(charset: string | undefined): Reader {
  const label = (charset ?? '').trim().toLowerCase()
  if (says.test(label)) return guess
  const known = readers.get(label)
  if (known !== undefined) return known
  const reader = ownReader(label) ?? standardReader(label) ?? standardReader(aliasOf(label)) ?? guess
  // Labels are a stranger's choice; so few are real that the memory need not be fair.
  if (readers.size < readersMax) readers.set(label, reader)
  return reader
}

function standardReader(label: string): Reader | undefined {
  try {
    const decoder = new TextDecoder(label)
    return { decode: (bytes) => decoder.decode(bytes), stateful: decoder.encoding.startsWith('iso-2022-') }
  } catch {
    // A name that it does not know: not a fault, the answer.
    return undefined
  }
}

/** Letters and digits alone, without what marks a private name (`x-`) or IANA's alias for programs (`cs`). */
function squeezed(label: string): string {
  return label.replace(/[^a-z0-9]/g, '').replace(/^(?:x|cs)/, '')
}

// What WHATWG's list lacks: IANA's aliases, numbers of code pages, and the names that Java and databases give them.
const names: Readonly<Record<string, string>> = {
  gbk: 'gbk cp936 ms936 windows936 euccn gb2312',
  gb18030: 'gb18030 cp54936',
  big5: 'big5 cp950 ms950 windows950 big5eten big5hkscs cp951',
  shift_jis: 'shiftjis sjis cp932 ms932 windows932 windows31j cp943 cp943c ibm943',
  'euc-jp': 'eucjp eucjpms eucjpwin ujis cp51932 cp20932',
  'iso-2022-jp': 'iso2022jp iso2022jp1 iso2022jp2 iso2022jpms cp50220 cp50221 cp50222 jis',
  'euc-kr': 'euckr cp949 ms949 windows949 uhc cp51949 ksc5601',
  'windows-874': 'tis620 iso885911',
  'koi8-r': 'koi8r cp20866',
  'koi8-u': 'koi8u cp21866',
  ibm866: 'cp866 ibm866 dos866',
  'iso-8859-13': 'latin7 l7',
  'iso-8859-14': 'latin8 l8 isoceltic',
  'iso-8859-15': 'latin9 l9 latin0',
  'iso-8859-16': 'latin10 l10',
  'utf-16le': 'utf16le ucs2le',
  'utf-16be': 'utf16be ucs2be',
}
const aliases = new Map(
  Object.entries(names).flatMap(([name, others]) => others.split(' ').map((other) => [other, name])),
)

function aliasOf(label: string): string {
  const name = squeezed(label)
  const windows = /^(?:cp|ms|ibm|win|windows|windowscp)(125[0-8]|874)$/.exec(name)?.[1]
  if (windows !== undefined) return `windows-${windows}`
  const latin = /^(?:iso)?8859(\d{1,2})$/.exec(name)?.[1]
  return latin === undefined ? (aliases.get(name) ?? '') : `iso-8859-${latin}`
}

/** What TextDecoder does not read, or not as mail means it. */
function ownReader(label: string): Reader | undefined {
  const name = squeezed(label)
  if (/^(?:utf16|ucs2|iso10646ucs2|unicode)$/.test(name)) return { decode: utf16 }
  return /^(?:unicode11|unicode20)?utf7$/.test(name) ? { decode: utf7, stateful: true } : undefined
}

/**
 * UTF-16 that does not name its byte order: the mark says it, which most writers set. Without one RFC 2781 4.3 has it big endian, WHATWG
 * little; writers are of both kinds, so the text is asked first. Latin letters, blanks and line ends have a zero before them, or behind:
 * a `0` or an `N` says nothing, for their mirror images (U+3000, U+4E00) are common too.
 */
function utf16(bytes: Buffer): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return utf16le.decode(bytes)
  let big = bytes[0] === 0xfe && bytes[1] === 0xff ? Infinity : 0
  for (let at = 0; at + 1 < Math.min(bytes.length, 2_000) && big < Infinity; at += 2) {
    const [first = 0, second = 0] = [bytes[at], bytes[at + 1]]
    if (first === 0 && tells(second)) big++
    else if (second === 0 && tells(first)) big--
  }
  return (big < 0 ? utf16le : utf16be).decode(bytes)
}

function tells(octet: number): boolean {
  return octet > 0 && octet < 0x80 && octet !== 0x30 && octet !== 0x4e
}

const plus = 0x2b
const dash = 0x2d
const byteOrderMark = 0xfeff

/**
 * RFC 2152: runs of base64 between `+` and `-` are UTF-16, big endian. One too short for a character is a plus that nobody encoded. All into one place,
 * which is large enough: a mail may be nothing but runs, and a text for each of them would hold up everybody for a second.
 */
function utf7(bytes: Buffer): string {
  const text = utf8OrWindows1252(bytes)
  if (!text.includes('+')) return text
  const units = new Uint16Array(text.length)
  let filled = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code !== plus) {
      units[filled++] = code
      continue
    }
    const start = at + 1
    let end = start
    for (let held = 0, bits = 0; ; end++) {
      const sextet = sextets[text.charCodeAt(end)] ?? -1
      if (sextet < 0) break
      held = ((held << 6) | sextet) & 0x3f_ffff
      bits += 6
      if (bits < 16) continue
      bits -= 16
      const unit = (held >> bits) & 0xffff
      if (unit !== byteOrderMark || end > start + 2) units[filled++] = unit
    }
    const closed = text.charCodeAt(end) === dash ? end + 1 : end
    if (end === start) units[filled++] = plus
    else if (end < start + 3) for (let each = at; each < closed; each++) units[filled++] = text.charCodeAt(each)
    at = closed - 1
  }
  return Buffer.from(units.buffer, 0, 2 * filled)
    .toString('utf16le')
    .toWellFormed()
}
