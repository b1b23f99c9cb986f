import * as fc from 'fast-check'
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parseAddress, parseDomain, unsupportedForm } from './address.ts'
import { effortOf } from '../base/effort.test-kit.ts'

const a = (count: number) => 'a'.repeat(count)

describe('one clean address is accepted, in the form that is kept', () => {
  const cases: [given: string, kept: string][] = [
    ['user@example.com', 'user@example.com'],
    ['First.Last+tag@EXAMPLE.Com', 'First.Last+tag@example.com'],
    ["!#$%&'*+/=?^_`{|}~-@example.com", "!#$%&'*+/=?^_`{|}~-@example.com"],
    ['a@1.2.3.example', 'a@1.2.3.example'],
    ['a@AI', 'a@ai'], // a country's own mailbox
    ['a@c--n.com', 'a@c--n.com'],
    ['xn--test@example.com', 'xn--test@example.com'],
    ['a@bücher.de', 'a@xn--bcher-kva.de'],
    ['a@BÜCHER.de', 'a@xn--bcher-kva.de'],
    ['a@faß.de', 'a@xn--fa-hia.de'],
    ['a@XN--BCHER-KVA.de', 'a@xn--bcher-kva.de'],
    ['a@例え。jp', 'a@xn--r8jz45g.jp'],
    ['a@\u0430pple.com', 'a@xn--pple-43d.com'], // Cyrillic: another domain, and it shows
    ['jürgen@example.com', 'jürgen@example.com'],
    ['用户@例え.jp', '用户@xn--r8jz45g.jp'],
    ['🎉@example.com', '🎉@example.com'],
    [`${a(64)}@example.com`, `${a(64)}@example.com`],
    [`a@${a(63)}.com`, `a@${a(63)}.com`],
    [`${a(64)}@${a(63)}.${a(63)}.${a(57)}.com`, `${a(64)}@${a(63)}.${a(63)}.${a(57)}.com`], // 254
  ]
  for (const [given, kept] of cases)
    test(given, () => {
      const address = parseAddress(given)
      expect(address?.text).toBe(kept)
      expect(`${address?.local}@${address?.domain}`).toBe(kept)
      expect(address?.key).toBe(kept.toLowerCase())
      expect(address?.needsSmtputf8).toBe(/[^\x00-\x7f]/.test(kept))
    })
})

test('a letter and its accent, together or apart, are one recipient, who is written to as given', () => {
  const apart = parseAddress('Ju\u0308rgen@example.com')
  expect(apart).toMatchObject({ text: 'Ju\u0308rgen@example.com', key: 'j\u00fcrgen@example.com' })
  expect(parseAddress('J\u00fcrgen@example.com')?.key).toBe(apart?.key)
  expect(parseAddress('JU\u0308RGEN@example.com')?.key).toBe(apart?.key)
})

test('no address of other letters is kept, suppressed or signed in as an ASCII one: who gives it may be somebody else', () => {
  for (let code = 0x80; code <= 0x2fff; code++)
    expect(parseAddress(`a${String.fromCharCode(code)}@example.com`)?.key ?? '\u00fc').toMatch(/[^\x00-\x7f]/)
})

describe('anything else is refused', () => {
  const cases: Record<string, string[]> = {
    // Some readers decode them, and find another address in front.
    'an encoded word': ['=?utf-8?q?ceo=40bank.example=2C?=a@example.com', 'a=?UTF-8?B?Y2VvQGJhbms=?=@example.com'],
    'not exactly one addr-spec': [
      '',
      '@',
      'a',
      'a@',
      '@example.com',
      '<a@example.com>',
      'A <a@example.com>',
      'a@example.com,c@example.com',
      'a@example.com;c@example.com',
      'a@example.com (c)',
      'a(c)@example.com',
      '@x:a@example.com',
      'a@b@example.com',
      'a%b@c@example.com',
      'mailto:a@example.com@',
      'a\uff20example.com',
    ],
    'attempts on the SMTP dialogue': [
      'a@example.com>\r\nRCPT TO:<c@example.com',
      'a@example.com NOTIFY=NEVER',
      'a@example.com\r\n',
      'a@example.com\n',
      '\ra@example.com',
      'a@example.com\0',
      'a\0@example.com',
      'a\t@example.com',
      ' a@example.com',
      'a@example.com ',
      'a @example.com',
      'a@ example.com',
      'a@exa\u0085mple.com',
      'a\u2028@example.com',
      '"a\r\nRCPT TO:<c@d>"@example.com',
    ],
    'local parts outside the policy': [
      '.a@example.com',
      'a.@example.com',
      'a..b@example.com',
      '"a b"@example.com',
      '"a"@example.com',
      'a\\@b@example.com',
      `${a(65)}@example.com`,
      `${'ü'.repeat(33)}@example.com`, // 66 octets
      'a\u202eb@example.com',
      'a\u200bb@example.com',
      'a\ufeff@example.com',
      'a\u00a0b@example.com',
      'a\ud800@example.com',
      'a\uff1cb@example.com', // a full-width < that some servers fold
      'a\uff20b@example.com',
      'a\uff0e\uff0eb@example.com',
      '\u212aate@example.com', // the Kelvin sign, another spelling of kate@example.com
      'a\u1fefb@example.com', // and one of a`b@example.com
    ],
    'domains outside the policy': [
      'a@example',
      'a@org',
      'a@a1',
      'a@1a',
      'a@ai.',
      'a@example.com.',
      'a@.example.com',
      'a@example..com',
      'a@-example.com',
      'a@example-.com',
      'a@exa_mple.com',
      'a@exa\uff3fmple.com', // becomes an underscore
      'a@exa%41mple.com',
      'a@example.com:25',
      'a@example.com/x',
      'a@127.0.0.1',
      'a@127.1',
      'a@2130706433',
      'a@example.123',
      'a@1.0x7f', // an IP address to some resolvers
      'a@[127.0.0.1]',
      'a@[IPv6:::1]',
      'a@\u2460\u2461\u2466.\u2460',
      'a@exa\u00admple.com',
      'a@exa\u200dmple.com',
      'a@xn--a.com',
      'a@xn--.com',
      'a@xn--zzzzzzzz.com',
      'a@xn--bcher-.de',
      'a@\u00fc-.com',
      'a@אa.com',
      `a@${a(64)}.com`,
      `a@${a(60)}ü.com`,
      `${a(64)}@${a(63)}.${a(63)}.${a(58)}.com`, // 255
      `ü${a(60)}@${a(63)}.${a(63)}.${a(60)}.com`, // 254 characters, 255 octets
    ],
  }
  for (const [why, texts] of Object.entries(cases))
    describe(why, () => {
      for (const text of texts) test(JSON.stringify(text), () => expect(parseAddress(text)).toBeUndefined())
    })
})

test.each([
  ['"ada lovelace"@example.com', /^has a quoted local part, which is not supported/],
  ['"ada"@example.com', /^has a quoted local part/],
  ['"a\\"@\\\\"@example.com', /^has a quoted local part/],
  ['ada@[192.0.2.1]', /^has an IP address in place of its domain, which is not supported/],
  ['ada@[IPv6:2001:db8::1]', /^has an IP address/],
  ['ada@localhost', /^has a domain without a dot, which is not supported/],
  [`${a(65)}@example.com`, /^has more than 64 octets before its "@"/],
  [`${'ä'.repeat(33)}@example.com`, /^has more than 64 octets before its "@"/],
  [`ada@${`${a(49)}.`.repeat(5)}example`, /^has more than 254 octets/],
  [`ada@${'ä'.repeat(126)}.de`, /^has more than 254 octets/],
  ['"Ada" <ada@example.com>', undefined],
  ['ada', undefined],
  [a(300), undefined],
  ['@localhost', undefined],
  ['ada@exa mple.com', undefined],
])('%s: the form that is not supported is named', (text, words) => {
  expect(parseAddress(text)).toBeUndefined()
  if (words === undefined) expect(unsupportedForm(text)).toBeUndefined()
  else expect(unsupportedForm(text)).toMatch(words)
})

test('a text of megabytes that begins like a quoted local part is none', () => {
  expect(unsupportedForm(`"${a(15_000_000)}`)).toBeUndefined()
})

test('whatever comes in, what comes out is one address that parses to itself', () => {
  const piece = fc.constantFrom(
    'a',
    'B',
    '.',
    '@',
    '-',
    '_',
    '+',
    ' ',
    '\r',
    '\n',
    '<',
    '>',
    '"',
    'ü',
    'xn--',
    'com',
    '1',
  )
  const almost = fc
    .tuple(fc.array(piece, { maxLength: 6 }), fc.array(piece, { maxLength: 6 }), fc.constantFrom('.com', '.de', ''))
    .map(([local, domain, end]) => `${local.join('')}@${domain.join('')}${end}`)
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.emailAddress(), almost), (text) => {
      const address = parseAddress(text)
      if (address === undefined) return
      expect(address.text).not.toMatch(/[\s<>,;:"()[\]\\\p{C}]/u)
      expect(Buffer.byteLength(address.text)).toBeLessThanOrEqual(254)
      expect(address.domain).toMatch(/^[a-z0-9.-]+$/)
      expect(parseAddress(address.text)).toEqual(address)
    }),
    { numRuns: 2_000 },
  )
})

test('nobody sends from the domain of a country', () => {
  expect(parseDomain('Example.ORG')).toBe('example.org')
  for (const text of ['ai', 'a@example.org', '', `${'a.'.repeat(130)}org`]) expect(parseDomain(text)).toBeUndefined()
})

test('hostile texts are refused at once', () => {
  const effort = effortOf(() => {
    for (const unit of ['a', '@', '.', ' ', '<', 'a.', 'a-', 'ü', 'xn--', '\u200d'])
      expect(parseAddress(unit.repeat(1_000_000))).toBeUndefined()
    for (const unit of ['a', 'a.', 'a-', 'ü', '.xn--a']) parseAddress(`a@${unit.repeat(250 / unit.length)}`)
  })
  expect(effort).toBeLessThan(1_000)
})

// The corpus lies beside the project while it is built. Absent, the tables above stand alone.
const corpus = new URL('../../../shared/corpora/email-addresses.xml', import.meta.url)
if (existsSync(corpus))
  describe('isemail corpus', () => {
    const xml = readFileSync(corpus, 'utf8')
    const tests = [...xml.matchAll(/<test id="(\d+)">([\s\S]*?)<\/test>/g)].map(([, id, inner]) => {
      const member = (name: string) => new RegExp(`<${name}>([\\s\\S]*?)</${name}>`).exec(inner ?? '')?.[1] ?? ''
      return { id, address: unescape(member('address')), category: member('category'), diagnosis: member('diagnosis') }
    })
    test('is read whole', () => expect(tests.length).toBe(164))
    for (const { id, address, category, diagnosis } of tests)
      test(`${id} ${diagnosis}`, () => {
        const accepted = category === 'ISEMAIL_VALID_CATEGORY' || category === 'ISEMAIL_DNSWARN'
        expect(parseAddress(address) !== undefined).toBe(accepted)
      })
  })
else console.log('not run: ../shared/corpora/email-addresses.xml is absent (164 addresses)')

function unescape(text: string): string {
  return text
    .replace(/&#x([0-9A-Fa-f]+);/g, (_, hex: string) => String.fromCodePoint(Number.parseInt(hex, 16)))
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&amp;', '&')
    .replace(/[\u2400-\u2420]/g, (symbol) => String.fromCharCode(symbol.charCodeAt(0) - 0x2400))
}
