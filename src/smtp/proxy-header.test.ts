// What a proxy says of its client, read strictly and wherever it is cut.
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { readProxyHeader } from './proxy-header.ts'

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')
const signature = '\r\n\r\n\0\r\nQUIT\n'
/** `rest`: addresses, ports and what else is told, in hex. */
const binary = (command: number, family: number, rest: string, length = rest.length / 2): Buffer => {
  const head = Buffer.alloc(4)
  head.set([command, family])
  head.writeUInt16BE(length, 2)
  return Buffer.concat([latin1(signature), head, Buffer.from(rest, 'hex')])
}
const v4 = 'c0000201c63364019c40024b'
const v6 = `20010db8${'00'.repeat(11)}01${'00'.repeat(15)}019c40024b`
const mapped = `${'00'.repeat(10)}ffffc0000201${'00'.repeat(10)}ffffc63364019c40024b`

const whole = [
  ['IPv4 in words', latin1('PROXY TCP4 192.0.2.1 198.51.100.1 40000 587\r\n'), '192.0.2.1'],
  ['IPv6 in words', latin1('PROXY TCP6 2001:DB8:0:0::1 ::1 40000 587\r\n'), '2001:db8::1'],
  ['IPv4 as IPv6, which is the same client', latin1('PROXY TCP6 0:0:0:0:0:ffff:c000:201 ::1 1 2\r\n'), '192.0.2.1'],
  ['of nobody', latin1('PROXY UNKNOWN\r\n'), undefined],
  ['of nobody, with addresses', latin1('PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n'), undefined],
  ['the longest line', latin1(`PROXY UNKNOWN ${'x'.repeat(91)}\r\n`), undefined],
  ['IPv4 in bytes', binary(0x21, 0x11, v4), '192.0.2.1'],
  ['IPv6 in bytes', binary(0x21, 0x21, v6), '2001:db8::1'],
  ['IPv4 as IPv6 in bytes', binary(0x21, 0x21, mapped), '192.0.2.1'],
  ['with more behind the addresses', binary(0x21, 0x11, `${v4}0400010005`), '192.0.2.1'],
  ['the proxy itself', binary(0x20, 0x00, ''), undefined],
  ['the proxy itself, whatever it tells', binary(0x20, 0x11, v4), undefined],
  ['a socket of a file', binary(0x21, 0x31, '00'.repeat(216)), undefined],
  ['a family that is not told', binary(0x21, 0x00, ''), undefined],
] as const

describe('a header', () => {
  test.each(whole)('%s', (_, bytes, address) => {
    const behind = Buffer.concat([bytes, latin1('EHLO client\r\n')])
    expect(readProxyHeader(behind)).toEqual({ length: bytes.length, address })
    for (let end = 0; end < bytes.length; end++)
      expect(readProxyHeader(bytes.subarray(0, end)), String(end)).toBe(undefined)
  })

  test.each([
    ['what a client says', latin1('EHLO client\r\n')],
    ['nothing but a beginning', latin1('PROXIES')],
    ['in small letters', latin1('proxy TCP4 192.0.2.1 198.51.100.1 40000 587\r\n')],
    ['another family', latin1('PROXY UDP4 192.0.2.1 198.51.100.1 40000 587\r\n')],
    ['an address of another family', latin1('PROXY TCP4 2001:db8::1 198.51.100.1 40000 587\r\n')],
    ['what is no address', latin1('PROXY TCP4 192.0.2.256 198.51.100.1 40000 587\r\n')],
    ['no destination', latin1('PROXY TCP4 192.0.2.1 40000 587\r\n')],
    ['a port too few', latin1('PROXY TCP4 192.0.2.1 198.51.100.1 40000\r\n')],
    ['a destination of another family', latin1('PROXY TCP4 192.0.2.1 2001:db8::1 40000 587\r\n')],
    ['a port that is none', latin1('PROXY TCP4 192.0.2.1 198.51.100.1 40000 65536\r\n')],
    ['two spaces', latin1('PROXY TCP4  192.0.2.1 198.51.100.1 40000 587\r\n')],
    ['more words', latin1('PROXY TCP4 192.0.2.1 198.51.100.1 40000 587 x\r\n')],
    ['a line feed alone', latin1(`PROXY TCP4 192.0.2.1 198.51.100.1 40000 587\n${'x'.repeat(100)}`)],
    ['a line that is too long', latin1(`PROXY UNKNOWN ${'x'.repeat(92)}\r\n`)],
    ['another version', binary(0x31, 0x11, v4)],
    ['another command', binary(0x22, 0x11, v4)],
    ['addresses that are cut off', binary(0x21, 0x11, v4.slice(2))],
    ['more than is read', binary(0x21, 0x11, v4, limits.proxyHeaderBytesMax - 15)],
  ])('is none: %s', (_, bytes) => expect(readProxyHeader(bytes)).toBe('malformed'))

  test('whatever comes, it is none, or not yet whole, or ends within what came', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc
        .tuple(fc.constantFrom(...whole.map(([, header]) => header)), fc.nat(240), fc.nat(255))
        .map(([header, at, octet]) => {
          const changed = Uint8Array.from(header)
          changed[at % header.length] = octet
          return changed
        }),
    )
    fc.assert(
      fc.property(bytes, (given) => {
        const read = readProxyHeader(Buffer.from(given))
        if (typeof read === 'object') expect(read.length).toBeLessThanOrEqual(given.length)
        else expect(['malformed', undefined]).toContain(read)
      }),
      { numRuns: 2_000 },
    )
  })
})
