// A connection to another server, below SMTP's meaning: dialling, TLS, replies as they come, and time limits. Waiting ends with a reply or
// with a typed trouble, never with a thrown error, but for a lack of our own. Limits run from the start of a wait to its end, so a peer that sends one byte a
// second gains nothing by it.
import { constants } from 'node:crypto'
import { connect as connectTcp, isIP } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls, DEFAULT_CIPHERS } from 'node:tls'
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls'
import { setMaxListeners } from 'node:events'
import { afterPoll } from '../base/after-poll.ts'
import { keyExchanges } from '../base/key-exchanges.ts'
import { isNothingLeft } from '../base/nothing-left.ts'
import { limits } from '../config.ts'
import { satisfiesDane } from './dane-rfc7672.ts'
import { ReplyReader } from '../mail/smtp-reply.ts'
import type { SmtpReply } from '../mail/smtp-reply.ts'
import type { Trouble } from '../domain/attempt.ts'
import type { Target } from './route.ts'

export type LineTrouble = Extract<
  Trouble,
  'connect_failed' | 'timeout' | 'closed' | 'malformed' | 'tls_failed' | 'shutdown'
>

/** One connection. At most one caller waits on it at a time. */
export class Line {
  /** Called when something arrives, or the line ends, while nobody waits. */
  surprised: (() => void) | undefined
  readonly #reader = new ReplyReader()
  #socket: Socket
  #inbox: SmtpReply[] = []
  #end: LineTrouble | undefined
  #wake: (() => void) | undefined
  #until = Infinity
  #timer: NodeJS.Timeout | undefined
  #timerAt = Infinity

  constructor(socket: Socket) {
    this.#socket = socket
    this.#listen()
  }

  /** Something happened: whoever waits looks again. */
  readonly #stir = (): void => {
    const wake = this.#wake
    if (wake === undefined) return this.surprised?.()
    this.#wake = undefined
    wake()
  }

  readonly #heard = (chunk: Buffer): void => {
    if (this.#end !== undefined) return
    this.#inbox.push(...this.#reader.push(chunk))
    // Nobody has asked so many questions: who speaks without end would fill the memory while we wait for something else.
    if (this.#reader.malformed !== undefined || this.#inbox.length > limits.repliesUnreadMax) this.close('malformed')
    else if (this.#inbox.length > 0 || this.#wake === undefined) this.#stir()
  }

  readonly #ended = (): void => {
    if (this.#end === undefined) this.close('closed')
  }

  readonly #listeners = [
    ['data', this.#heard],
    ['end', this.#ended],
    ['error', this.#ended],
    ['close', this.#ended],
  ] as const

  /** Why the line is no more. */
  get end(): LineTrouble | undefined {
    return this.#end
  }

  /** True when the peer has said something that nobody has read yet, be it a part of a reply. */
  get said(): boolean {
    return this.#inbox.length > 0 || this.#reader.partial
  }

  /** True when a whole reply is there. */
  get hasReply(): boolean {
    return this.#inbox.length > 0
  }

  /** The TLS version, if any. */
  get tls(): string | undefined {
    return 'getProtocol' in this.#socket ? ((this.#socket as TLSSocket).getProtocol() ?? 'TLS') : undefined
  }

  set textCharactersMax(most: number) {
    this.#reader.textCharactersMax = most
  }

  write(bytes: Buffer | string): void {
    if (this.#end === undefined) this.#socket.write(bytes)
  }

  /** Writes and waits until the kernel has everything, or the peer has spoken, or the line has ended. */
  async writeThrough(bytes: Buffer, ms: number): Promise<void> {
    if (this.#end !== undefined) return
    this.#socket.write(bytes, this.#stir)
    // Mostly the kernel takes it at once, and this is already true.
    await this.#wait(ms, () => this.#socket.writableLength === 0 || this.#inbox.length > 0)
  }

  /** The next reply, also one that came before the line ended. At once where it is known: replies to a pipeline mostly come together. */
  reply(ms: number): SmtpReply | LineTrouble | Promise<SmtpReply | LineTrouble> {
    return this.#inbox.shift() ?? this.#end ?? this.#nextReply(ms)
  }

  async #nextReply(ms: number): Promise<SmtpReply | LineTrouble> {
    await this.#wait(ms, () => this.#inbox.length > 0)
    return this.#inbox.shift() ?? this.#end ?? 'timeout'
  }

  /** Replaces the socket by a TLS one. Nothing may have been said in clear text since the last reply (STARTTLS injection). */
  async encrypt(target: Target, ms: number): Promise<LineTrouble | undefined> {
    if (this.#end !== undefined) return this.#end
    if (this.said) return this.close('malformed')
    const plain = this.#socket
    for (const [event, listener] of this.#listeners) plain.off(event, listener)
    plain.on('error', () => undefined) // it comes again from the TLS socket
    const secured = encryptSocket(plain, target)
    this.#socket = secured
    let ready = false
    secured.once('secureConnect', () => {
      ready = true
      this.#stir()
    })
    this.#listen()
    await this.#wait(ms, () => ready)
    const good = target.dane === undefined || satisfiesDane(target.dane, shownBy(secured))
    if (ready && good && this.#end === undefined) return undefined
    // A session that was made is ended before what carries it: the other way round has crashed Node 24.
    if (ready) secured.destroy()
    plain.destroy()
    // What a failed handshake looks like from below (closed, reset, an alert, silence) tells nothing more than that it failed.
    if (this.#end !== 'shutdown') this.#end = 'tls_failed'
    return this.#end
  }

  /** Ends the line at once: whoever waits is told `why`. */
  close(why: LineTrouble): LineTrouble {
    const end = (this.#end ??= why)
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#socket.destroy()
    this.#stir()
    return end
  }

  /** Says QUIT and resolves when the connection is gone, after `ms` at the latest. */
  quit(ms: number): Promise<void> {
    if (this.#end !== undefined) return Promise.resolve()
    this.#end = 'closed'
    return new Promise((resolve) => {
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => this.#socket.destroy(), ms)
      this.#socket.once('close', () => {
        clearTimeout(this.#timer)
        resolve()
      })
      this.#socket.end('QUIT\r\n')
    })
  }

  #listen(): void {
    for (const [event, listener] of this.#listeners) this.#socket.on(event, listener)
  }

  async #wait(ms: number, until: () => boolean): Promise<void> {
    if (this.#end !== undefined || until()) return
    this.#limit(ms)
    while (this.#end === undefined && !until()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    this.#until = Infinity
  }

  /** One timer serves many waits: it is set anew only when it would come too late, and looks at the clock when it fires. */
  #limit(ms: number): void {
    this.#until = performance.now() + ms
    if (this.#timer !== undefined && this.#timerAt <= this.#until) return
    clearTimeout(this.#timer)
    this.#timerAt = this.#until
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      const left = this.#until - performance.now()
      if (left <= 0) void afterPoll().then(this.#tooLong)
      else if (left !== Infinity) this.#limit(left)
    }, ms)
  }

  /** What came in time is heard first, above all the answer to a dot. */
  readonly #tooLong = (): void => {
    if (this.#end === undefined && this.#until <= performance.now()) this.close('timeout')
  }
}

/** Why there is no connection. */
export interface Unreached {
  readonly trouble: 'connect_failed' | 'shutdown'
  /** What the system said. */
  readonly cause?: string
}

/** Opens a TCP connection. Throws where nothing is left here to open one with, which tells nothing of the other side. */
export async function dial(target: Target, ms: number, signal?: AbortSignal): Promise<Line | Unreached> {
  if (signal?.aborted === true) return { trouble: 'shutdown' }
  const socket = connectTcp({ host: target.address, port: target.port, noDelay: true })
  return new Promise((resolve, reject) => {
    const settle = (unreached?: Unreached) => {
      clearTimeout(timer)
      undo()
      socket.off('connect', settle).off('error', failed).off('close', failed)
      if (unreached === undefined) return resolve(new Line(socket))
      socket.on('error', () => undefined)
      socket.destroy()
      resolve(unreached)
    }
    const failed = (why: NodeJS.ErrnoException | boolean) => {
      if (isNothingLeft(why)) reject(why)
      const cause = typeof why === 'boolean' ? undefined : why.code
      settle({ trouble: 'connect_failed', ...(cause !== undefined && { cause }) })
    }
    const timer = setTimeout(() => settle({ trouble: 'connect_failed', cause: 'ETIMEDOUT' }), ms)
    const undo = whenAborted(signal, () => settle({ trouble: 'shutdown' }))
    socket.once('connect', settle).once('error', failed).once('close', failed)
  })
}

/**
 * Where clear text is the way out, weak TLS is better than none (RFC 7435 3): old keys and protocols of hosts that know no others, and hosts that know no
 * secure renegotiation (RFC 5746). Who demands TLS means what deserves the name.
 */
const anyTls = {
  minVersion: 'TLSv1',
  ciphers: `${DEFAULT_CIPHERS}:@SECLEVEL=0`,
  secureOptions: constants.SSL_OP_LEGACY_SERVER_CONNECT,
} as const
const goodTls = { minVersion: 'TLSv1.2' } as const

function encryptSocket(socket: Socket, target: Target): TLSSocket {
  return connectTls({
    socket,
    host: target.host, // what the certificate is compared with
    ...(isIP(target.host) === 0 && { servername: target.dane?.base ?? target.host }),
    rejectUnauthorized: target.verify,
    ...(target.trustedCa !== undefined && { ca: target.trustedCa }),
    ecdhCurve: keyExchanges,
    ...(target.tls === 'opportunistic' ? anyTls : goodTls),
  })
}

/** The certificates that the peer sent, its own first. (`getPeerX509Certificate` of Node 24 takes them away from the session.) */
export function shownBy(socket: TLSSocket): Buffer[] {
  const shown: Buffer[] = []
  let at: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true)
  while (at?.raw !== undefined && !shown.some((raw) => raw.equals(at?.raw ?? raw))) {
    shown.push(at.raw)
    at = at.issuerCertificate
  }
  return shown
}

const nothing = (): void => undefined
const watchers = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `act` when the signal is aborted; returns how to take that back. One listener per signal, however many watch it. */
export function whenAborted(signal: AbortSignal | undefined, act: () => void): () => void {
  if (signal === undefined) return nothing
  let acts = watchers.get(signal)
  if (acts === undefined) {
    const all = (acts = new Set<() => void>())
    watchers.set(signal, all)
    setMaxListeners(0, signal)
    signal.addEventListener('abort', () => all.forEach((each) => each()), { once: true })
  }
  const mine = acts.add(act)
  return () => void mine.delete(act)
}

/**
 * Aborted with the first of them. Not by AbortSignal.any: what listens to its signal stays in memory as long as the one that lives longest,
 * which is the process, a kilobyte for each connection that was ever opened.
 */
export function eitherOf(...signals: readonly (AbortSignal | undefined)[]): { either: AbortSignal; undo: () => void } {
  const both = new AbortController()
  if (signals.some((signal) => signal?.aborted === true)) both.abort()
  const undos = signals.map((signal) => whenAborted(signal, () => both.abort()))
  return { either: both.signal, undo: () => undos.forEach((undo) => undo()) }
}
