import { expect, test } from 'vitest'
import { shortened } from './shortened.ts'

test.each([
  ['text/plain', 'text/html'],
  ['text/html', 'text/plain'],
])('of %s and %s that are too large together the beginning stands, and all that is no text', (first, second) => {
  const part = (type: string, body: string) => `--b\r\nContent-Type: ${type}\r\n\r\n${body}\r\n`
  const mail = (short: number) =>
    [
      'Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n',
      part(first, 'a'.repeat(80)),
      part(second, 'b'.repeat(short)),
      part('image/png', 'c'.repeat(200)),
      '--b--\r\n',
    ].join('')
  const { mail: cut, whole } = shortened(Buffer.from(mail(80)), 100)
  expect([cut.toString(), whole]).toEqual([mail(20), false])
})
