// Plays an SMTP conversation written as text against a server. The form of a file:
//
//   # with: starttls auth size=100      what the server is made like, in a comment
//   S: 250 2.1.0 *                      one line from the server; `*` at the end stands for anything
//   C: MAIL FROM:<a@example.com>        one line from the client; lines that follow each other travel together
//   C> body\n.\r\n{3*ab}                bytes exactly: escapes \r \n \t \0 \xHH \\, and {n*text} n times; in C: too
//   T:                                  the client begins TLS
//   X:                                  the server closes, without another word
//   M: a@b > c@d, e@f = content\r\n     the server has taken exactly this message next; `*` at the end as above
//
// After the last line the client closes its side: a word too much from the server, or a message too much, is a failure.
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export interface Dialogue {
  readonly settings: ReadonlyMap<string, string>
  readonly steps: readonly Step[]
}

type Step = { readonly line: number } & (
  | { readonly does: 'says'; readonly bytes: Buffer }
  | { readonly does: 'hears'; readonly pattern: string }
  | { readonly does: 'startsTls' | 'isClosed' }
  | { readonly does: 'finds'; readonly pattern: string }
)

export function parseDialogue(text: string): Dialogue {
  const settings = new Map<string, string>()
  const steps = text.split('\n').flatMap((written, at): Step[] => {
    const line = at + 1
    const rest = written.slice(3)
    switch (written.slice(0, 2)) {
      case 'C:':
        return [{ line, does: 'says', bytes: unescape(`${rest}\\r\\n`) }]
      case 'C>':
        return [{ line, does: 'says', bytes: unescape(rest) }]
      case 'S:':
        return [{ line, does: 'hears', pattern: rest }]
      case 'T:':
        return [{ line, does: 'startsTls' }]
      case 'X:':
        return [{ line, does: 'isClosed' }]
      case 'M:':
        return [{ line, does: 'finds', pattern: unescape(rest).toString('latin1') }]
      default:
        if (written.startsWith('# with:'))
          for (const word of written.slice(8).split(' ')) {
            const [name = '', value = ''] = word.split('=')
            settings.set(name, value)
          }
        else if (written !== '' && !written.startsWith('#')) throw new Error(`line ${line}: ${written}`)
        return []
    }
  })
  return { settings, steps: together(steps) }
}

/** What the client says in a row is one write. */
function together(steps: readonly Step[]): Step[] {
  const joined: Step[] = []
  for (const step of steps) {
    const before = joined.at(-1)
    if (step.does === 'says' && before?.does === 'says')
      joined[joined.length - 1] = { ...before, bytes: Buffer.concat([before.bytes, step.bytes]) }
    else joined.push(step)
  }
  return joined
}

const escapes: Readonly<Record<string, string>> = { r: '\r', n: '\n', t: '\t', 0: '\0', '\\': '\\' }

/** Text as UTF-8, an escape \xHH as that one byte. */
function unescape(text: string): Buffer {
  const bytes = Buffer.from(text).toString('latin1')
  const written = bytes
    .replaceAll(/\{(\d+)\*([^}]+)\}/g, (_, count: string, what: string) => what.repeat(Number(count)))
    .replaceAll(/\\(?:x([0-9a-f]{2})|([rnt0\\]))/gi, (_, hex: string | undefined, letter: string | undefined) =>
      hex === undefined ? (escapes[letter ?? ''] ?? '') : String.fromCharCode(Number.parseInt(hex, 16)),
    )
  return Buffer.from(written, 'latin1')
}

export interface Stage {
  readonly port: number
  readonly ca: string
  /** The messages that the server has taken, as `from > to, to = content`, in order. */
  readonly taken: readonly string[]
  readonly bytewise: boolean
}

/** Throws where the server does not follow the dialogue. */
export async function play({ steps }: Dialogue, stage: Stage): Promise<void> {
  let ear = new Ear(connect({ port: stage.port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true }))
  let found = 0
  for (const step of steps) {
    const wrong = (what: string) => new Error(`line ${step.line}: ${what}`)
    if (step.does === 'says') await say(ear.socket, step.bytes, stage.bytewise)
    else if (step.does === 'hears') {
      const line = await ear.line()
      if (line === undefined) throw wrong(`expected ${step.pattern}, but the server closed`)
      if (!fits(line, step.pattern)) throw wrong(`expected ${step.pattern}, heard ${line}`)
    } else if (step.does === 'finds') {
      const message = stage.taken[found++] ?? 'no message'
      if (!fits(message, step.pattern)) throw wrong(`expected ${step.pattern}, found ${message}`)
    } else if (step.does === 'startsTls') ear = await ear.secure(stage.ca)
    else {
      const line = await ear.line()
      if (line !== undefined) throw wrong(`expected the server to close, heard ${line}`)
    }
  }
  ear.socket.end()
  const more = await ear.line()
  if (more !== undefined) throw new Error(`at the end: the server had more to say: ${more}`)
  if (stage.taken.length > found) throw new Error(`at the end: one message more: ${stage.taken[found]}`)
}

function fits(text: string, pattern: string): boolean {
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern
}

async function say(socket: Socket, bytes: Buffer, bytewise: boolean): Promise<void> {
  if (!bytewise) return void socket.write(bytes)
  for (const byte of bytes) {
    socket.write(Buffer.of(byte))
    // A turn of the event loop: the server, which shares it, reads this byte alone.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Lines from the server. */
class Ear {
  readonly socket: Socket
  #text = ''
  #over = false
  #wake: () => void = () => undefined
  readonly #hear = (chunk: Buffer): void => {
    this.#text += chunk.toString('latin1')
    this.#wake()
  }

  constructor(socket: Socket) {
    this.socket = socket
    const over = () => {
      this.#over = true
      this.#wake()
    }
    socket.on('data', this.#hear).on('end', over).on('close', over).on('error', over)
  }

  /** Undefined when the server has closed. */
  async line(): Promise<string | undefined> {
    for (;;) {
      const end = this.#text.indexOf('\r\n')
      if (end >= 0) {
        const line = this.#text.slice(0, end)
        this.#text = this.#text.slice(end + 2)
        return line
      }
      if (this.#over) {
        if (this.#text !== '') throw new Error(`the server left in the middle of a line: ${this.#text}`)
        return undefined
      }
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }

  secure(ca: string): Promise<Ear> {
    this.socket.off('data', this.#hear)
    if (this.#over) return Promise.reject(new Error('the server closed before TLS'))
    return new Promise((resolve, reject) => {
      const socket = connectTls({ socket: this.socket, ca, servername: 'localhost' }, () => resolve(new Ear(socket)))
      socket.once('error', reject)
    })
  }
}
