// A mail that somebody has submitted (RFC 6409), looked at once: what it says of itself, what of it is not sent on, and why it cannot be
// taken. Its octets stay as they are but for fields that are ours, nobody's business, or mandatory and empty, and for folds of blanks. No second parser
// may find another mail in it: header lines are fields, no mandatory field stands twice, no NUL, no line beyond RFC 5322's limit.
import { isAscii, isUtf8 } from 'node:buffer'
import { limits } from '../config.ts'
import { parseAddress, type EmailAddress } from './address.ts'
import { addressSpecs } from './address-list.ts'
import { controlFieldNames, isControlField, readControlFields, type ControlFields } from './control-fields.ts'
import { hasLongLine, headerEnd, lineText, readHeaderBlock, type HeaderLine } from './header-block.ts'
import { quotedPrintableReadings } from './lenient-decoding.ts'
import { decodeWords } from './mime-field.ts'
import { mayHoldUuencode } from './mime-leaves.ts'

export interface SubmittedMail extends ControlFields {
  /** What is kept. */
  readonly content: Buffer
  readonly from: EmailAddress
  readonly subject: string
  /** Without its brackets, or as it stands where it cannot be read; left out where the mail has none. */
  readonly messageId?: string
  /** Whether its octets tell it from another mail with the same words: by its Message-ID, or by what a mail server before us has called it. */
  readonly isNamed: boolean
  /** Whether they also tell that it was made in these days, or that a mail server took it: what is equal days later is no second mail. */
  readonly isDated: boolean
  /** Mandatory (RFC 5322 3.6) and not there, or empty. */
  readonly lacks: readonly ('Date' | 'Message-ID')[]
  /** Where it is nothing but a text for people: this text, decoded. */
  readonly plainText?: Buffer
}

/** What is wrong, for the face's table; the words are for whoever wrote the program. */
export interface MailMistake {
  readonly mistake: 'malformed' | 'tooLarge' | 'loop' | 'needsSmtputf8' | 'sender'
  readonly words: string
}

const mistake = (kind: MailMistake['mistake'], words: string): MailMistake => ({ mistake: kind, words })

export const isMailMistake = (value: SubmittedMail | MailMistake): value is MailMistake => 'mistake' in value

/** At most once in a mail (RFC 5322 3.6, RFC 2045 3): two readers would choose differently. */
const single = new Set([
  'from',
  'sender',
  'reply-to',
  'to',
  'cc',
  'subject',
  'date',
  'message-id',
  'mime-version',
  'content-type',
  'content-transfer-encoding',
  ...controlFieldNames,
])

/** Not sent on: hidden recipients, what only the last server writes, our own fields. */
const isOurs = (name: string): boolean =>
  name === 'bcc' || name === 'resent-bcc' || name === 'return-path' || isControlField(name)

/** `now`: the time in milliseconds, to the second or so. */
export function readSubmittedMail(mail: Buffer, smtputf8: boolean, now: number): SubmittedMail | MailMistake {
  if (mail.includes(0)) return mistake('malformed', 'The message holds a NUL octet; encode what is binary')
  if (hasLongLine(mail, limits.mailLineOctetsMax))
    return mistake('malformed', `A line has more than ${limits.mailLineOctetsMax} octets; fold or encode it`)
  const header = readHeaderBlock(mail, limits.submissionHeaderBytesMax)
  if (header === undefined)
    return headerEnd(mail, limits.submissionHeaderBytesMax) === undefined
      ? mistake('tooLarge', `The header has more than ${limits.submissionHeaderBytesMax} octets`)
      : mistake('malformed', 'A line before the empty line is no header field')
  const { lines } = header
  if (lines.length > limits.submissionFieldsMax)
    return mistake('tooLarge', `More than ${limits.submissionFieldsMax} header fields`)
  const fields = new Map<string, HeaderLine>()
  for (const line of lines) {
    if (fields.has(line.name) && single.has(line.name))
      return mistake('malformed', `The header field ${line.name} is given twice`)
    fields.set(line.name, line)
  }
  const head = mail.subarray(0, header.end)
  if (!isAscii(head) && !(smtputf8 && isUtf8(head)))
    return mistake('needsSmtputf8', 'A header field is not ASCII: use encoded words, or UTF-8 with SMTPUTF8')
  if (lines.filter(({ name }) => name === 'received').length > limits.receivedFieldsMax)
    return mistake(
      'loop',
      `More than ${limits.receivedFieldsMax} Received fields: this message is going round in circles`,
    )
  const from = senderOf(fields)
  if ('mistake' in from) return from
  const control = readControlFields(fields, now)
  if (typeof control === 'string') return mistake('malformed', control)
  const lacks = mandatory.filter((name) => isMissing(fields.get(name.toLowerCase())))
  const hasTrace = (): boolean => lines.some(hasQueueId)
  const plainText = plainTextOf(mail, header.bodyStart, fields)
  const messageId = lacks.includes('Message-ID') ? undefined : withoutBrackets(textOf(fields, 'message-id'))
  return {
    content: without(mail, lines),
    from,
    subject: recordedSubject(decodeWords(textOf(fields, 'subject'))),
    ...(messageId !== undefined && { messageId }),
    isNamed: messageId !== undefined || hasTrace(),
    isDated: isOfTheseDays(Date.parse(textOf(fields, 'date')), now) || hasTrace(),
    ...control,
    lacks,
    ...(plainText !== undefined && { plainText }),
  }
}

type Fields = ReadonlyMap<string, HeaderLine>

function textOf(fields: Fields, name: string): string {
  const line = fields.get(name)
  return line === undefined ? '' : lineText(line)
}

/** RFC 5322 3.6, which we add where they are missing (decisions F); From is the third. */
const mandatory = ['Date', 'Message-ID'] as const

/** An empty one says as little as none; `<>` names nothing. */
function isMissing(line: HeaderLine | undefined): boolean {
  return line === undefined || /^(?:<[ \t]*>)?$/.test(lineText(line))
}

const isReplaced = (line: HeaderLine): boolean =>
  (line.name === 'date' || line.name === 'message-id') && isMissing(line)

/** The id of a mail in the trace of a server (RFC 5321 4.4), which no other mail gets; that of Exchange is its own version. */
const queueId = /(?<!\b(?:from|by))[ \t]id[ \t]+(?!\d+(?:\.\d+)+(?![^ \t;]))[!-:<-~]/i

/** A file that a script sends each night has the Date of long ago, and is a new mail each time. No date (NaN) is of no day. */
const isOfTheseDays = (date: number, now: number): boolean =>
  date > now - limits.datedRepeatKeptMs && date < now + clockAheadMs

/** By which the clock of whoever wrote it may be ahead. */
const clockAheadMs = 24 * 3600_000

/** A server repeats a mail under the same id, also one that came from a device without a Message-ID. */
const hasQueueId = (line: HeaderLine): boolean => line.name === 'received' && queueId.test(lineText(line))

const withoutBrackets = (text: string): string => /^<([!-~]+)>$/.exec(text)?.[1] ?? text

/** One address in From, and the same in Sender where that is given. */
function senderOf(fields: Fields): EmailAddress | MailMistake {
  const text = textOf(fields, 'from')
  if (text === '')
    return mistake('sender', 'The mail has no From; give it one, with the address of a mailbox of this workspace')
  const specs = addressSpecs(text)
  const from = specs?.length === 1 ? parseAddress(specs[0] ?? '') : undefined
  if (from === undefined)
    return mistake(
      'sender',
      'From must hold exactly one address, a mailbox of this workspace; a name with "@", ",", "(" or "<" in it is written in quotes',
    )
  const sender = fields.get('sender')
  if (sender === undefined) return from
  const own = addressSpecs(lineText(sender))
  if (own?.length !== 1 || parseAddress(own[0] ?? '')?.key !== from.key)
    return mistake('sender', 'Sender must be the same address as From, or be left out')
  return from
}

/** A subject as the record has it: in one line, of characters that may stand in one; encoded words may hold others. */
export function recordedSubject(decoded: string): string {
  const text = decoded.replace(/[\x00-\x1f\x7f\x85\u2028\u2029]+/g, ' ').toWellFormed()
  return text.length <= limits.subjectCodePointsMax
    ? text
    : Array.from(text).slice(0, limits.subjectCodePointsMax).join('')
}

/**
 * A fold of blanks alone (RFC 5322 4.2, obsolete): who takes it for the empty line finds another header. Programs that fold many blanks make it, nodemailer
 * among them, so it is no mistake; without it the field says the same, also to a relaxed DKIM signature.
 */
const blankFold = /\r\n[ \t]+(?=\r\n|$)/g

/** The mail without the fields that are not sent on, or that another takes the place of, and without folds of blanks; itself where there is none. */
function without(mail: Buffer, lines: readonly HeaderLine[]): Buffer {
  const pieces: Buffer[] = []
  let from = 0
  const leaveOut = (start: number, end: number): void => {
    pieces.push(mail.subarray(from, start))
    from = end
  }
  for (const line of lines) {
    if (isOurs(line.name) || isReplaced(line)) leaveOut(line.start, line.end)
    else if (line.value.includes('\r')) {
      const valueStart = line.start + line.name.length + ':'.length
      for (const { index, 0: fold } of line.value.matchAll(blankFold))
        leaveOut(valueStart + index, valueStart + index + fold.length)
    }
  }
  return from === 0 ? mail : Buffer.concat([...pieces, mail.subarray(from)])
}

/** Without comments and escapes, which not all readers know: behind them some would find a file name, or a boundary, which to some makes a multipart of any type. */
const plainType = /^text\/plain(?:\s*;\s*(?!\w*name|boundary)[\w-]+\s*=\s*(?:"[^"\\]*"|[\w.:+-]+))*(?:\s*;)?$/i
/** A longer one is not looked at so closely. */
const plainTypeCharactersMax = 200

/** One text for people, whole, with nothing in it that a reader would take for a file, decoded where it is encoded. */
function plainTextOf(mail: Buffer, bodyStart: number, fields: Fields): Buffer | undefined {
  const type = textOf(fields, 'content-type')
  if (type.length > plainTypeCharactersMax || fields.has('content-disposition')) return undefined
  if (type !== '' && !plainType.test(type)) return undefined
  const encoding = textOf(fields, 'content-transfer-encoding').toLowerCase()
  const body = mail.subarray(bodyStart)
  // A long one is looked at by the scan, which does not hold up everybody else.
  if (body.length > limits.smtpBlockBytes) return undefined
  if (encoding === '' || encoding === '7bit' || encoding === '8bit') return textForPeople(body)
  if (encoding !== 'quoted-printable' || mayHoldUuencode(body)) return undefined
  const [text, ...others] = quotedPrintableReadings(body)
  return text === undefined || others.length > 0 ? undefined : textForPeople(text)
}

/** Some readers take the fields of a part for one, wherever they stand. */
const fieldsOfPart = /content-(?:type|transfer-encoding)\s*:/i

/** Files have controls that no text has: those are of line ends, tabs, and charsets that switch (ISO 2022). */
const controlsOfFiles = /[\x00-\x08\x0b\x10-\x1a\x1c-\x1f]/

function textForPeople(text: Buffer): Buffer | undefined {
  const characters = text.toString('latin1')
  return mayHoldUuencode(text) || controlsOfFiles.test(characters) || fieldsOfPart.test(characters) ? undefined : text
}
