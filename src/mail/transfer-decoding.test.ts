import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeTransfer } from './transfer-decoding.ts'
import { encodeText } from './transfer-encoding.ts'
import { decodeCharset } from './charset.ts'
import { effortOf } from '../base/effort.test-kit.ts'

const decode = (text: string, encoding: string): string =>
  decodeTransfer(Buffer.from(text), encoding).toString('latin1')

describe('decoding', () => {
  const cases: [string, string, string][] = [
    ['base64', 'aGVsbG8=', 'hello'],
    ['base64', ' aG\r\nVs*bG8', 'hello'],
    ['base64', 'aGVsbG8=\naGVsbG8=', 'hellohello'], // texts that were padded apart
    ['base64', 'YQ==YQ==', 'aa'],
    ['base64', '====', ''],
    ['base64', 'aGVsbG', 'hell'],
    ['quoted-printable', 'a=3Db=3d', 'a=b='],
    ['quoted-printable', 'a=\r\nb=\nc=\rd= \t\r\ne=', 'abcde'],
    ['quoted-printable', 'blanks  \t\r\nhere \n', 'blanks\r\nhere\n'],
    ['quoted-printable', '=zz =4 =', '=zz =4 '],
    ['quoted-printable', 'a=4', 'a'], // a code that was cut in two
    ['uuencode', 'begin 644 a\r\n%:&5L;&\\\r\n`\r\nend\r\n', 'hello'],
    ['uuencode', '%:&5L;&\\', 'hello'],
    ['7bit', 'a=3D', 'a=3D'],
    ['constructor', 'x', 'x'],
  ]
  test.each(cases)('%s %j', (encoding, text, read) => expect(decode(text, encoding)).toBe(read))

  test('what we encode reads back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const { encoding, bytes } = encodeText(text, 'never')
        expect(decodeTransfer(bytes, encoding).toString()).toBe(text.toWellFormed().replace(/\r\n|\r|\n/g, '\r\n'))
      }),
    )
  })

  test('whatever stands there, it is never much longer than what came', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.constantFrom('base64', 'quoted-printable', 'uuencode'), (octets, encoding) => {
        expect(decodeTransfer(Buffer.from(octets), encoding).length).toBeLessThanOrEqual(octets.length + 3)
      }), // prettier-ignore
    )
  })

  test('a megabyte of anything takes moments', () => {
    const effort = effortOf(() => {
      for (const unit of ['=', '= ', ' ', '=\n', 'M\n', 'QQ==', 'begin \n', '\r'])
        for (const encoding of ['base64', 'quoted-printable', 'uuencode'])
          decodeTransfer(Buffer.alloc(1024 * 1024, unit), encoding)
    })
    expect(effort).toBeLessThan(20_000)
  })
})

test('a charset that is wrong or unknown gives text all the same', () => {
  const bytes = Buffer.from('gr\xfcn', 'latin1')
  for (const charset of [undefined, 'utf-8', 'us-ascii', 'no-such', 'iso-8859-1'])
    expect(decodeCharset(bytes, charset)).toBe('grün')
  expect(decodeCharset(Buffer.from('grün'), 'us-ascii')).toBe('grün')
  expect(decodeCharset(Buffer.from('1b2442244f1b2842', 'hex'), 'ISO-2022-JP')).toBe('は')
})
