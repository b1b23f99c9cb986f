import { describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { framedHtml, previewOf, type MailPreview } from './mail-preview.ts'

const shownOf = (bytes: Buffer): Omit<MailPreview, 'pictureOf'> => {
  const { pictureOf: _pictures, ...shown } = previewOf(bytes)
  return shown
}
const mail = (...lines: string[]): Buffer => Buffer.from(lines.join('\r\n'))
const both = mail(
  'Content-Type: multipart/mixed; boundary=m',
  '',
  '--m',
  'Content-Type: multipart/alternative; boundary=a',
  '',
  '--a',
  'Content-Type: text/plain; charset=utf-8',
  '',
  'Good morning',
  '--a',
  'Content-Type: text/html; charset=iso-8859-1',
  'Content-Transfer-Encoding: quoted-printable',
  '',
  '<p>Gr=FC=DFe</p>',
  '--a--',
  '--m',
  'Content-Type: application/pdf; name="=?utf-8?q?Rechnung_=E2=82=AC.pdf?="',
  'Content-Transfer-Encoding: base64',
  'Content-Disposition: attachment',
  '',
  'QUJDRA==',
  '--m',
  'Content-Type: text/html',
  'Content-Disposition: attachment; filename=page.html',
  '',
  '<b>attached</b>',
  '--m',
  'Content-Type: message/rfc822',
  '',
  'Subject: inside',
  'Content-Type: application/zip; name=inner.zip',
  '',
  'x',
  '--m--',
  '',
)

test('a mail is shown as its text, its HTML and the files it brings', () => {
  expect(shownOf(both)).toEqual({
    text: 'Good morning',
    html: '<p>Grüße</p>',
    files: [
      { filename: 'Rechnung €.pdf', contentType: 'application/pdf', sizeBytes: 4 },
      { filename: 'page.html', contentType: 'text/html', sizeBytes: 15 },
      { filename: 'unnamed', contentType: 'message/rfc822', sizeBytes: expect.any(Number) as number },
    ],
  })
})

test('a mail with HTML alone has its text too, and no file', () => {
  const html = mail('Content-Type: text/html', '', '<h1>Hi</h1><script>alert(1)</script><p>there</p>', '')
  expect(shownOf(html)).toEqual({
    text: 'Hi\n\nthere',
    html: expect.stringContaining('<h1>Hi</h1>') as string,
    files: [],
  })
})

test('cut anywhere, it still shows what is there', () => {
  for (let at = 0; at <= both.length; at++) {
    const { text, files } = previewOf(both.subarray(0, at))
    expect(typeof text).toBe('string')
    expect(files.length).toBeLessThanOrEqual(3)
  }
  expect(previewOf(both.subarray(0, both.length - 300)).html).toBe('<p>Grüße</p>')
})

test.each([
  ['8bit', (text: string) => text],
  ['base64', (text: string) => Buffer.from(text).toString('base64')],
  ['quoted-printable', (text: string) => encodeURIComponent(text).replaceAll('%', '=')],
])(
  'a text in UTF-8 of which only the beginning is looked at is read as such, wherever it is cut: %s',
  (encoding, encode) => {
    const text = 'Guten Tag, und viele Grüße aus dem hohen Norden 😂: Привет'
    const head = ['Content-Type: text/plain; charset=utf-8', `Content-Transfer-Encoding: ${encoding}`, '']
    const whole = mail(...head, encode(text))
    for (let at = mail(...head, encode(text.slice(0, 40))).length; at <= whole.length; at++)
      expect(text).toContain(previewOf(whole.subarray(0, at)).text)
    expect(previewOf(whole).text).toBe(text)
  },
)

describe('pictures that the mail brings along', () => {
  const picture = (id: string, type = 'image/png', body = 'QUJD') => [
    '--m',
    `Content-Type: ${type}; name=logo.png`,
    'Content-Transfer-Encoding: base64',
    'Content-Disposition: inline',
    `Content-ID: ${id}`,
    '',
    body,
  ]
  const framed = (html: string, ...pictures: string[][]): string => {
    const head = ['Content-Type: multipart/related; boundary=m', '', '--m', 'Content-Type: text/html', '']
    const shown = previewOf(mail(...head, html, ...pictures.flat(), '--m--', ''))
    return framedHtml(shown.html ?? '', shown.pictureOf)
  }
  const address = 'data:image/png;base64,QUJD'

  test.each([
    ['<img src="cid:logo@shop">', `<img src="${address}">`],
    ['<img src=CID:logo@shop>', `<img src=${address}>`],
    ["<img src='cid:logo%40shop'>", `<img src='${address}'>`],
    ['<td style="background:url(cid:logo@shop)">', `<td style="background:url(${address})">`],
    ['<img src="cid:logo@shop"><img src="cid:logo@shop">', `<img src="${address}"><img src="${address}">`],
  ])('are shown where the HTML names them: %s', (html, shown) => {
    expect(framed(html, picture('<logo@shop>'))).toContain(shown)
  })

  test.each([
    ['another name', picture('<other@shop>')],
    ['a type that may hold more than a picture', picture('<logo@shop>', 'image/svg+xml')],
    ['a page', picture('<logo@shop>', 'text/html')],
    ['no name', picture('logo@shop')],
  ])('are left out: %s', (_, part) => {
    expect(framed('<img src="cid:logo@shop">', part)).toContain('<img src="cid:logo@shop">')
  })

  test('make no link of what is none', () => {
    const page = framed(
      '<a cid:logo@shop =//evil.example>Press here</a>',
      picture('<logo@shop>', 'image/png', 'AAA/HREF'),
    )
    expect(page).toContain('<a data:image/png;base64,AAA/HREF# =//evil.example>')
  })

  test('a name that cannot be decoded is no fault', () => {
    expect(framed('<img src="cid:100%">', picture('<100%>'))).toContain(`<img src="${address}">`)
  })

  test('shown without end, they are shown so far', () => {
    const large = Buffer.alloc(limits.previewPicturesCharactersMax / 4).toString('base64')
    const page = framed('<img src="cid:logo@shop">'.repeat(20_000), picture('<logo@shop>', 'image/png', large))
    expect(page.match(/<img src="data:/g)).toHaveLength(2)
    expect(page.match(/<img src="cid:/g)).toHaveLength(19_998)
  })
})

test('a mail of very many files shows a bounded number', () => {
  const part = ['--m', 'Content-Type: image/png; name=a.png', '', 'x']
  const many = mail('Content-Type: multipart/mixed; boundary=m', '', ...Array.from({ length: 300 }, () => part).flat())
  expect(previewOf(many).files).toHaveLength(limits.previewFilesMax)
})

test.each([
  ['<link rel=preconnect href=//evil.example>', '<x-link rel=preconnect x-href=//evil.example>'],
  ['<LINK rel=dns-prefetch href=//evil.example>', '<x-LINK rel=dns-prefetch x-href=//evil.example>'],
  ['<meta http-equiv=refresh content=0>', '<x-meta http-equiv=refresh content=0>'],
  ['<base target=_top>', '<x-base target=_top>'],
  ['<iframe src=//evil.example>', '<x-iframe src=//evil.example>'],
  ['<Object data=//evil.example>', '<x-Object data=//evil.example>'],
  ['<embed src=//evil.example>', '<x-embed src=//evil.example>'],
  ['<a><set attributeName=href to=//evil.example />', '<a><x-set attributeName=href'],
  ['<a><Animate attributeName="xlink:href" values=//evil.example />', '<a><x-Animate attributeName'],
])('what speaks before a policy is asked has no name in the frame: %s', (html, tame) => {
  const page = framedHtml(html)
  expect(page).toContain(tame)
  expect(page.match(/<(?:link|meta|base|iframe|frame|object|embed|set|animate)/gi)).toEqual(['<meta'])
  expect(page.startsWith('<!doctype html><html><head><meta charset="utf-8">')).toBe(true)
})

test.each(['<a href=x>', '<a HREF = "x">', '<area\thref\n=x>', "<svg><a xlink:href='x'></svg>"])(
  'no link leads anywhere: %s',
  (html) => {
    expect(framedHtml(html)).not.toMatch(/[\s:]href\s*=/i)
  },
)

test('the page in the frame is bounded', () => {
  expect(framedHtml('x'.repeat(3 * limits.previewHtmlCharactersMax)).length).toBeLessThan(
    limits.previewHtmlCharactersMax + 1_000,
  )
})
