// Mailgun's webhooks: HMAC-SHA256 of timestamp and token under the account's webhook signing key. The signature does not cover the
// event, so a token that comes again with another body is refused: whoever saw one request could else write others.
import { createHmac } from 'node:crypto'
import { limits } from '../config.ts'
import { fingerprintOf, type ProviderReport } from '../domain/provider-report.ts'
import * as feed from './feed-request.ts'
import type { FeedProvider, Json } from './feed-request.ts'

export const mailgun: FeedProvider = {
  read: ({ body }, { secret }, now) => {
    const root = feed.objectOf(feed.parseJson(body))
    const signature = feed.objectOf(root?.['signature'])
    const event = feed.objectOf(root?.['event-data'])
    const token = feed.textOf(signature?.['token'])
    const timestamp = feed.textOf(signature?.['timestamp']) ?? String(feed.numberOf(signature?.['timestamp']) ?? '')
    const given = feed.textOf(signature?.['signature'])
    if (event === undefined || token === undefined || given === undefined) return { refused: 'malformed' }
    const wanted = createHmac('sha256', secret).update(timestamp + token).digest('hex') // prettier-ignore
    if (!feed.isSame(given, wanted)) return { refused: 'signature' }
    if (!feed.isFresh(timestamp, now, limits.feedAgeMsMax)) return { refused: 'stale' }
    const report = reportOf(event)
    return { reports: report === undefined ? [] : [report], once: token }
  },
}

function reportOf(event: Json): ProviderReport | undefined {
  const id = feed.textOf(event['id'])
  if (id === undefined) return undefined
  const token = feed.textOf(feed.objectOf(event['user-variables'])?.['posthorn-token'])
  const sender = feed.textOf(feed.objectOf(event['envelope'])?.['sender'])
  const messageId = feed.textOf(feed.objectOf(feed.objectOf(event['message'])?.['headers'])?.['message-id'])
  const about = {
    evidence: feed.evidenceOf([token, feed.localPartOf(sender)], [messageId]),
    fingerprint: fingerprintOf('mailgun', id),
    reporter: 'mailgun',
    recipient: feed.textOf(event['recipient']),
    occurredAt: feed.timeOf(event['timestamp']),
  }
  switch (event['event']) {
    case 'delivered': {
      const { detail, ...more } = saidIn(event)
      return feed.report({ ...about, kind: 'delivered', detail, reply: feed.reply('delivered', detail, more) })
    }
    case 'failed': {
      const { detail, ...more } = saidIn(event)
      const kind = event['severity'] === 'temporary' ? 'delay' : 'bounce'
      return feed.report({ ...about, kind, detail, reply: feed.reply(kind === 'delay' ? 'delayed' : 'failed', detail, more) }) // prettier-ignore
    }
    case 'complained':
      return feed.report({ ...about, kind: 'complaint', detail: 'The recipient complained' })
    default:
      return undefined
  }
}

function saidIn(event: Json) {
  const status = feed.objectOf(event['delivery-status'])
  const said = feed.textOf(status?.['message']) ?? feed.textOf(status?.['description'])
  const reason = feed.textOf(event['reason'])
  // Mailgun did not try: an address on its own list is not the receiving provider's word.
  const listed = reason?.startsWith('suppress-') === true
  return {
    detail: listed ? `Mailgun did not send: ${reason}` : said,
    code: listed ? undefined : feed.numberOf(status?.['code']),
    enhancedCode: listed ? undefined : feed.textOf(status?.['enhanced-code']),
    remoteMta: feed.textOf(status?.['mx-host']),
  }
}
