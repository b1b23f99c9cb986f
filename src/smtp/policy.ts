// Who decides in a session: the engine keeps the protocol, a policy says yes or no. One policy per session; whatever it
// remembers dies with it. An answer may take its time: the conversation waits, and so does pipelined input.
import { replies, type Answer, type Reply } from './reply.ts'

export interface Client {
  /** Its own, also behind a proxy that tells it. */
  readonly address: string
  /** Aborted when the connection has ended: nobody waits for the answer any more. */
  readonly gone: AbortSignal
}

/** What MAIL said beside the path. */
export interface MailParameters {
  /** Declared size in bytes, not above the limit. */
  readonly size: number | undefined
  readonly body: '7BIT' | '8BITMIME'
  readonly smtputf8: boolean
}

/** One transaction as it stood when its content was complete. */
export interface Envelope extends MailParameters {
  /** '' for the null sender. */
  readonly from: string
  /** Those that the policy took, as they were written, in order; at least one. */
  readonly recipients: readonly string[]
}

export type Decision = Answer | Promise<Answer>

/** A method that throws, or rejects, is a fault of ours: the engine answers 451 and reports it. */
export interface Policy {
  /** A code other than 220 refuses the whole session. Left out: a plain 220. */
  greet?(): Decision
  /** 2yz: authenticated. Asked only where the offer has AUTH. */
  auth?(user: string, password: string): Decision
  /** To whom the content counts that is being taken, where owners have a share of the room. */
  owner?(): string
  mail(from: string, parameters: MailParameters): Decision
  rcpt(recipient: string): Decision
  /**
   * The content, un-stuffed, every line ending with CR LF, and no CR or LF elsewhere, but where the offer takes such. It may share memory with what
   * was read from the network: copy what is kept longer than the answer takes.
   */
  message(content: Buffer, envelope: Envelope): Decision
  /** Told of a mail that the engine itself has refused, whole or for these recipients, with its sender where that could be read; before the login, too. */
  refused?(reply: Reply, recipients: readonly string[], from: string | undefined): void
  /** Told that one of its methods has failed, to which the client was answered 451. */
  failed?(error: unknown): void
  /** The connection is gone. */
  ended?(): void
}

/** What a server offers and asks for. */
export interface Offer {
  /** Our name in the greeting and in the answer to EHLO. */
  readonly hostname: string
  readonly startTls: boolean
  readonly auth: 'never' | 'after_tls' | 'always'
  readonly mailNeeds: { readonly tls: boolean; readonly auth: boolean }
  readonly chunking: boolean
  readonly smtputf8: boolean
  /** Content with a bare CR or LF is taken as it is: only where none of it ever leaves us again, for whoever read it then might find another mail in it. */
  readonly takesBareLineEnds?: true
}

/** A receiver that takes mail from anybody, in clear text or TLS where a certificate is at hand. */
export const openOffer = (hostname: string, startTls: boolean): Offer => ({
  hostname,
  startTls,
  auth: 'never',
  mailNeeds: { tls: false, auth: false },
  chunking: true,
  smtputf8: true,
})

/** What the policy says; where it fails, at once or later, our own trouble in the protocol's words. */
export function answerOf(ask: () => Decision, fault: (error: unknown) => void): Decision {
  const failed = (error: unknown): Answer => {
    fault(error)
    return replies.fault
  }
  try {
    const answer = ask()
    return answer instanceof Promise ? answer.catch(failed) : answer
  } catch (error) {
    return failed(error)
  }
}
