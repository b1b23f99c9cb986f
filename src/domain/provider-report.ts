// What a receiving provider says about one message to one recipient, whichever way it came (decisions C): a report by mail to our
// return path, a complaint that carries our token, or a relay provider's own feed. Facts and evidence; who it concerns, and whether it
// counts, is decided where it is recorded (`feedback`).
import { createHash } from 'node:crypto'
import type { RecipientAction } from '../mail/dsn-rfc3464.ts'

/** `bounce_mail`: a bounce without a machine-readable part. */
export type ReportSource = 'dsn' | 'arf' | 'bounce_mail' | 'feed'

/** What names the message. Free text never does. */
export type MessageEvidence =
  /** Our signed token: the return path's, or `X-Posthorn-Token`. */
  | { readonly by: 'token'; readonly token: string }
  /** The id that the relay gave at the end of its conversation (`providerMessageId`). Counts for feeds alone, on their own route. */
  | { readonly by: 'providerMessageId'; readonly providerMessageId: string }

export interface ProviderReport {
  readonly kind: 'delivered' | 'bounce' | 'delay' | 'complaint'
  /** The strongest first: recorded for the first one that finds its message. Empty: unmatched. */
  readonly evidence: readonly MessageEvidence[]
  /** As the report names it; never the one that is suppressed, which is always the message's own. */
  readonly recipient?: string
  /** The reporter says that it had made other addresses of the one that the message went to. */
  readonly expanded?: true
  /** It says so of this one: what failed is an address that it had made of `recipient`. */
  readonly another?: true
  /** Of a bounce, a delay or a delivery: what the remote side said, for `classify`. */
  readonly reply?: ReportedReply
  /** What a person may read about it, bounded. */
  readonly detail?: string
  readonly source: ReportSource
  /** `provider` of a feed: `ses`, `postmark`; reporting MTA of a DSN; feedback loop of an ARF report. */
  readonly reporter?: string
  readonly occurredAt?: Date
  /** The same report, repeated or sent twice, has the same one (SHA-256, hex): it is recorded once. */
  readonly fingerprint: string
}

export interface ReportedReply {
  readonly action: RecipientAction
  readonly code?: number
  readonly enhancedCode?: string
  readonly text: string
  /** Words that name the command which was answered, where the text does not. */
  readonly command?: string
  readonly remoteMta?: string
}

/** Over what is reported, not over the mail or the request: the same report takes another way and another time when it comes again. */
export function fingerprintOf(...facts: readonly (string | undefined)[]): string {
  return createHash('sha256')
    .update(JSON.stringify(facts.map((fact) => fact ?? '')))
    .digest('hex')
}
