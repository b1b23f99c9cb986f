// The bounce mailbox: a receiving SMTP server for return paths that we wrote, for the complaint address and for postmaster, and for
// nothing else (attacks T12). Never a relay; never answers mail with mail. A report is committed before its 250. Whoever keeps trying addresses
// that are not ours has to wait.
import { withinMemoryOverSmtp } from '../base/spare-memory.ts'
import { limits } from '../config.ts'
import { sourceOf } from '../base/networks.ts'
import type { Log } from '../base/log.ts'
import type { Addressee, Feedback } from '../feedback/feedback.ts'
import { countFields } from '../mail/header-block.ts'
import { ContentRoom } from './content-room.ts'
import { openOffer, type Client, type Envelope, type Policy } from './policy.ts'
import { replies, type Answer, type Reply } from './reply.ts'
import { smtpServer, type SmtpServer, type SmtpServerOptions } from './server.ts'

export interface FeedbackServerOptions extends Pick<
  SmtpServerOptions,
  'host' | 'port' | 'from' | 'tls' | 'renewed' | 'proxies'
> {
  readonly hostname: string
  readonly feedback: Pick<Feedback, 'addresseeOf' | 'isOfRemoved' | 'receive'>
  readonly log: Log
  readonly now?: () => number
}

const nobodyHere: Reply = { code: 550, enhanced: '5.1.1', text: 'No such address here, and nothing is relayed' }
const tooManyUnknown: Reply = { code: 421, enhanced: '4.7.0', text: 'Too many unknown addresses, come back later' }
const comeAgain: Reply = { code: 451, enhanced: '4.7.5', text: 'Your DKIM key could not be looked up, come again' }
const looping: Reply = { code: 554, enhanced: '5.4.6', text: 'This mail goes round in circles' }

export function feedbackServer(options: FeedbackServerOptions): SmtpServer {
  const { feedback, log, hostname } = options
  const unknown = new UnknownAddressees(options.now ?? performance.now.bind(performance))

  const policy = (client: Client): Policy => {
    const network = sourceOf(client.address)
    let addressees = new Map<string, Addressee>()
    const take = async (content: Buffer, envelope: Envelope): Promise<Answer> => {
      if (countFields(content, 'received') > limits.feedbackReceivedFieldsMax) return looping // RFC 5321 6.3
      const known = envelope.recipients.map((recipient) => addressees.get(recipient))
      if (known.includes(undefined)) throw new Error('a recipient that was never looked up')
      const mail = { sender: envelope.from, addressees: known.filter((each) => each !== undefined), content }
      return (await feedback.receive(mail)) === 'later' ? comeAgain : replies.ok
    }
    return {
      mail: () => {
        addressees = new Map()
        return replies.senderOk
      },
      rcpt: async (recipient) => {
        if (unknown.areTooMany(network)) return tooManyUnknown
        const addressee = await feedback.addresseeOf(recipient)
        if (addressee === undefined) {
          // A provider that bounces the last mails of a removed workspace also brings reports of others.
          if (!(await feedback.isOfRemoved(recipient))) unknown.count(network)
          return nobodyHere
        }
        addressees.set(recipient, addressee)
        return replies.recipientOk
      },
      message: take,
    }
  }

  return smtpServer({
    name: 'feedback',
    host: options.host,
    port: options.port,
    from: options.from,
    // What others have put into a report, or returned with it, is no reason to lose it: it is read here, and never sent on.
    offer: { ...openOffer(hostname, options.tls !== undefined), takesBareLineEnds: true },
    policy,
    log,
    ...(options.tls !== undefined && { tls: options.tls }),
    ...(options.renewed !== undefined && { renewed: options.renewed }),
    ...(options.proxies !== undefined && { proxies: options.proxies }),
    room: new ContentRoom({
      ...withinMemoryOverSmtp(log),
      bytesMax: limits.feedbackContentInFlightBytesMax,
      smallBytesMax: limits.feedbackContentInFlightBytesMax,
    }),
    limits: {
      messageBytesMax: limits.feedbackBytesMax,
      sessionsMax: limits.feedbackSessionsMax,
      sessionsPerAddressMax: limits.feedbackSessionsPerAddressMax,
    },
  })
}

/** How many a network has tried; all counts are forgotten together after a while. Bounded: when it is full, a new network has to wait like the others. */
export class UnknownAddressees {
  readonly #now: () => number
  #counts = new Map<string, number>()
  #endsAt = -Infinity

  constructor(now: () => number) {
    this.#now = now
  }

  areTooMany(network: string): boolean {
    if (this.#now() >= this.#endsAt) {
      this.#counts = new Map()
      this.#endsAt = this.#now() + limits.feedbackUnknownMs
    }
    const known = this.#counts.get(network)
    return known === undefined
      ? this.#counts.size >= limits.feedbackUnknownNetworksMax
      : known >= limits.feedbackUnknownMax
  }

  count(network: string): void {
    this.#counts.set(network, (this.#counts.get(network) ?? 0) + 1)
  }
}
