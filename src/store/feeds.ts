// Provider feeds and what they have sent: one function per statement. A feed of a workspace names it; the installation's feeds are the
// operator's.
import type { WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'

export const feedProviders = ['ses', 'postmark', 'mailgun', 'sendgrid', 'generic'] as const
export type FeedProviderName = (typeof feedProviders)[number]

export interface FeedRow {
  readonly id: string
  /** Null: the installation's route. */
  readonly workspace_id: WorkspaceId | null
  readonly provider: FeedProviderName
  readonly secret_sealed: Buffer | null
  readonly topic: string | null
  readonly created_at: Date
}

const columns = 'id, workspace_id, provider, secret_sealed, topic, created_at'
const insert = sql(
  'insert-feed',
  `insert into feeds (id, workspace_id, provider, secret_sealed, topic) values ($1, $2, $3, $4, $5) returning ${columns}`,
)
const byId = sql('feed-by-id', `select ${columns} from feeds where id = $1`)
const all = sql('list-feeds', `select ${columns} from feeds order by created_at, id limit $1`)
const remove = sql('delete-feed', `delete from feeds where id = $1 returning ${columns}`)
// The conflicting row is written as it is, so that it is returned; old ones of the feed go with it, a few at a time.
const seen = sql(
  'remember-feed-token',
  `with old as (
     select o.ctid as row from feed_seen o where o.feed_id = $1 and o.token_hash <> $2 and o.seen_at < app_now() - make_interval(secs => $4)
      order by o.seen_at limit 20 for update skip locked),
   gone as (delete from feed_seen s using old where s.ctid = old.row)
   insert into feed_seen as s (feed_id, token_hash, body_hash) values ($1, $2, $3)
   on conflict (feed_id, token_hash) do update set body_hash = s.body_hash
   returning s.body_hash = $3 as same`,
)

export async function insertFeed(db: Db, feed: Omit<FeedRow, 'created_at'>): Promise<FeedRow> {
  const values = [feed.id, feed.workspace_id, feed.provider, feed.secret_sealed, feed.topic]
  return (await db.rows<FeedRow>(insert, values))[0] as FeedRow
}

export async function findFeed(db: Db, id: string): Promise<FeedRow | undefined> {
  return (await db.rows<FeedRow>(byId, [id]))[0]
}

export const listFeedRows = (db: Db, most: number): Promise<FeedRow[]> => db.rows<FeedRow>(all, [most])

export async function deleteFeed(db: Db, id: string): Promise<FeedRow | undefined> {
  return (await db.rows<FeedRow>(remove, [id]))[0]
}

/** False where this token came with another body before. */
export async function rememberFeedToken(
  db: Db,
  feed: string,
  token: Buffer,
  body: Buffer,
  seconds: number,
): Promise<boolean> {
  return (await db.rows<{ same: boolean }>(seen, [feed, token, body, seconds]))[0]?.same === true
}
