// The structure of a MIME entity (RFC 2045, 2046) out of bytes that strangers wrote: header fields, parts, bodies. One pass, linear in
// time, whatever comes: no end boundary, cut anywhere, nested without end. LF, CRLF and CR end a line alike. Nothing is copied: bodies
// are views of the given bytes, decoded on demand. What exceeds a bound is left unread and named in `exceeded`: who must see
// everything (a scanner) refuses then.
import { isUtf8 } from 'node:buffer'
import { randomInt } from 'node:crypto'
import { limits } from '../config.ts'
import { parseParameterized, unfolded } from './mime-field.ts'
import type { MimeField, Parameterized } from './mime-field.ts'
import { decodeTransfer, isEncoded } from './transfer-decoding.ts'
import { decodeCharset } from './charset.ts'

export interface MimeEntity {
  /** In order, raw. */
  readonly fields: readonly MimeField[]
  /** Lower-case `type/subtype` with its parameters; `text/plain` where none is given or it cannot be read (RFC 2045 5.2). */
  readonly contentType: Parameterized
  /** Lower case; `7bit` where none is given. */
  readonly transferEncoding: string
  /** As it stands, still encoded: for a multipart all between its header and its end. */
  readonly body: Buffer
  /** Parts of a multipart, or the one message inside a message/rfc822 (also an encoded one). */
  readonly parts: readonly MimeEntity[]
  /** Of a multipart: what stands before the first delimiter, and behind the last. No reader shows it; it travels all the same. */
  readonly preamble: Buffer
  readonly epilogue: Buffer
}

export type MimeBound = 'depth' | 'parts' | 'fields' | 'headerBytes' | 'decodedBytes'
/** `fields`, `parts` and `decodedBytes` for the whole, `headerBytes` for each entity. */
export type MimeBounds = Readonly<Record<MimeBound, number>>

export interface MimeMessage extends MimeEntity {
  /** Bounds that were met: there is more than what was read. */
  readonly exceeded: readonly MimeBound[]
  /** Other readers may see another structure: a line in a header that is no field, a type with parts that is not sure, a multipart without its end or its boundary. */
  readonly malformed: boolean
}

export const mimeBounds: MimeBounds = {
  depth: limits.mimeDepthMax,
  parts: limits.mimePartsMax,
  fields: limits.mimeFieldsMax,
  headerBytes: limits.mimeHeaderBytesMax,
  decodedBytes: limits.mimeDecodedBytesMax,
}

/** Never throws. */
export function readMime(bytes: Buffer, bounds: MimeBounds = mimeBounds): MimeMessage {
  const progress: Progress = { bounds, parts: 0, fields: 0, decodedBytes: 0, exceeded: new Set(), malformed: false }
  const root = new Reader(bytes, progress).whole(0)
  return { ...root, exceeded: [...progress.exceeded], malformed: progress.malformed }
}

/** The entity and everything inside it, in the order of the text. */
export function* everyEntity(entity: MimeEntity): Generator<MimeEntity> {
  const waiting = [entity]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    yield next
    for (let at = next.parts.length - 1; at >= 0; at--) waiting.push(next.parts[at] as MimeEntity)
  }
}

/** The unfolded value of the first field of this lower-case name. */
export function fieldValue(entity: MimeEntity, name: string): string | undefined {
  const field = entity.fields.find((candidate) => candidate.name === name)
  return field === undefined ? undefined : unfolded(field)
}

/** The body without its transfer encoding: lenient, at most as long as the body. */
export function decodedBody(entity: MimeEntity): Buffer {
  return decodeTransfer(entity.body, entity.transferEncoding)
}

/** The body as text, whatever its charset claims; its line ends as they are. */
export function decodedText(entity: MimeEntity): string {
  return decodeCharset(decodedBody(entity), entity.contentType.parameters.get('charset'))
}

const LF = 10
const CR = 13
const SPACE = 32
const TAB = 9
const COLON = 58
const DASH = 45
const nothing: Buffer = Buffer.alloc(0)

interface Progress {
  readonly bounds: MimeBounds
  parts: number
  fields: number
  decodedBytes: number
  readonly exceeded: Set<MimeBound>
  malformed: boolean
}

/** Where a body stopped: at a delimiter line of an open multipart, or (level -1) at the end of the bytes. */
interface Stop {
  readonly level: number
  readonly closing: boolean
  /** Where the body ends: before the line end that belongs to the delimiter (RFC 2046 5.1.1). */
  readonly bodyEnd: number
  readonly next: number
}

class Reader {
  readonly #bytes: Buffer
  readonly #progress: Progress
  /** Level of each open multipart by its boundary: one look-up a line, however deep. */
  readonly #open = new Map<string, number>()
  /** How many of them have a boundary of this hash: of nearly all lines of two hyphens no string is made, though there be millions. */
  readonly #hashes = new Map<number, number>()
  readonly #seed = randomInt(2 ** 32)
  #levels = 0
  #at = 0
  #stop: Stop

  constructor(bytes: Buffer, progress: Progress) {
    this.#bytes = bytes
    this.#progress = progress
    this.#stop = { level: -1, closing: false, bodyEnd: bytes.length, next: bytes.length }
  }

  whole(depth: number): MimeEntity {
    return this.#entity(depth, 'text/plain')
  }

  /** Reads from `#at`; afterwards `#stop` says what ended it. */
  #entity(depth: number, defaultType: string): MimeEntity {
    this.#progress.parts++
    const { fields, ended } = this.#header()
    const { contentType, boundary, isSure } = typeOf(fields, defaultType)
    if (!isSure) this.#progress.malformed = true
    const transferEncoding = encodingOf(fields)
    const start = this.#at
    const leaf = { fields, contentType, transferEncoding, parts: [], preamble: nothing, epilogue: nothing }
    if (ended) return { ...leaf, body: nothing }
    if (contentType.value.startsWith('multipart/')) {
      if (boundary === '' || boundary.length > limits.mailLineOctetsMax) this.#progress.malformed = true
      else if (this.#mayEnter(depth)) return { ...leaf, ...this.#multipart(start, boundary, depth, contentType.value) }
    }
    if (isMessage(contentType.value) && !isEncoded(transferEncoding) && this.#mayEnter(depth)) {
      const inner = this.#entity(depth + 1, 'text/plain')
      return { ...leaf, parts: [inner], body: this.#bytes.subarray(start, Math.max(start, this.#stop.bodyEnd)) }
    }
    this.#skim()
    const body = this.#bytes.subarray(start, Math.max(start, this.#stop.bodyEnd))
    if (!isMessage(contentType.value) || !isEncoded(transferEncoding)) return { ...leaf, body }
    return { ...leaf, body, parts: this.#encodedMessage(body, transferEncoding, depth) }
  }

  #multipart(start: number, boundary: string, depth: number, type: string): Partial<MimeEntity> & { body: Buffer } {
    const level = this.#levels++
    const hidden = this.#open.get(boundary)
    if (hidden !== undefined) this.#progress.malformed = true
    this.#open.set(boundary, level)
    const octets = Buffer.from(boundary, 'latin1')
    const hash = hashOf(octets, 0, octets.length, this.#seed)
    this.#hashes.set(hash, (this.#hashes.get(hash) ?? 0) + 1)
    this.#skim()
    const preamble = this.#bytes.subarray(start, Math.max(start, this.#stop.bodyEnd))
    const parts: MimeEntity[] = []
    while (this.#stop.level === level && !this.#stop.closing) {
      if (this.#progress.parts >= this.#progress.bounds.parts) {
        this.#progress.exceeded.add('parts')
        this.#stopAtEnd()
      } else parts.push(this.#entity(depth + 1, type === 'multipart/digest' ? 'message/rfc822' : 'text/plain'))
    }
    const closed = this.#stop.level === level
    if (hidden === undefined) this.#open.delete(boundary)
    else this.#open.set(boundary, hidden)
    const alike = (this.#hashes.get(hash) ?? 1) - 1
    if (alike === 0) this.#hashes.delete(hash)
    else this.#hashes.set(hash, alike)
    this.#levels--
    let epilogue = nothing
    if (closed) {
      const from = this.#at
      this.#skim()
      epilogue = this.#bytes.subarray(from, Math.max(from, this.#stop.bodyEnd))
    } else this.#progress.malformed = true
    return { parts, preamble, epilogue, body: this.#bytes.subarray(start, Math.max(start, this.#stop.bodyEnd)) }
  }

  /** RFC 2046 5.2.1 allows no encoding there; mail that hides something has one all the same. */
  #encodedMessage(body: Buffer, encoding: string, depth: number): MimeEntity[] {
    const progress = this.#progress
    if (!this.#mayEnter(depth)) return []
    if (progress.decodedBytes + body.length > progress.bounds.decodedBytes) {
      progress.exceeded.add('decodedBytes')
      return []
    }
    progress.decodedBytes += body.length
    return [new Reader(decodeTransfer(body, encoding), progress).whole(depth + 1)]
  }

  #mayEnter(depth: number): boolean {
    const { bounds, exceeded, parts } = this.#progress
    if (depth >= bounds.depth) exceeded.add('depth')
    else if (parts >= bounds.parts) exceeded.add('parts')
    else return true
    return false
  }

  /** Fields until the empty line, which is passed. `ended`: a delimiter or the end came first, so there is no body. */
  #header(): { fields: MimeField[]; ended: boolean } {
    const bytes = this.#bytes
    const fields: MimeField[] = []
    const start = this.#at
    let last: Draft | undefined
    const keep = (): void => {
      if (last !== undefined)
        fields.push({ name: last.name, raw: bytes.subarray(last.start, last.end), at: last.colon })
      last = undefined
    }
    for (;;) {
      if (this.#at >= bytes.length || this.#delimiterAt(this.#at)) {
        keep()
        if (this.#at >= bytes.length) this.#stopAtEnd()
        else this.#at = this.#stop.next
        return { fields, ended: true }
      }
      const end = endOfLine(bytes, this.#at)
      const next = afterLine(bytes, end)
      if (end === this.#at) {
        keep()
        this.#at = next
        return { fields, ended: false }
      }
      const first = bytes[this.#at]
      const colon = first === SPACE || first === TAB ? -1 : colonIn(bytes, this.#at, end)
      if (end - start > this.#progress.bounds.headerBytes) this.#progress.exceeded.add('headerBytes')
      else if (first === SPACE || first === TAB) {
        if (last !== undefined) last.end = end
      } else if (colon !== -1) {
        keep()
        if (++this.#progress.fields > this.#progress.bounds.fields) this.#progress.exceeded.add('fields')
        else last = { name: nameOf(bytes, this.#at, colon), start: this.#at, colon: colon - this.#at, end }
      } else if (!(this.#at === start && isEnvelopeLine(bytes, start))) {
        // The empty line is missing: what stands here is the body already.
        this.#progress.malformed = true
        keep()
        return { fields, ended: false }
      }
      this.#at = next
    }
  }

  /** Goes on to the next delimiter of an open multipart, or the end. */
  #skim(): void {
    const bytes = this.#bytes
    let at = this.#at
    if (this.#open.size === 0) return this.#stopAtEnd()
    while (at < bytes.length) {
      if (this.#delimiterAt(at)) {
        this.#at = this.#stop.next
        return
      }
      at = afterLine(bytes, endOfLine(bytes, at))
    }
    this.#stopAtEnd()
  }

  #stopAtEnd(): void {
    this.#at = this.#bytes.length
    this.#stop = { level: -1, closing: false, bodyEnd: this.#bytes.length, next: this.#bytes.length }
  }

  /** Is the line that begins here a delimiter of an open multipart? Then `#stop` says of which. */
  #delimiterAt(start: number): boolean {
    const bytes = this.#bytes
    if (this.#open.size === 0 || bytes[start] !== DASH || bytes[start + 1] !== DASH) return false
    const end = endOfLine(bytes, start)
    let textEnd = end
    while (textEnd > start && (bytes[textEnd - 1] === SPACE || bytes[textEnd - 1] === TAB)) textEnd--
    if (textEnd - start > limits.mailLineOctetsMax + 4 || !this.#mayBeOpen(start + 2, textEnd)) return false
    const text = bytes.toString('latin1', start + 2, textEnd)
    const level = this.#open.get(text)
    const closed = level === undefined && text.endsWith('--') ? this.#open.get(text.slice(0, -2)) : undefined
    if (level === undefined && closed === undefined) return false
    this.#stop = {
      level: level ?? closed ?? -1,
      closing: level === undefined,
      bodyEnd: beforeLineEnd(bytes, start),
      next: afterLine(bytes, end),
    }
    return true
  }

  /** Whether these octets, or those before two hyphens at their end, have the hash of an open boundary. */
  #mayBeOpen(start: number, end: number): boolean {
    const bytes = this.#bytes
    const closes = end - start >= 2 && bytes[end - 1] === DASH && bytes[end - 2] === DASH
    const shorter = hashOf(bytes, start, closes ? end - 2 : end, this.#seed)
    if (this.#hashes.has(shorter)) return true
    return closes && this.#hashes.has(hashOf(bytes, end - 2, end, shorter))
  }
}

/** FNV-1a from a seed that nobody knows, over octets; the hash of a beginning is the seed of what follows. */
function hashOf(bytes: Buffer, start: number, end: number, seed: number): number {
  let hash = seed
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ (bytes[at] as number), 0x01000193)
  return hash
}

interface Draft {
  readonly name: string
  readonly start: number
  readonly colon: number
  end: number
}

interface ReadType {
  readonly contentType: Parameterized
  /** Octets, as latin1, without the blanks at its end: none can stand there (RFC 2046 5.1.1), and behind a delimiter they are padding. */
  readonly boundary: string
  readonly isSure: boolean
}

/**
 * Of two fields the first. Readers differ in which of two counts, and in whether they pass over what is wrong with one (blanks around the slash, words
 * behind the type, no semicolon, no subtype), or over the whole field: so it is not sure where one of them has parts.
 */
function typeOf(fields: readonly MimeField[], defaultType: string): ReadType {
  const [field, ...others] = fields.filter(({ name }) => name === 'content-type')
  const { value, parameters, isLoose } = parseParameterized(field === undefined ? '' : unfolded(field))
  const [, type, subtype] = mediaType.exec(value) ?? []
  const read = type === undefined || (subtype === '' && type !== 'multipart') ? undefined : `${type}/${subtype}`
  const isStrict = read === undefined || (read === value && subtype !== '' && isLoose !== true)
  const boundary = (parameters.get('boundary') ?? '').trimEnd()
  const values = [value, ...others.map((other) => parseParameterized(unfolded(other)).value)]
  return {
    contentType: { value: read ?? defaultType, parameters },
    boundary: field !== undefined && isUtf8(field.raw) ? Buffer.from(boundary).toString('latin1') : boundary,
    isSure: (isStrict && others.length === 0) || !values.some((each) => hasParts.test(each)),
  }
}

const hasParts = /^(?:multipart|message)\s*\//
const mediaType = /^([^\s/]{1,127})\s*\/\s*([^\s/]{0,127})(?:\s|$)/

function encodingOf(fields: readonly MimeField[]): string {
  const field = fields.find(({ name }) => name === 'content-transfer-encoding')
  return (field === undefined ? '' : parseParameterized(unfolded(field)).value) || '7bit'
}

function isMessage(type: string): boolean {
  return type === 'message/rfc822' || type === 'message/global'
}

function endOfLine(bytes: Buffer, start: number): number {
  let at = start
  while (at < bytes.length && bytes[at] !== LF && bytes[at] !== CR) at++
  return at
}

function afterLine(bytes: Buffer, end: number): number {
  return bytes[end] === CR && bytes[end + 1] === LF ? end + 2 : end + 1
}

function beforeLineEnd(bytes: Buffer, start: number): number {
  if (bytes[start - 1] === LF) return bytes[start - 2] === CR ? start - 2 : start - 1
  return bytes[start - 1] === CR ? start - 1 : start
}

/**
 * Where the field name ends, or -1: printable characters but colon (RFC 5322 2.2), blanks before the colon allowed (4.5). To other readers a line with
 * nothing before its colon does not end the header either.
 */
function colonIn(bytes: Buffer, start: number, end: number): number {
  let at = start
  while (at < end && (bytes[at] as number) > SPACE && bytes[at] !== COLON && bytes[at] !== 127) at++
  while (at < end && (bytes[at] === SPACE || bytes[at] === TAB)) at++
  return bytes[at] === COLON ? at : -1
}

function nameOf(bytes: Buffer, start: number, colon: number): string {
  return bytes.toString('latin1', start, colon).trimEnd().toLowerCase()
}

/** The mbox line `From someone date`, or its quoted form, before the first field. */
function isEnvelopeLine(bytes: Buffer, start: number): boolean {
  const text = bytes.toString('latin1', start, start + 6)
  return text.startsWith('From ') || text === '>From '
}
