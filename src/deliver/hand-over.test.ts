// What the sandbox reports reaches the bounce mailbox also when that is not there yet, and never keeps a stop waiting.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { afterEach, expect, test, vi } from 'vitest'
import { silentLog, type Log } from '../base/log.ts'
import { limits } from '../config.ts'
import { openOffer } from '../smtp/policy.ts'
import { replies, type Reply } from '../smtp/reply.ts'
import { smtpServer, type SmtpServer } from '../smtp/server.ts'
import { allowedFiles } from './few-files.test-kit.ts'
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
  port = 0,
): Promise<{ server: SmtpServer; taken: string[]; whenAnswered: (n: number) => Promise<void> }> {
  const taken: string[] = []
  const waiting: { readonly n: number; readonly resolve: () => void }[] = []
  let answered = 0
  const server = smtpServer({
    name: 'mailbox',
    host: '127.0.0.1',
    port,
    offer: openOffer('node.test', false),
    policy: () => ({
      mail: () => replies.senderOk,
      rcpt: () => replies.recipientOk,
      message: (content, envelope) => {
        const answer = answers[answered++] ?? replies.ok
        if (answer.code < 400) taken.push(`${envelope.from} ${envelope.recipients.join()} ${content.toString()}`)
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

async function handOverTo(port: number, firstDelayMs = 1, log: Log = silentLog): Promise<HandOver> {
  const made = makeHandOver({
    host: '127.0.0.1',
    port,
    hostname: 'sandbox.test',
    timeoutScale: 10,
    firstDelayMs,
    log,
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

/** The next connection that anybody here asks for, whatever becomes of it. */
async function nextSocketClosed(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<Socket>()
  const asked = (message: unknown) => resolve((message as { socket: Socket }).socket)
  subscribe('net.client.socket', asked)
  const socket = await promise
  unsubscribe('net.client.socket', asked)
  if (!socket.closed) await new Promise<void>((closed) => void socket.once('close', () => closed()))
}

test('is tried again where this process may open no more files, and nothing else ends by it', async () => {
  const { server, taken, whenAnswered } = await mailbox([])
  const unheeded: unknown[] = []
  const note = (why: unknown) => void unheeded.push(why)
  process.on('unhandledRejection', note)
  const files = allowedFiles()
  stops.push(() => files.end())
  const reports = await handOverTo(server.port(), 200)
  await files.allow('10')
  const refused = nextSocketClosed()
  reports.give(mail)
  await refused
  await files.allow('')
  process.off('unhandledRejection', note)
  expect(unheeded).toEqual([])
  await whenAnswered(1)
  expect(taken).toHaveLength(1)
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

test('a stop ends what is under way with a mailbox that says nothing, and a start begins anew', async () => {
  const silent = createServer()
  await once(silent.listen(0, '127.0.0.1'), 'listening')
  const { port } = silent.address() as AddressInfo
  const reports = await handOverTo(port)
  const connected = once(silent, 'connection') as Promise<[Socket]>
  reports.give(mail)
  const [socket] = await connected
  const closed = once(socket, 'close')
  socket.resume()
  await reports.service.stop()
  await closed
  await new Promise((resolve) => silent.close(resolve))

  const { taken, whenAnswered } = await mailbox([], port)
  await reports.service.start()
  reports.give(mail)
  await whenAnswered(1)
  expect(taken).toHaveLength(1)
})

test('no more is held than fits, and after a stop nothing', async () => {
  const reports = await handOverTo(1, 60_000)
  vi.useFakeTimers()
  stops.push(() => Promise.resolve(void vi.useRealTimers()))
  for (let i = 0; i < limits.simulatorReportsMax + 5; i++) reports.give(mail)
  expect(vi.getTimerCount()).toBe(limits.simulatorReportsMax)
  await reports.service.stop()
  expect(vi.getTimerCount()).toBe(0)
  await reports.service.start()
  reports.give(mail)
  expect(vi.getTimerCount()).toBe(1)
})

test('the operator hears what could not be handed over, and why', async () => {
  const told = Promise.withResolvers<unknown>()
  const { server } = await mailbox([never])
  const reports = await handOverTo(server.port(), 1, { ...silentLog, fault: (_what, error) => told.resolve(error) })
  reports.give(mail)
  expect(await told.promise).toMatchObject({ message: 'eod: 550 5.1.1 Never' })
})
