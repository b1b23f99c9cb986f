// Replies to final dots that the database has not heard yet, on this machine's disk: so an outage of the database costs no certainty
// (delivery-semantics, result journal). One line each, with its checksum; synced together; told again after a restart. A line that the
// database has answered may be told again without harm, so the file is emptied when nothing in it is waiting any more.
import { open, readFile, rename, rm, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { limits } from '../config.ts'
import { giveToOwner, syncFolder, writeDurably } from '../base/folders.ts'
import type { Log } from '../base/log.ts'
import type { Claim } from '../domain/message.ts'
import { claimName, type Ending } from '../store/outbound.ts'

export interface Journal {
  /** Resolves when it is on the disk. Rejects when the journal is full: then the reply lives only as long as this process. */
  keep(ending: Ending): Promise<void>
  /** The database has answered. Nothing happens where it was never kept. */
  settle(claim: Claim): void
  /** What an earlier life left here and the database has not answered. */
  readonly inherited: readonly Ending[]
  /** How many replies wait for the database. */
  readonly size: number
  close(): Promise<void>
}

export class JournalFull extends Error {
  override readonly name = 'JournalFull'
}

interface Line {
  readonly text: string
  readonly size: number
  resolve(): void
  reject(error: Error): void
}

export async function openJournal(folder: string, log: Log): Promise<Journal> {
  const path = join(folder, 'journal.jsonl')
  const text = await readIfThere(path)
  const { endings, good, damaged } = readLines(text)
  if (damaged > 0) {
    const copy = `${path}.damaged-${Date.now()}`
    writeDurably(copy, text)
    log.fault('journal', new Error(`${damaged} lines of ${path} are damaged; the whole file is kept as ${copy}`))
  }
  if (good !== text) {
    const draft = `${path}.good`
    await rm(draft, { force: true })
    writeDurably(draft, good)
    await rename(draft, path)
  }
  const handle = await open(path, 'a', 0o600)
  await giveToOwner(handle, folder)
  syncFolder(folder)
  return makeJournal(handle, endings, Buffer.byteLength(good))
}

/** What a journal does with its file; a test gives its own. */
export type JournalFile = Pick<FileHandle, 'appendFile' | 'truncate' | 'datasync' | 'close'>

export function makeJournal(handle: JournalFile, found: readonly Ending[], foundBytes: number): Journal {
  const live = new Map(found.map((ending) => [keyOf(ending), ending]))
  const inherited = new Set(live.keys())
  /** What is on the disk and whole, and what is to come there. */
  let bytes = foundBytes
  /** What is on the disk and whole. Behind it may stand a part of what the disk refused: it goes before the next line is written. */
  let wholeBytes = foundBytes
  let torn = false
  let lines: Line[] = []
  let working: Promise<void> | undefined

  const empty = async () => {
    await handle.truncate(0)
    // Empty it is from here on, also where the sync fails: lines that a power cut brings back were answered, and are told again without harm. What
    // was asked for meanwhile counts on.
    bytes -= wholeBytes
    wholeBytes = 0
    torn = false
    await handle.datasync()
  }
  const append = async (together: readonly Line[], size: number) => {
    if (torn) await handle.truncate(wholeBytes)
    torn = true
    await handle.appendFile(together.map((line) => line.text).join(''))
    await handle.datasync()
    torn = false
    wholeBytes += size
  }
  const work = async (): Promise<void> => {
    for (;;) {
      if (lines.length === 0 && (live.size > 0 || bytes === 0)) break
      const together = lines
      lines = []
      const size = together.reduce((sum, line) => sum + line.size, 0)
      try {
        if (together.length === 0) await empty()
        else await append(together, size)
        for (const line of together) line.resolve()
      } catch (error) {
        bytes -= size
        for (const line of together) line.reject(error as Error)
        // What could not be emptied is tried again after the next line; one may have come meanwhile.
        if (together.length === 0 && lines.length === 0) break
      }
    }
    working = undefined
  }
  return {
    keep: (ending) => {
      const body = JSON.stringify(ending)
      const text = `${crc32(body).toString(16).padStart(8, '0')} ${body}\n`
      const size = Buffer.byteLength(text)
      if (bytes + size > limits.journalBytesMax)
        return Promise.reject(new JournalFull(`the journal holds ${live.size} replies and ${bytes} bytes`))
      live.set(keyOf(ending), ending)
      bytes += size
      return new Promise((resolve, reject) => {
        const fail = (error: Error) => {
          live.delete(keyOf(ending))
          reject(error)
        }
        lines.push({ text, size, resolve, reject: fail })
        working ??= work()
      })
    },
    settle: (claim) => {
      const key = keyOf(claim)
      inherited.delete(key)
      if (live.delete(key) && live.size === 0) working ??= work()
    },
    get inherited() {
      return [...inherited].flatMap((key) => live.get(key) ?? [])
    },
    get size() {
      return live.size
    },
    close: async () => {
      await working
      await handle.close()
    },
  }
}

const keyOf = (claim: Claim): string => `${claimName(claim)} ${claim.token}`

/** What is whole. The last line may have been cut off: nobody was told that it was kept. */
export function readLines(text: string): { endings: Ending[]; good: string; damaged: number } {
  const lines = text.split('\n')
  lines.pop()
  const whole = lines.filter((line) => crc32(line.slice(9)).toString(16).padStart(8, '0') === line.slice(0, 8))
  const good = whole.map((line) => `${line}\n`).join('')
  const endings = whole.map((line) => JSON.parse(line.slice(9)) as Ending)
  return { endings, good, damaged: lines.length - whole.length }
}

async function readIfThere(path: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
}
