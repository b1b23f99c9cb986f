// The id that a receiving server gives a mail, in its reply to the final dot: what its operators look for in their logs, and people in ours.
import type { SmtpReply } from './smtp-reply.ts'

/** How the known servers write their queue id into the reply to the dot. */
const queueIds: readonly RegExp[] = [
  /\bqueued as ([^\s;,>)]+)/i, // Postfix, and many that copy it
  /\bqueued with id ([^\s;,>)]+)/i, // Stalwart
  /\bqueued \(([^\s()]+)\)/i, // Haraka
  /\bid=([^\s;,>)]+)/i, // Exim: OK id=1rABcd-000000001Ab-2xYz
  /\bInternalId=(\d+)/i, // Exchange
  /^(?:2\.\d\.\d )?(?:OK )?\s*(?:\d+ )?(\S+) - gsmtp/i, // Google
  /^(?:2\.\d\.\d )?(?!2\.\d\.\d )(?=\S*\d)(\S+) (?:message accepted|queued)\b/i, // Sendmail, OpenSMTPD; ours. No word of a sentence, and no code
  /^ok\. ([0-9A-F]+\.[0-9A-F]+)$/i, // Courier
  /^ok \d+ qp (\d+)/i, // qmail
  /^(?:2\.\d\.\d )?ok (?=\S*\d)([A-Za-z0-9-]{16,})(?!\S)/i, // Amazon SES
]

/** The other side's queue id in a 2yz reply to the dot: visible ASCII, at most 100 characters; undefined where there is none. */
export function providerMessageId({ code, text }: SmtpReply): string | undefined {
  if (code < 200 || code > 299) return undefined
  for (const pattern of queueIds) {
    const id = pattern.exec(text)?.[1]?.replace(/^<|[>.]$/g, '')
    if (id !== undefined && /^[\x21-\x7e]{1,100}$/.test(id)) return id
  }
  return undefined
}

/** The same out of a reply that somebody copied, with its code or without. */
export const copiedMessageId = (words: string): string | undefined =>
  providerMessageId({ code: 250, text: words.trim().replace(/^2\d\d[ -]/, '') })
