// One POST to a stranger's server, bounded in everything: 15 s from the look-up of the name to the end of the answer, 1 MB of answer, 1 KB of
// it kept, never decompressed, redirects never followed, HTTP/1.1 only (delivery-semantics 50). Connections are kept for each workspace
// alone. The address that is connected to is one that was checked, and is looked at once more when the connection is open. A proxy in the
// environment means nothing here.
import { buildConnector, Pool, type Dispatcher } from 'undici'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { afterPoll } from '../base/after-poll.ts'
import { keyExchanges } from '../base/key-exchanges.ts'
import { translatedV4 } from '../base/private-address.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { WebhookTrouble } from '../domain/webhook.ts'
import { makeOwnLack } from './own-lack.ts'
import type { Targets, TargetTrouble } from './public-address.ts'
import { parseRetryAfter, type PostFacts } from './verdict.ts'

export interface Post {
  readonly workspaceId: WorkspaceId
  readonly url: URL
  /** Names and values in turn. */
  readonly headers: readonly string[]
  readonly body: Buffer
  /** The clock by which a date in `Retry-After` is read, in milliseconds. */
  readonly now: () => number
}

export interface Poster {
  /** Never rejects: what went wrong is a fact. */
  post(post: Post): Promise<PostFacts>
  /** Ends all that is under way: the service cannot wait any longer. */
  giveUp(): void
  close(): Promise<void>
}

export interface PosterTools {
  readonly targets: Targets
  /** PEM of more authorities to trust, for tests. */
  readonly ca?: string
  readonly postMs?: number
  /** For so many workspaces connections are kept at once. */
  readonly poolsMax?: number
  /** Whether this machine has a way to any network; tests say it themselves. */
  readonly wayOut?: () => Promise<boolean>
}

interface Kept {
  readonly origin: string
  readonly pool: Pool
  readonly usedAt: number
}

export function makePoster({
  targets,
  ca,
  postMs = limits.webhookPostMs,
  poolsMax = limits.webhookPoolsMax,
  wayOut,
}: PosterTools): Poster {
  /** The one that was not used for the longest time first. */
  const kept = new Map<WorkspaceId, Kept>()
  const underWay = new Set<Answer>()
  const ownLack = makeOwnLack(targets, wayOut)
  const sweep = setInterval(() => {
    const longAgo = performance.now() - limits.webhookPoolIdleMs
    for (const [workspace, { usedAt }] of kept)
      if (usedAt < longAgo) drop(workspace)
      else break
  }, limits.webhookPoolIdleMs / 2).unref()

  /** Requests that are under way over it have their time. */
  const drop = (workspace: WorkspaceId): void => {
    const { pool } = kept.get(workspace) ?? {}
    kept.delete(workspace)
    pool?.close().catch(() => undefined) // ended meanwhile
  }

  const poolOf = (workspace: WorkspaceId, origin: string): Pool => {
    const known = kept.get(workspace)
    if (known?.origin === origin) {
      kept.delete(workspace)
      kept.set(workspace, { ...known, usedAt: performance.now() })
      return known.pool
    }
    drop(workspace)
    for (const [longest] of kept)
      if (kept.size >= poolsMax) drop(longest)
      else break
    const pool = new Pool(origin, {
      connections: limits.webhookShareMax,
      pipelining: 1,
      allowH2: false,
      connect: guardedConnector(targets, ca),
      // One clock for all of it: our own.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: limits.webhookAnswerHeadBytesMax,
      keepAliveTimeout: limits.webhookKeepAliveMs,
      keepAliveMaxTimeout: limits.webhookPoolIdleMs,
    })
    kept.set(workspace, { origin, pool, usedAt: performance.now() })
    return pool
  }

  return {
    post: ({ workspaceId, url, headers, body, now }) =>
      new Promise((resolve) => {
        const request = { method: 'POST' as const, path: url.pathname + url.search, headers: [...headers], body }
        const answer: Answer = new Answer(postMs, now, (facts, unbegun) => {
          underWay.delete(answer)
          if (unbegun === undefined) return resolve(facts)
          ownLack(unbegun).then(
            (lack) => resolve({ ...facts, ...(lack !== undefined && { lack }) }),
            () => resolve(facts),
          )
        })
        underWay.add(answer)
        poolOf(workspaceId, url.origin).dispatch(request, answer)
      }),
    giveUp: () => {
      for (const answer of underWay) answer.end('shutdown')
    },
    close: async () => {
      clearInterval(sweep)
      const pools = [...kept.values()]
      kept.clear()
      await Promise.all(pools.map(({ pool }) => pool.destroy()))
    },
  }
}

/** Why a connection was not made, in our words. */
class NotAllowed extends Error {
  readonly trouble: TargetTrouble
  constructor(trouble: TargetTrouble) {
    super(trouble)
    this.trouble = trouble
  }
}

/** Looks names up itself, since Node would not ask for an address in place of a name, and connects only to what was allowed. */
function guardedConnector(targets: Targets, ca: string | undefined): buildConnector.connector {
  const lookup: LookupFunction = (host, options, callback) => {
    targets.find(host).then(
      (found) => {
        if ('trouble' in found) return callback(new NotAllowed(found.trouble), '', 0)
        const all = found.addresses.map((address) => ({ address, family: isIP(address) }))
        const [first] = all
        if (options.all === true) callback(null, all)
        else callback(null, first?.address ?? '', first?.family ?? 0)
      },
      (error: unknown) => callback(error as Error, '', 0),
    )
  }
  const connect = buildConnector({
    allowH2: false,
    timeout: limits.webhookConnectMs,
    maxCachedSessions: 1,
    lookup,
    // Node's own 250 ms for one of several addresses is less than the way to the other side of the world: the receiver's good address would be given up, and
    // the next one may be of a family that this machine has no way to.
    autoSelectFamilyAttemptTimeout: limits.webhookAddressMs,
    ecdhCurve: keyExchanges,
    ...(ca !== undefined && { ca }),
  })
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, '')
    if (isIP(host) !== 0 && !targets.isAllowed(host)) return callback(new NotAllowed('blocked_address'), null)
    connect(options, (error, socket) => {
      if (error !== null) return callback(error, null)
      const { remoteAddress: at = '' } = socket
      if (targets.isAllowed(translatedV4(at) ?? at)) return callback(null, passOverContinue(socket))
      socket.destroy()
      callback(new NotAllowed('blocked_address'), null)
    })
  }
}

const unasked = Buffer.from('HTTP/1.1 100')

/**
 * Some servers (IIS, for one) say "100 Continue" although nobody waits for it, which a client has to pass over (RFC 9110 15.2). undici ends the connection
 * there, and whoever has the event already would be sent it again and again. As 102 it is an interim answer like others.
 */
function passOverContinue(socket: Socket): Socket {
  const read: (size?: number) => unknown = socket.read.bind(socket)
  socket.read = (size?: number): unknown => {
    const chunk = read(size)
    if (!Buffer.isBuffer(chunk)) return chunk
    const isOne = (at: number): boolean => chunk.subarray(at, at + unasked.length).equals(unasked)
    for (let at = 0; isOne(at); at = chunk.indexOf('\r\n\r\n', at) + 4) chunk.write('102', at + 9)
    return chunk
  }
  return socket
}

/** Reads one answer as far as it is wanted. Whatever ends it first decides; the rest is destroyed. */
class Answer implements Dispatcher.DispatchHandler {
  readonly #resolve: (facts: PostFacts, unbegun?: Error) => void
  readonly #now: () => number
  readonly #startedAt = performance.now()
  readonly #timer: NodeJS.Timeout
  #controller: Dispatcher.DispatchController | undefined
  #done = false
  #status: number | undefined
  #retryAfterSeconds: number | undefined
  #interim = 0
  #bytes = 0
  #start: Buffer[] = []

  /** `unbegun`: what went wrong before anything of the request was written. */
  constructor(postMs: number, now: () => number, resolve: (facts: PostFacts, unbegun?: Error) => void) {
    this.#now = now
    this.#resolve = resolve
    this.#timer = setTimeout(() => void afterPoll().then(() => this.end('timeout')), postMs)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // Its time was over while it waited for a connection: it is not written any more.
    if (this.#done) controller.abort(new Error('given up'))
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Record<string, unknown>): void {
    if (status < 200) {
      if (++this.#interim > limits.webhookInterimAnswersMax) this.end('malformed')
      return
    }
    this.#status = status
    if (status >= 300) this.#retryAfterSeconds = parseRetryAfter(headers['retry-after'] as string, this.#now())
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#bytes < limits.webhookExcerptBytesMax)
      this.#start.push(Buffer.from(chunk.subarray(0, limits.webhookExcerptBytesMax - this.#bytes)))
    this.#bytes += chunk.length
    if (this.#bytes > limits.webhookAnswerBytesMax) this.end('too_large')
  }

  onResponseEnd(): void {
    this.end(undefined)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const trouble = troubleOf(error, this.#controller !== undefined)
    this.end(trouble, trouble === 'connect_failed' ? error : undefined)
  }

  end(trouble: WebhookTrouble | undefined, why = trouble && new Error(trouble)): void {
    if (this.#done) return
    this.#done = true
    clearTimeout(this.#timer)
    if (trouble !== undefined) this.#controller?.abort(new Error(trouble))
    const excerpt = excerptOf(this.#start)
    const facts = {
      durationMs: Math.round(performance.now() - this.#startedAt),
      ...(this.#status !== undefined && { status: this.#status }),
      ...(trouble !== undefined && { trouble }),
      ...(this.#retryAfterSeconds !== undefined && { retryAfterSeconds: this.#retryAfterSeconds }),
      ...(excerpt !== '' && { excerpt }),
    }
    this.#resolve(facts, this.#controller === undefined ? why : undefined)
  }
}

/** At most 1 KB as text that PostgreSQL takes; what is no UTF-8 is replaced, which makes it longer. */
function excerptOf(chunks: readonly Buffer[]): string {
  if (chunks.length === 0) return ''
  const text = beginningOf(Buffer.concat(chunks)).replaceAll('\0', '\ufffd')
  return beginningOf(Buffer.from(text).subarray(0, limits.webhookExcerptBytesMax))
}

/** Without a character that the bound has cut in two. */
const beginningOf = (bytes: Buffer): string =>
  new TextDecoder().decode(bytes, { stream: bytes.length === limits.webhookExcerptBytesMax })

const byCode: Readonly<Record<string, WebhookTrouble>> = {
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  UND_ERR_HEADERS_OVERFLOW: 'malformed',
  UND_ERR_SOCKET: 'closed',
  ECONNRESET: 'closed',
  EPIPE: 'closed',
  EPROTO: 'tls_failed',
  ERR_SSL_WRONG_VERSION_NUMBER: 'tls_failed',
}

function troubleOf(error: unknown, connected: boolean): WebhookTrouble {
  if (error instanceof NotAllowed) return error.trouble
  // Where a name has several addresses, each has an error of its own.
  if (error instanceof AggregateError && error.errors.length > 0) return troubleOf(error.errors[0], connected)
  const code = (error as { code?: unknown }).code
  const text = typeof code === 'string' ? code : ''
  if (byCode[text] !== undefined) return byCode[text]
  if (text.startsWith('HPE_') || (error as Error).name === 'HTTPParserError') return 'malformed'
  if (/CERT|TLS|SSL|SIGNATURE|ISSUER/.test(text)) return 'tls_failed'
  return connected ? 'closed' : 'connect_failed'
}
