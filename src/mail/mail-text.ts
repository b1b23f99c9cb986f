// What a person would read of a mail: its first text part, or the text of its first HTML part. Attachments and mails inside the mail do
// not count. For the record's `bodyText` (decisions F); lines end with LF.
import { limits } from '../config.ts'
import { textOfHtml } from './html-text.ts'
import { decodedText, fieldValue, readMime, type MimeEntity } from './mime-entity.ts'
import { parseParameterized } from './mime-field.ts'

export function textOfMail(mail: Buffer): string {
  return mailTextOf(readMime(mail))
}

/** What a reader shows: the first plain text and the first HTML, neither of them attached. */
export function partsShown(root: MimeEntity): { readonly plain?: MimeEntity; readonly html?: MimeEntity } {
  const [plain, html] = [firstOf(root, 'text/plain'), firstOf(root, 'text/html')]
  return { ...(plain !== undefined && { plain }), ...(html !== undefined && { html }) }
}

export function mailTextOf(root: MimeEntity): string {
  const { plain, html } = partsShown(root)
  const text = plain === undefined ? (html === undefined ? '' : textOfHtml(decodedText(html))) : decodedText(plain)
  return bounded(text.replace(/\r\n?/g, '\n').replaceAll('\0', '\ufffd').toWellFormed())
}

function firstOf(entity: MimeEntity, type: string): MimeEntity | undefined {
  const waiting = [entity]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (next.contentType.value === type && !isAttached(next)) return next
    if (next.contentType.value.startsWith('multipart/'))
      for (let at = next.parts.length - 1; at >= 0; at--) waiting.push(next.parts[at] as MimeEntity)
  }
  return undefined
}

function isAttached(entity: MimeEntity): boolean {
  return parseParameterized(fieldValue(entity, 'content-disposition') ?? '').value === 'attachment'
}

/** At most what a request could have brought. */
function bounded(text: string): string {
  if (text.length * 3 <= limits.bodyTextBytesMax || Buffer.byteLength(text) <= limits.bodyTextBytesMax) return text
  return Buffer.from(text)
    .subarray(0, limits.bodyTextBytesMax)
    .toString()
    .replace(/\ufffd+$/, '')
}
