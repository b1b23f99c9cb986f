// Which names of charsets are known, and that whatever is not becomes text all the same.
import { expect, test } from 'vitest'
import { decodeCharset, decodePieces } from './charset.ts'
import { effortOf } from '../base/effort.test-kit.ts'

const reads: [charsets: string, hex: string, text: string][] = [
  ['gb2312 gbk cp936 ms936 windows-936 csGBK euc-cn x-gbk gb_2312-80', 'c4e3bac3', '你好'],
  ['gb18030 csGB18030', 'c4e381308130', '你\u0080'],
  ['big5 cp950 ms950 windows-950 csBig5 x-x-big5 big5-eten', 'a741a66e', '你好'],
  ['shift_jis cp932 ms932 windows-31j csWindows31J sjis shift-jis x-sjis MS_Kanji windows-932', '93fa967b', '日本'],
  ['euc-jp eucJP ujis eucJP-ms cp51932 x-euc-jp', 'c6fccbdc', '日本'],
  ['iso-2022-jp cp50220 cp50221 cp50222 iso-2022-jp-ms iso-2022-jp-1 iso-2022-jp-2 csISO2022JP', '1b2442467c4b5c1b2842', '日本'], // prettier-ignore
  ['euc-kr euckr cp949 ms949 uhc windows-949 x-windows-949 ks_c_5601-1987 csEUCKR', 'b0a1', '가'],
  ['windows-874 cp874 tis-620 tis620 iso-8859-11', 'a1', 'ก'],
  ['windows-1250 cp1250 cp-1250 win-1250 windows1250 x-cp1250 ms1250 cswindows1250', '9c', 'ś'],
  ['windows-1251 cp1251 win1251 windows_1251', 'e6', 'ж'],
  ['windows-1258 cp1258', 'd0', 'Đ'],
  ['iso-8859-2 iso8859_2 8859-2 iso_8859_2 iso88592 latin2 csISOLatin2', 'b1', 'ą'],
  ['iso-8859-13 latin7', 'e0', 'ą'],
  ['iso-8859-14 latin8 iso-celtic csISO885914', 'f0', 'ŵ'],
  ['iso-8859-15 latin-9 latin9 latin0 l9 iso8859_15 csISO885915', 'a4', '€'],
  ['iso-8859-16 latin10', 'a2', 'ą'],
  ['koi8-r koi8r cskoi8r cp20866', 'd6', 'ж'],
  ['ibm866 cp866 csibm866', 'a6', 'ж'],
  [
    'utf-7 unicode-1-1-utf-7 csUTF7 x-unicode-2-0-utf-7',
    '67722b4150772d6e202b2d20312b312c202b324433654167',
    'grün + 1+1, 😂',
  ],
]
test.each(reads.flatMap(([charsets, hex, text]) => charsets.split(' ').map((name) => [name, hex, text] as const)))(
  'a name that mailers write is known: %s',
  (name, hex, text) => {
    expect(decodeCharset(Buffer.from(hex, 'hex'), name)).toBe(text)
  },
)

const little = (text: string) => Buffer.from(text, 'utf16le')
const big = (text: string) => Buffer.from(text, 'utf16le').swap16()
test.each([
  ['big endian, marked', big('\ufeffgrün 日本'), 'grün 日本'],
  ['little endian, marked', little('\ufeffgrün 日本'), 'grün 日本'],
  ['marked, and full of what looks like the other', little('\ufeff⁁⁂䄀䈀䌀䐀'), '⁁⁂䄀䈀䌀䐀'],
  ['big endian by its Latin letters', big('Hello'), 'Hello'],
  ['little endian by its Latin letters', little('Hello'), 'Hello'],
  ['big endian by its line end', big('日本語の一\u3000\n'), '日本語の一\u3000\n'],
  ['little endian by its line end', little('日本語の一\u3000\r\n'), '日本語の一\u3000\r\n'],
  ['nothing tells: big endian, as RFC 2781 says', big('日本語一\u3000'), '日本語一\u3000'],
  ['half a character', big('Hello').subarray(0, 9), 'Hell\ufffd'],
  ['nothing', Buffer.alloc(0), ''],
])('UTF-16 that does not name its byte order: %s', (_, bytes, text) => {
  for (const name of ['utf-16', 'UTF16', 'csUTF16', 'ucs-2', 'iso-10646-ucs-2', 'unicode'])
    expect(decodeCharset(bytes, name)).toBe(text)
})

test('UTF-8 that is cut within a character stays UTF-8; a text with one octet beyond ASCII, at its end, is no such text', () => {
  const text = Buffer.from('Grüße, 日本 😂')
  for (const [cut, read] of [
    [0, 'Grüße, 日本 😂'],
    [1, 'Grüße, 日本 '],
    [3, 'Grüße, 日本 '],
    [6, 'Grüße, 日'],
    [7, 'Grüße, 日'],
  ] as const)
    expect(decodeCharset(text.subarray(0, text.length - cut), 'utf-8')).toBe(read)
  for (const latin of ['caf\xe9', 'd\xe9j\xe0', '\xe9', 'Gr\xfc\xdfe'])
    expect(decodeCharset(Buffer.from(latin, 'latin1'), 'us-ascii')).toBe(latin)
})

test('a charset that nobody knows is UTF-8 where it reads as such, else windows-1252', () => {
  for (const name of [
    'cp99999',
    'x-',
    'cs',
    'iso-8859-12',
    'iso-8859-99',
    'constructor',
    'replacement',
    '☃',
    'cp65001',
  ]) {
    expect(decodeCharset(Buffer.from('grün €'), name)).toBe('grün €')
    expect(decodeCharset(Buffer.from('gr\xfcn \x80', 'latin1'), name)).toBe('grün €')
  }
})

test.each([
  ['utf-8', ['e2', '82', 'ac'], '€'],
  ['utf-8', ['41e2', '82ac42e2', '82ac'], 'A€B€'],
  ['utf-8', ['f09f98', '80'], '😀'],
  ['utf-8', ['c3', '78'], 'Ãx'],
  // One that is broken spoils itself alone.
  ['utf-8', ['c3bc', 'fc', 'c3bc'], 'üüü'],
  ['us-ascii', ['6772fc', '6e20c3bc'], 'grün ü'],
  ['no-such', ['fc', 'fc', 'fc', 'fc', 'fc', '41'], 'üüüüüA'],
  ['gb2312', ['c4e3ba', 'c3'], '你好'],
  ['cp932', ['93', 'fa96', '7b'], '日本'],
  ['big5', ['a741', 'a66e'], '你好'],
  ['gb18030', ['81', '30', '81', '30'], '\u0080'],
  ['utf-16be', ['00', '41d83d', 'de00'], 'A😀'],
  ['iso-8859-1', ['e9', 'c3', 'a9'], 'éÃ©'],
  ['iso-2022-jp', ['1b2442467c4b5c1b2842', '1b24426c1b2842', '41'], '日本\ufffdA'],
  // What the first leaves switched on ends with it.
  ['cp50221', ['1b2442467c4b5c', '414243'], '日本ABC'],
  ['utf-7', ['2b4150', '772d'], '+APw-'],
] as const)('pieces of %s, %j, are read one by one, and a character that was cut is whole again', (name, hex, text) => {
  const pieces = hex.map((piece) => Buffer.from(piece, 'hex'))
  expect(decodePieces(pieces, name)).toBe(text)
})

test.each(['utf-8', 'gbk', 'utf-16', 'iso-2022-jp', 'utf-7', 'no-such'])(
  'many pieces of %s cost no more than their octets',
  (name) => {
    for (const octet of [0xff, 0x81, 0xe2, 0x41, 0x1b]) {
      const pieces = Array.from({ length: 30_000 }, () => Buffer.from([octet]))
      expect(effortOf(() => decodePieces(pieces, name))).toBeLessThan(1_500)
    }
  },
)

test('text in UTF-7 costs no more than its octets, whatever its runs are', () => {
  for (const run of ['+', "'+", '+-', '+A', '+AA-', '+AGE-', '+AGE', '+2D3eAA', 'a+b']) {
    const text = Buffer.from(run.repeat(Math.ceil(4_000_000 / run.length)))
    expect(
      effortOf(() => decodeCharset(text, 'utf-7')),
      run,
    ).toBeLessThan(400)
  }
})
