// The sandbox: a real receiving SMTP server on loopback that takes every recipient and hands what it gets to `keep` before it
// says 250. At the simulator's domain it behaves as the address asks (decisions J).
import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { limits } from '../config.ts'
import { BoundedMap } from '../base/bounded-map.ts'
import type { Log } from '../base/log.ts'
import { simulatorDomain } from '../domain/simulator.ts'
import { openOffer, type Client, type Envelope, type Policy } from './policy.ts'
import { replies, type Answer, type Reply } from './reply.ts'
import { smtpServer, type SmtpServer } from './server.ts'
import { reportMail, type ReportMail } from './simulator-reports.ts'
import { behaviourOf } from './simulator.ts'

/** One mail for one recipient. `queueId` stands in the reply, and is the same for all recipients of one transaction. */
export interface SandboxMail {
  readonly envelopeFrom: string
  readonly recipient: string
  readonly content: Buffer
  readonly receivedAt: Date
  readonly queueId: string
}

export interface SandboxOptions {
  /** Resolves when the mail is kept for good: the 250 follows. A rejection becomes 451. */
  readonly keep: (mail: SandboxMail) => Promise<void>
  /** Given what the simulator's addresses report about a mail, once it is accepted. */
  readonly report?: (mail: ReportMail) => void
  readonly log: Log
  /** How long `slow@` lets its sender wait. */
  readonly slowMs?: number
  readonly stopMs?: number
}

const slowReplyMs = 20_000
const deferralsPerMessage = 2

const rcptRefusals = {
  'hard-bounce': { code: 550, enhanced: '5.1.1', text: 'No such user here' },
  policy: { code: 550, enhanced: '5.7.1', text: 'Refused by policy' },
} as const satisfies Record<string, Reply>
const unknownName: Reply = { code: 550, enhanced: '5.1.1', text: 'The simulator does not know this name' }
const comeBack: Reply = { code: 451, enhanced: '4.7.1', text: 'Deferred, come back later' }

export function sandboxServer({
  keep,
  report = () => undefined,
  log,
  slowMs = slowReplyMs,
  stopMs = limits.smtpStopMs,
}: SandboxOptions): SmtpServer {
  const deferrals = new Deferrals()
  const nextQueueId = queueIds()

  const receive = async (content: Buffer, envelope: Envelope, client: Client): Promise<Answer> => {
    const behaviours = envelope.recipients.map(behaviourOf)
    if (behaviours.includes('deferred') && deferrals.isDue(envelope, content)) return comeBack
    if (behaviours.includes('slow')) await wait(slowMs, undefined, { signal: client.gone }).catch(() => undefined)
    if (client.gone.aborted) return 'drop'
    const queueId = nextQueueId()
    const receivedAt = new Date()
    const mails = envelope.recipients.map((recipient): SandboxMail => ({
      envelopeFrom: envelope.from,
      recipient,
      content,
      receivedAt,
      queueId,
    }))
    await Promise.all(mails.map(keep))
    for (const mail of mails) {
      const told = reportMail(mail)
      if (told !== undefined) report(told)
    }
    // Kept and yet without a reply: the very case in which sending again would make a second copy.
    if (behaviours.includes('unknown')) return 'drop'
    return { code: 250, enhanced: '2.0.0', text: `Ok: queued as ${queueId}` }
  }

  const policy = (client: Client): Policy => ({
    mail: () => replies.senderOk,
    rcpt: (recipient) => {
      const behaviour = behaviourOf(recipient)
      if (behaviour === undefined) return unknownName
      return behaviour in rcptRefusals ? rcptRefusals[behaviour as keyof typeof rcptRefusals] : replies.recipientOk
    },
    message: (content, envelope) => receive(content, envelope, client),
  })

  return smtpServer({
    name: 'sandbox',
    host: '127.0.0.1',
    port: 0,
    offer: openOffer(`sandbox.${simulatorDomain}`, false),
    policy,
    log,
    // All its clients are this machine's own delivery, and it takes whatever that has accepted.
    limits: { sessionsPerAddressMax: limits.smtpSessionsMax, messageBytesMax: limits.feedbackBytesMax, stopMs },
  })
}

/**
 * How often each message was deferred. The count must survive reconnects, which name no message. Its return path does, and where somebody
 * else's sender writes to `deferred@` twice at a time, its Message-ID: both are the same in every attempt (decisions B). The latter is first
 * seen at the final dot: so that is where `deferred@` says 451.
 */
class Deferrals {
  readonly #counts = new BoundedMap<string, number>(limits.sandboxDeferredMax)

  isDue(envelope: Envelope, content: Buffer): boolean {
    const key = [envelope.from, messageIdOf(content), ...envelope.recipients].join('\n')
    const count = this.#counts.get(key) ?? 0
    const isDue = count < deferralsPerMessage
    if (isDue) this.#counts.set(key, count + 1)
    else this.#counts.delete(key)
    return isDue
  }
}

const headerBytesMax = 64 * 1024

/** The Message-ID field's value as written; '' where there is none. */
function messageIdOf(content: Buffer): string {
  const head = content.toString('latin1', 0, headerBytesMax)
  const end = head.indexOf('\r\n\r\n')
  const lines = head.slice(0, end < 0 ? head.length : end).split('\r\n')
  const at = lines.findIndex((line) => line.slice(0, 11).toLowerCase() === 'message-id:')
  // The value may be folded onto the next line (RFC 5322 2.2.3).
  const [field = '', next = ''] = at < 0 ? [] : lines.slice(at, at + 2)
  return `${field.slice(11)}${/^[ \t]/.test(next) ? next : ''}`.trim()
}

/** Ids as mail servers print them: unlike any other of this process, and of the one before. */
function queueIds(): () => string {
  const life = randomBytes(4).toString('hex').toUpperCase()
  let count = 0
  return () => `${life}${(++count).toString(36).toUpperCase().padStart(5, '0')}`
}
