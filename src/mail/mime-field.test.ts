import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeWords, parseParameterized } from './mime-field.ts'
import { filenameParameter } from './header-text.ts'
import { effortOf } from '../base/effort.test-kit.ts'

describe('parameters', () => {
  const cases: [string, string, Record<string, string>][] = [
    ['text/plain', 'text/plain', {}],
    ['Text/HTML ; Charset = UTF-8', 'text/html', { charset: 'UTF-8' }],
    ['text/plain; charset="a\\"b;c" (note (nested) ;x=y); z=1', 'text/plain', { charset: 'a"b;c', z: '1' }],
    ['text/plain; charset=a; charset=b', 'text/plain', { charset: 'a' }],
    ['text/plain; name=" kept "', 'text/plain', { name: ' kept ' }],
    ['multipart/report; report-type=delivery-status; boundary=a=b', 'multipart/report', { 'report-type': 'delivery-status', boundary: 'a=b' }], // prettier-ignore
    ['text/plain; name="unclosed; a=b', 'text/plain', { name: 'unclosed; a=b' }],
    ['text/plain; (unclosed', 'text/plain', {}],
    ['text/html charset=utf-8', 'text/html', { charset: 'utf-8' }],
    ['text/html\tformat = flowed; charset=utf-8', 'text/html', { format: 'flowed', charset: 'utf-8' }],
    ['filename="a b"', '', { filename: 'a b' }],
    ['text/"plain=x"', 'text/plain=x', {}],
    [';;;=;a=;=b', '', { a: '' }],
    ["a/b; filename*=utf-8'en'%e2%82%ac%20x", 'a/b', { filename: '€ x' }],
    ["a/b; filename=plain; filename*=iso-8859-1''%e9", 'a/b', { filename: 'é' }],
    ["a/b; f*1=two; f*0*=utf-8''%c3; f*2*=%a9; f*4=four", 'a/b', { f: 'Ãtwo©four' }],
    ['a/b; f*1=one; f*2=two', 'a/b', { f: 'onetwo' }],
    ['a/b; f*01=one; f*00=zero; f=none', 'a/b', { f: 'zeroone' }],
    ["a/b; f*0=plain; f*0*=utf-8''%c3%a9; f*1=one", 'a/b', { f: 'éone' }],
    ["a/b; f*0*=utf-8''%c3; f*1*=%a9", 'a/b', { f: 'é' }],
    ['a/b; f*0=one; f*1=two', 'a/b', { f: 'onetwo' }],
    ["a/b; f*=no-such-charset''%zz%41", 'a/b', { f: '%zzA' }],
  ]
  test.each(cases)('%s', (text, value, parameters) => {
    const read = parseParameterized(text)
    expect(read.value).toBe(value)
    expect(Object.fromEntries([...read.parameters].filter(([name]) => !name.includes('*')))).toEqual(parameters)
  })

  test('a megabyte of them costs little, and the last one counts', () => {
    const many = (form: (n: number) => string): string =>
      `a/b${Array.from({ length: 80_000 }, (_, n) => form(n)).join('')}`
    const effort = effortOf(() => {
      for (const form of [(n: number) => `;p${n}=1`, (n: number) => `; f*${n}*=%41`, (n: number) => `; f${n}*0=a`])
        expect(parseParameterized(`${many(form)}; last=1`).parameters.get('last')).toBe('1')
    })
    expect(effort).toBeLessThan(2_000)
  })

  test('what we write reads back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 200 }), (name) => {
        const value = `attachment; ${filenameParameter(name)}`.replaceAll('\r\n', '')
        expect(parseParameterized(value).parameters.get('filename')).toBe(name.toWellFormed())
      }),
    )
  })
})

describe('encoded words', () => {
  const cases: [string, string][] = [
    ['plain', 'plain'],
    ['=?utf-8?Q?caf=C3=A9_au?= =?utf-8?B?bGFpdA==?= x', 'café aulait x'],
    ['a =?iso-8859-1?q?=e9?= b', 'a é b'],
    ['=?utf-8?b?w6k=?=  =?iso-8859-1?q?=e9?=', 'éé'],
    ['=?utf-8?b?4oI=?= =?utf-8?b?rA==?=', '€'],
    ['=?ISO-2022-JP?B?GyRCRnxLXDhsGyhC?= =?iso-2022-jp?B?GyRCJUYlOSVIGyhC?= =?iso-2022-jp?q?_x?=', '日本語テスト x'],
    ['=?utf-8?q?caf=C3?= =?iso-8859-1?q?=e9?=', 'cafÃé'],
    ['=?utf-8*en?q?x?=', 'x'],
    ['=?us-ascii?q?x', '=?us-ascii?q?x'],
    ['=?utf-8?q?caf=C3=A9 au lait?= =?utf-8?b?w6 k=?=', 'café au laité'],
    ['=?nothing?q?x?=', 'x'],
  ]
  test.each(cases)('%s', (text, read) => expect(decodeWords(text)).toBe(read))

  test('a megabyte of beginnings costs nothing', () => {
    const effort = effortOf(() => {
      for (const unit of ['=?', '=?a?q?', '=?utf-8?b?', '? =', '=?a?q?x?= ']) decodeWords(unit.repeat(100_000))
    })
    expect(effort).toBeLessThan(2_000)
  })
})
