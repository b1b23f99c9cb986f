// Bounces without a machine-readable part, as old systems write them (qmail, Exim, sendmail 8.8, Exchange, Notes, Courier, gateways):
// for each recipient that the text names, what the remote side said about it. There is no standard: what the families have in common is
// an address that stands alone at the beginning of a line, the reason below it, and then a copy of the mail, which is never read.
// *Which message* bounced never comes from here.
import { limits } from '../config.ts'
import { linesOf } from './dsn-rfc3464.ts'

export interface TextBounce {
  readonly delayed: boolean
  readonly recipients: readonly { readonly recipient?: string; readonly text: string }[]
}

/** A line behind which stands a copy of the mail, and no word of the mail system. */
const copyBegins = [
  /^[-=*_ ]{0,20}(?:below this line is|this is|here is|following is|a copy of|start of) .{0,30}\b(?:copy|message|headers|mail)\b/,
  /^[-=*_ ]{3,20}(?:(?:your |the )?(?:original|returned|unsent|undelivered|attached) (?:message|mail)|message header|message follows|header follows|start of returned message)/,
  /^[-=*_ ]{0,20}(?:original message follows|the original message (?:follows|headers|was as follows)|(?:your |the )?(?:original |unsent )?(?:message|mail)(?: headers?)? (?:follows|begins)|message header follows|text of your message)/,
  /^(?:return-path: |received: from |received: by |dkim-signature:|x-apparently-to: )/,
]

const lookAhead = '(?=$|[\\s:;,.>)])'
const address = '[^\\s<>()\\[\\]:;,"]{1,64}@[a-z0-9.-]{1,190}'
/** An address at the beginning of a line, with nothing before it but what the families put there. */
const recipientLine = new RegExp(
  `^(?:>\\s?)?\\s{0,8}(?:\\*{1,3} |- |to: |recipient: |recipient address: |user: |failed recipient: |address: |rcpt to:|the following address(?:es)? (?:had|failed)[^:]{0,40}: )?<?(?:(?:smtp|rfc822)[;:=]\\s?)?(${address})>?${lookAhead}`,
)
const replyLine =
  /(?:^|[^\d.])[45]\d\d[ -](?![\d.]{1,4}$)|#[45]\.\d{1,3}\.\d{1,3}|(?:^|[\s(;:[])[45]\.\d{1,3}\.\d{1,3}[\s):;]/

const delayWords =
  /\b(?:delayed|warning: (?:could not send|message (?:still )?undelivered|delayed|your message|this is)|will be retried|still being retried|will (?:continue|keep) (?:trying|to try|to attempt)|no action is required on your part|(?:not|n't) need to (?:resend|re-send)|has not (?:yet )?been (?:delivered|collected)|have not yet been delivered|temporary delivery (?:failure|problem)|delivery (?:attempts )?(?:will continue|is delayed|temporarily suspended)|this is a warning|still trying)\b/
const failureWords =
  /\b(?:permanent(?:ly)?|giving up|gave up|(?:could not|cannot|can't|couldn't|can not|unable to|not able to|failed to) (?:be )?deliver|undeliverable|failed permanently|will not be retried)\b/

/** "Undeliverable: your parcel is delayed": behind these words stands the subject of the mail that comes back. */
const quotesBehind =
  /\b(?:undeliver(?:able|ed)|returned (?:mail|message|e-?mail|to sender)|(?<!temporary )(?:delivery|mail|message) fail(?:ure|ed)|failure (?:notice|notification)|status notification \(failure|unzustellbar|nicht zustellbar|non remis|no se pudo entregar)\b/
const ownWords = (subject: string): string =>
  // "Returned mail: warning: could not send message for past 4 hours" is sendmail's own.
  /^(?:returned mail: )?warning: /.test(subject)
    ? subject
    : subject.slice(0, quotesBehind.exec(subject)?.index ?? subject.length)

/** `notice` is what the mail system wrote, without the mail that it returns; `subject` decoded. */
export function readBounceText(notice: string, subject: string): TextBounce {
  const lines = untilCopy(linesOf(notice.slice(0, limits.reportTextBytesMax)))
  const whole = lines.join(' ').toLowerCase()
  const delayed =
    delayWords.test(`${ownWords(subject.toLowerCase())} `) ||
    (delayWords.test(whole) && !failureWords.test(`${subject.toLowerCase()} ${whole}`))
  const blocks = blocksOf(lines)
  const fallback = replyIn(lines) ?? ''
  // Where one recipient is named, the only reply of the text is about it, wherever it stands.
  const shared = blocks.length === 1 ? fallback : ''
  const recipients = blocks.map(({ recipient, lines: own, before }) => ({
    recipient,
    text: replyIn(own) ?? (shared || reasonIn(own) || fallback || bounded(before)),
  }))
  return { delayed, recipients: recipients.length > 0 ? recipients : [{ text: fallback || proseOf(lines) }] }
}

/** The SMTP-looking line of a transcript, for a report whose own fields do not say why. */
export function replyIn(lines: readonly string[]): string | undefined {
  const at = lines.findIndex((line) => replyLine.test(line.slice(0, limits.reportLineCharactersMax)))
  if (at === -1) return undefined
  const before = /^\s*$|^[-=*>]/.test(lines[at - 1] ?? '') ? [] : [lines[at - 1] ?? '']
  return bounded([...before, ...paragraph(lines, at)])
}

function untilCopy(lines: readonly string[]): string[] {
  const out: string[] = []
  for (const line of lines.slice(0, limits.reportLinesMax)) {
    const text = line.slice(0, 200).trimStart().toLowerCase()
    if (out.length > 0 && copyBegins.some((pattern) => pattern.test(text))) break
    out.push(line.slice(0, limits.reportLineCharactersMax))
  }
  return out
}

interface Block {
  readonly recipient: string
  readonly lines: string[]
  /** The paragraph above: some say why first (Notes). */
  readonly before: readonly string[]
}

/** From each line that begins with an address to the next such line; some name all of them first, and then say of each why. */
function blocksOf(lines: readonly string[]): Block[] {
  const blocks: Block[] = []
  let block: Block | undefined
  for (const [at, line] of lines.entries()) {
    const recipient = fromOctal(recipientLine.exec(line.toLowerCase())?.[1])
    if (recipient !== undefined && recipient !== block?.recipient && !/mailer-daemon@|postmaster@/.test(recipient)) {
      block = blocks.find((each) => each.recipient === recipient)
      // Of one too many nothing is told, and nobody else gets its words.
      if (block === undefined && blocks.length < limits.reportRecipientsMax) {
        block = { recipient, lines: [], before: paragraphAbove(lines, at) }
        blocks.push(block)
      }
    }
    block?.lines.push(line)
  }
  return blocks
}

/** Exim's words are ASCII: `\303\244nn@example.org` is änn@. */
function fromOctal(written: string | undefined): string | undefined {
  if (written?.includes('\\') !== true || /[^\x00-\x7f]/.test(written)) return written
  const octets = written.replace(/\\([23][0-7]{2})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  )
  return Buffer.from(octets, 'latin1').toString().toLowerCase()
}

/** The words of a block; nothing where it holds the address alone. */
function reasonIn(lines: readonly string[]): string {
  const prose = proseOf(lines)
  return /[a-z]{3}/i.test(prose.replace(/\S*@\S*/g, '')) ? prose : ''
}

function paragraph(lines: readonly string[], from: number): string[] {
  const end = lines.findIndex((line, at) => at > from && line.trim() === '')
  return lines.slice(from, Math.min(end === -1 ? lines.length : end, from + 8))
}

function paragraphAbove(lines: readonly string[], at: number): string[] {
  const above = lines.slice(Math.max(0, at - 8), at)
  const start = above.findLastIndex((line) => line.trim() === '' || line.startsWith('---'))
  return above.slice(start + 1)
}

/** What somebody quotes was said by somebody else; unless all of it is. */
function proseOf(lines: readonly string[]): string {
  const said = lines.filter((line) => line.trim() !== '')
  const own = said.filter((line) => !/^\s{0,8}>/.test(line))
  return bounded((own.length > 0 ? own : said).slice(0, 12))
}

function bounded(lines: readonly string[]): string {
  return lines
    .map((line) => line.trim())
    .join(' ')
    .slice(0, limits.reportTextCharactersMax)
}
