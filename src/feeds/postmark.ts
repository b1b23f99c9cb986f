// Postmark's Bounce, Delivery and SpamComplaint webhooks. Postmark does not sign: it authenticates with the HTTP Basic credentials that
// stand in the URL, which is therefore a secret.
import { fingerprintOf, type ProviderReport } from '../domain/provider-report.ts'
import * as feed from './feed-request.ts'
import type { FeedProvider, Json } from './feed-request.ts'

/** The user in the URL; the password is the feed's secret. */
export const postmarkUser = 'posthorn'

export const postmark: FeedProvider = {
  read: ({ header, body }, { secret }) => {
    const wanted = `Basic ${Buffer.from(`${postmarkUser}:${secret}`).toString('base64')}`
    if (!feed.isSame(header('authorization') ?? '', wanted)) return { refused: 'signature' }
    const event = feed.objectOf(feed.parseJson(body))
    if (event === undefined) return { refused: 'malformed' }
    const report = reportOf(event)
    return { reports: report === undefined ? [] : [report] }
  },
}

function reportOf(event: Json): ProviderReport | undefined {
  const messageId = feed.textOf(event['MessageID'])
  if (messageId === undefined) return undefined
  const token = feed.textOf(feed.objectOf(event['Metadata'])?.['posthorn-token'])
  const evidence = feed.evidenceOf([token], [messageId])
  const reporter = 'postmark'
  switch (event['RecordType']) {
    case 'Delivery': {
      const recipient = feed.textOf(event['Recipient'])
      const detail = feed.textOf(event['Details'])
      const occurredAt = feed.timeOf(event['DeliveredAt'])
      const fingerprint = fingerprintOf('postmark', 'delivery', messageId, recipient, occurredAt?.toISOString())
      return feed.report({ kind: 'delivered', evidence, fingerprint, reporter, recipient, detail, occurredAt, reply: feed.reply('delivered', detail) }) // prettier-ignore
    }
    case 'SpamComplaint':
      return complaintOf(event, messageId, evidence)
    case 'Bounce':
      return event['Type'] === 'SpamComplaint' ? complaintOf(event, messageId, evidence) : bounceOf(event, messageId, evidence) // prettier-ignore
    default:
      return undefined
  }
}

function complaintOf(event: Json, messageId: string, evidence: ProviderReport['evidence']): ProviderReport {
  const recipient = feed.textOf(event['Email'])
  const fingerprint = fingerprintOf('postmark', 'complaint', messageId, recipient)
  const detail = feed.textOf(event['Description']) ?? 'The recipient complained'
  return feed.report({ kind: 'complaint', evidence, fingerprint, reporter: 'postmark', recipient, detail, occurredAt: feed.timeOf(event['BouncedAt']) }) // prettier-ignore
}

/** What Postmark's type says where the remote reply says nothing; undefined: no word about delivery. */
const statusOfType: Readonly<Record<string, string | undefined>> = {
  HardBounce: '5.1.1',
  BadEmailAddress: '5.1.3',
  AddressChange: '5.1.6',
  Blocked: '5.7.1',
  SpamNotification: '5.7.1',
  DMARCPolicy: '5.7.1',
  VirusNotification: '5.6.0',
  Transient: '4.0.0',
  SoftBounce: '4.0.0',
  DnsError: '4.4.3',
  Unknown: '5.0.0',
}

function bounceOf(event: Json, messageId: string, evidence: ProviderReport['evidence']): ProviderReport | undefined {
  const type = feed.textOf(event['Type']) ?? ''
  const status = Object.hasOwn(statusOfType, type) ? statusOfType[type] : undefined
  if (status === undefined) return undefined
  const recipient = feed.textOf(event['Email'])
  const said = feed.textOf(event['Details'])?.replace(/^smtp;\s{0,4}/i, '')
  const id = feed.numberOf(event['ID'])
  // A reply with a code of its own says more than the type.
  const coded = said !== undefined && /(?:^|[^\d.])[245]\.\d{1,3}\.\d{1,3}(?!\.?\d)/.test(said)
  return feed.report({
    kind: 'bounce',
    evidence,
    fingerprint: fingerprintOf('postmark', 'bounce', messageId, recipient, id === undefined ? undefined : String(id)), // prettier-ignore
    reporter: 'postmark',
    recipient,
    detail: said ?? feed.textOf(event['Description']),
    occurredAt: feed.timeOf(event['BouncedAt']),
    reply: feed.reply('failed', said, coded ? {} : { enhancedCode: status }),
  })
}
