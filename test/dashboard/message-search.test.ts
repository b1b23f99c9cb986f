// What the field of the search means: people paste what stands before them, from a log, a mail or an address book.
import { expect, test } from 'vitest'
import { metadataIn, wantedIn } from '../../dashboard/src/message-filter.ts'

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
  ['Your order', { text: 'Your order' }],
  ['order <5>', { text: 'order <5>' }],
  ['a < b', { text: 'a < b' }],
  ['@example.com', { text: '@example.com' }],
  ['', { text: '' }],
])('%j', (typed, wanted) => {
  expect(wantedIn(typed)).toEqual(wanted)
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
])('metadata: %j', (typed, wanted) => {
  expect(metadataIn(typed)).toEqual(wanted)
})
