// Whose words are whose, in a bounce for people that names several: else who has a full mailbox is suppressed for the one who is not there.
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { readBounceText } from './bounce-text.ts'

test('where all are named first, each gets its own words behind that', () => {
  const words = ['ann@example.org:', '    550 5.1.1 no such user', 'bob@example.org:', '    452 4.2.2 mailbox full']
  const { recipients } = readBounceText(['ann@example.org', 'bob@example.org', '', ...words].join('\n'), '')
  expect(recipients.map(({ recipient, text }) => [recipient, /[45]\d\d .*/.exec(text)?.[0].slice(0, 9)])).toEqual([
    ['ann@example.org', '550 5.1.1'],
    ['bob@example.org', '452 4.2.2'],
  ])
})

test.each([
  'Undeliverable: Your parcel is delayed',
  'Returned mail: your order has not yet been delivered',
  'Delivery Status Notification (Failure): Flight LX 1 delayed',
  'Undelivered: Your parcel is delayed',
  'Undeliverable: Warning: this is the last reminder',
  'Mail delivery failed: Your parcel is delayed',
  'Failure notice: Your parcel is delayed',
  'Unzustellbar: Your parcel is delayed',
  'Nicht zustellbar: Your parcel is delayed',
  'Non remis : Your parcel is delayed',
  'No se pudo entregar: Your parcel is delayed',
])('a subject that quotes ours is no word of the mail system: %s', (subject) => {
  const words = 'Your message could not be delivered.\n\nann@example.org\n550 5.1.1 no such user'
  expect(readBounceText(words, subject).delayed).toBe(false)
})

test.each([
  'Delivery delayed: Your parcel',
  'Delayed Mail (still being retried)',
  'Warning: message still undelivered after 4 hours',
  'Returned mail: warning: could not send message for past 4 hours',
  'Temporary delivery failure: Your parcel',
])('a subject that says so in its own words is one of a delay: %s', (subject) => {
  const words = 'Message could not be delivered for 4 hours.\n\nann@example.org\n451 4.4.1 no answer'
  expect(readBounceText(words, subject).delayed).toBe(true)
})

test('the words about one more than are told of are not about the last of them', () => {
  const last = limits.reportRecipientsMax - 1
  const named = Array.from(
    { length: last + 2 },
    (_, at) => `u${at}@example.org:\n${at > last ? '550 5.1.1 no' : 'full'}`,
  )
  const { recipients } = readBounceText(named.join('\n'), '')
  expect(recipients).toHaveLength(limits.reportRecipientsMax)
  expect(recipients.at(-1)).toMatchObject({ recipient: `u${last}@example.org` })
  expect(recipients.at(-1)?.text).not.toContain('5.1.1')
})
