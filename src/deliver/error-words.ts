// Why a message was not accepted, in a sentence for people: `errorMessage` of its record, of its events and of its timeline. Pure.
import type { FailReason, Facts, Outcome, RetryReason, Trouble } from '../domain/attempt.ts'
import type { TransmitResult } from './transmit.ts'

export function errorWords(
  outcome: Exclude<Outcome, { kind: 'accepted' | 'decided' }>,
  result: TransmitResult,
): string {
  const { trouble, attemptsOnHosts } = result
  const asked = trouble === 'paced' ? attemptsOnHosts.at(-1) : undefined
  const seen = asked === undefined ? seenWords(result) : `${othersAskedWords} ${seenWords(asked)}`
  if (outcome.kind === 'unknown')
    return `Remote acceptance cannot be proven; the message is not sent again. ${seen}`.trim()
  const { reason } = outcome
  // An arm that has found it expired says so itself.
  const ranOut = trouble === reason ? undefined : ranOutWords[reason]
  return [ranOut, seen || unseenWords[reason]].filter(Boolean).join(' ')
}

type Words = Readonly<Partial<Record<RetryReason | FailReason, string>>>

/** Of a failure that would have been a retry; what the attempt saw follows. */
const ranOutWords: Words = {
  tries_used_up: 'No try is left.',
  expired: 'The message would expire before the next try.',
}

/** Of an attempt that saw nothing. */
const unseenWords: Words = {
  content_lost: 'The content of the message is gone.',
  not_composable: 'The message could not be composed or signed.',
  worker_lost: 'The worker could not go on before the message was sent.',
  shutdown: 'Delivery was stopped before the message was sent.',
}

const troubleWords = {
  dns_failure: 'The DNS gave no answer.',
  nxdomain: "The recipient's domain does not exist.",
  null_mx: "The recipient's domain accepts no mail (null MX).",
  no_mail_host: "The recipient's domain has no mail host.",
  private_mx: "The recipient's mail hosts have only private addresses.",
  paced: 'The destination wants fewer messages for now; nobody was asked.',
  gave_way: 'The message made way for others while it waited for an answer, or for room.',
  connect_failed: 'No connection could be made.',
  timeout: 'The other side did not answer in time.',
  closed: 'The other side closed the connection.',
  malformed: 'The other side answered with something that is no SMTP reply.',
  tls_failed: 'No TLS session could be made.',
  auth_unavailable: 'The relay offers no way to log in.',
  size: 'The message is larger than the next host accepts.',
  smtputf8: 'The address, or a header field, needs SMTPUTF8, which the next host does not offer.',
  no_8bitmime:
    'The message has 8-bit content that cannot be converted, such as raw header fields, and the next host does not offer 8BITMIME: encode it.',
  arm_failed:
    'The database could not be asked for the message, or it could not be recorded that it is about to be sent.',
  claim_lost: 'Another worker took over.',
  too_late: 'The lease ran out before the message could be sent.',
  expired: 'The message expired before it could be delivered.',
  workspace_blocked: 'The workspace was blocked before the message could be delivered.',
  mailbox_not_active: 'The sender mailbox or its domain is not active any more.',
  suppressed: 'The recipient was suppressed meanwhile.',
  shutdown: 'Delivery was stopped before the message was sent.',
} as const satisfies Record<Trouble, string>

/** Of `connect_failed`. Whatever else the system says stands as it is. */
const causeWords: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'it was refused',
  ECONNRESET: 'it was reset',
  ETIMEDOUT: 'nobody answered in time',
  EHOSTUNREACH: 'the host is out of reach',
  ENETUNREACH: 'its network is out of reach',
  EAFNOSUPPORT: 'this machine has no IPv6',
}

/** Of `tls_failed` before any host was asked. */
const policyWords =
  "The recipient's domain demands TLS (DANE or MTA-STS), and its policy allows none of its mail hosts for now; nobody was asked."

const wordsOf = (trouble: Trouble, cause: string | undefined): string =>
  cause === undefined ? troubleWords[trouble] : `${troubleWords[trouble].slice(0, -1)}: ${causeWords[cause] ?? cause}.`

/** Where in the conversation it was, for people: `mx.example.org said to RCPT: 550 no such user`. */
const whereWords = {
  route: 'before the connection',
  connect: 'at the connection',
  greeting: 'as its greeting',
  ehlo: 'to EHLO',
  tls: 'to STARTTLS',
  auth: 'to the login',
  mail: 'to MAIL',
  rcpt: 'to RCPT',
  data: 'to DATA',
  content: 'during the content',
  arm: 'before the final dot',
  eod: 'to the final dot',
} as const satisfies Record<Facts['phase'], string>

/** Of `paced`, where other hosts were asked before the one that was left for later: what the last of them did follows. */
const othersAskedWords = 'The destination wants fewer messages for now; nobody else was asked.'

/** Of `malformed` where it was a reply, but none to what was said: a 354 to the final dot, a 250 to DATA. */
const strayWords = 'The other side answered with a code that means nothing there.'

function seenWords({ reply, trouble, cause, peer, phase }: Facts): string {
  const host = peer?.host ?? 'The other side'
  const said = reply === undefined ? '' : `${host} said ${whereWords[phase]}: ${reply.code} ${reply.text}`
  if (trouble === undefined) return said
  if (trouble === 'tls_failed' && phase === 'route') return policyWords
  if (trouble === 'malformed' && reply !== undefined) return `${strayWords} ${said}`
  if (trouble === 'tls_failed' && reply !== undefined) return `${troubleWords[trouble]} ${said}`
  return `${wordsOf(trouble, cause)}${peer === undefined ? '' : ` (${peer.host}, ${phase})`}`
}
