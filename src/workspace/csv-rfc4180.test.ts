import { array, assert, property, string } from 'fast-check'
import { expect, test } from 'vitest'
import { readCsv, separatorOf, writeCsv } from './csv-rfc4180.ts'

test('what was written is read again', () => {
  assert(
    property(array(array(string({ maxLength: 20 }), { minLength: 2, maxLength: 4 }), { maxLength: 6 }), (lines) => {
      expect([...readCsv(lines.map(writeCsv).join(''))].map(({ cells }) => cells)).toEqual(lines)
    }),
  )
})

test.each([
  ['', []],
  [
    '\ufeffa@b.example\n\n  \r\nc@d.example',
    [
      [1, 'a@b.example'],
      [4, 'c@d.example'],
    ],
  ],
  [
    '"a,b","c ""d"""\r\ne,',
    [
      [1, 'a,b', 'c "d"'],
      [2, 'e', ''],
    ],
  ],
  [
    '"two\nlines",x\ny',
    [
      [1, 'two\nlines', 'x'],
      [3, 'y'],
    ],
  ],
  ['"never closed', [[1, 'never closed']]],
  ['"a"b,c', [[1, 'ab', 'c']]],
] as const)('%j', (text, expected) => {
  expect([...readCsv(text)].map(({ line, cells }) => [line, ...cells])).toEqual(expected)
})

test.each([
  ['a@b.example', ','],
  ['email,a;b', ','],
  ['\ufeff\r\nemail;"a,b"', ';'],
  ['"e,mail";x,y', ';'],
  ['email\tname, first', '\t'],
  ['\temail', '\t'],
  ['', ','],
] as const)('the mark behind the first cell of %j parts the cells', (text, mark) => {
  expect(separatorOf(text)).toBe(mark)
})

test('cells that semicolons or tabs part have commas in them', () => {
  expect([...readCsv('a,b;"c;d"\ne', ';')].map(({ cells }) => cells)).toEqual([['a,b', 'c;d'], ['e']])
  expect([...readCsv('a,b\tc;d\t', '\t')].map(({ cells }) => cells)).toEqual([['a,b', 'c;d', '']])
})

test('blank lines without end come now and then, so that whoever reads may stop', () => {
  const lines = [...readCsv(`a@b.example${'\n'.repeat(50_000)}c@d.example`)]
  expect(lines.map(({ cells }) => cells)).toEqual([['a@b.example'], [''], [''], [''], [''], ['c@d.example']])
  expect(lines.at(-1)?.line).toBe(50_001)
})

test('a line of endless cells, or a cell without an end, comes in pieces', () => {
  expect([...readCsv(','.repeat(2_500))].map(({ line, cells }) => [line, cells.length])).toEqual([
    [1, 1_000],
    [1, 1_000],
    [1, 501],
  ])
  const [first, second] = readCsv(`"${'""'.repeat(150_000)}`)
  expect([first?.line, second]).toEqual([1, undefined])
})
