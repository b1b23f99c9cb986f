// Amazon SES through Amazon SNS (HTTP/HTTPS notification format, SignatureVersion 1 and 2). A request counts when it names the
// configured topic and its signature fits the certificate that SNS publishes at its own host in the topic's region.
import { createVerify, X509Certificate } from 'node:crypto'
import { limits } from '../config.ts'
import { complaintTypes } from '../mail/arf-rfc5965.ts'
import { readSesNotification, tokensIn, type SesNotification } from '../mail/ses-notification.ts'
import { fingerprintOf, type ProviderReport } from '../domain/provider-report.ts'
import * as feed from './feed-request.ts'
import type { FeedProvider, FeedReading, Json } from './feed-request.ts'

export const ses: FeedProvider = {
  certificateUrl: ({ body }, { topic }) => {
    const envelope = feed.objectOf(feed.parseJson(body))
    const url = feed.textOf(envelope?.['SigningCertURL'])
    return envelope?.['TopicArn'] === topic && url !== undefined && isCertificateUrl(url, topic) ? url : undefined
  },
  read: ({ body }, { topic }, now, certificate) => {
    const envelope = feed.objectOf(feed.parseJson(body))
    if (envelope === undefined) return { refused: 'malformed' }
    if (envelope['TopicArn'] !== topic) return { refused: 'topic' }
    if (certificate === undefined || !isGenuine(envelope, certificate, now)) return { refused: 'signature' }
    const sent = feed.timeOf(envelope['Timestamp'])
    if (sent === undefined || Math.abs(now.getTime() - sent.getTime()) > limits.feedAgeMsMax)
      return { refused: 'stale' }
    return meaningOf(envelope, topic)
  },
}

function meaningOf(envelope: Json, topic: string): FeedReading {
  const once = feed.textOf(envelope['MessageId'])
  const about = once === undefined ? {} : { once }
  switch (envelope['Type']) {
    case 'SubscriptionConfirmation': {
      const url = feed.textOf(envelope['SubscribeURL'])
      return url !== undefined && isConfirmationUrl(url, topic) ? { confirm: url } : { refused: 'malformed' }
    }
    case 'Notification': {
      const text = envelope['Message']
      const notification = typeof text === 'string' ? readSesNotification(feed.parseJson(Buffer.from(text))) : undefined
      return { reports: notification === undefined ? [] : reportsOf(notification), ...about }
    }
    default:
      return { reports: [], ...about }
  }
}

/** `arn:aws:sns:us-east-1:123456789012:name` */
export function topicHost(topic: string): string | undefined {
  const match = /^arn:aws(-cn|-us-gov)?:sns:([a-z0-9-]{2,30}):\d{12}:[A-Za-z0-9_-]{1,256}$/.exec(topic)
  if (match === null) return undefined
  return `sns.${match[2]}.amazonaws.com${match[1] === '-cn' ? '.cn' : ''}`
}

function isAtTopicHost(text: string, topic: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const bare = url !== undefined && url.username === '' && url.password === '' && url.port === '' && url.hash === ''
  return bare && url.protocol === 'https:' && url.hostname === topicHost(topic) ? url : undefined
}

function isCertificateUrl(text: string, topic: string): boolean {
  const url = isAtTopicHost(text, topic)
  return (
    url !== undefined && url.search === '' && /^\/SimpleNotificationService-[0-9a-f]{16,64}\.pem$/.test(url.pathname)
  )
}

function isConfirmationUrl(text: string, topic: string): boolean {
  const url = isAtTopicHost(text, topic)
  const asks = url?.searchParams.get('Action') === 'ConfirmSubscription' && url.searchParams.get('TopicArn') === topic
  return url !== undefined && url.pathname === '/' && asks
}

const signedMembers: Readonly<Record<string, readonly string[]>> = {
  Notification: ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'],
  SubscriptionConfirmation: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'],
  UnsubscribeConfirmation: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'],
}
const hashes: Readonly<Record<string, string>> = { '1': 'RSA-SHA1', '2': 'RSA-SHA256' }

function isGenuine(envelope: Json, pem: string, now: Date): boolean {
  const type = String(envelope['Type'])
  const version = String(envelope['SignatureVersion'])
  const members = Object.hasOwn(signedMembers, type) ? signedMembers[type] : undefined
  const algorithm = Object.hasOwn(hashes, version) ? hashes[version] : undefined
  const signature = envelope['Signature']
  if (members === undefined || algorithm === undefined || typeof signature !== 'string') return false
  const verifier = createVerify(algorithm)
  for (const name of members) {
    const value = envelope[name]
    if (typeof value === 'string') verifier.update(`${name}\n${value}\n`)
    else if (name !== 'Subject' || (value !== undefined && value !== null)) return false
  }
  try {
    const certificate = new X509Certificate(pem)
    const valid = new Date(certificate.validFrom) <= now && now <= new Date(certificate.validTo)
    return valid && verifier.verify(certificate.publicKey, signature, 'base64')
  } catch {
    // No certificate, or a key of another kind: then nothing is proved.
    return false
  }
}

function reportsOf(notification: SesNotification): ProviderReport[] {
  const { kind, messageId, feedbackId, feedbackType, occurredAt } = notification
  if (kind === 'complaint' && !complaintTypes.includes(feedbackType ?? 'abuse')) return []
  const evidence = feed.evidenceOf(tokensIn(notification), [messageId])
  return notification.recipients.map(({ recipient, status, diagnostic }) =>
    feed.report({
      kind,
      evidence,
      recipient,
      reporter: 'ses',
      occurredAt,
      fingerprint: fingerprintOf('ses', messageId, kind, feedbackId ?? occurredAt?.toISOString(), recipient),
      ...(kind === 'complaint'
        ? { detail: `The recipient complained${feedbackType === undefined ? '' : `: ${feedbackType}`}` }
        : { detail: diagnostic, reply: feed.reply(actionOf[kind], diagnostic, { enhancedCode: status }) }),
    }),
  )
}

const actionOf = { delivered: 'delivered', bounce: 'failed', delay: 'delayed' } as const
