// What a customer reads about one message: specification 2.3 and 2.6. The processing state and the delivery status stand side by
// side and never change each other.
import { shown } from '../../base/given.ts'
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
  readonly mailboxId: MailboxId
  readonly status: MessageStatus
  readonly deliveryRank: number
  readonly sender: string
  readonly recipient: string
  readonly subject: string
  readonly providerMessageId: string | null
  readonly errorMessage: string | null
  readonly metadata: Readonly<Record<string, string>> | null
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly contentExpiredAt: Date | null
  readonly text: string | null
  readonly blob: string | null
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
  `select m.id, m.mailbox_id "mailboxId", m.status, m.delivery_rank "deliveryRank", m.sender, m.recipient, m.subject,
          m.provider_message_id "providerMessageId", m.error_message "errorMessage", m.metadata, m.created_at "createdAt", m.expires_at "expiresAt",
          c.body_text as text, c.body_blob as blob, c.form,
          case when m.finished_at is not null then
            coalesce(content_expired_since($1, m.finished_at), case when c.message_id is null then m.finished_at end) end "contentExpiredAt",
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
  const { deliveryRank, text: _text, blob: _blob, form: _form, reports, ...known } = row
  const events = reports.map((report) => ({
    id: eventId(known.id, report.sequence),
    eventType: report.type,
    recipient: known.recipient,
    ...(report.detail !== null && { detail: report.detail }),
    createdAt: new Date(report.at_ms),
  }))
  const message = {
    ...shown(known),
    workspaceId: workspace,
    deliveryStatus: deliveryStatusOf(deliveryRank),
    bodyText: known.contentExpiredAt === null ? await readBody(db, row) : '',
  }
  return { message, events }
}

/** The message alone. */
export async function readRecord(db: Db, workspace: WorkspaceId, id: MessageId): Promise<MessageRecord | undefined> {
  return (await readStatus(db, workspace, id))?.message
}

/** Empty where retention was quicker than the reader. */
async function readBody(db: Db, { text, blob, form }: Row): Promise<string> {
  if (form === 'mail') return textOfMail(Buffer.from(text ?? ''))
  if (text !== null || blob === null) return text ?? ''
  return (await readBlob(db, blob))?.toString('utf8') ?? ''
}
