// An SMTP client knows its envelope and its mail, and no field of the REST API: what acceptance refuses is told in those words.
import { afterAll, expect, test } from 'vitest'
import { makeAcceptMail } from '../accept/accept.ts'
import { acceptTools, patientScanner } from '../accept/accept.test-kit.ts'
import { isRefusal, refusalCodes, refuse } from '../domain/refusal.ts'
import type { MailSubmission } from '../domain/submission.ts'
import { parseAddress, type EmailAddress } from '../mail/address.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { replyTo } from './refusals.ts'

const scanner = patientScanner()
const world = await storeWorld()
afterAll(() => scanner.stop())

async function answerTo(changes: Partial<MailSubmission>): Promise<string> {
  const { workspaceId, mailboxId } = await world.sender()
  const answer = await makeAcceptMail(acceptTools(world, { scanner }))({
    workspaceId,
    mailboxId,
    recipients: [parseAddress('anna@receiver.test') as EmailAddress],
    scanned: Buffer.from('Hello\r\n'),
    content: Buffer.from('From: post@w.example\r\nDate: x\r\nMessage-ID: <a@b>\r\n\r\nHello\r\n'),
    lacks: [],
    senderDomain: 'w.example',
    subject: '',
    until: performance.now() + 600_000,
    ...changes,
  })
  if (!isRefusal(answer)) return 'accepted'
  const { code, enhanced, text } = replyTo(answer)
  return `${code} ${enhanced} ${text}`
}

test('a mailbox that was removed while its mail was handed in is told as a sender', async () => {
  const { mailboxId } = await world.sender()
  expect(await answerTo({ mailboxId })).toBe(
    '550 5.7.1 mailbox_not_active: This sender is not an active mailbox of your workspace on a verified domain; MAIL FROM and the From of the mail must both be one.',
  )
})

test('a return path takes reports only, as over REST', async () => {
  const recipients = [parseAddress(`ba${'a'.repeat(42)}@bounces.w.example`) as EmailAddress]
  expect(await answerTo({ recipients })).toBe(
    '550 5.6.0 invalid_request: The recipient is a return path, which takes reports only.',
  )
})

test('an idempotency key is the field that the client has written', () => {
  const codes = refusalCodes.filter((code) => code.startsWith('idempotency'))
  expect(codes).toHaveLength(2)
  for (const code of codes)
    expect(replyTo(refuse(code, 'This Idempotency-Key')).text).toMatch(/^\w+: .*X-Idempotency-Key/)
})
