// What the field of the search means: people paste what stands before them, from a log, a mail or an address book.
import { expect, test } from 'vitest'
import { addressIn, beginningIn, metadataIn, wantedIn } from '../../dashboard/src/typed.ts'
import { parseAddress } from '../../src/mail/address.ts'

const id = '01a20fcd-774f-7013-a813-9991699c73fe'
/** As other programs make them. */
const strange = '9b2e4a51-0c3d-4f6a-8e7b-1c2d3e4f5a6b'

test.each<[typed: string, wanted: object]>([
  [id, { messageId: id }],
  [` ${id} `, { messageId: id }],
  [strange, { messageId: strange }],
  [`<${id}@mail.example.com>`, { messageId: id }],
  [`${id}@mail.example.com`, { messageId: id }],
  [`Message-ID: <${id}@mail.example.com>`, { messageId: id }],
  // It may be an address as well, and is no id of ours.
  [`${strange}@relay.example.com`, { recipient: `${strange}@relay.example.com` }],
  ['ann@example.com', { recipient: 'ann@example.com' }],
  ['<ann@example.com>', { recipient: 'ann@example.com' }],
  ['Ann <ann@example.com>', { recipient: 'ann@example.com' }],
  ['"Ann, of the shop"<ann@example.com>', { recipient: 'ann@example.com' }],
  ['mailto:ann@example.com', { recipient: 'ann@example.com' }],
  ['Ann <mailto:ann@example.com>', { recipient: 'ann@example.com' }],
  ['ann@example.com,', { recipient: 'ann@example.com' }],
  ['ann@example.com;', { recipient: 'ann@example.com' }],
  ['ann@example.com, bob@example.com', { text: 'ann@example.com, bob@example.com' }],
  ['Your order', { text: 'Your order' }],
  ['order <5>', { text: 'order <5>' }],
  ['a < b', { text: 'a < b' }],
  ['@example.com', { text: '@example.com' }],
  // Still being typed.
  ['ada@example', { text: 'ada@example' }],
  ['ada@example.', { text: 'ada@example.' }],
  ['Ada <ada@example>', { text: 'Ada <ada@example>' }],
  ['', { text: '' }],
])('%j', (typed, wanted) => {
  expect(wantedIn(typed)).toEqual(wanted)
})

test.each([
  'Ada.L+x@Example.COM',
  'ada@bücher.example',
  'jörg@example.com',
  'ada@xn--bcher-kva.example',
  'ada@example',
  'ada@example.c',
  'ada@10.0.0.1',
  'ada@example.0x7f',
  'ada@-a.example',
  'ada@a_b.example',
  'ada@a%41.example',
  'ada@example.com:25',
  'ada@example.com/x',
  'ada@example..com',
  '.ada@example.com',
  'a..b@example.com',
  'a@b@example.com',
  '"a b"@example.com',
  'ada@[10.0.0.1]',
  'ada\u200b@example.com',
  'ada\uff20x@example.com',
  `${'a'.repeat(65)}@example.com`,
  `${'ö'.repeat(33)}@example.com`,
  `ada@${'a.'.repeat(130)}com`,
])('%j is an address here exactly where it is one for the service, which keeps the same', (text) => {
  expect(addressIn(text)).toBe(parseAddress(text)?.text)
})

test.each([
  ['Ann <ann@example.com>', 'ann@example.com'],
  ['mailto:ann@example.com', 'ann@example.com'],
  [' ann@exam', 'ann@exam'],
  ['ann', 'ann'],
  ['', ''],
])('%j is looked for among the suppressions as %j', (typed, beginning) => {
  expect(beginningIn(typed)).toBe(beginning)
})

test.each<[typed: string, wanted: object | undefined]>([
  ['order=4711', { metadataName: 'order', metadataValue: '4711' }],
  [' order = 4711 ', { metadataName: 'order', metadataValue: '4711' }],
  ['token=abc==', { metadataName: 'token', metadataValue: 'abc==' }],
  ['4711', { metadataValue: '4711' }],
  ['=abc==', { metadataValue: 'abc==' }],
  ['order=', undefined],
  ['', undefined],
  ['x'.repeat(501), undefined],
  [`${'🚚'.repeat(40)}=${'🚚'.repeat(500)}`, { metadataName: '🚚'.repeat(40), metadataValue: '🚚'.repeat(500) }],
  ['🚚'.repeat(501), undefined],
])('metadata: %j', (typed, wanted) => {
  expect(metadataIn(typed)).toEqual(wanted)
})
