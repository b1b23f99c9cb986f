// Large bodies are read by a thread, in a way of their own: it must take exactly what the ordinary way takes, and say the same where it does
// not; and the event loop must hardly notice (attack Q11).
import { randomBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { limits } from '../config.ts'
import { isRefusal } from '../domain/refusal.ts'
import { validBody } from './face.test-kit.ts'
import { liftStrings } from './lifted-strings.ts'
import { readLargeSendBody, readSendBody, SendBodies } from './send-body.ts'

const bodies = new SendBodies()
// The thread gives way to everybody, so on a busy machine it has no processor for as long as a body may take. What is late is told by thread.test.ts.
beforeAll(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterAll(async () => {
  vi.useRealTimers()
  await bodies.stop()
})

const now = Date.parse('2026-11-21T09:30:00Z')
const base64 = randomBytes(40_000).toString('base64')
const long = 'x'.repeat(40_000)
const file = (contentBase64: string) => ({ filename: 'a.bin', contentType: 'application/x-test', contentBase64 })
const bodyWith = (changes: object) => JSON.stringify({ ...validBody, ...changes })

test('how far ahead a message expires is told by the clock that it is given, large or small', async () => {
  const anHourAhead = new SendBodies(() => Date.now() + 3600_000)
  const expiresAt = new Date(Date.now() + limits.expiresAheadMsMax + 60_000).toISOString()
  for (const attachments of [[], [file('A'.repeat(400_000))]]) {
    const body = bodyWith({ expiresAt, attachments })
    expect(await bodies.read(Buffer.from(body), false)).toMatchObject({ field: 'expiresAt' })
    expect(await anHourAhead.read(Buffer.from(body), false)).toMatchObject({
      message: { expiresAt: new Date(expiresAt) },
    })
  }
  await anHourAhead.stop()
})

test('metadata may be named constructor and prototype; as members of the request they are unknown', () => {
  const metadata = { constructor: 'a', prototype: 'b', toString: 'c' }
  for (const read of [readSendBody, readLargeSendBody]) {
    expect(read(Buffer.from(bodyWith({ metadata })), false, now)).toMatchObject({ message: { metadata } })
    for (const name of Object.keys(metadata))
      expect(read(Buffer.from(bodyWith({ [name]: 'x' })), false, now)).toMatchObject({
        code: 'invalid_request',
        field: name,
      })
  }
})

describe('the quick way agrees with the ordinary one', () => {
  const cases: [string, string | Buffer][] = [
    ['a long file', bodyWith({ attachments: [file(base64)] })],
    ['slashes as PHP writes them', bodyWith({ attachments: [file(base64)] }).replaceAll('/', '\\/')],
    ['several, and short ones', bodyWith({ attachments: [file(base64), file('aGk='), file(''), file(base64)] })],
    ['a long text', bodyWith({ bodyText: long })],
    ['a long text with slashes', bodyWith({ bodyText: '/'.repeat(40_000) }).replaceAll('/', '\\/')],
    ['a long text that is not ASCII', bodyWith({ bodyText: 'ü'.repeat(40_000) })],
    ['escapes', bodyWith({ bodyText: `${long}\n"\\` })],
    ['padding', bodyWith({ attachments: [file(`${base64.slice(0, -4)}QQ==`)] })],
    ['padding in the middle', bodyWith({ attachments: [file(`QQ==${base64}`)] })],
    ['Base64 that is cut', bodyWith({ attachments: [file(base64.slice(0, -1))] })],
    ['Base64 for URLs', bodyWith({ attachments: [file(`-_${base64.slice(2)}`)] })],
    ['white space in Base64', bodyWith({ attachments: [file(`${base64.slice(0, -4)}    `)] })],
    ['a raw line break in Base64', bodyWith({ attachments: [file(base64)] }).replace(base64.slice(0, 100), `\n`)],
    ['a raw line break in a text', bodyWith({ bodyText: long }).replace('xxx', 'x\nx')],
    ['a raw NUL in a text', bodyWith({ bodyText: long }).replace('xxx', 'x\0x')],
    ['half a pair', bodyWith({ bodyText: long }).replace('xxx', '\\ud800')],
    ['a long name', `{"${long}":1,${bodyWith({}).slice(1)}`],
    ['a long name twice', `{"${long}":1,"${long}":2}`],
    ['a long subject', bodyWith({ subject: long })],
    ['a long value in the metadata', bodyWith({ metadata: { a: long } })],
    ['a file among the metadata', bodyWith({ metadata: { contentBase64: base64 } })],
    ['a file at the top', bodyWith({ contentBase64: base64 })],
    ['a long key of a mailbox', bodyWith({ mailboxId: long })],
    ['no closing quote', bodyWith({ bodyText: long }).slice(0, -4)],
    ['no closing brace', bodyWith({ bodyText: long }).slice(0, -1)],
    ['more behind the end', `${bodyWith({ bodyText: long })} "${long}"`],
    ['a list', `["${long}"]`],
    ['a long string alone', `"${long}"`],
    ['bad UTF-8', Buffer.concat([Buffer.from(bodyWith({ bodyText: long })), Buffer.from([0xff])])],
    ['bad UTF-8 in a long text', Buffer.from(bodyWith({ bodyText: `${long}ü` })).fill(0xc3, 500, 501)],
    ['a byte order mark', `\ufeff${bodyWith({ bodyText: long })}`],
    ['too deep', `${'['.repeat(200)}"${long}"${']'.repeat(200)}`],
    ['too many members', `[${'1,'.repeat(2_000)}"${long}"]`],
    ['11 files', bodyWith({ attachments: Array.from({ length: 11 }, () => file(base64)) })],
  ]
  test.each(cases)('%s', (_, body) => {
    const bytes = Buffer.from(body)
    expect(readLargeSendBody(bytes, true, now)).toEqual(readSendBody(bytes, true, now))
  })

  test('for files of any bytes, with any slashes escaped', () => {
    const some = fc.uint8Array({ minLength: 1, maxLength: 300 })
    fc.assert(
      fc.property(some, fc.integer({ min: 12_500, max: 12_600 }), fc.boolean(), (bytes, length, escaped) => {
        const content = Buffer.alloc(length, bytes).toString('base64')
        const json = bodyWith({ attachments: [file(content)] })
        const body = Buffer.from(escaped ? json.replaceAll('/', '\\/') : json)
        expect(readLargeSendBody(body, true, now)).toEqual(readSendBody(body, true, now))
      }),
      { numRuns: 100 },
    )
  })

  test('20 MiB exactly pass, one byte more does not', () => {
    const exactly = bodyWith({ attachments: [file(Buffer.alloc(limits.attachmentsBytesMax, 7).toString('base64'))] })
    const answer = readLargeSendBody(Buffer.from(exactly), false, now)
    expect(
      !isRefusal(answer) && answer.message.attachments[0]?.bytes.equals(Buffer.alloc(limits.attachmentsBytesMax, 7)),
    ).toBe(true)
    const more = bodyWith({ attachments: [file(Buffer.alloc(limits.attachmentsBytesMax + 1).toString('base64'))] })
    expect(readLargeSendBody(Buffer.from(more), false, now)).toMatchObject({ code: 'attachments_too_large' })
  })

  test('the files were not made into text', () => {
    const { rest } = liftStrings(Buffer.from(bodyWith({ attachments: [file(base64)], bodyText: long })))
    expect(rest.length).toBeLessThan(1_000)
  })
})

describe('the thread', () => {
  test('answers what the same reading here answers, and empties what it was given', async () => {
    const body = bodyWith({ attachments: [file(Buffer.alloc(300_000, 1).toString('base64')), file('aGk='), file('')] })
    const given = Buffer.from(new Uint8Array(Buffer.from(body)).buffer)
    const answer = await bodies.read(given, true)
    expect(answer).toEqual(readSendBody(Buffer.from(body), true, now))
    expect(given.length).toBe(0)
    expect(!isRefusal(answer) && answer.message.attachments.every(({ bytes }) => Buffer.isBuffer(bytes))).toBe(true)
  })

  // By the processor time of this thread: on a busy machine the clock would measure the machine.
  test('the worst bodies do not hold up the event loop for 50 ms, not even together', async () => {
    const quotes = Buffer.from(`{"bodyText":"${'\\"'.repeat(23 * 1024 * 1024)}"}`)
    const numbers = Buffer.from(`[${'1,'.repeat(20 * 1024 * 1024)}1]`)
    const names = Buffer.from(`{${'"a":1,'.repeat(6 * 1024 * 1024)}"b":1}`)
    await bodies.read(Buffer.from(new Uint8Array(Buffer.from(bodyWith({ bodyText: long.repeat(8) }))).buffer), false) // starts it
    const before = process.threadCpuUsage()
    const answers = await Promise.all([quotes, numbers, names].map((body) => bodies.read(body, true)))
    const used = process.threadCpuUsage(before)
    expect(answers.map((answer) => isRefusal(answer) && answer.code)).toEqual(Array(3).fill('invalid_request'))
    expect((used.user + used.system) / 1000).toBeLessThan(50)
  })
})
