// Every dialogue of this folder, over a real socket: as it is written, with a server that takes its time over each decision,
// and with every byte from the client in a packet of its own. `dialogue.ts` explains the form.
import { readdirSync, readFileSync } from 'node:fs'
import { describe, test } from 'vitest'
import { silentLog } from '../../src/base/log.ts'
import type { Policy } from '../../src/smtp/policy.ts'
import { replies, type Answer } from '../../src/smtp/reply.ts'
import { smtpServer } from '../../src/smtp/server.ts'
import { certificateFor } from '../world/certificates.ts'
import { parseDialogue, play, type Dialogue } from './dialogue.ts'

const folder = new URL('./', import.meta.url)
const files = readdirSync(folder).filter((name) => name.endsWith('.txt'))

describe.each(files)('%s', (file) => {
  const dialogue = parseDialogue(readFileSync(new URL(file, folder), 'utf8'))
  const manners = [
    ['as written', { slow: false, bytewise: false }],
    ['with decisions that take time', { slow: true, bytewise: false }],
    ['byte by byte', { slow: true, bytewise: true }],
  ] as const
  test.each(manners.filter(([, { bytewise }]) => !(bytewise && dialogue.settings.has('one-packet'))))(
    '%s',
    async (_, { slow, bytewise }) => {
      const { ca, ...tls } = certificateFor()
      const taken: string[] = []
      const server = smtpServer({
        name: 'dialogue',
        host: '127.0.0.1',
        port: 0,
        ...shape(dialogue),
        policy: () => welcoming(taken, slow),
        tls,
        log: silentLog,
      })
      await server.start()
      try {
        await play(dialogue, { port: server.port(), ca, taken, bytewise })
      } finally {
        await server.stop()
      }
    },
  )
})

/** A server as the dialogue's `# with:` wants it. */
function shape({ settings }: Dialogue) {
  const number = (name: string, usual: number) => Number(settings.get(name) ?? usual)
  return {
    offer: {
      hostname: 'mx.test',
      startTls: settings.has('starttls'),
      auth: settings.has('auth') ? (settings.has('starttls') ? 'after_tls' : 'always') : 'never',
      mailNeeds: { tls: settings.has('needs-tls'), auth: settings.has('auth') },
      chunking: !settings.has('no-chunking'),
      smtputf8: !settings.has('no-smtputf8'),
    },
    limits: {
      messageBytesMax: number('size', 10_000),
      commandBytesMax: number('command', 512),
      recipientsMax: number('recipients', 100),
      errorsMax: number('errors', 20),
    },
  } as const
}

/** Takes everything but `refused@`, and lets in `user` with `secret`. */
function welcoming(taken: string[], slow: boolean): Policy {
  const answer = (reply: Answer) =>
    slow ? new Promise<Answer>((resolve) => setImmediate(() => resolve(reply))) : reply
  return {
    auth: (user, password) =>
      answer(
        user === 'user' && password === 'secret'
          ? { code: 235, enhanced: '2.7.0', text: 'Welcome' }
          : replies.authRefused,
      ),
    mail: (from) =>
      answer(from.startsWith('refused@') ? { code: 550, enhanced: '5.7.1', text: 'Sender refused' } : replies.senderOk),
    rcpt: (recipient) =>
      answer(
        recipient.startsWith('refused@') ? { code: 550, enhanced: '5.1.1', text: 'No such user' } : replies.recipientOk,
      ),
    message: (content, { from, recipients }) => {
      taken.push(`${from} > ${recipients.join(', ')} = ${content.toString('latin1')}`)
      return answer({ code: 250, enhanced: '2.0.0', text: `Ok: queued as ${taken.length}` })
    },
  }
}
