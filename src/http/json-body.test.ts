// The corpus of others (JSONTestSuite, MIT) lies outside the repository and may be absent; the tables here cover every
// rule without it.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { isRefusal } from '../domain/refusal.ts'
import { readJson } from './json-body.ts'

const read = (text: string | Buffer) => readJson(Buffer.from(text as string))
const code = (text: string | Buffer) => {
  const answer = read(text)
  return isRefusal(answer) ? answer.code : 'read'
}

describe('what is not JSON in UTF-8 is invalid_json', () => {
  test.each([
    ['nothing', ''],
    ['white space', ' \n'],
    ['cut short', '{"a":'],
    ['an open string', '{"a":"b'],
    ['trailing bytes', '{} x'],
    ['a comma too many', '{"a":1,}'],
    ['single quotes', "{'a':1}"],
    ['a raw line break in a string', '{"a":"b\nc"}'],
    ['a bad escape in a name', String.raw`{"\x":1}`],
    ['NaN', '{"a":NaN}'],
    ['a comment', '{"a":1}//'],
    ['a byte order mark', '\ufeff{}'],
    ['UTF-16', Buffer.from('{}', 'utf16le')],
    ['a lone continuation byte', Buffer.from([0x22, 0x80, 0x22])],
    ['an overlong form', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
    ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
  ])('%s', (_name, text) => expect(code(text)).toBe('invalid_json'))
})

describe('JSON that means two things, or nothing good, is invalid_request, and its field says where', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  test.each([
    ['a member twice', '{"recipient":"a","recipient":"b"}', 'recipient'],
    ['a member twice with the same value', '{"a":1,"a":1}', 'a'],
    ['a member twice in an attachment', '{"attachments":[{"filename":"a","filename":"b"}]}', 'attachments.0.filename'],
    ['a member twice, behind others', '{"x":[[1,2],{"y":1},{"z":[],"y":{"b":1,"b":2}}]}', 'x.2.y.b'],
    ['a member twice in metadata', '{"subject":"s","metadata":{"a":"x","a":"y"}}', 'metadata.a'],
    ['a member twice, once escaped', String.raw`{"recipient":"a","\u0072ecipient":"b"}`, 'recipient'],
    ['a member twice, after an inner object', '{"a":{"b":1},"a":2}', 'a'],
    ['the empty name twice', '{"":1,"":2}', ''],
    ['__proto__', '{"__proto__":{"x":1}}', '__proto__'],
    ['__proto__, escaped', String.raw`{"__pr\u006fto__":1}`, '__proto__'],
    ['__proto__ within metadata', '{"metadata":{"__proto__":"x"}}', 'metadata.__proto__'],
    ['__proto__ in a list', '{"a":[0,{"b":{"__proto__":1}}]}', 'a.1.b.__proto__'],
    ['an escaped U+0000', String.raw`{"a":{"b":["x\u0000"]}}`, 'a.b.0'],
    ['a lone surrogate', String.raw`{"a":"\ud800"}`, 'a'],
    ['surrogates in the wrong order', String.raw`{"a":"\udc00\ud800"}`, 'a'],
    ['U+0000 in a name', String.raw`{"a\u0000":1}`, 'body'],
    ['nesting beyond the limit', nested(limits.jsonDepthMax + 1), 'body'],
    ['nesting of 100,000', nested(100_000), 'body'],
    ['an open nesting of 100,000', '['.repeat(100_000), 'body'],
    ['a million members', `{${Array.from({ length: 1_000_000 }, (_, i) => `"k${i}":0`).join()}}`, 'body'],
    ['a million elements', `[${'0,'.repeat(999_999)}0]`, 'body'],
    ['megabytes of white space', `{"a":${' '.repeat(limits.jsonOutsideStringsMax)}1}`, 'body'],
    ['megabytes of white space behind a name', `{"a"${' '.repeat(limits.jsonOutsideStringsMax)}:1}`, 'body'],
    ['a number of a million digits', '1'.repeat(limits.jsonOutsideStringsMax + 1), 'body'],
  ])('%s', (_name, text, field) => expect(read(text)).toMatchObject({ code: 'invalid_request', field }))
})

test.each([
  ['a member twice', (name: string) => `{"${name}":{"${name}":{"${name}":1,"${name}":1}}}`],
  ['an escaped U+0000', (name: string) => String.raw`{"${name}":{"${name}":{"${name}":"\u0000"}}}`],
  ['U+0000 in a name', (name: string) => String.raw`{"${name}":{"${name}":{"${name}":{"\u0000":1}}}}`],
])('%s: a refusal repeats little of the names that a stranger chose', (_what, body) => {
  const answer = read(body('n'.repeat(100_000)))
  expect(isRefusal(answer) && answer.field).toMatch(/^n{64}\.n{63}$/)
  expect(isRefusal(answer) && answer.words.length).toBeLessThan(300)
})

describe('what is well-formed is read', () => {
  test.each([
    ['the same name in two objects', '{"a":{"x":1},"b":{"x":2},"x":3}'],
    ['a name as a value before', '{"a":"b","b":"a"}'],
    ['names that differ in case', '{"a":1,"A":2}'],
    ['an escaped pair of surrogates', String.raw`{"a":"\ud83d\ude00"}`],
    ['strings that look like structure', String.raw`{"a":"{\"a\":1,\"a\":2}","b":"[[[[[[[[[[[[[[[[[[[[[["}`],
    ['backslashes before quotes', String.raw`{"a":"\\","b":"\\\"","c":"\\\\"}`],
    [
      'long strings with escapes everywhere',
      JSON.stringify({ a: '\\"'.repeat(1000), b: `${'x'.repeat(255)}\\`, c: 1 }),
    ],
    ['names that only sound like prototypes', '{"metadata":{"constructor":"a","prototype":"b","toString":"c"}}'],
    ['something that looks like a refusal', '{"refused":true,"code":"internal_error"}'],
    ['a number that overflows', '{"a":1e400}'],
    ['a top-level string', '"a"'],
    ['nesting at the limit', '['.repeat(limits.jsonDepthMax) + ']'.repeat(limits.jsonDepthMax)],
  ])('%s', (_name, text) => expect(read(text)).toEqual({ value: JSON.parse(text) as unknown }))
})

test('for JSON without repeated names it agrees with JSON.parse, however it is written', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(0, 1, '\t'), (value, space) => {
      const text = JSON.stringify(value, null, space)
      const answer = read(text)
      if (isRefusal(answer)) expect(answer.code).toBe('invalid_request') // __proto__ and U+0000
      else expect(answer.value).toEqual(JSON.parse(text))
    }),
    { numRuns: 500 },
  )
})

test('long strings with any escapes end where JSON.parse ends them', () => {
  const piece = fc.constantFrom('\\"', '\\\\', 'x', 'x'.repeat(300), '\\n', 'é', '😀', '{', ',')
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const text = `{"first":"${pieces.join('')}","second":["${pieces.join('')}"],"third":1}`
      expect(read(text)).toEqual({ value: JSON.parse(text) as unknown })
    }),
    { numRuns: 300 },
  )
})

test('no bytes at all make it throw', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array(),
        fc.string().map((text) => Buffer.from(text)),
      ),
      (bytes) => {
        const answer = readJson(Buffer.from(bytes))
        expect(isRefusal(answer) || 'value' in answer).toBe(true)
      },
    ),
  )
})

const corpus = join(import.meta.dirname, '../../../shared/corpora/json-parsing')
const names = existsSync(corpus) ? readdirSync(corpus) : []
test(`JSONTestSuite: n_ is refused, y_ is never invalid_json (${names.length} files)`, () => {
  const wrong = names.filter((name) => {
    const answer = code(readFileSync(join(corpus, name)))
    return name.startsWith('n_') ? answer === 'read' : name.startsWith('y_') && answer === 'invalid_json'
  })
  expect(wrong).toEqual([])
})
