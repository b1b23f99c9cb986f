// The file of a backup (backup.ts): a line for its head, then for each table a mark and its rows, and at the end how many there are; all compressed.
import { createReadStream } from 'node:fs'
import { createZstdDecompress } from 'node:zlib'
import type { DatedPartition } from './dated-partitions.ts'

/** The first line of the file. */
export interface Head {
  readonly posthorn: 1
  /** Names of the migrations that made the schema, oldest first. */
  readonly migrations: readonly string[]
  readonly takenAt: string
  /** Those with dates. */
  readonly partitions: readonly DatedPartition[]
}
/** Before the rows of each table, and at the end: a file that ends without it is not whole. */
export type Mark = { readonly table: string } | { readonly end: true; readonly rows: number }

/** What compression takes and gives at a time: each piece is a way to another thread and back. */
export const pieceBytes = 1024 * 1024
export const chunkSize = pieceBytes / 4

export const asLine = (what: Head | Mark): Buffer => Buffer.from(`${JSON.stringify(what)}\n`)

/**
 * PostgreSQL takes no column out of a line that has U+0000, or half a surrogate pair, anywhere in it. No text has either, but a column of JSON is kept as it
 * came, and one such word of a stranger would keep all rows from coming back. It is told as what is kept today is (`keepUnmatched`): as U+FFFD.
 */
export function readable(line: string): string {
  if (!/\\u(?:0000|d[89a-f])/i.test(line)) return line
  // Each backslash with what belongs to it, so that none that is a character itself begins an escape: a whole pair stays.
  return line.replace(
    /\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(u0000|ud[89a-f][0-9a-f]{2})|.)/gi,
    (escape, alone?: string) => (alone === undefined ? escape : '\\ufffd'),
  )
}

/** No row begins with these members: names of columns come first, and no table has such ones. */
export function markOf(line: string): Mark | undefined {
  return line.startsWith('{"table":') || line.startsWith('{"end":true') ? (JSON.parse(line) as Mark) : undefined
}

/** What its first line says; undefined where that is no backup's. */
export function headOf(line: string): Head | undefined {
  try {
    const head = JSON.parse(line) as Head
    return head.posthorn === 1 && Array.isArray(head.migrations) ? head : undefined
  } catch {
    return undefined
  }
}

export async function readHead(lines: AsyncIterator<string>, file: string): Promise<Head> {
  const no = new Error(`${file} is no backup of Posthorn.`)
  try {
    const { value } = await lines.next()
    const head = headOf(value as string)
    if (head === undefined) throw no
    return head
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw new Error(`There is no file ${file}.`, { cause: error })
    throw no
  }
}

/** Split at line feeds alone: other line separators are text of somebody. `read` says how much of the file that took. */
export async function* linesOf(file: string, read: { bytes: number }): AsyncGenerator<string> {
  const plain = createZstdDecompress({ chunkSize })
  const bytes = createReadStream(file).on('error', (error) => plain.destroy(error))
  let pieces: Buffer[] = []
  for await (const chunk of bytes.pipe(plain) as AsyncIterable<Buffer>) {
    read.bytes = bytes.bytesRead
    let from = 0
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      yield Buffer.concat([...pieces, chunk.subarray(from, at)]).toString('utf8')
      pieces = []
      from = at + 1
    }
    pieces.push(chunk.subarray(from))
  }
}
