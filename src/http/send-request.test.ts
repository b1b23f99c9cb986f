// The naughty strings (MIT) lie outside the repository and may be absent; the tables here cover every rule without
// them.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { isRefusal, type Refusal } from '../domain/refusal.ts'
import { mailboxId, validBody } from './face.test-kit.ts'
import { parseSendRequest } from './send-request.ts'

const now = Date.parse('2026-11-21T12:00:00Z')
const parse = (change: object = {}) => parseSendRequest({ ...validBody, ...change }, now)
const file = (change: object = {}) => ({ filename: 'a.txt', contentBase64: 'QUJD', ...change })
const verdict = (answer: ReturnType<typeof parse>) =>
  isRefusal(answer) ? `${answer.code} ${answer.field ?? ''}`.trim() : 'read'

test('a request becomes typed values, with defaults and in canonical form', () => {
  const given = {
    mailboxId: mailboxId.toUpperCase(),
    recipient: 'Ada@EXAMPLE.com',
    attachments: [file(), file({ contentType: 'text/plain; charset=utf-8', contentBase64: '' })],
    expiresAt: '2026-11-21T14:00:00+01:00',
    metadata: { order: '1042' },
  }
  expect(parse(given)).toEqual({
    mailboxId,
    recipient: expect.objectContaining({ text: 'Ada@example.com', key: 'ada@example.com' }) as unknown,
    subject: 'Your receipt',
    bodyText: 'Thank you.\n',
    attachments: [
      { filename: 'a.txt', contentType: 'application/octet-stream', bytes: Buffer.from('ABC') },
      { filename: 'a.txt', contentType: 'text/plain; charset=utf-8', bytes: Buffer.alloc(0) },
    ],
    expiresAt: new Date('2026-11-21T13:00:00.000Z'),
    metadata: { order: '1042' },
  })
})

test.each([
  ['html', /^"html" is not a member of this request; HTML, Reply-To, .* are sent over SMTP\.$/],
  ['HtmlBody', /over SMTP/],
  ['bodyHtml', /over SMTP/],
  ['reply_to', /over SMTP/],
  ['Cc', /over SMTP/],
  ['bcc', /over SMTP/],
  ['headers', /over SMTP/],
  ['text', /"bodyText"/],
  ['TextBody', /"bodyText"/],
  ['to', /"recipient"/],
  ['From', /"mailboxId"/],
  ['recipients', /"recipient" here/],
  ['personalizations', /"recipient" here/],
  ['content', /"bodyText"/],
  ['tags', /"metadata"/],
  ['scheduled_at', /no time to send at/],
  ['TemplateId', /no templates/],
  ['Subject', /is written "subject"/],
  ['mailbox_id', /is written "mailboxId"/],
  ['constructor', /remove it or correct its spelling/],
])('who writes %s, as another service calls it, is told the way', (name, words) => {
  expect(parse(JSON.parse(`{"${name}":"x"}`) as object)).toMatchObject({
    code: 'invalid_request',
    field: name,
    words: expect.stringMatching(words) as string,
  })
})

test('a member that is missing is asked for by its own name, beside the one that stands in its place', () => {
  const { bodyText, ...rest } = validBody
  expect(parseSendRequest({ ...rest, html: bodyText }, now)).toMatchObject({
    field: 'bodyText',
    words: expect.stringMatching(
      /^"bodyText" is missing; it is required\. "html" is not a member: .* over SMTP\.$/,
    ) as string,
  })
  expect(parseSendRequest(rest, now)).toMatchObject({ words: '"bodyText" is missing; it is required.' })
})

test('who writes a whole body as another service takes it is told all of its names at once', () => {
  const resend = { from: 'a@b.co', to: ['c@d.co'], subject: 'x', html: '<p>', text: 'y' }
  expect(parseSendRequest(resend, now)).toMatchObject({
    field: 'mailboxId',
    words: [
      '"mailboxId" is missing; it is required. "from" is not a member: the sender is named by "mailboxId", the id of one of your mailboxes.',
      'Nor is "to": it is called "recipient" here, and is one plain address.',
      'Nor is "html": HTML, Reply-To, Cc, Bcc and header fields of your own are sent over SMTP.',
      'Nor is "text": the plain text is called "bodyText" here.',
    ].join(' '),
  })
})

test('several recipients in one request are told to be several requests', () => {
  expect(parse({ recipient: ['a@b.co', 'c@d.co'] })).toMatchObject({
    field: 'recipient',
    words: '"recipient" is one plain address and no list; send a request for each recipient.',
  })
})

test.each([
  [
    { filename: 'a.txt', content: 'eA==' },
    'contentBase64',
    /^"attachments\.0\.contentBase64" is missing.* "content" is/,
  ],
  [{ Name: 'a.txt', Content: 'eA==' }, 'filename', /"Name" is not a member: .*"filename" here\. Nor is "Content": /],
  [file({ content_type: 'text/plain' }), 'content_type', /is written "contentType"/],
  [file({ constructor: 'x' }), 'constructor', /remove it or correct its spelling/],
])('a file as another service takes it is told the way: %j', (attachment, field, words) => {
  expect(parse({ attachments: [attachment] })).toMatchObject({
    field: `attachments.0.${field}`,
    words: expect.stringMatching(words) as string,
  })
})

test('a name as long as a body is not repeated, whatever it would mean', () => {
  const answer = parse({ [`to${'_'.repeat(5_000)}`]: 'x' })
  expect(isRefusal(answer) && answer.words.length).toBeLessThan(300)
})

describe('what is wrong is refused by its name', () => {
  const many = (count: number) => Array.from({ length: count }, () => file())
  const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 'v']))
  const rows: readonly (readonly [change: object, expected: string])[] = [
    // shape
    [{ mailboxId: undefined }, 'invalid_request mailboxId'],
    [{ recipient: null }, 'invalid_request recipient'],
    [{ recipient: ['ada@example.com'] }, 'invalid_request recipient'],
    [{ subject: 5 }, 'invalid_request subject'],
    [{ subject: '' }, 'invalid_request subject'],
    [{ bodyText: '' }, 'invalid_request bodyText'],
    [{ bodyText: true }, 'invalid_request bodyText'],
    [{ attachments: null }, 'invalid_request attachments'],
    [{ attachments: {} }, 'invalid_request attachments'],
    [{ attachments: ['x'] }, 'invalid_request attachments.0'],
    [{ attachments: [{ filename: 'a' }] }, 'invalid_request attachments.0.contentBase64'],
    [{ attachments: [file({ size: 3 })] }, 'invalid_request attachments.0.size'],
    [{ organizationId: mailboxId }, 'invalid_request organizationId'],
    [{ status: 'sent' }, 'invalid_request status'],
    [{ bodyHtml: '<p>' }, 'invalid_request bodyHtml'],
    [{ 'a/b~c': 1 }, 'invalid_request a/b~c'],
    // meaning
    [{ mailboxId: 'not-a-uuid' }, 'invalid_request mailboxId'],
    [{ mailboxId: `{${mailboxId}}` }, 'invalid_request mailboxId'],
    [{ recipient: 'Ada <ada@example.com>' }, 'invalid_request recipient'],
    [{ recipient: 'a@example.com,b@example.com' }, 'invalid_request recipient'],
    [{ recipient: 'a@b>\r\nRCPT TO:<c@d' }, 'invalid_request recipient'],
    [{ recipient: `${'a'.repeat(250)}@example.com` }, 'invalid_request recipient'],
    ...['\r', '\n', '\0', '\v', '\x1f', '\x7f', '\u0085', '\u2028', '\u2029'].map(
      (character) => [{ subject: `a${character}b` }, 'invalid_request subject'] as const,
    ),
    [{ subject: 'x'.repeat(999) }, 'invalid_request subject'],
    [{ subject: '😀'.repeat(998) }, 'read'],
    [{ subject: '😀'.repeat(999) }, 'invalid_request subject'],
    [{ bodyText: 'é'.repeat(limits.bodyTextBytesMax / 2) }, 'read'],
    [{ bodyText: `${'é'.repeat(limits.bodyTextBytesMax / 2)}x` }, 'invalid_request bodyText'],
    [{ bodyText: '€'.repeat(Math.ceil(limits.bodyTextBytesMax / 3)) }, 'invalid_request bodyText'],
    // attachments: file names
    ...['a\r\nb', 'a\0b', '../x', 'C:\\x', '.', '..', 'a\u202egpj.exe', 'a\u2066b', 'a\u2028b', 'é'.repeat(128)].map(
      (filename) => [{ attachments: [file({ filename })] }, 'invalid_request attachments.0.filename'] as const,
    ),
    [{ attachments: [file({ filename: '' })] }, 'invalid_request attachments.0.filename'],
    [{ attachments: [file({ filename: `${'é'.repeat(127)}x` })] }, 'read'],
    [{ attachments: [file({ filename: '"a;b=c" 😀.txt' })] }, 'read'],
    // attachments: types
    ...['text/html\r\nX: y', 'a', 'text/plain; charset="x', 'multipart/mixed; boundary=X', 'message/rfc822', ''].map(
      (contentType) => [{ attachments: [file({ contentType })] }, 'invalid_request attachments.0.contentType'] as const,
    ),
    [{ attachments: [file({ contentType: 'a'.repeat(10_000) })] }, 'invalid_request attachments.0.contentType'],
    // attachments: Base64 (attack Q5)
    ...['-_-_', 'QUJD\n', 'QU JD', 'QUI', 'QQ=', 'QUJD=', 'QQ==QQ==', 'data:text/plain;base64,QUJD', 'QR==', 'A'].map(
      (contentBase64) =>
        [{ attachments: [file(), file({ contentBase64 })] }, 'invalid_request attachments.1.contentBase64'] as const,
    ),
    [{ attachments: [file({ contentBase64: 5 })] }, 'invalid_request attachments.0.contentBase64'],
    [{ attachments: [file({ contentBase64: '' })] }, 'read'],
    // attachments: limits (attack Q6)
    [{ attachments: [] }, 'read'],
    [{ attachments: many(10) }, 'read'],
    [{ attachments: many(11) }, 'too_many_attachments attachments'],
    [{ attachments: Array.from({ length: 11 }, () => null), recipient: 5 }, 'too_many_attachments attachments'],
    // additions
    [{ expiresAt: 'tomorrow' }, 'invalid_request expiresAt'],
    [{ expiresAt: '2026-11-21T13:00:00' }, 'invalid_request expiresAt'],
    [{ expiresAt: '2026-11-21T12:00:00Z' }, 'read'], // that it has passed is `accept`'s to say
    [{ expiresAt: '2026-11-28T12:00:00Z' }, 'read'],
    [{ expiresAt: '2026-11-28T12:00:01Z' }, 'invalid_request expiresAt'],
    [{ metadata: pairs(20) }, 'read'],
    [{ metadata: pairs(21) }, 'invalid_request metadata'],
    [{ metadata: { ['k'.repeat(40)]: 'v'.repeat(500) } }, 'read'],
    [{ metadata: { ['k'.repeat(41)]: 'v' } }, `invalid_request metadata.${'k'.repeat(41)}`],
    [{ metadata: { k: 'v'.repeat(501) } }, 'invalid_request metadata.k'],
    [{ metadata: { k: 1 } }, 'invalid_request metadata.k'],
    // A name may hold a line end, and what it stands for is looked at all the same.
    ...['\n', '\r', '\u2028', '\u2029'].flatMap((end): [object, string][] => [
      [{ metadata: { [`a${end}b`]: 'v'.repeat(500) } }, 'read'],
      [{ metadata: { [`a${end}b`]: 'v'.repeat(501) } }, `invalid_request metadata.a${end}b`],
      [{ metadata: { [`a${end}b`]: { n: 1 } } }, `invalid_request metadata.a${end}b`],
    ]),
    [{ metadata: [] }, 'invalid_request metadata'],
  ]
  // The titles leave the bodies out: some are megabytes.
  test.each(rows.map(([change, expected], index) => ({ index, change, expected })))(
    'row $index: $expected',
    ({ change, expected }) => {
      const body = Object.fromEntries(
        Object.entries({ ...validBody, ...change }).filter(([, value]) => value !== undefined),
      )
      expect(verdict(parseSendRequest(body, now))).toBe(expected)
    },
  )

  test.each([[null], [[]], ['text'], [5], [true]])(
    'a body that is %j is refused, and the whole body is named',
    (value) => expect(parseSendRequest(value, now)).toMatchObject({ code: 'invalid_request', field: 'body' }),
  )
})

test('attachments may have 20 MB decoded together, and not a byte more', () => {
  const sized = (...sizes: number[]) => ({
    attachments: sizes.map((size) => file({ contentBase64: Buffer.alloc(size, 7).toString('base64') })),
  })
  const half = limits.attachmentsBytesMax / 2
  expect(verdict(parse(sized(20_000_001)))).toBe('read')
  expect(verdict(parse(sized(half, half)))).toBe('read')
  expect(verdict(parse(sized(half, half, 1)))).toBe('attachments_too_large attachments')
  expect(verdict(parse(sized(limits.attachmentsBytesMax + 1)))).toBe('attachments_too_large attachments')
})

test('every refusal names its field in a sentence, and repeats little of what a stranger wrote', () => {
  for (const change of [{ subject: 5 }, { expiresAt: 'x' }, { ['x'.repeat(5_000)]: 1 }]) {
    const answer = parse(change)
    expect(isRefusal(answer) && answer.words).toMatch(/^".{1,128}" .{5,120}\.$/)
  }
})

test('a refusal is well-formed text, wherever a name of many surrogate pairs was cut', () => {
  for (const name of ['😀'.repeat(100), `a${'😀'.repeat(100)}`])
    for (const change of [{ [name]: 1 }, { metadata: { [name]: 'x' } }]) {
      const { words, field } = parse(change) as Refusal
      expect([words.isWellFormed(), field?.isWellFormed()]).toEqual([true, true])
    }
})

test('a recipient of a form that is not supported is told which one', () => {
  expect(parse({ recipient: '"ada lovelace"@example.com' })).toMatchObject({
    code: 'invalid_request',
    words: '"recipient" has a quoted local part, which is not supported; use an address without quotes.',
  })
})

describe('RFC 3339 date-times', () => {
  test.each([
    ['2026-11-21T09:30:00Z', '2026-11-21T09:30:00.000Z'],
    ['2026-11-21t09:30:00.5z', '2026-11-21T09:30:00.500Z'],
    ['2026-11-21T09:30:00.123456789-05:30', '2026-11-21T15:00:00.123Z'],
    ['2028-02-29T00:00:00+14:00', '2028-02-28T10:00:00.000Z'],
    ['2026-12-31T23:59:60Z', '2027-01-01T00:00:00.000Z'],
  ])('%s is %s', (text, expected) => {
    const answer = parseSendRequest({ ...validBody, expiresAt: text }, Date.parse(expected) - 1_000)
    expect(answer).toMatchObject({ expiresAt: new Date(expected) })
  })

  test.each([
    '2026-11-21',
    '2026-11-21T09:30Z',
    '2026-11-21 09:30:00Z',
    '2026-11-21T09:30:00',
    '2026-11-21T09:30:00+0100',
    '2026-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-11-31T00:00:00Z',
    '2026-11-21T24:00:00Z',
    '2026-11-21T09:60:00Z',
    '2026-11-21T09:30:61Z',
    '2026-11-21T09:30:00.Z',
    '2026-11-21T09:30:00Z\n',
    '+02026-11-21T09:30:00Z',
    '20261121T093000Z',
  ])('%j is none', (text) => {
    const answer = parse({ expiresAt: text })
    expect(answer).toMatchObject({ field: 'expiresAt', words: expect.stringContaining('RFC 3339') as unknown })
  })
})

const corpus = join(import.meta.dirname, '../../../shared/corpora/naughty-strings.json')
const naughty = existsSync(corpus) ? (JSON.parse(readFileSync(corpus, 'utf8')) as string[]) : []
test(`naughty strings in every text field come through equal, or are refused (${naughty.length} strings)`, () => {
  for (const text of naughty) {
    const subject = parse({ subject: text })
    expect(isRefusal(subject) || subject.subject === text).toBe(true)
    const bodyText = parse({ bodyText: text })
    expect(isRefusal(bodyText) || bodyText.bodyText === text).toBe(true)
    const metadata = parse({ metadata: { k: text } })
    expect(isRefusal(metadata) || metadata.metadata?.['k'] === text).toBe(true)
    const named = parse({ attachments: [file({ filename: text })] })
    expect(isRefusal(named) || named.attachments[0]?.filename === text).toBe(true)
    for (const change of [
      { recipient: text },
      { mailboxId: text },
      { expiresAt: text },
      { attachments: [file({ contentType: text })] },
      { attachments: [file({ contentBase64: text })] },
    ])
      expect(verdict(parse(change))).toMatch(/^(read|invalid_request \S+)$/)
  }
})
