// What other services call the members of a send request. Who comes from one of them is told what it is called here, or that it goes over SMTP;
// it stays an error, because a member that is passed over is mail that is not what its sender meant.
import { refuse, type Refusal } from '../domain/refusal.ts'

interface Way {
  /** The member that stands in its place, where there is one. */
  readonly member?: string
  readonly words: string
}

const overSmtp = 'HTML, Reply-To, Cc, Bcc and header fields of your own are sent over SMTP'
const html: Way = { member: 'bodyText', words: overSmtp }
const text: Way = { member: 'bodyText', words: 'the plain text is called "bodyText" here' }
const onlySmtp: Way = { words: overSmtp }

/** In lower case, without underscores and hyphens: `ReplyTo` (Postmark), `reply_to` (Resend) and `reply-to` are one. */
const ways: ReadonlyMap<string, Way> = new Map([
  ['from', { member: 'mailboxId', words: 'the sender is named by "mailboxId", the id of one of your mailboxes' }],
  ['to', { member: 'recipient', words: 'it is called "recipient" here, and is one plain address' }],
  ['text', text],
  ['textbody', text],
  ['body', text],
  ['html', html],
  ['htmlbody', html],
  ['bodyhtml', html],
  ['replyto', onlySmtp],
  ['cc', onlySmtp],
  ['bcc', onlySmtp],
  ['headers', onlySmtp],
])

const wayOf = (name: string): Way | undefined => ways.get(name.toLowerCase().replaceAll(/[_-]/g, ''))

/** The refusal of a body of another shape, with the way where its author wrote for another service. Code and field stay. */
export function namingTheWay(refusal: Refusal, body: unknown): Refusal {
  const { code, field } = refusal
  if (field === undefined || typeof body !== 'object' || body === null) return refusal
  const way = wayOf(field)
  if (way !== undefined && field in body)
    return refuse(code, `"${field}" is not a member of this request; ${way.words}.`, { field })
  const instead = field in body ? undefined : Object.keys(body).find((name) => wayOf(name)?.member === field)
  if (instead === undefined) return refusal
  const { words } = wayOf(instead) as Way
  return refuse(code, `"${field}" is missing; it is required. "${instead}" is not a member: ${words}.`, { field })
}
