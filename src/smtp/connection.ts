// One connection to an SMTP server of ours: moves bytes between a socket and a session, turns on TLS, and cuts peers that are
// silent, that drip, that never read or that stay too long. Time is checked by the server's sweep, not by a timer each.
import type { Socket } from 'node:net'
import { TLSSocket, type SecureContext } from 'node:tls'
import { SmtpSession } from './engine.ts'
import type { SessionLimits, Wire } from './session-parts.ts'
import type { ContentRoom } from './content-room.ts'
import type { Client, Offer, Policy } from './policy.ts'
import { replies } from './reply.ts'

export interface ConnectionLimits extends SessionLimits {
  readonly idleMs: number
  readonly sessionMs: number
  readonly handshakeMs: number
  readonly closeMs: number
  readonly heldInputBytesMax: number
  readonly unsentRepliesBytesMax: number
}

export interface ConnectionParts {
  readonly offer: Offer
  readonly policy: (client: Client) => Policy
  readonly limits: ConnectionLimits
  readonly room: ContentRoom
  readonly secureContext: SecureContext | undefined
  readonly implicitTls: boolean
  readonly fault: (error: unknown) => void
}

export class SmtpConnection implements Wire {
  readonly #parts: ConnectionParts
  readonly #plain: Socket
  #socket: Socket
  readonly #session: SmtpSession
  #gone: AbortController | undefined
  readonly #ended: () => void
  readonly #openedAt: number
  #movedAt: number
  #progress = 0
  #handshakeSince: number | undefined
  #closingSince: number | undefined

  /** `address`: the client's. `ended` runs once, when nothing of the connection is left. */
  constructor(socket: Socket, address: string, parts: ConnectionParts, ended: () => void) {
    this.#parts = parts
    this.#plain = socket
    this.#socket = socket
    this.#ended = ended
    this.#openedAt = this.#movedAt = performance.now()
    const policy = parts.policy(this.#client(address))
    this.#session = new SmtpSession({
      offer: parts.offer,
      policy,
      wire: this,
      limits: parts.limits,
      room: parts.room,
      secure: parts.implicitTls,
      fault: (error) => {
        parts.fault(error)
        policy.failed?.(error)
      },
    })
    socket.on('error', ignore)
    socket.once('close', () => this.#finish())
  }

  open(): void {
    if (this.#parts.implicitTls) return this.#handshake(() => this.#session.open())
    this.#listen()
    this.#session.open()
  }

  write(text: string): void {
    if (this.#socket.writable) this.#socket.write(text)
  }

  startTls(): void {
    // From here on the session hears nothing and cannot be cut: a peer that does not even read our reply is timed as one that does not shake hands.
    this.#handshakeSince = performance.now()
    this.#plain.removeAllListeners('data').removeAllListeners('end').removeAllListeners('drain').pause()
    // The reply leaves in clear text before TLS takes the socket over.
    this.#plain.write('', () => this.#handshake(() => this.#session.secured()))
  }

  close(): void {
    this.#closingSince = performance.now()
    // Not destroyed at once: unread input would turn our last words into a reset.
    this.#socket.resume()
    this.#socket.end()
  }

  ready(): void {
    this.#balance()
  }

  /** Ends the session at the next good moment. */
  retire(): void {
    if (this.#handshakeSince === undefined) this.#session.retire(replies.shuttingDown)
    else this.destroy()
  }

  destroy(): void {
    this.#socket.destroy()
    this.#plain.destroy()
  }

  /** Cuts off a peer that has exceeded a time limit. */
  sweep(now: number): void {
    const { idleMs, sessionMs, handshakeMs, closeMs } = this.#parts.limits
    if (this.#closingSince !== undefined) {
      if (now - this.#closingSince > closeMs) this.destroy()
      return
    }
    if (this.#handshakeSince !== undefined) {
      if (now - this.#handshakeSince > handshakeMs) this.destroy()
      return
    }
    if (this.#session.waiting || this.#session.progress !== this.#progress) {
      this.#progress = this.#session.progress
      this.#movedAt = now
    } else if (now - this.#movedAt > idleMs) this.#session.cut(replies.idle)
    if (now - this.#openedAt > sessionMs) this.#session.cut(replies.sessionTooLong)
  }

  /** Most policies never look at `gone`, and an AbortController costs as much as a whole command: it is made when asked for. */
  #client(address: string): Client {
    const gone = (): AbortSignal => {
      this.#gone ??= new AbortController()
      if (this.#socket.destroyed) this.#gone.abort()
      return this.#gone.signal
    }
    return {
      address,
      get gone() {
        return gone()
      },
    }
  }

  #listen(): void {
    this.#socket.on('data', (chunk: Buffer) => {
      this.#session.push(chunk)
      this.#balance()
    })
    this.#socket.on('drain', () => this.#balance())
    this.#socket.on('end', () => this.#session.inputEnded())
    this.#socket.resume() // a proxy's word was read before
  }

  /** Reads on only while the session keeps up with its input, and the peer with our replies. */
  #balance(): void {
    const { heldInputBytesMax, unsentRepliesBytesMax } = this.#parts.limits
    const full = this.#session.heldBytes > heldInputBytesMax || this.#socket.writableLength > unsentRepliesBytesMax
    if (full && this.#closingSince === undefined) this.#socket.pause()
    else if (this.#socket.isPaused()) this.#socket.resume()
  }

  #handshake(secured: () => void): void {
    const { secureContext } = this.#parts
    if (secureContext === undefined || this.#plain.destroyed) return this.destroy()
    this.#handshakeSince = performance.now()
    const socket = new TLSSocket(this.#plain, { isServer: true, secureContext })
    this.#socket = socket
    socket.disableRenegotiation()
    socket.on('error', ignore)
    socket.once('close', () => this.destroy())
    socket.once('secure', () => {
      this.#handshakeSince = undefined
      this.#movedAt = performance.now()
      this.#listen()
      secured()
    })
  }

  #finish(): void {
    this.#session.gone()
    this.#gone?.abort()
    this.#ended()
  }
}

/** A lost connection is told by `close`, which always follows; how it was lost changes nothing. */
function ignore(): void {}
