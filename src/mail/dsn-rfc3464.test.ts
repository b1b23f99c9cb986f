import { expect, test } from 'vitest'
import { readDeliveryStatus } from './dsn-rfc3464.ts'

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
