// What the sandbox reports reaches the bounce mailbox also when that is not there yet, and never keeps a stop waiting.
import { afterEach, expect, test } from 'vitest'
import { silentLog } from '../base/log.ts'
import { openOffer } from '../smtp/policy.ts'
import { replies, type Reply } from '../smtp/reply.ts'
import { smtpServer, type SmtpServer } from '../smtp/server.ts'
import { makeHandOver, type HandOver } from './hand-over.ts'

const stops: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop()
})

const later: Reply = { code: 451, enhanced: '4.3.0', text: 'Not now' }
const never: Reply = { code: 550, enhanced: '5.1.1', text: 'Never' }

/** A mailbox that answers like this, one after the other, and hears what it was given. */
async function mailbox(
  answers: Reply[],
): Promise<{ server: SmtpServer; taken: string[]; whenAnswered: (n: number) => Promise<void> }> {
  const taken: string[] = []
  const waiting: { readonly n: number; readonly resolve: () => void }[] = []
  let answered = 0
  const server = smtpServer({
    name: 'mailbox',
    host: '127.0.0.1',
    port: 0,
    offer: openOffer('node.test', false),
    policy: () => ({
      mail: () => replies.senderOk,
      rcpt: () => replies.recipientOk,
      message: (pieces, envelope) => {
        const answer = answers[answered++] ?? replies.ok
        if (answer.code < 400)
          taken.push(`${envelope.from} ${envelope.recipients.join()} ${Buffer.concat(pieces).toString()}`)
        for (const { n, resolve } of waiting) if (answered >= n) resolve()
        return answer
      },
    }),
    log: silentLog,
  })
  await server.start()
  stops.push(() => server.stop())
  return {
    server,
    taken,
    whenAnswered: (n) => new Promise((resolve) => (answered >= n ? resolve() : waiting.push({ n, resolve }))),
  }
}

async function handOverTo(port: number, firstDelayMs = 1): Promise<HandOver> {
  const made = makeHandOver({
    host: '127.0.0.1',
    port,
    hostname: 'sandbox.test',
    timeoutScale: 10,
    firstDelayMs,
    log: silentLog,
  })
  await made.service.start()
  stops.push(() => made.service.stop())
  return made
}

const mail = { from: '', to: 'batoken@localhost', content: Buffer.from('Subject: report\r\n\r\n') }

test('is tried again while the mailbox says later, and handed over once', async () => {
  const { server, taken, whenAnswered } = await mailbox([later, later])
  const reports = await handOverTo(server.port())
  reports.give(mail)
  await whenAnswered(3)
  expect(taken).toEqual([' batoken@localhost Subject: report\r\n\r\n'])
})

test('is not tried again after a no', async () => {
  const { server, taken, whenAnswered } = await mailbox([never])
  const reports = await handOverTo(server.port())
  reports.give(mail)
  await whenAnswered(1)
  reports.give({ ...mail, to: 'other@localhost' })
  await whenAnswered(2)
  expect(taken).toEqual([' other@localhost Subject: report\r\n\r\n'])
})

test('a stop lets go of what waits', async () => {
  const { server, taken } = await mailbox([])
  const reports = await handOverTo(server.port(), 60_000)
  reports.give(mail)
  await reports.service.stop()
  reports.give(mail)
  expect(taken).toEqual([])
})
