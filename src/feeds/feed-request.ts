// What every provider's feed is made of: the request as it came, what reading it can give, and the few tools that all of them need.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { MessageEvidence, ProviderReport, ReportedReply } from '../domain/provider-report.ts'

export interface FeedRequest {
  /** A header's value, by lower-case name; undefined where it is missing or came twice. */
  readonly header: (name: string) => string | undefined
  /** As it came: signatures are over these octets. */
  readonly body: Buffer
}

/** What the feed was set up with. */
export interface FeedKeys {
  /** Postmark: password; Mailgun: webhook signing key; SendGrid: public key; generic: secret. */
  readonly secret: string
  /** SES: the topic's ARN. */
  readonly topic: string
}

export type FeedRefusal = 'signature' | 'stale' | 'malformed' | 'topic'

/** What exactly is wrong, for whoever writes such requests themselves. */
export interface FeedMistake {
  readonly field: string
  readonly words: string
}

export type FeedReading =
  | { readonly refused: FeedRefusal; readonly mistake?: FeedMistake }
  /** SNS asks whether we want the topic. */
  | { readonly confirm: string }
  | {
      readonly reports: readonly ProviderReport[]
      /** What must not come twice with another body: a signed token or id. */
      readonly once?: string
    }

export interface FeedProvider {
  /** The certificate that the signature of this request is to be checked with; fetched before `read` is called. */
  certificateUrl?(request: FeedRequest, keys: FeedKeys): string | undefined
  read(request: FeedRequest, keys: FeedKeys, now: Date, certificate?: string): FeedReading
}

export type Json = { readonly [member: string]: unknown }

export function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8')) as unknown
  } catch {
    // Not JSON: every provider's reader refuses `undefined` as malformed.
    return undefined
  }
}

const textCharactersMax = 2_000

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, textCharactersMax) : undefined
}
export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}
export function objectOf(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined
}

/** In constant time, also for texts of different length. */
export function isSame(given: string, wanted: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(wanted))
}

/** `seconds` since 1970, not older than `ageMsMax` and not from the future (clocks differ by minutes). */
export function isFresh(seconds: string, now: Date, ageMsMax: number): boolean {
  if (!/^\d{9,11}$/.test(seconds)) return false
  const age = now.getTime() - Number(seconds) * 1000
  return age <= ageMsMax && age >= -300_000
}

/** Our signed token where the provider hands it back, then the id that it gave the mail. */
export function evidenceOf(tokens: readonly (string | undefined)[], ids: readonly (string | undefined)[]) {
  const evidence: MessageEvidence[] = []
  for (const token of tokens) if (token !== undefined && token !== '') evidence.push({ by: 'token', token })
  for (const id of ids)
    if (id !== undefined && id !== '') evidence.push({ by: 'providerMessageId', providerMessageId: id })
  return evidence
}

/** The local part of our return path, where the provider keeps the envelope's sender. */
export function localPartOf(address: string | undefined): string | undefined {
  const at = address?.lastIndexOf('@') ?? -1
  return address === undefined || at < 1 ? undefined : address.slice(0, at)
}

export function reply(
  action: ReportedReply['action'],
  text: string | undefined,
  more: { code?: number | undefined; enhancedCode?: string | undefined; remoteMta?: string | undefined } = {},
): ReportedReply {
  const { code, enhancedCode, remoteMta } = more
  return {
    action,
    text: text ?? '',
    ...(code !== undefined && Number.isInteger(code) && code >= 200 && code <= 599 && { code }),
    ...(enhancedCode === undefined || !/^[245]\.\d{1,3}\.\d{1,3}$/.test(enhancedCode) ? {} : { enhancedCode }),
    ...(remoteMta === undefined ? {} : { remoteMta }),
  }
}

export function timeOf(value: unknown): Date | undefined {
  const time = typeof value === 'number' ? new Date(value * 1000) : new Date(textOf(value) ?? '')
  return Number.isNaN(time.getTime()) ? undefined : time
}

/** A report without what is not known. */
export function report(
  facts: Pick<ProviderReport, 'kind' | 'evidence' | 'fingerprint'> & {
    readonly reporter: string
    readonly recipient?: string | undefined
    readonly reply?: ReportedReply | undefined
    readonly detail?: string | undefined
    readonly occurredAt?: Date | undefined
  },
): ProviderReport {
  const { recipient, reply, detail, occurredAt, ...more } = facts
  return {
    ...more,
    source: 'feed',
    ...(recipient === undefined ? {} : { recipient }),
    ...(reply === undefined ? {} : { reply }),
    ...(detail === undefined ? {} : { detail }),
    ...(occurredAt === undefined ? {} : { occurredAt }),
  }
}
