// Verifies a webhook (specification 6.2): HMAC-SHA256 over timestamp, period and the raw body, compared in constant time, with a
// timestamp that is not stale. Nothing of the body is believed, or even parsed, before that.
import { PosthornError } from './errors.ts'
import type { WebhookEvent } from './shapes.ts'

export type HeaderSource =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>

export type Secret = string | readonly string[] | undefined

export interface VerifyOptions {
  /** The raw body as it arrived. A body that was parsed and written again has other bytes and does not verify. */
  body: string | Uint8Array | ArrayBuffer
  headers: HeaderSource
  /** `whsec_...` as shown. While you change secrets: several. Where the environment has none, this throws a `TypeError`. */
  secret: Secret
  /** How old, or how far ahead, a timestamp may be. Default 300 s, as the service documents. */
  toleranceSeconds?: number
  /** Milliseconds since 1970; for tests. */
  now?: number
}

/** What was wrong: answer all of them with 400 or 401, and say no more to the caller. */
export type WebhookMistake =
  | 'missing_header'
  | 'malformed_header'
  | 'stale_timestamp'
  | 'wrong_signature'
  | 'malformed_body'

export class WebhookVerificationError extends PosthornError {
  override readonly name = 'WebhookVerificationError'
  readonly mistake: WebhookMistake
  constructor(mistake: WebhookMistake, message: string) {
    super(message)
    this.mistake = mistake
  }
}

/** While a secret is being changed the service signs with both: the other signature stands in one of these. */
const signatureHeaders = ['webhook-signature', 'webhook-signature-next', 'webhook-signature-previous'] as const

/** The event, if it is genuine and fresh; else throws `WebhookVerificationError`. Deduplicate on `id` (or let `webhookHandler` do it). */
export async function verifyWebhook(options: VerifyOptions): Promise<WebhookEvent> {
  const { headers, toleranceSeconds = 300, now = Date.now() } = options
  const secrets = secretsOf(options.secret)
  const bytes = bytesOf(options.body)
  if (Object(headers) !== headers) throw new TypeError('headers must be the headers of the request')
  const id = read(headers, 'webhook-id')
  const timestamp = read(headers, 'webhook-timestamp')
  const signatures = signatureHeaders.flatMap((name) => read(headers, name) ?? [])
  if (id === undefined || timestamp === undefined || signatures.length === 0)
    throw new WebhookVerificationError(
      'missing_header',
      'Webhook-Id, Webhook-Timestamp or Webhook-Signature is missing.',
    )
  if (!/^\d{1,12}$/.test(timestamp))
    throw new WebhookVerificationError('malformed_header', 'Webhook-Timestamp is not a number of seconds.')

  if (!(await isSigned(bytes, timestamp, signatures, secrets)))
    throw new WebhookVerificationError('wrong_signature', 'No signature is valid for this body and secret.')
  // The other way around, a tolerance of NaN, from a setting that is missing, would let everything through.
  if (!(Math.abs(now / 1000 - Number(timestamp)) <= toleranceSeconds))
    throw new WebhookVerificationError('stale_timestamp', `Webhook-Timestamp is more than ${toleranceSeconds} s off.`)
  return eventOf(bytes, id)
}

/** What stands in a program's settings; a mistake there is the program's, and no caller's. */
function secretsOf(given: Secret): readonly string[] {
  const secrets = typeof given === 'string' ? [given] : (given ?? [])
  // A line end that a file brought along would be part of the key.
  if (secrets.length === 0 || !secrets.every((secret) => typeof secret === 'string' && /^\S+$/.test(secret)))
    throw new TypeError('secret must be the whole text as shown, whsec_...')
  return secrets
}

function bytesOf(body: unknown): Uint8Array {
  if (typeof body === 'string') return new TextEncoder().encode(body)
  if (body instanceof Uint8Array) return body
  if (body instanceof ArrayBuffer) return new Uint8Array(body)
  throw new TypeError('body must be the raw body, as text or bytes, and not what a parser made of it')
}

async function isSigned(
  body: Uint8Array,
  timestamp: string,
  signatures: readonly string[],
  secrets: readonly string[],
): Promise<boolean> {
  const digests = signatures.flatMap((signature) => digestOf(signature) ?? [])
  const encoder = new TextEncoder()
  const prefix = encoder.encode(`${timestamp}.`)
  const signed = new Uint8Array(prefix.length + body.length)
  signed.set(prefix)
  signed.set(body, prefix.length)
  let isGood = false
  for (const secret of secrets) {
    const hmac = { name: 'HMAC', hash: 'SHA-256' }
    const key = await crypto.subtle.importKey('raw', encoder.encode(secret), hmac, false, ['verify'])
    // `verify` compares in constant time; and no early end, so that the time does not tell which one matched.
    for (const digest of digests) isGood = (await crypto.subtle.verify('HMAC', key, digest, signed)) || isGood
  }
  return isGood
}

/** The 32 bytes of `v1=` and 64 lower-case hexadecimal digits. */
function digestOf(signature: string): Uint8Array<ArrayBuffer> | undefined {
  const digits = /^v1=([0-9a-f]{64})$/.exec(signature)?.[1]
  return digits === undefined
    ? undefined
    : Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
}

function eventOf(bytes: Uint8Array, id: string): WebhookEvent {
  let event: Partial<WebhookEvent> | null
  try {
    event = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Partial<WebhookEvent> | null
  } catch {
    throw new WebhookVerificationError('malformed_body', 'The body is not JSON.')
  }
  // The header is not part of what is signed; the body is.
  if (event === null || typeof event.type !== 'string' || event.id !== id)
    throw new WebhookVerificationError('malformed_body', 'The body is no webhook event, or its id is not Webhook-Id.')
  return event as WebhookEvent
}

function read(headers: HeaderSource, name: string): string | undefined {
  if (typeof headers.get === 'function') return (headers as Headers).get(name) ?? undefined
  const found = Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1]
  // Some hosts of functions give a list for each name. Of several values none is the one that was signed.
  const [only, ...more] = typeof found === 'string' ? [found] : (found ?? [])
  return more.length === 0 ? only : undefined
}
