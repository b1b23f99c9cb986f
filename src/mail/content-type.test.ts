import { describe, expect, test } from 'vitest'
import { isContentType, withoutFileName } from './content-type.ts'

describe('a media type is accepted', () => {
  const cases = [
    'text/plain',
    'application/octet-stream',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    'image/svg+xml',
    'TEXT/HTML; charset=UTF-8',
    'text/plain;charset="utf-8"',
    'text/plain ; charset=utf-8;\tformat=flowed',
    'text/plain; name="a;b\\"c.txt"',
    'x-a/x-b; p=""',
    `a/${'b'.repeat(253)}`,
  ]
  for (const text of cases) test(text.slice(0, 80), () => expect(isContentType(text)).toBe(true))
})

describe('anything else is refused', () => {
  const cases = [
    '',
    'a',
    'text/',
    '/plain',
    '*/*',
    'text/*',
    '*/plain',
    'text/plain/x',
    'text /plain',
    ' text/plain',
    'text/plain ',
    'text/plain;',
    'text/plain; charset',
    'text/plain; charset=',
    'text/plain; charset="x',
    'text/plain; charset=a b',
    'text/plain; charset=a"b"',
    'text/html\r\nX: y',
    'text/html\n',
    'text/html;\r\n charset=utf-8',
    'text/plain; name="a\r\nb"',
    'text/plain; name="a\0b"',
    'text/plain; name=ü',
    'text/plain, text/html',
    'text/pl@in',
    'multipart/mixed; boundary=X',
    'Multipart/Related',
    'message/rfc822',
    'MESSAGE/external-body; access-type=URL',
    `a/${'b'.repeat(254)}`,
    'x'.repeat(10_000),
    `a/b${'; c="'.repeat(41)}`,
  ]
  for (const text of cases) test(JSON.stringify(text.slice(0, 80)), () => expect(isContentType(text)).toBe(false))
})

test.each([
  ['text/plain', 'text/plain'],
  ['text/plain; charset=utf-8; name="a;b.txt"; format=flowed', 'text/plain; charset=utf-8; format=flowed'],
  ['application/pdf;NAME=invoice.exe', 'application/pdf'],
  ["application/pdf; name*=utf-8''invoice.exe", 'application/pdf'],
  ['application/pdf; name*0=inv; name*1*=oice.exe', 'application/pdf'],
  ['text/plain; x="; name=a"; filename=b', 'text/plain; x="; name=a"; filename=b'],
])('a file name beside that of the attachment is left out: %s', (given, kept) => {
  expect(withoutFileName(given)).toBe(kept)
})
