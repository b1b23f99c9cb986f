// What other services call the members of a send request. Who comes from one of them is told what it is called here, or that it goes over SMTP, for all
// members at once; it stays an error, because a member that is passed over is mail that is not what its sender meant.
import { SendMessageRequest } from '../contract/message.ts'
import { refuse, type Refusal } from '../domain/refusal.ts'

interface Way {
  /** The member that stands in its place, where there is one. */
  readonly member?: string
  readonly words: string
}

const from: Way = { member: 'mailboxId', words: 'the sender is named by "mailboxId", the id of one of your mailboxes' }
const to: Way = { member: 'recipient', words: 'it is called "recipient" here, and is one plain address' }
const text: Way = { member: 'bodyText', words: 'the plain text is called "bodyText" here' }
const overSmtp = 'HTML, Reply-To, Cc, Bcc and header fields of your own are sent over SMTP'
const html: Way = { member: 'bodyText', words: overSmtp }
const onlySmtp: Way = { words: overSmtp }
const label: Way = { words: 'names of your own for a message are kept in "metadata"' }
const later: Way = { words: 'there is no time to send at, send it when it is due' }
const template: Way = { words: 'there are no templates, send the text itself as "bodyText"' }
const tracking: Way = { words: 'opens and clicks are not tracked' }
const content: Way = { member: 'contentBase64', words: 'it is called "contentBase64" here, and is the file in Base64' }
const type: Way = { member: 'contentType', words: 'it is called "contentType" here' }

/** In lower case, without underscores and hyphens: `ReplyTo` (Postmark), `reply_to` (Resend) and `reply-to` are one. */
type Ways = Readonly<Record<string, Way>>
const ways: Ways = {
  from,
  fromemail: from,
  fromemailaddress: from,
  sender: from,
  mailbox: from,
  to,
  destination: to,
  personalizations: to,
  recipients: to,
  text,
  textbody: text,
  textcontent: text,
  body: text,
  content: text,
  html,
  htmlbody: html,
  htmlcontent: html,
  bodyhtml: html,
  replyto: onlySmtp,
  cc: onlySmtp,
  bcc: onlySmtp,
  headers: onlySmtp,
  tag: label,
  tags: label,
  categories: label,
  customargs: label,
  scheduledat: later,
  sendat: later,
  template,
  templateid: template,
  trackopens: tracking,
  tracklinks: tracking,
}
const waysOfFiles: Ways = {
  name: { member: 'filename', words: 'it is called "filename" here' },
  content,
  path: content,
  type,
  disposition: onlySmtp,
  contentid: onlySmtp,
}

/** Ours, in another spelling: `Subject`, `mailbox_id`. */
const ours = (schema: { readonly properties: object }): Ways =>
  Object.fromEntries(
    Object.keys(schema.properties).map((member) => [
      member.toLowerCase(),
      { member, words: `it is written "${member}"` },
    ]),
  )
const { attachments } = SendMessageRequest.properties
const known = new Map(Object.entries({ ...ours(SendMessageRequest), ...ways }))
const knownOfFiles = new Map(Object.entries({ ...ours(attachments.items), ...waysOfFiles }))

/** A name may be as long as a body, and is repeated only where it is short. */
const nameCharactersMax = 40
const plain = (name: string): string => name.toLowerCase().replaceAll(/[_-]/g, '')

/** The refusal of a body of another shape, with the way where its author wrote for another service. Code and field stay. */
export function namingTheWay(refusal: Refusal, body: unknown): Refusal {
  const { code, field = '' } = refusal
  const [, index, inFile] = /^attachments\.(\d+)\.(.*)$/s.exec(field) ?? []
  const files = isObject(body) && Array.isArray(body['attachments']) ? (body['attachments'] as unknown[]) : []
  const holder = index === undefined ? body : files[Number(index)]
  if (!isObject(holder)) return refusal
  if (field === 'recipient' && Array.isArray(holder[field]))
    return refuse(code, '"recipient" is one plain address and no list; send a request for each recipient.', { field })

  const foreign = Object.keys(holder).flatMap((name) => {
    const way =
      name.length > nameCharactersMax ? undefined : (inFile === undefined ? known : knownOfFiles).get(plain(name))
    return way === undefined || way.member === name ? [] : [{ name, way }]
  })
  const asked = inFile ?? field
  const first =
    foreign.find(({ name }) => name === asked) ??
    (Object.hasOwn(holder, asked) ? undefined : foreign.find(({ way }) => way.member === asked))
  if (first === undefined) return refusal
  const { name, way } = first
  const words =
    name === asked
      ? `"${field}" is not a member of this request; ${way.words}.`
      : `"${field}" is missing; it is required. "${name}" is not a member: ${way.words}.`
  const told = new Set([way.words])
  const others = foreign.filter((other) => !told.has(other.way.words) && told.add(other.way.words))
  const more = others.map((other) => ` Nor is "${other.name}": ${other.way.words}.`).join('')
  return refuse(code, words + more, { field })
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
