import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { base64DecodedLength, decodeBase64 } from './base64.ts'

test('what standard Base64 says is what is decoded', () => {
  expect(decodeBase64('')).toEqual(Buffer.alloc(0))
  expect(decodeBase64('QQ==')?.toString()).toBe('A')
  expect(decodeBase64('QUI=')?.toString()).toBe('AB')
  expect(decodeBase64('QUJD')?.toString()).toBe('ABC')
  expect(decodeBase64('+/+/')).toEqual(Buffer.from([0xfb, 0xff, 0xbf]))
})

describe('anything else is refused, though the decoder of the platform forgives it', () => {
  const cases: Record<string, string> = {
    'URL-safe -': 'QU-D',
    'URL-safe _': 'QU_D',
    'a space': 'QU JDQUJ',
    'a line break': 'QUJD\r\nQUJDQU',
    'a line break at the end': 'QUJDQU=\n',
    'missing padding': 'QQ',
    'half of the padding': 'QQ=',
    'too much padding': 'QUI==',
    'padding alone': '====',
    'three paddings': 'Q===',
    'a whole group of padding': 'QUJD====',
    'padding inside': 'QQ==QUJD',
    'padding in the middle': 'Q=JD',
    'a data URL': 'data:text/plain;base64,QUJD',
    'trailing bits before ==': 'QR==',
    'trailing bits before =': 'QUJ=',
    'one character': 'Q',
    'a byte order mark': '\ufeffQUJ',
    'a wide character that ends in an octet of the alphabet': 'QUJ\u0144',
    'the same before padding': 'Q\u0151==',
    'a NUL': 'QUJ\0',
    'a full stop': 'QUJ.',
    'an emoji': 'QU🎉',
  }
  for (const [why, text] of Object.entries(cases)) test(why, () => expect(decodeBase64(text)).toBeUndefined())
})

test('accepted is exactly what encodes to itself again', () => {
  const unit = fc.constantFrom(
    'A',
    'Q',
    'g',
    'w',
    'z',
    '9',
    '+',
    '/',
    '=',
    '==',
    '-',
    '_',
    ' ',
    '\n',
    '.',
    '\u0141',
    'é',
  )
  const almost = fc.array(unit, { maxLength: 9 }).map((units) => units.join(''))
  fc.assert(
    fc.property(fc.oneof(almost, fc.base64String(), fc.string()), (text) => {
      const truth = Buffer.from(text, 'base64').toString('base64') === text
      expect(decodeBase64(text) !== undefined).toBe(truth)
    }),
    { numRuns: 5_000 },
  )
})

test('the decoded length is known before decoding, and never too small', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const text = Buffer.from(bytes).toString('base64')
      expect(base64DecodedLength(text)).toBe(bytes.length)
      expect(decodeBase64(text)).toEqual(Buffer.from(bytes))
    }),
  )
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(base64DecodedLength(text)).toBeGreaterThanOrEqual(decodeBase64(text)?.length ?? 0)
    }),
  )
})
