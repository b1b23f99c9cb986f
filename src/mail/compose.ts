// A mail as it goes over the wire (RFC 5322, 2045-2047, 2231): 7-bit clean, CRLF only, short lines, no raw control character.
// Pure and deterministic: Message-ID, boundary and Date come from the draft, so every attempt transmits the same octets (decisions B).
// What a face should have refused is made harmless here a second time. Dot-stuffing is the SMTP client's.
import { isContentType, withoutFileName } from './content-type.ts'
import { encodedWords, filenameParameter, foldWords, isPlain, octets, withoutControls } from './header-text.ts'
import { encodeBase64Lines, encodedBase64Length, encodeText } from './transfer-encoding.ts'

/** Name, and value as written: folded, without the CRLF at its end. A character is an octet (latin1), whatever the octets mean. */
export type HeaderField = readonly [name: string, value: string]

export interface AttachedFile {
  readonly filename: string
  readonly contentType: string
  readonly bytes: Buffer
}

export interface Draft {
  /** A UUID: it makes Message-ID and the boundary. */
  readonly messageId: string
  /** What stands to the right of the `@` in Message-ID. */
  readonly hostname: string
  readonly from: { readonly address: string; readonly name?: string | undefined }
  readonly to: string
  readonly subject: string
  readonly bodyText: string
  readonly attachments: readonly AttachedFile[]
  readonly createdAt: Date
  /** No person wrote it, and no responder may answer it (RFC 3834 5). */
  readonly isNotice?: boolean
}

export interface ComposedMail {
  /** In the order of transmission. */
  readonly fields: readonly HeaderField[]
  /** Ends with CRLF. */
  readonly body: Buffer
  /** True where From or To carries raw UTF-8 (RFC 6532): only a next hop with SMTPUTF8 may get it. */
  readonly needsSmtputf8: boolean
}

const crlf = Buffer.from('\r\n')
const nothing = Buffer.alloc(0)
const beyondAscii = /[^\x00-\x7f]/
const unsafeInAddress = /[\x00-\x20\x7f<>,;:"()[\]\\]/

export function composeMail(draft: Draft): ComposedMail {
  for (const address of [draft.from.address, draft.to, `${draft.messageId}@${draft.hostname}`])
    if (unsafeInAddress.test(address)) throw new Error('a draft carries an address that was never parsed')
  const content = draft.attachments.length === 0 ? singlePart(draft.bodyText) : multipart(draft)
  const fields: HeaderField[] = [
    ['From', fromValue(draft.from.address, draft.from.name)],
    ['To', octets(draft.to)],
    ['Subject', subjectValue(withoutControls(draft.subject))],
    ['Date', draft.createdAt.toUTCString().replace('GMT', '+0000')],
    ['Message-ID', `<${draft.messageId}@${draft.hostname}>`],
    ...(draft.isNotice === true ? [['Auto-Submitted', 'auto-generated'] as const] : []),
    ['MIME-Version', '1.0'],
    ['Content-Type', content.type],
    ['Content-Transfer-Encoding', content.encoding],
  ]
  return {
    fields,
    body: content.body,
    needsSmtputf8: beyondAscii.test(draft.from.address) || beyondAscii.test(draft.to),
  }
}

/** The fields as they are written, with the empty line behind them; to be encoded as latin1. */
export function headerBlock(fields: readonly HeaderField[]): string {
  let block = ''
  for (const [name, value] of fields) block += `${name}: ${value}\r\n`
  return `${block}\r\n`
}

interface Content {
  readonly type: string
  readonly encoding: string
  readonly body: Buffer
}

function singlePart(bodyText: string): Content {
  const text = encodeText(bodyText)
  const ended = text.bytes.length >= 2 && text.bytes.at(-1) === 10 && text.bytes.at(-2) === 13
  return {
    type: 'text/plain; charset=utf-8',
    encoding: text.encoding,
    body: ended ? text.bytes : Buffer.concat([text.bytes, crlf]),
  }
}

function multipart(draft: Draft): Content {
  // `=_` stands in no Base64 and in no quoted-printable text, and a 7-bit text that has it is encoded: no content holds the boundary.
  const boundary = `=_${draft.messageId}`
  const text = encodeText(draft.bodyText, '=_')
  const parts = [
    {
      head: `--${boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: ${text.encoding}\r\n\r\n`,
      bytes: text.bytes,
      file: nothing,
    },
    ...draft.attachments.map((attachment) => ({
      head: `\r\n--${boundary}\r\n${attachmentHeader(attachment)}\r\n`,
      bytes: nothing,
      file: attachment.bytes,
    })),
  ]
  const end = `\r\n--${boundary}--\r\n`
  let length = end.length
  for (const part of parts) length += part.head.length + part.bytes.length + encodedBase64Length(part.file.length)

  // One allocation of the exact size, written once: a mail of 27 MB is not copied again.
  const body = Buffer.allocUnsafe(length)
  let at = 0
  for (const { head, bytes, file } of parts) {
    at += body.write(head, at, 'latin1')
    at += bytes.copy(body, at)
    at += encodeBase64Lines(file, body, at)
  }
  body.write(end, at, 'latin1')
  return { type: `multipart/mixed;\r\n boundary="${boundary}"`, encoding: '7bit', body }
}

function attachmentHeader(attachment: AttachedFile): string {
  const given = attachment.contentType
  const type = isContentType(given) ? withoutFileName(given) : 'application/octet-stream'
  return (
    `Content-Type: ${foldParameters(type)}\r\n` +
    `Content-Disposition: attachment;\r\n ${filenameParameter(withoutControls(attachment.filename))}\r\n` +
    'Content-Transfer-Encoding: base64\r\n'
  )
}

/** A fold before each parameter; `;` inside a quoted value stays. */
function foldParameters(type: string): string {
  if (type.length <= 62) return type
  return type.replace(/[ \t]*;[ \t]*((?:[^";]|"(?:[^"\\]|\\.)*")*)/g, ';\r\n $1')
}

function fromValue(address: string, name: string | undefined): string {
  const shown = name === undefined ? '' : withoutControls(name).trim()
  if (shown === '') return octets(address)
  const phrase = phraseOf(shown)
  const fits = !phrase.includes('\n') && 'From: '.length + phrase.length + address.length + 3 <= 78
  return `${phrase}${fits ? '' : '\r\n'} <${octets(address)}>`
}

function phraseOf(name: string): string {
  const isWords = isPlain(name) && !name.includes('  ')
  const folded = isWords ? foldWords(name.replace(/["\\]/g, '\\$&'), 'From: "'.length) : undefined
  if (folded === undefined) return encodedWords(name, 'From: '.length)
  return /^[A-Za-z0-9 !#$%&'*+/=?^_`{|}~-]*$/.test(name) && folded === name ? name : `"${folded}"`
}

function subjectValue(subject: string): string {
  const plain = isPlain(subject) ? foldWords(subject, 'Subject: '.length) : undefined
  return plain ?? encodedWords(subject, 'Subject: '.length)
}
