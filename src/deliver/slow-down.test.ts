// The wording table: who asks for what. The replies are what servers say, as their operators and senders publish them.
import { expect, test } from 'vitest'
import type { Phase } from '../domain/attempt.ts'
import { slowDownAskedBy, waitSaid } from './slow-down.ts'

const said = (reply: string, phase: Phase = 'rcpt') => {
  const [, code, enhancedCode, text] = /^(\d{3}) (?:(\d\.\d+\.\d+) )?(.*)$/.exec(reply) ?? []
  const parts = { code: Number(code), text: `${enhancedCode ?? ''} ${text}`.trim() }
  return slowDownAskedBy({ phase, reply: { ...parts, ...(enhancedCode !== undefined && { enhancedCode }) } })
}

test.each([
  ['421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume', 'destination'],
  ['421 4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from your IP address', 'destination'],
  ['421 RP-001 (BAY004) The mail server IP connecting has exceeded the rate limit allowed', 'destination'],
  ['421 4.1.0 192.0.2.1 Throttled - try again later. Please see RL000001', 'destination'],
  ['421 4.2.2 This mailbox is full', 'message'],
  ['451 4.7.500 Server busy. Please try again later from [192.0.2.1]', 'destination'],
  ['451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation', 'destination'],
  // Gmail, since its rules of 2024 (support.google.com/a/answer/3726730): about a domain, and not about whoever else sends from here.
  ['421 4.7.26 This mail has been rate limited because it is unauthenticated', 'sender'],
  ['421 4.7.27 This mail has been rate limited because SPF does not pass', 'sender'],
  ['421 4.7.30 This mail has been rate limited because DKIM does not pass', 'sender'],
  [
    "421 4.7.32 Your email has been rate limited because the From: header (RFC5322) in this message isn't aligned",
    'sender',
  ],
  ['421 4.7.40 This mail has been rate limited because the sending domain has no DMARC record', 'sender'],
  ['421 4.7.0 [192.0.2.1] This message is suspicious due to the very low reputation of the sending domain', 'sender'],
  [
    '421 4.7.0 [192.0.2.1] This message is suspicious due to the nature of the content and/or the links within',
    'sender',
  ],
  [
    '421 4.7.28 Gmail has detected an unusual rate of unsolicited email originating from your DKIM domain [a.test 36]',
    'sender',
  ],
  [
    '421 4.7.28 Gmail has detected an unusual rate of unsolicited email originating from your SPF domain [a.test 36]',
    'sender',
  ],
  ['421 4.7.28 Gmail has detected an unusual rate of unsolicited email containing one of your URL domains', 'sender'],
  [
    '421 4.7.28 Gmail has detected an unusual rate of unsolicited email originating from your IP Netblock',
    'destination',
  ],
  [
    '421 4.7.0 [192.0.2.1] This message is suspicious due to the very low reputation of the sending IP address',
    'destination',
  ],
  ['451 4.7.23 The sending IP address for this message has no PTR record', 'destination'],
  ['421 4.7.1 Messages to ada@icloud.com deferred due to excessive volume. Try again later', 'message'],
  [
    '451 4.7.0 Temporary server error. Please try again later. PRX4 NextHop: mail.example.com [x.outlook.com]',
    'message',
  ],
  ['450 4.7.3 Organization queue quota exceeded. [outlook.com]', 'message'],
  // Postfix: which party it was about stands in the words (smtpd_check.c), and a domain whose MX is somebody else's host gets the fourth by default.
  ['450 4.7.1 <mail.posthorn.test>: Helo command rejected: Host not found', 'destination'],
  ['450 4.7.1 Client host rejected: cannot find your reverse hostname, [192.0.2.1]', 'destination'],
  ['450 4.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org', 'destination'],
  ['454 4.7.1 <ada@example.com>: Relay access denied', 'message'],
  ['450 4.7.1 <ada@example.com>: Recipient address rejected: Policy Rejection- Please try later.', 'message'],
  [
    '451 4.7.1 <ada@example.com>: Recipient address rejected: Intentional policy rejection, please try again later',
    'message',
  ],
  ['450 4.7.1 <shop@a.test>: Sender address rejected: Access denied', 'sender'],
  ['450 4.7.1 Service unavailable; Sender address [shop@a.test] blocked using dbl.spamhaus.org', 'sender'],
  ['451 4.7.1 SPF check of a.test: temporary error in processing during lookup', 'sender'],
  ['451 4.7.0 DMARC temperror, try again later', 'sender'],
  ['452 4.3.2 System not accepting network messages', 'destination'],
  ['451 4.4.5 Try again later', 'destination'],
  ['450 Too many concurrent connections from your address', 'destination'],
  ['421 4.7.0 Too many connections from your host', 'destination'],
  ['450 4.7.1 Greylisted, please come back in 300 seconds', 'message'],
  ['451 4.7.1 Greylisting in action, please come back in 00:04:59', 'message'],
  // Rspamd's greylist says no more than this (modules.d/greylist.conf), to a mail that it has read and half believes.
  ['451 4.7.1 Try again later', 'message'],
  ['451 4.7.1 Service unavailable - try again later', 'destination'],
  ['421 4.7.0 Try again later, closing connection. gsmtp', 'destination'],
  ['450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents delivery', 'message'],
  ['452 4.2.2 Mailbox full', 'message'],
  ['450 4.1.2 Domain not found', 'message'],
  ['451 4.3.0 Temporary lookup failure', 'message'],
  ['550 5.7.1 Too many connections', 'nothing'],
  ['250 2.0.0 ok', 'nothing'],
])('%s: %s', (reply, scope) => {
  expect(said(reply)?.scope ?? 'nothing').toBe(scope)
})

test.each([
  ['try again in 5 minutes', 300_000],
  ['Please retry after 300 seconds.', 300_000],
  ['come back in 00:04:59', 299_000],
  ['wait 30s', 30_000],
  ['Try again in about 2 hours', 7_200_000],
  ['retry-after: 90 sec', 90_000],
  ['wait at least 10 min', 600_000],
  ['try again later', undefined],
  ['in 5 recipients', undefined],
  ['blocked for 100 messages', undefined],
])('"%s" means %s ms', (text, ms) => {
  expect(waitSaid(text)).toBe(ms)
})

test('"too many connections" wants fewer of them', () => {
  expect(said('421 4.7.0 Too many connections from your host', 'greeting')?.fewerConnections).toBe(true)
  expect(said('432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded', 'mail')?.fewerConnections).toBe(true)
  expect(said('421 4.7.0 try again later', 'greeting')?.fewerConnections).toBe(false)
})

test('before there is any mail nothing is about its sender', () => {
  const reply = '421 4.7.0 very low reputation of the sending domain'
  expect([said(reply, 'greeting')?.scope, said(reply, 'mail')?.scope]).toEqual(['destination', 'sender'])
})

test('a refused login is between the relay and us', () => {
  expect(said('421 4.7.0 too many bad logins', 'auth')).toBeUndefined()
})
