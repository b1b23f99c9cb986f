// Does a reply ask us to send less, or just to bring this one message later? What it says decides whether the destination is paused, only
// whoever wrote such mail there, or nobody but the message waits. Pure; the first row that fits counts.
import type { Facts, Phase } from '../domain/attempt.ts'

export interface SlowDown {
  /** `destination`: all of its mail waits. `sender`: that of this workspace, whose domain or content is the matter. `message`: only this one. */
  readonly scope: 'destination' | 'sender' | 'message'
  /** How long, where they said it. */
  readonly ms?: number
  /** Fewer connections at once are wanted. */
  readonly fewerConnections: boolean
}

interface Row {
  readonly scope: SlowDown['scope']
  readonly code?: number
  readonly enhanced?: RegExp
  readonly text?: RegExp
}

const rows: readonly Row[] = [
  // A greylist knows sender, recipient and us: other mail passes. Before 4.7.1, which it mostly carries.
  { scope: 'message', text: /gr[ae]y-?\s?list/i },
  // Rspamd's, of a mail that it has read.
  { scope: 'message', code: 451, enhanced: /^4\.7\.1$/, text: /^4\.7\.1 +try again later\.?$/i },
  // The host closes the line, and names no mailbox: 4.1.0 says no more than "an address" (Comcast: "Throttled").
  { scope: 'destination', code: 421, enhanced: /^4\.[12]\.0$/ },
  // About one mailbox: full, over its own rate, unknown for now.
  { scope: 'message', enhanced: /^4\.(?:1|2)\./ },
  // The same in other codes: iCloud names the mailbox, and Exchange Online means one customer of its many, or what it could not reach behind itself.
  {
    scope: 'message',
    text: /\bmessages? to <?[^\s@]{1,64}@|\borganization queue quota\b|\btemporary server error\b.{0,40}\b(?:prx|attr)\d/i,
  },
  // Postfix puts the party first that its rule was about, and 4.7.1 behind whatever rule it was: `<ada@example.com>: Recipient address rejected`. A domain that
  // points at a host which does not serve it ("Relay access denied") is nothing to those that it does serve.
  {
    scope: 'message',
    text: /\brecipient address\b.{0,300}\b(?:rejected|blocked)\b|\brelay(?:ing)?\b.{0,20}\bdenied\b/i,
  },
  { scope: 'sender', text: /\bsender address\b.{0,300}\b(?:rejected|blocked)\b/i },
  // The name servers of the sender's domain have not answered whoever checked it.
  { scope: 'sender', text: /\b(?:spf|dkim|dmarc)\b/i },
  // The sender's domain has not proved itself: what is wrong with SPF, DKIM or DMARC (IANA's registry of RFC 5248, and Gmail's own). But 4.7.23, which Gmail
  // has for a reverse name, and 4.7.25 and 4.7.28, are about our address.
  { scope: 'sender', enhanced: /^4\.7\.(?:2[0-24679]|3[0-2]|40)$/ },
  // Gmail, of a domain that has a bad name, and of what the mail says.
  {
    scope: 'sender',
    text: /\b(?:sending|sender|from|dkim|spf|url) domains?\b|\bnature of the content\b|\bsame message-id\b/i,
  },
  { scope: 'destination', code: 421 },
  { scope: 'destination', enhanced: /^4\.7\./ },
  { scope: 'destination', enhanced: /^4\.(?:3\.2|4\.5)$/ },
  {
    scope: 'destination',
    text: /too (?:many|much) (?:concurrent |simultaneous |open )?(?:connections?|sessions?|messages?|mails?|requests?)|rate[- ]?limit|limit(?:ed)? exceeded|throttl|slow down|too fast|too frequent|temporarily (?:deferred|blocked|rate)|reputation/i,
  },
  { scope: 'message' },
]

/** Nobody has told them yet whose mail it is. */
const knowsNobody: ReadonlySet<Phase> = new Set(['greeting', 'ehlo', 'tls'])
/** Microsoft's submission says threads: `432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded`. */
const connectionWords = /connections?\b|sessions?\b|concurren|\bthread limit\b/i

export function slowDownAskedBy({ phase, reply, trouble }: Facts): SlowDown | undefined {
  if (reply === undefined || reply.code < 400 || reply.code > 499) return undefined
  if (trouble !== undefined || phase === 'auth') return undefined
  const found = rows.find(
    ({ scope, code, enhanced, text }) =>
      (scope !== 'sender' || !knowsNobody.has(phase)) &&
      (code === undefined || code === reply.code) &&
      (enhanced === undefined || enhanced.test(reply.enhancedCode ?? '')) &&
      (text === undefined || text.test(reply.text)),
  )
  if (found === undefined) return undefined
  const ms = waitSaid(reply.text)
  const fewerConnections =
    found.scope === 'destination' &&
    /too many|exceed|limit|maximum/i.test(reply.text) &&
    connectionWords.test(reply.text)
  return { scope: found.scope, ...(ms !== undefined && { ms }), fewerConnections }
}

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3600_000 }

/** "try again in 5 minutes", "retry after 300 seconds", "come back in 00:04:59", "wait 30s". */
export function waitSaid(text: string): number | undefined {
  const clock = /\b(?:in|after|wait|for)\s+(\d{1,2}):(\d{2}):(\d{2})\b/i.exec(text)
  if (clock !== null) return (Number(clock[1]) * 3600 + Number(clock[2]) * 60 + Number(clock[3])) * 1000
  const words =
    /\b(?:in|after|wait(?:ing)?|for|retry[- ]?after[:=]?|least)\s+(?:about |at least |another )?(\d{1,5})\s*(s|m|h)(?:ec(?:ond)?s?|in(?:ute)?s?|(?:ou)?rs?)?\b/i.exec(
      text,
    )
  if (words === null) return undefined
  return Number(words[1]) * (unitMs[words[2]?.toLowerCase() ?? ''] ?? 1_000)
}
