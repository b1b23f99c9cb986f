// The door for relay providers' own event feeds: a request is authenticated with what its feed was set up with, becomes reports, and
// is handed on to be recorded. A feed speaks for one route alone, and a bad or replayed request has no effect. Decisions C.
import { createHash } from 'node:crypto'
import type { Log } from '../base/log.ts'
import { sealedAs, type Vault } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { ProviderReport } from '../domain/provider-report.ts'
import type { Db } from '../store/database.ts'
import { findFeed, rememberFeedToken, type FeedProviderName, type FeedRow } from '../store/feeds.ts'
import type { AwsFetch } from './aws-fetch.ts'
import type { FeedMistake, FeedProvider, FeedRefusal, FeedRequest } from './feed-request.ts'
import { generic } from './generic.ts'
import { mailgun } from './mailgun.ts'
import { postmark } from './postmark.ts'
import { sendgrid } from './sendgrid.ts'
import { ses } from './ses.ts'

export { makeAwsFetch } from './aws-fetch.ts'
export { addFeed, listFeeds, removeFeed } from './registry.ts'
export type { Feed } from './registry.ts'

export interface FeedTools {
  readonly db: Db
  readonly vault: Vault
  readonly aws: AwsFetch
  readonly log: Log
  readonly now: () => Date
  /** Records reports for messages of one route; resolves when that is committed, with one word for each. */
  readonly record: (
    from: { readonly name: string; readonly route: 'installation' | WorkspaceId },
    reports: readonly ProviderReport[],
  ) => Promise<readonly string[]>
}

export type FeedAnswer =
  | { readonly received: number }
  /** `replayed`: what was signed for one body came with another. */
  | { readonly refused: FeedRefusal | 'replayed'; readonly mistake?: FeedMistake }

/** What takes the requests of one feed; undefined where there is no such feed, before anything of a body is read. */
export type Feeds = (feedId: string) => Promise<((request: FeedRequest) => Promise<FeedAnswer>) | undefined>

const providers: Readonly<Record<FeedProviderName, FeedProvider>> = { ses, postmark, mailgun, sendgrid, generic }

/** Rejects when it is not known whether what was reported is recorded: the provider is to send it again. */
export function makeFeeds(tools: FeedTools): Feeds {
  return async (feedId) => {
    const feed = await findFeed(tools.db, feedId)
    return (
      feed &&
      (async (request) => {
        const answer = await receive(tools, feed, request)
        const outcome = 'refused' in answer ? answer.refused : 'received'
        const reports = 'received' in answer ? answer.received : 0
        tools.log.reported({ feedId, provider: feed.provider, outcome, reports, bytes: request.body.length })
        return answer
      })
    )
  }
}

async function receive(tools: FeedTools, feed: FeedRow, request: FeedRequest): Promise<FeedAnswer> {
  const provider = providers[feed.provider]
  const secret = feed.secret_sealed === null ? '' : tools.vault.open(feed.secret_sealed, sealedAs.feed(feed.id))
  const keys = { secret, topic: feed.topic ?? '' }
  const url = provider.certificateUrl?.(request, keys)
  const certificate = url === undefined ? undefined : await tools.aws.certificate(url)
  const reading = provider.read(request, keys, tools.now(), certificate)
  if ('refused' in reading) return reading
  if ('confirm' in reading) {
    await tools.aws.confirm(reading.confirm)
    return { received: 0 }
  }
  if (reading.once !== undefined && !(await isFirstOrSame(tools.db, feed.id, reading.once, request.body)))
    return { refused: 'replayed' }
  if (reading.reports.length > 0)
    await tools.record({ name: feed.provider, route: feed.workspace_id ?? 'installation' }, reading.reports)
  return { received: reading.reports.length }
}

function isFirstOrSame(db: Db, feedId: string, once: string, body: Buffer): Promise<boolean> {
  const digest = (what: string | Buffer): Buffer => createHash('sha256').update(what).digest()
  return rememberFeedToken(db, feedId, digest(once), digest(body), limits.feedRememberedSeconds)
}
