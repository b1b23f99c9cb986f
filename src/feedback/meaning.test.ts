import { expect, test } from 'vitest'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { ReportedReply } from '../domain/provider-report.ts'
import { families } from '../domain/report-families.test-kit.ts'
import { readReport } from '../mail/report.ts'
import { mailReports } from './mail-reports.ts'
import { ofMessage, rowOf } from './meaning.ts'

const id = '01a21275-0000-7000-8000-00000000000a'
const message = {
  id: id as MessageId,
  workspaceId: id as WorkspaceId,
  recipient: 'anna@example.org',
  acceptedBy: 'node.test',
  domains: [],
  hasOwnRoute: false,
}

/** The facts of the event about a reply that came in a report. */
function told(reply: Partial<ReportedReply>): unknown {
  const row = rowOf(
    {
      kind: 'bounce',
      evidence: [],
      reply: { action: 'failed', text: '', remoteMta: 'mx.example.com', ...reply },
      source: 'dsn',
      fingerprint: '0'.repeat(64),
    },
    message,
  )
  return row?.facts
}

test.each([
  ['in its words alone', { text: '550 5.1.1 No such user' }, { code: 550, reply: '5.1.1 No such user' }],
  ['in each of its lines', { text: '550-5.1.1 No such\n550 5.1.1 user' }, { code: 550, reply: '5.1.1 No such\n5.1.1 user' }], // prettier-ignore
  ['and nothing else', { text: '554' }, { code: 554, reply: '' }],
  ['beside its words', { code: 550, text: '5.1.1 No such user' }, { code: 550, reply: '5.1.1 No such user' }],
  ['in both places', { code: 550, text: '550 5.1.1 No such user' }, { code: 550, reply: '5.1.1 No such user' }],
  ['that differ', { code: 554, text: '550 No such user' }, { code: 554, reply: '550 No such user' }],
  ['nowhere', { text: 'mailbox of 5505 users' }, { reply: 'mailbox of 5505 users' }],
] satisfies [string, Partial<ReportedReply>, object][])(
  'a reply in a report is told like one that we heard ourselves: the code apart (%s)',
  (_name, reply, expected) => expect(told(reply)).toHaveProperty('smtp', { host: 'mx.example.com', ...expected }),
)

test.each(families)('a report by mail is recorded as it was judged: $name', ({ mail, want }) => {
  const rows = mailReports(readReport(Buffer.from(mail))).map((report) => rowOf(report, message))
  expect(rows.flatMap((row) => row?.type ?? [])).toEqual(want.flatMap(([, event]) => event ?? []))
})

/** What is recorded of sendmail's report about ann@, who was made `actual`. */
function recorded(actual: string): unknown[] {
  const status = `Reporting-MTA: dns; mx.example.org\n\nFinal-Recipient: RFC822; anna@example.org\n${actual}Action: failed\nStatus: 5.1.1\nDiagnostic-Code: SMTP; 550 5.1.1 User unknown\n`
  const mail = `From: Mail Delivery Subsystem <MAILER-DAEMON@mx.example.org>\nSubject: Returned mail: see transcript for details\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n\nIt failed.\n--b\nContent-Type: message/delivery-status\n\n${status}\n--b--\n`
  const reports = mailReports(readReport(Buffer.from(mail)), message.recipient)
  return ofMessage(reports, message).map(({ report, maybeAnother }) => {
    const row = rowOf(report, message, maybeAnother)
    return [row?.type, row?.suppress]
  })
}

// Final-Recipient is the address that sendmail was told, and the one that failed stands beside it: a list, or a forwarding to a mailbox that is gone
// elsewhere, while her own has the mail.
test('nobody is suppressed for an address that was made of hers', () => {
  for (const other of ['gone@far.example', 'anna@far.example', 'ben@mx.example.org'])
    expect(recorded(`X-Actual-Recipient: RFC822; ${other}\n`), other).toEqual([['soft_bounce', undefined]])
  for (const own of [
    '',
    'X-Actual-Recipient: rfc822; Anna@example.org\n',
    'X-Actual-Recipient: RFC822; anna@mx.example.org\n',
  ])
    expect(recorded(own), own).toEqual([['hard_bounce', 'hard_bounce']])
})

// In free text an address at the beginning of a line may be anybody's: where a forwarding leads, or whom somebody who has left wants to be asked.
test('words for people about another address suppress nobody', () => {
  const away =
    'From: "Anna" <anna.b@example.org>\nSubject: I have left\nAuto-Submitted: auto-generated\nReturn-Path: <>\n\nYour mail was not delivered: this mailbox is no longer valid. Please write to\nben@example.org\n'
  const forwarded =
    "From: MAILER-DAEMON@mx.example.org\nSubject: failure notice\n\nHi. This is the qmail-send program at mx.example.org.\nI'm afraid I wasn't able to deliver your message to the following addresses.\n\n<gone@far.example>:\nRemote host said: 550 5.1.1 user unknown\n"
  const own = forwarded.replace('gone@far.example', message.recipient)
  const suppressed = (mail: string) =>
    ofMessage(mailReports(readReport(Buffer.from(mail)), message.recipient), message).map(
      ({ report, maybeAnother }) => rowOf(report, message, maybeAnother)?.suppress,
    )
  expect([away, forwarded, own].map(suppressed)).toEqual([[undefined], [undefined], ['hard_bounce']])
})

// Dovecot's redirect hands mail on as if it were new: the report about the other mailbox comes to our return path, and says of no expansion.
test('a report about an address of another domain suppresses nobody; under another name of the same domain it is believed', () => {
  const suppressed = (named: string) => {
    const mail = families[0]?.mail.replaceAll('anna@example.org', named) ?? ''
    return ofMessage(mailReports(readReport(Buffer.from(mail)), message.recipient), message).map(
      ({ report, maybeAnother }) => rowOf(report, message, maybeAnother)?.suppress,
    )
  }
  expect(suppressed('ben@far.example')).toEqual([undefined])
  expect(suppressed('anna.b@Example.ORG')).toEqual(['hard_bounce'])
  expect(suppressed('anna@mx.example.org')).toEqual(['hard_bounce'])
})
