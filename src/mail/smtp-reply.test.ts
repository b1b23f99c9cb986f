import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { ReplyReader } from './smtp-reply.ts'
import type { SmtpReply } from './smtp-reply.ts'

function read(...chunks: (string | Buffer)[]): {
  replies: SmtpReply[]
  malformed: string | undefined
  partial: boolean
} {
  const reader = new ReplyReader()
  const replies = chunks.flatMap((chunk) => reader.push(Buffer.from(chunk as string)))
  return { replies, malformed: reader.malformed, partial: reader.partial }
}

describe('a well-formed reply is read', () => {
  const cases: [string, string, SmtpReply[]][] = [
    ['one line', '250 ok\r\n', [{ code: 250, text: 'ok' }]],
    ['without text', '250\r\n', [{ code: 250, text: '' }]],
    ['without text, with a space', '250 \r\n', [{ code: 250, text: '' }]],
    ['several lines', '250-a\r\n250-\r\n250 c\r\n', [{ code: 250, text: 'a\n\nc' }]],
    ['bare last line', '250-a\r\n250\r\n', [{ code: 250, text: 'a\n' }]],
    [
      'bare LF',
      '220 hi\n250-a\n250 b\n',
      [
        { code: 220, text: 'hi' },
        { code: 250, text: 'a\nb' },
      ],
    ],
    [
      'two in one packet',
      '250 ok\r\n421 bye\r\n',
      [
        { code: 250, text: 'ok' },
        { code: 421, text: 'bye' },
      ],
    ],
    ['enhanced code', '550 5.1.1 no such user\r\n', [{ code: 550, enhancedCode: '5.1.1', text: '5.1.1 no such user' }]],
    ['enhanced code alone', '550-5.7.26\r\n550 x\r\n', [{ code: 550, enhancedCode: '5.7.26', text: '5.7.26\nx' }]],
    ['enhanced code of another class', '550 4.1.1 hm\r\n', [{ code: 550, text: '4.1.1 hm' }]],
    ['a number that is no enhanced code', '550 5.1.1.7 hm\r\n', [{ code: 550, text: '5.1.1.7 hm' }]],
    ['enhanced code on the second line only', '550-x\r\n550 5.1.1 y\r\n', [{ code: 550, text: 'x\n5.1.1 y' }]],
    ['controls', '250 a\x1bb\rc\td\r\n', [{ code: 250, text: 'a\ufffdb\ufffdc d' }]],
    ['UTF-8', '250 grüße\r\n', [{ code: 250, text: 'grüße' }]],
    [
      'a greeting that ends as a refusal (https://github.com/vert-x3/vertx-mail-client/issues/81)',
      '220-mx.example.org ESMTP\r\n521-5.7.1 Service unavailable;\r\n521 5.7.1 blocked\r\n',
      [{ code: 521, enhancedCode: '5.7.1', text: '5.7.1 Service unavailable;\n5.7.1 blocked' }],
    ],
    [
      'lowest and highest code',
      '200 a\r\n599 b\r\n',
      [
        { code: 200, text: 'a' },
        { code: 599, text: 'b' },
      ],
    ],
  ]
  test.each(cases)('%s', (_, bytes, replies) => {
    expect(read(bytes)).toEqual({ replies, malformed: undefined, partial: false })
  })

  test('bytes that are no UTF-8 are replaced', () => {
    expect(read(Buffer.from([50, 53, 48, 32, 0xff, 13, 10])).replies).toEqual([{ code: 250, text: '\ufffd' }])
  })
})

describe('anything else is malformed, and what came before it still counts', () => {
  const long = limits.replyLineBytesMax
  const cases: [string, string, number][] = [
    ['25', '25\r\n', 0],
    ['+OK', '+OK ready\r\n', 0],
    ['999', '999 x\r\n', 0],
    ['1yz', '150 x\r\n', 0],
    ['second digit', '260 x\r\n', 0],
    ['second digit of a 3yz', '371 x\r\n', 0],
    ['600', '600 x\r\n', 0],
    ['letters', '2x0 ok\r\n', 0],
    ['empty line', '\r\n', 0],
    ['NUL', '\0\0\0\r\n', 0],
    ['NUL in the text', '250 a\0b\r\n', 0],
    ['NUL at the end', '250 ok\r\n250-a\r\n250 b\0\r\n', 1],
    ['no separator', '250ok\r\n', 0],
    ['four digits', '2500\r\n', 0],
    ['differing codes', '250-a\r\n550 b\r\n', 0],
    ['a greeting of two minds', '220-a\r\n250 b\r\n', 0],
    ['a greeting of three', '220-a\r\n421-b\r\n521 c\r\n', 0],
    ['a refusal behind 220 that is no greeting', '220 a\r\n220-b\r\n521 c\r\n', 1],
    ['text in the middle', '250-a\r\nb\r\n', 0],
    ['a line of 5,000 bytes', `250 ${'x'.repeat(5000)}\r\n`, 0],
    ['5,000 bytes without an end', `250 ${'x'.repeat(5000)}`, 0],
    ['a byte too long', `250 ${'x'.repeat(long - 5)}\r\n`, 0],
    ['10,000 lines', '250-x\r\n'.repeat(10_000), 0],
    ['HTTP', 'HTTP/1.1 400 Bad Request\r\n\r\n', 0],
    ['a good one first', '250 ok\r\nwhat\r\n250 ok\r\n', 1],
  ]
  test.each(cases)('%s', (_, bytes, good) => {
    const { replies, malformed } = read(bytes)
    expect(malformed).toEqual(expect.any(String))
    expect(replies).toHaveLength(good)
    expect(read(bytes, '250 ok\r\n').replies).toHaveLength(good)
  })

  test('the longest line and the most lines are still good', () => {
    expect(read(`250 ${'x'.repeat(long - 6)}\r\n`).malformed).toBeUndefined()
    expect(read(`${'250-x\r\n'.repeat(limits.replyLinesMax - 1)}250 x\r\n`).replies).toHaveLength(1)
  })
})

test('a reply that has begun is known as partial', () => {
  for (const bytes of ['2', '250-a\r\n', '250-a\r\n2', '250 ok\r\n2']) expect(read(bytes).partial).toBe(true)
})

test('text is bounded, and never ends in half a character', () => {
  const { replies } = read(`250-a${'😀'.repeat(400)}\r\n250-${'😀'.repeat(400)}\r\n250 end\r\n`)
  expect(replies[0]?.text.length).toBe(limits.replyTextCharactersMax)
  expect(replies[0]?.text.isWellFormed()).toBe(true)
})

test('an EHLO reply may be given more room', () => {
  const reader = new ReplyReader()
  reader.textCharactersMax = limits.ehloTextCharactersMax
  const [reply] = reader.push(Buffer.from(`${`250-${'x'.repeat(100)}\r\n`.repeat(20)}250 STARTTLS\r\n`))
  expect(reply?.text.endsWith('\nSTARTTLS')).toBe(true)
})

const streams = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '250 ok\r\n',
        '250-a\r\n250 b\r\n',
        '550 5.1.1 no\r\n',
        '250\r\n',
        '354 go\n',
        '421 bye\r\n',
        '250 ü\r\n',
      ),
      fc.constantFrom('250-a\r\n550 b\r\n', '+OK\r\n', '25\r\n', '\r', '\n', '250-', `250 ${'y'.repeat(2100)}\r\n`),
      fc.string({ maxLength: 12 }),
    ),
    { maxLength: 8 },
  )
  .map((parts) => Buffer.from(parts.join('')))

test('replies do not depend on where they were split', () => {
  fc.assert(
    fc.property(streams, fc.infiniteStream(fc.integer({ min: 1, max: 9 })), (stream, sizes) => {
      const whole = read(stream)
      const pieces: Buffer[] = []
      for (let at = 0; at < stream.length;) {
        const size = sizes.next().value ?? 1
        pieces.push(stream.subarray(at, at + size))
        at += size
      }
      const inPieces = read(...pieces)
      const singly = read(...Array.from(stream, (_, at) => stream.subarray(at, at + 1)))
      expect(inPieces.replies).toEqual(whole.replies)
      expect(singly.replies).toEqual(whole.replies)
      expect([inPieces.malformed, singly.malformed]).toEqual([whole.malformed, whole.malformed])
    }),
  )
})
