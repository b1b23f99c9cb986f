// The signature of one attempt (specification 6.2): HMAC-SHA256 over the timestamp, a period and the raw body, keyed with the UTF-8 bytes of
// the whole secret as it was shown. Keys are parsed once. The wire's header holds one value, so a rotation signs in headers of its own.
import { createHmac, createSecretKey, randomBytes, type KeyObject } from 'node:crypto'

/** The secrets that sign at present. */
export interface Signers {
  readonly current: KeyObject
  /** Prepared by a rotation. */
  readonly next?: KeyObject
  /** Replaced by one, until its time is over. */
  readonly previous?: KeyObject
}

/** 256 random bits, with a beginning that leak scanners can find. */
export function makeWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64url')}`
}

export function signingKey(secret: string): KeyObject {
  return createSecretKey(secret, 'utf8')
}

const sign = (key: KeyObject, timestamp: string, body: Buffer): string =>
  `v1=${createHmac('sha256', key).update(timestamp).update('.').update(body).digest('hex')}`

/** Names and values in turn, as the HTTP client takes them; written as in the specification, for receivers behind what hands them on unchanged. */
export function signedHeaders(signers: Signers, id: string, seconds: number, body: Buffer): string[] {
  const timestamp = String(seconds)
  const headers = [
    'Webhook-Id',
    id,
    'Webhook-Timestamp',
    timestamp,
    'Webhook-Signature',
    sign(signers.current, timestamp, body),
  ]
  if (signers.next !== undefined) headers.push('Webhook-Signature-Next', sign(signers.next, timestamp, body))
  if (signers.previous !== undefined)
    headers.push('Webhook-Signature-Previous', sign(signers.previous, timestamp, body))
  return headers
}
