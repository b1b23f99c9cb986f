// Pages of a workspace's messages, newest first, at any depth alike: the cursor is an id, and the walk goes along (workspace_id, id), or
// along (workspace_id, recipient_key, id) where one recipient is asked for. What has no index (state, mailbox, words) is looked for among a
// bounded number of messages and bytes per page; the cursor then says how far it came.
import { shown, type Given } from '../../base/given.ts'
import { deliveryStatusOf } from '../../domain/delivery-status.ts'
import type {
  DeliveryStatus,
  MailboxId,
  MessageId,
  MessageSource,
  MessageStatus,
  WorkspaceId,
} from '../../domain/message.ts'
import { limits } from '../../config.ts'
import { inAnyCase, sql, type Db } from '../database.ts'
import { greatestId, leastId } from '../message-id.ts'
import { cutPage } from '../page.ts'

export type MessageListRow = Given<Omit<Row, 'deliveryRank'>> & { readonly deliveryStatus: DeliveryStatus }

export interface MessageFilter {
  readonly status?: MessageStatus
  /** Ranks of `messages.delivery_rank`. */
  readonly ranks?: readonly number[]
  readonly mailboxId?: string
  /** Compared as suppressions are. */
  readonly recipientKey?: string
  /** Somewhere in the subject or the recipient, or the whole of their id or of a value of the metadata, in any case. */
  readonly text?: string
  /** The id of the receiving server or relay that somebody copied with words around it. */
  readonly copiedId?: string
  /** Exactly the id that the receiving server or relay gave. */
  readonly providerMessageId?: string
  /** Exactly this value in the metadata; without a name: of any. */
  readonly metadata?: { readonly name?: string; readonly value: string }
}

export interface MessagePage {
  readonly messages: readonly MessageListRow[]
  /** Where the next page begins; undefined at the end. */
  readonly next?: string
}

interface Row {
  readonly id: MessageId
  readonly mailboxId: MailboxId
  readonly status: MessageStatus
  readonly deliveryRank: number
  readonly sender: string
  readonly recipient: string
  readonly subject: string
  readonly source: MessageSource
  readonly errorMessage: string | null
  readonly createdAt: Date
  readonly finishedAt: Date | null
}

const columns = `m.id, m.mailbox_id "mailboxId", m.status, m.delivery_rank "deliveryRank", m.sender, m.recipient, m.subject, m.source,
  m.error_message "errorMessage", m.created_at "createdAt", m.finished_at "finishedAt"`

/**
 * A walk that only one index can serve, from the newest on: `m.workspace_id = $1 ... order by m.id` is also served by the index on ids alone, through the
 * mail of all others, and the planner takes that where one workspace has sent nearly all of a month. No bound of the ids alone: with one the index on ids and a sort look cheap again.
 */
const walk = (before: string) =>
  `(m.workspace_id, m.id) < ($1, ${before}) and (m.workspace_id, m.id) >= ($1, $3)
   order by m.workspace_id desc, m.id desc`
const walkOfRecipient = (before: string) =>
  `m.workspace_id = $1 and (m.recipient_key, m.id) < ($17, ${before}) and (m.recipient_key, m.id) >= ($17, $3)
   order by m.recipient_key desc, m.id desc`

const all = sql('page-messages', `select ${columns} from messages m where ${walk('$2')} limit $4`)

/**
 * Walks at most $4 messages, and no further than where $6 bytes of subjects and metadata were read: of metadata that are as large as they may be there
 * would be some hundred megabytes. In steps of 100, so that it can end where enough was read or found; the row without a recipient says where the walk
 * ended. Words are looked for only where all else fits; what is compared is made small by one hand, for there are letters of which we and the database make others.
 * `offset 0`: metadata are unpacked once, not once for each condition.
 */
const walked = (name: string, along: (before: string) => string) =>
  sql(
    name,
    `with recursive walk (id, looked, bytes, found, hits, words, address, value) as (
       select $2::uuid, 0::bigint, 0::bigint, 0, null::uuid[], lower($10::text), ${inAnyCase('$10::text')}, lower($12::text)
       union all
       select step.id, w.looked + step.looked, w.bytes + step.bytes, w.found + coalesce(cardinality(step.hits), 0), step.hits, w.words, w.address, w.value
         from walk w cross join lateral (
           select (array_agg(m.id order by m.id))[1] id, count(*) looked, coalesce(sum(octet_length(m.subject) + octet_length(said.metadata)), 0)::bigint bytes,
                  array_agg(m.id) filter (where m.fits
                    and (w.words is null or position(w.words in lower(m.subject)) > 0 or position(w.address in ${inAnyCase('m.recipient')}) > 0
                         or ${inAnyCase('m.provider_message_id')} = any ($11::text[]) or position(w.value in lower(said.metadata)) > 0)
                    and ($14::text is null or position($14 in said.metadata) > 0 and ($15::text is null or m.metadata ->> $15 = $16))) hits
             from (
               select m.id, m.subject, m.recipient, m.provider_message_id, m.metadata,
                      m.status = coalesce($7, m.status) and m.delivery_rank = any (coalesce($8::smallint[], array[m.delivery_rank]))
                        and m.mailbox_id = coalesce($9::uuid, m.mailbox_id) and ($13::text is null or m.provider_message_id = $13) fits
                 from messages m where ${along('w.id')} limit 100) m
             cross join lateral (
               select case when m.fits and ($10::text is not null or $14::text is not null) then coalesce(m.metadata::text, '') end metadata offset 0) said) step
        where w.looked < $4 and w.bytes < $6 and w.found < $5 and step.looked > 0)
     (select ${columns} from walk w cross join lateral unnest(w.hits) hit
        cross join lateral (select * from messages x where x.workspace_id = $1 and x.id between hit and hit order by x.id limit 1) m order by m.id desc limit $5)
     union all
     (select w.id, null, null, 0, null, null, null, null, null, null, null from walk w where w.looked >= $4 or w.bytes >= $6 limit 1)`,
  )
const searched = walked('search-messages', walk)
const searchedOfRecipient = walked('search-messages-of-recipient', walkOfRecipient)

/** As a value stands in the metadata, which are kept as they were written here: a quote within one has a backslash before it, so nothing else looks so. */
const valueInJson = (value: string): string => `:${JSON.stringify(value)}`

/** `before` and `since` are bounds of ids: of a cursor, or of an instant. */
export async function pageMessages(
  db: Db,
  workspace: WorkspaceId,
  filter: MessageFilter,
  { before = greatestId, since = leastId, most }: { before?: string; since?: string; most: number },
): Promise<MessagePage> {
  const { status, ranks, mailboxId, recipientKey, text, copiedId, providerMessageId, metadata } = filter
  if (Object.values(filter).every((each) => each === undefined)) {
    return pageOf(await db.rows<Row>(all, [workspace, before, since, most + 1]), most)
  }
  const ids = [text, copiedId].flatMap((id) => id?.toLowerCase() ?? [])
  const { messagesScannedMax, messagesScannedBytesMax } = limits
  const bounds = [workspace, before, since, messagesScannedMax, most + 1, messagesScannedBytesMax]
  const inText = text === undefined ? null : valueInJson(text)
  const inMetadata = metadata === undefined ? null : valueInJson(metadata.value)
  const wanted = [
    status ?? null,
    ranks ?? null,
    mailboxId ?? null,
    text ?? null,
    ids,
    inText,
    providerMessageId ?? null,
    inMetadata,
    metadata?.name ?? null,
    metadata?.value ?? null,
  ]
  const rows = await (recipientKey === undefined
    ? db.rows<Row>(searched, [...bounds, ...wanted])
    : db.rows<Row>(searchedOfRecipient, [...bounds, ...wanted, recipientKey]))
  return pageOf(rows, most)
}

function pageOf(rows: readonly Row[], most: number): MessagePage {
  const page = cutPage(rows, most, (row) => row.recipient === null)
  return { messages: page.shown.map(present), ...(page.last !== undefined && { next: page.last.id }) }
}

function present({ deliveryRank, ...row }: Row): MessageListRow {
  return { ...shown(row), deliveryStatus: deliveryStatusOf(deliveryRank) }
}
