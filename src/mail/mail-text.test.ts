// Which part of a mail is what a person reads: the record's `bodyText` and the preview choose alike.
import { describe, expect, test } from 'vitest'
import { previewOf } from './mail-preview.ts'
import { textOfMail } from './mail-text.ts'
import { effortOf } from '../base/effort.test-kit.ts'

const leaf = (type: string, body: string, ...fields: string[]): string =>
  [`Content-Type: ${type}`, ...fields, '', body].join('\r\n')
let boundaries = 0
function multipart(type: string, ...parts: string[]): string {
  const [kind, ...parameters] = type.split(';')
  const boundary = `b${boundaries++}`
  const delimited = parts.map((part) => `--${boundary}\r\n${part}\r\n`)
  return `${[`Content-Type: multipart/${kind}; boundary=${boundary}`, ...parameters].join(';')}\r\n\r\n${delimited.join('')}--${boundary}--\r\n`
}
const html = leaf('text/html', '<p>Hello</p>')
const plain = leaf('text/plain', 'Hello')
const id = (name: string) => `Content-ID: <${name}>`

const cases: readonly (readonly [string, string, string])[] = [
  ['a named text behind the HTML', multipart('mixed', html, leaf('text/plain; name="terms.txt"', 'Terms')), 'Hello'],
  [
    'a named inline text behind the HTML',
    multipart('mixed', html, leaf('text/plain', 'Terms', 'Content-Disposition: inline; filename="terms.txt"')),
    'Hello',
  ],
  [
    'a text named in the extended form',
    multipart('mixed', html, leaf('text/plain', 'Terms', "Content-Disposition: inline; filename*=utf-8''%C3%A4.txt")),
    'Hello',
  ],
  ['a named text before the text', multipart('mixed', leaf('text/plain; name=a.txt', 'Terms'), plain), 'Hello'],
  ['a named HTML before the text', multipart('mixed', leaf('text/html; name=a.html', 'Terms'), plain), 'Hello'],
  [
    'a named text behind an empty text',
    multipart('mixed', leaf('text/plain', ''), leaf('text/plain; name=a', 'x')),
    '',
  ],
  ['a named text alone', leaf('text/plain; name=a.txt', 'Hello'), 'Hello'],
  [
    'a named text beside a picture',
    multipart('mixed', leaf('image/png', ''), leaf('text/plain; name=a', 'Hello')),
    'Hello',
  ],
  ['an empty name is none', multipart('mixed', leaf('text/plain; name=""', 'Hello'), html), 'Hello'],
  [
    'the alternatives of one text, whatever they are called',
    multipart('alternative', leaf('text/plain; name=a.txt', 'Hello'), leaf('text/html; name=a.html', 'Rich')),
    'Hello',
  ],
  ['of a related its first part', multipart('related', html, leaf('text/plain', 'Side', id('b'))), 'Hello'],
  [
    'of a related its first part, named as its start',
    multipart('related;start="<a>"', leaf('text/html', 'Hello', id('a')), leaf('text/plain', 'Side', id('b'))),
    'Hello',
  ],
  [
    'of a related its start, which stands behind',
    multipart('related;start="<a>"', leaf('text/plain', 'Side', id('b')), leaf('text/html', 'Hello', id('a'))),
    'Hello',
  ],
  [
    'of a related its first part where its start is not there',
    multipart('related;start="<c>"', leaf('text/html', 'Hello', id('a')), leaf('text/plain', 'Side', id('b'))),
    'Hello',
  ],
  [
    'the alternatives at the root of a related',
    multipart('related', multipart('alternative', html, leaf('text/plain', 'Plain')), leaf('text/plain', 'Side')),
    'Plain',
  ],
  [
    'the text beside a related',
    multipart('alternative', plain, multipart('related', leaf('text/html', 'Rich'), leaf('text/html', 'Side'))),
    'Hello',
  ],
  ['the HTML beside an empty text', multipart('alternative', leaf('text/plain', ''), html), 'Hello'],
  ['the HTML beside a blank text', multipart('alternative', leaf('text/plain', ' \r\n\t\r\n\u00a0'), html), 'Hello'],
  [
    'the HTML beside an encoded blank text',
    multipart('alternative', leaf('text/plain', 'DQo=', 'Content-Transfer-Encoding: base64'), html),
    'Hello',
  ],
  [
    'the text where neither says anything',
    multipart('alternative', leaf('text/plain', ''), leaf('text/html', '<p>&nbsp;</p>')),
    '',
  ],
]

describe('a person reads', () => {
  test.each(cases)('%s', (_, mail, text) => {
    expect(textOfMail(Buffer.from(mail))).toBe(text)
    expect(previewOf(Buffer.from(mail)).text).toBe(text)
  })
})

test('what is no body because it has a name is a file of the preview', () => {
  const shown = previewOf(Buffer.from(multipart('mixed', html, leaf('text/plain; name="terms.txt"', 'Terms'))))
  expect(shown.html).toBe('<p>Hello</p>')
  expect(shown.files).toEqual([{ filename: 'terms.txt', contentType: 'text/plain', sizeBytes: 5 }])
})

test('an alternative that has a name is still the HTML of the preview, and no file', () => {
  const shown = previewOf(Buffer.from(multipart('alternative', plain, leaf('text/html; name=a.html', 'Rich'))))
  expect(shown).toMatchObject({ html: 'Rich', files: [] })
})

test('cut anywhere, it is a part of a text that was there', () => {
  for (const [, mail] of cases)
    for (let at = 0; at <= mail.length; at++) expect(typeof textOfMail(Buffer.from(mail.slice(0, at)))).toBe('string')
})

test('nested and related without end, it is read in linear time', () => {
  let deep = html
  for (let level = 0; level < 5_000; level++)
    deep = `Content-Type: multipart/related; boundary=n${level}\r\n\r\n--n${level}\r\n${deep}`
  const wide = multipart(
    'related;start="<none>"',
    ...Array.from({ length: 50_000 }, () => leaf('text/plain', 'x', id('a'))),
  )
  for (const mail of [deep, wide]) {
    expect(effortOf(() => textOfMail(Buffer.from(mail)))).toBeLessThan(2_000)
  }
})
