import { createTransport } from 'nodemailer'
import { afterEach, describe, expect, test } from 'vitest'
import { silentLog } from '../base/log.ts'
import type { Service } from '../base/service.ts'
import { survivesItsLife } from '../base/service.test-kit.ts'
import { parseDialogue, play } from '../../test/dialogues/dialogue.ts'
import { limits } from '../config.ts'
import { composeMail, headerBlock } from '../mail/compose.ts'
import { sandboxServer, type SandboxMail, type SandboxOptions } from './sandbox.ts'
import type { SmtpServer } from './server.ts'
import type { ReportMail } from './simulator-reports.ts'
import { behaviourOf } from './simulator.ts'

const running: SmtpServer[] = []
afterEach(async () => {
  for (const server of running.splice(0)) await server.stop()
})

async function sandbox(options: Partial<SandboxOptions> = {}) {
  const kept: SandboxMail[] = []
  const keep = async (mail: SandboxMail) => void kept.push(mail)
  const server = sandboxServer({ keep, log: silentLog, ...options })
  await server.start()
  running.push(server)
  const follows = (text: string) =>
    play(parseDialogue(text), { port: server.port(), ca: '', taken: [], bytewise: false })
  return { server, kept, follows, keptFor: () => kept.map(({ recipient }) => recipient) }
}

/** A conversation about one mail, up to the final dot. */
const mailTo = (recipients: readonly string[], header = 'Message-ID: <1@x>') => `
S: 220 *
C: HELO c
S: 250 *
C: MAIL FROM:<a@example.com>
S: 250 *
${recipients.map((recipient) => `C: RCPT TO:<${recipient}>\nS: 250 *\n`).join('')}C: DATA
S: 354 *
C: ${header}
C:
C: text
C: .
`

survivesItsLife(
  'sandbox',
  async () => sandboxServer({ keep: async () => undefined, log: silentLog }),
  async (service: Service) => {
    const port = (service as SmtpServer).port()
    await play(parseDialogue('S: 220 *\nC: QUIT\nS: 221 *\nX:'), { port, ca: '', taken: [], bytewise: false })
  },
)

test('a real client sends to any domain, and finds the queue id in the reply', async () => {
  const { server, kept } = await sandbox()
  const transport = createTransport({ host: '127.0.0.1', port: server.port() })
  const text = 'Grüße\n.\n..und mehr'
  const info = await transport.sendMail({
    from: 'a@example.com',
    to: 'b@example.org, c@example.net',
    subject: 'Hallo',
    text,
  })
  transport.close()
  expect(kept.map(({ recipient }) => recipient)).toEqual(['b@example.org', 'c@example.net'])
  const [mail] = kept
  expect(mail?.envelopeFrom).toBe('a@example.com')
  expect(mail?.content.toString()).toContain('\r\n\r\nGr=C3=BC=C3=9Fe\r\n.\r\n..und mehr')
  expect(info.response).toBe(`250 2.0.0 Ok: queued as ${mail?.queueId}`)
  expect(new Set(kept.map(({ queueId }) => queueId)).size).toBe(1)
})

test('the 250 follows the keeping: nothing is said before, and 451 when it fails', async () => {
  let release = () => undefined as void
  const keeping = new Promise<void>((resolve) => (release = resolve))
  let asked = () => undefined as void
  const wasAsked = new Promise<void>((resolve) => (asked = resolve))
  const slow = await sandbox({
    keep: () => {
      asked()
      return keeping
    },
  })
  let answered = false
  const conversation = slow
    .follows(`${mailTo(['b@example.org'])}S: 250 2.0.0 Ok: queued as *`)
    .then(() => (answered = true))
  await wasAsked
  expect(answered).toBe(false)
  release()
  await conversation

  const broken = await sandbox({ keep: () => Promise.reject(new Error('no database')) })
  await broken.follows(`${mailTo(['b@example.org'])}S: 451 4.3.0 *`)
})

const greeting = `
S: 220 *
C: EHLO c
S: 250-sandbox.simulator.posthorn.test
S: 250-PIPELINING
S: 250-SIZE *
S: 250-8BITMIME
S: 250-ENHANCEDSTATUSCODES
S: 250-SMTPUTF8
S: 250 CHUNKING
`

test('the largest mail that can be accepted finds room', async () => {
  const { fields, body } = composeMail({
    messageId: '0192f0c1-0000-7000-8000-000000000000',
    hostname: 'node.test',
    from: { address: 'a@example.com' },
    to: 'b@example.org',
    subject: 'Large',
    bodyText: 'ü'.repeat(limits.bodyTextBytesMax / 2),
    attachments: [{ filename: 'a', contentType: 'application/pdf', bytes: Buffer.alloc(limits.attachmentsBytesMax) }],
    createdAt: new Date(),
  })
  const { follows } = await sandbox()
  // Trace and signature come on top.
  const sizeBytes = headerBlock(fields).length + body.length + 10_000
  await follows(`${greeting}C: MAIL FROM:<a@example.com> SIZE=${sizeBytes}\nS: 250 *`)
})

describe('the simulator', () => {
  test.each([
    ['delivered@simulator.posthorn.test', 'delivered'],
    ['Hard-Bounce+label@SIMULATOR.posthorn.test', 'hard-bounce'],
    ['nobody@simulator.posthorn.test', undefined],
    ['constructor@simulator.posthorn.test', undefined],
    ['hard-bounce@example.com', 'delivered'],
    ['postmaster', 'delivered'],
  ])('%s: %s', (recipient, behaviour) => {
    expect(behaviourOf(recipient)).toBe(behaviour)
  })

  test.each(['delivered', 'delivered+x', 'late-bounce', 'complaint'])('%s@ accepts', async (name) => {
    const { follows, keptFor } = await sandbox()
    await follows(`${mailTo([`${name}@simulator.posthorn.test`])}S: 250 2.0.0 *`)
    expect(keptFor()).toEqual([`${name}@simulator.posthorn.test`])
  })

  test.each(['late-bounce', 'complaint'])(
    '%s@ reports the recipient as it was written, in whatever script',
    async (name) => {
      const reports: ReportMail[] = []
      const { follows } = await sandbox({ report: (mail) => void reports.push(mail) })
      const recipient = `${name}+Ċж@simulator.posthorn.test`
      await follows(`${greeting}C: MAIL FROM:<a@example.com> SMTPUTF8
C: RCPT TO:<${recipient}>
C: DATA
S: 250 *
S: 250 *
S: 354 *
C: Subject: Hello
C:
C: text
C: .
S: 250 2.0.0 *`)
      const content = reports[0]?.content.toString() ?? ''
      expect(content).toContain(`<${recipient}>`)
      expect(content.replaceAll('\r\n', '')).not.toMatch(/[\r\n]/)
    },
  )

  test('hard-bounce@, policy@ and unknown names are refused at RCPT', async () => {
    const { follows, kept } = await sandbox()
    await follows(`
S: 220 *
C: HELO c
C: MAIL FROM:<>
C: RCPT TO:<hard-bounce+1@simulator.posthorn.test>
C: RCPT TO:<policy@simulator.posthorn.test>
C: RCPT TO:<nobody@simulator.posthorn.test>
C: DATA
S: 250 *
S: 250 *
S: 550 5.1.1 *
S: 550 5.7.1 *
S: 550 5.1.1 *
S: 554 *`)
    expect(kept).toEqual([])
  })

  test('deferred@ defers each message twice, over whatever connections, then accepts it', async () => {
    const { follows, keptFor } = await sandbox()
    const to = ['deferred+a@simulator.posthorn.test']
    const other = 'message-id:\n C: <2@x>'.replace('\n C: ', '\nC:  ')
    for (const reply of ['451 4.7.1 *', '451 4.7.1 *'])
      for (const header of ['Message-ID: <1@x>', other]) await follows(`${mailTo(to, header)}S: ${reply}`)
    expect(keptFor()).toEqual([])
    for (const header of ['Message-ID: <1@x>', other]) await follows(`${mailTo(to, header)}S: 250 *`)
    expect(keptFor()).toEqual([...to, ...to])
  })

  test('unknown@ takes the final dot, keeps the mail, and drops the connection without a reply', async () => {
    const { follows, keptFor } = await sandbox()
    await follows(`${mailTo(['unknown@simulator.posthorn.test'])}X:`)
    expect(keptFor()).toEqual(['unknown@simulator.posthorn.test'])
  })

  test('slow@ lets its sender wait and then accepts', async () => {
    const quick = await sandbox({ slowMs: 30 })
    const begin = performance.now()
    await quick.follows(`${mailTo(['slow@simulator.posthorn.test'])}S: 250 *`)
    expect(performance.now() - begin).toBeGreaterThanOrEqual(29)
    expect(quick.kept).toHaveLength(1)
  })

  test('nobody else waits for slow@, nor does a stop; and what was not answered was not kept', async () => {
    const { follows, kept, server } = await sandbox({ slowMs: 60_000, stopMs: 20 })
    const waiting = follows(`${mailTo(['slow@simulator.posthorn.test'])}S: 250 *`)
    const lost = expect(waiting).rejects.toThrow()
    await follows(`${mailTo(['delivered@simulator.posthorn.test'])}S: 250 *`)
    await server.stop()
    await lost
    expect(kept.map(({ recipient }) => recipient)).toEqual(['delivered@simulator.posthorn.test'])
  })
})
