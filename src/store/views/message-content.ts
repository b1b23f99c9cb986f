// What was submitted, while it is kept: for people who look at it. Of a big mail only the beginning is read.
import { limits } from '../../config.ts'
import type { MessageId, MessageSource, WorkspaceId } from '../../domain/message.ts'
import { readBlobStart } from '../blobs.ts'
import { sql, type Db } from '../database.ts'

interface Row {
  readonly source: MessageSource
  readonly expired: boolean
  readonly form: 'text' | 'mail' | null
  readonly body_text: string | null
  readonly body_blob: string | null
  readonly files: readonly {
    readonly filename: string
    readonly contentType: string
    readonly sizeBytes: number
    readonly blob: string
  }[]
}

/** `mail`: octets of what came over SMTP; `text`: what came over REST, with its files. Undefined: it is not kept any more. */
export type KeptContent =
  | { readonly kind: 'mail'; readonly mail: Buffer; readonly whole: boolean }
  | {
      readonly kind: 'text'
      readonly text: string
      readonly whole: boolean
      readonly files: readonly { readonly filename: string; readonly contentType: string; readonly sizeBytes: number }[]
    }
  | undefined

const statement = sql(
  'read-message-content',
  `select m.source, c.message_id is null or content_expired_since($1, m.finished_at) is not null expired, c.form, c.body_text, c.body_blob,
          coalesce((select json_agg(json_build_object('filename', a.filename, 'contentType', a.content_type, 'sizeBytes', a.size_bytes,
                                      'blob', a.blob_id) order by a.position)
                      from attachments a where a.workspace_id = $1 and a.message_id = $2), '[]') files
     from messages m left join contents c on c.workspace_id = $1 and c.message_id = $2
    where m.workspace_id = $1 and m.id = $2`,
)

/** `unknown` where the workspace has no such message. */
export async function readContent(db: Db, workspace: WorkspaceId, id: MessageId): Promise<KeptContent | 'unknown'> {
  const [row] = await db.rows<Row>(statement, [workspace, id])
  if (row === undefined) return 'unknown'
  if (row.expired) return undefined
  const { form, body_text, body_blob, files } = row
  if (row.source !== 'smtp') {
    const shown = body_blob === null ? { text: body_text ?? '', whole: true } : await readTextStart(db, body_blob)
    return shown && { kind: 'text', ...shown, files: files.map(({ blob: _blob, ...file }) => file) }
  }
  if (form === 'mail') return { kind: 'mail', mail: Buffer.from(body_text ?? ''), whole: true }
  const [file] = files
  const mail = file && (await readBlobStart(db, file.blob, limits.previewBytesMax))
  return mail && { kind: 'mail', mail, whole: mail.length >= file.sizeBytes }
}

async function readTextStart(db: Db, blob: string): Promise<{ text: string; whole: boolean } | undefined> {
  const most = limits.previewBytesMax
  const bytes = await readBlobStart(db, blob, most + 1)
  if (bytes === undefined || bytes.length <= most) return bytes && { text: bytes.toString('utf8'), whole: true }
  let end: number = most
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end-- // within a character
  return { text: bytes.toString('utf8', 0, end), whole: false }
}
