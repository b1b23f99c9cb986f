import * as fc from 'fast-check'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import PostalMime from 'postal-mime'
import { beforeAll, describe, expect, test } from 'vitest'
import { composeMail, headerBlock } from './compose.ts'
import type { ComposedMail, Draft } from './compose.ts'

const messageId = '0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'

function draft(more: Partial<Draft> = {}): Draft {
  return {
    messageId,
    hostname: 'mail.example.com',
    from: { address: 'sender@example.com' },
    to: 'recipient@example.org',
    subject: 'Hello',
    bodyText: 'Hello, world.\n',
    attachments: [],
    createdAt: new Date('2026-11-01T09:08:07.006Z'),
    ...more,
  }
}

function wireOf(mail: ComposedMail): Buffer {
  return Buffer.concat([Buffer.from(headerBlock(mail.fields), 'latin1'), mail.body])
}

/** What every mail on the wire must be, whatever is in it. */
function expectCleanWire(mail: ComposedMail): void {
  const wire = wireOf(mail)
  const text = wire.toString('latin1')
  expect(text.endsWith('\r\n')).toBe(true)
  expect(text.replaceAll('\r\n', '')).toMatch(mail.needsSmtputf8 ? /^[\t\x20-\x7e\x80-\xff]*$/ : /^[\t\x20-\x7e]*$/)
  expect(Math.max(...text.split('\r\n').map((line) => line.length))).toBeLessThanOrEqual(998)
  const head = text.slice(0, text.indexOf('\r\n\r\n')).split('\r\n')
  expect(head.filter((line) => !line.startsWith(' ')).map((line) => line.slice(0, line.indexOf(':')))).toEqual([
    'From',
    'To',
    'Subject',
    'Date',
    'Message-ID',
    'MIME-Version',
    'Content-Type',
    'Content-Transfer-Encoding',
  ])
  expect(head.every((line) => /\S/.test(line))).toBe(true)
  for (const line of head) if (!line.includes('@')) expect(line.length).toBeLessThanOrEqual(78)
}

interface Read {
  readonly subject: string
  readonly from: readonly { name: string; address: string }[]
  readonly to: readonly string[]
  readonly messageId: string
  readonly text: string
  readonly files: readonly { name: string; type: string; base64: string }[]
}

async function readByPostalMime(wire: Buffer): Promise<Read> {
  const mail = await PostalMime.parse(wire)
  return {
    subject: mail.subject ?? '',
    from: [{ name: mail.from?.name ?? '', address: mail.from?.address ?? '' }],
    to: (mail.to ?? []).map((each) => each.address ?? ''),
    messageId: mail.messageId ?? '',
    text: mail.text ?? '',
    files: mail.attachments.map((file) => ({
      name: file.filename ?? '',
      type: file.mimeType,
      base64: Buffer.from(file.content as ArrayBuffer).toString('base64'),
    })),
  }
}

const python = `
import base64, json, sys
from email import message_from_string, policy
out = []
for raw in json.load(sys.stdin):
    mail = message_from_string(base64.b64decode(raw).decode('utf-8'), policy=policy.SMTPUTF8)
    body = mail.get_body(('plain',)) if mail.is_multipart() else mail
    out.append(dict(
        subject=str(mail['subject']),
        messageId=str(mail['message-id']),
        text=body.get_payload(decode=True).decode('utf-8'),
        files=[dict(name=part['content-disposition'].params['filename'], type=part.get_content_type(),
                    base64=base64.b64encode(part.get_payload(decode=True)).decode()) for part in mail.iter_attachments()]
              if mail.is_multipart() else [],
        **{'from': [dict(name=a.display_name, address=a.addr_spec) for a in mail['from'].addresses]},
        to=[a.addr_spec for a in mail['to'].addresses],
        names=[name for name in mail.keys()],
        defects=[repr(d) for part in mail.walk() for d in part.defects] + [repr(d) for h in mail.values() for d in getattr(h, 'defects', [])]))
json.dump(out, sys.stdout)
`

/** One process for all mails. Undefined on a machine without Python: postal-mime alone reads back then. */
function readByPython(wires: readonly Buffer[]): (Read & { names: string[]; defects: string[] })[] | undefined {
  const input = JSON.stringify(wires.map((wire) => wire.toString('base64')))
  const run = spawnSync('python3', ['-c', python], { input, maxBuffer: 256 * 1024 * 1024, encoding: 'utf8' })
  if (run.error !== undefined) {
    console.log('not run: python3 is absent, mails are read back by postal-mime only')
    return undefined
  }
  if (run.status !== 0) throw new Error(run.stderr)
  return JSON.parse(run.stdout)
}

/** Line ends are CRLF on the way, and a text that is not empty ends with one. */
const asRead = (text: string): string => text.replace(/\r\n?|\n/g, '\n').replace(/\n?$/, '\n')
// What a face refuses is made harmless here: it becomes a space.
const harmless = (text: string): string => text.toWellFormed().replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]/g, ' ')

const subjects: Record<string, string> = {
  'one character': 'x',
  empty: '',
  'a space': ' ',
  'spaces around': '  spaced  ',
  'runs of spaces': 'a  b   c',
  'runs of spaces over several lines': 'a  b   c '.repeat(20).trim(),
  'exactly one line': 'x'.repeat(69),
  'one over': 'x'.repeat(70),
  'words over several lines': 'lorem ipsum dolor sit amet '.repeat(20).trim(),
  '998 octets': 'x'.repeat(998),
  '100 kB without spaces': 'y'.repeat(100_000),
  'an encoded word, literally': '=?utf-8?B?DQpCY2M6IGV2aWxAZXhhbXBsZS5jb20=?=',
  'an encoded word inside': 'see =?utf-8?Q?=0D=0ABcc:_x?= there',
  'half of an encoded word': '=?utf-8?Q?',
  'latin with umlauts': 'Grüße aus München',
  'long latin with umlauts': 'Übergrößenträger und Ähnliches, '.repeat(15),
  cyrillic: 'Привет, мир! Это довольно длинная тема письма, чтобы перенести строку',
  'emoji at every fold': '🎉'.repeat(300),
  'a family emoji': '👨‍👩‍👧‍👦'.repeat(20),
  'combining marks': 'Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞',
  'right to left override': 'abc\u202egpj.exe',
  'a lone surrogate': 'a\ud800b',
  quotes: '"quoted" \\ back <angle> (paren), semi; colon:',
  equals: 'a=b=20=3D=',
  underscores: 'snake_case_subject ü',
  'looks like a header': 'Bcc: evil@example.com',
}
for (const [name, control] of Object.entries({ cr: '\r', lf: '\n', crlf: '\r\n', crlfBcc: '\r\nBcc: evil@example.com\r\n\r\n', nul: '\0', vt: '\v', ff: '\f', us: '\x1f', del: '\x7f', nel: '\u0085', ls: '\u2028', ps: '\u2029', tab: '\t' })) subjects[`control ${name}`] = `a${control}b` // prettier-ignore

const bodies: Record<string, string> = {
  plain: 'Hello.\nSecond line.\n',
  'without a last line end': 'Hello',
  'CRLF already': 'a\r\nb\r\n',
  'a dot': '.',
  'two dots': '..',
  'a line of one dot': 'a\r\n.\r\nb',
  'the end of data': '\r\n.\r\n',
  'another command': 'a\n.\nMAIL FROM:<x@example.com>\nRCPT TO:<y@example.com>',
  'bare CR and LF mixed': 'a\rb\nc\r\nd\n\re\r\r\nf',
  'From lines': 'From me\n>From you\nFrom ',
  'only spaces': '     ',
  'spaces at line ends': 'a  \nb\t\n-- \nme',
  'spaces at line ends, encoded': 'ü  \nb\t\n-- \nme ',
  NUL: 'a\0b',
  'all controls': Array.from({ length: 32 }, (_, code) => `x${String.fromCharCode(code)}`).join('') + '\x7f\x80\x9f',
  'line of 990': 'x'.repeat(990),
  'line of 991': 'x'.repeat(991),
  '1 MB single line': 'x'.repeat(1_000_000),
  'mostly ASCII': `${'The quick brown fox jumps over the lazy dog. '.repeat(30)}ü\n`,
  'mostly not': 'Съешь же ещё этих мягких французских булок, да выпей чаю.\n'.repeat(20),
  'emoji at the line limit': `${'🎉'.repeat(500)}${' a'.repeat(3_000)}`,
  equals: '=3D=\n=\n'.repeat(10),
  'long line of equals': '='.repeat(2_000),
  'line separators': 'a\u2028b\u2029c\u0085d',
  'byte order mark': 'te\ufeffxt',
  'ends with a soft break': `${'y'.repeat(75)}ü${'y'.repeat(600)}=`,
  'a boundary': `--=_${messageId}\nContent-Type: text/html\n\n--=_${messageId}--\n`,
  'many empty lines': '\n\n\n\n\n',
}

const names: Record<string, string> = {
  plain: 'Acme Support',
  quoted: 'Acme, Inc. (Support)',
  'with a quote': 'The "Boss" \\ himself',
  'a second address': '"<evil@example.com>, x" <a@b.example>',
  'with CRLF': 'Acme\r\nBcc: evil@example.com',
  'an encoded word': '=?utf-8?Q?=0D=0ABcc:_evil=40example.com?=',
  umlauts: 'Jürgen Müller',
  long: 'A very long display name that goes on and on and on until nobody reads it any more',
  'long and foreign': 'Очень длинное имя отправителя, которое не помещается в одну строку заголовка',
  apostrophe: "O'Neil",
  blank: '   ',
}

const filenames = ['report.pdf', 'a b.txt', 'a"b.txt', 'a;b=c.txt', "it's.txt", '100%.txt', 'a%20b.txt', 'ü.txt', '日本語のファイル名.pdf', '🎉.png', '=?utf-8?Q?x?=.txt', '.', 'CON', 'trailing.', 'trailing ', ' leading', 'a,b.txt', '(x).txt', 'x@y.txt', `${'long '.repeat(50)}.txt`, 'ж'.repeat(127), 'x'.repeat(255), 'a\r\nX: y', 'a*b', "utf-8''x", 'tab\there'] // prettier-ignore

const attachment = (filename: string, size: number, contentType = 'application/octet-stream') => ({
  filename,
  contentType,
  bytes: Buffer.from(Array.from({ length: size }, (_, index) => (index * 7 + size) & 255)),
})

const drafts: Record<string, Draft> = {}
for (const [name, subject] of Object.entries(subjects)) drafts[`subject: ${name}`] = draft({ subject })
for (const [name, bodyText] of Object.entries(bodies)) {
  drafts[`body: ${name}`] = draft({ bodyText })
  drafts[`body with a file: ${name}`] = draft({ bodyText, attachments: [attachment('a.bin', 100)] })
}
for (const [name, text] of Object.entries(names))
  drafts[`name: ${name}`] = draft({ from: { address: 'sender@example.com', name: text } })
for (const filename of filenames)
  drafts[`filename: ${JSON.stringify(filename.slice(0, 40))}`] = draft({ attachments: [attachment(filename, 10)] })
drafts['file sizes'] = draft({
  attachments: [0, 1, 2, 3, 56, 57, 58, 113, 114, 115, 60_000].map((size) => attachment(`${size}.bin`, size)),
})
drafts['files of every type'] = draft({
  attachments: [
    attachment('a.txt', 20, 'text/plain; charset=iso-8859-1'),
    attachment('b.html', 20, 'text/html'),
    attachment('c.pdf', 20, `application/pdf; title="a;b \\" c"; x-long=${'y'.repeat(60)}`),
    attachment('d', 20, 'multipart/mixed; boundary=X'),
    attachment('e', 20, 'text/html\r\nX-Injected: y'),
  ],
})
drafts['a long address'] = draft({
  from: { address: `${'a'.repeat(64)}@${'b'.repeat(63)}.${'c'.repeat(63)}.example.com`, name: 'Long Wind' },
})
drafts['a UTF-8 sender'] = draft({ from: { address: 'jürgen@example.com', name: 'Jürgen' } })
drafts['a UTF-8 recipient'] = draft({ to: '用户@xn--r8jz45g.jp' })

test('a file has the name that was given for it, and no other', () => {
  const given = draft({ attachments: [attachment('a.pdf', 3, 'application/pdf; NAME="b.exe"; x=y')] })
  const mail = wireOf(composeMail(given)).toString('latin1')
  expect(mail).toContain('\r\nContent-Type: application/pdf; x=y\r\n')
  expect(mail).not.toContain('b.exe')
})

// The corpus lies beside the project while it is built. Absent, the tables above stand alone.
const corpus = new URL('../../../shared/corpora/naughty-strings.json', import.meta.url)
if (existsSync(corpus))
  for (const [index, text] of (JSON.parse(readFileSync(corpus, 'utf8')) as string[]).entries())
    drafts[`naughty ${index}`] = draft({
      subject: text,
      bodyText: text,
      from: { address: 'sender@example.com', name: text },
      attachments: [attachment(text.slice(0, 200), 3)],
    })
else console.log('not run: ../shared/corpora/naughty-strings.json is absent (515 strings)')

describe('what was written is what two independent parsers read', () => {
  const mails = Object.entries(drafts).map(([name, given]) => ({ name, given, mail: composeMail(given) }))
  let byPython: ReturnType<typeof readByPython>
  beforeAll(() => {
    byPython = readByPython(mails.map(({ mail }) => wireOf(mail)))
  }, 180_000)

  for (const [index, { name, given, mail }] of mails.entries())
    test(name, async () => {
      expectCleanWire(mail)
      const other = byPython?.[index]
      const readers: Read[] = [await readByPostalMime(wireOf(mail))]
      if (other !== undefined) readers.push(other)
      for (const read of readers) {
        expect(read.subject.trim()).toBe(harmless(given.subject).trim())
        const written = asRead(given.bodyText.toWellFormed())
        // postal-mime adds a line end of its own behind a part, and takes a byte order mark for one.
        if (read === other) expect(asRead(read.text)).toBe(written)
        else expect(asRead(read.text).trimEnd()).toBe(written.replace(/^\ufeff/, '').trimEnd())
        expect(read.from.map(({ address }) => address)).toEqual([given.from.address])
        // Python leaves a space between two encoded words of a name, against RFC 2047 6.2.
        const name = harmless(given.from.name ?? '').trim()
        if (read === other) expect(read.from[0]?.name.replaceAll(' ', '')).toBe(name.replaceAll(' ', ''))
        else expect(read.from[0]?.name).toBe(name)
        expect(read.to).toEqual([given.to])
        expect(read.messageId).toBe(`<${messageId}@mail.example.com>`)
        expect(read.files.map((file) => file.base64)).toEqual(given.attachments.map((f) => f.bytes.toString('base64')))
        const filenames = given.attachments.map((file) => harmless(file.filename).trim())
        // postal-mime takes a file name that reads like an encoded word for one, in whatever form it travels.
        if (read === other || !filenames.some((each) => each.includes('=?')))
          expect(read.files.map((file) => file.name.trim())).toEqual(filenames)
      }
      expect(other?.names ?? mail.fields.map(([field]) => field)).toEqual(mail.fields.map(([field]) => field))
      expect(other?.defects.filter((defect) => !defect.startsWith('NonASCIILocalPart')) ?? []).toEqual([])
    })
})

test('every attempt transmits the same octets', () => {
  const given = drafts['files of every type'] ?? draft()
  expect(
    wireOf(composeMail(given)).equals(wireOf(composeMail({ ...given, createdAt: new Date(given.createdAt) }))),
  ).toBe(true)
})

// GMime (notmuch, Geary) decodes words of Base64 in a row as one, and stops at the first padding.
test.each([
  'ü'.repeat(200),
  'ご注文番号は4711です。月曜日に発送いたします。'.repeat(5),
  'Re: ご注文ありがとうございます。どうぞよろしくお願いいたします。',
  'xx注文ありがとうございます。どうぞよろしくお願いいたします。ご注文ありがとうございます。',
  '🎉'.repeat(100),
  'Здравствуйте, ваш заказ принят и будет отправлен в понедельник утром; спасибо за покупку в нашем магазине',
  'aü🎉文'.repeat(30),
])('no word of Base64 with padding stands before another: %s', async (subject) => {
  const mail = composeMail(draft({ subject }))
  const field = mail.fields.find(([name]) => name === 'Subject')?.[1] ?? ''
  expect(field).not.toMatch(/=\?=\r\n =\?utf-8\?B/)
  expectCleanWire(mail)
  expect((await readByPostalMime(wireOf(mail))).subject).toBe(subject)
})

// Filters count encoded words that need not be (rspamd: SUBJ_EXCESS_QP).
test('a subject in ASCII that fits in its line is written as it is, with two spaces in it too', () => {
  expect(wireOf(composeMail(draft({ subject: 'Invoice  4711' }))).toString()).toContain(
    '\r\nSubject: Invoice  4711\r\n',
  )
})

test('an ordinary mail is readable as it stands', () => {
  const mail = composeMail(
    draft({ from: { address: 'a@example.com', name: 'Acme, Inc.' }, subject: 'Grüße', bodyText: 'Hello\n.\nBye' }),
  )
  expect(wireOf(mail).toString().split('\r\n')).toEqual([
    'From: "Acme, Inc." <a@example.com>',
    'To: recipient@example.org',
    'Subject: =?utf-8?B?R3LDvMOfZQ==?=',
    'Date: Sun, 01 Nov 2026 09:08:07 +0000',
    `Message-ID: <${messageId}@mail.example.com>`,
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 7bit',
    '',
    'Hello',
    '.', // stuffed by the client
    'Bye',
    '',
  ])
})

test('only a raw UTF-8 address asks for SMTPUTF8', () => {
  expect(composeMail(draft({ subject: 'ü', bodyText: 'ü' })).needsSmtputf8).toBe(false)
  expect(composeMail(draft({ to: 'ü@example.com' })).needsSmtputf8).toBe(true)
  expect(composeMail(draft({ from: { address: 'ü@example.com' } })).needsSmtputf8).toBe(true)
})

test('an address that was never parsed is a fault, not a header', () => {
  for (const to of ['a@b.example\r\nBcc: c@d.example', 'a@b.example, c@d.example', '<a@b.example>', 'a b@c.example'])
    expect(() => composeMail(draft({ to }))).toThrow('never parsed')
  expect(() => composeMail(draft({ hostname: 'x>\r\ny' }))).toThrow('never parsed')
})

test('the boundary stands in no content, even where the text knows it', () => {
  const bodyText = `--=_${messageId}--\n`
  const mail = composeMail(draft({ bodyText, attachments: [attachment('a', 5)] }))
  expect(mail.body.toString('latin1').split(`--=_${messageId}`)).toHaveLength(4)
})

test('whatever the texts are, the wire is clean and the subject and text come back', async () => {
  const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 300 }), fc.string({ unit: fc.constantFrom('\r', '\n', ' ', '.', '=', 'ü', 'a', '\t', '?', '_'), maxLength: 300 })) // prettier-ignore
  await fc.assert(
    fc.asyncProperty(
      text,
      text,
      text,
      fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 2 }),
      async (subject, bodyText, name, files) => {
        const attachments = files.map((bytes, at) => ({
          filename: name,
          contentType: `a/b; c="${at}"`,
          bytes: Buffer.from(bytes),
        }))
        const mail = composeMail(draft({ subject, bodyText, from: { address: 'a@example.com', name }, attachments }))
        expectCleanWire(mail)
        const read = await readByPostalMime(wireOf(mail))
        expect(read.subject.trim()).toBe(harmless(subject).trim())
        expect(asRead(read.text).trimEnd()).toBe(
          asRead(bodyText.toWellFormed())
            .replace(/^\ufeff/, '')
            .trimEnd(),
        )
        expect(read.from[0]?.address).toBe('a@example.com')
        expect(read.files.map((file) => file.base64)).toEqual(
          files.map((bytes) => Buffer.from(bytes).toString('base64')),
        )
      },
    ),
    { numRuns: 300 },
  )
})
