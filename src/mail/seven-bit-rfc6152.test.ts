// What a host without 8BITMIME gets says the same as what was submitted, to a parser that is not ours and to ours: part by part, octet by
// octet. And it is 7-bit, in lines that every host takes, with no delimiter where there was none.
import { isAscii } from 'node:buffer'
import { globSync, readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import PostalMime from 'postal-mime'
import { describe, expect, test } from 'vitest'
import { decodedBody, fieldValue, readMime, type MimeEntity } from './mime-entity.ts'
import { inSevenBit } from './seven-bit-rfc6152.ts'

const lines = (...all: string[]) => all.join('\r\n')
const octets = (text: string) => Buffer.from(text)
const converted = (mail: string | Buffer): string => {
  const form = inSevenBit(Buffer.from(mail as string))
  if (form === undefined) throw new Error('there is no 7-bit form')
  return form.toString('latin1')
}

/** All that a reader sees of a mail: its structure, its fields but for the labels, its leaves as they were before they were encoded. */
function seen(entity: MimeEntity): unknown {
  return {
    fields: entity.fields
      .filter(({ name }) => name !== 'content-transfer-encoding' && name !== 'mime-version')
      .map(({ raw }) => raw.toString('latin1')),
    type: entity.contentType.value,
    body: entity.parts.length > 0 ? undefined : decodedBody(entity).toString('latin1'),
    parts: entity.parts.map(seen),
  }
}

/** As above, by a parser that is not ours, which puts LF behind every text that is not encoded. */
async function shown(mail: Buffer): Promise<unknown> {
  const { text, html, attachments, subject } = await PostalMime.parse(mail, { forceRfc822Attachments: true })
  const files = attachments.map(async ({ mimeType, filename, content }) => {
    const bytes = Buffer.from(content as ArrayBuffer)
    const inside = mimeType === 'message/rfc822' ? await shown(bytes) : withLf(bytes.toString('latin1'))
    return { mimeType, filename, inside }
  })
  return { text: withLf(text), html: withLf(html), subject, files: await Promise.all(files) }
}
const withLf = (text = '') => text.replaceAll('\r\n', '\n').replace(/\n+/g, '\n').trim()

function expectWellFormed(form: Buffer): void {
  expect(isAscii(form)).toBe(true)
  expect(form.includes(0)).toBe(false)
  expect(form.toString('latin1')).not.toMatch(/(?:[^\r]\n|\r[^\n]|[^\r\n]{999})/)
  expect(form.subarray(-2).toString()).toBe('\r\n')
  for (const entity of identities(readMime(form))) expect(entity.transferEncoding).toBe('7bit')
}
function identities(entity: MimeEntity): MimeEntity[] {
  const own = ['7bit', '8bit', 'binary'].includes(entity.transferEncoding) ? [entity] : []
  return [...own, ...entity.parts.flatMap(identities)]
}

describe('one body', () => {
  test.each([
    [
      'a text that is mostly ASCII stays readable',
      lines('MIME-Version: 1.0', 'Content-Type: text/plain; charset=utf-8', 'Content-Transfer-Encoding: 8bit', '', ''),
      'Grüße = alles, was ich sagen wollte \r\n.\r\nEnde\r\n',
      'quoted-printable',
      'Gr=C3=BC=C3=9Fe =3D alles, was ich sagen wollte=20\r\n.\r\nEnde\r\n',
    ],
    [
      'a text that is mostly not becomes Base64, and ends with a line end',
      lines('MIME-Version: 1.0', 'Content-Type: text/plain; charset=utf-8', 'Content-Transfer-Encoding: 8bit', '', ''),
      'здравствуй\r\n',
      'base64',
      `${octets('здравствуй\r\n').toString('base64')}\r\n`,
    ],
    [
      'what is no text becomes Base64, however little of it is 8-bit',
      lines('MIME-Version: 1.0', 'Content-Type: application/json', 'content-transfer-encoding: BINARY', '', ''),
      `{"name": "${'x'.repeat(100)}é"}\r\n`,
      'base64',
      undefined,
    ],
  ])('%s', (_, head, body, encoding, wire) => {
    const form = converted(head + body)
    const root = readMime(Buffer.from(form, 'latin1'))
    expect(root.transferEncoding).toBe(encoding)
    expect(decodedBody(root).toString()).toBe(body)
    if (wire !== undefined) expect(form.slice(form.indexOf('\r\n\r\n') + 4)).toBe(wire)
    expectWellFormed(Buffer.from(form, 'latin1'))
  })

  test('a mail without MIME fields, or with the wrong label, gets the right ones at the end of its header', () => {
    expect(converted('Subject: x\r\nFrom: a@b.c\r\n\r\nGrüße an alle, die das hier lesen koennen\r\n')).toBe(
      lines(
        'Subject: x',
        'From: a@b.c',
        'Content-Transfer-Encoding: quoted-printable',
        'MIME-Version: 1.0',
        '',
        'Gr=C3=BC=C3=9Fe an alle, die das hier lesen koennen',
        '',
      ),
    )
    const wrong = lines('Content-Transfer-Encoding:', ' 7bit', 'MIME-Version: 1.0', '', 'viel Text und ein ß darin', '')
    expect(converted(wrong)).toMatch(/^Content-Transfer-Encoding: quoted-printable\r\nMIME-Version: 1\.0\r\n\r\nviel/)
  })

  test('raw octets within quoted-printable are encoded too; the encoded ones mean what they meant', () => {
    const mail = lines(
      'MIME-Version: 1.0',
      'Content-Transfer-Encoding: quoted-printable',
      '',
      'caf=E9 und Caf\xe9 =',
      'zusammen mit einem langen Text',
      '',
    )
    const form = readMime(Buffer.from(converted(Buffer.from(mail, 'latin1')), 'latin1'))
    expect(decodedBody(form).toString('latin1')).toBe('caf\xe9 und Caf\xe9 zusammen mit einem langen Text\r\n')
  })

  test.each([
    ['quoted-printable', 'wie ich sagte, gr\xfc\xdfe:\r\n=2D-inner\r\nContent-Type: image/gif\r\n\r\nGIF'],
    [
      'base64',
      `${Buffer.from('wie ich sagte:\r\n--inner\r\nContent-Type: image/gif\r\n\r\nGIF').toString('base64')}\xdf`,
    ],
  ])('a line that was encoded in %s becomes no delimiter', (encoding, text) => {
    const mail = lines(
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary=inner',
      '',
      '--inner',
      `Content-Transfer-Encoding: ${encoding}`,
      '',
      text,
      '--inner--',
      '',
    )
    const before = Buffer.from(mail, 'latin1')
    expect(seen(readMime(Buffer.from(converted(before), 'latin1')))).toEqual(seen(readMime(before)))
  })

  test('nor does a line that no reader shows, before the first delimiter or behind the last', () => {
    const aside = '--in\xe9er\r\nContent-Type: image/gif\r\n\r\nGIF'
    const mail = lines(
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary="in?er"',
      '',
      aside,
      '--in?er',
      '',
      'the text',
      '--in?er--',
      aside,
      '',
    )
    const form = converted(Buffer.from(mail, 'latin1'))
    expect(seen(readMime(Buffer.from(form)))).toEqual(seen(readMime(Buffer.from(mail, 'latin1'))))
    expect(form.match(/^--in/gm)).toHaveLength(2)
  })

  test('a soft line break makes no delimiter out of the middle of a line', () => {
    for (let before = 60; before < 80; before++) {
      const text = `${'x'.repeat(before)}--inner and then some more of the line, ß`
      const part = lines('Content-Type: text/plain', '', text)
      const mail = lines(
        'MIME-Version: 1.0',
        'Content-Type: multipart/mixed; boundary=inner',
        '',
        '--inner',
        part,
        '--inner--',
        '',
      )
      const form = readMime(Buffer.from(converted(mail), 'latin1'))
      expect(form.parts.map((each) => decodedBody(each).toString())).toEqual([text])
      expect(converted(mail).match(/^--/gm)).toHaveLength(2)
    }
  })
})

const tree = lines(
  'From: a@b.c',
  'Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=',
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary="outer"',
  'Content-Transfer-Encoding: 8bit',
  '',
  'Dies sieht niemand: ü',
  '--outer',
  'Content-Type: multipart/alternative; boundary="inner"',
  '',
  '--inner',
  'Content-Type: text/plain; charset=utf-8',
  'Content-Transfer-Encoding: 8bit',
  '',
  'Guten Morgen in Köln',
  '--inner',
  'Content-Type: text/html; charset=utf-8',
  '',
  '<p>Guten Morgen in K&ouml;ln</p>',
  '--inner--',
  '--outer',
  'Content-Type: message/rfc822',
  'Content-Transfer-Encoding: 8bit',
  '',
  'Subject: the inner one',
  'Content-Type: text/plain; charset=utf-8',
  'Content-Transfer-Encoding: 8bit',
  '',
  'Weitergeleitet mit Grüßen von mir',
  '--outer',
  'Content-Type: image/x-small; name=a.img',
  'Content-Transfer-Encoding: binary',
  'Content-Transfer-Encoding: 8bit',
  '',
  'ÄÖÜ',
  '--outer',
  'Content-Type: text/plain',
  'Content-Transfer-Encoding: base64',
  '',
  'QUJD',
  '--outer--',
  'auch das nicht: ä',
  '',
)

describe('a tree', () => {
  const form = converted(tree)

  test('each body is encoded for itself, composites are relabelled, the rest stays octet by octet', () => {
    const root = readMime(Buffer.from(form, 'latin1'))
    expectWellFormed(Buffer.from(form, 'latin1'))
    expect(seen(root)).toEqual(seen(readMime(octets(tree))))
    const labels = (entity: MimeEntity): unknown[] => [
      fieldValue(entity, 'content-transfer-encoding'),
      ...entity.parts.map(labels),
    ]
    expect(labels(root)).toEqual([
      '7bit',
      [undefined, ['quoted-printable'], [undefined]],
      ['7bit', ['quoted-printable']],
      ['base64'],
      ['base64'],
    ])
    expect(form.match(/Content-Transfer-Encoding/g)).toHaveLength(6)
    expect(form.match(/^MIME-Version: 1\.0\r$/gm)).toHaveLength(2)
    expect(form).not.toMatch(/niemand|auch das nicht/)
  })

  test('a parser that is not ours shows the same', async () => {
    expect(await shown(Buffer.from(form, 'latin1'))).toEqual(await shown(octets(tree)))
  })

  test('is the same whenever it is made, and a 7-bit mail is itself', () => {
    expect(converted(tree)).toBe(form)
    const again = Buffer.from(form, 'latin1')
    expect(inSevenBit(again)).toBe(again)
  })
})

describe('what has no such form', () => {
  const mime = 'MIME-Version: 1.0'
  test.each<[string, string]>([
    ['a raw field', lines('Subject: Grüße', mime, '', 'ß', '')],
    ['a raw field alone', lines('Subject: Grüße', '', '')],
    [
      'a raw field of a part',
      lines(
        mime,
        'Content-Type: multipart/mixed; boundary=b',
        '',
        '--b',
        'Content-Type: text/plain; name=ß',
        '',
        'x',
        '--b--',
        '',
      ),
    ],
    ['a raw field of a message inside', lines(mime, 'Content-Type: message/rfc822', '', 'Subject: ß', '', 'x', '')],
    [
      'a type that may not be encoded',
      lines(mime, 'Content-Type: message/delivery-status', '', 'Reporting-MTA: dns; ß', ''),
    ],
    ['a partial message', lines(mime, 'Content-Type: message/partial; id=1; number=1', '', 'Subject: x', '', 'ß', '')],
    ['an encoding that we do not know', lines(mime, 'Content-Transfer-Encoding: x-own', '', 'ß', '')],
    [
      'a multipart that claims to be encoded',
      lines(
        mime,
        'Content-Type: multipart/mixed; boundary=b',
        'Content-Transfer-Encoding: base64',
        '',
        '--b',
        '',
        'ß',
        '--b--',
        '',
      ),
    ],
    ['a multipart without its end', lines(mime, 'Content-Type: multipart/mixed; boundary=b', '', '--b', '', 'ß', '')],
    [
      'a type that only some readers find',
      lines(mime, 'Content-Type: multipart/mixed boundary=b', '', '--b', '', 'ß', '--b--', ''),
    ],
    ['two types', lines(mime, 'Content-Type: text/plain', 'Content-Type: multipart/mixed; boundary=b', '', 'ß', '')],
    ['a multipart without a boundary', lines(mime, 'Content-Type: multipart/mixed', '', 'ß', '')],
    [
      'a structure beyond bounds',
      lines(mime, ...Array.from({ length: 200 }, () => 'Content-Type: message/rfc822\r\n'), '', 'ß', ''),
    ],
  ])('%s', (_, mail) => {
    expect(inSevenBit(octets(mail))).toBeUndefined()
  })

  test.each(['text/html charset=utf-8', 'text/plain\r\nContent-Type: text/html'])(
    'a text has one, whatever is wrong with its type: %j',
    (type) => {
      const form = readMime(Buffer.from(converted(lines(mime, `Content-Type: ${type}`, '', 'ß', '')), 'latin1'))
      expect(decodedBody(form).toString()).toBe('ß\r\n')
    },
  )

  test('a message in UTF-8 has one: it may be encoded as a whole (RFC 6532 3.7)', () => {
    const inner = lines('Subject: Grüße', '', 'ß', '')
    const form = readMime(Buffer.from(converted(lines(mime, 'Content-Type: message/global', '', inner)), 'latin1'))
    expect(form.transferEncoding).not.toBe('8bit')
    expect(decodedBody(form).toString()).toBe(inner)
  })
})

describe('whatever is submitted', () => {
  const line = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 100 }),
    fc.string({ maxLength: 300 }),
    fc.constantFrom('', '.', '--', '--b0', '-- b1--', 'From me', '=', 'x'.repeat(76), ' ', '\t', 'ß '.repeat(40)),
  )
  const body = fc
    .array(line, { maxLength: 8 })
    .map((all) =>
      all
        .join('\r\n')
        .replace(/[\0\r\n]/g, (end, at: number, whole: string) =>
          end === '\r' && whole[at + 1] === '\n' ? end : end === '\n' && whole[at - 1] === '\r' ? end : '?',
        ),
    )
  const field = fc.constantFrom(
    'Content-Type: text/plain; charset=utf-8',
    'Content-Type: application/octet-stream',
    'Content-Transfer-Encoding: 8bit',
    'Content-Transfer-Encoding: binary',
    'content-transfer-encoding :\r\n\t8BIT (a comment)',
    'X-Other: value',
  )
  const leaf = fc
    .tuple(fc.uniqueArray(field, { maxLength: 3, selector: (text) => text.slice(0, 12).toLowerCase() }), body)
    .map(([fields, text]) => lines(...fields, '', text))
  const { entity } = fc.letrec<{ entity: string }>((tie) => ({
    entity: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      leaf,
      fc.tuple(fc.array(tie('entity'), { minLength: 1, maxLength: 3 }), fc.nat(1_000_000)).map(([parts, number]) => {
        // As every program does it: a boundary that stands nowhere else.
        const boundary = `b${number}.${parts.join('').length}.${parts.join('').split('--').length}`
        return lines(
          `Content-Type: multipart/mixed; boundary="${boundary}"`,
          'Content-Transfer-Encoding: 8bit',
          '',
          ...parts.flatMap((part) => [`--${boundary}`, part]),
          `--${boundary}--`,
          '',
        )
      }),
      tie('entity').map((inner) => lines('Content-Type: message/rfc822', '', inner)),
    ),
  }))

  test('decodes to what the original decodes to, for two parsers', async () => {
    let forms = 0
    await fc.assert(
      fc.asyncProperty(entity, async (text) => {
        const mail = octets(`Subject: x\r\nMIME-Version: 1.0\r\n${text}\r\n`)
        const form = inSevenBit(mail)
        if (form === undefined) return
        forms++
        expect(seen(readMime(form))).toEqual(seen(readMime(mail)))
        if (isAscii(mail)) {
          expect(form).toBe(mail)
          return
        }
        expectWellFormed(form)
        expect(await shown(form)).toEqual(await shown(mail))
      }),
      { numRuns: 300 },
    )
    expect(forms).toBeGreaterThan(250)
  })

  test('any octets at all: never a fault, and never a form that is not 7-bit', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), entity, (bytes, text) => {
        const form = inSevenBit(Buffer.concat([octets(text), bytes, octets('\r\n')]))
        return form === undefined || isAscii(form)
      }),
    )
  })
})

const corpus = globSync('../shared/corpora/bounces/*.eml')
describe.runIf(corpus.length > 0)('real mail, with its text made 8-bit', () => {
  test('decodes to what the original decodes to', async () => {
    let forms = 0
    for (const file of corpus) {
      const text = readFileSync(file, 'latin1').replace(/\r?\n/g, '\r\n')
      // Letters behind the header, where they may stand raw.
      const head = text.indexOf('\r\n\r\n')
      const raw = text.slice(0, head) + text.slice(head).replace(/(?<=^[a-z ]{3,40})e/gm, 'é')
      const mail = Buffer.from(raw.endsWith('\r\n') ? raw : `${raw}\r\n`)
      const form = inSevenBit(mail)
      if (form === undefined || form === mail) continue
      forms++
      expectWellFormed(form)
      expect(seen(readMime(form)), file).toEqual(seen(readMime(mail)))
      expect(await shown(form), file).toEqual(await shown(mail))
    }
    expect(forms).toBeGreaterThan(5)
  })
})
