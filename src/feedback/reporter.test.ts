// Whoever has a token, which every recipient has, may send a mail of 40 MB with it: while its signatures are looked at, others get their turns.
import { createHash } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { afterAll, describe, expect, test } from 'vitest'
import { effortOfWaiting } from '../base/effort.test-kit.ts'
import { makeReporterCheck } from './reporter.ts'

const from = 'From: a@example.org\r\n'
const body = 'Hello\r\n'
/** Of the body above, so that its key is asked for. */
const signature = (selector = 's', names = 'from') =>
  `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=${selector}; h=${names}; bh=${createHash('sha256').update(body).digest('base64')}; b=AAAA\r\n`
const signatures = (count: number) => Array.from({ length: count }, (_, at) => signature(`s${at}`)).join('')
const mailOf = (header: string, text = body) => Buffer.from(`${header}\r\n${text}`)

let questions = 0
/** Hears questions, and says nothing. */
const silence = createSocket('udp4').on('message', () => questions++)
silence.bind(0, '127.0.0.1')
await once(silence, 'listening')
afterAll(() => silence.close())
const asking = () => {
  questions = 0
  return makeReporterCheck({ dnsServers: [`127.0.0.1:${silence.address().port}`], lookupMs: 500 })
}

test('a large mail is verified piece by piece, with the event loop free in between', async () => {
  const mail = mailOf(`${signature()}${from}`, `${' '.repeat(998)}\r\n`.repeat(4_000))
  const check = asking()
  await check(mail.subarray(0, 1_000)) // loads the verifier
  const over = new AbortController()
  const verdict = check(mail).finally(() => over.abort())
  let turns = 0
  for (; !over.signal.aborted; turns++) await setImmediate()
  expect(await verdict).toBe('unproven')
  expect(turns).toBeGreaterThan(mail.length / 100_000)
})

describe('a mail that is made to cost the verifier seconds is not given to it', () => {
  test.for([
    ['a field of twenty thousand folds', () => mailOf(`${signature()}${from}X: a${'\r\n '.repeat(20_000)}\r\n`)],
    ['a header of thirty thousand fields', () => mailOf(`${signature()}${from}${'X:\r\n'.repeat(30_000)}`)],
    ['a header of megabytes', () => mailOf(`${signature()}${from}${`X: ${'a'.repeat(900)}\r\n`.repeat(10_000)}`)],
    [
      'a signature over sixty thousand names',
      () => mailOf(`${signature('s', `${'a:'.repeat(60_000)}from`)}${from}${'X:\r\n'.repeat(900)}`),
    ],
    ['a From of thirty thousand groups', () => mailOf(`${signature()}From: ${'a:'.repeat(30_000)}\r\n`)],
    [
      'five signatures over ten megabytes of blanks',
      () => mailOf(`${signatures(5)}${from}`, '\t\r\n'.repeat(3_500_000)),
    ],
    ['a line of ten megabytes', () => mailOf(`${signature()}${from}`, 'a'.repeat(10_000_000))],
  ] as const)('%s', async ([, mail]) => {
    const check = asking()
    await check(mailOf(`${signatures(1)}${from}`)) // loads the verifier
    const given = mail()
    let verdict: unknown
    const effort = await effortOfWaiting(async () => (verdict = await check(given)))
    expect(verdict).toBe('unproven')
    expect(effort).toBeLessThan(500)
  })
})

test('the keys of a mail are asked for within one bound of time, however many servers are silent', async () => {
  const began = performance.now()
  expect(await asking()(mailOf(`${signatures(5)}${from}`))).toBe('later')
  expect(performance.now() - began).toBeLessThan(3_000)
  expect(questions).toBeGreaterThan(0)
})

// A complaint that came in a moment without a free file was kept as unproven, for good: nobody was suppressed by it.
test('a verifier that cannot be loaded proves nothing, and no lie either: it is the sender who comes again', async () => {
  const outOfFiles = () => Promise.reject(Object.assign(new Error('too many open files'), { code: 'EMFILE' }))
  const check = makeReporterCheck({ dnsServers: ['127.0.0.1:1'] }, outOfFiles)
  await expect(check(mailOf(`${signatures(1)}${from}`))).rejects.toThrow('too many open files')
})

describe('no key is asked for where there are more signatures than one mail may have', () => {
  test.for([
    ['one beside the other', `${signatures(6)}${from}`],
    ['with a blank before the colon', `${signatures(6).replaceAll('Signature:', 'Signature :')}${from}`],
    ['behind a header of many kilobytes', `${from}X: a\r\n${` ${'a'.repeat(900)}\r\n`.repeat(300)}${signatures(6)}`],
  ] as const)('%s', async ([, header]) => {
    expect(await asking()(mailOf(header))).toBe('unproven')
    expect(questions).toBe(0)
  })
})
