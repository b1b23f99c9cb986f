// The list at the end of a ZIP archive (APPNOTE 4.3.12 to 4.3.16), read only to refuse what it gives away before anything is unpacked: too
// many entries, sizes beyond the limits, entries that share their bytes (the bomb that needs no nesting), and lists that contradict the
// file, which programs read differently.
import { limits } from '../config.ts'
import { Beyond, tooManyFiles, type Allowance } from './allowance.ts'

const endRecord = Buffer.from('PK\u0005\u0006', 'latin1')
export const localHeader = Buffer.from('PK\u0003\u0004', 'latin1')
const wideLocator = Buffer.from('PK\u0006\u0007', 'latin1')
const wideEnd = Buffer.from('PK\u0006\u0006', 'latin1')
const listedHeader = 0x0201_4b50
const unknown16 = 0xffff
export const unknown32 = 0xffff_ffff
const contradicts = 'has a list of files that contradicts its content'

export interface ListedFile {
  /** Where its local header lies. */
  readonly offset: number
  readonly method: number
  readonly packed: number
  readonly unpacked: number
}

export interface List {
  /** In the order of the file. */
  readonly entries: readonly ListedFile[]
  /** Whether contradictions count. */
  readonly strict: boolean
  /** No program could find another list. */
  readonly isOnly: boolean
  /** Where other programs would look: what other lists name, and what this one names where its places are counted from the first byte. */
  readonly others: readonly ListedFile[]
}

/** Throws `Beyond`. */
export function checkDirectory(bytes: Buffer, allowance: Allowance): List {
  // Only of what is an archive from its first byte are contradictions held against it; elsewhere the bytes may mean something else.
  const strict = bytes.readUInt16LE(0) === 0x4b50
  const end = bytes.lastIndexOf(endRecord)
  const isOnly = end === bytes.indexOf(endRecord)
  const others = othersOf(bytes, end, allowance)
  const none = { entries: [], strict, isOnly, others }
  if (end < 0 || end + 22 > bytes.length || bytes.length - end > unknown16 + 22) return none
  const { count, size, offset, at } = endOf(bytes, end, strict)
  if (count > limits.scanEntriesMax) throw tooManyFiles()
  const begin = at - size
  const shift = begin - offset // what stands before the archive
  const entries = begin < 0 ? [] : entriesOf(bytes, begin, at, shift)
  // What is not held against it leads some programs to its files all the same.
  const doubtful = { ...none, others: [...others, ...entries.filter((entry) => standsAt(bytes, entry))] }
  if (begin < 0 || shift < 0) {
    if (strict) throw new Beyond(contradicts)
    return doubtful
  }
  if (strict && entries.length !== count) throw new Beyond(contradicts)
  let unpacked = 0
  let free = 0
  for (const entry of entries.sort((one, other) => one.offset - other.offset)) {
    if (entry.offset < free || entry.offset + 30 > begin) {
      if (strict) throw new Beyond('has files that overlap')
      return doubtful
    }
    free = entry.offset + 30 + entry.packed
    unpacked += entry.unpacked
    if (strict && (entry.unpacked > limits.scanEntryBytesMax || unpacked > limits.scanBytesMax)) allowance.tooMuch()
  }
  return { entries, strict, isOnly, others }
}

const standsAt = (bytes: Buffer, { offset }: ListedFile): boolean =>
  offset >= 0 && bytes.subarray(offset, offset + 4).equals(localHeader)

/**
 * Java's reader passes over an end record that it cannot believe and takes the one before; some take the first. Where a list does not stand where
 * it says, some believe its place, and some that it stands right before its end.
 */
function othersOf(bytes: Buffer, last: number, allowance: Allowance): ListedFile[] {
  const others: ListedFile[] = []
  let read = 0
  const take = (entries: readonly ListedFile[]): void => {
    read += entries.length
    // The same list may have been read from many ends.
    if (read > 10 * limits.scanEntriesMax) throw tooManyFiles()
    for (const entry of entries) if (standsAt(bytes, entry)) others.push(entry)
  }
  const first = Math.max(0, bytes.length - unknown16 - 22)
  for (let end = bytes.indexOf(endRecord, first); end >= 0; end = bytes.indexOf(endRecord, end + 1)) {
    if (end + 22 > bytes.length) break
    allowance.inTime()
    const { size, offset, at } = endOf(bytes, end, false)
    const begin = at - size
    const shift = begin - offset
    if (begin >= 0 && end !== last) take(entriesOf(bytes, begin, at, shift))
    if (begin >= 0 && shift !== 0) take(entriesOf(bytes, begin, at, 0))
    if (shift !== 0) take(entriesOf(bytes, offset, at, 0))
  }
  return others
}

function endOf(bytes: Buffer, end: number, strict: boolean) {
  const count = bytes.readUInt16LE(end + 10)
  const size = bytes.readUInt32LE(end + 12)
  const offset = bytes.readUInt32LE(end + 16)
  const locator = end - 20
  const hasWide = locator >= 0 && bytes.subarray(locator, locator + 4).equals(wideLocator)
  if (!hasWide) return { count, size, offset, at: end }
  // ZIP64: its own record must stand where the locator says, behind the list and before the locator.
  const wide = locator - 56
  if (wide < 0 || !bytes.subarray(wide, wide + 4).equals(wideEnd)) {
    if (strict) throw new Beyond(contradicts)
    return { count, size, offset, at: end }
  }
  const counted = Number(bytes.readBigUInt64LE(wide + 32))
  const agree = (narrow: number, mark: number, wider: number): boolean => narrow === mark || narrow === wider
  const sized = Number(bytes.readBigUInt64LE(wide + 40))
  const placed = Number(bytes.readBigUInt64LE(wide + 48))
  if (
    strict &&
    !(agree(count, unknown16, counted) && agree(size, unknown32, sized) && agree(offset, unknown32, placed))
  )
    throw new Beyond(contradicts)
  return { count: counted, size: sized, offset: placed, at: wide }
}

function entriesOf(bytes: Buffer, begin: number, end: number, shift: number): ListedFile[] {
  const entries: ListedFile[] = []
  for (let at = begin; at + 46 <= end && bytes.readUInt32LE(at) === listedHeader;) {
    const packed = bytes.readUInt32LE(at + 20)
    const unpacked = bytes.readUInt32LE(at + 24)
    const offset = bytes.readUInt32LE(at + 42)
    const extra = at + 46 + bytes.readUInt16LE(at + 28)
    const comment = extra + bytes.readUInt16LE(at + 30)
    const wide = wideFields(bytes, extra, Math.min(comment, end))
    const take = (narrow: number): number => (narrow === unknown32 ? (wide.shift() ?? narrow) : narrow)
    // In this order, and only those that did not fit (APPNOTE 4.5.3).
    const [realUnpacked, realPacked, realOffset] = [take(unpacked), take(packed), take(offset)]
    const method = bytes.readUInt16LE(at + 10)
    entries.push({ offset: shift + realOffset, method, packed: realPacked, unpacked: realUnpacked })
    if (entries.length > limits.scanEntriesMax) throw tooManyFiles()
    at = comment + bytes.readUInt16LE(at + 32)
  }
  return entries
}

/** The 64-bit numbers of extra field 1. */
export function wideFields(bytes: Buffer, from: number, to: number): number[] {
  for (let at = from; at + 4 <= to;) {
    const length = bytes.readUInt16LE(at + 2)
    if (bytes.readUInt16LE(at) === 1) {
      const numbers: number[] = []
      for (let each = at + 4; each + 8 <= Math.min(at + 4 + length, to); each += 8)
        numbers.push(Number(bytes.readBigUInt64LE(each)))
      return numbers
    }
    at += 4 + length
  }
  return []
}
