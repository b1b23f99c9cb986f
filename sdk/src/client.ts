// The API as methods. A send carries an idempotency key of its own making, so that it may be repeated when nobody answers, and there is
// still one message. Retried are only answers that the service itself calls passing, with the same bytes each time.
import { PosthornApiError, PosthornConnectionError, PosthornError, PosthornWaitError } from './errors.ts'
import type { AttachmentInput, EventPage, MessageDeliveryStatus, MessageToSend, SendMessageResponse } from './shapes.ts'
import { longestTimerMs, pause, underBoth, unlessCalledOff } from './signals.ts'

export interface PosthornOptions {
  /** Where the service is, such as `https://mail.example.com`; with or without `/api/v1` behind it. */
  baseUrl: string
  /** `ph_...`; keep it on the server. Where the environment has none, the constructor says so. */
  apiKey: string | undefined
  /** For one request, headers and body of the answer included; `Infinity`: no limit. Default 30 s. */
  timeoutMs?: number
  /** How often a request is repeated after the first try. Default 4; 0 turns it off. */
  retriesMax?: number
  /** A longer `Retry-After` is not waited for but thrown. Default 20 s. */
  retryAfterMsMax?: number
  /** Default: the platform's. */
  fetch?: typeof fetch
}
export interface RequestOptions {
  signal?: AbortSignal | undefined
}
export interface SendOptions extends RequestOptions {
  /** Your own name for this message, 1 to 255 visible ASCII characters: sends with the same name make one message. Default: a random one. */
  idempotencyKey?: string | undefined
}
export interface WaitOptions extends RequestOptions {
  /** `processed` (default): until Posthorn is done with it. `reported`: until the receiving provider has said something too, or it failed. */
  until?: 'processed' | 'reported'
  /** Default 60 s. Then `PosthornWaitError` with the last status; the message goes on. */
  timeoutMs?: number
}
export interface EventsOptions extends RequestOptions {
  /** `next` of an earlier page. Without it: from the oldest event that is kept. */
  after?: string | undefined
  /** Events per page. */
  limit?: number
}

interface Call {
  readonly path: string
  /** The member that every answer has; without it, it is not Posthorn that answered. */
  readonly brings: 'id' | 'processingStatus' | 'events'
  readonly body?: string
  readonly idempotencyKey?: string
  readonly signal?: AbortSignal | undefined
}

/** Further ones wait in line: each takes a file of the program, which has perhaps a thousand, and all at once would time out. */
const requestsAtOnce = 100
const firstPauseMs = 250
const longestPauseMs = 5_000
/** What the last look for an outcome may take, when the time is over. */
const lastLookMs = 1_000
const wrongTimeout = 'timeoutMs must be a number of milliseconds above 0; Infinity is no limit'
const timerMs = (ms: number): number => Math.ceil(Math.min(ms, longestTimerMs))

export class Posthorn {
  readonly #base: string
  readonly #apiKey: string
  readonly #timeoutMs: number
  readonly #retriesMax: number
  readonly #retryAfterMsMax: number
  readonly #fetch: typeof fetch
  #underWay = 0
  readonly #line = new Set<() => void>()

  constructor(options: PosthornOptions) {
    // Programs without types come here, too.
    if (!isObject(options)) throw new TypeError('new Posthorn takes { baseUrl, apiKey }')
    const { baseUrl, apiKey } = options
    const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
    if (url === undefined || !/^https?:$/.test(url.protocol))
      throw new TypeError('baseUrl must be a URL such as https://mail.example.com')
    if (url.username + url.password + url.search + url.hash !== '')
      throw new TypeError('baseUrl must be a URL without login, query and fragment, such as https://mail.example.com')
    if (typeof apiKey !== 'string' || !/^[!-~]+$/.test(apiKey))
      throw new TypeError('apiKey must be an API key of Posthorn, ph_...')
    // Not `href`: a question mark with nothing behind it would make the path of each request its query.
    this.#base = (url.origin + url.pathname).replace(/\/+$/, '').replace(/(?:\/+api\/v1)?$/, '')
    this.#apiKey = apiKey
    this.#timeoutMs = options.timeoutMs ?? 30_000
    if (!(this.#timeoutMs > 0)) throw new TypeError(wrongTimeout)
    this.#retriesMax = options.retriesMax ?? 4
    this.#retryAfterMsMax = options.retryAfterMsMax ?? 20_000
    this.#fetch = options.fetch ?? ((...given) => fetch(...given))
  }

  /**
   * Queues one message. When it resolves, the message is kept durably and will be delivered, or end in a state that you can see.
   * Throws `PosthornApiError` when the service says no, and `PosthornConnectionError` when nobody answered, also not to the repeats, or
   * `signal` called it off; both carry the `idempotencyKey` with which the send may be repeated safely.
   */
  async send(message: MessageToSend, options: SendOptions = {}): Promise<SendMessageResponse> {
    const idempotencyKey = options.idempotencyKey ?? crypto.randomUUID()
    if (!/^[!-~]{1,255}$/.test(idempotencyKey))
      throw new TypeError('idempotencyKey must be 1 to 255 visible ASCII characters, without spaces')
    // The service compares the bytes of a repeat: they are written once, and the same for a message that was kept meanwhile.
    const body = written(message)
    const { signal } = options
    signal?.throwIfAborted()
    try {
      const call = { path: '/api/v1/send', brings: 'id', body, idempotencyKey, signal } as const
      return (await this.#call(call)) as SendMessageResponse
    } catch (error) {
      if (signal?.aborted !== true || error instanceof PosthornError) throw error
      const what = 'The send was called off while it was under way; the message may have been accepted.'
      throw new PosthornConnectionError(what, { cause: error, idempotencyKey })
    }
  }

  /** What has become of a message. */
  async status(messageId: string, options: RequestOptions = {}): Promise<MessageDeliveryStatus> {
    if (typeof messageId !== 'string' || messageId === '') throw new TypeError('messageId must be the id of a message')
    const path = `/api/v1/messages/${encodeURIComponent(messageId)}`
    return (await this.#call({ path, brings: 'processingStatus', signal: options.signal })) as MessageDeliveryStatus
  }

  /** Reads the status, ever more slowly, until there is an outcome. Webhooks tell it sooner and cheaper; this is for scripts and tests. */
  async waitForOutcome(messageId: string, options: WaitOptions = {}): Promise<MessageDeliveryStatus> {
    const { timeoutMs = 60_000, until = 'processed' } = options
    if (!(timeoutMs > 0)) throw new TypeError(wrongTimeout)
    // Any other word would wait for the wrong thing without a sound.
    if (until !== 'processed' && until !== 'reported') throw new TypeError("until must be 'processed' or 'reported'")
    const deadline = performance.now() + timeoutMs
    let last: MessageDeliveryStatus | undefined
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 1.5, longestPauseMs)) {
      const late = AbortSignal.timeout(timerMs(Math.max(deadline - performance.now(), lastLookMs)))
      const look = (signal: AbortSignal | undefined) => this.status(messageId, { signal })
      try {
        // The first look takes as long as any request: without it there is nothing to tell.
        last = await (last === undefined ? look(options.signal) : underBoth(options.signal, late, look))
      } catch (error) {
        if (last === undefined || !late.aborted || options.signal?.aborted === true) throw error
        throw new PosthornWaitError(last, timeoutMs)
      }
      if (isOutcome(last, until)) return last
      const leftMs = deadline - performance.now()
      if (leftMs <= 0) throw new PosthornWaitError(last, timeoutMs)
      await pause(Math.min(pauseMs, leftMs), options.signal)
    }
  }

  /**
   * All events of the workspace in the order in which they were committed, page by page until there are no more now: for what a webhook
   * did not reach. Keep `next` with what you did; begin there the next time.
   */
  async *eventPages(options: EventsOptions = {}): AsyncGenerator<EventPage, void> {
    for (let { after } = options; ;) {
      const query = new URLSearchParams()
      if (after !== undefined) query.set('after', after)
      if (options.limit !== undefined) query.set('limit', String(options.limit))
      const path = `/api/v1/events?${query.toString()}`
      const page = (await this.#call({ path, brings: 'events', signal: options.signal })) as EventPage
      if (page.events.length === 0) return
      yield page
      after = page.next
    }
  }

  async #call(call: Call): Promise<unknown> {
    for (let retries = 0, pauseMs = firstPauseMs; ; retries += 1, pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      const answer = await this.#inTurn(call.signal, () => this.#try(call))
      if (!(answer instanceof Error)) return answer.body
      call.signal?.throwIfAborted()
      const waitMs = this.#waitBefore(answer, pauseMs)
      // Said so that NaN, from a setting that is missing, means none.
      if (waitMs === undefined || !(retries < this.#retriesMax)) throw answer
      await pause(waitMs, call.signal)
    }
  }

  async #inTurn<Answer>(signal: AbortSignal | undefined, work: () => Promise<Answer>): Promise<Answer> {
    if (this.#underWay < requestsAtOnce) this.#underWay += 1
    else
      await unlessCalledOff(signal, (done) => {
        this.#line.add(done)
        return () => this.#line.delete(done)
      })
    try {
      return await work()
    } finally {
      // Whoever is first in line gets the place of this one.
      const [next] = this.#line
      if (next === undefined) this.#underWay -= 1
      else {
        this.#line.delete(next)
        next()
      }
    }
  }

  /** How long to wait before the next try, or undefined: there is none. */
  #waitBefore(error: PosthornApiError | PosthornConnectionError, pauseMs: number): number | undefined {
    const jittered = pauseMs * (0.75 + Math.random() / 2)
    if (error instanceof PosthornConnectionError) return jittered
    if (!error.isTransient) return undefined
    const askedMs = (error.retryAfterSeconds ?? 0) * 1000
    return askedMs <= this.#retryAfterMsMax ? Math.max(askedMs, jittered) : undefined
  }

  async #try(call: Call): Promise<{ body: unknown } | PosthornApiError | PosthornConnectionError> {
    const late = AbortSignal.timeout(timerMs(this.#timeoutMs))
    let what: string | undefined
    try {
      const { response, text } = await underBoth(call.signal, late, (signal) => this.#fetched(call, signal))
      if (!response.ok) return refusal(response, text, call.idempotencyKey)
      what = `answered ${response.status} with something that is not Posthorn's, or broke off`
      const body: unknown = JSON.parse(text)
      if (Object(body) !== body || !(call.brings in (body as object)))
        throw new TypeError(`There is no ${call.brings}.`)
      return { body }
    } catch (cause) {
      if (late.aborted) what = `did not answer within ${this.#timeoutMs} ms`
      what ??= `could not be reached, or its answer broke off (${rootOf(cause)})`
      return new PosthornConnectionError(`Posthorn at ${this.#base} ${what}.`, {
        cause,
        idempotencyKey: call.idempotencyKey,
      })
    }
  }

  async #fetched(call: Call, signal: AbortSignal): Promise<{ response: Response; text: string }> {
    const response = await this.#fetch(this.#base + call.path, {
      method: call.body === undefined ? 'GET' : 'POST',
      redirect: 'manual', // a key is not carried elsewhere
      signal,
      headers: {
        authorization: `Bearer ${this.#apiKey}`,
        accept: 'application/json',
        ...(call.body !== undefined && { 'content-type': 'application/json' }),
        ...(call.idempotencyKey !== undefined && { 'idempotency-key': call.idempotencyKey }),
      },
      ...(call.body !== undefined && { body: call.body }),
    })
    return { response, text: await response.text() }
  }
}

/** `fetch` itself says that it failed, and nothing more: a wrong port, a name that nobody has and HTTPS where none is spoken look alike. */
function rootOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return rootOf(error.errors[0])
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : rootOf(error.cause)
}

function isOutcome(
  { processingStatus, deliveryStatus }: MessageDeliveryStatus,
  until: 'processed' | 'reported',
): boolean {
  if (processingStatus === 'failed') return true
  // What was reported of an earlier try is no outcome while another one is to come, or under way.
  const isProcessed = processingStatus === 'sent' || processingStatus === 'delivery_unknown'
  return isProcessed && (until === 'processed' || deliveryStatus !== 'pending')
}

function refusal(response: Response, text: string, idempotencyKey: string | undefined): PosthornApiError {
  const said = asObject(text)
  const string = (name: string) => (typeof said[name] === 'string' ? { [name]: said[name] } : {})
  const requestId = response.headers.get('x-request-id')
  const elsewhere = response.headers.get('location')
  const retryAfter = secondsUntil(response.headers.get('retry-after'))
  return new PosthornApiError(
    {
      status: response.status,
      error:
        elsewhere === null
          ? `Posthorn answered ${response.status}.`
          : `The answer was a redirect (${response.status}) to ${elsewhere}; set baseUrl to where the service is.`,
      ...string('error'),
      ...string('code'),
      ...string('field'),
      ...string('upgradeUrl'),
      ...(requestId !== null && { requestId }),
      ...(retryAfter !== undefined && { retryAfterSeconds: retryAfter }),
    },
    idempotencyKey,
  )
}

/** `Retry-After` (RFC 9110, 10.2.3): the service gives seconds, a proxy before it perhaps a date. */
function secondsUntil(retryAfter: string | null): number | undefined {
  if (retryAfter === null) return undefined
  if (/^\d+$/.test(retryAfter)) return Number(retryAfter)
  const seconds = Math.ceil((Date.parse(retryAfter) - Date.now()) / 1000)
  return Number.isNaN(seconds) ? undefined : Math.max(seconds, 0)
}

/** A proxy before the service may answer in HTML. */
function asObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

/** The body of a send. What cannot be written, or would go as something else, is said here and not by the engine. */
function written(message: MessageToSend): string {
  if (!isObject(message)) throw new TypeError('send takes a message: { mailboxId, recipient, subject, bodyText }')
  const { attachments, expiresAt } = message
  if (expiresAt instanceof Date && Number.isNaN(expiresAt.getTime()))
    throw new TypeError('expiresAt is an invalid date; leave it out, or give a time')
  if (attachments !== undefined && !Array.isArray(attachments))
    throw new TypeError('attachments must be a list of files')
  const files = attachments?.map(inBase64)
  try {
    return JSON.stringify({ ...message, attachments: files }, inOrder)
  } catch (cause) {
    const why = 'The message cannot be written as JSON: it holds itself, or a BigInt; metadata must be pairs of strings'
    throw new TypeError(why, { cause })
  }
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null

/** For `JSON.stringify`: members by their names, because databases give them back in an order of their own. */
function inOrder(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
}

function inBase64(file: AttachmentInput, index: number): object {
  if (!isObject(file)) throw new TypeError(`attachments.${index} must be a file: { filename, content }`)
  if (!('content' in file)) return file
  const { content, ...rest } = file
  // Streams and blobs have no length here, and would go as empty files.
  const bytes = content instanceof ArrayBuffer ? new Uint8Array(content) : content
  if (!ArrayBuffer.isView(bytes))
    throw new TypeError(
      `attachments.${index}.content must be the bytes of the file; what is in Base64 already goes as contentBase64`,
    )
  return { ...rest, contentBase64: base64(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)) }
}

/** What an engine may have of its own for it, many times faster: the program stands still while a file is written. */
interface Base64Makers {
  readonly Buffer?: {
    from(memory: ArrayBufferLike, offset: number, length: number): { toString(as: 'base64'): string }
  }
}

function base64(bytes: Uint8Array & { toBase64?: () => string }): string {
  if (bytes.toBase64 !== undefined) return bytes.toBase64()
  const { Buffer } = globalThis as Base64Makers
  if (Buffer !== undefined) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  // Pieces whose length is a multiple of three join without padding between them; one call has a limit of arguments.
  const piece = 3 * 8_192
  let text = ''
  for (let at = 0; at < bytes.length; at += piece)
    text += btoa(String.fromCharCode.apply(undefined, bytes.subarray(at, at + piece) as unknown as number[]))
  return text
}
