// Whom a receiver's operators ask about a mail: the id in its reply.
import { describe, expect, test } from 'vitest'
import { copiedMessageId, providerMessageId } from './queue-id.ts'
import type { SmtpReply } from './smtp-reply.ts'

const reply = (code: number, text = ''): SmtpReply => ({ code, text })

describe('the queue id', () => {
  test.each([
    ['2.0.0 Ok: queued as 4TqXyZ1abc', '4TqXyZ1abc'],
    ['2.0.0 from MTA(smtp:[127.0.0.1]:10025): 250 2.0.0 Ok: queued as 9F2', '9F2'],
    ['OK id=1rABcd-000000001Ab-2xYz', '1rABcd-000000001Ab-2xYz'],
    ['2.0.0 3BPFgHij012345 Message accepted for delivery', '3BPFgHij012345'],
    ['2.0.0 fe1773d8 Message accepted for delivery', 'fe1773d8'],
    ['Message Queued (4BAEFAEF-1848-4860-9A37-E525E9C7EA34.1)', '4BAEFAEF-1848-4860-9A37-E525E9C7EA34.1'],
    ['2.0.0 Message queued with id 3f481c415800015.', '3f481c415800015'],
    ['Ok. 000000006B0884A9.00003787', '000000006B0884A9.00003787'],
    ['2.0.0 OK  1699999999 a1b2-20020a05600c1234.56 - gsmtp', 'a1b2-20020a05600c1234.56'],
    ['2.0.0 OK a1b2-20020a05600c1234.56 - gsmtp', 'a1b2-20020a05600c1234.56'],
    ['2.6.0 <x@y.example> [InternalId=12345678, Hostname=A.B.C] 9 bytes Queued mail for delivery', '12345678'],
    ['ok 1700000000 qp 12345', '12345'],
    ['Ok 0100018bcd123456-ab12cd34-000000', '0100018bcd123456-ab12cd34-000000'],
    ['2.6.0 0196f0aa-0000-7000-8000-000000000000 queued', '0196f0aa-0000-7000-8000-000000000000'],
    ['2.0.0 accepted\nqueued as Z9', 'Z9'],
  ])('%s', (text, id) => {
    expect(providerMessageId(reply(250, text))).toBe(id)
  })

  test.each([
    '',
    'OK',
    '2.0.0 ok dirdel',
    'Message accepted',
    'Message queued',
    'Your message accepted for delivery',
    'OK: queued.',
    '2.0.0 Queued',
    '2.6.0 Queued mail for delivery',
    '2.0.0 Message accepted for delivery',
    'message received',
    'Thank you.',
    'ok that-was-nice-of-you-indeed',
  ])('none in "%s"', (text) => {
    expect(providerMessageId(reply(250, text))).toBeUndefined()
  })

  test('is bounded, visible, and only in a 2yz', () => {
    expect(providerMessageId(reply(250, `queued as ${'x'.repeat(101)}`))).toBeUndefined()
    expect(providerMessageId(reply(250, 'queued as grün'))).toBeUndefined()
    expect(providerMessageId(reply(450, 'queued as X1'))).toBeUndefined()
  })

  test.each([
    '250 2.0.0 Ok: queued as 4TqXyZ1abc',
    '2.0.0 Ok: queued as 4TqXyZ1abc',
    ' 250 2.0.0 OK  1699999999 4TqXyZ1abc - gsmtp ',
    'queued as 4TqXyZ1abc',
    '250-2.0.0 Ok: queued as 4TqXyZ1abc',
  ])('is read out of what somebody copied: %s', (words) => {
    expect(copiedMessageId(words)).toBe('4TqXyZ1abc')
  })

  test.each(['4TqXyZ1abc', 'Your order 4711', 'ann@example.com', '550 5.1.1 No such user', ''])(
    'and not out of other words: %s',
    (words) => {
      expect(copiedMessageId(words)).toBeUndefined()
    },
  )
})
