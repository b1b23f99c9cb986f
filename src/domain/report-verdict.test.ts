import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { readReport, returnedToken } from '../mail/report.ts'
import { complaints, families, noReports } from './report-families.test-kit.ts'
import { verdictsOf } from './report-verdict.ts'
import { effortOf } from '../base/effort.test-kit.ts'

const verdicts = (mail: string | Buffer) => verdictsOf(readReport(Buffer.from(mail as string, 'utf8')))
const lineEnds = ['\n', '\r\n', '\r']

describe('families of mail systems', () => {
  test.each(families)('$name', ({ mail, want }) => {
    for (const end of lineEnds)
      expect(
        verdicts(mail.replaceAll('\n', end)).map(({ recipient, event, rule }) => [recipient, event, rule]),
        JSON.stringify(end),
      ).toEqual(want)
  })

  test('what is returned is given back for its token, and never read for the verdict', () => {
    const dsn = readReport(Buffer.from(families[0]?.mail ?? ''))
    expect(returnedToken(dsn)).toBe('b1abc')
    expect(dsn).toMatchObject({ reporter: 'mx.example.net', envelopeId: 'QQ123' })
  })
})

test.each(complaints)('a complaint is abuse or fraud, and nothing else (%#)', (mail, complaint) => {
  for (const end of lineEnds) {
    const report = readReport(Buffer.from(mail.replaceAll('\n', end)))
    expect(verdictsOf(report)).toMatchObject([{ event: complaint ? 'complaint' : undefined, suppress: complaint }])
    expect(returnedToken(report)).toBe('b1abc')
  }
})

test.each(noReports)('no event from mail that is no report: %s (%#)', (kind, mail) => {
  for (const end of lineEnds) {
    const report = readReport(Buffer.from(mail.replaceAll('\n', end)))
    expect([report.kind, verdictsOf(report)]).toEqual([kind, []])
  }
})

describe('cut off at every tenth', () => {
  test.each(families)('$name never becomes a hard bounce that it was not', ({ mail, want }) => {
    const hard = new Set(want.filter(([, event]) => event === 'hard_bounce').map(([recipient]) => recipient))
    const bytes = Buffer.from(mail)
    for (let tenth = 0; tenth <= 10; tenth++)
      for (const verdict of verdicts(bytes.subarray(0, Math.floor((bytes.length * tenth) / 10))))
        if (verdict.suppress) expect(hard.size, `${tenth}: ${JSON.stringify(verdict)}`).toBeGreaterThan(0)
  })
})

describe('hostile reports', () => {
  const megabytes = (unit: string): string => unit.repeat(Math.ceil((10 * 1024 * 1024) / unit.length))
  const dsn = families[0]?.mail ?? ''
  const text = families.find(({ name }) => name === 'Exim')?.mail ?? ''
  const units = ['a', '@', '.', ' ', '<', '\n', '>', '-', 'a@b ', '<a@b>:\n', '550 ', '5.1.1 ', 'user ', 'Final-Recipient: rfc822; a@b\n', 'Action: failed\n', ' \n', '"', '{"', '\\', '=?', '&lt;', '(', ';'] // prettier-ignore

  test('10 MB in every place, bounded in time', () => {
    for (const unit of units) {
      const big = megabytes(unit)
      const effort = effortOf(() => {
        for (const mail of [
          dsn.replace('It failed.', big),
          dsn.replace('Action: failed', big),
          `${text.slice(0, text.indexOf('anna@'))}${big}`,
          `From: mailer-daemon@a\nSubject: ${big}\n\n${big.slice(0, 100_000)}`,
        ])
          verdicts(mail)
      })
      expect(effort, JSON.stringify(unit)).toBeLessThan(5_000)
    }
  }, 360_000)

  test('what is encoded, or of a charset that is dear to read, is decoded as far as it is looked at', () => {
    const large = (type: string, encoding: string, line: string): Buffer =>
      Buffer.from(
        `From: a@b.example\nContent-Type: multipart/report; boundary=b\n\n--b\nContent-Type: ${type}\nContent-Transfer-Encoding: ${encoding}\n\n${`${line}\n`.repeat(limits.feedbackBytesMax / (line.length + 1))}--b--\n`,
      )
    const least = (mail: Buffer): number => Math.min(...[1, 2, 3, 4, 5].map(() => effortOf(() => readReport(mail))))
    const plain = least(large('text/plain', '7bit', 'a'))
    for (const [type, encoding, line] of [
      ['message/feedback-report; charset=utf-7', '7bit', '+AGEAYQ-'],
      ['message/feedback-report', 'x-uuencode', '!'],
      ['message/rfc822', 'x-uuencode', '!'],
    ] as const)
      expect(least(large(type, encoding, line)), `${type}, ${encoding}`).toBeLessThan(3 * plain)
  })

  test('the header of an encoded message is found, however large it is', () => {
    const returned = (body: string): string =>
      Buffer.from(`X-Posthorn-Token: b1abc\nSubject: x\n\n${body}`).toString('base64').replace(/.{76}/g, '$&\n')
    for (const size of [10, limits.mimeHeaderBytesMax]) {
      const report = readReport(
        Buffer.from(
          `Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n${returned('y'.repeat(size))}\n--b--\n`,
        ),
      )
      expect(returnedToken(report)).toBe('b1abc')
    }
  })

  test('the words for people are read once, however many recipients have no other', () => {
    const lines = Array.from({ length: 4_900 }, (_, at) => `u${at}@example.org said this and that`).join('\n')
    const block = (at: number): string =>
      `Final-Recipient: rfc822; u${at}@example.org\nAction: failed\nStatus: 5.0.0\n\n`
    const withRecipients = (many: number): string =>
      dsn
        .replace('It failed.', lines)
        .replace(/Final-Recipient[^]*?(?=\n--=_b)/, Array.from({ length: many }, (_, at) => block(at)).join(''))
    expect(verdicts(withRecipients(100)).length).toBe(100)
    const least = (many: number): number =>
      Math.min(...[1, 2, 3].map(() => effortOf(() => verdicts(withRecipients(many)))))
    expect(least(100)).toBeLessThan(10 * least(1))
  })

  test('more recipients than anyone sends to are not kept', () => {
    const block = (at: number): string =>
      `Final-Recipient: rfc822; a${at}@example.org\nAction: failed\nStatus: 5.1.1\n\n`
    const many = Array.from({ length: 5_000 }, (_, at) => block(at)).join('')
    expect(verdicts(dsn.replace(/Final-Recipient[^]*?(?=\n--=_b)/, many)).length).toBeLessThanOrEqual(101)
  })
})

interface Expected {
  readonly outcomes: readonly { readonly want: 'hard' | 'soft' | 'complaint' | 'delivered' | 'no_event' | 'neutral' }[]
}
const corpus = fileURLToPath(new URL('../../../shared/corpora/bounces/', import.meta.url))
const outcomeOf = { hard_bounce: 'hard', soft_bounce: 'soft', complaint: 'complaint', delivered: 'delivered' } as const

describe('real reports', () => {
  const expected: Record<string, Expected> = existsSync(corpus)
    ? (JSON.parse(readFileSync(`${corpus}expected.json`, 'utf8')) as Record<string, Expected>)
    : {}
  const mails = Object.entries(expected).map(([name, { outcomes }]) => ({ name, outcomes, bytes: readFileSync(`${corpus}${name}.eml`) })) // prettier-ignore
  const outcomes = (bytes: Buffer): string[] =>
    verdicts(bytes).map(({ event }) => (event === undefined ? 'no_event' : outcomeOf[event]))

  test('precision and recall of hard bounces; complaints all found; nothing from what is no report', () => {
    const score = { reports: mails.length, right: 0, hardRight: 0, hardWrong: 0, hardMissed: 0, complaintsMissed: 0, wrongEvents: 0, outcomes: 0 } // prettier-ignore
    for (const { outcomes: wanted, bytes } of mails) {
      const got = outcomes(bytes)
      for (const [at, { want }] of wanted.entries()) {
        const given = got[at] ?? 'no_event'
        if (want === 'neutral') continue
        score.outcomes++
        if (given === want) score.right++
        if (given === 'hard') score[want === 'hard' ? 'hardRight' : 'hardWrong']++
        else if (want === 'hard') score.hardMissed++
        if (want === 'complaint' && given !== 'complaint') score.complaintsMissed++
        if (want === 'no_event' && given !== 'no_event') score.wrongEvents++
      }
    }
    const precision = score.hardRight / Math.max(1, score.hardRight + score.hardWrong)
    const recall = score.hardRight / Math.max(1, score.hardRight + score.hardMissed)
    console.info('bounce corpus:', JSON.stringify({ ...score, precision, recall }))
    expect([score.complaintsMissed, score.wrongEvents]).toEqual([0, 0])
    if (mails.length > 0) expect([precision >= 0.97, recall >= 0.9]).toEqual([true, true])
  })

  test('LF, CRLF and CR give the same, and no cut gives a hard bounce that the whole is not', () => {
    for (const { name, bytes } of mails) {
      const whole = verdicts(bytes)
      const text = bytes.toString('latin1').replace(/\r\n|\r/g, '\n')
      for (const end of lineEnds)
        expect(verdicts(Buffer.from(text.replaceAll('\n', end), 'latin1')), name).toEqual(whole)
      for (let tenth = 0; tenth < 10; tenth++)
        for (const cut of verdicts(bytes.subarray(0, Math.floor((bytes.length * tenth) / 10))))
          if (cut.suppress)
            expect(
              whole.some(({ suppress }) => suppress),
              `${name} at ${tenth}`,
            ).toBe(true)
    }
  })
})
