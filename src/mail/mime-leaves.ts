// Everything that any reader of a mail might take for a file in it, for the malware scan: not one reading of RFC 2045, but all that we can
// think of at once. It does not follow the tree alone: every encoded section counts, wherever its header stands, whichever boundary ends it, in
// preambles and nested messages too; and so does every run of lines that looks like Base64, or is uuencoded, without any header, and every line
// that begins as an archive does.
// Rather too much than too little: what is decoded in vain harms nobody. What ends a section is looked for once in a text, however many
// sections ask for it; sections may still lie in each other, and be decoded each for itself: for that there is `goOn`.
import { limits } from '../config.ts'
import { base64Readings, quotedPrintableReadings, sextets } from './lenient-decoding.ts'
import { everyEntity, readMime, type MimeEntity } from './mime-entity.ts'

const lineFeed = 0x0a
const carriageReturn = 0x0d
const equals = 0x3d
const dash = 0x2d
const boundariesMax = 100
/** So many words `begin` are looked at before a text goes to the scan without a further look. */
const beginsMax = 1_000
/** So many files in uuencode are also read past what seems to be their end, of one text. */
const uuWholesMax = 20
/** What a file in uuencode is given to begin with. */
const uuRoomBytes = 4_096
/** A run of Base64 shorter than this is a word. */
const runBytesMin = 32

export interface MimeLeaf {
  readonly bytes: Buffer
  /** The bytes that it was decoded from. */
  readonly encodedBytes: number
  /** It stands unencoded in the text, and is the rest of it: what there is beside the archive is looked at with the text. */
  readonly isArchive?: true
}

/** A text that could be a mail, or hold one: no NUL where it begins. */
export function looksLikeText(bytes: Buffer): boolean {
  return !bytes.subarray(0, 4_096).includes(0)
}

/** Begins with a header field, perhaps after an mbox line or empty lines. */
export function looksLikeMail(bytes: Buffer): boolean {
  const begin = bytes.toString('latin1', 0, 2_048)
  return /^(?:\s*(?:From [^\r\n]*|>From [^\r\n]*)\r?\n)?\s*[!-9;-~]{1,70}[ \t]*:/.test(begin) && /\n/.test(begin)
}

/** Whether a line begins as uuencode does, by whatever ends lines; also where there are too many such words to look at each. */
export function mayHoldUuencode(text: Buffer): boolean {
  let at = text.indexOf(beginWord)
  for (let left = beginsMax; at >= 0; at = text.indexOf(beginWord, at + 1)) {
    if (left-- === 0) return true
    const next = text[at + beginWord.length]
    if ((at === 0 || (text[at - 1] as number) < 0x20) && (next === 0x20 || next === 0x09 || next === dash)) return true
  }
  return false
}
const beginWord = Buffer.from('begin')

/**
 * `goOn` is called again and again, also where nothing comes out: it throws when it has been enough. `tree`: of these bytes, where somebody has
 * read it already.
 */
export function* mimeLeaves(bytes: Buffer, goOn: () => void, tree?: MimeEntity): Generator<MimeLeaf> {
  const sections = yield* encodedSections(bytes, goOn)
  if (sections !== undefined) yield* encodedEntities(bytes, tree ?? readMime(bytes), sections, goOn)
  for (const runs of base64Runs(bytes, goOn)) yield { bytes: runs, encodedBytes: bytes.length }
  yield* uuencoded(bytes, goOn)
  yield* unencoded(bytes, goOn)
}

type Encoding = 'base64' | 'quoted-printable'
const encodings = new Map<string, readonly Encoding[]>([
  ['base64', ['base64']],
  ['quoted-printable', ['quoted-printable']],
  ['7bit', []],
  ['8bit', []],
  ['binary', []],
])
/** Readers take a comment, a quote, an encoded word or a second word for nothing, or for what is meant. */
const anyEncoding: readonly Encoding[] = ['base64', 'quoted-printable']
/** So much is looked at of what a field says; a comment may be as long as it likes. */
const encodingValueMax = 1_000
const encodingField = new RegExp(
  `^[ \\t]*content-transfer-encoding[ \\t]*:((?:[^\\r\\n]|\\r?\\n[ \\t]){0,${encodingValueMax}})`,
  'gim',
)

interface Sections {
  /** Where they begin, in the order of the text, and how they may be encoded. */
  readonly begun: { readonly start: number; readonly words: Set<Encoding> }[]
  /** `spanOf` what was decoded. */
  readonly read: Set<string>
}

/** What stands behind each Content-Transfer-Encoding, by its own word: with two of them in one header both ways. Undefined where there is no such field. */
function* encodedSections(bytes: Buffer, goOn: () => void): Generator<MimeLeaf, Sections | undefined> {
  const text = bytes.toString('latin1')
  const blank = /(?:\r\n|\n|\r(?!\n))[ \t]*(?:\r\n|\n|\r)/g
  let blankAt = -1
  // Strictly: a line of blanks is a fold.
  const headerEnd = text.search(/\n\r?\n/)
  let nextBoundary: ((from: number) => number) | undefined
  let sections: Sections | undefined
  /** How what stands behind this empty line was read already: a header may say the same a thousand times. */
  const readHere = new Set<string>()
  for (const match of text.matchAll(encodingField)) {
    goOn()
    const words = encodingsIn(match[1] ?? '')
    if (words.length === 0) continue
    const { begun, read } = (sections ??= { begun: [], read: new Set() })
    const fieldEnd = match.index + match[0].length
    if (blankAt < fieldEnd) {
      blank.lastIndex = fieldEnd
      const found = blank.exec(text)
      if (found === null) break // nor is there one behind any later field
      blankAt = found.index
      readHere.clear()
      begun.push({ start: blank.lastIndex, words: new Set() })
    }
    const start = blank.lastIndex
    nextBoundary ??= boundariesOf(text, bytes)
    const end = nextBoundary(Math.max(0, start - 1))
    for (const word of words) {
      begun.at(-1)?.words.add(word)
      if (!readHere.has(word)) yield* decodedSection(bytes.subarray(start, end), word, goOn)
      readHere.add(word)
      read.add(spanOf(word, start, end))
      // What looks like a boundary in a mail of one text is none.
      if (match.index >= headerEnd || end === bytes.length || readHere.has(`${word} to the end`)) continue
      yield* decodedSection(bytes.subarray(start), word, goOn)
      readHere.add(`${word} to the end`)
      read.add(spanOf(word, start, bytes.length))
    }
  }
  return sections
}

/** What a value says in its one word; whatever is not just that may mean either. */
const encodingsIn = (value: string): readonly Encoding[] => encodings.get(value.trim().toLowerCase()) ?? anyEncoding

const spanOf = (word: string, start: number, end: number): string => `${word} ${start} ${end}`

/**
 * The same as readers have it that follow the tree. To them a boundary ends a section only where it is open, and is the whole line; only an
 * empty line ends a header, or a line that is no field: what was cut or shifted above is whole here. Those that pass over such a line begin
 * where the first section above does.
 */
function* encodedEntities(
  bytes: Buffer,
  tree: MimeEntity,
  { begun, read }: Sections,
  goOn: () => void,
): Generator<MimeLeaf> {
  let next = 0
  for (const { body, transferEncoding, contentType, parts } of everyEntity(tree)) {
    goOn()
    const isEncoded = transferEncoding === 'base64' || transferEncoding === 'quoted-printable'
    // A multipart is not encoded, whatever it says; a message may be.
    if (parts.length > 0 && (!isEncoded || contentType.value.startsWith('multipart/'))) continue
    const start = body.byteOffset - bytes.byteOffset
    const end = start + body.length
    // Of what stands in an encoded message that one is a leaf, which is looked into when it is its turn.
    if (body.buffer !== bytes.buffer || start < 0 || end > bytes.length) continue
    while ((begun[next]?.start ?? Infinity) < start) next++
    const section = begun[next]
    const readings: [number, Encoding][] = isEncoded ? [[start, transferEncoding]] : []
    if (section !== undefined && section.start < end)
      for (const word of section.words) readings.push([section.start, word])
    for (const [at, word] of readings) {
      // The line end before a boundary is the boundary's here; above its carriage return is the section's.
      if (read.has(spanOf(word, at, end)) || read.has(spanOf(word, at, end + 1))) continue
      read.add(spanOf(word, at, end))
      yield* decodedSection(bytes.subarray(at, end), word, goOn)
    }
  }
}

function* decodedSection(section: Buffer, word: Encoding, goOn: () => void): Generator<MimeLeaf> {
  for (const decoded of word === 'base64' ? base64Readings(section) : quotedPrintableReadings(section)) {
    yield { bytes: decoded, encodedBytes: section.length }
    // Readers look for uuencode in what they have decoded, whatever stands before it; an engine may not.
    yield* uuencoded(decoded, goOn)
  }
}

/**
 * Unencoded text has been seen as it is; only what is recognised by its first octets is worth another look. Each line may be the first of a part,
 * to some reader, whatever the header says or does not say.
 */
function* unencoded(bytes: Buffer, goOn: () => void): Generator<MimeLeaf> {
  for (const { mark, place } of archiveMarks)
    for (let at = bytes.indexOf(mark, place + 1); at >= 0; at = bytes.indexOf(mark, at + 1)) {
      goOn()
      const start = at - place
      const before = bytes[start - 1]
      if (before === lineFeed || before === carriageReturn)
        yield { bytes: bytes.subarray(start), encodedBytes: bytes.length, isArchive: true }
    }
}
const archiveMarks = [
  { mark: Buffer.from([0x1f, 0x8b, 8]), place: 0 },
  { mark: Buffer.from('ustar'), place: 257 },
]

/** By the next octet of a boundary, of all that begin alike; `ends` where one is whole. */
interface Boundaries {
  readonly further: Map<number, Boundaries>
  ends: boolean
}

/** Tells where the first boundary at or behind a place begins, or the end: asked for ever later places it goes over the text once. */
function boundariesOf(text: string, bytes: Buffer): (from: number) => number {
  const found = new Set<string>()
  for (const match of text.matchAll(/boundary(?:\*\d?\*?)?\s*=\s*(?:"([^"\r\n]{1,200})"|([^\s;"]{1,200}))/gi)) {
    found.add(match[1] ?? match[2] ?? '')
    if (found.size >= boundariesMax) break
  }
  const all: Boundaries = { further: new Map(), ends: false }
  for (const boundary of found) {
    let each = all
    for (const octet of Buffer.from(boundary, 'latin1')) {
      const next: Boundaries = each.further.get(octet) ?? { further: new Map(), ends: false }
      each.further.set(octet, next)
      each = next
    }
    each.ends = true
  }
  // No boundary holds a line feed, so that no octet is looked at for two lines.
  const standsAt = (at: number): boolean => {
    let each: Boundaries | undefined = all
    while (each !== undefined && !each.ends) each = each.further.get(bytes[at++] ?? -1)
    return each !== undefined
  }
  let next = -1
  return (from) => {
    if (next < from) next = text.indexOf(delimiter, from)
    while (next >= 0 && !standsAt(next + delimiter.length)) next = text.indexOf(delimiter, next + 1)
    if (next < 0) next = bytes.length
    return next
  }
}
const delimiter = '\n--'

/** All runs of lines of nothing but Base64, decoded each for itself, with a line feed behind each; nothing where there is none. */
function base64Runs(bytes: Buffer, goOn: () => void): Buffer[] {
  const parts: Buffer[][] = [[], []]
  let runStart = -1
  let runEnd = 0
  goOn()
  const endRun = (): void => {
    if (runStart >= 0 && runEnd - runStart >= runBytesMin) {
      goOn()
      for (const [way, run] of base64Readings(bytes.subarray(runStart, runEnd)).entries())
        parts[way]?.push(run, newLine)
    }
    runStart = -1
  }
  for (let at = 0; at < bytes.length;) {
    const found = bytes.indexOf(lineFeed, at)
    const end = found < 0 ? bytes.length : found
    if (isBase64Line(bytes, at, end)) {
      if (runStart < 0) runStart = at
      runEnd = end
    } else endRun()
    at = end + 1
  }
  endRun()
  return parts.filter((way) => way.length > 0).map((way) => Buffer.concat(way))
}
const newLine = Buffer.from('\n')

function isBase64Line(bytes: Buffer, start: number, end: number): boolean {
  let seen = false
  for (let at = start; at < end; at++) {
    const byte = bytes[at] as number
    if ((sextets[byte] as number) >= 0 || byte === equals) seen = true
    else if (byte !== carriageReturn && byte !== 0x20 && byte !== 0x09 && byte !== 0x3e) return false // quoted lines, too
    else if (byte === 0x20 && seen && at + 1 < end && bytes[at + 1] !== carriageReturn) return false // words
  }
  return seen
}

/** `begin 644 name` to `end`, and `begin-base64 644 name` to `====`; the name may be missing, and the mode be written as some programs read it. */
function* uuencoded(bytes: Buffer, goOn: () => void): Generator<MimeLeaf> {
  goOn()
  let lineEnd = -1
  let lastBase64 = -1
  let base64End = -1
  let lastEnd = 0
  let wholesLeft = uuWholesMax
  for (let at = bytes.indexOf(beginWord); at >= 0; at = bytes.indexOf(beginWord, at + 1)) {
    const head = /^begin(-base64(?:-encoded)?)?[ \t]+[+-]?(?:0o)?[0-7_]{1,100}\s/i.exec(
      bytes.toString('latin1', at, at + 150),
    )
    if (head === null) continue
    goOn()
    if (lineEnd < at) lineEnd = bytes.indexOf(lineFeed, at)
    if (lineEnd < 0) return
    if (head[1] !== undefined) {
      if (lastBase64 === lineEnd) continue // many such words in one line
      lastBase64 = lineEnd
      if (base64End < lineEnd) base64End = bytes.indexOf('\n====', lineEnd)
      if (base64End < 0) base64End = bytes.length
      for (const decoded of base64Readings(bytes.subarray(lineEnd + 1, base64End)))
        yield { bytes: decoded, encodedBytes: base64End - at }
      // What stands inside may be meant alone: it is not passed over.
      continue
    }
    const { decoded, end } = uuDecode(bytes, lineEnd + 1)
    if (decoded.length > 0) yield { bytes: decoded, encodedBytes: end - at }
    // To some readers nothing but the word ends it: an empty line does not, and what a short one lacks were blanks.
    if (lastEnd >= 0 && lastEnd < end) lastEnd = endWord(bytes, end)
    if (lastEnd > end && wholesLeft-- > 0) {
      const whole = uuDecode(bytes, lineEnd + 1, lastEnd)
      if (whole.decoded.length > decoded.length) yield { bytes: whole.decoded, encodedBytes: lastEnd - at }
    }
    at = Math.max(at, end - 1)
  }
}

/** Where the next line begins that is nothing but `end`; -1 where there is none. */
function endWord(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf('end', from); at >= 0; at = bytes.indexOf('end', at + 1))
    if (
      (at === 0 || bytes[at - 1] === lineFeed) &&
      /^end[ \t\f]*(?:\r?\n|\r?$)/.test(bytes.toString('latin1', at, at + 80))
    )
      return at
  return -1
}

/** As far as it is whole; or with `to` every line before that, whatever it is. */
function uuDecode(bytes: Buffer, from: number, to?: number): { readonly decoded: Buffer; readonly end: number } {
  let decoded = Buffer.alloc(0)
  let filled = 0
  let at = from
  // More than may be examined is enough to say so.
  while (at < (to ?? bytes.length) && filled <= limits.scanEntryBytesMax) {
    const found = bytes.indexOf(lineFeed, at)
    const end = found < 0 ? bytes.length : found
    const length = uuValue(bytes, at, end)
    // A line of n bytes has 4 characters for every 3 of them; `end` and anything else does not.
    const whole = length > 0 && end - at >= 1 + Math.ceil(length / 3) * 4 - 2 && bytes[at] !== dash
    if (!whole && to === undefined) break
    // As it grows: of a thousand short ones none may take room for the whole rest. A short line gives more than it has.
    if (decoded.length - filled < length)
      decoded = Buffer.concat([decoded, Buffer.allocUnsafe(Math.max(decoded.length, uuRoomBytes))])
    let left = length
    for (let place = at + 1; left > 0; place += 4) {
      let three = 0
      for (let each = place; each < place + 4; each++) three = (three << 6) | uuValue(bytes, each, end)
      for (let shift = 16; shift >= 0 && left > 0; shift -= 8, left--) decoded[filled++] = (three >> shift) & 0xff
    }
    at = end + 1
  }
  return { decoded: decoded.subarray(0, filled), end: Math.min(at, bytes.length) }
}

/** What a line has lost at its end were blanks; an empty one has no octets. */
function uuValue(bytes: Buffer, at: number, end: number): number {
  const byte = at < end ? (bytes[at] as number) : 0x20
  return byte < 0x20 ? 0 : (byte - 0x20) & 0x3f
}
