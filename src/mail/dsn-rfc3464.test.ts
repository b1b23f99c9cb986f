import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { readDeliveryStatus } from './dsn-rfc3464.ts'
import { readReport } from './report.ts'

/** The diagnostics of the only recipient. */
const saidIn = (...diagnostics: readonly string[]) => {
  const block = ['Final-Recipient: rfc822; ann@example.org', 'Action: failed', 'Status: 5.0.0', ...diagnostics]
  const status = readDeliveryStatus(`Reporting-MTA: dns; mx.example\n\n${block.join('\n')}\n`, false)
  return status?.recipients.map(({ diagnostic }) => diagnostic)
}

// RFC 3464 2.1.1: each field stands once. Half of a second one would have suppressed ann@.
test('of a field that is given twice the first counts, and nothing of the second, however it is folded', () => {
  const first = 'Diagnostic-Code: smtp; 554 rejected'
  const second = 'Diagnostic-Code: x-local;'
  for (const fold of ['', '\n 550 5.1.1 no such user', '\n 550 5.1.1\n\tno such user'])
    expect(saidIn(first, `${second}${fold}`), fold).toEqual(['554 rejected'])
  expect(saidIn(`${first}\n by policy`, second), 'its own fold').toEqual(['554 rejected by policy'])
  expect(saidIn('Diagnostic-Code:\n smtp; 554 rejected'), 'all of it folded').toEqual(['554 rejected'])
})

// What is behind our bounds might have said the opposite, as what was cut off on the way might.
test.each([
  ['lines', 'X-More: a\r\n'.repeat(limits.reportLinesMax)],
  ['octets', `X-More: ${'a'.repeat(limits.reportTextBytesMax)}\r\n`],
])('a block that has more %s than are read is not believed', (_, more) => {
  const block = (behind: string) =>
    `Final-Recipient: rfc822; ann@example.org\r\nAction: failed\r\nStatus: 5.1.1\r\n${behind}Diagnostic-Code: smtp; 450 4.2.1 come again\r\n`
  const failed = (behind: string) => {
    const parts = [`Content-Type: message/delivery-status\r\n\r\n${block(behind)}\r\n`, '\r\nIt is late.\r\n']
    const mail = `Content-Type: multipart/report; boundary=x\r\n\r\n--x\r\n${parts.join('--x\r\n')}--x--\r\n`
    return readReport(Buffer.from(mail)).recipients
  }
  expect(failed('')).toMatchObject([{ status: '5.1.1', text: '450 4.2.1 come again' }])
  expect(failed(more)).toEqual([{ recipient: 'ann@example.org', action: 'failed', text: '' }])
})

test('a report of as many lines as are read is whole; of one more, nobody knows how its last block went on', () => {
  const fields = ['Final-Recipient: rfc822; ann@example.org', 'Action: failed', 'Status: 5.1.1']
  const text = (many: number) => `${[...fields, ...Array<string>(many - 3).fill('X-More: a')].join('\r\n')}\r\n`
  const cut = (many: number) => readDeliveryStatus(text(many), false)?.recipients.map((each) => each.cut)
  expect(cut(limits.reportLinesMax)).toEqual([undefined])
  expect(cut(limits.reportLinesMax + 1)).toEqual([true])
})
