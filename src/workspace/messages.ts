// Messages as people look at them: pages of a workspace, and one with everything that happened. Operators name one by its id alone.
import { limits } from '../config.ts'
import type { DeliveryStatus, MessageId, MessageStatus, WorkspaceId } from '../domain/message.ts'
import { ranksOf } from '../domain/delivery-status.ts'
import { parseAddress } from '../mail/address.ts'
import type { Db } from '../store/database.ts'
import { idFloor, pageMessages, type MessageListRow } from '../store/views/message-list.ts'
import { readSentAgain, type SentAgain } from '../store/sent-again.ts'
import { readTimeline, workspaceOfMessage, type Timeline } from '../store/views/message-timeline.ts'
import type { By } from './by.ts'
import type { Page } from './management.ts'
import { Mistake, parseId } from './mistake.ts'

export type { Timeline } from '../store/views/message-timeline.ts'

/** The latest `most` of those that are wished for, newest first: on to the end of the list, where one page finds too few. */
export async function listMessagesOf(
  db: Db,
  workspace: WorkspaceId,
  most: number,
  wish: Omit<MessageWish, 'before' | 'most'> = {},
): Promise<MessageSummary[]> {
  if (most > limits.messagesListedMax)
    throw new Mistake(`At most ${limits.messagesListedMax} messages are listed at once.`)
  const found: MessageSummary[] = []
  for (let before: string | undefined; ;) {
    const rest = { most: most - found.length, ...(before !== undefined && { before }) }
    const page = await searchMessages(db, workspace, { ...wish, ...rest })
    found.push(...page.items.map(summaryOf))
    if (page.next === undefined || found.length >= most) return found
    before = page.next
  }
}

const summaryOf = ({ id, status, sender, recipient, subject, deliveryStatus, createdAt }: MessageListRow) => ({
  id,
  status,
  sender,
  recipient,
  subject,
  deliveryStatus,
  createdAt,
})

/** A message in the operator's list. */
export type MessageSummary = ReturnType<typeof summaryOf>

export async function showMessage(db: Db, text: string): Promise<Timeline> {
  const id = parseId(text, 'message') as MessageId
  const workspace = await workspaceOfMessage(db, id)
  const timeline = workspace === undefined ? undefined : await readTimeline(db, workspace, id, { webhooks: true })
  if (timeline === undefined) throw new Mistake(`There is no message ${id}.`)
  return timeline
}

export interface MessageWish {
  readonly status?: MessageStatus
  readonly deliveryStatus?: DeliveryStatus
  readonly mailboxId?: string
  /** One whole address. */
  readonly recipient?: string
  /** Somewhere in subject or recipient. */
  readonly text?: string
  readonly from?: Date
  readonly to?: Date
  /** The id at which the page before ended. */
  readonly before?: string
  readonly most: number
}

/** Newest first. What has no index is looked for among the next `messagesScannedMax` messages; `next` goes on behind them. */
export async function searchMessages(
  db: Db,
  workspace: WorkspaceId,
  { recipient, deliveryStatus, from, to, before, most, ...filter }: MessageWish,
): Promise<Page<MessageListRow>> {
  if (from !== undefined && to !== undefined && from >= to)
    throw new Mistake('"from" must be before "to".', { field: 'from' })
  const address = recipient === undefined ? undefined : parseAddress(recipient.trim())
  if (recipient !== undefined && address === undefined)
    throw new Mistake('"recipient" must be one whole e-mail address; "text" finds parts of one.', {
      field: 'recipient',
    })
  const until = to === undefined ? undefined : idFloor(to)
  const upper = [before, until].filter((each) => each !== undefined).sort()[0]
  const { messages, next } = await pageMessages(
    db,
    workspace,
    {
      ...filter,
      ...(address !== undefined && { recipientKey: address.key }),
      ...(deliveryStatus !== undefined && { ranks: ranksOf(deliveryStatus) }),
    },
    { most, ...(upper !== undefined && { before: upper }), ...(from !== undefined && { since: idFloor(from) }) },
  )
  return { items: messages, ...(next !== undefined && { next }) }
}

/** Everything about one message of the workspace, and what was sent in its place; its webhooks for those who may read their log. */
export async function timelineOf(
  db: Db,
  { workspaceId, scopes }: Pick<By, 'workspaceId' | 'scopes'>,
  id: MessageId,
): Promise<Timeline & Omit<SentAgain, 'unknownSince'> & { readonly sendAgainAt?: Date }> {
  const [timeline, { unknownSince, ...again }] = await Promise.all([
    readTimeline(db, workspaceId, id, { webhooks: scopes.has('webhooks.read') }),
    readSentAgain(db, workspaceId, id),
  ])
  if (timeline === undefined)
    throw new Mistake('No message with this id exists in your workspace.', { code: 'not_found' })
  const isWaiting = unknownSince !== undefined && again.sentAgainAs === undefined
  return {
    ...timeline,
    ...again,
    ...(isWaiting && { sendAgainAt: new Date(unknownSince.getTime() + limits.sendAgainGraceSeconds * 1000) }),
  }
}
