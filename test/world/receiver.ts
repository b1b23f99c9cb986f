// A receiving mail server of the tests' own, in a process of its own and sharing no code with the product. What it does is
// chosen by the recipient's local part (the table below). Its ledger gets one fsynced JSON line for each completed final dot,
// before it answers: what stands there was transmitted past the dot, whatever became of the reply.
//
//   node test/world/receiver.ts --port 0 [--host ADDRESS] --ledger FILE [--tls CERT KEY] [--content] [--seven-bit] [--announce] [--hold POSITION]
//
// Says on stdout: `listening PORT`, `ledger N` after each line of the ledger, and with --announce `at {"position":...}` at each
// of connect, ehlo, mail, rcpt, data, content (the first bytes), eod (the dot is in the ledger). At the position of --hold it
// answers only after a line `go` on stdin; so a test can stop or kill a process there.
import { createHash } from 'node:crypto'
import { fsyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import { parseArgs } from 'node:util'

/** By local part. `+anything` is ignored; an N counts per whole address, so `deferred-2+a@x` has its own count. */
export const behaviours = {
  ok: '250 to everything; every name that is not below does the same',
  'deferred-N': '451 to RCPT the first N times',
  'reject-rcpt-550': '550 5.1.1 to RCPT',
  'reject-data-451': '451 to DATA',
  'eod-451': '451 to the final dot',
  'eod-451-N': '451 to the final dot the first N times, then 250',
  'eod-550': '550 5.7.1 to the final dot',
  'close-at-rcpt': 'closes instead of an answer to RCPT',
  '421-at-rcpt': '421 to RCPT, and closes',
  'close-mid-body': 'closes after the first bytes of content',
  'early-250': 'says 250 in the middle of content, and again after the dot',
  'early-451': 'says 451 in the middle of content, then closes',
  'close-after-dot': 'closes instead of an answer to the final dot',
  'reset-after-dot': 'resets the connection instead',
  'hang-after-dot': 'never answers the final dot',
  'garbage-after-dot': 'answers the final dot with what is no reply',
  'mixed-after-dot': 'answers it with a reply whose lines have two codes',
  'ok-then-421': '250 to the final dot and 421 in the same packet, then closes',
  'slow-eod-Nms': 'waits N ms before its 250 to the final dot',
} as const

export interface LedgerLine {
  readonly at: string
  /** What the client called itself. */
  readonly helo: string
  readonly from: string
  readonly to: readonly string[]
  /** The Message-ID field as written; '' where there is none. */
  readonly messageId: string
  readonly sha256: string
  readonly bytes: number
  readonly tls: boolean
  /** The code that was (or was to be) answered; `none` where no well-formed reply follows the dot. */
  readonly outcome: '250' | '451' | '550' | 'none'
  /** Content un-stuffed, where the receiver was started with `--content`. */
  readonly content?: string
}

type Position = 'connect' | 'ehlo' | 'mail' | 'rcpt' | 'data' | 'content' | 'eod'

interface Settings {
  readonly ledger: string
  readonly tls: { readonly cert: string; readonly key: string } | undefined
  readonly announce: boolean
  readonly hold: string | undefined
  readonly content: boolean
  readonly sevenBit: boolean
}

/** Answers to the final dot, by behaviour; undefined text: no reply. */
const finalAnswers: Readonly<
  Record<string, { outcome: LedgerLine['outcome']; text?: string; after?: 'end' | 'reset' }>
> = {
  'eod-451': { outcome: '451', text: '451 4.3.0 not now\r\n' },
  'eod-550': { outcome: '550', text: '550 5.7.1 not this\r\n' },
  'close-after-dot': { outcome: 'none', after: 'end' },
  'reset-after-dot': { outcome: 'none', after: 'reset' },
  'hang-after-dot': { outcome: 'none' },
  'garbage-after-dot': { outcome: 'none', text: 'fine, thanks\r\n' },
  'mixed-after-dot': { outcome: 'none', text: '250-2.0.0 ok\r\n451 4.3.0 not now\r\n' },
  'ok-then-421': { outcome: '250', text: '250 2.0.0 ok\r\n421 4.3.2 bye\r\n', after: 'end' },
}

function receiver(settings: Settings): Server {
  const ledger = openSync(settings.ledger, 'a')
  const seen = new Map<string, number>()
  let lines = 0
  let connections = 0
  let held: (() => void)[] = []
  process.stdin.on('data', () => {
    for (const go of held.splice(0)) go()
  })
  /** True the first `times` times that it is asked for this key. */
  const isEarly = (key: string, times: number): boolean => {
    const count = (seen.get(key) ?? 0) + 1
    seen.set(key, count)
    return count <= times
  }
  const write = (line: LedgerLine): void => {
    writeSync(ledger, `${JSON.stringify(line)}\n`)
    fsyncSync(ledger)
    say(`ledger ${++lines}`)
  }

  return createServer({ noDelay: true }, (socket) => {
    const connection = ++connections
    const pass = async (position: Position, facts: object = {}): Promise<void> => {
      if (settings.announce) say(`at ${JSON.stringify({ position, connection, ...facts })}`)
      if (settings.hold === position) await new Promise<void>((resolve) => held.push(resolve))
    }
    void converse(socket, settings, { pass, isEarly, write }).catch(() => socket.destroy())
  })
}

interface Tools {
  readonly pass: (position: Position, facts?: object) => Promise<void>
  readonly isEarly: (key: string, times: number) => boolean
  readonly write: (line: LedgerLine) => void
}

async function converse(plain: Socket, settings: Settings, { pass, isEarly, write }: Tools): Promise<void> {
  let socket = plain
  let input = new Input(socket)
  let secure = false
  let helo = ''
  let from = ''
  let to: string[] = []
  const say = (text: string) => socket.write(`${text}\r\n`)
  await pass('connect')
  say('220 receiver.test ESMTP')
  for (;;) {
    const line = await input.line()
    if (line === undefined) return void socket.end()
    const verb = line.slice(0, 4).toUpperCase()
    if (verb === 'EHLO' || verb === 'HELO') {
      helo = line.slice(5)
      await pass('ehlo')
      const startTls = settings.tls !== undefined && !secure
      const eightBit = settings.sevenBit ? [] : ['8BITMIME', 'SMTPUTF8']
      const offers = ['receiver.test', 'PIPELINING', ...eightBit, ...(startTls ? ['STARTTLS'] : [])]
      say(`${offers.map((offer) => `250-${offer}\r\n`).join('')}250 SIZE 52428800`)
    } else if (verb === 'STAR' && settings.tls !== undefined && !secure) {
      input.release()
      say('220 2.0.0 go ahead')
      socket = new TLSSocket(plain, { isServer: true, secureContext: createSecureContext(settings.tls) })
      input = new Input(socket)
      secure = true
    } else if (verb === 'MAIL') {
      from = between(line)
      to = []
      await pass('mail', { from })
      say('250 2.1.0 ok')
    } else if (verb === 'RCPT') {
      const address = between(line)
      await pass('rcpt', { to: address })
      const behaviour = behaviourOf(address)
      if (behaviour === 'close-at-rcpt') return void socket.end()
      if (behaviour === '421-at-rcpt') return void socket.end('421 4.3.2 bye\r\n')
      if (behaviour === 'reject-rcpt-550') say('550 5.1.1 no such user')
      else if (isEarly(`rcpt ${address}`, numberIn(behaviour, /^deferred-(\d+)$/))) say('451 4.7.1 greylisted')
      else {
        to.push(address)
        say('250 2.1.5 ok')
      }
    } else if (verb === 'DATA') {
      const behaviour = behaviourOf(to[0] ?? '')
      await pass('data', { to })
      if (to.length === 0) say('554 5.5.1 no valid recipients')
      else if (behaviour === 'reject-data-451') say('451 4.3.0 not now')
      else {
        say('354 go ahead')
        if (!(await input.hasMore())) return void socket.end()
        // Who is held here gets no more of his bytes off his machine than the kernel takes.
        if (settings.hold === 'content') socket.pause()
        await pass('content', { to })
        if (settings.hold === 'content') socket.resume()
        if (behaviour === 'close-mid-body') return void socket.end()
        if (behaviour === 'early-250') say('250 2.0.0 too early')
        if (behaviour === 'early-451') return void socket.end('451 4.3.0 not now\r\n')
        const content = await input.content()
        if (content === undefined) return void socket.end()
        const early = isEarly(`eod ${to[0]}`, numberIn(behaviour, /^eod-451-(\d+)$/))
        const answer = finalAnswers[early ? 'eod-451' : behaviour] ?? {
          outcome: '250',
          text: '250 2.0.0 ok queued as R1\r\n',
        }
        write({
          ...describe(content),
          helo,
          from,
          to,
          at: new Date().toISOString(),
          tls: secure,
          outcome: answer.outcome,
          ...(settings.content && { content }),
        })
        await pass('eod', { to, helo })
        await new Promise((resolve) => setTimeout(resolve, numberIn(behaviour, /^slow-eod-(\d+)ms$/)))
        if (answer.after === 'reset') return void plain.resetAndDestroy()
        if (answer.text !== undefined) socket.write(answer.text, 'latin1')
        if (answer.after === 'end') return void socket.end()
      }
      to = []
    } else if (verb === 'QUIT') return void socket.end('221 2.0.0 bye\r\n')
    else say(verb === 'RSET' || verb === 'NOOP' ? '250 2.0.0 ok' : '500 5.5.2 what')
    if (verb === 'RSET') to = []
  }
}

const between = (line: string): string => /<(.*?)>/.exec(line)?.[1] ?? ''
const behaviourOf = (address: string): string => address.split('@')[0]?.split('+')[0] ?? ''
const numberIn = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1] ?? 0)

function describe(content: string): Pick<LedgerLine, 'messageId' | 'sha256' | 'bytes'> {
  const [head = ''] = content.split('\r\n\r\n', 1)
  const bytes = Buffer.from(content, 'latin1')
  return {
    messageId: /^message-id:\s*(.*)$/im.exec(head)?.[1]?.trim() ?? '',
    sha256: createHash('sha256').update(bytes).digest('hex'),
    bytes: bytes.length,
  }
}

/** Lines and content of one socket, in Latin-1 so that every byte stays itself. Each byte is looked at once: large mail is not to be this end's work. */
class Input {
  readonly #socket: Socket
  #parts: Buffer[] = []
  #over = false
  #wake: () => void = () => undefined
  readonly #take = (part: Buffer): void => {
    this.#parts.push(part)
    this.#wake()
  }

  constructor(socket: Socket) {
    this.#socket = socket
    const stop = () => {
      this.#over = true
      this.#wake()
    }
    socket.on('data', this.#take).on('end', stop).on('close', stop).on('error', stop)
  }

  release(): void {
    this.#socket.off('data', this.#take).pause()
  }

  async line(): Promise<string | undefined> {
    return (await this.#upTo('\r\n'))?.slice(0, -2)
  }

  /** True when there is something to read, false at the end. */
  async hasMore(): Promise<boolean> {
    return (await this.#part(0)) !== undefined
  }

  /** Un-stuffed content; undefined when the client left before the final dot. */
  async content(): Promise<string | undefined> {
    // A line end before the first line makes the first line like every other.
    this.#parts.unshift(Buffer.from('\r\n'))
    const content = await this.#upTo('\r\n.\r\n')
    return content?.slice(0, -3).replaceAll('\r\n.', '\r\n').slice(2)
  }

  async #part(at: number): Promise<Buffer | undefined> {
    for (;;) {
      const part = this.#parts[at]
      if (part !== undefined || this.#over) return part
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }

  /** What comes up to these characters and with them. */
  async #upTo(mark: string): Promise<string | undefined> {
    let end = Buffer.alloc(0) // of what was searched: the mark may begin there
    for (let at = 0; ; at++) {
      const part = await this.#part(at)
      if (part === undefined) return undefined
      const seen = Buffer.concat([end, part])
      const found = seen.indexOf(mark)
      if (found >= 0) {
        const cut = found + mark.length - end.length
        const taken = Buffer.concat([...this.#parts.slice(0, at), part.subarray(0, cut)])
        const rest = part.subarray(cut)
        this.#parts.splice(0, at + 1, ...(rest.length > 0 ? [rest] : []))
        return taken.toString('latin1')
      }
      end = seen.subarray(-(mark.length - 1))
    }
  }
}

const say = (line: string) => process.stdout.write(`${line}\n`)

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      port: { type: 'string', default: '0' },
      host: { type: 'string', default: '127.0.0.1' },
      ledger: { type: 'string' },
      tls: { type: 'string' }, // the certificate; its key follows
      announce: { type: 'boolean', default: false },
      content: { type: 'boolean', default: false },
      'seven-bit': { type: 'boolean', default: false }, // offers no 8BITMIME
      hold: { type: 'string' },
      child: { type: 'boolean', default: false }, // ends with its parent
    },
  })
  const [keyFile] = positionals
  const tls =
    values.tls === undefined || keyFile === undefined
      ? undefined
      : { cert: readFileSync(values.tls, 'utf8'), key: readFileSync(keyFile, 'utf8') }
  if (values.child) process.stdin.on('end', () => process.exit())
  const { ledger = '/dev/null', announce, content, hold, 'seven-bit': sevenBit } = values
  const server = receiver({ ledger, tls, announce, content, sevenBit, hold })
  server.listen(Number(values.port), values.host, () => {
    const address = server.address()
    say(`listening ${typeof address === 'object' ? address?.port : ''}`)
  })
}
