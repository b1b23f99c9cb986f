// What the simulator sends back as the receiving provider that it plays (decisions J): a delivery status notification (RFC 3464) of
// `late-bounce@`, a complaint in the abuse reporting format (RFC 5965) of `complaint@`. Real mails, which go through the bounce mailbox.
import { randomUUID } from 'node:crypto'
import { simulatorDomain } from '../domain/simulator.ts'
import { octets } from '../mail/header-text.ts'
import type { SandboxMail } from './sandbox.ts'
import { behaviourOf } from './simulator.ts'

export interface ReportMail {
  /** '' for the null sender. */
  readonly from: string
  readonly to: string
  readonly content: Buffer
}

/** Undefined where the address does not report, or where there is nobody to report to: a null sender is never answered. */
export function reportMail(mail: SandboxMail): ReportMail | undefined {
  if (mail.envelopeFrom === '') return undefined
  const behaviour = behaviourOf(mail.recipient)
  // A report is written octet by octet; of a label such as `+Ċ` half a character would be a line feed.
  const written = { ...mail, recipient: octets(mail.recipient) }
  if (behaviour === 'late-bounce') return { from: '', to: mail.envelopeFrom, content: bounce(written) }
  if (behaviour === 'complaint')
    return { from: `feedback-loop@${simulatorDomain}`, to: mail.envelopeFrom, content: complaint(written) }
  return undefined
}

const mailHost = `sandbox.${simulatorDomain}`

function bounce(mail: SandboxMail): Buffer {
  return multipart(
    mail,
    'delivery-status',
    { from: `Mail Delivery System <mailer-daemon@${simulatorDomain}>`, subject: 'Undelivered Mail Returned to Sender' },
    [
      [
        'text/plain; charset=us-ascii',
        `The mail to <${mail.recipient}> could not be delivered: no such user here.\r\n`,
      ],
      [
        'message/delivery-status',
        [
          `Reporting-MTA: dns; ${mailHost}`,
          `X-Sandbox-Queue-ID: ${mail.queueId}`,
          `Arrival-Date: ${rfc5322(mail.receivedAt)}`,
          '',
          `Final-Recipient: rfc822; ${mail.recipient}`,
          'Action: failed',
          'Status: 5.1.1',
          `Diagnostic-Code: smtp; 550 5.1.1 <${mail.recipient}>: No such user here`,
          '',
        ].join('\r\n'),
      ],
      ['text/rfc822-headers', header(mail)],
    ],
  )
}

function complaint(mail: SandboxMail): Buffer {
  return multipart(
    mail,
    'feedback-report',
    { from: `Feedback Loop <feedback-loop@${simulatorDomain}>`, subject: 'Complaint about a mail from you' },
    [
      ['text/plain; charset=us-ascii', `<${mail.recipient}> says that the mail below is spam.\r\n`],
      [
        'message/feedback-report',
        [
          'Feedback-Type: abuse',
          'User-Agent: Posthorn-Simulator/1.0',
          'Version: 1',
          `Original-Mail-From: <${mail.envelopeFrom}>`,
          `Original-Rcpt-To: <${mail.recipient}>`,
          `Arrival-Date: ${rfc5322(mail.receivedAt)}`,
          '',
        ].join('\r\n'),
      ],
      ['text/rfc822-headers', header(mail)],
    ],
  )
}

function multipart(
  mail: SandboxMail,
  reportType: string,
  { from, subject }: { readonly from: string; readonly subject: string },
  parts: readonly (readonly [type: string, text: string])[],
): Buffer {
  const boundary = `=_${randomUUID()}`
  const head = [
    `From: ${from}`,
    `To: <${mail.envelopeFrom}>`,
    `Subject: ${subject}`,
    `Date: ${rfc5322(new Date())}`,
    `Message-ID: <${randomUUID()}@${mailHost}>`,
    'Auto-Submitted: auto-replied',
    'MIME-Version: 1.0',
    `Content-Type: multipart/report; report-type=${reportType};\r\n boundary="${boundary}"`,
    '',
    '',
  ]
  const body = parts.map(([type, text]) => `--${boundary}\r\nContent-Type: ${type}\r\n\r\n${text}\r\n`)
  return Buffer.from(`${head.join('\r\n')}${body.join('')}--${boundary}--\r\n`, 'latin1')
}

const headerBytesMax = 64 * 1024

/** The header block of what was received, with the CRLF of its last field. */
function header({ content }: SandboxMail): string {
  const text = content.toString('latin1', 0, headerBytesMax)
  const end = text.indexOf('\r\n\r\n')
  return text.slice(0, end < 0 ? text.lastIndexOf('\r\n') + 2 : end + 2)
}

const rfc5322 = (at: Date): string => at.toUTCString().replace('GMT', '+0000')
