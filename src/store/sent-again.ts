// What sending again needs: the message that failed, or that nobody can know about, its content, and the link between the two (migrations 0008
// and 0052).
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
  readonly delivery_rank: number
  readonly source: MessageSource
  readonly sender: string
  readonly mailbox_id: MailboxId
  readonly recipient: string
  readonly subject: string
  readonly metadata: Readonly<Record<string, string>> | null
  readonly content_expired_at: Date | null
  readonly body_text: string | null
  readonly body_blob: string | null
  readonly form: 'text' | 'mail' | null
  readonly has_content: boolean
  readonly wait_seconds: number | null
}

export interface Replaceable {
  readonly status: MessageStatus
  readonly deliveryStatus: DeliveryStatus
  readonly source: MessageSource
  readonly sender: string
  readonly mailboxId: MailboxId
  readonly recipient: string
  readonly subject: string
  readonly metadata?: Readonly<Record<string, string>>
  readonly hasContent: boolean
  /** Of the time in which an unknown one may still end by itself; not positive: it is over. */
  readonly waitSeconds: number
  /** Undefined where it is gone, as below. */
  readonly bodyText: () => Promise<string | undefined>
  /** The whole mail, as it was kept: of what came over SMTP. */
  readonly mail: () => Promise<Buffer | undefined>
}

const record = sql(
  'replaceable-message',
  `select m.status, m.delivery_rank, m.source, m.sender, m.mailbox_id, m.recipient, m.subject, m.metadata,
          content_expired_since($1, m.finished_at) content_expired_at, c.body_text, c.body_blob, c.form,
          c.message_id is not null has_content,
          ceil($3 - extract(epoch from app_now() - m.finished_at))::integer wait_seconds
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
  return {
    status: row.status,
    deliveryStatus: deliveryStatusOf(row.delivery_rank),
    source: row.source,
    sender: row.sender,
    mailboxId: row.mailbox_id,
    recipient: row.recipient,
    subject: row.subject,
    ...(row.metadata !== null && { metadata: row.metadata }),
    hasContent: row.has_content && row.content_expired_at === null,
    waitSeconds: row.wait_seconds ?? 0,
    bodyText: async () =>
      row.body_text ?? (row.body_blob === null ? undefined : (await readBlob(db, row.body_blob))?.toString('utf8')),
    mail: async () =>
      row.form === 'mail' ? Buffer.from(row.body_text ?? '') : (await readFiles(db, workspace, id))?.[0]?.bytes,
  }
}

export interface SentAgain {
  readonly sentAgainAs?: MessageId
  readonly sentAgainFor?: MessageId
  /** What is known of that one now; left out where its record is gone. */
  readonly sentAgainForStatus?: MessageStatus
}

export async function readSentAgain(
  db: Db,
  workspace: WorkspaceId,
  id: MessageId,
): Promise<SentAgain & { readonly finishedAt?: Date }> {
  const [row = {}] = await db.rows<Readonly<Record<string, unknown>>>(links, [workspace, id])
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null))
}

/** True for the error with which the database refuses to send a message again. */
export function isNotReplaceable(error: unknown): boolean {
  return sqlState(error) === 'PH001'
}
