// The files inside ZIP archives (APPNOTE 6.3), gzip (RFC 1952) and tar (POSIX ustar, GNU), for the malware scan. It believes no list and no
// declared size: local headers are looked for in the bytes themselves, and data ends where its deflate stream ends, so that what one
// program would unpack and another would not is seen too. Runs in the scan's thread: everything here is synchronous.
import { constants, inflateRawSync } from 'node:zlib'
import { limits } from '../config.ts'
import { Beyond, tooManyFiles, type Allowance } from './allowance.ts'
import { checkDirectory, localHeader, unknown32, wideFields, type List, type ListedFile } from './zip-directory.ts'

export type Member =
  | { readonly bytes: Buffer; readonly name?: string }
  /** Encrypted, or packed by a method that we do not know. */
  | { readonly opaque: 'encrypted' | 'method' }

const nextRecord = Buffer.from('PK', 'latin1')
const encryptedFlag = 1
const unknownSizeFlag = 8
const stored = 0
const deflated = 8
const damaged = 'is damaged and does not unpack'

/** Of whatever holds one: also behind a program that unpacks itself, or in the middle of a mail. */
export function* zipMembers(bytes: Buffer, allowance: Allowance): Generator<Member> {
  let at = bytes.indexOf(localHeader)
  if (at < 0) return
  const list = checkDirectory(bytes, allowance)
  const listed = new Map(list.entries.map((entry) => [entry.offset, entry]))
  const seen = new Set<number>()
  const lookAt = (offset: number): ZipRead => zipMember(bytes, offset, listed.get(offset), list, allowance)
  for (; at >= 0; at = bytes.indexOf(localHeader, at)) {
    seen.add(at)
    const { members, end } = lookAt(at)
    yield* members
    at = end
  }
  // What the list names and the walk jumped over, because a header lied about its length.
  for (const offset of listed.keys()) if (!seen.has(offset)) yield* lookAt(offset).members
  // The same for programs that go by another list. Of an archive that is stored in this one, all has been seen when it was its turn.
  for (const entry of list.others)
    if (allowance.visit('zip', bytes, entry.offset, fileEnd(bytes, entry)))
      yield* zipMember(bytes, entry.offset, entry, { strict: false, isOnly: false }, allowance).members
}

/** As the list and its local header have it, whichever is the later. */
function fileEnd(bytes: Buffer, { offset, packed }: ListedFile): number {
  if (offset + 30 > bytes.length) return bytes.length
  const start = offset + 30 + bytes.readUInt16LE(offset + 26) + bytes.readUInt16LE(offset + 28)
  return start + Math.max(packed, bytes.readUInt32LE(offset + 18))
}

interface ZipRead {
  readonly members: readonly Member[]
  /** Where the search for the next header goes on. */
  readonly end: number
}

/**
 * Programs take method, size and the mark of encryption from the list, or from the header, and not all from the same list: unless all agree
 * that it is stored it is tried to inflate, and what is not deflated after all, or only by one of them, is taken as it stands.
 */
function zipMember(
  bytes: Buffer,
  at: number,
  listed: ListedFile | undefined,
  { strict, isOnly }: Pick<List, 'strict' | 'isOnly'>,
  allowance: Allowance,
): ZipRead {
  const nothing: ZipRead = { members: [], end: at + 4 }
  if (at + 30 > bytes.length) return nothing
  const flags = bytes.readUInt16LE(at + 6)
  const method = bytes.readUInt16LE(at + 8)
  const nameEnd = at + 30 + bytes.readUInt16LE(at + 26)
  const start = nameEnd + bytes.readUInt16LE(at + 28)
  if (start > bytes.length) return nothing
  allowance.entry()
  const name = bytes.toString('latin1', at + 30, Math.min(nameEnd, at + 30 + 255))
  const members: Member[] = []
  const encrypted = (flags & encryptedFlag) !== 0
  if (encrypted) members.push({ opaque: 'encrypted' })
  else if (method !== stored && method !== deflated) members.push({ opaque: 'method' })
  const isStored = isOnly && !encrypted && method === stored && listed?.method === stored
  if (!isStored) allowance.visit('zip', bytes, at)
  const inflated = isStored ? undefined : inflate(bytes.subarray(start), allowance)
  if (inflated !== undefined) members.push({ bytes: inflated.bytes, name })
  const plain = !encrypted && method === deflated && (listed?.method ?? deflated) === deflated
  if (plain && inflated !== undefined) return { members, end: start + inflated.used }
  // Some programs unpack as far as it goes, and keep that.
  if (plain && strict && listed !== undefined && listed.packed > 0) throw new Beyond(damaged)
  const end = storedEnd(bytes, start, at, listed)
  if (end > start) {
    allowance.unpacked(end - start, end - start)
    members.push({ bytes: bytes.subarray(start, end), name })
  }
  return { members, end: method === deflated ? start : end }
}

/** Where what is not deflated ends: the later of what the header and the list say. */
function storedEnd(bytes: Buffer, start: number, at: number, listed: ListedFile | undefined): number {
  const behind = (packed: number): number => (start + packed <= bytes.length ? start + packed : start)
  const narrow = bytes.readUInt32LE(at + 18)
  // In a local header both sizes stand in the wide field, or none (APPNOTE 4.5.3).
  const extra = at + 30 + bytes.readUInt16LE(at + 26)
  const declared = behind(narrow === unknown32 ? (wideFields(bytes, extra, start)[1] ?? narrow) : narrow)
  const unknown = (bytes.readUInt16LE(at + 6) & unknownSizeFlag) !== 0
  if (listed !== undefined) return Math.max(behind(listed.packed), unknown ? start : declared)
  if (!unknown) return declared
  const found = bytes.indexOf(nextRecord, start)
  return found < 0 ? bytes.length : found
}

/** All members of a gzip file: they may follow each other. Readers differ in how many line ends before it belong to the header of its part. */
export function* gzipMembers(bytes: Buffer, allowance: Allowance): Generator<Member> {
  let at = 0
  while (bytes[at] === 0x0d || bytes[at] === 0x0a) at++
  while (bytes[at] === 0x1f && bytes[at + 1] === 0x8b && bytes[at + 2] === 8) {
    const start = gzipData(bytes, at)
    if (start === undefined) return
    allowance.entry()
    const inflated = inflate(bytes.subarray(start), allowance)
    if (inflated === undefined) throw new Beyond(damaged)
    yield { bytes: inflated.bytes }
    at = start + inflated.used + 8 // behind checksum and size
    while (bytes[at] === 0) at++ // padding, which programs pass over
  }
}

/** Where the deflate stream begins, behind the optional fields. */
function gzipData(bytes: Buffer, at: number): number | undefined {
  const flags = bytes[at + 3] ?? 0
  let next = at + 10
  if ((flags & 4) !== 0) {
    if (next + 2 > bytes.length) return undefined
    next += 2 + bytes.readUInt16LE(next)
  }
  for (const flag of [8, 16]) {
    if ((flags & flag) === 0) continue
    const zero = bytes.indexOf(0, next)
    if (zero < 0) return undefined
    next = zero + 1
  }
  if ((flags & 2) !== 0) next += 2
  return next < bytes.length ? next : undefined
}

/**
 * Of every block that is a header, wherever it stands: programs pass over what is none to them, also in the first place, and differ in which are none,
 * in which have content (a link), and whose word for the size counts.
 */
export function* tarMembers(bytes: Buffer, allowance: Allowance): Generator<Member> {
  /** By records of pax, of the next file and of all that follow. */
  const told = new Set<number>()
  const toldOfAll = new Set<number>()
  for (let at = 0; at + 512 <= bytes.length; at += 512) {
    if (!isTarHeader(bytes, at)) continue
    const sizes = new Set([tarSize(bytes, at), ...told, ...toldOfAll])
    const start = at + 512
    const record = bytes.subarray(start, start + tarSize(bytes, at))
    const type = String.fromCharCode(bytes[at + 156] ?? 0)
    if (type === 'x') addPaxSizes(record, told)
    else if (type === 'g') addPaxSizes(record, toldOfAll)
    else if (type !== 'L' && type !== 'K') told.clear()
    // Of a tar in a tar each is looked at once.
    if (!allowance.visit('tar', bytes, at, start + Math.max(...sizes))) continue
    const name = bytes.toString('latin1', at, at + 100).replace(/\0.*$/s, '')
    for (const size of sizes) {
      allowance.entry()
      const end = Math.min(start + size, bytes.length)
      if (end <= start) continue
      allowance.unpacked(end - start, end - start)
      yield { bytes: bytes.subarray(start, end), name }
    }
  }
}

/** Every size that stands in a record of pax. Each would be one more file. */
function addPaxSizes(record: Buffer, sizes: Set<number>): void {
  for (const [, digits] of record.toString('latin1').matchAll(/ size=(\d{1,15})\n/g))
    if (sizes.add(Number(digits)).size > limits.scanEntriesMax) throw tooManyFiles()
}

/** By its checksum: old tars have no other mark. */
function isTarHeader(bytes: Buffer, at: number): boolean {
  if (at + 512 > bytes.length || !mayBeOctal(bytes, at + 148)) return false
  const declared = Number.parseInt(bytes.toString('latin1', at + 148, at + 156).replace(/[\x00-\x20]+/g, ' '), 8)
  if (!(declared > 0)) return false
  let sum = 8 * 0x20
  let high = 0
  for (let each = 0; each < 512; each++) {
    if (each >= 148 && each < 156) continue
    const byte = bytes[at + each] ?? 0
    sum += byte
    if (byte > 0x7f) high++
  }
  // Some have counted with signed bytes.
  return sum === declared || sum - 256 * high === declared
}

/** Asked of every block of a file: most are no header at the first look. */
function mayBeOctal(bytes: Buffer, at: number): boolean {
  for (let each = at; each < at + 3; each++) {
    const byte = bytes[each] as number
    if (byte > 0x20 && (byte & 0xf8) !== 0x30) return false
  }
  return true
}

/** Octal, or base 256 where the first bit is set (GNU). */
function tarSize(bytes: Buffer, at: number): number {
  if (((bytes[at + 124] ?? 0) & 0x80) === 0)
    return Number.parseInt(bytes.toString('latin1', at + 124, at + 136).replace(/[\x00-\x20]+/g, ' '), 8) || 0
  let size = 0
  for (let each = at + 125; each < at + 136; each++) size = size * 256 + (bytes[each] ?? 0)
  return size
}

/** What a raw deflate stream unpacks to, and how many bytes it took; undefined where it is none. */
function inflate(bytes: Buffer, allowance: Allowance): { readonly bytes: Buffer; readonly used: number } | undefined {
  const max = allowance.entryBytesMax
  if (max <= 0) allowance.tooMuch()
  try {
    const { buffer, engine } = inflateRawSync(bytes, {
      info: true,
      maxOutputLength: max,
      chunkSize: 256 * 1024,
      finishFlush: constants.Z_SYNC_FLUSH, // one that is cut short still shows what it holds
    }) as unknown as { buffer: Buffer; engine: { bytesWritten: number } }
    allowance.unpacked(buffer.length, engine.bytesWritten)
    return { bytes: buffer, used: engine.bytesWritten }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ERR_BUFFER_TOO_LARGE') allowance.tooMuch()
    if (code?.startsWith('Z_') === true) return undefined
    throw error
  }
}
