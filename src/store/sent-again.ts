// What sending again needs: the message that failed, or that nobody can know about, its content, and the link between the two (migrations 0008
// and 0052).
import { shown, type Given } from '../base/given.ts'
import { deliveryStatusOf } from '../domain/delivery-status.ts'
import type {
  DeliveryStatus,
  MailboxId,
  MessageId,
  MessageSource,
  MessageStatus,
  WorkspaceId,
} from '../domain/message.ts'
import { readBlob, readFiles } from './blobs.ts'
import { sql, sqlState, type Db } from './database.ts'

interface Row {
  readonly status: MessageStatus
  readonly deliveryRank: number
  readonly source: MessageSource
  readonly sender: string
  readonly mailboxId: MailboxId
  readonly recipient: string
  readonly subject: string
  readonly metadata: Readonly<Record<string, string>> | null
  readonly text: string | null
  readonly blob: string | null
  readonly form: 'text' | 'mail' | null
  readonly hasContent: boolean
  /** Of the time in which an unknown one may still end by itself; not positive: it is over. */
  readonly waitSeconds: number
}

export interface Replaceable extends Given<Omit<Row, 'deliveryRank' | 'text' | 'blob' | 'form'>> {
  readonly deliveryStatus: DeliveryStatus
  /** Undefined where it is gone, as below. */
  readonly bodyText: () => Promise<string | undefined>
  /** The whole mail, as it was kept: of what came over SMTP. */
  readonly mail: () => Promise<Buffer | undefined>
}

const record = sql(
  'replaceable-message',
  `select m.status, m.delivery_rank "deliveryRank", m.source, m.sender, m.mailbox_id "mailboxId", m.recipient, m.subject, m.metadata,
          c.body_text as text, c.body_blob as blob, c.form,
          c.message_id is not null and content_expired_since($1, m.finished_at) is null "hasContent",
          coalesce(ceil($3 - extract(epoch from app_now() - m.finished_at))::integer, 0) "waitSeconds"
     from messages m left join contents c on c.workspace_id = $1 and c.message_id = $2
    where m.workspace_id = $1 and m.id = $2`,
)
const links = sql(
  'sent-again',
  `select (select again_id from sent_again where workspace_id = $1 and message_id = $2) "sentAgainAs",
          f.message_id "sentAgainFor",
          (select status from messages where workspace_id = $1 and id = f.message_id) "sentAgainForStatus",
          (select finished_at from messages where workspace_id = $1 and id = $2) "finishedAt"
     from (select (select message_id from sent_again where workspace_id = $1 and again_id = $2 limit 1) message_id) f`,
)

export async function readReplaceable(
  db: Db,
  workspace: WorkspaceId,
  id: MessageId,
  graceSeconds: number,
): Promise<Replaceable | undefined> {
  const [row] = await db.rows<Row>(record, [workspace, id, graceSeconds])
  if (row === undefined) return undefined
  const { deliveryRank, text, blob, form, ...known } = row
  return {
    ...shown(known),
    deliveryStatus: deliveryStatusOf(deliveryRank),
    bodyText: async () => text ?? (blob === null ? undefined : (await readBlob(db, blob))?.toString('utf8')),
    mail: async () => (form === 'mail' ? Buffer.from(text ?? '') : (await readFiles(db, workspace, id))?.[0]?.bytes),
  }
}

/** All null where there are none. */
interface LinksRow {
  readonly sentAgainAs: MessageId | null
  readonly sentAgainFor: MessageId | null
  /** What is known of that one now; null where its record is gone. */
  readonly sentAgainForStatus: MessageStatus | null
  readonly finishedAt: Date | null
}
export type SentAgain = Given<Omit<LinksRow, 'finishedAt'>>

export async function readSentAgain(db: Db, workspace: WorkspaceId, id: MessageId): Promise<Given<LinksRow>> {
  return shown((await db.rows<LinksRow>(links, [workspace, id]))[0] as LinksRow)
}

/** True for the error with which the database refuses to send a message again. */
export function isNotReplaceable(error: unknown): boolean {
  return sqlState(error) === 'PH001'
}
