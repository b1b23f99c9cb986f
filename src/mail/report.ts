// One door for mail that may say how another mail fared: DSN (RFC 3464), ARF (RFC 5965), bounces in free text, notifications of SES;
// and for mail that says nothing of the kind: automatic replies (RFC 3834), receipts (RFC 8098), anything else. Facts only, bounded,
// never throws. Only the outermost report counts: what stands inside a returned or forwarded message is its own business.
import { limits } from '../config.ts'
import { readFeedbackReport, type FeedbackReport } from './arf-rfc5965.ts'
import { readBounceText, replyIn } from './bounce-text.ts'
import { linesOf, readDeliveryStatus, type DeliveryStatus, type RecipientAction } from './dsn-rfc3464.ts'
import { decodedText, fieldValue, mimeBounds, readMime, type MimeEntity } from './mime-entity.ts'
import { unfolded, type MimeField } from './mime-field.ts'
import { authorOf, failedRecipients, isAutomaticReply, looksLikeBounce, subjectOf } from './report-signs.ts'
import { tokensIn, type SesNotification } from './ses-notification.ts'
import { notificationIn } from './sns-mail.ts'

export type ReportKind = 'dsn' | 'arf' | 'bounce_text' | 'notification' | 'auto_reply' | 'receipt' | 'other'

export interface Report {
  readonly kind: ReportKind
  /** Of a delivery report, one for each recipient that it names. */
  readonly recipients: readonly ReportedRecipient[]
  /** Of an ARF report. */
  readonly feedback?: FeedbackReport
  /** Reporting-MTA of a DSN, User-Agent of an ARF report. */
  readonly reporter?: string
  /** ENVID of the transaction that the report is about (RFC 3464 2.2.1). */
  readonly envelopeId?: string
  /** Of a notification, which returns no mail: where our token may stand in what it tells of it. */
  readonly tokens?: readonly string[]
  /** It says in words that other addresses were made of the one that we wrote to: a list, an alias, a forwarding. */
  readonly expanded?: true
  /** Who wrote a bounce in free text, in lower case, where its From is one address. */
  readonly author?: string
  /** The header of the mail that is returned, as far as it is. */
  readonly returned: readonly MimeField[]
}

export interface ReportedRecipient {
  readonly recipient?: string
  readonly action: RecipientAction
  readonly status?: string
  readonly text: string
  /** What was answered, as it stands behind the reply or before it: `in reply to MAIL FROM command`. Status parts quote the reply alone. */
  readonly command?: string
  /** The address that failed is another, which was made of this one. */
  readonly another?: true
  readonly remoteMta?: string
}

/** Of a returned message that is encoded, against RFC 2046 5.2.1, and larger, only the header is decoded: strangers send whatever they like. */
const bounds = { ...mimeBounds, decodedBytes: limits.mimeHeaderBytesMax }

export function readReport(bytes: Buffer): Report {
  const mail = withoutLineEndsBefore(bytes).subarray(0, limits.reportBytesMax)
  const message = readMime(mail, bounds)
  const parts = outermostLeaves(message)
  const returned = returnedFields(message)
  // Or where our bound has cut it.
  const endsMail = (body: Buffer): boolean => body.byteOffset + body.length === mail.byteOffset + mail.length
  const { text: notice, open } = noticeOf(message, parts, endsMail)
  const feedback = feedbackIn(message, parts)
  if (feedback !== undefined)
    return { kind: 'arf', recipients: [], feedback, ...reporterOf(feedback.userAgent), returned }
  if (parts.some(({ contentType }) => isReceipt(contentType.value))) return nothing('receipt', returned)
  const status = statusIn(message, parts, { text: notice, open }, endsMail)
  if (status !== undefined) return dsnReport(status, notice, returned)
  const notification = notificationIn(notice)
  if (notification !== undefined) return notificationReport(notification, returned)
  if (isAutomaticReply(message)) return nothing('auto_reply', returned)
  if (!looksLikeBounce(message, notice)) return nothing('other', returned)
  const last = parts.at(-1)
  const isCut =
    last !== undefined &&
    !isReturned(last.contentType.value) &&
    (endsMail(last.body) || (message.malformed && last.body.length === 0))
  // In parts, and it ends within one of them: what would have followed might have said the opposite.
  const isLost = isCut && last !== message
  const whole = isLost ? '' : withoutCutParagraph(notice, open)
  const { delayed, recipients } = readBounceText(whole, subjectOf(message))
  const failed = failedRecipients(message)
  const author = authorOf(message)
  // Nobody reports that he himself does not exist: "I have left, this address is no longer valid".
  if (author !== undefined && recipients.every(({ recipient }) => recipient === author))
    return nothing('auto_reply', returned)
  return {
    kind: 'bounce_text',
    ...expandedIn(notice),
    ...(author === undefined ? {} : { author }),
    recipients: recipients.map(({ recipient = failed, text }) => ({
      action: delayed ? 'delayed' : 'failed',
      text,
      ...(recipient === undefined ? {} : { recipient }),
    })),
    returned,
  }
}

/** What we wrote into the header of the mail that came back. */
export function returnedToken(report: Pick<Report, 'returned'>): string | undefined {
  const field = report.returned.find(({ name }) => name === 'x-posthorn-token')
  return field === undefined ? undefined : unfolded(field)
}

function nothing(kind: ReportKind, returned: readonly MimeField[]): Report {
  return { kind, recipients: [], returned }
}

/** Postfix and sendmail, then Exim. */
const expandedIn = (notice: string): { expanded?: true } =>
  /\((?:expanded|generated) from:?\s/.test(notice) ? { expanded: true } : {}

const reporterOf = (reporter: string | undefined): { reporter?: string } => (reporter === undefined ? {} : { reporter })

/** Nobody knows what the paragraph that was cut off, or has lines behind our bound, would have said: the command that was refused stands at the end. */
function withoutCutParagraph(notice: string, open: boolean): string {
  const lines = linesOf(notice)
  // What stands behind the last line end is no line.
  if (lines.at(-1) === '') lines.pop()
  if (!open && lines.length <= limits.reportLinesMax) return notice
  const read = lines.slice(0, limits.reportLinesMax)
  return read.slice(0, read.findLastIndex((line) => line.trim() === '') + 1).join('\n')
}

/** A mail that begins with empty lines has its header behind them. */
function withoutLineEndsBefore(bytes: Buffer): Buffer {
  let at = 0
  while (at < limits.reportBytesMax && (bytes[at] === 10 || bytes[at] === 13)) at++
  return bytes.subarray(at)
}

/** Parts of the mail itself, not of what it returns. */
function outermostLeaves(message: MimeEntity): readonly MimeEntity[] {
  const leaves: MimeEntity[] = []
  const waiting = [message]
  for (let next = waiting.pop(); next !== undefined && leaves.length < limits.reportPartsMax; next = waiting.pop()) {
    if (!next.contentType.value.startsWith('multipart/')) leaves.push(next)
    else waiting.push(...next.parts.toReversed())
  }
  return leaves
}

const isStatus = (type: string): boolean => /^message\/(?:global-)?delivery-status$/.test(type)
const isReceipt = (type: string): boolean => /^message\/(?:global-)?disposition-notification$/.test(type)
const isFeedback = (type: string): boolean => type === 'message/feedback-report'
const isReturned = (type: string): boolean =>
  /^(?:message\/(?:rfc822|global|rfc822-headers?|global-headers)|text\/rfc822(?:-headers?)?)$/.test(type)

interface Notice {
  readonly text: string
  /** It goes on behind what is read of it, or was cut off on the way: of a mail that is one text, a line without its end tells. */
  readonly open: boolean
}

/** What the mail system wrote for people; where the parts do not come apart, all that there is. */
function noticeOf(message: MimeEntity, parts: readonly MimeEntity[], endsMail: (body: Buffer) => boolean): Notice {
  const texts = parts.filter(({ contentType }) => contentType.value === 'text/plain')
  const plain =
    texts.length > 0 ? texts : parts.filter(({ contentType }) => contentType.value === 'text/html').slice(0, 1)
  let text = ''
  let open = false
  for (const part of plain) {
    const own = beginningOf(part)
    text += `${text === '' ? '' : '\n\n'}${part.contentType.value === 'text/html' ? withoutTags(own) : own}`
    const isLong = part.body.length > limits.reportTextBytesMax || text.length > limits.reportTextBytesMax
    open = isLong || (endsMail(part.body) && !(part === message && /[\r\n]$/.test(own)))
    if (isLong) break
  }
  if (text.trim() === '' && message.contentType.value.startsWith('multipart/')) {
    const bare = message.parts.length === 0 ? message.body : message.preamble
    open = bare === message.body || bare.length > limits.reportTextBytesMax
    return { text: bare.toString('utf8', 0, limits.reportTextBytesMax), open }
  }
  return { text: text.slice(0, limits.reportTextBytesMax), open }
}

/** As much of the text as is looked at: what stands behind is not even decoded. */
function beginningOf(part: MimeEntity, bytesMax: number = limits.reportTextBytesMax): string {
  return decodedText({ ...part, body: part.body.subarray(0, bytesMax) })
}

/** Enough for a notice that comes in HTML alone: tags end a line. One pass. */
function withoutTags(html: string): string {
  let text = ''
  for (const piece of html.slice(0, limits.reportTextBytesMax).split('<')) {
    const end = piece.indexOf('>')
    const tag = piece.slice(0, Math.max(0, end)).toLowerCase()
    text += (/^\/?(?:p|br|div|tr|td|li|h\d)\b/.test(tag) ? '\n' : '') + piece.slice(end + 1)
  }
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&nbsp;', ' ').replaceAll('&quot;', '"').replaceAll('&amp;', '&') // prettier-ignore
}

function returnedFields(message: MimeEntity): readonly MimeField[] {
  const waiting: MimeEntity[] = [message]
  for (
    let next = waiting.shift(), left = limits.reportPartsMax;
    next !== undefined && left > 0;
    next = waiting.shift(), left--
  ) {
    if (isReturned(next.contentType.value)) {
      const inner = next.parts[0] ?? readMime(Buffer.from(beginningOf(next, limits.mimeHeaderBytesMax)))
      return inner.fields
    }
    waiting.push(...next.parts)
  }
  return []
}

function feedbackIn(message: MimeEntity, parts: readonly MimeEntity[]): FeedbackReport | undefined {
  const part = parts.find(({ contentType }) => isFeedback(contentType.value))
  const read = part === undefined ? undefined : readFeedbackReport(beginningOf(part))
  if (read !== undefined) return read
  // Outlook.com's junk mail reporting predates ARF: a complaint is mail from there, or through Amazon SES, with the mail itself attached.
  const from = (fieldValue(message, 'from') ?? '').slice(0, 500).toLowerCase()
  const attached = parts.some(({ contentType }) => contentType.value === 'message/rfc822')
  const complains = /^complaint about message from /i.test(fieldValue(message, 'subject') ?? '')
  return attached && complains && /\bstaff@hotmail\.com\b|\bcomplaints@email-abuse\.amazonses\.com\b/.test(from)
    ? { type: 'abuse', userAgent: 'Hotmail' }
    : undefined
}

/** In its own part; in a text that is attached instead; or among the words, where the parts were lost. */
function statusIn(
  message: MimeEntity,
  parts: readonly MimeEntity[],
  notice: Notice,
  endsMail: (body: Buffer) => boolean,
): DeliveryStatus | undefined {
  for (const part of parts.filter(({ contentType }) => isStatus(contentType.value))) {
    const isLong = part.body.length > limits.reportTextBytesMax
    const read = readDeliveryStatus(beginningOf(part), isLong || endsMail(part.body))
    if (read !== undefined) return read
  }
  if (!/^(?:> ?)?(?:final|original)-recipient[ \t]{0,4}:/im.test(notice.text)) return undefined
  return isAutomaticReply(message) ? undefined : readDeliveryStatus(notice.text, notice.open)
}

function dsnReport(status: DeliveryStatus, notice: string, returned: readonly MimeField[]): Report {
  const transcript = transcriptOf(notice)
  // Of several recipients each is judged by what is said of it: the first reply of a transcript may be about another one.
  const isAlone = status.recipients.length === 1
  // Read when the first recipient that failed needs it, and once: a report may name many.
  let words: ReadonlyMap<string | undefined, string> | undefined
  const wordsFor = (recipient: string): string => (words ??= wordsIn(notice)).get(recipient.toLowerCase()) ?? ''
  const envelopeId = status.message.get('original-envelope-id')
  return {
    kind: 'dsn',
    recipients: status.recipients.map(({ recipient, action, status, diagnostic, smtp, remoteMta, another, cut }) => {
      if (cut) return { action, text: '', ...(recipient === undefined ? {} : { recipient }) }
      const command =
        action === 'failed' && recipient !== undefined
          ? commandOf(wordsFor(recipient), isAlone ? notice : '')
          : undefined
      // `x-unix; 67` says nothing that a rule could read: then the words of the transcript do.
      const mute = diagnostic === undefined || (!smtp && !/[a-z]{3}/i.test(diagnostic))
      return {
        action,
        text: mute
          ? `${diagnostic ?? ''} ${(isAlone && transcript) || (recipient === undefined ? '' : wordsFor(recipient)) || transcript}`.trim()
          : diagnostic,
        ...(recipient === undefined ? {} : { recipient }),
        ...(status === undefined ? {} : { status }),
        ...(command === undefined ? {} : { command }),
        ...(another === undefined ? {} : { another }),
        ...(remoteMta === undefined ? {} : { remoteMta }),
      }
    }),
    ...expandedIn(notice),
    ...reporterOf(status.message.get('reporting-mta')?.replace(/^[A-Za-z0-9-]{1,20}\s{0,4};\s{0,8}/, '')),
    ...(envelopeId === undefined ? {} : { envelopeId }),
    returned,
  }
}

/**
 * In the words about a recipient; of a lone one, in sendmail's transcript. There `DATA` tells nothing: it stands for the last command that was sent,
 * and replies to RCPT come behind it.
 */
function commandOf(words: string, transcript: string): string | undefined {
  const named = commandIn.exec(words)?.[0]
  if (named !== undefined || /^>>> (?:RCPT|DATA)/im.test(transcript)) return named
  return /^>>> MAIL From:/im.exec(transcript)?.[0]
}

/** Postfix, then Exim. */
const commandIn =
  /\bin reply to [a-z ]{3,20} command\b|\bafter (?:pipelined )?(?:[a-z]{4} (?:from|to):|[a-z ]{4,20}:)|\brefused to talk to me\b/i

/** Exim says about its own findings in the human part alone. */
function wordsIn(notice: string): ReadonlyMap<string | undefined, string> {
  return new Map(readBounceText(notice, '').recipients.map(({ recipient, text }) => [recipient, text]))
}

/** What stands under sendmail's "Transcript of session follows", else the first SMTP-looking line. */
function transcriptOf(notice: string): string {
  const lines = linesOf(notice.slice(0, limits.reportTextBytesMax)).slice(0, limits.reportLinesMax)
  const head = lines.findIndex((line) => /^[> ]{0,4}-{3,}\s*transcript of session follows/i.test(line.slice(0, 200)))
  if (head === -1) return replyIn(lines) ?? ''
  const rest = lines.slice(head + 1, head + 13)
  const end = rest.findIndex((line) => line.trim() === '')
  return rest.slice(0, end === -1 ? rest.length : end).join(' ').slice(0, limits.reportTextCharactersMax) // prettier-ignore
}

const actionOfNotification = { delivered: 'delivered', bounce: 'failed', delay: 'delayed' } as const

function notificationReport(notification: SesNotification, returned: readonly MimeField[]): Report {
  const tokens = tokensIn(notification)
  if (notification.kind === 'complaint') {
    const type = notification.feedbackType ?? 'abuse'
    const recipient = notification.recipients[0]?.recipient
    return {
      kind: 'arf',
      recipients: [],
      feedback: { type, ...(recipient === undefined ? {} : { recipient }) },
      tokens,
      returned,
    }
  }
  const action = actionOfNotification[notification.kind]
  return {
    kind: 'notification',
    recipients: notification.recipients.map(({ recipient, status, diagnostic }) => ({
      recipient,
      action,
      text: diagnostic ?? '',
      ...(status === undefined ? {} : { status }),
    })),
    tokens,
    returned,
  }
}
