// The content of a message for people who look at it, while it is kept.
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { previewOf, type PictureOf, type PreviewedFile } from '../mail/mail-preview.ts'
import type { Db } from '../store/database.ts'
import { readContent } from '../store/views/message-content.ts'
import { Mistake, noSuchMessage } from './mistake.ts'

export interface MessageContent {
  readonly text: string
  readonly html?: string
  readonly pictureOf?: PictureOf
  readonly attachments: readonly PreviewedFile[]
  /** False where only the beginning was looked at. */
  readonly whole: boolean
}

export async function contentOf(db: Db, workspace: WorkspaceId, id: MessageId): Promise<MessageContent> {
  const kept = await readContent(db, workspace, id)
  if (kept === 'unknown') throw noSuchMessage()
  if (kept === undefined) throw new Mistake('The content of this message has expired.', { code: 'not_found' })
  if (kept.kind === 'text')
    return { text: kept.text, attachments: kept.files.slice(0, limits.previewFilesMax), whole: kept.whole }
  const { files, ...shown } = previewOf(kept.mail)
  return { ...shown, attachments: files, whole: kept.whole }
}
