// The sandbox's inbox of a workspace: what its own messages became when they were delivered to the sandbox. What belongs to others, or to
// nobody, is not there. It is read with the reader of all mail: its time is linear, and strangers wrote it.
import { buffer } from 'node:stream/consumers'
import { given, shown, type Given } from '../base/given.ts'
import { limits } from '../config.ts'
import { inTurn, turns } from '../base/turns.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { Page } from '../domain/page.ts'
import { previewOf, type MailPreview, type PreviewedFile } from '../mail/mail-preview.ts'
import { fieldValue, readMime, type MimeEntity } from '../mail/mime-entity.ts'
import { decodeWords, unfolded, type MimeField } from '../mail/mime-field.ts'
import { shortened } from '../mail/shortened.ts'
import { recordedSubject } from '../mail/submitted-mail.ts'
import type { Db } from '../store/database.ts'
import { pageSandbox, readSandboxContent, readSandboxMail, type SandboxRow } from '../store/sandbox.ts'
import { notThere, parseRecipient } from './mistake.ts'

export type SandboxMail = Given<SandboxRow> & { readonly subject?: string }

export interface SandboxMailParsed extends SandboxMail {
  readonly headers: readonly { readonly name: string; readonly value: string }[]
  readonly text?: string
  /** Never to be shown but in a frame that runs nothing. */
  readonly html?: string
  readonly attachments: readonly PreviewedFile[]
  /** False where text and HTML are only their beginning. */
  readonly whole: boolean
}

export interface SandboxWish {
  /** One whole address. */
  readonly recipient?: string
  readonly messageId?: string
  /** Somewhere in subject or recipient. */
  readonly text?: string
  /** The id at which the page before ended. */
  readonly before?: string
  readonly most: number
}

/** Newest first. What is looked for is looked for among the next `sandboxScannedMax` mails; `next` goes on behind them. */
export async function listSandbox(
  db: Db,
  workspace: WorkspaceId,
  { recipient, before, most, ...filter }: SandboxWish,
): Promise<Page<SandboxMail>> {
  const address = recipient === undefined ? undefined : parseRecipient(recipient)
  const wanted = { ...filter, ...(address !== undefined && { recipient: address.text }) }
  const { mails, next } = await pageSandbox(db, workspace, { before, most }, wanted)
  const items = mails.map(({ head, ...row }) => ({ ...shown(row), ...subjectOf(readMime(headOf(head))) }))
  return given<Page<SandboxMail>>({ items, next })
}

export async function showSandboxMail(db: Db, workspace: WorkspaceId, id: string): Promise<SandboxMailParsed> {
  const row = await readSandboxMail(db, workspace, id)
  if (row === undefined) throw notThere('mail')
  return inTurn(turn, async () => {
    const { mail, whole } = await beginning(db, workspace, row)
    const root = readMime(mail)
    const { text, html, files } = previewOf(mail)
    return {
      ...shown(row),
      ...subjectOf(root),
      headers: root.fields.map((field) => ({ name: nameOf(field), value: unfolded(field) })),
      ...(text !== '' && { text }),
      ...(html !== undefined && { html }),
      attachments: files,
      whole,
    }
  })
}

/** For the frame: its HTML with the pictures that it brings, which the answer of `showSandboxMail` leaves where they are. */
export async function previewSandboxMail(db: Db, workspace: WorkspaceId, id: string): Promise<MailPreview> {
  const row = await readSandboxMail(db, workspace, id)
  if (row === undefined) throw notThere('mail')
  return inTurn(turn, async () => previewOf((await beginning(db, workspace, row)).mail))
}

/** A large mail is held several times while it is read. */
const turn = turns({ most: 1, share: 1 })

const beginning = async (db: Db, workspace: WorkspaceId, row: SandboxRow) =>
  shortened(await buffer(readSandboxContent(db, workspace, row)), limits.previewBytesMax)

/** The bytes as they came over SMTP, read as they are taken: who takes them slowly, or never, holds one slice. */
export async function readSandboxBytes(
  db: Db,
  workspace: WorkspaceId,
  id: string,
): Promise<{ readonly sizeBytes: number; readonly bytes: AsyncGenerator<Buffer> }> {
  const row = await readSandboxMail(db, workspace, id)
  if (row === undefined) throw notThere('mail')
  return { sizeBytes: row.sizeBytes, bytes: readSandboxContent(db, workspace, row) }
}

/** As its author wrote it. */
const nameOf = ({ raw, at }: MimeField): string => raw.toString('latin1', 0, at).trim()

function subjectOf(mail: MimeEntity): { readonly subject?: string } {
  const written = fieldValue(mail, 'subject')
  return written === undefined ? {} : { subject: recordedSubject(decodeWords(written)) }
}

/** The header alone, so that a cut body is not parsed. */
function headOf(bytes: Buffer): Buffer {
  const end = bytes.indexOf('\r\n\r\n')
  return end < 0 ? bytes : bytes.subarray(0, end + 4)
}
