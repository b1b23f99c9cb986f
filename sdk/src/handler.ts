// A receiver for anything that speaks `Request` and `Response`: verifies, gives each event to your function once, and answers so that
// the service repeats what was not done. An event counts as seen only when your function has returned.
import type { WebhookEvent } from './shapes.ts'
import { verifyWebhook, WebhookVerificationError, type Secret } from './webhook.ts'

/** Remembers which events were handled. Keep it where your other data is when there is more than one process: a table with a unique id. */
export interface Seen {
  has(id: string): boolean | Promise<boolean>
  add(id: string): void | Promise<void>
}

export interface WebhookHandlerOptions {
  /** `whsec_...` as shown; several while you change it. Where the environment has none, requests end in a `TypeError`. */
  secret: Secret
  /** Does the work. When it throws, the service gets 500 and tries again later. It has 15 seconds. */
  onEvent: (event: WebhookEvent) => void | Promise<void>
  /** Hears what the work threw, and is waited for. Default: `console.error`. */
  onError?: (error: unknown, event: WebhookEvent) => unknown
  /** Default: the last 10,000 ids in memory. */
  seen?: Seen
  toleranceSeconds?: number
  /** Longer bodies are refused. Default 1 MiB; events are a few KB. */
  bodyBytesMax?: number
}

/** Makes a function from `Request` to `Response`. */
export function webhookHandler(options: WebhookHandlerOptions): (request: Request) => Promise<Response> {
  const { seen = memorySeen(), bodyBytesMax = 1024 * 1024, secret, toleranceSeconds } = options
  const { onError = (error, event) => console.error(`${event.type} ${event.id} was not handled:`, error) } = options
  const underWay = new Map<string, Promise<void>>()

  async function once(event: WebhookEvent): Promise<void> {
    try {
      if (await seen.has(event.id)) return
      await options.onEvent(event)
      await seen.add(event.id)
    } catch (error) {
      await onError(error, event)
      throw error
    }
  }

  return async (request) => {
    if (request.method !== 'POST') return new Response('Only POST.\n', { status: 405, headers: { allow: 'POST' } })
    // Engines say no more of it than that a stream is locked.
    if (request.bodyUsed)
      throw new TypeError('the body of the request was read before; webhookHandler needs it as it arrived, unread')
    const body = await readBody(request, bodyBytesMax)
    if (body === undefined) return new Response('Too large.\n', { status: 413 })
    let event: WebhookEvent
    try {
      event = await verifyWebhook({
        body,
        headers: request.headers,
        secret,
        ...(toleranceSeconds !== undefined && { toleranceSeconds }),
      })
    } catch (error) {
      if (error instanceof WebhookVerificationError) return new Response('Not a genuine webhook.\n', { status: 400 })
      throw error
    }
    // The same event twice at the same time: the second one waits for what becomes of the first.
    const work = underWay.get(event.id) ?? once(event).finally(() => underWay.delete(event.id))
    underWay.set(event.id, work)
    try {
      await work
      return new Response(null, { status: 204 })
    } catch {
      return new Response('Not handled; try again later.\n', { status: 500 })
    }
  }
}

/** The last `max` ids, in this process only. */
export function memorySeen(max = 10_000): Seen {
  const ids = new Set<string>()
  return {
    has: (id) => ids.has(id),
    add: (id) => {
      ids.add(id)
      if (ids.size > max) for (const oldest of ids.values()) return void ids.delete(oldest)
    },
  }
}

async function readBody(request: Request, bytesMax: number): Promise<Uint8Array | undefined> {
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of request.body ?? []) {
    length += piece.byteLength
    // The other way around, a bound of NaN, from a setting that is missing, would let everything in.
    if (!(length <= bytesMax)) return undefined
    pieces.push(piece)
  }
  const body = new Uint8Array(length)
  let at = 0
  for (const piece of pieces) {
    body.set(piece, at)
    at += piece.byteLength
  }
  return body
}
