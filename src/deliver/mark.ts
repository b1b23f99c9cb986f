// A node's own counter on its own disk: what the restore fence compares with the database (delivery-semantics). Two records in one small
// file are written in turn, each with its checksum, so that a write that was cut off leaves the one before it.
import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { giveToOwner, syncFolder } from '../base/folders.ts'
import type { Mark } from '../store/outbound.ts'
import type { NodeMark } from '../store/fence.ts'

export interface NodeFile extends Mark {
  /** What stands in the file; undefined where there is none yet. */
  readonly known: NodeMark | undefined
  /** Takes over what a check-in answered. It never goes back. */
  agree(mark: NodeMark): Promise<void>
  /** Called when the disk has refused a write; not again before it has taken one. */
  onRefused(refused: (why: MarkNotKept) => void): void
  close(): Promise<void>
}

/** The disk has refused a write (it is full, read-only, broken): a lack of this machine, and no word about any message. */
export class MarkNotKept extends Error {
  override readonly name = 'MarkNotKept'
}

export interface MarkRecord extends NodeMark {
  readonly node: string
}

/** Writes one record durably; tests give their own. */
export type WriteRecord = (record: MarkRecord) => Promise<void>

const recordBytes = 128
/** The two records lie in sectors of their own. */
const recordEvery = 512

/** Opens, or makes, the mark in a node's folder. */
export async function openMark(folder: string): Promise<NodeFile> {
  // One system call writes and syncs: one turn on the thread pool, which the signatures use too.
  const handle = await open(join(folder, 'mark'), constants.O_RDWR | constants.O_CREAT | constants.O_DSYNC, 0o600)
  await giveToOwner(handle, folder)
  syncFolder(folder)
  syncFolder(dirname(folder))
  const records = await readRecords(handle)
  const last = newest(records)
  let turn = last === undefined ? 0 : records.indexOf(last) + 1
  const write: WriteRecord = async (record) => {
    const { bytesWritten } = await handle.write(encode(record), 0, recordBytes, (turn % 2) * recordEvery)
    if (bytesWritten < recordBytes) throw new Error(`only ${bytesWritten} bytes of it were taken`)
    // One that failed may have spoilt its place: the next one goes there again, and not over the only good one.
    turn++
  }
  return makeMark(last, write, () => handle.close())
}

/** What stands in the mark of a seat that somebody else holds; undefined where there is none yet. */
export async function readMark(folder: string): Promise<MarkRecord | undefined> {
  const handle = await open(join(folder, 'mark'), 'r').catch(() => undefined)
  try {
    return handle && newest(await readRecords(handle))
  } finally {
    await handle?.close()
  }
}

const newest = (records: readonly MarkRecord[]): MarkRecord | undefined =>
  records.toSorted((one, other) => other.era - one.era || other.counter - one.counter)[0]

export function makeMark(
  last: MarkRecord | undefined,
  write: WriteRecord,
  close: () => Promise<void> = () => Promise.resolve(),
): NodeFile {
  const node = last?.node ?? randomUUID()
  let known: NodeMark | undefined = last
  let wanted: NodeMark = last ?? { counter: 0, era: 0 }
  let waiting: { resolve: () => void; reject: (error: unknown) => void }[] = []
  let writing: Promise<void> | undefined
  let refusing = false
  let heard: (why: MarkNotKept) => void = () => undefined

  const isOnDisk = ({ counter, era }: NodeMark) =>
    known !== undefined && (known.era > era || (known.era === era && known.counter >= counter))

  /** One write at a time; whoever comes meanwhile shares the next one. */
  const pump = async (): Promise<void> => {
    while (waiting.length > 0) {
      const sharing = waiting
      waiting = []
      const record = wanted
      try {
        await write({ node, ...record })
        known = record
        refusing = false
        for (const { resolve } of sharing) resolve()
      } catch (cause) {
        const why = new MarkNotKept("this node's mark cannot be written", { cause })
        for (const { reject } of sharing) reject(why)
        if (!refusing) heard(why)
        refusing = true
      }
    }
    writing = undefined
  }
  const store = (mark: NodeMark): Promise<void> => {
    if (mark.era > wanted.era || (mark.era === wanted.era && mark.counter > wanted.counter)) wanted = mark
    if (isOnDisk(mark)) return Promise.resolve()
    return new Promise((resolve, reject) => {
      waiting.push({ resolve, reject })
      writing ??= pump()
    })
  }
  return {
    node,
    get counter() {
      return wanted.counter
    },
    get known() {
      return known
    },
    keep: (counter) => store({ counter, era: wanted.era }),
    agree: (mark) => store(mark),
    onRefused: (refused) => void (heard = refused),
    close: async () => {
      await writing
      await close()
    },
  }
}

function encode({ node, era, counter }: MarkRecord): Buffer {
  const text = `posthorn-mark-1 ${node} ${era} ${counter}`
  return Buffer.from(`${text} ${crc32(text).toString(16)}`.padEnd(recordBytes - 1).concat('\n'))
}

async function readRecords(handle: FileHandle): Promise<MarkRecord[]> {
  const bytes = Buffer.alloc(2 * recordEvery)
  await handle.read(bytes, 0, bytes.length, 0)
  return [0, recordEvery].flatMap((at) => {
    const text = bytes.toString('latin1', at, at + recordBytes).trimEnd()
    const [, body = '', node = '', era, counter, sum] =
      /^(posthorn-mark-1 ([0-9a-f-]{36}) (\d+) (\d+)) ([0-9a-f]+)$/.exec(text) ?? []
    return sum !== undefined && crc32(body).toString(16) === sum
      ? [{ node, era: Number(era), counter: Number(counter) }]
      : []
  })
}
