// TCP keeps no boundaries: a server whose every byte comes alone, in clear text and under TLS, is understood as one whose replies come whole.
// The same scripts are played both ways to the whole client, kept connections included, and everything that is known afterwards is compared.
import { describe, expect, test } from 'vitest'
import { certificateFor } from '../../test/world/certificates.ts'
import { startScriptedServer, type Step } from '../../test/world/scripted-server.ts'
import { parseRoute } from '../config.ts'
import { outcomeOf } from './outcome.ts'
import { content, mailOf } from './peer.test-kit.ts'
import { makeTransmitter, type Transmitter, type TransmitResult } from './transmit.ts'

const certificate = certificateFor()
const login = Buffer.from('\0me\0pw').toString('base64')
const greeting: Step = { send: '220-relay.test ESMTP\r\n220 at your service\r\n' }
const hello = (...offers: string[]): Step[] => {
  const lines = ['relay.test', ...offers]
  const text = lines.map((line, at) => `250${at === lines.length - 1 ? ' ' : '-'}${line}\r\n`).join('')
  return [{ expect: 'EHLO out.sender.test' }, { send: text }]
}
const authenticated: Step[] = [{ expect: `AUTH PLAIN ${login}` }, { send: '235-2.7.0 you\r\n235 2.7.0 are in\r\n' }]
const startTls: Step[] = [{ expect: 'STARTTLS' }, { send: '220-2.0.0 go\r\n220 2.0.0 ahead\r\n' }, { tls: certificate }]
const plain: Step[] = [greeting, ...hello('PIPELINING', 'SIZE 1000000', 'AUTH LOGIN PLAIN'), ...authenticated]
const encrypted: Step[] = [
  greeting,
  ...hello('PIPELINING', 'STARTTLS'),
  ...startTls,
  ...hello('SIZE 1000000', 'PIPELINING', 'AUTH PLAIN', '8BITMIME'),
  ...authenticated,
]

const polite = {
  mail: '250-2.1.0 a sender\r\n250 2.1.0 ok\r\n',
  rcpt: '250-2.1.5 a recipient\r\n250 2.1.5 ok\r\n',
  data: '354-go\r\n354 on\r\n',
  dot: '250-2.0.0 thank you\r\n250 2.0.0 Ok: queued as ABC123\r\n',
}
const commands: readonly Step[] = [
  { expect: 'MAIL FROM:<b1abc@bounce.sender.test>*' },
  { expect: 'RCPT TO:<someone@receiver.test>*' },
  { expect: 'DATA' },
]
/** Three commands at once, and their replies at once; content only behind a 354. */
const mail = (changes: Partial<typeof polite> = {}): Step[] => {
  const said = { ...polite, ...changes }
  const end: Step[] = said.data.startsWith('354') ? [{ expectData: true }, { send: said.dot }] : []
  return [...commands, { send: said.mail + said.rcpt + said.data }, ...end]
}
const again: Step[] = [{ expect: 'RSET' }, { send: '250-2.0.0 clean\r\n250 2.0.0 again\r\n' }, ...mail()]

const greylisted = { rcpt: '450-4.2.0 not\r\n450 4.2.0 yet\r\n', data: '503 5.5.1 no recipient\r\n' }
const unknownUser = { rcpt: '550-5.1.1 no such\r\n550 5.1.1 user\r\n' }
const oneByOne = commands.flatMap((command, at) => [
  command,
  { send: [polite.mail, polite.rcpt, polite.data][at] ?? '' },
])

interface Story {
  /** How the relay is spoken to. */
  readonly route?: (port: number) => string
  /** What each connection plays. The next one is made when the one before is gone. */
  readonly scripts: readonly (readonly Step[])[]
  /** What becomes of one mail after the other. */
  readonly ends: readonly string[]
}

const stories: Record<string, Story> = {
  'STARTTLS, a login, and two mails over one connection': {
    scripts: [[...encrypted, ...mail(), ...mail()]],
    ends: ['accepted', 'accepted'],
  },
  'TLS from the first byte': {
    route: (port) => `smtps://me:pw@127.0.0.1:${port}`,
    scripts: [[{ tls: certificate }, ...plain, ...mail(), ...mail()]],
    ends: ['accepted', 'accepted'],
  },
  'clear text': { scripts: [[...plain, ...mail(), ...mail()]], ends: ['accepted', 'accepted'] },
  'AUTH LOGIN, which takes three steps': {
    scripts: [
      [
        greeting,
        ...hello('PIPELINING', 'AUTH LOGIN'),
        { expect: 'AUTH LOGIN' },
        { send: '334 VXNlcm5hbWU6\r\n' },
        { expect: Buffer.from('me').toString('base64') },
        { send: '334 UGFzc3dvcmQ6\r\n' },
        { expect: Buffer.from('pw').toString('base64') },
        { send: '235 2.7.0 welcome\r\n' },
        ...mail(),
      ],
    ],
    ends: ['accepted'],
  },
  'a login that is refused': {
    scripts: [
      [...plain.slice(0, -1), { send: '535-5.7.8 not\r\n535 5.7.8 you\r\n' }],
      [...plain, ...mail()],
    ],
    ends: ['retry auth', 'accepted'],
  },
  'no EHLO': {
    route: (port) => `smtp://127.0.0.1:${port}`,
    scripts: [
      [
        greeting,
        { expect: 'EHLO *' },
        { send: '502-5.5.2 what\r\n502 5.5.2 what\r\n' },
        { expect: 'HELO out.sender.test' },
        { send: '250-relay.test\r\n250 hello\r\n' },
        ...oneByOne,
        { expectData: true },
        { send: polite.dot },
      ],
    ],
    ends: ['accepted'],
  },
  'one command at a time': {
    scripts: [
      [greeting, ...hello('AUTH PLAIN'), ...authenticated, ...oneByOne, { expectData: true }, { send: polite.dot }],
    ],
    ends: ['accepted'],
  },
  '450 to RCPT, and the next mail': { scripts: [[...plain, ...mail(greylisted), ...again]], ends: ['retry rcpt_4xx', 'accepted'] }, // prettier-ignore
  '450 to RCPT under TLS, and the next mail': { scripts: [[...encrypted, ...mail(greylisted), ...again]], ends: ['retry rcpt_4xx', 'accepted'] }, // prettier-ignore
  '550 to RCPT, and the next mail': {
    scripts: [[...plain, ...mail({ ...unknownUser, data: greylisted.data }), ...again]],
    ends: ['failed rcpt_5xx', 'accepted'],
  },
  '550 to RCPT, yet 354 to DATA: no content, and another connection': {
    scripts: [
      [...plain, ...commands, { send: polite.mail + unknownUser.rcpt + polite.data }],
      [...plain, ...mail()],
    ],
    ends: ['failed rcpt_5xx', 'accepted'],
  },
  '421 to MAIL': {
    scripts: [[...plain, ...commands, { send: '421-4.3.2 good\r\n421 4.3.2 bye\r\n' }, 'close']],
    ends: ['retry mail_4xx'],
  },
  '452 to the dot, and the next mail': {
    scripts: [[...plain, ...mail({ dot: '452-4.3.1 no\r\n452 4.3.1 room\r\n' }), ...mail()]],
    ends: ['retry eod_4xx', 'accepted'],
  },
  '550 to the dot, and the next mail': {
    scripts: [[...encrypted, ...mail({ dot: '550-5.7.1 not\r\n550 5.7.1 this\r\n' }), ...mail()]],
    ends: ['failed eod_5xx', 'accepted'],
  },
  'two codes to the dot': {
    scripts: [
      [...plain, ...mail({ dot: '250-2.0.0 ok\r\n451 4.3.0 no\r\n' })],
      [...plain, ...mail()],
    ],
    ends: ['unknown eod_malformed', 'accepted'],
  },
  'half an answer to the dot, and the end': {
    scripts: [
      [...plain, ...mail({ dot: '250-2.0.0 queued\r\n250 2.0.0 as AB' }), 'close'],
      [...plain, ...mail()],
    ],
    ends: ['unknown eod_closed', 'accepted'],
  },
  'a goodbye behind the answer to the dot': {
    scripts: [
      [...plain, ...mail({ dot: `${polite.dot}421 4.4.2 bye\r\n` }), 'close'],
      [...plain, ...mail()],
    ],
    ends: ['accepted', 'accepted'],
  },
}

/** Everything that is known of a story afterwards, on both sides. */
async function play({ route, scripts, ends }: Story, splitEveryByte: boolean) {
  const server = await startScriptedServer(scripts, { splitEveryByte })
  const transmitter = await transmitterOf()
  const results: TransmitResult[] = []
  for (const at of ends.keys()) {
    if (at > 0 && scripts.length > 1) await server.played(at)
    const result = await send(transmitter, route?.(server.port) ?? `smtp://me:pw@127.0.0.1:${server.port}`)
    results.push({ ...result, ...(result.provider !== undefined && { provider: 'the relay' }) }) // its port is another
  }
  await transmitter.service.stop()
  await server.played(server.transcripts.length)
  await server.stop()
  return { results, transcripts: server.transcripts }
}

async function transmitterOf(): Promise<Transmitter> {
  const transmitter = makeTransmitter({
    hostname: 'out.sender.test',
    timeoutScale: 1,
    mxPort: 25,
    sandboxPort: () => 9,
    dnsServers: [],
    allowPrivateMx: true,
  })
  await transmitter.service.start()
  return transmitter
}

const send = (transmitter: Transmitter, route: string): Promise<TransmitResult> =>
  transmitter.transmit(Object.assign(mailOf(), { route: parseRoute(route) }))

const kind = (result: TransmitResult) => {
  const outcome = outcomeOf(result, 'relay')
  return 'reason' in outcome ? `${outcome.kind} ${outcome.reason}` : outcome.kind
}

describe.concurrent('whole or byte by byte, a conversation ends the same way', () => {
  test.each(Object.entries(stories))('%s', async (_, story) => {
    const [whole, split] = await Promise.all([play(story, false), play(story, true)])
    expect(whole.results.map(kind)).toEqual(story.ends)
    for (const transcript of whole.transcripts)
      for (const line of transcript.filter((each) => each.startsWith('D: ')))
        expect(line).toBe(`D: ${content.replace('\r\n.', '\r\n..')}.\r\n`)
    expect(split).toEqual(whole)
  })

  test('a word behind the 220 to STARTTLS, in clear text: no mail goes that way, whenever it comes', async () => {
    const injected: Step[] = [greeting, ...hello('STARTTLS'), { expect: 'STARTTLS' }, { send: '220 go\r\n250 in\r\n' }]
    for (const splitEveryByte of [false, true]) {
      const [server, transmitter] = [await startScriptedServer([injected], { splitEveryByte }), await transmitterOf()]
      const result = await send(transmitter, `smtp://me:pw@127.0.0.1:${server.port}?tls=required`)
      expect(kind(result)).toBe('retry tls')
      const heard = server.transcripts.flat().filter((line) => line.startsWith('C: '))
      expect(heard).toEqual(['C: EHLO out.sender.test', 'C: STARTTLS'])
      await transmitter.service.stop()
      await server.stop()
    }
  })
})
