// What commands take: the workspace that most of them name, and values of options, read strictly: what is none is wrong usage.
import { createReadStream } from 'node:fs'
import { InvalidArgumentError, type Command } from 'commander'
import { isUuid } from '../base/uuid.ts'
import { parseDateTime } from '../mail/date-time-rfc3339.ts'
import { Mistake } from '../workspace/workspace.ts'

export type MakeCommand = (name: string, description: string) => Command

/** What the commands of a group are made with. Those of `ofWorkspace` take first the workspace in which they do their work. */
export function commandsOf(program: Command, name: string, about: string) {
  const group = program.command(name).description(about)
  const command: MakeCommand = (word, description) => group.command(word).description(description)
  const ofWorkspace: MakeCommand = (word, description) =>
    command(word, description).argument('<workspace>', 'its id or exact name')
  return { command, ofWorkspace }
}

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

/**
 * With its zone: a bare number would be a year of its own making, and a time without one another at each machine. Of a day that there is: 31 November
 * would be the first of December.
 */
export function instant(text: string): Date {
  const time = parseDateTime(text.replace(/^([^T]+T\d\d:\d\d)(?=Z|[+-])/, '$1:00'))
  if (time === undefined)
    throw new InvalidArgumentError('It must be a time with its zone, such as 2026-11-01T03:00:00Z.')
  return new Date(time)
}

/** `-` is standard input: what it is, a file, a pipe or a socket, makes no difference. No more than `bytesMax` is ever held; `advice` is for who gives more. */
export async function readGiven(file: string, bytesMax: number, advice: string): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of (file === '-' ? process.stdin : createReadStream(file)) as AsyncIterable<Buffer>) {
      bytes += piece.length
      if (bytes > bytesMax) throw new Mistake(`The file is larger than ${bytesMax} bytes: ${advice}.`)
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
  return (await readGiven(file, 64 * 1024, 'no key and no password is')).toString('utf8').trim()
}
