// The body of a send request becomes typed values, or a refusal that names the member and the way out: specification
// 2.1 and 2.2, decisions D. The shape is checked by the schema that the OpenAPI document publishes, the meaning by the
// parsers of `mail`.
import { Compile } from 'typebox/schema'
import { parseUuid } from '../base/uuid.ts'
import { limits } from '../config.ts'
import { SendMessageRequest } from '../contract/message.ts'
import type { MailboxId } from '../domain/message.ts'
import { refuse } from '../domain/refusal.ts'
import type { Refusal } from '../domain/refusal.ts'
import type { Submission } from '../domain/submission.ts'
import { parseAddress, unsupportedForm } from '../mail/address.ts'
import { base64DecodedLength, decodeBase64 } from '../mail/base64.ts'
import { isContentType } from '../mail/content-type.ts'
import { parseDateTime } from '../mail/date-time-rfc3339.ts'
import type { AttachedFile } from '../mail/compose.ts'
import { namingTheWay } from './foreign-members.ts'
import { misshapen, mustBeTime, withoutFormats, wrong } from './shape.ts'

export type SendRequest = Pick<
  Submission,
  'mailboxId' | 'recipient' | 'subject' | 'bodyText' | 'attachments' | 'expiresAt' | 'metadata'
>

/** Formats say to people what the parsers below decide; the schema's own idea of an address would be another one. */
const shape = Compile(withoutFormats(SendMessageRequest))

/** How the text of a file becomes bytes: where a body is large, without becoming text first. */
export interface Base64 {
  decodedLength(text: string): number
  decode(text: string): Buffer | undefined
}
export const plainBase64: Base64 = { decodedLength: base64DecodedLength, decode: decodeBase64 }

export function parseSendRequest(value: unknown, now: number, base64 = plainBase64): SendRequest | Refusal {
  const count = attachmentCount(value)
  if (count > limits.attachmentsMax)
    return refuse(
      'too_many_attachments',
      `"attachments" has ${count} items; send at most ${limits.attachmentsMax} with one message.`,
      { field: 'attachments' },
    )
  if (!shape.Check(value)) return namingTheWay(misshapen(shape.Errors(value)[1]), value)

  const mailboxId = parseUuid(value.mailboxId)
  if (mailboxId === undefined) return wrong('mailboxId', 'must be a UUID, as the list of mailboxes shows it')
  const recipient = parseAddress(value.recipient)
  if (recipient === undefined)
    return wrong(
      'recipient',
      unsupportedForm(value.recipient) ??
        'must be exactly one e-mail address such as ada@example.com, without a display name',
    )
  if (hasControlOrLineBreak(value.subject))
    return wrong('subject', 'must not contain line breaks or control characters; send one line of text')
  if (!fitsIntoBytes(value.bodyText, limits.bodyTextBytesMax))
    return wrong('bodyText', 'is larger than 5 MiB of UTF-8; shorten it or send it as an attachment')
  const attachments = parseAttachments(value.attachments ?? [], base64)
  if (!isList(attachments)) return attachments
  const expiresAt = value.expiresAt === undefined ? undefined : parseExpiry(value.expiresAt, now)
  if (expiresAt !== undefined && !(expiresAt instanceof Date)) return expiresAt

  return {
    mailboxId: mailboxId as MailboxId,
    recipient,
    subject: value.subject,
    bodyText: value.bodyText,
    attachments,
    ...(expiresAt !== undefined && { expiresAt }),
    ...(value.metadata !== undefined && { metadata: value.metadata }),
  }
}

const isList = <T>(value: readonly T[] | Refusal): value is readonly T[] => Array.isArray(value)

function parseAttachments(
  given: NonNullable<SendMessageRequest['attachments']>,
  base64: Base64,
): readonly AttachedFile[] | Refusal {
  // From the lengths alone, before anything is decoded: exact for all Base64 that the decoder accepts.
  let total = 0
  for (const { contentBase64 } of given) total += base64.decodedLength(contentBase64)
  if (total > limits.attachmentsBytesMax)
    return refuse(
      'attachments_too_large',
      '"attachments" are larger than 20 MB (20,971,520 bytes) together, decoded; send fewer or smaller files.',
      { field: 'attachments' },
    )
  const attachments: AttachedFile[] = []
  for (const [index, { filename, contentType = 'application/octet-stream', contentBase64 }] of given.entries()) {
    const path = `attachments.${index}`
    if (!isSafeFilename(filename))
      return wrong(
        `${path}.filename`,
        'must be a plain file name of 1 to 255 bytes, without slashes, line breaks, control or text direction characters',
      )
    if (!isContentType(contentType))
      return wrong(
        `${path}.contentType`,
        'must be a MIME type such as application/pdf, without wildcards, and not multipart or message',
      )
    const bytes = base64.decode(contentBase64)
    if (bytes === undefined)
      return wrong(
        `${path}.contentBase64`,
        'must be standard Base64 (RFC 4648 section 4) with padding, without white space, and without "data:...;base64," before it',
      )
    attachments.push({ filename, contentType, bytes })
  }
  return attachments
}

/** C0, DEL, and what Unicode calls a line break (decisions D). */
function hasControlOrLineBreak(text: string): boolean {
  return /[\0-\x1f\x7f\x85\u2028\u2029]/.test(text)
}

/**
 * No separators of folders, no controls (C0, C1), no line breaks, nothing that turns the direction of the text around.
 */
function isSafeFilename(name: string): boolean {
  return (
    name !== '.' &&
    name !== '..' &&
    Buffer.byteLength(name) <= limits.filenameBytesMax &&
    !/[\0-\x1f\x7f-\x9f/\\\u2028\u2029\u202a-\u202e\u2066-\u2069]/.test(name)
  )
}

function fitsIntoBytes(text: string, max: number): boolean {
  return text.length * 3 <= max || (text.length <= max && Buffer.byteLength(text) <= max)
}

function parseExpiry(text: string, now: number): Date | Refusal {
  const time = parseDateTime(text)
  if (time === undefined) return wrong('expiresAt', mustBeTime)
  // Whether it has passed is for `accept` to say: a repeat of what was accepted in time is none.
  if (time > now + limits.expiresAheadMsMax) return wrong('expiresAt', 'must be at most 7 days ahead')
  return new Date(time)
}

function attachmentCount(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const { attachments } = value as { attachments?: unknown }
  return Array.isArray(attachments) ? attachments.length : 0
}
