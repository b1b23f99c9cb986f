// The words of one delivery attempt: what was seen (facts) and what it means (outcome). Decisions A and B.
import type { SmtpReply } from '../mail/smtp-reply.ts'

/** How far a conversation got. `content` is everything before the final dot, `eod` everything after it. */
export const phases = [
  'route',
  'connect',
  'greeting',
  'ehlo',
  'tls',
  'auth',
  'mail',
  'rcpt',
  'data',
  'content',
  'arm',
  'eod',
] as const
export type Phase = (typeof phases)[number]

/** `data.reason` of `message.retrying`, decisions B. */
export const retryReasons = [
  'dns',
  'connect',
  'tls',
  'greeting_4xx',
  'greeting_5xx',
  'ehlo_5xx',
  'auth',
  'mail_4xx',
  'rcpt_4xx',
  'data_4xx',
  'eod_4xx',
  'lost_before_eod',
  'arm_failed',
  'worker_lost',
  'shutdown',
] as const
export type RetryReason = (typeof retryReasons)[number]

/** `data.reason` of `message.failed`. */
export const failReasons = [
  'mail_5xx',
  'rcpt_5xx',
  'data_5xx',
  'eod_5xx',
  'eod_4xx_late',
  'nxdomain',
  'null_mx',
  'no_mail_host',
  'private_mx',
  'size',
  'smtputf8',
  'no_8bitmime',
  'expired',
  'tries_used_up',
  'workspace_blocked',
  'mailbox_not_active',
  'recipient_suppressed',
  'content_lost',
  'not_composable',
] as const
export type FailReason = (typeof failReasons)[number]

/** `data.reason` of `message.delivery_unknown`; the last is an operator's word after a restore. */
export const unknownReasons = ['eod_timeout', 'eod_closed', 'eod_malformed', 'worker_lost', 'assumed_sent'] as const
export type UnknownReason = (typeof unknownReasons)[number]

/** Where a conversation took place, for the record. */
export interface Peer {
  readonly host: string
  readonly address?: string
  /** `TLSv1.3` and the like; left out in clear text. */
  readonly tls?: string
  /** What demanded it; left out where nothing did. */
  readonly tlsPolicy?: TlsDemand
}

/** DANE (RFC 7672), MTA-STS (RFC 8461), or the operator's route. */
export type TlsDemand = 'dane' | 'mta_sts' | 'route'

/** Which way a dot went: to the recipient's mail hosts, our sandbox, the installation's relay, or the workspace's own. */
export type RouteTaken = 'mx' | 'sandbox' | 'installation' | 'workspace'

/** What one attempt, over one or several hosts, saw at its end. Facts only: `deliver/outcome.ts` says what they mean. */
export interface Facts {
  readonly phase: Phase
  /** The reply that ended it, if one was read. */
  readonly reply?: SmtpReply
  /** What went wrong where no reply ended it; a reply beside it is for the record. `claim_lost`: the arm found that the row is no longer ours. */
  readonly trouble?: Trouble
  /** Of `connect_failed`: what the system said, `ECONNREFUSED` and the like. */
  readonly cause?: string
  readonly peer?: Peer
}

export const troubles = [
  'dns_failure', // SERVFAIL, REFUSED, timeout
  'nxdomain',
  'null_mx',
  'no_mail_host', // the domain exists, without MX, A or AAAA
  'private_mx',
  'paced', // its provider asked for less, or has had as much as it may: nobody was asked
  'gave_way', // others needed its slot, or its room, while its host said nothing
  'connect_failed',
  'timeout',
  'closed',
  'malformed',
  'tls_failed',
  'auth_unavailable', // a login is set, and the relay offers no way to give it
  'size',
  'smtputf8',
  'no_8bitmime',
  'arm_failed',
  'claim_lost',
  'too_late', // armed, but the lease may have run out before the dot could be written
  'expired', // the arm found it, as each of the next three
  'workspace_blocked',
  'mailbox_not_active',
  'suppressed', // its recipient
  'shutdown',
] as const
export type Trouble = (typeof troubles)[number]

export type Outcome =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'retry'; readonly reason: RetryReason }
  | { readonly kind: 'failed'; readonly reason: FailReason }
  | { readonly kind: 'unknown'; readonly reason: UnknownReason }
  /** Someone else has decided: nothing to write down. */
  | { readonly kind: 'decided' }
