// What counts as an attachment of a mail that somebody's program has put together, so that the limits of a message mean the same over SMTP.
import { describe, expect, test } from 'vitest'
import { attachedFiles, sizeOf } from './attached-files.ts'
import { readMime } from './mime-entity.ts'

const part = (type: string, more = '', body = 'x'): string => `Content-Type: ${type}\r\n${more}\r\n${body}`
const whole = (type: string, ...parts: string[]): string => {
  const boundary = type.replace(/\W/g, '')
  return part(
    `${type}; boundary=${boundary}`,
    '',
    [...parts.map((each) => `--${boundary}\r\n${each}\r\n`), `--${boundary}--\r\n`].join(''),
  )
}
const text = part('text/plain')
const html = part('text/html')
const pdf = part('application/pdf; name=a.pdf', 'Content-Disposition: attachment\r\n')
const picture = part('image/png', 'Content-ID: <a@b>\r\nContent-Disposition: inline; filename=a.png\r\n')

const cases: [string, string, readonly string[]][] = [
  ['of one text there is none', text, []],
  ['a mail that is a file is one', pdf, ['application/pdf']],
  ['files beside the text', whole('multipart/mixed', text, pdf, pdf), ['application/pdf', 'application/pdf']],
  ['a text with a name is a file', whole('multipart/mixed', text, part('text/csv; name=a.csv')), ['text/csv']],
  [
    'a text that is attached is a file',
    whole('multipart/mixed', text, part('text/plain', 'Content-Disposition: attachment\r\n')),
    ['text/plain'],
  ],
  ['a picture beside the text, without a name', whole('multipart/mixed', text, part('image/png')), ['image/png']],
  ['pictures that the text shows are none', whole('multipart/related', html, picture, picture), []],
  [
    'nor are they beside a text of two forms',
    whole('multipart/alternative', text, whole('multipart/related', html, picture)),
    [],
  ],
  ['but one that calls itself attached is', whole('multipart/related', html, pdf), ['application/pdf']],
  [
    'and a file beside one form of the text',
    whole('multipart/alternative', text, whole('multipart/mixed', html, picture)),
    ['image/png'],
  ],
  [
    'the forms of one text are none, an invitation neither',
    whole('multipart/alternative', text, html, part('text/calendar')),
    [],
  ],
  [
    'a signature is none, what is signed counts',
    whole(
      'multipart/signed',
      whole('multipart/mixed', text, pdf),
      part('application/pkcs7-signature; name=smime.p7s', 'Content-Disposition: attachment\r\n'),
    ),
    ['application/pdf'],
  ],
  [
    'a document is a file, wherever it hides',
    whole(
      'multipart/related',
      html,
      whole('multipart/alternative', text, part('application/pdf; name=a.pdf')),
      part('application/zip', 'Content-Disposition: inline; filename=a.zip\r\n'),
    ),
    ['application/zip', 'application/pdf'],
  ],
  [
    'also as what is signed, or beside the signature',
    whole('multipart/signed', part('application/pdf'), part('application/pgp-signature'), part('image/png')),
    ['image/png', 'application/pdf'],
  ],
  [
    'a mail in the mail is one file, whatever it holds',
    whole('multipart/mixed', text, part('message/rfc822', '', whole('multipart/mixed', text, pdf, pdf))),
    ['message/rfc822'],
  ],
]

test.each(cases)('%s', (_, mail, types) => {
  expect(attachedFiles(readMime(Buffer.from(mail))).map(({ contentType }) => contentType.value)).toEqual(types)
})

describe('the size', () => {
  const coded = (encoding: string, body: string) =>
    part('application/x-own; name=a', `Content-Transfer-Encoding: ${encoding}\r\n`, body)
  const files = attachedFiles(
    readMime(
      Buffer.from(whole('multipart/mixed', coded('base64', 'QUJD\r\nRA=='), coded('quoted-printable', '=41=42'))),
    ),
  )

  test('is that of the decoded files together', () => {
    expect(sizeOf(files, 0)).toBe(6)
  })

  test('is no more than enough where nothing had to be decoded', () => {
    expect(sizeOf(files, 100)).toBeLessThanOrEqual(100)
  })
})
