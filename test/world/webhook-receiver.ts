// A customer's receiver of webhooks: keeps what it got, and judges every signature by itself, from the raw bytes and with node:crypto alone
// (specification 6.2). How it answers is a function that a test may change while it runs.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { WebhookEvent } from '../../src/contract/webhook-event.ts'
import type { Certificate } from './certificates.ts'

export interface Received {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  /** As they were written, names and values in turn. */
  readonly rawHeaders: IncomingMessage['rawHeaders']
  readonly raw: Buffer
  readonly event: WebhookEvent
  /** On the clock of `performance.now()`. */
  readonly at: number
  /** Which of its connections it came over, from 1. */
  readonly connection: number
  /** Of the three signature headers, which secret of ours each one proves: the secret itself, or `false`. */
  readonly proved: {
    readonly current: string | false
    readonly next: string | false | undefined
    readonly previous: string | false | undefined
  }
}

type Answering = (received: Received, response: ServerResponse) => void

export interface WebhookReceiver {
  readonly port: number
  readonly url: string
  /** Everything that came, in the order in which it was complete. */
  readonly received: Received[]
  /** Secrets that it knows. */
  readonly secrets: string[]
  answer: Answering
  /** Connections that were opened, also those over which nothing came. */
  connections(): number
  /** Resolves when this many have come. */
  count(many: number, withinMs?: number): Promise<readonly Received[]>
  /** Resolves when what has come is as expected. */
  until(isSo: (received: readonly Received[]) => boolean, withinMs?: number): Promise<readonly Received[]>
  stop(): Promise<void>
}

export const ok: Answering = (_received, response) => void response.writeHead(200).end('ok')
export const status =
  (code: number, headers: Readonly<Record<string, string>> = {}): Answering =>
  (_received, response) =>
    void response.writeHead(code, headers).end(`${code}`)
/** Takes the request and never answers. */
export const silence: Answering = () => undefined

export async function startWebhookReceiver(
  options: { certificate?: Certificate; host?: string } = {},
): Promise<WebhookReceiver> {
  const received: Received[] = []
  const secrets: string[] = []
  const sockets = new Map<Socket, number>()
  const waiting = new Set<() => void>()
  let opened = 0
  const receiver = { answer: ok }

  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const chunks: Buffer[] = []
    response.on('error', () => undefined)
    request.on('error', () => undefined)
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const raw = Buffer.concat(chunks)
      const one: Received = {
        path: request.url ?? '',
        headers: request.headers,
        rawHeaders: request.rawHeaders,
        raw,
        event: JSON.parse(raw.toString('utf8')) as WebhookEvent,
        at: performance.now(),
        connection: sockets.get(request.socket) ?? 0,
        proved: judge(request, raw, secrets),
      }
      received.push(one)
      receiver.answer(one, response)
      for (const look of waiting) look()
    })
  }
  const { certificate, host = '127.0.0.1' } = options
  const server: Server =
    certificate === undefined
      ? createHttp(handle)
      : createHttps({ key: certificate.key, cert: certificate.cert }, handle)
  server.keepAliveTimeout = 60_000
  server.on(certificate === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
    sockets.set(socket, ++opened)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', () => undefined)
  server.listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  const until = (isSo: (all: readonly Received[]) => boolean, withinMs = 90_000): Promise<readonly Received[]> =>
    new Promise((resolve, reject) => {
      const look = () => {
        if (!isSo(received)) return
        waiting.delete(look)
        clearTimeout(timer)
        resolve(received)
      }
      const timer = setTimeout(() => {
        waiting.delete(look)
        const seen = received.slice(-20).map(({ event }) => `${event.type} ${event.data.sequence ?? ''}`)
        reject(new Error(`after ${withinMs} ms the receiver has ${received.length}: ${seen.join(', ')}`))
      }, withinMs)
      waiting.add(look)
      look()
    })
  return {
    port,
    url: `${certificate === undefined ? 'http' : 'https'}://${host}:${port}/hook`,
    received,
    secrets,
    get answer() {
      return receiver.answer
    },
    set answer(answering) {
      receiver.answer = answering
    },
    connections: () => opened,
    count: (many, withinMs) => until((all) => all.length >= many, withinMs),
    until,
    stop: async () => {
      server.closeAllConnections()
      for (const socket of sockets.keys()) socket.destroy()
      await once(server.close(), 'close')
    },
  }
}

function judge(request: IncomingMessage, raw: Buffer, secrets: readonly string[]): Received['proved'] {
  const timestamp = String(request.headers['webhook-timestamp'])
  const secretOf = (name: string): string | false | undefined => {
    const header = request.headers[name]
    if (header === undefined) return undefined
    const given = Buffer.from(String(header))
    return (
      secrets.find((secret) => {
        const digest = createHmac('sha256', Buffer.from(secret, 'utf8'))
          .update(Buffer.concat([Buffer.from(`${timestamp}.`), raw]))
          .digest('hex')
        const wanted = Buffer.from(`v1=${digest}`)
        return wanted.length === given.length && timingSafeEqual(wanted, given)
      }) ?? false
    )
  }
  return {
    current: secretOf('webhook-signature') ?? false,
    next: secretOf('webhook-signature-next'),
    previous: secretOf('webhook-signature-previous'),
  }
}
