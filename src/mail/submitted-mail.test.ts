// What a submitted mail may look like, what of it is sent on, and what is read out of it.
import { describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { addressSpecs } from './address-list.ts'
import { readHeaderBlock } from './header-block.ts'
import { textOfHtml } from './html-text.ts'
import { textOfMail } from './mail-text.ts'
import { isMailMistake, readSubmittedMail, type SubmittedMail } from './submitted-mail.ts'
import { effortOf } from '../base/effort.test-kit.ts'

const mailOf = (head: readonly string[], body = 'Hello\r\n') => Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`)
const from = 'From: Ann <ann@example.org>'
const now = Date.parse('2026-11-25T00:00:00Z')
const read = (mail: Buffer, utf8 = false): SubmittedMail => {
  const answer = readSubmittedMail(mail, utf8, now)
  if (isMailMistake(answer)) throw new Error(answer.words)
  return answer
}
const wrong = (mail: Buffer, utf8 = false): string => {
  const answer = readSubmittedMail(mail, utf8, now)
  return isMailMistake(answer) ? answer.mistake : 'taken'
}

describe('what is sent on', () => {
  test('every octet, but for hidden recipients and our own fields, however they are written', () => {
    const mail = mailOf(
      [
        'Received: from x',
        'BCC: a@b.example,\r\n c@d.example',
        'X-PostHorn-Token: forged',
        from,
        'Return-Path: <x@y.example>',
        'x-idempotency-key: order-7',
        'Subject:  two  blanks ',
        'Resent-Bcc: z@z.example',
        'X-Other: kept\r\n\tfolded',
        'DKIM-Signature: v=1; d=elsewhere.example',
      ],
      'Bcc: this is text\r\n\r\n.\r\n',
    )
    const { content, idempotencyKey, lacks } = read(mail)
    expect(content.toString()).toBe(
      mailOf(
        [
          'Received: from x',
          from,
          'Subject:  two  blanks ',
          'X-Other: kept\r\n\tfolded',
          'DKIM-Signature: v=1; d=elsewhere.example',
        ],
        'Bcc: this is text\r\n\r\n.\r\n',
      ).toString(),
    )
    expect([idempotencyKey, lacks]).toEqual(['order-7', ['Date', 'Message-ID']])
  })

  test('an expiry and metadata are read as over HTTP, also folded and in encoded words, and not sent on', () => {
    const mail = mailOf([
      from,
      'X-Posthorn-Expires-At: 2026-11-25T01:00:00+01:00',
      'X-Posthorn-Metadata: {"orderId": "1042",\r\n "note": "a \\"quoted\\" word", \r\n\t"name": "=?utf-8?Q?Gr=C3=BC=C3=9Fe?="}',
    ])
    const { content, expiresAt, metadata } = read(mail)
    expect(content.toString()).toBe(mailOf([from]).toString())
    expect([expiresAt, metadata]).toEqual([
      new Date('2026-11-25T00:00:00Z'),
      { orderId: '1042', note: 'a "quoted" word', name: 'Grüße' },
    ])
    expect(read(mailOf([from]))).not.toHaveProperty('metadata')
  })

  test('no header line of blanks alone, where some readers end the header: its field stays, and the fields behind it are fields', () => {
    const { content, subject, messageId } = read(
      mailOf(
        [
          from,
          'Subject: x\r\n \r\n\t \r\n y\r\n  ',
          'Bcc: hidden@b.example\r\n \r\n z',
          'X-Empty:\r\n ',
          'X-Folded: a\r\n b  \r\n\tc ',
          'Date: x',
          'Message-ID:\r\n  \r\n <a@b>\r\n\t',
        ],
        'x\r\n \r\ny\r\n',
      ),
    )
    const left = [
      from,
      'Subject: x\r\n y',
      'X-Empty:',
      'X-Folded: a\r\n b  \r\n\tc ',
      'Date: x',
      'Message-ID:\r\n <a@b>',
    ]
    expect(content.toString()).toBe(mailOf(left, 'x\r\n \r\ny\r\n').toString())
    expect({ subject, messageId }).toEqual({ subject: expect.stringMatching(/^x\s+y$/) as string, messageId: 'a@b' })
    // At the end of a mail without a body.
    const bare = Buffer.from(`${from}\r\nDate: x\r\nMessage-ID: <a@b>\r\nSubject: x\r\n `)
    expect(read(bare).content.toString()).toBe(`${from}\r\nDate: x\r\nMessage-ID: <a@b>\r\nSubject: x`)
  })

  test('a mail with nothing to take away is not copied', () => {
    const mail = mailOf([from, 'Date: x', 'Message-ID: <a@b>'])
    expect(read(mail)).toMatchObject({ content: mail, lacks: [], messageId: 'a@b' })
    expect(read(mail).content).toBe(mail)
  })

  test('an empty mandatory field is a missing one: it is taken away, so that the one added stands alone', () => {
    for (const empty of ['', '  ', '\r\n ', ' <>']) {
      const { content, lacks, messageId } = read(mailOf([`Date:${empty}`, from, `Message-ID:${empty}`, 'Subject:']))
      expect(content.toString()).toBe(mailOf([from, 'Subject:']).toString())
      expect([lacks, messageId]).toEqual([['Date', 'Message-ID'], undefined])
    }
  })

  test('a Message-ID that is none is left as it is, and still tells a repeat', () => {
    const mail = mailOf([from, 'Date: x', 'Message-ID: foo bar'])
    expect(read(mail)).toMatchObject({ content: mail, lacks: [], messageId: 'foo bar' })
  })

  test.each([
    // Postfix, which gives mail of other machines no Message-ID; Exim; sendmail.
    [
      'from nas ([192.0.2.7])\r\n\tby mx.example (Postfix) with ESMTP id A0D07180A3C;\r\n\tFri, 20 Nov 2026 10:00:00 +0000',
      true,
    ],
    [
      'from nas by mx.example with esmtp (Exim 4.96)\r\n\t(envelope-from <a@b.example>)\r\n\tid 1xWehG-0004fr-0R; date',
      true,
    ],
    ['from nas by mx.example (8.17.1/8.17.1) with ESMTP id 6AQIsn5r001146\r\n\tfor <a@b.example>; date', true],
    ['by mx.google.com with SMTP id d2e1a-1.12.2026.11.20; date', true],
    ['by box (sSMTP sendmail emulation); Thu, 26 Nov 2026 18:51:54 +0000', false],
    ['(qmail 1042 invoked by uid 0); 20 Nov 2026 10:00:00 -0000', false],
    ['from a by b with Microsoft SMTP Server id 15.2.1118.7; Fri, 20 Nov 2026 10:00:00 +0000', false],
    ['from id by mx.example; date', false],
  ])('a mail without a Message-ID has a name where a server has given it one: %s', (trace, named) => {
    expect(read(mailOf([`Received: ${trace}`, from])).isNamed).toBe(named)
    expect(read(mailOf([from, `X-Received: ${trace}`])).isNamed).toBe(false)
  })

  test.each([
    ['Tue, 24 Nov 2026 23:00:00 +0000', true],
    ['Wed, 25 Nov 2026 02:00:00 +0200 (EET)', true],
    ['19 Nov 2026 01:00:00 -0000', true],
    ['18 Nov 2026 23:00:00 -0000', false],
    ['Thu, 01 Jan 1970 00:00:00 +0000', false],
    ['Fri, 27 Nov 2026 00:00:00 +0000', false], // nobody's clock is ahead by so much
    ['x', false],
    ['', false],
  ])('a mail is of these days by its Date, and a file that is sent each night is not: %s', (date, expected) => {
    const head = [from, `Date: ${date}`, 'Message-ID: <a@b.example>']
    expect(read(mailOf(head))).toMatchObject({ isNamed: true, isDated: expected })
    const trace = 'Received: by mx.example (Postfix) with ESMTP id A0D07180A3C; Tue, 24 Nov 2026 10:00:00 +0000'
    expect(read(mailOf([trace, ...head])).isDated).toBe(true)
  })

  test('a header without a body is a mail', () => {
    expect(read(Buffer.from(`${from}\r\nBcc: x@y.example\r\n`)).content.toString()).toBe(`${from}\r\n`)
  })
})

describe('what is refused', () => {
  const many = (count: number, field: string) => Array.from({ length: count }, () => field)
  const cases: [string, string, Buffer][] = [
    ['no From', 'sender', mailOf(['Subject: x'])],
    ['an empty From', 'sender', mailOf(['From:'])],
    ['two addresses in From', 'sender', mailOf(['From: a@b.example, c@d.example'])],
    ['a group in From', 'sender', mailOf(['From: All: a@b.example;'])],
    ['two From fields', 'malformed', mailOf([from, 'from: b@c.example'])],
    ['another Sender', 'sender', mailOf([from, 'Sender: bob@example.org'])],
    ['two Sender fields', 'malformed', mailOf([from, 'Sender: ann@example.org', 'Sender: ann@example.org'])],
    ['two content types', 'malformed', mailOf([from, 'Content-Type: text/plain', 'Content-Type: text/html'])],
    ['a line that is no field', 'malformed', mailOf([from, 'no field'])],
    ['a blank before the colon', 'malformed', mailOf([from, 'Subject : x'])],
    ['a continuation at the start', 'malformed', mailOf([' folded', from])],
    ['a field without a name', 'malformed', mailOf([from, ': x'])],
    ['no header', 'sender', Buffer.from(`\r\n${from}\r\n\r\nx\r\n`)],
    ['NUL', 'malformed', mailOf([from], 'a\0b\r\n')],
    ['a line of 999 octets', 'malformed', mailOf([from], `${'x'.repeat(999)}\r\n`)],
    ['a header line of 999 octets', 'malformed', mailOf([from, `Subject: ${'x'.repeat(990)}`])],
    ['too many fields', 'tooLarge', mailOf([from, ...many(limits.submissionFieldsMax, 'X-A: b')])],
    ['control characters beside the address', 'sender', mailOf(['From: ann@example.org\x0b'])],
    ['control characters before the address', 'sender', mailOf(['From: \x0c ann@example.org'])],
    ['control characters in the brackets', 'sender', mailOf(['From: Ann <\x0bann@example.org>'])],
    ['control characters before the brackets', 'sender', mailOf(['From: Ann\x1f<ann@example.org>'])],
    ['control characters in Sender', 'sender', mailOf([from, 'Sender: ann@example.org\x0c'])],
    ['control characters beside a key', 'malformed', mailOf([from, 'X-Idempotency-Key: a\x0b'])],
    ['a header of 300 KB', 'tooLarge', mailOf([from, ...many(300, `X-A: ${'b'.repeat(990)}`)])],
    ['31 Received fields', 'loop', mailOf([...many(31, 'Received: by x'), from])],
    ['raw UTF-8 without SMTPUTF8', 'needsSmtputf8', mailOf([from, 'Subject: Grüße'])],
    ['raw latin1', 'needsSmtputf8', Buffer.from(`${from}\r\nSubject: Gr\xfc\r\n\r\nx\r\n`, 'latin1')],
    ['an empty key', 'malformed', mailOf([from, 'X-Idempotency-Key:'])],
    ['two keys', 'malformed', mailOf([from, 'X-Idempotency-Key: a', 'X-Idempotency-Key: b'])],
    ['two expiries', 'malformed', mailOf([from, ...many(2, 'X-Posthorn-Expires-At: 2026-11-26T00:00:00Z')])],
    ['a key with a blank', 'malformed', mailOf([from, 'X-Idempotency-Key: a b'])],
  ]
  test.each(cases)('%s', (_, kind, mail) => expect(wrong(mail)).toBe(kind))

  test('a mail without From is told that it has none, and not how one is written', () => {
    for (const header of ['Subject: x', 'From:', 'From: \r\n '])
      expect(readSubmittedMail(mailOf([header]), false, now)).toMatchObject({
        mistake: 'sender',
        words: expect.stringMatching(/^The mail has no From; give it one/) as string,
      })
  })

  test.each([
    ['Expires-At: tomorrow', /time with a time zone/],
    ['Expires-At:', /time with a time zone/],
    ['Expires-At: 2026-12-02T00:00:01Z', /at most 7 days ahead/],
    ['Metadata:', /JSON object of strings/],
    ['Metadata: orderId=1042', /JSON object of strings/],
    ['Metadata: ["a"]', /JSON object of strings/],
    ['Metadata: null', /JSON object of strings/],
    ['Metadata: {"a": 1}', /JSON object of strings/],
    ['Metadata: {"a": {"b": "c"}}', /JSON object of strings/],
    ['Metadata: {"a": "1", "\\u0061": "2"}', /a member twice/],
    ['Metadata: {"__proto__": "a"}', /__proto__/],
    ['Metadata: {"": "a"}', /empty name/],
    ['Metadata: {"a": "\\u0000"}', /U\+0000/],
    ['Metadata: {"a": "\\ud800"}', /half a surrogate/],
    [`Metadata: {"${'n'.repeat(limits.metadataKeyCharactersMax + 1)}": "a"}`, /names of at most 40/],
    [`Metadata: {"a": "${'v'.repeat(limits.metadataValueCharactersMax + 1)}"}`, /values of at most 500/],
    [`Metadata: ${JSON.stringify(Object.fromEntries(Array.from({ length: 21 }, (_, at) => [at, ''])))}`, /at most 20/],
  ])('X-Posthorn-%j is refused with the reason, and the mail with it', (field, words) =>
    expect(readSubmittedMail(mailOf([from, `X-Posthorn-${field}`]), false, now)).toMatchObject({
      mistake: 'malformed',
      words: expect.stringMatching(words) as string,
    }),
  )

  test('all that metadata may hold is taken, in encoded words, which every library makes of it', () => {
    const [name, value] = [
      'n'.repeat(limits.metadataKeyCharactersMax - 2),
      '😀'.repeat(limits.metadataValueCharactersMax),
    ]
    const pairs = Array.from({ length: limits.metadataPairsMax }, (_, at) => [`${name}${at}`, value] as const)
    const words =
      Buffer.from(JSON.stringify(Object.fromEntries(pairs)))
        .toString('base64')
        .match(/.{1,60}/g) ?? []
    const field = `X-Posthorn-Metadata: ${words.map((word) => `=?UTF-8?B?${word}?=`).join('\r\n ')}`
    expect(read(mailOf([from, field])).metadata).toEqual(Object.fromEntries(pairs))
  })

  test.each([
    '\u00a0ann@example.org',
    'ann@example.org\ufeff',
    'Ann <ann@example.org\u2003>',
    'Ann\x85<ann@example.org>',
  ])('an invisible character beside the address: From: %j', (text) =>
    expect(wrong(mailOf([`From: ${text}`]), true)).toBe('sender'),
  )

  test('a header that is too large is told from one that cannot be read, as too many fields are', () => {
    const folded = mailOf([from, `Subject: x${'\r\n yyyyyyyyyyyyyyyyyyyy'.repeat(15_000)}`])
    expect(readSubmittedMail(folded, false, now)).toEqual({
      mistake: 'tooLarge',
      words: 'The header has more than 262144 octets',
    })
    expect(readSubmittedMail(mailOf([from, 'no field']), false, now)).toEqual({
      mistake: 'malformed',
      words: 'A line before the empty line is no header field',
    })
  })

  test('what stands exactly at the limit is taken', () => {
    expect(wrong(mailOf(['From: \t(own)\r\n\tAnn\r\n\t<\tann@example.org >\t']))).toBe('taken')
    expect(wrong(mailOf([`From: M.\u00a0Ann <ann@example.org>`]), true)).toBe('taken')
    expect(wrong(mailOf([from], `${'x'.repeat(998)}\r\n`.repeat(3)))).toBe('taken')
    expect(wrong(mailOf([...many(30, 'Received: by x'), from]))).toBe('taken')
    expect(wrong(mailOf([from, 'Sender: Ann (herself) <ANN@Example.org>']))).toBe('taken')
    expect(wrong(mailOf([from, 'Subject: Grüße']), true)).toBe('taken')
  })
})

describe('what is read out', () => {
  test('the subject: decoded, in one line, bounded', () => {
    const subject = (value: string) => read(mailOf([from, `Subject: ${value}`])).subject
    expect(subject('=?utf-8?Q?Gr=C3=BC?=\r\n =?utf-8?B?w59l?=')).toBe('Grüße')
    expect(subject('=?utf-8?B?DQpCY2M6IHg=?=')).toBe(' Bcc: x')
    expect(read(mailOf([from])).subject).toBe('')
    const words = Array.from({ length: 30 }, () => ` ${'y'.repeat(60)}`).join('\r\n')
    expect(subject(words)).toHaveLength(limits.subjectCodePointsMax)
  })

  test.each([
    ['plain', '', 'Hällo\r\nWelt\r\n', 'Hällo\nWelt\n'],
    ['quoted-printable', 'Content-Transfer-Encoding: quoted-printable', 'H=C3=A4llo=\r\n Welt\r\n', 'Hällo Welt\n'],
    [
      'HTML alone',
      'Content-Type: text/html',
      '<style>p{}</style><p>Ein &amp; zwei</p><p>drei<br>vier',
      'Ein & zwei\n\ndrei\nvier',
    ],
    [
      'HTML first, text behind it, an attached text before both',
      'Content-Type: multipart/mixed; boundary=b',
      [
        '--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\nattached\r\n',
        '--b\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n',
        '--c\r\nContent-Type: text/html\r\n\r\n<b>html</b>\r\n--c\r\n\r\ntext\r\n--c--\r\n--b--\r\n',
      ].join(''),
      'text',
    ],
    ['a picture alone', 'Content-Type: image/png\r\nContent-Transfer-Encoding: base64', 'AAAA\r\n', ''],
    ['a mail inside the mail alone', 'Content-Type: message/rfc822', 'Subject: inner\r\n\r\ninner text\r\n', ''],
  ])('the text: %s', (_, field, body, text) => {
    expect(textOfMail(mailOf(field === '' ? [from] : [from, field], body))).toBe(text)
  })

  test('only a text for people is told from what may hold files', () => {
    const isPlain = (fields: readonly string[], body?: string) =>
      read(mailOf([from, ...fields], body)).plainText !== undefined
    expect(isPlain([])).toBe(true)
    expect(isPlain(['Content-Type: text/plain; charset=utf-8', 'Content-Transfer-Encoding: 8bit'])).toBe(true)
    expect(isPlain(['Content-Type: text/html'])).toBe(false)
    expect(isPlain(['Content-Type: multipart/mixed; boundary=b'])).toBe(false)
    expect(isPlain(['Content-Type: text/plain; name=a.exe'])).toBe(false)
    // To nodemailer's mailparser this is a multipart.
    expect(isPlain(['Content-Type: text/plain; Boundary=b'])).toBe(false)
    // Not every reader knows comments, and what a backslash does.
    for (const given of [
      'text/plain (; name=a.vbs)',
      'text/plain (; name=a.vbs',
      'text/plain; x="\\"; name="a.vbs',
      'text/plain; filename=a.vbs',
    ])
      expect(isPlain([`Content-Type: ${given}`])).toBe(false)
    expect(isPlain([`Content-Type: text/plain${'\r\n '.repeat(60_000)}x`])).toBe(false)
    expect(isPlain(['Content-Type: Text/Plain;\r\n\tformat = flowed; charset="utf-8" ;'])).toBe(true)
    expect(isPlain(['Content-Transfer-Encoding: base64'])).toBe(false)
    expect(isPlain(['Content-Disposition: attachment'])).toBe(false)
    expect(isPlain([], 'x\r\nbegin 644 a.exe\r\n')).toBe(false)
    expect(isPlain([], 'begin 644 a.exe\r\n')).toBe(false)
    // munpack takes this for a forwarded mail.
    expect(isPlain([], 'X: y\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n')).toBe(false)
    expect(isPlain([], 'X: y\r\nContent-Type : application/zip\r\n\r\nAAAA\r\n')).toBe(false)
    expect(isPlain([], 'x\r\nbegin-base64 644 a.exe\r\n')).toBe(false)
    expect(isPlain([], 'to begin with\r\nbeginnings\r\nbegin\r\n')).toBe(true)
    expect(isPlain([], '\r\nbeginnings'.repeat(10_000))).toBe(false) // too many to look at
  })

  test('it is told decoded', () => {
    const textOf = (...fields: string[]) => read(mailOf([from, ...fields], 'caf=C3=A9\r\n')).plainText?.toString()
    expect(textOf('Content-Transfer-Encoding: quoted-printable')).toBe('café\r\n')
    expect(textOf('Content-Transfer-Encoding: 8bit')).toBe('caf=C3=A9\r\n')
  })

  test.each([
    ['an ordinary text', 'Gr=C3=BC=C3=9Fe =3D to begin=\r\n with\r\n', true],
    ['the word as it is', 'begin 644 e.zip\r\n', false],
    ['the word in codes', '=62egin 644 e.zip\r\n', false],
    ['all of the word in codes', 'x\r\n=62=65=67=69=6e=20644 e.zip\r\n', false],
    ['a soft break in the word', 'be=\r\ngin 644 e.zip\r\n', false],
    ['a soft break with blanks', 'be= \t\r\ngin 644 e.zip\r\n', false],
    ['a line end in codes', 'x=0Abegin 644 e.zip\r\n', false],
    ['Base64 in codes', 'begin=2Dbase64 644 e.zip\r\n', false],
    ['a soft break in a code, which some take out first', '=58=3=\r\n5O!P\r\n', false],
    ['a file that calls itself a text', '=1F=8B=08=03archive\r\n', false],
    ['tab, form feed, and a charset that switches', '=09=0C=1B$B$5=1B(B =0Eso=0F\r\n', true],
    ['too long to be decoded here', 'x\r\n'.repeat(limits.smtpBlockBytes), false],
  ])('a quoted-printable text is looked at decoded: %s', (_, body, isPlain) => {
    const mail = mailOf([from, 'Content-Transfer-Encoding: Quoted-Printable'], body)
    expect(read(mail).plainText !== undefined).toBe(isPlain)
  })
})

test.each([
  ['a@b.example', ['a@b.example']],
  ['"A, B" <a@b.example>', ['a@b.example']],
  ['A (c, <x@y>) <a@b.example> (d)', ['a@b.example']],
  ['a@b.example, C <c@d.example>', ['a@b.example', 'c@d.example']],
  ['<a@b.example> <c@d.example>', undefined],
  ['<a@b.example> c@d.example', undefined],
  ['a@b.example,', undefined],
  ['', undefined],
  ['"a" b@c.example', undefined],
  ['<"a b"@c.example>', undefined],
  ['(open', undefined],
  ['a@b(c).example', undefined],
  ['a@b.example\x0b', undefined],
  ['\ufeffa@b.example', undefined],
  ['<\u00a0a@b.example>', undefined],
  ['A\x7f <a@b.example>', undefined],
  ['A\u00a0B\t<\ta@b.example >\t', ['a@b.example']],
  ['"open', undefined],
  ['a@b.example (<c@d.example>', undefined],
  ['a@b.example (open', undefined],
  // Python's email.policy.default reads the first, and others the second.
  ['c@d.example <a@b.example>', undefined],
  ['via c@d.example for you <a@b.example>', undefined],
  ['"c@d.example" <a@b.example>', ['a@b.example']],
  ['"c@d.example"] <a@b.example>', undefined],
  ['"c@d.example" ) <a@b.example>', undefined],
  ['\\ =?utf-8?q?c=40d.example?= <a@b.example>', undefined],
  ['=?utf-8?q?c=40d.example?=[<a@b.example>', undefined],
  ['"<c@d.example>" a@b.example <a@b.example>', undefined],
  ['[Shop] \\o/ <a@b.example>', ['a@b.example']],
  ['A@b.example <a@B.example>', ['a@B.example']],
  ['<open@c.example', undefined],
])('addresses of %j', (text, specs) => expect(addressSpecs(text)).toEqual(specs))

test('a header has its fields where they stand, whatever the octets', () => {
  const mail = Buffer.from('A: 1\r\nB:\r\n 2\r\n\r\nbody\r\n')
  const header = readHeaderBlock(mail, 100)
  expect(header?.lines.map(({ name, value, start, end }) => [name, value, start, end])).toEqual([
    ['a', ' 1', 0, 6],
    ['b', '\r\n 2', 6, 14],
  ])
  expect(mail.subarray(header?.bodyStart).toString()).toBe('body\r\n')
  expect(readHeaderBlock(mail, 10)).toBeUndefined()
})

test('HTML that never ends, or is none, is read in linear time', () => {
  for (const piece of ['<', '<!--', '<script>', '<p', '&', '&#', '<style><', '</'])
    for (const html of [piece.repeat(200_000)]) {
      expect(effortOf(() => textOfHtml(html))).toBeLessThan(2_000)
    }
  expect(textOfHtml('2 < 3 &#x41;&#66;&bogus;<script>x</script> y')).toBe('2 < 3 AB&bogus; y')
})
