// SMTP submission (RFC 6409, decisions F): whoever has logged in sends from their workspace's mailboxes. The envelope alone decides the
// recipients, the mail goes on as it was submitted. What is asked here is asked of the other rooms; this file turns a conversation into a
// submission, and the answer into a reply.
import { createHash, hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { whyNoRecipient } from '../accept/accept.ts'
import { limits } from '../config.ts'
import type { Guesses } from '../base/guesses.ts'
import type { Log } from '../base/log.ts'
import { looksLikeApiKey } from '../base/secret.ts'
import { Tally } from '../base/tally.ts'
import { isRefusal, refuse, type Refusal, type RefusalCode } from '../domain/refusal.ts'
import type { RefusedSubmission } from '../domain/refused-submission.ts'
import type { MailboxId, WorkspaceId } from '../domain/message.ts'
import { mayNotSend } from '../domain/standing.ts'
import type { AcceptedMail, MailSubmission, Submitter } from '../domain/submission.ts'
import { parseAddress, unsupportedForm, type EmailAddress } from '../mail/address.ts'
import { isMailMistake, readSubmittedMail, type SubmittedMail } from '../mail/submitted-mail.ts'
import type { Client, Envelope, Offer, Policy } from './policy.ts'
import { mistakes, replyTo, replyToMistake, wordsOf } from './refusals.ts'
import { replies, type Reply } from './reply.ts'

/** The doors of the other rooms. Each may throw a fault, which becomes 451. */
export interface SubmissionDoors {
  login(username: string, password: string): Promise<Submitter | undefined>
  standing(username: string): Promise<Submitter | undefined>
  mailboxOf(workspace: WorkspaceId, sender: EmailAddress): Promise<MailboxId | undefined>
  isSuppressed(workspace: WorkspaceId, recipient: EmailAddress): Promise<boolean>
  acceptMail(submission: MailSubmission): Promise<AcceptedMail | Refusal>
  noteRefused(refused: RefusedSubmission): void
}

/** What is kept of the mail that was refused: its sender where it is not that of the envelope, and which of the two was wrong. */
type About = Pick<RefusedSubmission, 'sender' | 'recipientDomain' | 'field'>

export interface SubmissionTools {
  readonly doors: SubmissionDoors
  readonly guesses: Guesses
  readonly isDatabaseAway: (error: unknown) => boolean
  readonly log: Log
  /** The database's clock, as well as this node knows it: what a mail may ask for ends by that one. */
  readonly now: () => number
}

export const submissionOffer = (hostname: string, startTls: boolean): Offer => ({
  hostname,
  startTls,
  auth: 'after_tls',
  mailNeeds: { tls: true, auth: true },
  chunking: true,
  smtputf8: true,
})

const welcome: Reply = { code: 235, enhanced: '2.7.0', text: 'Authentication succeeded' }
const revoked: Reply = { code: 421, enhanced: '4.7.0', text: 'These credentials are not valid any more', close: true }
const badRecipient = (text: string): Reply => ({
  code: 550,
  enhanced: '5.1.3',
  text: `Bad recipient address: it ${unsupportedForm(text) ?? 'is no local@domain that can be sent to'}`,
})
const crowded: Reply = {
  code: 421,
  enhanced: '4.7.0',
  text: 'Too many sessions with these credentials, come back later',
  close: true,
}
const suppressed = refuse('recipient_suppressed', 'The recipient is on the suppression list of this workspace.')
const notOurs = refuse('mailbox_not_active', 'This sender is not an active mailbox.')

/** Makes the policy of each session. Sessions of one credential are counted over all servers that share it. */
export function submissionPolicies(tools: SubmissionTools): (client: Client) => Policy {
  const perCredential = new Tally()
  return (client) => new SubmissionPolicy(tools, perCredential, client.address)
}

class SubmissionPolicy implements Policy {
  readonly #tools: SubmissionTools
  readonly #perCredential: Tally
  readonly #address: string
  #username = ''
  #submitter: Submitter | undefined
  #credential: string | undefined
  /** What MAIL FROM said last. */
  #from: string | undefined
  #over = false

  constructor(tools: SubmissionTools, perCredential: Tally, address: string) {
    this.#tools = tools
    this.#perCredential = perCredential
    this.#address = address
  }

  async auth(user: string, password: string): Promise<Reply> {
    const submitter = await this.#tools.doors.login(user, password)
    if (submitter === undefined) {
      // Where it came from: operators look for the program whose login fails, and ban those who guess. Never the name: it may be a password in the wrong field.
      this.#tools.log.refused({ source: 'smtp', code: 'invalid_api_key', client: this.#address })
      await this.#tools.guesses.slow(this.#address, `user ${user}`)
      // Whether the key is good is not said, since nobody looked. With other services one token is good for both.
      return [user, password].some(looksLikeApiKey) ? replies.authIsForHttp : replies.authRefused
    }
    // The session has ended meanwhile, and nobody would give its place back.
    if (this.#over) return crowded
    if (this.#perCredential.of(submitter.credentialId) >= limits.submissionSessionsPerCredentialMax) return crowded
    this.#perCredential.add(submitter.credentialId)
    this.#credential = submitter.credentialId
    this.#username = user
    this.#submitter = submitter
    return welcome
  }

  owner(): string {
    return this.#known().workspaceId
  }

  async mail(from: string): Promise<Reply> {
    this.#from = from
    const objection = await this.#objection()
    if (objection !== undefined) return objection
    const submitter = this.#known()
    const sender = parseAddress(from)
    if (sender === undefined) return this.#refuse(notOurs, { field: 'MAIL FROM' })
    const mailbox = await this.#tools.doors.mailboxOf(submitter.workspaceId, sender)
    return mailbox === undefined ? this.#refuse(notOurs, { field: 'MAIL FROM' }) : replies.senderOk
  }

  async rcpt(text: string): Promise<Reply> {
    const recipient = parseAddress(text)
    if (recipient === undefined) {
      const reply = badRecipient(text)
      this.#note('invalid_request', reply.text)
      return reply
    }
    const objection = whyNoRecipient(recipient)
    if (objection !== undefined) return this.#refuse(objection, { recipientDomain: recipient.domain })
    if (await this.#tools.doors.isSuppressed(this.#known().workspaceId, recipient))
      return this.#refuse(suppressed, { recipientDomain: recipient.domain })
    return replies.recipientOk
  }

  async message(bytes: Buffer, envelope: Envelope): Promise<Reply> {
    const began = performance.now()
    // A transaction may stay open for as long as its session: what was revoked or blocked meanwhile counts.
    const objection = await this.#objection()
    if (objection !== undefined) return objection
    const { workspaceId, credentialId } = this.#known()
    const recipients = differentOf(envelope.recipients)
    const about: About = recipients.length === 1 && recipients[0] ? { recipientDomain: recipients[0].domain } : {}
    const mail = readSubmittedMail(bytes, envelope.smtputf8, this.#tools.now())
    if (isMailMistake(mail)) {
      this.#note(mistakes[mail.mistake].counts, mail.words, about)
      return replyToMistake(mail)
    }
    const { doors } = this.#tools
    const [mailboxId, sender] = await Promise.all([
      doors.mailboxOf(workspaceId, mail.from),
      envelope.from === mail.from.text ? 'the same' : doors.mailboxOf(workspaceId, addressOf(envelope.from)),
    ])
    if (mailboxId === undefined) return this.#refuse(notOurs, { ...about, sender: mail.from.text, field: 'From' })
    if (sender === undefined) return this.#refuse(notOurs, { ...about, field: 'MAIL FROM' })
    const idempotency = await idempotencyOf(mail, bytes, envelope, credentialId)
    const answer = await this.#tools.doors.acceptMail({
      workspaceId,
      mailboxId,
      recipients,
      scanned: bytes,
      ...(mail.plainText !== undefined && { plainText: mail.plainText }),
      content: mail.content,
      lacks: mail.lacks,
      senderDomain: mail.from.domain,
      subject: mail.subject,
      ...(mail.expiresAt !== undefined && { expiresAt: mail.expiresAt }),
      ...(mail.metadata !== undefined && { metadata: mail.metadata }),
      ...(idempotency !== undefined && { idempotency }),
      // The last statement may take its time too, and its outcome may have to be looked up.
      until: began + limits.submissionAnswerMs - 3 * limits.databaseAnswerMs,
    })
    if (isRefusal(answer)) return this.#refuse(answer, about)
    const ms = Math.round((performance.now() - began) * 10) / 10
    for (const messageId of answer.ids)
      this.#tools.log.accepted({ source: 'smtp', workspaceId, credentialId, messageId, ms, replayed: answer.replayed })
    return { code: 250, enhanced: '2.0.0', text: acceptedAs(answer.ids) }
  }

  /** Where nobody has logged in, there is nobody to tell; among the 4yz replies only a lack of room is our own trouble. */
  refused(reply: Reply, recipients: readonly string[], from: string | undefined): void {
    const { code, text } = reply
    if (this.#submitter === undefined) return
    if (reply === replies.noRoom) return this.#note('service_unavailable', text)
    if (code < 500) return
    this.#from = from
    const recipient = recipients.length === 1 ? parseAddress(recipients[0] ?? '') : undefined
    const counts = code === 552 ? 'payload_too_large' : 'invalid_request'
    this.#note(counts, text, recipient === undefined ? {} : { recipientDomain: recipient.domain })
  }

  /** Refused like any other: who counts refusals for troubles of our own looks at nothing else. */
  failed(error: unknown): void {
    const code = this.#tools.isDatabaseAway(error) ? 'service_unavailable' : 'internal_error'
    const { workspaceId, credentialId } = this.#submitter ?? {}
    this.#tools.log.refused({ source: 'smtp', code, workspaceId, credentialId })
  }

  ended(): void {
    this.#over = true
    if (this.#credential === undefined) return
    this.#perCredential.take(this.#credential)
    this.#credential = undefined
  }

  /** Why the one who has logged in may not send now. */
  async #objection(): Promise<Reply | undefined> {
    const submitter = await this.#tools.doors.standing(this.#username)
    if (submitter === undefined) return revoked
    this.#submitter = submitter
    const refusal = mayNotSend(submitter)
    return refusal && this.#refuse(refusal)
  }

  #known(): Submitter {
    if (this.#submitter === undefined) throw new Error('a transaction without a user')
    return this.#submitter
  }

  #refuse(refusal: Refusal, about?: About): Reply {
    this.#note(refusal.code, wordsOf(refusal), about)
    return replyTo(refusal)
  }

  /** Our own trouble is no refusal. */
  #note(code: RefusalCode, error: string, about: About = {}): void {
    const { workspaceId, credentialId } = this.#known()
    this.#tools.log.refused({ source: 'smtp', code, workspaceId, credentialId })
    if (code === 'service_unavailable' || code === 'scanner_unavailable') return
    this.#tools.doors.noteRefused({
      workspaceId,
      source: 'smtp',
      code,
      error,
      callerId: credentialId,
      ...(this.#from !== undefined && { sender: this.#from === '' ? '<>' : this.#from }),
      ...about,
    })
  }
}

/**
 * All ids: one in a line, or where they are many as many as its 512 octets hold (RFC 5321 4.5.3.1.5). Exim has room for 4,096 octets of a reply, msmtp for 50
 * lines. A client that cannot read our yes takes it for none, and a mail server then hands the mail in again, for days.
 */
function acceptedAs(ids: readonly string[]): string {
  const inLine = ids.length <= linesRead ? 1 : idsInLine
  const lines: string[] = []
  for (let at = 0; at < ids.length; at += inLine) lines.push(`Accepted as ${ids.slice(at, at + inLine).join(' ')}`)
  return lines.join('\n')
}

const linesRead = 48
const idsInLine = 13

/** Of what passed `mail` or `rcpt`. */
function addressOf(text: string): EmailAddress {
  const address = parseAddress(text)
  if (address === undefined) throw new Error('a sender or a recipient that is no address was taken')
  return address
}

/** The same address twice is one message. */
function differentOf(texts: readonly string[]): EmailAddress[] {
  const found = new Map<string, EmailAddress>()
  for (const address of texts.map(addressOf)) {
    if (!found.has(address.text)) found.set(address.text, address)
  }
  return [...found.values()]
}

/**
 * The client's key, or else what makes the identical mail the same one (delivery-semantics 9, decision 0081): credential, sender and content,
 * to each recipient. Without a Message-ID, and without the id of a mail server, nobody can tell a repeat from a second mail with the same words.
 */
async function idempotencyOf(
  mail: SubmittedMail,
  bytes: Buffer,
  { from }: Envelope,
  credentialId: string,
): Promise<MailSubmission['idempotency']> {
  const { idempotencyKey: key, isNamed, isDated } = mail
  if (key === undefined && !isNamed) return undefined
  const content = await sha256(bytes)
  // Not the recipients: who comes again without an answer may come with fewer, or in another order (accept/mail.ts asks for them).
  if (key !== undefined) return { kind: 'key', key, hash: hash('sha256', [mail.from.key, content].join('\n')) }
  const keptMs = isDated ? limits.datedRepeatKeptMs : limits.repeatKeptMs
  return { kind: 'repeat', key: hash('sha256', [credentialId, from, content].join('\n')), hash: content, keptMs }
}

/** A big mail is hashed piece by piece, with the event loop free in between: beside it would need copies. */
async function sha256(bytes: Buffer): Promise<string> {
  if (bytes.length < limits.smtpBlockBytes) return hash('sha256', bytes)
  const sum = createHash('sha256')
  for (let at = 0; at < bytes.length; at += hashedAtOnceBytes) {
    if (at > 0) await setImmediate()
    sum.update(bytes.subarray(at, at + hashedAtOnceBytes))
  }
  return sum.digest('hex')
}

const hashedAtOnceBytes = 1024 * 1024
