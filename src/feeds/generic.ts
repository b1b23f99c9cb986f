// The feed for everything else (docs/feeds.md): signed like our own webhooks (specification 6.2), with the events in our own words.
import { createHmac } from 'node:crypto'
import { limits } from '../config.ts'
import { fingerprintOf, type ProviderReport } from '../domain/provider-report.ts'
import * as feed from './feed-request.ts'
import type { FeedProvider, Json } from './feed-request.ts'

export const generic: FeedProvider = {
  read: ({ header, body }, { secret }, now) => {
    const id = header('webhook-id')
    const timestamp = header('webhook-timestamp') ?? ''
    const wanted = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')
    if (!feed.isSame(header('webhook-signature') ?? '', `v1=${wanted}`)) return { refused: 'signature' }
    if (!feed.isFresh(timestamp, now, limits.feedGenericAgeMsMax))
      return {
        refused: 'stale',
        mistake: {
          field: 'Webhook-Timestamp',
          words: '"Webhook-Timestamp" must be seconds since 1970, and not more than 5 minutes off.',
        },
      }
    if (id === undefined || id.length > 200)
      return malformed('Webhook-Id', 'must be given once, with 1 to 200 characters')
    const events = feed.objectOf(feed.parseJson(body))?.['events']
    if (!Array.isArray(events) || events.length > limits.feedEventsMax)
      return malformed('events', `must be a list of at most ${limits.feedEventsMax} events, in a JSON object`)
    const reports: ProviderReport[] = []
    for (const [index, given] of events.entries()) {
      const event = feed.objectOf(given) ?? {}
      const report = reportOf(event)
      if (report === undefined) return malformed(...whatLacks(event, `events.${index}`))
      reports.push(report)
    }
    return { reports, once: id }
  },
}

const malformed = (field: string, sentence: string) =>
  ({ refused: 'malformed', mistake: { field, words: `"${field}" ${sentence}.` } }) as const

/** Of an event without a meaning: which member, and what it must be. */
function whatLacks(event: Json, path: string): [field: string, sentence: string] {
  if (feed.textOf(event['id']) === undefined) return [`${path}.id`, 'must be a text that this event alone has']
  if (!kinds.some((each) => each === event['type'])) return [`${path}.type`, `must be one of ${kinds.join(', ')}`]
  return [path, 'must name its message by "providerMessageId" or "token"']
}

const kinds = ['delivered', 'bounce', 'delay', 'complaint'] as const
const actionOf = { delivered: 'delivered', bounce: 'failed', delay: 'delayed' } as const

function reportOf(event: Json): ProviderReport | undefined {
  const id = feed.textOf(event['id'])
  const kind = kinds.find((each) => each === event['type'])
  const evidence = feed.evidenceOf([feed.textOf(event['token'])], [feed.textOf(event['providerMessageId'])])
  if (id === undefined || kind === undefined || evidence.length === 0) return undefined
  const text = feed.textOf(event['text'])
  const more = { code: feed.numberOf(event['code']), enhancedCode: feed.textOf(event['enhancedCode']) }
  return feed.report({
    kind,
    evidence,
    fingerprint: fingerprintOf('generic', id),
    reporter: feed.textOf(event['reporter']) ?? 'generic',
    recipient: feed.textOf(event['recipient']),
    occurredAt: feed.timeOf(event['occurredAt']),
    detail: text,
    ...(kind === 'complaint' ? {} : { reply: feed.reply(actionOf[kind], text, more) }),
  })
}
