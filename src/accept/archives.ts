// The files inside ZIP archives (APPNOTE 6.3), gzip (RFC 1952) and tar (POSIX ustar, GNU), for the malware scan. It believes no list and no
// declared size: local headers are looked for in the bytes themselves, and data ends where its deflate stream ends, so that what one
// program would unpack and another would not is seen too. Runs in the scan's thread: everything here is synchronous.
import { constants, inflateRawSync } from 'node:zlib'
import type { Allowance } from './allowance.ts'
import { checkDirectory } from './zip-directory.ts'

export type Member =
  | { readonly bytes: Buffer; readonly name?: string }
  /** Encrypted, or packed by a method that we do not know. */
  | { readonly opaque: 'encrypted' | 'method' }

const localHeader = Buffer.from('PK\u0003\u0004', 'latin1')
const nextRecord = Buffer.from('PK', 'latin1')
const encryptedFlag = 1
const unknownSizeFlag = 8

/** Of whatever holds one: also behind a program that unpacks itself, or in the middle of a mail. */
export function* zipMembers(bytes: Buffer, allowance: Allowance): Generator<Member> {
  let at = bytes.indexOf(localHeader)
  if (at < 0) return
  const listed = checkDirectory(bytes, allowance)
  const seen = new Set<number>()
  for (; at >= 0; at = bytes.indexOf(localHeader, at)) {
    seen.add(at)
    const { member, end } = zipMember(bytes, at, allowance)
    if (member !== undefined) yield member
    at = end
  }
  // What the list names and the walk jumped over, because a header lied about its length.
  for (const offset of listed) {
    if (seen.has(offset)) continue
    const { member } = zipMember(bytes, offset, allowance)
    if (member !== undefined) yield member
  }
}

function zipMember(bytes: Buffer, at: number, allowance: Allowance): { member?: Member; end: number } {
  const nothing = { end: at + 4 }
  if (at + 30 > bytes.length) return nothing
  const flags = bytes.readUInt16LE(at + 6)
  const method = bytes.readUInt16LE(at + 8)
  const packed = bytes.readUInt32LE(at + 18)
  const nameEnd = at + 30 + bytes.readUInt16LE(at + 26)
  const start = nameEnd + bytes.readUInt16LE(at + 28)
  if (start > bytes.length) return nothing
  allowance.entry()
  const name = bytes.toString('latin1', at + 30, Math.min(nameEnd, at + 30 + 255))
  const declaredEnd = packed > 0 && start + packed <= bytes.length ? start + packed : undefined
  if ((flags & encryptedFlag) !== 0) return { member: { opaque: 'encrypted' }, end: declaredEnd ?? start }
  if (method === 8) {
    const inflated = inflate(bytes.subarray(start), allowance)
    return inflated === undefined
      ? { end: start }
      : { member: { bytes: inflated.bytes, name }, end: start + inflated.used }
  }
  if (method !== 0) return { member: { opaque: 'method' }, end: declaredEnd ?? start }
  const found = bytes.indexOf(nextRecord, start)
  const end = (flags & unknownSizeFlag) === 0 ? (declaredEnd ?? start) : found < 0 ? bytes.length : found
  allowance.unpacked(end - start, end - start)
  return { member: { bytes: bytes.subarray(start, end), name }, end: Math.max(end, start) }
}

/** All members of a gzip file: they may follow each other. */
export function* gzipMembers(bytes: Buffer, allowance: Allowance): Generator<Member> {
  let at = 0
  while (bytes[at] === 0x1f && bytes[at + 1] === 0x8b && bytes[at + 2] === 8) {
    const start = gzipData(bytes, at)
    if (start === undefined) return
    allowance.entry()
    const inflated = inflate(bytes.subarray(start), allowance)
    if (inflated === undefined) return
    yield { bytes: inflated.bytes }
    at = start + inflated.used + 8 // behind checksum and size
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

export function* tarMembers(bytes: Buffer, allowance: Allowance): Generator<Member> {
  let at = 0
  while (at + 512 <= bytes.length && isTarHeader(bytes, at)) {
    allowance.entry()
    const size = tarSize(bytes, at)
    const start = at + 512
    const end = Math.min(start + size, bytes.length)
    if (end > start) {
      allowance.unpacked(end - start, end - start)
      yield { bytes: bytes.subarray(start, end), name: bytes.toString('latin1', at, at + 100).replace(/\0.*$/s, '') }
    }
    at = start + Math.ceil(size / 512) * 512
  }
}

/** By its checksum: old tars have no other mark. */
function isTarHeader(bytes: Buffer, at: number): boolean {
  const declared = Number.parseInt(bytes.toString('latin1', at + 148, at + 156).replace(/[\0 ]+/g, ' '), 8)
  if (!(declared > 0)) return false
  let sum = 8 * 0x20
  for (let each = 0; each < 512; each++) if (each < 148 || each >= 156) sum += bytes[at + each] ?? 0
  return sum === declared
}

/** Octal, or base 256 where the first bit is set (GNU). */
function tarSize(bytes: Buffer, at: number): number {
  if (((bytes[at + 124] ?? 0) & 0x80) === 0)
    return Number.parseInt(bytes.toString('latin1', at + 124, at + 136).replace(/[\0 ]+/g, ' '), 8) || 0
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
