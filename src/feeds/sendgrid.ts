// SendGrid's signed event webhook: ECDSA (P-256, SHA-256) over timestamp and raw body, with the public key that SendGrid shows once.
import { createPublicKey, createVerify, type KeyObject } from 'node:crypto'
import { limits } from '../config.ts'
import { fingerprintOf, type ProviderReport } from '../domain/provider-report.ts'
import * as feed from './feed-request.ts'
import type { FeedProvider, Json } from './feed-request.ts'

export const sendgrid: FeedProvider = {
  read: ({ header, body }, { secret }, now) => {
    const signature = header('x-twilio-email-event-webhook-signature') ?? ''
    const timestamp = header('x-twilio-email-event-webhook-timestamp') ?? ''
    if (!isGenuine(secret, signature, timestamp, body)) return { refused: 'signature' }
    if (!feed.isFresh(timestamp, now, limits.feedAgeMsMax)) return { refused: 'stale' }
    const events = feed.parseJson(body)
    if (!Array.isArray(events)) return { refused: 'malformed' }
    // All of them, whatever their number: SendGrid makes batches by size (768 KB), and sends none again that got a 200.
    const reports = events.flatMap((event) => reportOf(feed.objectOf(event) ?? {}) ?? [])
    return { reports, once: signature }
  },
}

/** The key as SendGrid shows it: Base64 of a SubjectPublicKeyInfo. Undefined where it is none for this algorithm. */
export function sendgridKey(text: string): KeyObject | undefined {
  try {
    const key = createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' })
    return key.asymmetricKeyType === 'ec' ? key : undefined
  } catch {
    // Not a key: whoever sets up the feed is told so.
    return undefined
  }
}

function isGenuine(key: string, signature: string, timestamp: string, body: Buffer): boolean {
  const publicKey = sendgridKey(key)
  if (publicKey === undefined) return false
  return createVerify('sha256').update(timestamp).update(body).verify(publicKey, signature, 'base64')
}

function reportOf(event: Json): ProviderReport | undefined {
  const id = feed.textOf(event['sg_event_id'])
  const kind = kindOf(event['event'])
  if (id === undefined || kind === undefined) return undefined
  const messageId = feed.textOf(event['sg_message_id'])
  // The first part is what the SMTP reply named; the rest says which machine worked on it.
  const queued = messageId?.split('.', 1)[0]
  const said = feed.textOf(event['response']) ?? feed.textOf(event['reason'])
  // SendGrid did not try: what stands on its own lists is not the receiving provider's word.
  const listed = event['event'] === 'dropped'
  const detail = listed ? `SendGrid did not send: ${said ?? 'no reason'}` : said
  return feed.report({
    kind,
    evidence: feed.evidenceOf([feed.textOf(event['posthorn-token'])], [queued, messageId]),
    fingerprint: fingerprintOf('sendgrid', id),
    reporter: 'sendgrid',
    recipient: feed.textOf(event['email']),
    occurredAt: feed.timeOf(event['timestamp']),
    detail: kind === 'complaint' ? 'The recipient complained' : detail,
    ...(kind === 'complaint' ? {} : { reply: feed.reply(actionOf[kind], detail, { enhancedCode: listed ? undefined : feed.textOf(event['status']) }) }), // prettier-ignore
  })
}

const actionOf = { delivered: 'delivered', bounce: 'failed', delay: 'delayed' } as const

function kindOf(event: unknown): ProviderReport['kind'] | undefined {
  switch (event) {
    case 'delivered':
      return 'delivered'
    case 'bounce':
    case 'dropped':
      return 'bounce'
    case 'deferred':
      return 'delay'
    case 'spamreport':
      return 'complaint'
    default:
      return undefined
  }
}
