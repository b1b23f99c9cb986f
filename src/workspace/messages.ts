// Messages as people look at them: pages of a workspace, and one with everything that happened. Operators name one by its id alone.
import { limits } from '../config.ts'
import type { DeliveryStatus, MessageId, MessageStatus, WorkspaceId } from '../domain/message.ts'
import type { Page } from '../domain/page.ts'
import { ranksOf } from '../domain/delivery-status.ts'
import { copiedMessageId } from '../mail/queue-id.ts'
import type { Db } from '../store/database.ts'
import { idFloor, timeOfId } from '../store/message-id.ts'
import { pageMessages, type MessageListRow } from '../store/views/message-list.ts'
import { readSentAgain, type SentAgain } from '../store/sent-again.ts'
import { readTimeline, workspaceOfMessage, type Timeline } from '../store/views/message-timeline.ts'
import type { By } from './by.ts'
import { checkTimes, Mistake, noSuchMessage, parseId, parseRecipient } from './mistake.ts'
import { mayBeSentAgain } from './send-again.ts'

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

export async function showMessage(db: Db, text: string): Promise<MessageStory> {
  const { id, workspace } = await findMessage(db, text)
  const story = await readStory(db, workspace, id, true)
  if (story === undefined) throw new Mistake(`There is no message ${id}.`)
  return story
}

/** Operators name one by its id alone. */
export async function findMessage(
  db: Db,
  text: string,
): Promise<{ readonly id: MessageId; readonly workspace: WorkspaceId }> {
  const id = parseId(text, 'message') as MessageId
  const workspace = await workspaceOfMessage(db, id)
  if (workspace === undefined) throw new Mistake(`There is no message ${id}.`)
  return { id, workspace }
}

export interface MessageWish {
  readonly status?: MessageStatus
  readonly deliveryStatus?: DeliveryStatus
  readonly mailboxId?: string
  /** One whole address. */
  readonly recipient?: string
  /** Somewhere in subject or recipient, or their id, or a value of the metadata. */
  readonly text?: string
  /** The id that the receiving server or relay gave. */
  readonly providerMessageId?: string
  readonly metadataName?: string
  readonly metadataValue?: string
  readonly from?: Date
  readonly to?: Date
  /** The id at which the page before ended. */
  readonly before?: string
  readonly most: number
}

/** Beside `next`: what was accepted later has been looked at. */
export type FoundMessages = Page<MessageListRow> & { readonly lookedBackTo?: Date }

/** Newest first. What has no index is looked for among the next `messagesScannedMax` messages; `next` goes on behind them. */
export async function searchMessages(
  db: Db,
  workspace: WorkspaceId,
  { recipient, deliveryStatus, metadataName, metadataValue, from, to, before, most, ...filter }: MessageWish,
): Promise<FoundMessages> {
  checkTimes({ from, to })
  const address = recipient === undefined ? undefined : parseRecipient(recipient)
  if (metadataName !== undefined && metadataValue === undefined)
    throw new Mistake('"metadataName" goes with "metadataValue": messages are found by a value.', {
      field: 'metadataValue',
    })
  const copiedId = filter.text === undefined ? undefined : copiedMessageId(filter.text)
  const until = to === undefined ? undefined : idFloor(to)
  const upper = [before, until].filter((each) => each !== undefined).sort()[0]
  const { messages, next } = await pageMessages(
    db,
    workspace,
    {
      ...filter,
      ...(address !== undefined && { recipientKey: address.key }),
      ...(deliveryStatus !== undefined && { ranks: ranksOf(deliveryStatus) }),
      ...(copiedId !== undefined && { copiedId }),
      ...(metadataValue !== undefined && {
        metadata: { value: metadataValue, ...(metadataName !== undefined && { name: metadataName }) },
      }),
    },
    { most, ...(upper !== undefined && { before: upper }), ...(from !== undefined && { since: idFloor(from) }) },
  )
  return { items: messages, ...(next !== undefined && { next, lookedBackTo: timeOfId(next) }) }
}

/** With what was sent in its place, or it in whose, and from when on that can be done. */
export type MessageStory = Timeline & SentAgain & { readonly sendAgainAt?: Date }

/** Everything about one message of the workspace; its webhooks for those who may read their log. */
export async function timelineOf(
  db: Db,
  { workspaceId, scopes }: Pick<By, 'workspaceId' | 'scopes'>,
  id: MessageId,
): Promise<MessageStory> {
  const story = await readStory(db, workspaceId, id, scopes.has('webhooks.read'))
  if (story === undefined) throw noSuchMessage()
  return story
}

async function readStory(
  db: Db,
  workspace: WorkspaceId,
  id: MessageId,
  webhooks: boolean,
): Promise<MessageStory | undefined> {
  const [timeline, { finishedAt, ...again }] = await Promise.all([
    readTimeline(db, workspace, id, { webhooks }),
    readSentAgain(db, workspace, id),
  ])
  if (timeline === undefined) return undefined
  const isOpen = again.sentAgainAs === undefined && timeline.contentExpiredAt === undefined && mayBeSentAgain(timeline)
  const graceSeconds = timeline.status === 'delivery_unknown' ? limits.sendAgainGraceSeconds : 0
  return {
    ...timeline,
    ...again,
    ...(isOpen && finishedAt && { sendAgainAt: new Date(finishedAt.getTime() + graceSeconds * 1000) }),
  }
}
