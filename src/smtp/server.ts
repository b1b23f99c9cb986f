// An SMTP server: listens, counts its clients, and gives each connection a session with a policy of its own. Greets at once.
// `stop` says 421 to whoever is between two messages, waits for messages under way, and ends within `stopMs`.
import { constants } from 'node:crypto'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { createSecureContext, DEFAULT_CIPHERS } from 'node:tls'
import { limits as allLimits } from '../config.ts'
import type { Log } from '../base/log.ts'
import { afterPoll } from '../base/after-poll.ts'
import { cannotListen, type Address } from '../base/listening.ts'
import { among, sourceOf } from '../base/networks.ts'
import { lifecycle, type Service } from '../base/service.ts'
import { Tally } from '../base/tally.ts'
import { SmtpConnection, type ConnectionLimits, type ConnectionParts } from './connection.ts'
import { ContentRoom } from './content-room.ts'
import type { Client, Offer, Policy } from './policy.ts'
import { introduce } from './proxied.ts'
import { formatReply, replies } from './reply.ts'

export interface ServerLimits extends ConnectionLimits {
  readonly sessionsMax: number
  readonly sessionsPerAddressMax: number
  /** Instead of it, for this machine itself. */
  readonly sessionsPerLoopbackMax: number
  readonly stopMs: number
  readonly contentBytesMax: number
  readonly renewalMs: number
}

const serverLimits = {
  commandBytesMax: allLimits.smtpCommandBytesMax,
  messageBytesMax: allLimits.smtpMessageBytesMax,
  recipientsMax: allLimits.smtpRecipientsMax,
  errorsMax: allLimits.smtpErrorsMax,
  idleMs: allLimits.smtpIdleMs,
  sessionMs: allLimits.smtpSessionMs,
  handshakeMs: allLimits.smtpHandshakeMs,
  closeMs: allLimits.smtpCloseMs,
  heldInputBytesMax: allLimits.smtpHeldInputBytesMax,
  unsentRepliesBytesMax: allLimits.smtpUnsentRepliesBytesMax,
  sessionsMax: allLimits.smtpSessionsMax,
  sessionsPerAddressMax: allLimits.smtpSessionsPerAddressMax,
  sessionsPerLoopbackMax: allLimits.smtpSessionsPerAddressMax,
  stopMs: allLimits.smtpStopMs,
  contentBytesMax: allLimits.smtpContentInFlightBytesMax,
  renewalMs: allLimits.certificateRenewalMs,
} satisfies ServerLimits

interface Pem {
  readonly key: string
  readonly cert: string
}

export interface SmtpServerOptions extends Address {
  readonly name: string
  readonly offer: Offer
  readonly policy: (client: Client) => Policy
  readonly log: Log
  /** PEM. Needed for STARTTLS and implicit TLS. */
  readonly tls?: Pem
  /** Asked every minute: what new connections are shown from then on. */
  readonly renewed?: () => Pem | undefined
  readonly implicitTls?: boolean
  readonly limits?: Partial<ServerLimits>
  /** For servers that share what they may hold. */
  readonly room?: ContentRoom
  /** Addresses and networks of proxies that pass connections on: each of theirs begins with a PROXY header. */
  readonly proxies?: readonly string[]
  /** Sessions of each client, for servers that are one to their clients. */
  readonly sessions?: Tally
}

export interface SmtpServer extends Service {
  /** The port it listens on. Throws while it does not. */
  port(): number
}

/**
 * Where client and server have it, the suite that every TLS 1.3 knows (RFC 8446 9.1): its keys are derived with SHA-256, for which processors have
 * instructions, and most clients name that of SHA-384 first only by their library's habit (docs/decisions/0090). A client that names ChaCha20 first, because its
 * processor has none for AES, gets it.
 */
const goodTls = {
  minVersion: 'TLSv1.2',
  ciphers: inFront('TLS_AES_128_GCM_SHA256', DEFAULT_CIPHERS.split(':')).join(':'),
  honorCipherOrder: true,
  secureOptions: constants.SSL_OP_PRIORITIZE_CHACHA,
} as const

function inFront(suite: string, suites: readonly string[]): string[] {
  return [...suites.filter((each) => each === suite), ...suites.filter((each) => each !== suite)]
}

const sweepMsMax = 1_000
/** Connections that wait to be taken. Node's 511 loses some of a burst, and a client that waits for our greeting never notices. */
const backlog = 4_096

export function smtpServer(options: SmtpServerOptions): SmtpServer {
  const { name, host, log, tls } = options
  const limits = { ...serverLimits, ...options.limits }
  if (options.limits?.sessionsPerLoopbackMax === undefined) limits.sessionsPerLoopbackMax = limits.sessionsPerAddressMax
  const contextOf = (pem: Pem) => createSecureContext({ ...pem, ...goodTls })
  const parts = {
    offer: options.offer,
    policy: options.policy,
    limits,
    room: options.room ?? new ContentRoom({ bytesMax: limits.contentBytesMax }),
    secureContext: tls && contextOf(tls),
    implicitTls: options.implicitTls ?? false,
    fault: (error: unknown) => log.fault('smtp session', error, { service: name }),
  } satisfies ConnectionParts
  if (parts.secureContext === undefined && (parts.implicitTls || options.offer.startTls))
    throw new Error(`${name}: TLS needs a key and a certificate`)

  const connections = new Set<SmtpConnection>()
  const perSource = options.sessions ?? new Tally()
  let server: Server | undefined
  let sweeper: NodeJS.Timeout | undefined
  let renewer: NodeJS.Timeout | undefined
  let quiet: (() => void) | undefined

  /** Of proxies, before they have said whose they are. */
  const unknown = new Set<Socket>()
  const isProxy = among(options.proxies ?? [])
  const arrive = (socket: Socket): void => {
    const { remoteAddress } = socket
    if (remoteAddress === undefined) return void socket.destroy() // it has left already, as health checks do
    if (!isProxy(remoteAddress)) return welcome(socket, remoteAddress)
    if (connections.size + unknown.size >= limits.sessionsMax) return void socket.destroy()
    unknown.add(socket)
    introduce(socket, limits.handshakeMs, {
      known: (address = remoteAddress) => {
        unknown.delete(socket)
        welcome(socket, address)
      },
      failed: (why) => {
        unknown.delete(socket)
        if (why !== undefined) log.fault('smtp proxy', `${name}: the proxy ${remoteAddress} was not understood: ${why}`)
      },
    })
  }

  const welcome = (socket: Socket, address: string): void => {
    const source = sourceOf(address)
    const most = isLoopback(source) ? limits.sessionsPerLoopbackMax : limits.sessionsPerAddressMax
    if (connections.size >= limits.sessionsMax || perSource.of(source) >= most)
      return turnAway(socket, parts.implicitTls)
    perSource.add(source)
    const connection = new SmtpConnection(socket, address, parts, () => {
      connections.delete(connection)
      perSource.take(source)
      if (connections.size === 0) quiet?.()
    })
    connections.add(connection)
    connection.open()
  }

  const renew = (): void => {
    const fresh = options.renewed?.()
    if (fresh === undefined) return
    parts.secureContext = contextOf(fresh)
    log.started({ service: name, step: 'the renewed certificate is shown from now on' })
  }

  const begin = async (): Promise<void> => {
    server = await listen(options, arrive)
    server.on('error', (error) => log.fault('smtp listener', error, { service: name }))
    const every = Math.min(sweepMsMax, ...[limits.idleMs, limits.sessionMs, limits.handshakeMs].map((ms) => ms / 4))
    // What lies unread, because this process stood still, has come in time.
    const sweep = (): void => {
      const now = performance.now()
      for (const connection of connections) connection.sweep(now)
    }
    sweeper = setInterval(() => void afterPoll().then(sweep), every).unref()
    renewer = setInterval(renew, limits.renewalMs).unref()
    log.started({ service: name, host, port: port() })
  }

  const end = async (): Promise<void> => {
    server?.close()
    server = undefined
    for (const socket of unknown) socket.destroy()
    if (connections.size > 0) {
      const allGone = new Promise<void>((resolve) => (quiet = resolve))
      const bound = setTimeout(() => {
        for (const connection of connections) connection.destroy()
      }, limits.stopMs)
      for (const connection of connections) connection.retire()
      await allGone
      clearTimeout(bound)
      quiet = undefined
    }
    clearInterval(sweeper)
    clearInterval(renewer)
    log.stopped({ service: name })
  }

  const port = (): number => {
    if (server === undefined) throw new Error(`${name} is not listening`)
    return (server.address() as AddressInfo).port
  }

  return { ...lifecycle(name, begin, end), port }
}

function listen({ name, ...at }: SmtpServerOptions, arrive: (socket: Socket) => void): Promise<Server> {
  return new Promise((resolve, reject) => {
    // Half open: a client that says everything and closes its side still gets its answers.
    const server = createServer({ noDelay: true, allowHalfOpen: true }, arrive)
    server.once('error', (cause) => reject(cannotListen(name, at, cause)))
    server.listen({ host: at.host, port: at.port, backlog }, () => {
      server.removeAllListeners('error')
      resolve(server)
    })
  })
}

function turnAway(socket: Socket, implicitTls: boolean): void {
  socket.on('error', () => undefined)
  if (implicitTls) return void socket.destroy()
  socket.write(formatReply(replies.tooManySessions))
  socket.destroySoon()
}

const isLoopback = (source: string): boolean => source.startsWith('127.') || source === '0:0:0:0'
