// A mail server that says exactly what a test wrote down, for tests of the SMTP client: whole replies or byte by byte, polite
// or broken, with TLS where the script turns it on. It keeps a transcript, and tells when the script was not followed.
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { createSecureContext, TLSSocket } from 'node:tls'

export type Step =
  /** These bytes and no others. A string is sent as it is: write your own CR LF. */
  | { readonly send: string | Buffer }
  /** One line from the client, without its end: equal, or beginning with what stands before a last `*`, or matching. */
  | { readonly expect: string | RegExp }
  /** Everything up to CR LF . CR LF. */
  | { readonly expectData: true }
  /** At least these many more bytes of anything: to close in the middle of content. */
  | { readonly expectBytes: number }
  /** TLS from here on. First in a script: implicit TLS. */
  | { readonly tls: { readonly key: string; readonly cert: string } }
  | 'close'
  /** A TCP reset. */
  | 'reset'
  /** Says nothing more and waits for the client to leave. */
  | 'hang'

export interface ScriptedServer {
  readonly port: number
  /** One list per connection: `C: ` and a line, `S: ` and what was sent, `D: ` and content as it came. */
  readonly transcripts: readonly (readonly string[])[]
  /** Resolves when `n` connections have played their scripts and closed; rejects when a script was not followed. */
  played(n: number): Promise<void>
  stop(): Promise<void>
}

export interface ScriptOptions {
  /** Sends every byte in a packet of its own, and below TLS in a record of its own, of which every byte is in a packet of its own. */
  readonly splitEveryByte?: boolean
}

/** The first connection plays the first script, and so on; the last script serves all further ones. */
export async function startScriptedServer(
  scripts: readonly (readonly Step[])[],
  { splitEveryByte = false }: ScriptOptions = {},
): Promise<ScriptedServer> {
  const transcripts: string[][] = []
  const sockets = new Set<Socket>()
  const watchers: (() => void)[] = []
  let finished = 0
  let failure: Error | undefined
  const changed = () => {
    for (const watcher of watchers) watcher()
  }

  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    const transcript: string[] = []
    const script = scripts[Math.min(transcripts.length, scripts.length - 1)] ?? []
    transcripts.push(transcript)
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    play(socket, script, transcript, splitEveryByte)
      .catch((error: unknown) => {
        failure ??= new Error(`${String(error)}\n${transcript.join('\n')}`)
        socket.destroy()
      })
      .then(() => closed)
      .then(() => {
        sockets.delete(socket)
        finished++
        changed()
      }, changed)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  return {
    port: (server.address() as AddressInfo).port,
    transcripts,
    played: (n) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (failure !== undefined) reject(failure)
          else if (finished >= n) resolve()
        }
        watchers.push(look)
        look()
      }),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

async function play(plain: Socket, script: readonly Step[], transcript: string[], split: boolean): Promise<void> {
  let socket = plain
  let reader = new Reader(socket)
  for (const step of script) {
    if (step === 'close') socket.end()
    else if (step === 'reset') plain.resetAndDestroy()
    else if (step === 'hang') await reader.end()
    else if ('send' in step) {
      const bytes = Buffer.from(step.send)
      transcript.push(`S: ${bytes.toString('latin1')}`)
      await send(socket, bytes, split)
    } else if ('expect' in step) {
      const line = (await reader.until('\r\n', step)).slice(0, -2)
      transcript.push(`C: ${line}`)
      if (!fits(line, step.expect)) throw new Error(`expected ${String(step.expect)}, got ${line}`)
    } else if ('expectData' in step) transcript.push(`D: ${await reader.content(step)}`)
    else if ('expectBytes' in step) transcript.push(`D: ${await reader.some(step.expectBytes, step)}`)
    else {
      reader.release()
      const wire = split ? splitting(plain) : plain
      const secure = new TLSSocket(wire, { isServer: true, secureContext: createSecureContext(step.tls) })
      secure.on('error', () => undefined)
      socket = secure
      reader = new Reader(secure)
    }
  }
  // What a client says after the last step is nobody's business, but it must not keep the connection open.
  if (script.at(-1) !== 'hang') await reader.end().then(() => socket.end())
}

function fits(line: string, expected: string | RegExp): boolean {
  if (typeof expected !== 'string') return expected.test(line)
  return expected.endsWith('*') ? line.startsWith(expected.slice(0, -1)) : line === expected
}

async function send(socket: Socket, bytes: Buffer, split: boolean): Promise<void> {
  const pieces = split ? Array.from(bytes, (byte) => Buffer.of(byte)) : [bytes]
  for (const piece of pieces) {
    await new Promise<void>((resolve, reject) => socket.write(piece, (error) => (error ? reject(error) : resolve())))
    if (split) await afterPoll()
  }
}

/** What is written to it goes to the socket byte by byte. */
function splitting(socket: Socket): Duplex {
  const wire = new Duplex({
    read: () => void socket.resume(),
    write: (bytes: Buffer, _, done) => void send(socket, bytes, true).then(() => done(), done),
    final: (done) => void socket.end(done),
    destroy: (error, done) => {
      socket.destroy()
      done(error)
    },
  })
  socket
    .on('data', (chunk: Buffer) => {
      if (!wire.push(chunk)) socket.pause()
    })
    .on('end', () => wire.push(null))
    .on('close', () => wire.destroy())
  return wire
}

/** A client in this process has read what was written: the first setImmediate may come from within the current poll. */
async function afterPoll(): Promise<void> {
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
}

/** Reads what was asked for, however it comes. */
class Reader {
  readonly #socket: Socket
  #text = ''
  #over = false
  #wake: () => void = () => undefined
  readonly #take = (chunk: Buffer): void => {
    this.#text += chunk.toString('latin1')
    this.#wake()
  }
  readonly #stop = (): void => {
    this.#over = true
    this.#wake()
  }

  constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', this.#take).on('end', this.#stop).on('close', this.#stop)
  }

  release(): void {
    this.#socket.off('data', this.#take).off('end', this.#stop).off('close', this.#stop).pause()
    // A client's handshake may have come already.
    if (this.#text !== '') this.#socket.unshift(Buffer.from(this.#text, 'latin1'))
  }

  until(mark: string, step: Step): Promise<string> {
    return this.#read(step, (text) => {
      const at = text.indexOf(mark)
      return at < 0 ? -1 : at + mark.length
    })
  }

  /** Content up to its final dot, which may be its first line. */
  content(step: Step): Promise<string> {
    return this.#read(step, (text) => {
      if (text.startsWith('.\r\n')) return 3
      const at = text.indexOf('\r\n.\r\n')
      return at < 0 ? -1 : at + 5
    })
  }

  some(bytes: number, step: Step): Promise<string> {
    return this.#read(step, (text) => (text.length < bytes ? -1 : text.length))
  }

  async end(): Promise<void> {
    while (!this.#over) await this.#more()
  }

  async #read(step: Step, length: (text: string) => number): Promise<string> {
    for (;;) {
      const end = length(this.#text)
      if (end >= 0) {
        const taken = this.#text.slice(0, end)
        this.#text = this.#text.slice(end)
        return taken
      }
      if (this.#over) throw new Error(`the client left before ${JSON.stringify(step)}; unread: ${this.#text}`)
      await this.#more()
    }
  }

  #more(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve))
  }
}
