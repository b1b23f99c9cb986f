// What a customer reads about one message: specification 2.3 and 2.6. The processing state and the delivery status stand side by
// side and never change each other.
import { deliveryStatusOf } from '../../domain/delivery-status.ts'
import { eventId } from '../../domain/event.ts'
import type {
  DeliveryEventRecord,
  DeliveryEventType,
  MailboxId,
  MessageId,
  MessageStatus,
  WorkspaceId,
} from '../../domain/message.ts'
import type { MessageRecord } from '../../domain/submission.ts'
import { textOfMail } from '../../mail/mail-text.ts'
import { readBlob } from '../blobs.ts'
import { sql, type Db } from '../database.ts'

interface Row {
  readonly id: MessageId
  readonly mailbox_id: MailboxId
  readonly status: MessageStatus
  readonly delivery_rank: number
  readonly sender: string
  readonly recipient: string
  readonly subject: string
  readonly provider_message_id: string | null
  readonly error_message: string | null
  readonly metadata: Readonly<Record<string, string>> | null
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly content_expired_at: Date | null
  readonly body_text: string | null
  readonly body_blob: string | null
  readonly form: 'text' | 'mail' | null
  readonly reports: readonly {
    readonly sequence: number
    readonly type: DeliveryEventType
    readonly detail: string | null
    readonly at_ms: number
  }[]
}

const statement = sql(
  'read-message-status',
  `select m.id, m.mailbox_id, m.status, m.delivery_rank, m.sender, m.recipient, m.subject, m.provider_message_id, m.error_message,
          m.metadata, m.created_at, m.expires_at, c.body_text, c.body_blob, c.form,
          case when m.finished_at is not null then
            coalesce(content_expired_since($1, m.finished_at), case when c.message_id is null then m.finished_at end) end content_expired_at,
          coalesce((select json_agg(json_build_object('sequence', r.sequence, 'type', r.type, 'detail', r.detail,
                                      'at_ms', floor(extract(epoch from r.created_at) * 1000)) order by r.sequence)
                      from reports r where r.workspace_id = $1 and r.message_id = $2), '[]') reports
     from messages m left join contents c on c.workspace_id = $1 and c.message_id = $2
    where m.workspace_id = $1 and m.id = $2`,
)

/** The message with all reports of receiving providers, oldest first; undefined where the workspace has no such message. */
export async function readStatus(
  db: Db,
  workspace: WorkspaceId,
  id: MessageId,
): Promise<{ readonly message: MessageRecord; readonly events: readonly DeliveryEventRecord[] } | undefined> {
  const [row] = await db.rows<Row>(statement, [workspace, id])
  if (row === undefined) return undefined
  const bodyText = row.content_expired_at === null ? await readBody(db, row) : ''
  const events = row.reports.map((report) => ({
    id: eventId(row.id, report.sequence),
    eventType: report.type,
    recipient: row.recipient,
    ...(report.detail !== null && { detail: report.detail }),
    createdAt: new Date(report.at_ms),
  }))
  return { message: recordOf(workspace, row, bodyText), events }
}

/** The message alone. */
export async function readRecord(db: Db, workspace: WorkspaceId, id: MessageId): Promise<MessageRecord | undefined> {
  return (await readStatus(db, workspace, id))?.message
}

/** Empty where retention was quicker than the reader. */
async function readBody(db: Db, { body_text, body_blob, form }: Row): Promise<string> {
  if (form === 'mail') return textOfMail(Buffer.from(body_text ?? ''))
  if (body_text !== null || body_blob === null) return body_text ?? ''
  return (await readBlob(db, body_blob))?.toString('utf8') ?? ''
}

function recordOf(workspace: WorkspaceId, row: Row, bodyText: string): MessageRecord {
  return {
    id: row.id,
    workspaceId: workspace,
    mailboxId: row.mailbox_id,
    status: row.status,
    deliveryStatus: deliveryStatusOf(row.delivery_rank),
    sender: row.sender,
    recipient: row.recipient,
    subject: row.subject,
    bodyText,
    ...(row.provider_message_id !== null && { providerMessageId: row.provider_message_id }),
    ...(row.error_message !== null && { errorMessage: row.error_message }),
    ...(row.metadata !== null && { metadata: row.metadata }),
    createdAt: row.created_at,
    ...(row.expires_at !== null && { expiresAt: row.expires_at }),
    ...(row.content_expired_at !== null && { contentExpiredAt: row.content_expired_at }),
  }
}
