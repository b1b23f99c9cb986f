// MAIL and RCPT as the next host gets them: what is asked of a server that sends delivery reports (RFC 3461), and of none that does not.
import { describe, expect, test } from 'vitest'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import type { Mail } from './conversation.ts'
import { extensionsOf, mailCommand, noExtensions, rcptCommand } from './extensions.ts'

const mailTo = (recipient: string, success = false): Mail => ({
  recipient: parseAddress(recipient) as EmailAddress,
  envelopeFrom: 'batoken@node.test',
  content: Buffer.from('\r\n'),
  size: 2,
  needs8bit: false,
  needsSmtputf8: false,
  reports: { envelopeId: 'batoken', success },
  arm: () => Promise.resolve('armed'),
  deadline: () => Infinity,
})
const reporting = extensionsOf('mx.there.example\nDSN\nPIPELINING')

describe('a server that sends delivery reports', () => {
  test('gets the token as envelope id, and is asked to return the header alone', () => {
    expect(mailCommand(mailTo('ann@example.org'), reporting)).toBe(
      'MAIL FROM:<batoken@node.test> RET=HDRS ENVID=batoken',
    )
  })

  test.each([
    ['ann@example.org', 'rfc822;ann@example.org'],
    ['a+b=c@example.org', 'rfc822;a+2Bb+3Dc@example.org'],
    ['änne@example.org', 'utf-8;änne@example.org'],
    ['ä+b@example.org', 'utf-8;ä\\x{2B}b@example.org'],
  ])('is asked about failures and delays of %s', (recipient, original) => {
    const { text } = parseAddress(recipient) as EmailAddress
    expect(rcptCommand(mailTo(recipient), reporting)).toBe(`RCPT TO:<${text}> NOTIFY=FAILURE,DELAY ORCPT=${original}`)
  })

  test('that is a relay is asked about successes too', () => {
    expect(rcptCommand(mailTo('ann@example.org', true), reporting)).toContain(' NOTIFY=SUCCESS,FAILURE,DELAY ')
  })
})

test('a server that does not offer them is asked for nothing', () => {
  expect(mailCommand(mailTo('ann@example.org'), noExtensions)).toBe('MAIL FROM:<batoken@node.test>')
  expect(rcptCommand(mailTo('ann@example.org', true), noExtensions)).toBe('RCPT TO:<ann@example.org>')
})
