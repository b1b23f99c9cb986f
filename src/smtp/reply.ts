// What our SMTP servers say: a reply as a value, its form on the wire (RFC 5321 4.2, RFC 2034), and every sentence of the
// protocol engine's own. A face's refusals stand in the face's own table.
import type { Mistake } from '../mail/smtp-command.ts'

export interface Reply {
  readonly code: number
  /** RFC 3463; left out in greetings, in answers to EHLO and in 3yz. */
  readonly enhanced?: string
  /** Line feeds part the lines of a longer answer. */
  readonly text: string
  /** Says this, then closes. 421 always does. */
  readonly close?: boolean
}

/** A policy's answer. `drop` closes the connection without a word: only simulators want that. */
export type Answer = Reply | 'drop'

export const isPositive = (reply: Reply): boolean => reply.code < 400

export function formatReply({ code, enhanced, text }: Reply): string {
  const prefix = enhanced === undefined ? '' : `${enhanced} `
  if (!text.includes('\n')) return `${code} ${prefix}${clean(text)}\r\n`
  const lines = text.split('\n')
  return lines.map((line, at) => `${code}${at < lines.length - 1 ? '-' : ' '}${prefix}${clean(line)}\r\n`).join('')
}

// A policy may quote a stranger's words; whatever they hold, a reply stays a reply.
function clean(line: string): string {
  return /[\x00-\x1f\x7f]/.test(line) ? line.replaceAll(/[\x00-\x1f\x7f]/g, ' ') : line
}

export const replies = {
  ok: { code: 250, enhanced: '2.0.0', text: 'Ok' },
  senderOk: { code: 250, enhanced: '2.1.0', text: 'Sender ok' },
  recipientOk: { code: 250, enhanced: '2.1.5', text: 'Recipient ok' },
  chunkOk: { code: 250, enhanced: '2.0.0', text: 'Chunk ok' },
  goAhead: { code: 354, text: 'End data with <CRLF>.<CRLF>' },
  bye: { code: 221, enhanced: '2.0.0', text: 'Bye', close: true },
  readyForTls: { code: 220, enhanced: '2.0.0', text: 'Ready to start TLS' },
  help: { code: 214, enhanced: '2.0.0', text: 'RFC 5321' },
  cannotVerify: { code: 252, enhanced: '2.5.2', text: 'Cannot verify, send and see' },

  notOffered: { code: 502, enhanced: '5.5.1', text: 'Not offered' },
  sayEhlo: { code: 503, enhanced: '5.5.1', text: 'Say EHLO first' },
  outOfOrder: { code: 503, enhanced: '5.5.1', text: 'Out of order' },
  sayMail: { code: 503, enhanced: '5.5.1', text: 'Say MAIL first' },
  sayRcpt: { code: 503, enhanced: '5.5.1', text: 'Say RCPT first' },
  noRecipients: { code: 554, enhanced: '5.5.1', text: 'No valid recipients' },
  chunksOnly: { code: 503, enhanced: '5.5.1', text: 'This message came in chunks: go on with BDAT' },
  alreadySecure: { code: 503, enhanced: '5.5.1', text: 'TLS is on already' },
  alreadyKnown: { code: 503, enhanced: '5.5.1', text: 'Already authenticated' },
  tlsFirst: { code: 530, enhanced: '5.7.0', text: 'Say STARTTLS first' },
  loginFirst: { code: 530, enhanced: '5.7.0', text: 'Authentication required' },
  authNeedsTls: { code: 538, enhanced: '5.7.11', text: 'Authentication needs TLS: say STARTTLS first' },
  unknownMechanism: { code: 504, enhanced: '5.5.4', text: 'Unknown authentication mechanism' },
  authCancelled: { code: 501, enhanced: '5.7.0', text: 'Authentication cancelled' },
  authMalformed: { code: 501, enhanced: '5.5.2', text: 'Not valid base64, or not the fields of this mechanism' },
  authTooLong: { code: 500, enhanced: '5.5.6', text: 'Authentication line too long' },
  authRefused: { code: 535, enhanced: '5.7.8', text: 'Authentication credentials invalid' },
  authIsForHttp: {
    code: 535,
    enhanced: '5.7.8',
    text: 'Authentication credentials invalid: this is an API key, and SMTP has credentials of its own',
  },

  lineTooLong: { code: 500, enhanced: '5.5.2', text: 'Line too long' },
  // RFC 7504: 521 for a host that will not go on.
  bareLineFeed: { code: 521, enhanced: '5.5.2', text: 'Lines end with CR LF', close: true },
  bareLineEnds: {
    code: 550,
    enhanced: '5.6.11',
    text: 'The message has a bare CR or LF: lines end with CR LF. Nothing was accepted',
  },
  tooLarge: { code: 552, enhanced: '5.3.4', text: 'Message too large' },
  tooManyRecipients: { code: 452, enhanced: '4.5.3', text: 'Too many recipients' },
  needsSmtputf8: { code: 553, enhanced: '5.6.7', text: 'A non-ASCII address needs SMTPUTF8' },
  unknownParameter: { code: 555, enhanced: '5.5.4', text: 'Parameter not recognized' },
  badParameter: { code: 501, enhanced: '5.5.4', text: 'Parameter value not valid' },

  tooManyErrors: { code: 421, enhanced: '4.7.0', text: 'Too many errors' },
  noRoom: { code: 451, enhanced: '4.3.1', text: 'No room for this message now, come again in 10 seconds' },
  fault: { code: 451, enhanced: '4.3.0', text: 'Local error, come back later' },
  idle: { code: 421, enhanced: '4.4.2', text: 'Timeout' },
  sessionTooLong: { code: 421, enhanced: '4.4.2', text: 'Session too long, come back' },
  tooManySessions: { code: 421, enhanced: '4.7.0', text: 'Too many sessions, come back later' },
  shuttingDown: { code: 421, enhanced: '4.3.2', text: 'Shutting down, come back later' },
} as const satisfies Record<string, Reply>

export const mistakeReplies = {
  unknown: { code: 500, enhanced: '5.5.2', text: 'Unknown command' },
  characters: { code: 500, enhanced: '5.5.2', text: 'Control characters or broken UTF-8 in a command' },
  argument: { code: 501, enhanced: '5.5.4', text: 'Arguments not valid' },
  sender: { code: 501, enhanced: '5.1.7', text: 'Bad sender address: write <local@domain>, of 254 octets at most' },
  // RFC 5321 allows 501; decisions F name one code for every address that is none.
  recipient: {
    code: 550,
    enhanced: '5.1.3',
    text: 'Bad recipient address: write <local@domain>, of 254 octets at most',
  },
  parameter: { code: 501, enhanced: '5.5.4', text: 'Parameters not valid' },
  // How many bytes follow is unknown, so what follows cannot be trusted as commands.
  bdat: { code: 501, enhanced: '5.5.4', text: 'Say BDAT <bytes> [LAST]', close: true },
  // No client says this, but a proxy before its client speaks: each reply would be taken for that to the next command.
  proxy: {
    code: 521,
    enhanced: '5.5.1',
    text: 'The PROXY protocol is taken from the addresses in POSTHORN_SMTP_PROXIES alone',
    close: true,
  },
} as const satisfies Record<Mistake, Reply>
