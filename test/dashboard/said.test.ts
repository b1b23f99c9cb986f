// What the pages say: times and sizes at the borders between two units, never of another day than it was; and words for a shell.
import { execFileSync } from 'node:child_process'
import { domainToASCII } from 'node:url'
import { expect, test } from 'vitest'
import { quoted } from '../../dashboard/src/quoted.ts'
import { bytes } from '../../dashboard/src/ui/size.ts'
import { duration, said } from '../../dashboard/src/ui/span.ts'
import { unicodeOf } from '../../dashboard/src/unicode.ts'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

test.each([
  [-1_400, 'just now'],
  [-59_400, '59 seconds ago'],
  [-59_600, '1 minute ago'],
  [90 * minute + 1, 'in 2 hours'],
  [23.6 * hour, 'in 1 day'],
  // At midnight that was the day before yesterday.
  [-25 * hour, '1 day ago'],
  [26 * hour, 'in 1 day'],
  [-31 * day, '1 month ago'],
  [365 * day, 'in 1 year'],
])('%d ms from now is %s', (ms, words) => {
  expect(said(ms)).toBe(words)
})

test.each([
  [-3, '0 ms'],
  [999.4, '999 ms'],
  [999.6, '1.0 s'],
  [9_960, '10 s'],
  [59_600, '1 min 0 s'],
  [3 * minute + 59_600, '4 min 0 s'],
  [hour - 200, '1 h 0 min'],
  [2 * hour + 5 * minute, '2 h 5 min'],
])('what took %d ms took %s', (ms, words) => {
  expect(duration(ms)).toBe(words)
})

test.each([
  [1_023, '1023 B'],
  [1_024, '1.0 KB'],
  [1_048_575, '1.0 MB'],
  [52 * 1024 ** 3, '52.0 GB'],
  [3 * 1024 ** 4, '3072.0 GB'],
])('%d bytes are %s', (count, words) => {
  expect(bytes(count).replace('\u00A0', ' ')).toBe(words)
})

test.each(['hello@example.org', `o'neil@example.org`, '`id`$HOME&{a,b}|~#*?!@example.org'])(
  'a shell that %s is pasted into takes it for itself',
  (word) => {
    expect(execFileSync('sh', ['-c', `printf %s ${quoted(word)}`], { encoding: 'utf8' })).toBe(word)
  },
)

test.each([
  'müller.example',
  'münchner-straßenbahn.example',
  'a.ü.b-c.example',
  '例え.テスト',
  'яндекс.рф',
  '😀.example',
])('a domain beyond ASCII is told as people write it, too: %s', (name) => {
  const ascii = domainToASCII(name)
  expect(ascii).toContain('xn--')
  expect(unicodeOf(ascii)).toBe(name)
  expect(unicodeOf(`me@${ascii}`)).toBe(`me@${name}`)
})

test.each(['example.org', 'me@example.org', 'xn--99999999.example', 'xn--a-!.example', 'müller.example'])(
  'beside %s no other form is told',
  (name) => expect(unicodeOf(name)).toBeUndefined(),
)
