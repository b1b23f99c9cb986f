import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseCommand, type SmtpCommand } from './smtp-command.ts'

const parse = (line: string): SmtpCommand => parseCommand(Buffer.from(line))
const wrong = (mistake: string) => ({ verb: 'wrong', mistake })
const mail = (path: string, ...parameters: [string, string | undefined][]) => ({ verb: 'MAIL', path, parameters })
const rcpt = (path: string) => ({ verb: 'RCPT', path, parameters: [] })

test.each<[string, object]>([
  ['EHLO client.example', { verb: 'EHLO', name: 'client.example' }],
  ['helo [127.0.0.1]', { verb: 'HELO', name: '[127.0.0.1]' }],
  ['EHLO', wrong('argument')],
  ['EHLO a b', wrong('argument')],
  ['MAIL FROM:<>', mail('')],
  ['mail from:<a@b.c>', mail('a@b.c')],
  ['MAIL FROM: <a@b.c>  ', mail('a@b.c')],
  [
    'MAIL FROM:<a@b.c> size=10 BODY=8BITMIME SMTPUTF8',
    mail('a@b.c', ['SIZE', '10'], ['BODY', '8BITMIME'], ['SMTPUTF8', undefined]),
  ],
  ['MAIL FROM:<"a > b"@c>', mail('"a > b"@c')],
  ['MAIL FROM:<"a\\"> b"@c>', mail('"a\\"> b"@c')],
  ['MAIL FROM:<"a@c>', wrong('sender')],
  ['MAIL FROM:<a"b"@c>', wrong('sender')],
  ['MAIL FROM:  <a@b>', wrong('sender')],
  ['MAIL FROM:<a@b>>', wrong('parameter')],
  ['MAIL FROM:<<a@b>', wrong('sender')],
  ['MAIL FROM:<@b>', wrong('sender')],
  ['MAIL FROM:<a@>', wrong('sender')],
  ['MAIL FROM:<@r:a@b>', wrong('sender')],
  ['MAIL FROM:<postmaster>', wrong('sender')],
  ['MAIL FROM:<a@b> SIZE', mail('a@b', ['SIZE', undefined])],
  ['MAIL FROM:<a@b> SIZE=1 size=2', wrong('parameter')],
  ['MAIL FROM:<a@b> =1', wrong('parameter')],
  ['MAIL FROM:<a@b> SIZE=', wrong('parameter')],
  ['MAIL FROM <a@b>', wrong('argument')],
  ['MAIL TO:<a@b>', wrong('argument')],
  ['RCPT TO:<postmaster>', rcpt('postmaster')],
  ['RCPT TO:<用户@例え.jp>', rcpt('用户@例え.jp')],
  ['RCPT TO:<user@local@remote>', rcpt('user@local@remote')],
  ['RCPT TO:<>', wrong('recipient')],
  [`RCPT TO:<${'a'.repeat(252)}@b>`, rcpt(`${'a'.repeat(252)}@b`)],
  [`RCPT TO:<${'a'.repeat(253)}@b>`, wrong('recipient')],
  ['AUTH PLAIN', { verb: 'AUTH', mechanism: 'PLAIN', initial: undefined }],
  ['auth login =', { verb: 'AUTH', mechanism: 'LOGIN', initial: '=' }],
  ['AUTH', wrong('argument')],
  ['AUTH PLAIN a b', wrong('argument')],
  ['BDAT 0', { verb: 'BDAT', bytes: 0, last: false }],
  ['bdat 12 last', { verb: 'BDAT', bytes: 12, last: true }],
  ['BDAT', wrong('bdat')],
  ['BDAT -1', wrong('bdat')],
  ['BDAT 1e3', wrong('bdat')],
  ['BDAT 1 LAST more', wrong('bdat')],
  ['BDAT 1 FIRST', wrong('bdat')],
  ['BDAT 1234567890123456', wrong('bdat')],
  ['DATA', { verb: 'DATA' }],
  ['data ', { verb: 'DATA' }],
  ['DATA x', wrong('argument')],
  ['NOOP x y', { verb: 'NOOP' }],
  ['VRFY x', { verb: 'VRFY' }],
  ['STARTTLS', { verb: 'STARTTLS' }],
  ['', wrong('unknown')],
  [' NOOP', wrong('unknown')],
  ['MAILFROM:<a@b>', wrong('unknown')],
  ['constructor', wrong('unknown')],
  ['NOOP\t', wrong('characters')],
  ['NO\0OP', wrong('characters')],
  ['NOOP \x7f', wrong('characters')],
])('%s', (line, expected) => {
  expect(parse(line)).toEqual(expected)
})

test('a line that is no UTF-8 is refused, whatever it says', () => {
  expect(parseCommand(Buffer.from('RCPT TO:<j\xf6rg@example.org>', 'latin1'))).toEqual(wrong('characters'))
})

test('any bytes give a command or a mistake, and never a path with a bracket or a line end outside quotes', () => {
  const words = fc.constantFrom(
    'MAIL FROM:',
    'RCPT TO:',
    '<',
    '>',
    '@',
    '"',
    '\\',
    ' ',
    'a',
    '\r',
    '\n',
    'SIZE=1',
    '\0',
    'é',
  )
  fc.assert(
    fc.property(fc.array(words, { maxLength: 20 }), (parts) => {
      const command = parse(parts.join(''))
      if (!('path' in command)) return
      expect(command.path).not.toMatch(/[\r\n\0]/)
      expect(command.path.replaceAll(/^"(?:[^"\\]|\\.)*"/g, '')).not.toMatch(/[<>" ]/)
    }),
  )
})
