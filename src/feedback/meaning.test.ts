import { expect, test } from 'vitest'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import type { ReportedReply } from '../domain/provider-report.ts'
import { families } from '../domain/report-families.test-kit.ts'
import { readReport } from '../mail/report.ts'
import { mailReports } from './mail-reports.ts'
import { rowOf } from './meaning.ts'

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
