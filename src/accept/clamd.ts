// A client for ClamAV's daemon (clamd(8)): INSTREAM over a unix or TCP socket, one connection for each stream, a few at once. Whatever is not
// a whole and exact verdict is trouble, and trouble is never "clean": a size limit, a connection that ends early, garbage, silence.
import { connect, type Socket } from 'node:net'
import { turnFor, turns } from '../base/turns.ts'
import { limits, type ClamdAddress } from '../config.ts'

export type EngineVerdict = { readonly clean: true } | { readonly clean: false; readonly signature: string }

export interface EngineVersion {
  /** `ClamAV 1.4.6` */
  readonly engine: string
  /** `27000 (Mon Nov 16 2026)`; undefined where only signatures of the operator's own are loaded. */
  readonly signatures?: string
}

/** There is no verdict. */
export class EngineTrouble extends Error {
  override readonly name = 'EngineTrouble'
}

/** The engine ended the connection before it had the whole file. */
export class EngineBrokeOff extends EngineTrouble {
  constructor(cause: NodeJS.ErrnoException | undefined) {
    super(`the engine broke off in the middle of the stream (${cause?.code ?? 'closed'})`, { cause })
  }
}

export interface Clamd {
  /** Throws `EngineTrouble`. Owners are served by turns. */
  scan(bytes: Uint8Array, signal: AbortSignal, owner?: string): Promise<EngineVerdict>
  /** Remembered for a minute. Throws `EngineTrouble`. */
  version(signal: AbortSignal): Promise<EngineVersion>
}

export function clamdAt(address: ClamdAddress): Clamd {
  const most = limits.clamdStreamsMax
  const turn = turns({ most, share: most })
  let known:
    | { readonly version: Promise<EngineVersion>; readonly until: number; readonly asker: AbortSignal }
    | undefined
  const ask = (asker: AbortSignal) => {
    const version = converse(address, asker, (socket) => send(socket, Buffer.from('zVERSION\0'))).then(versionOf)
    const entry = { version, until: performance.now() + limits.clamdVersionMs, asker }
    version.catch(() => {
      if (known === entry) known = undefined
    })
    return entry
  }
  const versionFor = async (signal: AbortSignal): Promise<EngineVersion> => {
    const entry = known !== undefined && known.until > performance.now() ? known : (known = ask(signal))
    return entry.version.catch((error: unknown) => {
      // Who asked had no time left, and says nothing about the time of others.
      if (entry.asker.aborted && !signal.aborted) return versionFor(signal)
      throw error
    })
  }
  return {
    scan: async (bytes, signal, owner = '') => {
      const leave = await turnFor(owner, turn, () => new EngineTrouble('there was no turn in time'), signal)
      return converse(address, signal, (socket) => stream(socket, bytes))
        .then(verdictOf)
        .finally(leave)
    },
    version: versionFor,
  }
}

/** `stream: OK`, `stream: NAME FOUND`. All else, `... ERROR` included, is no verdict. */
function verdictOf({ reply, complete }: Conversation): EngineVerdict {
  const found = /^stream: ([\x21-\x7e][\x20-\x7e]{0,199}) FOUND$/.exec(reply)
  if (found?.[1] !== undefined) return { clean: false, signature: found[1] }
  if (reply === 'stream: OK') {
    // Before the end of the stream nobody can know that it is clean.
    if (complete) return { clean: true }
    throw new EngineTrouble('the engine gave its verdict before it had the whole file')
  }
  throw new EngineTrouble(`the engine says "${reply.slice(0, 100).replace(/[^\x20-\x7e]/g, '?')}"`)
}

/** `ClamAV 1.4.6/27000/Mon Nov 16 09:30:00 2026`, or the first part alone. */
function versionOf({ reply }: Conversation): EngineVersion {
  const match = /^([\x20-\x2e\x30-\x7e]{1,60})(?:\/(\d{1,9})\/([\x20-\x7e]{1,60}))?$/.exec(reply)
  if (match?.[1] === undefined) throw new EngineTrouble('the engine does not say its version')
  return { engine: match[1], ...(match[2] !== undefined && { signatures: `${match[2]} (${match[3]})` }) }
}

interface Conversation {
  readonly reply: string
  /** All that was to be said had been said before the reply came. */
  readonly complete: boolean
}

/** Says something, and waits for one reply that ends with a zero byte. */
async function converse(
  address: ClamdAddress,
  signal: AbortSignal,
  speak: (socket: Socket) => Promise<void>,
): Promise<Conversation> {
  if (signal.aborted) throw new EngineTrouble('the engine did not answer in time')
  const socket = connect('path' in address ? { path: address.path } : { host: address.host, port: address.port })
  const spoken = { begun: false, complete: false }
  try {
    return await new Promise<Conversation>((resolve, reject) => {
      const fail = (words: string, cause?: unknown): void =>
        reject(new EngineTrouble(words, cause === undefined ? {} : { cause }))
      const held: Buffer[] = []
      let size = 0
      let trouble: NodeJS.ErrnoException | undefined
      signal.addEventListener('abort', () => fail('the engine did not answer in time'), { once: true })
      socket.on('data', (chunk: Buffer) => {
        const end = chunk.indexOf(0)
        held.push(end < 0 ? chunk : chunk.subarray(0, end))
        size += chunk.length
        if (end >= 0) resolve({ reply: Buffer.concat(held).toString('latin1'), complete: spoken.complete })
        else if (size > limits.clamdReplyBytesMax) fail('the reply of the engine has no end')
      })
      // An engine that has had enough says so and closes. Where our writing meets the closed end before we have read, the words are lost
      // (over TCP a reset throws them away, and Node reads nothing after a write that failed): then that it broke off is all there is to know.
      socket.on('error', (error) => (trouble = error))
      socket.on('close', () => {
        if (spoken.begun && !spoken.complete) reject(new EngineBrokeOff(trouble))
        else fail(wordsOf(trouble) ?? 'the engine closed the connection without a verdict', trouble)
      })
      socket.once('connect', () => {
        spoken.begun = true
        speak(socket).then(
          () => (spoken.complete = true),
          (error: Error) => (trouble ??= error),
        )
      })
    })
  } finally {
    socket.destroy()
  }
}

function wordsOf(error: NodeJS.ErrnoException | undefined): string | undefined {
  const code = error?.code
  if (code === undefined) return undefined
  if (code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'EACCES') return `the engine cannot be reached (${code})`
  return `the connection to the engine broke (${code})`
}

async function stream(socket: Socket, bytes: Uint8Array): Promise<void> {
  await send(socket, Buffer.from('zINSTREAM\0'))
  for (let at = 0; at < bytes.length; at += limits.clamdChunkBytes) {
    const chunk = bytes.subarray(at, at + limits.clamdChunkBytes)
    const length = Buffer.alloc(4)
    length.writeUInt32BE(chunk.length)
    socket.write(length)
    await send(socket, chunk)
  }
  await send(socket, Buffer.alloc(4))
}

/** Waits until the socket has taken it, so that we hold no second copy. */
function send(socket: Socket, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.write(bytes, (error) => (error ? reject(error) : resolve()))
  })
}
