// Values of options, read strictly: what is none is wrong usage.
import { createReadStream } from 'node:fs'
import { InvalidArgumentError } from 'commander'
import { isUuid } from '../base/uuid.ts'
import { Mistake } from '../workspace/workspace.ts'

export function positive(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a number above 0.')
  return Number(text)
}

/** The id of something, as the database writes it. */
export function idOf(what: string): (text: string) => string {
  return (text) => {
    if (!isUuid(text)) throw new InvalidArgumentError(`It must be the id of a ${what}.`)
    return text.toLowerCase()
  }
}

/** With its zone: a bare number would be a year of its own making, and a time without one another at each machine. */
export function instant(text: string): Date {
  const time = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/.test(text)
    ? new Date(text)
    : undefined
  if (time === undefined || Number.isNaN(time.getTime()))
    throw new InvalidArgumentError('It must be a time with its zone, such as 2026-11-01T03:00:00Z.')
  return time
}

/** `-` is standard input: what it is, a file, a pipe or a socket, makes no difference. No more than `bytesMax` is ever held. */
export async function readGiven(file: string, bytesMax = Infinity): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of (file === '-' ? process.stdin : createReadStream(file)) as AsyncIterable<Buffer>) {
      bytes += piece.length
      if (bytes > bytesMax) throw new Mistake(`The file is larger than ${bytesMax} bytes: split it.`)
      pieces.push(piece)
    }
    return Buffer.concat(pieces)
  } catch (error) {
    if (error instanceof Mistake) throw error
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw new Mistake(`There is no file ${file}.`)
    if (code === 'EISDIR') throw new Mistake(`${file} is a folder and no file.`)
    throw new Mistake(`The file ${file} cannot be read (${code}).`)
  }
}

/** A secret, which stands on no command line: those are everybody's to read. */
export async function readSecret(file: string): Promise<string> {
  return (await readGiven(file)).toString('utf8').trim()
}
