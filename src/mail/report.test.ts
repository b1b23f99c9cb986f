// What reading a report may cost: anybody may write to the complaint address, with mail as large as any that we send.
import { expect, test } from 'vitest'
import { effortOf } from '../base/effort.test-kit.ts'
import { limits } from '../config.ts'
import { readReport } from './report.ts'

const report = [
  'Content-Type: multipart/report; report-type=delivery-status; boundary=x\r\n\r\n--x\r\n\r\nIt failed.\r\n--x',
  'Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns;mx.example\r\n\r\nFinal-Recipient: rfc822;ann@example.org',
  'Action: failed\r\nStatus: 5.1.1\r\nDiagnostic-Code: smtp;550 5.1.1 no such user\r\n\r\n--x',
  'Content-Type: message/rfc822\r\n\r\nX-Posthorn-Token: t\r\n\r\n',
].join('\r\n')
const filled = (bytes: number, head: string, line: string) =>
  Buffer.from(head + line.repeat((bytes - head.length) / line.length), 'latin1')

test.each([
  ['of the mail that it returns', report, 'a\r\n'],
  ['of nothing', '', '\r\n'],
  ['of delimiters', report, '--x\r\n'],
  ['that are nearly delimiters', report, '--y\r\n'],
  ['of a header', '', 'a: b\r\n'],
])('lines without end, %s, cost no more than the first four megabytes', (_, head, line) => {
  const [short, long] = [limits.reportBytesMax, limits.feedbackBytesMax].map((bytes) => filled(bytes, head, line))
  for (const warm of [short, long]) readReport(warm as Buffer)
  const costs = effortOf(() => void readReport(long as Buffer))
  expect(costs).toBeLessThan(3 * effortOf(() => void readReport(short as Buffer)) + 20)
})

test('a large mail that is returned takes nothing from what is said about it', () => {
  const { returned: short, ...facts } = readReport(Buffer.from(`${report}Hello\r\n--x--\r\n`))
  const { returned, ...same } = readReport(Buffer.from(`${report}${'Hello\r\n'.repeat(1_000_000)}--x--\r\n`))
  expect(same).toEqual(facts)
  expect(facts.recipients).toMatchObject([{ recipient: 'ann@example.org', action: 'failed', status: '5.1.1' }])
  expect([short, returned].map((fields) => fields.map(({ name }) => name))).toEqual([
    ['x-posthorn-token'],
    ['x-posthorn-token'],
  ])
})

// What is behind our bounds, or was cut off on the way, might have said the opposite.
test.each([
  ['words for people', 'Your message could not be delivered.\r\n\r\nann@example.org:\r\n550 5.1.1 no such user'],
  ['fields among them', 'Final-Recipient: rfc822; ann@example.org\r\nAction: failed\r\nStatus: 5.1.1'],
])('%s that go on behind what is read are not believed', (_, said) => {
  const head = 'From: MAILER-DAEMON@mx.example\r\nSubject: Undelivered Mail\r\n'
  const texts = (end: string) =>
    readReport(Buffer.from(`${head}\r\n${said}${end}`)).recipients.map(({ status, text }) => `${status ?? ''} ${text}`)
  const inParts = (end: string, behind = '\r\n--x\r\nContent-Type: image/gif\r\n\r\n\r\n--x--\r\n') =>
    readReport(
      Buffer.from(`${head}Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\n${said}${end}${behind}`),
    ).recipients.map(({ status, text }) => `${status ?? ''} ${text}`)
  const more = `\r\nX-More: ${'a'.repeat(limits.reportTextBytesMax)}\r\nDiagnostic-Code: smtp; 450 4.2.1 come again\r\n`
  for (const whole of [texts('\r\n'), inParts('')]) expect(whole.join()).toContain('5.1.1')
  for (const open of [texts(''), texts(more), texts(more.repeat(20)), inParts(more), inParts('', '\r\n')])
    expect(open.join()).not.toContain('5.1.1')
})

test.each([
  [
    'words for people',
    'text/plain',
    'Your message could not be delivered.\r\n\r\nann@example.org:\r\n550 5.1.1 no such user',
  ],
  [
    'fields in their part',
    'message/delivery-status',
    'Final-Recipient: rfc822; ann@example.org\r\nAction: failed\r\nStatus: 5.1.1',
  ],
])(
  '%s behind a large mail that is returned are not believed where the last octet that is read is one of theirs',
  (_, type, said) => {
    const head = `From: MAILER-DAEMON@mx.example\r\nSubject: Undelivered Mail\r\nContent-Type: multipart/report; boundary=x\r\n\r\n--x\r\nContent-Type: message/rfc822\r\n\r\nX-Posthorn-Token: t\r\n\r\n`
    const words = `\r\n--x\r\nContent-Type: ${type}\r\n\r\n${said}\r\n`
    const told = (padding: number, end: string) =>
      readReport(Buffer.from(`${head}${'a'.repeat(padding)}${words}${end}`)).recipients.map(
        ({ status, text }) => `${status ?? ''} ${text}`,
      )
    const more = 'Diagnostic-Code: smtp; 450 4.2.1 come again\r\n--x--\r\n'
    expect(told(0, '--x--\r\n').join()).toContain('5.1.1')
    expect(told(limits.reportBytesMax - head.length - words.length, more).join()).not.toContain('5.1.1')
  },
)

test.each([
  ['lines', (said: string) => 'a\r\n'.repeat(limits.reportLinesMax - said.split('\r\n').length + 1)],
  ['octets', (said: string) => `${'a'.repeat(998)}\r\n`.repeat(263).slice(0, limits.reportTextBytesMax - said.length)],
])(
  'words for people of more %s than are read are not believed where a line ends that another one follows',
  (_, before) => {
    const head = 'From: MAILER-DAEMON@mx.example\r\nSubject: Undelivered Mail\r\n\r\n'
    const opening = 'It could not be delivered.\r\n'
    const said = '\r\nann@example.org:\r\n550 5.1.1 no such user\r\n'
    const told = (paragraph: string, end: string) =>
      readReport(Buffer.from(`${head}${opening}${before(opening + paragraph)}${paragraph}${end}`)).recipients.map(
        ({ text }) => text,
      )
    for (const whole of [told(`${said}\r\nb\r\n`, 'c\r\n'), told(said, '')]) expect(whole.join()).toContain('5.1.1')
    expect(told(said, 'but 450 4.2.1 come again\r\n\r\nb\r\n').join()).not.toContain('5.1.1')
  },
)

test('words for people in several texts of a mail are read as far as those of one, and not believed where that ends', () => {
  const head =
    'From: MAILER-DAEMON@mx.example\r\nContent-Type: multipart/mixed; boundary=x\r\nSubject: Undelivered Mail\r\n'
  const said = 'ann@example.org:\r\n550 5.1.1 no such user'
  const told = (octets: number, end: string) => {
    const texts = [`It could not be delivered.\r\n${'a\r\n'.repeat(10)}${'a'.repeat(octets)}`, `${said}${end}`]
    const mail = `${head}${texts.map((text) => `\r\n--x\r\n\r\n${text}`).join('')}\r\n--x--\r\n`
    return readReport(Buffer.from(mail)).recipients.map(({ text }) => text)
  }
  expect(told(100, '').join()).toContain('5.1.1')
  const all = limits.reportTextBytesMax - 'It could not be delivered.\r\n'.length - 30 - 2 - said.length
  expect(told(all, '').join()).toContain('5.1.1')
  expect(told(all, '\r\nbut 450 4.2.1 come again').join()).not.toContain('5.1.1')
})

test.each([
  ['parts that do not come apart', '', ''],
  [
    'more words before the first part than are read',
    `${'a'.repeat(998)}\r\n\r\n`,
    '\r\n--x\r\nContent-Type: image/gif\r\n\r\n\r\n--x--\r\n',
  ],
])('words for people in a mail with %s are not believed where they end', (_, filler, parts) => {
  const head =
    'From: MAILER-DAEMON@mx.example\r\nContent-Type: multipart/mixed; boundary=x\r\nSubject: Undelivered Mail\r\n\r\n'
  const opening = 'It could not be delivered.\r\n\r\n'
  const said = 'ann@example.org:\r\n550 5.1.1 no such user'
  const room = limits.reportTextBytesMax - opening.length - said.length
  const before = filler === '' ? '' : filler.repeat(room / filler.length).padStart(room, 'a')
  const told = (end: string) =>
    readReport(Buffer.from(`${head}${opening}${before}${said}${end}${parts}`)).recipients.map(({ text }) => text)
  expect(told('\r\nbut 450 4.2.1 come again').join()).not.toContain('5.1.1')
  if (filler === '') expect(told('\r\n\r\nSorry.').join()).toContain('5.1.1')
})
