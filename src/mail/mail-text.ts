// What a person would read of a mail: its first text part, or the text of its first HTML part where that says more. Attachments, files and
// mails inside the mail do not count. For the record's `bodyText` (decisions F); lines end with LF.
import { limits } from '../config.ts'
import { textOfHtml } from './html-text.ts'
import { decodedText, fieldValue, readMime, type MimeEntity } from './mime-entity.ts'
import { parseParameterized } from './mime-field.ts'

export function textOfMail(mail: Buffer): string {
  return mailTextOf(readMime(mail))
}

interface Shown {
  plain?: MimeEntity
  html?: MimeEntity
}

/** What a reader shows: the first plain text and the first HTML, neither of them attached; files only where there is nothing else. */
export function partsShown(root: MimeEntity): Readonly<Shown> {
  const [body, files]: [Shown, Shown] = [{}, {}]
  for (const { entity, isFile } of leavesShown(root)) {
    const found = isFile ? files : body
    if (entity.contentType.value === 'text/plain') found.plain ??= entity
    else if (entity.contentType.value === 'text/html') found.html ??= entity
    if (body.plain !== undefined && body.html !== undefined) break
  }
  return body.plain === undefined && body.html === undefined ? files : body
}

export function mailTextOf(root: MimeEntity): string {
  const { plain, html } = partsShown(root)
  const text = plain === undefined ? '' : decodedText(plain)
  // Many programs put an empty text beside their HTML.
  const read = text.trim() === '' && html !== undefined ? textOfHtml(decodedText(html)) || text : text
  // CRLF becomes LF: of twice as much as is kept, enough is left.
  const start = read.slice(0, 2 * limits.bodyTextBytesMax)
  return bounded(start.replace(/\r\n?/g, '\n').replaceAll('\0', '\ufffd').toWellFormed())
}

/** In the order of the text. Of a related only its root: the rest is what the root shows by its Content-ID (RFC 2387). */
function* leavesShown(root: MimeEntity): Generator<{ readonly entity: MimeEntity; readonly isFile: boolean }> {
  const waiting = [{ entity: root, mayBeFile: false }]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { entity, mayBeFile } = next
    const type = entity.contentType.value
    if (!type.startsWith('multipart/')) {
      const disposition = parseParameterized(fieldValue(entity, 'content-disposition') ?? '')
      if (disposition.value === 'attachment') continue
      const name = disposition.parameters.get('filename') || entity.contentType.parameters.get('name') || ''
      yield { entity, isFile: mayBeFile && name !== '' }
      continue
    }
    const parts = type === 'multipart/related' ? rootOf(entity) : entity.parts
    // The forms of one text are that text, whatever they are called.
    const mayHoldFiles = type !== 'multipart/alternative' && type !== 'multipart/related'
    for (let at = parts.length - 1; at >= 0; at--)
      waiting.push({ entity: parts[at] as MimeEntity, mayBeFile: mayHoldFiles })
  }
}

/** Where its start is not among its parts: the first one. */
function rootOf({ contentType, parts }: MimeEntity): readonly MimeEntity[] {
  const start = bracketed(contentType.parameters.get('start'))
  const named = start && parts.find((part) => bracketed(fieldValue(part, 'content-id')) === start)
  return named ? [named] : parts.slice(0, 1)
}

/** The identifier without brackets, blanks and comments around it; some leave the brackets out. */
function bracketed(text = ''): string {
  return (/<([^<>]+)>/.exec(text)?.[1] ?? text).trim()
}

/** At most what a request could have brought. */
function bounded(text: string): string {
  if (text.length * 3 <= limits.bodyTextBytesMax || Buffer.byteLength(text) <= limits.bodyTextBytesMax) return text
  return Buffer.from(text)
    .subarray(0, limits.bodyTextBytesMax)
    .toString()
    .replace(/\ufffd+$/, '')
}
