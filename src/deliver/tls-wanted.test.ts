// Which refusals want TLS. The replies are what servers say.
import { expect, test } from 'vitest'
import { wantsTls } from './tls-wanted.ts'

const wants = (line: string) => {
  const [, code, text = '', enhancedCode] = /^(\d{3}) ((5\.\d+\.\d+)?.*)$/s.exec(line) ?? []
  return wantsTls({ code: Number(code), text, ...(enhancedCode !== undefined && { enhancedCode }) })
}

test.each([
  '530 5.7.0 Must issue a STARTTLS command first',
  '530 Must issue a STARTTLS command first',
  '530 5.7.0 No TLS',
  '538 Not now',
  '523 5.7.10 Encryption Needed',
  '538 5.7.11 Encryption required for requested authentication mechanism',
  '550 5.7.10 Not like this',
  '550 5.7.1 TLS/SSL required',
  '554 5.7.0 Session encryption is required',
  '550 5.7.29 This mail has been sent over an unencrypted connection',
  '503 5.5.1 Must issue STARTTLS first',
  '550 STARTTLS is required to send mail',
  '550 Please use TLSv1.2 or higher',
  '554 mx.tls.example\nunencrypted connections are refused',
  '550 <bob@shop.example>: TLS required for this recipient',
])('it wants TLS: %s', (line) => {
  expect(wants(line)).toBe(true)
})

test.each([
  '550 5.1.1 <encryption@shop.example>: Recipient address rejected: User unknown',
  '550 5.1.1 <bob@tls.example>: Recipient address rejected: User unknown in virtual mailbox table',
  '550 5.1.1 User encryption unknown: TLS is not used, must not be required',
  '550 5.2.1 Mailbox tls is disabled',
  '554 5.6.1 Encrypted mail is not accepted; use clear text only',
  '550 5.4.1 Relay tls.example not required',
  '550 5.7.1 <bob@tls.example>: Relay access denied',
  '550 5.7.1 Rejected, see https://tls.example/encrypt',
  '550 5.7.1 mail-tls refused',
  '530 5.7.0 Authentication required',
  '530 <encrypt@shop.example> is not allowed',
  '550 <tls>: no such user',
  '550 encryption: user unknown',
  '550 5.0.0 unknown user tls',
  '550 User unknown',
  '451 5.7.0 Must issue a STARTTLS command first',
])('it is about something else: %s', (line) => {
  expect(wants(line)).toBe(false)
})
