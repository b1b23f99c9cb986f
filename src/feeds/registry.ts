// Feeds as operators make, list and remove them.
import { randomUUIDv7 } from 'node:crypto'
import { makePassword, sealedAs, type Vault } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import {
  deleteFeed,
  feedProviders,
  insertFeed,
  listFeedRows,
  type FeedProviderName,
  type FeedRow,
} from '../store/feeds.ts'
import { postmarkUser } from './postmark.ts'
import { sendgridKey } from './sendgrid.ts'
import { topicHost } from './ses.ts'

export interface Feed {
  readonly id: string
  readonly provider: FeedProviderName
  /** Null: it speaks for the installation's route. */
  readonly workspace: WorkspaceId | null
  readonly topic?: string
  /** Where the provider posts to; with the credentials right after the feed was made, where they belong in the URL. */
  readonly url: string
  readonly createdAt: Date
}

export interface FeedWish {
  readonly provider: string
  readonly workspace?: WorkspaceId
  /** SES. */
  readonly topic?: string | undefined
  /** Mailgun: the webhook signing key; SendGrid: the public key. */
  readonly key?: string | undefined
}

interface Tools {
  readonly db: Db
  readonly vault: Vault
  readonly publicUrl: string
}

/** `secret` where we made one: nobody can see it again. A string says why it cannot be. */
export async function addFeed(tools: Tools, wish: FeedWish): Promise<(Feed & { readonly secret?: string }) | string> {
  const provider = feedProviders.find((each) => each === wish.provider)
  if (provider === undefined) return `There is no provider "${wish.provider}"; there are ${feedProviders.join(', ')}.`
  const given = keyFor(provider, wish)
  if (typeof given === 'string') return given
  const id = randomUUIDv7()
  const row = await insertFeed(tools.db, {
    id,
    workspace_id: wish.workspace ?? null,
    provider,
    secret_sealed: given.secret === undefined ? null : tools.vault.seal(given.secret, sealedAs.feed(id)),
    topic: given.topic ?? null,
  })
  const made = given.made === true && given.secret !== undefined ? given.secret : undefined
  const feed = present(row, tools.publicUrl)
  if (made === undefined) return feed
  return { ...feed, url: provider === 'postmark' ? withCredentials(feed.url, made) : feed.url, secret: made }
}

export async function listFeeds(tools: Tools): Promise<Feed[]> {
  return (await listFeedRows(tools.db, limits.messagesListedMax)).map((row) => present(row, tools.publicUrl))
}

export async function removeFeed(tools: Tools, id: string): Promise<Feed | undefined> {
  const row = await deleteFeed(tools.db, id)
  return row === undefined ? undefined : present(row, tools.publicUrl)
}

interface FeedSecret {
  readonly secret?: string
  readonly topic?: string
  /** Made here, not brought. */
  readonly made?: true
}

function keyFor(provider: FeedProviderName, { topic, key }: FeedWish): FeedSecret | string {
  if ((topic !== undefined) !== (provider === 'ses'))
    return provider === 'ses' ? 'An SES feed needs --topic, the ARN of the SNS topic.' : 'Only an SES feed has a topic.'
  const brings = provider === 'mailgun' || provider === 'sendgrid'
  if ((key !== undefined) !== brings)
    return brings ? `A ${provider} feed needs --key-file: ${keyHint[provider]}.` : `A ${provider} feed takes no key.`
  switch (provider) {
    case 'ses':
      if (topic === undefined || topicHost(topic) === undefined) return `"${topic}" is not the ARN of an SNS topic.`
      return { topic }
    case 'mailgun':
      return /^\S{16,256}$/.test(key ?? '') ? { secret: key ?? '' } : 'This is no webhook signing key of Mailgun.'
    case 'sendgrid':
      return sendgridKey(key ?? '') === undefined ? 'This is no public key of SendGrid.' : { secret: key ?? '' }
    case 'postmark':
    case 'generic':
      return { secret: makePassword(32), made: true }
  }
}

const keyHint = {
  mailgun: 'a file with the webhook signing key',
  sendgrid: 'a file with the public key of the signed event webhook',
} as const

function present({ id, provider, workspace_id, topic, created_at }: FeedRow, publicUrl: string): Feed {
  const url = `${publicUrl}/feeds/${id}`
  return { id, provider, workspace: workspace_id, ...(topic === null ? {} : { topic }), url, createdAt: created_at }
}

function withCredentials(text: string, secret: string): string {
  const url = new URL(text)
  url.username = postmarkUser
  url.password = secret
  return url.href
}
