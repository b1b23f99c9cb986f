// The failure matrix of delivery-semantics, rows 22 to 36, against a server that misbehaves by script.
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { afterAll, describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import type { Facts } from '../domain/attempt.ts'
import { dial } from './connect.ts'
import { Conversation, openConversation } from './conversation.ts'
import type { ArmAnswer } from './arm.ts'
import type { Mail, Manner, Transaction } from './conversation.ts'
import type { Said } from './dialogue.ts'
import { outcomeOf } from './outcome.ts'
import {
  addressOf,
  close,
  content,
  drip,
  encrypt,
  mailOf,
  reset,
  silence,
  startPeer,
  targetOf,
  until,
  withStartTls,
  withoutPipelining,
} from './peer.test-kit.ts'
import type { Act, Armable, Moment, Peer, Script } from './peer.test-kit.ts'
import type { Target } from './route.ts'

const manner = { hostname: 'out.sender.test', timeoutScale: 1 }

/**
 * As patient as we are, so that no busy machine changes what is seen, but where so many exchanges are over: what is waited for behind those, on a connection
 * that stands, does not come, and is not waited for.
 */
function mannerFor(dialogue: readonly Said[], unanswered: number | undefined): Manner {
  let waits = 0
  return {
    ...manner,
    get timeoutScale() {
      return waits++ > 0 && dialogue.length === unanswered ? 10_000 : 1
    },
  }
}

/** As a process that is stopped for so long: it sees and hears nothing, and its time goes on. */
const standStill = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

interface Seen {
  readonly peer: Peer
  readonly end: Transaction | Facts
  readonly dialogue: Said[]
  readonly mail: Armable
  readonly conversation: Conversation | undefined
}

const peers: Peer[] = []
// At the end, not after each: many of these tests wait for time limits, and do so side by side.
afterAll(async () => {
  await Promise.all(peers.splice(0).map((peer) => peer.stop()))
})

async function peerOf(script: Parameters<typeof startPeer>[0]): Promise<Peer> {
  const peer = await startPeer(script)
  peers.push(peer)
  return peer
}

async function converse(
  script: Parameters<typeof startPeer>[0],
  mail: Armable = mailOf(),
  { unanswered, ...target }: Partial<Target> & { readonly unanswered?: number | undefined } = {},
): Promise<Seen> {
  const peer = await peerOf(script)
  const dialogue: Said[] = []
  const wanted = targetOf(peer, 'opportunistic', target)
  const opened = await openConversation(wanted, mannerFor(dialogue, unanswered), dialogue, mail.signal)
  if (!(opened instanceof Conversation)) return { peer, end: opened, dialogue, mail, conversation: undefined }
  const end = await opened.send(mail, dialogue)
  return { peer, end, dialogue, mail, conversation: opened }
}

/** True in every case there is: see the promise in the file's head. */
async function promiseHolds({ peer, end, mail }: Seen): Promise<void> {
  const dotWritten = 'dotWritten' in end && end.dotWritten
  expect(mail.arms).toBeLessThanOrEqual(1)
  expect(dotWritten).toBe(end.phase === 'eod')
  if (dotWritten) expect(mail.arms).toBe(1)
  if (!('reusable' in end) || !end.reusable) await until(() => peer.sockets.size === 0)
  // A dot that was not written is never seen; what was armed had all its content sent before.
  expect(peer.dots).toBe(dotWritten ? 1 : 0)
  if (mail.arms === 1)
    expect(`${peer.contents.at(-1)?.replace(/\r\n$/, '')}\r\n`).toBe(content.replace('\r\n.', '\r\n..'))
}

const garbage: Record<string, Act> = {
  silence,
  close,
  reset,
  'a byte at a time': drip('250 ', 3),
  '+OK': '+OK\r\n',
  '25': '25\r\n',
  '999': '999 x\r\n',
  NUL: '\0\0\0\r\n',
  'NUL in the text': '250 a\0b\r\n',
  'differing codes': '250-a\r\n550 b\r\n',
  'a 1yz': '150 wait\r\n',
  'a line of 5,000 bytes': `250 ${'x'.repeat(5000)}\r\n`,
  '10,000 lines': '250-x\r\n'.repeat(10_000),
  'a code that is none': '399 what\r\n',
  'a 3yz': '350 what\r\n',
}

const moments: readonly Moment[] = ['greeting', 'EHLO', 'MAIL', 'RCPT', 'DATA', 'dot']
const phaseOf = { greeting: 'greeting', EHLO: 'ehlo', MAIL: 'mail', RCPT: 'rcpt', DATA: 'data', dot: 'eod' } as const

describe.concurrent('every trouble at every stage: before the dot it is tried again, after the dot nobody can know', () => {
  test.each(Object.entries(garbage))('%s', async (name, act) => {
    const cases = moments.flatMap((moment) =>
      [{}, { EHLO: withoutPipelining }].map((manner) => ({ moment, script: { ...manner, [moment]: act } as Script })),
    )
    await Promise.all(
      cases.map(async ({ moment, script }) => {
        const isSilent = act === silence || name === 'a byte at a time'
        const seen = await converse(script, mailOf(), { unanswered: isSilent ? moments.indexOf(moment) : undefined })
        await promiseHolds(seen)
        const { end } = seen
        // A reset may overtake the connection's own confirmation.
        if (end.phase !== 'connect' || act !== reset) expect(end.phase).toBe(phaseOf[moment as keyof typeof phaseOf])
        expect(end).toMatchObject({
          trouble: expect.stringMatching(/^(timeout|closed|malformed|connect_failed)$/) as string,
        })
        const outcome = outcomeOf(end)
        // Whatever they still say would be taken for the answer to the next mail.
        if ('reusable' in end) expect(end.reusable).toBe(false)
        if (moment === 'dot') expect(outcome).toEqual({ kind: 'unknown', reason: `eod_${end.trouble}` })
        else
          expect(outcome, `${name} at ${moment}`).toEqual({
            kind: 'retry',
            reason: end.phase === 'connect' ? 'connect' : 'lost_before_eod',
          })
      }),
    )
  })
})

describe('every refusal at every stage', () => {
  const refusals: [Moment, string, string][] = [
    ['greeting', '421 4.3.2 busy', 'retry greeting_4xx'],
    ['greeting', '554 5.7.1 go away', 'retry greeting_5xx'],
    ['EHLO', '421 bye', 'retry greeting_4xx'],
    ['MAIL', '451 4.7.1 later', 'retry mail_4xx'],
    ['MAIL', '421 4.7.0 bye', 'retry mail_4xx'],
    ['MAIL', '550 5.7.1 no', 'failed mail_5xx'],
    ['RCPT', '450 4.2.0 greylisted', 'retry rcpt_4xx'],
    ['RCPT', '550-5.1.1 no such\r\n550 5.1.1 user', 'failed rcpt_5xx'],
    ['DATA', '451 4.3.0 later', 'retry data_4xx'],
    ['DATA', '554 5.5.1 no valid recipients', 'failed data_5xx'],
    ['dot', '450 4.7.1 later', 'retry eod_4xx'],
    ['dot', '421 4.7.1 later', 'retry eod_4xx'],
    ['dot', '550 5.7.1 spam', 'failed eod_5xx'],
    ['dot', '571 message refused', 'failed eod_5xx'],
    ['RCPT', '571 not authorized', 'failed rcpt_5xx'],
    ['MAIL', '471 later', 'retry mail_4xx'],
    ['dot', '200 fine', 'accepted'],
    ['dot', '250-2.0.0 queued\r\n250 as X', 'accepted'],
  ]
  test.each(refusals)('%s %s: %s', async (moment, reply, meaning) => {
    for (const manner of [{}, { EHLO: withoutPipelining }]) {
      const seen = await converse({ ...manner, [moment]: `${reply}\r\n` })
      await promiseHolds(seen)
      const outcome = outcomeOf(seen.end)
      expect('reason' in outcome ? `${outcome.kind} ${outcome.reason}` : outcome.kind).toBe(meaning)
      expect(seen.end.reply?.code).toBe(Number(reply.slice(0, 3)))
    }
  })

  test('a no that ends a greeting of which Postfix has said one line before is told in its own words', async () => {
    const { end } = await converse({ greeting: '220-mx.test ESMTP\r\n521 5.7.1 blocked using a list\r\n' })
    expect(end).toMatchObject({ phase: 'greeting', reply: { code: 521, text: '5.7.1 blocked using a list' } })
    expect(outcomeOf(end)).toEqual({ kind: 'retry', reason: 'greeting_5xx' })
  })

  test('a 421 says goodbye: the connection is not used again, closed or not (27)', async () => {
    for (const moment of ['MAIL', 'RCPT', 'DATA', 'dot'] as const) {
      const seen = await converse({ EHLO: withoutPipelining, [moment]: '421 4.3.2 bye\r\n' })
      expect(seen.end).toMatchObject({ reply: { code: 421 }, reusable: false })
    }
  })

  test('EHLO refused for good: HELO once (23)', async () => {
    const older = await converse({ EHLO: '502 5.5.1 what\r\n' })
    expect(older.end).toMatchObject({ phase: 'eod', reply: { code: 250 } })
    expect(older.peer.heard.slice(0, 3)).toEqual([
      'EHLO out.sender.test',
      'HELO out.sender.test',
      expect.stringMatching(/^MAIL/),
    ])
    const neither = await converse({ EHLO: '502 what\r\n', HELO: '550 what\r\n' })
    expect(outcomeOf(neither.end)).toEqual({ kind: 'retry', reason: 'ehlo_5xx' })
    expect(neither.peer.heard).toHaveLength(2)
  })

  test('250 instead of 354 is out of step (25)', async () => {
    const seen = await converse({ DATA: '250 ok\r\n' })
    await promiseHolds(seen)
    expect(seen.end).toMatchObject({ phase: 'data', trouble: 'malformed', reply: { code: 250 } })
    expect(outcomeOf(seen.end)).toEqual({ kind: 'retry', reason: 'lost_before_eod' })
  })

  test.each([
    ['a greeting', { greeting: '250 hello\r\n' }, 'greeting'],
    ['EHLO', { EHLO: '220 hello\r\n' }, 'ehlo'],
    ['HELO', { EHLO: '502 what\r\n', HELO: '220 hello\r\n' }, 'ehlo'],
    ['STARTTLS', { EHLO: withStartTls, STARTTLS: '250 go\r\n' }, 'tls'],
    ['a login', { EHLO: '250-mx\r\n250 AUTH PLAIN\r\n', AUTH: '250 ok\r\n' }, 'auth'],
  ] as [string, Script, string][])(
    'a good reply to %s that is not the one that belongs there is out of step: no mail is handed over behind it',
    async (_, script, phase) => {
      const seen = await converse(script, mailOf(), { login: { user: 'me', password: 'secret' } })
      expect(seen.end).toMatchObject({ phase, trouble: 'malformed' })
      expect(seen.peer.heard.join()).not.toContain('MAIL')
    },
  )

  test('nobody listens', async () => {
    const peer = await peerOf({})
    await peer.stop()
    const dialogue: Said[] = []
    const end = await openConversation(targetOf(peer), manner, dialogue)
    const why = { trouble: 'connect_failed', cause: 'ECONNREFUSED' }
    expect(end).toMatchObject({ phase: 'connect', ...why, peer: { address: '127.0.0.1' } })
    expect(dialogue).toMatchObject([{ stage: 'connect', ...why }])
  })

  test('nobody answers in time', async () => {
    const opening = dial(targetOf(await peerOf({})), 1)
    const over = performance.now() + 20
    while (performance.now() < over); // so its time is over before the system has begun
    expect(await opening).toEqual({ trouble: 'connect_failed', cause: 'ETIMEDOUT' })
  })
})

describe('pipelining', () => {
  test('250 MAIL, 550 RCPT, 354 DATA: no content, no dot, the connection is closed (28)', async () => {
    const seen = await converse({ RCPT: '550 5.1.1 no\r\n' })
    await promiseHolds(seen)
    expect(seen.end).toMatchObject({ phase: 'rcpt', reply: { code: 550 }, reusable: false })
    expect(seen.peer.contents).toEqual([''])
  })

  test('a refused RCPT with a refused DATA leaves the connection good, after RSET', async () => {
    const seen = await converse({ RCPT: '550 5.1.1 no\r\n', DATA: '503 5.5.1 no recipient\r\n' })
    expect(seen.end).toMatchObject({ phase: 'rcpt', reply: { code: 550 }, reusable: true })
    await seen.conversation?.send(mailOf(), [])
    expect(seen.peer.heard.map((line) => line.slice(0, 4))).toEqual([
      'EHLO',
      'MAIL',
      'RCPT',
      'DATA',
      'RSET',
      'MAIL',
      'RCPT',
      'DATA',
    ])
  })

  test.each(['550 no', '451 later', '421 bye', '354 what'])(
    'a RSET that is answered "%s" tells nothing of the mail behind it, which goes over another connection',
    async (reply) => {
      const seen = await converse({ RCPT: '550 5.1.1 no\r\n', DATA: '503 no\r\n', RSET: `${reply}\r\n` })
      const next = await seen.conversation?.send(mailOf(), [])
      expect(next).toMatchObject({ phase: 'mail', trouble: 'closed', reusable: false })
      expect(next).not.toHaveProperty('reply')
      expect(seen.peer.heard.filter((line) => line.startsWith('MAIL'))).toHaveLength(1)
    },
  )

  test('the rest of the replies is not waited for without end', async () => {
    const script = { MAIL: '550 no\r\n', RCPT: silence, DATA: silence }
    const seen = await converse(script, mailOf(), { unanswered: moments.indexOf('RCPT') })
    expect(seen.end).toMatchObject({ phase: 'mail', reply: { code: 550 }, reusable: false })
  })

  test('what nobody asked for, behind a refusal, closes the connection', async () => {
    const seen = await converse({ MAIL: '550 no\r\n', RCPT: '503 x\r\n', DATA: '503 x\r\n421 bye\r\n' })
    expect(seen.end).toMatchObject({ phase: 'mail', reply: { code: 550 }, reusable: false })
  })
})

describe.concurrent('a host that offers DSN and knows none of its parameters', () => {
  const unless =
    (parameter: string): Act =>
    (socket, { heard }) =>
      socket.write(
        heard.at(-1)?.includes(parameter) ? '555 parameters not recognized or not implemented\r\n' : '250 ok\r\n',
      )
  const asking = () => mailOf({ reports: { envelopeId: 'b1abc', success: false } })
  const offering = `${withoutPipelining.replace('250 ', '250-')}250 DSN\r\n`

  test.each(['MAIL', 'RCPT'] as const)('is given the mail without them: %s', async (verb) => {
    const seen = await converse({ EHLO: offering, [verb]: unless(verb === 'MAIL' ? ' RET=' : ' NOTIFY=') }, asking())
    await promiseHolds(seen)
    expect(seen.end).toMatchObject({ phase: 'eod', reply: { code: 250 }, reusable: true })
    const again = await seen.conversation?.send(asking(), [])
    expect(again).toMatchObject({ phase: 'eod', reply: { code: 250 } })
    expect(seen.peer.heard.filter((line) => line.startsWith(`${verb} `))).toHaveLength(3)
  })

  test('has meant its refusal where it hangs up behind it', async () => {
    const { end } = await converse({ EHLO: offering, RCPT: '501 no such syntax\r\n', RSET: close }, asking())
    expect(end).toMatchObject({ phase: 'rcpt', reply: { code: 501 }, reusable: false })
    expect(outcomeOf(end).kind).toBe('failed')
  })

  test('is asked once more, and then its word counts', async () => {
    const script = {
      RCPT: '555 no\r\n',
      DATA: '503 no recipients\r\n',
      EHLO: '250-mx\r\n250-PIPELINING\r\n250 DSN\r\n',
    }
    const { peer, end } = await converse(script, asking())
    expect(end).toMatchObject({ phase: 'rcpt', reply: { code: 555 } })
    expect(peer.heard.slice(1)).toEqual([
      'MAIL FROM:<b1abc@bounce.sender.test> RET=HDRS ENVID=b1abc',
      'RCPT TO:<someone@receiver.test> NOTIFY=FAILURE,DELAY ORCPT=rfc822;someone@receiver.test',
      'DATA',
      'RSET',
      'MAIL FROM:<b1abc@bounce.sender.test>',
      'RCPT TO:<someone@receiver.test>',
      'DATA',
    ])
  })
})

describe.concurrent('byte discipline', () => {
  const early: [string, Act, Partial<Facts>, string][] = [
    [
      'a 4yz',
      '451 4.3.0 no space\r\n',
      { reply: { code: 451, enhancedCode: '4.3.0', text: '4.3.0 no space' } },
      'retry',
    ],
    ['a 421', '421 bye\r\n', { reply: { code: 421, text: 'bye' } }, 'retry'],
    ['a 5yz', '554 no\r\n', { reply: { code: 554, text: 'no' } }, 'failed'],
    ['a 5yz, and closes', (socket) => socket.end('554 no\r\n'), { reply: { code: 554, text: 'no' } }, 'failed'],
    ['a 2yz', '250 ok\r\n', { trouble: 'malformed' }, 'retry'],
    ['a 354 again', '354 go on\r\n', { trouble: 'malformed' }, 'retry'],
    ['half a reply', '250-queued\r\n', { trouble: 'malformed' }, 'retry'],
    ['half a line', '25', { trouble: 'malformed' }, 'retry'],
    ['garbage', 'what\r\n', { trouble: 'malformed' }, 'retry'],
    ['a close', close, { trouble: 'closed' }, 'retry'],
    ['a reset', reset, { trouble: 'closed' }, 'retry'],
  ]

  // (A reset would take the 354 with it.)
  test.each(early.filter(([, act]) => act !== reset))(
    '%s before the content: no arm, no dot',
    async (_, act, facts, kind) => {
      const data: Act =
        typeof act === 'string' ? `354 go\r\n${act}` : (socket, peer) => (socket.write('354 go\r\n'), act(socket, peer))
      const seen = await converse({ DATA: data })
      await promiseHolds(seen)
      expect(seen.end).toMatchObject({ phase: 'content', armAsked: false, needsDisarm: false, ...facts })
      expect(outcomeOf(seen.end).kind).toBe(kind)
    },
  )

  test('a fault of ours before the first mail leaves no connection open', async () => {
    const peer = await peerOf({})
    const faulty = (): void => {
      throw new Error('a fault of ours')
    }
    const opening = openConversation(targetOf(peer, 'opportunistic', {}), manner, [], undefined, faulty)
    await expect(opening).rejects.toThrow('a fault of ours')
    await until(() => peer.connections === 1 && peer.sockets.size === 0)
  })

  test('who refuses a large mail halfway and hangs up on what is still coming is heard', async () => {
    let socket: Socket | undefined
    let heard = 0
    const mail = mailOf({
      content: Buffer.from(`Subject: large\r\n\r\n${`${'x'.repeat(70)}\r\n`.repeat(4 * 1_024)}`),
      // First the 354, then the first block. A reset stands for a close with content unread.
      heard: () => {
        if (socket === undefined || ++heard !== 2) return
        socket.write('554 5.7.1 not that\r\n')
        socket.resetAndDestroy()
      },
    })
    const seen = await converse(
      { EHLO: withoutPipelining, DATA: (at) => void (socket = at).write('354 go on\r\n') },
      mail,
    )
    expect(mail.arms).toBe(0)
    expect(seen.end).toMatchObject({ phase: 'content', reply: { code: 554 }, dotWritten: false, reusable: false })
  })

  test.each(early)('%s during the arm: no dot, and the arm is to be taken back', async (_, act, facts, kind) => {
    const seen = await duringArm(act)
    await promiseHolds(seen)
    expect(seen.end).toMatchObject({
      phase: 'arm',
      needsDisarm: true,
      dotWritten: false,
      reusable: false,
      ...facts,
    })
    expect(outcomeOf(seen.end).kind).toBe(kind)
  })

  test('a server that speaks without end during the arm is hung up on: what it says is kept in memory', async () => {
    let socket: Socket | undefined
    const mail = mailOf({}, async () => {
      await until(() => socket !== undefined)
      const speak = () => {
        while (socket?.write('250 ok\r\n'.repeat(1_000)));
      }
      socket?.on('drain', speak)
      speak()
      await until(() => socket?.destroyed === true)
      return 'armed'
    })
    const seen = await converse({ content: (theirs) => (socket = theirs) }, mail)
    await promiseHolds(seen)
    expect(seen.end).toMatchObject({ phase: 'arm', trouble: 'malformed', needsDisarm: true })
  })

  /** The arm takes until the server has done its part and the event loop has seen it. */
  async function duringArm(act: Act): Promise<Seen> {
    let acted = false
    const mail = mailOf({}, async () => {
      await until(() => acted)
      return 'armed'
    })
    return converse(
      {
        content: (socket, peer) => {
          if (typeof act === 'string') socket.write(act)
          else act(socket, peer)
          acted = true
        },
      },
      mail,
    )
  }

  test('nothing but the five octets is written after the arm', async () => {
    let before = ''
    const peer = await peerOf({})
    const opened = (await openConversation(targetOf(peer), manner, [])) as Conversation
    const mail = mailOf({}, async () => {
      await until(() => peer.contents[0]?.endsWith('without') === true)
      before = peer.contents[0] ?? ''
      return 'armed'
    })
    await opened.send(mail, [])
    expect(before).toBe('Subject: hello\r\n\r\n..a line with a dot\r\nand one without')
    expect(peer.contents).toEqual([`${before}\r\n`])
    expect(peer.dots).toBe(1)
  })

  const answers: [ArmAnswer | 'throws', Partial<Transaction>, object][] = [
    ['lost', { trouble: 'claim_lost', needsDisarm: false }, { kind: 'decided' }],
    ['suppressed', { trouble: 'suppressed', needsDisarm: false }, { kind: 'failed', reason: 'recipient_suppressed' }],
    ['expired', { trouble: 'expired', needsDisarm: false }, { kind: 'failed', reason: 'expired' }],
    [
      'workspace_blocked',
      { trouble: 'workspace_blocked', needsDisarm: false },
      { kind: 'failed', reason: 'workspace_blocked' },
    ],
    ['failed', { trouble: 'arm_failed', needsDisarm: true }, { kind: 'retry', reason: 'arm_failed' }],
    ['throws', { trouble: 'arm_failed', needsDisarm: true }, { kind: 'retry', reason: 'arm_failed' }],
  ]
  test.each(answers)('an arm that says %s writes no dot', async (answer, facts, outcome) => {
    const mail = mailOf({}, async () => {
      if (answer === 'throws') throw new Error('the database is away')
      return answer
    })
    const seen = await converse({}, mail)
    await promiseHolds(seen)
    expect(seen.end).toMatchObject({
      phase: 'arm',
      armAsked: true,
      dotWritten: false,
      reusable: false,
      ...facts,
    })
    expect(outcomeOf(seen.end)).toEqual(outcome)
  })

  test('past the deadline no dot is written, armed or not', async () => {
    const seen = await converse({}, mailOf({ deadline: () => 0 }))
    await promiseHolds(seen)
    expect(seen.end).toMatchObject({ phase: 'arm', trouble: 'too_late', needsDisarm: true })
  })

  test('a shutdown before the dot gives up, at any stage; after the dot it waits for the reply', async () => {
    for (const moment of ['greeting', 'EHLO', 'MAIL', 'DATA'] as const) {
      const shutdown = new AbortController()
      const seen = await converse({ [moment]: () => shutdown.abort() }, mailOf({ signal: shutdown.signal }))
      await promiseHolds(seen)
      expect(outcomeOf(seen.end)).toEqual({ kind: 'retry', reason: 'shutdown' })
    }
    const duringArm = new AbortController()
    const armed = await converse(
      {},
      mailOf({ signal: duringArm.signal }, async () => (duringArm.abort(), 'armed')),
    )
    await promiseHolds(armed)
    expect(armed.end).toMatchObject({ phase: 'arm', trouble: 'shutdown', needsDisarm: true })
    const late = new AbortController()
    const seen = await converse(
      { dot: (socket) => (late.abort(), setImmediate(() => socket.write('250 ok\r\n'))) },
      mailOf({ signal: late.signal }),
    )
    await promiseHolds(seen)
    expect(outcomeOf(seen.end)).toEqual({ kind: 'accepted' })
  })

  test('what was answered while this process stood still is heard, though its time is over by then', async () => {
    const peer = await peerOf({})
    const line = await dial(targetOf(peer), 5_000)
    if ('trouble' in line) throw new Error(line.trouble)
    expect(await line.reply(5_000)).toMatchObject({ code: 220 })
    const reply = line.reply(50)
    for (const socket of peer.sockets) socket.write('250 2.0.0 Ok\r\n')
    standStill(100)
    expect(await reply).toMatchObject({ code: 250 })
    line.close('closed')
  })

  test('a server that stops reading is given up; one that refuses meanwhile is heard', async () => {
    const big = Buffer.from(`${'x'.repeat(76)}\r\n`.repeat(200_000))
    const deaf = await converse(
      { DATA: '354 go\r\n', content: (socket) => void socket.pause() },
      mailOf({ content: big, size: big.length }),
      { unanswered: moments.indexOf('dot') },
    )
    expect(deaf.end).toMatchObject({ phase: 'content', trouble: 'timeout', armAsked: false })
    const refusing = await peerOf({ content: (socket) => (socket.pause(), socket.write('552 5.3.4 too big\r\n')) })
    const opened = (await openConversation(targetOf(refusing), manner, [])) as Conversation
    const end = await opened.send(mailOf({ content: big, size: big.length }), [])
    expect(end).toMatchObject({ phase: 'content', reply: { code: 552 }, armAsked: false })
    expect([deaf.peer.dots, refusing.dots]).toEqual([0, 0])
  })

  test.each([
    ['clear text', {}],
    ['TLS', { EHLO: withStartTls }],
  ] as [string, Script][])('a write error on the five octets, in %s: nobody can know (36)', async (_, script) => {
    const peer = await peerOf(script)
    const opened = (await openConversation(targetOf(peer), manner, [])) as Conversation
    // The last thing before the write: what the reset does is not seen before it.
    const deadline = () => {
      for (const socket of peer.sockets) socket.resetAndDestroy()
      return Infinity
    }
    const end = await opened.send(mailOf({ deadline }), [])
    expect(end).toMatchObject({
      phase: 'eod',
      trouble: 'closed',
      dotWritten: true,
      needsDisarm: false,
      reusable: false,
    })
    expect(outcomeOf(end)).toEqual({ kind: 'unknown', reason: 'eod_closed' })
    expect(peer.dots).toBe(0)
  })

  test('250 and 421 in one packet: accepted, and the connection is not used again (35)', async () => {
    const seen = await converse({ dot: '250 ok\r\n421 bye\r\n' })
    await promiseHolds(seen)
    expect(outcomeOf(seen.end)).toEqual({ kind: 'accepted' })
    expect(seen.end).toMatchObject({ reusable: false })
  })

  test('half a good reply to the dot proves nothing (34)', async () => {
    const seen = await converse({ dot: (socket) => socket.end('250-queued as X\r\n') })
    await promiseHolds(seen)
    expect(outcomeOf(seen.end)).toEqual({ kind: 'unknown', reason: 'eod_closed' })
  })
})

describe.concurrent('TLS', () => {
  test('is used where it is offered, with any certificate, and EHLO is said again', async () => {
    const seen = await converse({ EHLO: withStartTls })
    expect(seen.end).toMatchObject({ phase: 'eod', reply: { code: 250 }, peer: { tls: 'TLSv1.3' } })
    expect(seen.peer.heard.slice(0, 3)).toEqual(['EHLO out.sender.test', 'STARTTLS', 'EHLO out.sender.test'])
    expect(seen.peer.contents).toHaveLength(1)
  })

  test('a big mail is drained through TLS before the arm', async () => {
    const lines = `${'x'.repeat(76)}\r\n`.repeat(30_000)
    let armedAt = 0
    const peer = await peerOf({ EHLO: withStartTls })
    const opened = (await openConversation(targetOf(peer), manner, [])) as Conversation
    const mail = mailOf({ content: Buffer.from(lines), size: lines.length }, async () => {
      await until(() => peer.contents[0]?.length === lines.length - 2)
      armedAt = peer.contents[0]?.length ?? 0
      return 'armed'
    })
    expect(await opened.send(mail, [])).toMatchObject({ phase: 'eod', reply: { code: 250 } })
    expect(armedAt).toBe(lines.length - 2)
    expect(peer.contents[0] === lines).toBe(true)
  })

  const broken: Act = (socket) => {
    socket.removeAllListeners('data').once('data', () => socket.write('no TLS here\r\n'))
    socket.write('220 go\r\n')
  }

  test.each([
    ['garbage', broken],
    ['a close', (socket) => socket.end('220 go\r\n')],
    ['silence', '220 go\r\n'],
  ] as [string, Act][])(
    'broken by %s: opportunistic goes on in clear text, once, on a fresh connection (24)',
    async (_, act) => {
      const unanswered = typeof act === 'string' ? 3 : undefined // behind the greeting, EHLO and STARTTLS
      const seen = await converse({ EHLO: withStartTls, STARTTLS: act }, mailOf(), { unanswered })
      await promiseHolds(seen)
      expect(outcomeOf(seen.end)).toEqual({ kind: 'accepted' })
      expect(seen.end.peer?.tls).toBeUndefined()
      expect(seen.peer.connections).toBe(2)
      expect(seen.dialogue).toContainEqual({ stage: 'tls', said: 'TLS handshake', trouble: 'tls_failed' })
    },
  )

  test('an old host that knows no better TLS gets its mail over that, and not in clear text; none that was demanded', async () => {
    const old: Act = (socket, peer) => {
      socket.write('220 go\r\n')
      encrypt(socket, peer, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' })
    }
    const script = { EHLO: withStartTls, STARTTLS: old }
    const seen = await converse(script)
    await promiseHolds(seen)
    expect(seen.end).toMatchObject({ phase: 'eod', reply: { code: 250 }, peer: { tls: 'TLSv1.1' } })
    expect(seen.peer.connections).toBe(1)
    const required = await converse(script, mailOf(), { tls: 'required' })
    expect(required.end).toMatchObject({ phase: 'tls', trouble: 'tls_failed' })
  })

  test('a host that never hears of a hello longer than a packet gets its mail encrypted, also where that is demanded', async () => {
    const packetBytes = 1_400
    const narrow: Act = (socket, peer) => {
      socket.removeAllListeners('data').once('data', (hello: Buffer) => {
        if (5 + hello.readUInt16BE(3) > packetBytes) return
        socket.pause().unshift(hello)
        encrypt(socket, peer)
      })
      socket.write('220 go\r\n')
    }
    for (const tls of ['opportunistic', 'required'] as const) {
      const seen = await converse({ EHLO: withStartTls, STARTTLS: narrow }, mailOf(), { tls })
      await promiseHolds(seen)
      expect(seen.end).toMatchObject({ phase: 'eod', reply: { code: 250 }, peer: { tls: 'TLSv1.3' } })
      expect(seen.peer.connections).toBe(1)
    }
  })

  test('a host that wants a key exchange that no quantum computer breaks gets it', async () => {
    const strict: Act = (socket, peer) => {
      socket.write('220 go\r\n')
      encrypt(socket, peer, { ecdhCurve: 'X25519MLKEM768' })
    }
    const seen = await converse({ EHLO: withStartTls, STARTTLS: strict }, mailOf(), { tls: 'required' })
    expect(seen.end).toMatchObject({ phase: 'eod', reply: { code: 250 }, peer: { tls: 'TLSv1.3' } })
  })

  // With TLS 1.3 a server's no to our side of the handshake comes when ours has ended.
  const untilEncrypted: Act = (socket) =>
    void (socket instanceof TLSSocket ? socket.destroy() : socket.write(withStartTls))
  test.each([
    ['the command is answered with a close', { EHLO: withStartTls, STARTTLS: close }, 'STARTTLS'],
    ['the session ends behind the handshake', { EHLO: untilEncrypted }, 'EHLO out.sender.test'],
  ] as [string, Script, string][])('broken, and %s: the same', async (_, script, said) => {
    const seen = await converse(script)
    await promiseHolds(seen)
    expect(outcomeOf(seen.end)).toEqual({ kind: 'accepted' })
    expect(seen.end.peer?.tls).toBeUndefined()
    expect(seen.peer.connections).toBe(2)
    expect(seen.dialogue).toContainEqual(expect.objectContaining({ said, trouble: 'closed' }))
    const required = await converse(script, mailOf(), { tls: 'required' })
    expect(outcomeOf(required.end).kind).toBe('retry')
    expect(required.peer.heard.join()).not.toContain('MAIL')
  })

  test('what was offered in clear text counts for nothing behind the handshake (RFC 3207 4.2)', async () => {
    const offered = '250-mx.posthorn.test\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n'
    const refusedBehind: Act = (socket) =>
      void socket.write(socket instanceof TLSSocket ? '502 no EHLO here\r\n' : offered)
    const seen = await converse({ EHLO: refusedBehind }, mailOf(), { login: { user: 'me', password: 'secret' } })
    expect(seen.end).toMatchObject({ phase: 'auth', trouble: 'auth_unavailable' })
  })

  test('refused: opportunistic goes on in clear text on the same connection', async () => {
    const seen = await converse({ EHLO: withStartTls, STARTTLS: '454 4.7.0 not now\r\n' })
    expect(outcomeOf(seen.end)).toEqual({ kind: 'accepted' })
    expect(seen.peer.connections).toBe(1)
  })

  test('answered with a goodbye: that is what is told, and no mail is begun', async () => {
    const seen = await converse({ EHLO: withStartTls, STARTTLS: '421 4.3.2 going down\r\n' })
    expect(seen.end).toMatchObject({ phase: 'tls', reply: { code: 421 } })
    expect(seen.peer.heard.join()).not.toContain('MAIL')
  })

  test.each([
    ['broken', broken],
    ['refused for now', '454 4.7.0 TLS not available\r\n'],
  ] as [string, Act][])(
    '%s, and clear text refused for want of it: tried again, for TLS may work then',
    async (_, act) => {
      const wanted = '530 5.7.0 Must issue a STARTTLS command first\r\n'
      for (const script of [{ MAIL: wanted }, { RCPT: wanted, DATA: '503 no\r\n' }] as Script[]) {
        const seen = await converse({ EHLO: withStartTls, STARTTLS: act, ...script })
        await promiseHolds(seen)
        expect(outcomeOf(seen.end)).toEqual({ kind: 'retry', reason: 'tls' })
      }
      const other = await converse({ EHLO: withStartTls, STARTTLS: act, MAIL: '550 5.7.1 no\r\n' })
      expect(outcomeOf(other.end)).toEqual({ kind: 'failed', reason: 'mail_5xx' })
      const unknown = '550 5.1.1 <encryption@shop.example>: Recipient address rejected: User unknown\r\n'
      const nobody = await converse({ EHLO: withStartTls, STARTTLS: act, RCPT: unknown, DATA: '503 no\r\n' })
      expect(outcomeOf(nobody.end)).toEqual({ kind: 'failed', reason: 'rcpt_5xx' })
      for (const script of [{}, { EHLO: withStartTls }]) {
        const never = await converse({ ...script, MAIL: wanted })
        expect(outcomeOf(never.end)).toEqual({ kind: 'failed', reason: 'mail_5xx' })
      }
    },
  )

  test('text injected behind the 220: the connection is dropped (24)', async () => {
    const seen = await converse({ EHLO: withStartTls, STARTTLS: '220 go\r\n250-injected\r\n250 ok\r\n' })
    expect(seen.end).toMatchObject({ phase: 'tls', trouble: 'malformed' })
    expect(seen.peer.connections).toBe(1)
    const half = await converse({ EHLO: withStartTls, STARTTLS: '220 go\r\n250-' })
    expect(half.end).toMatchObject({ phase: 'tls', trouble: 'malformed' })
  })

  test.each([
    ['not offered', {}],
    ['refused', { EHLO: withStartTls, STARTTLS: '454 no\r\n' }],
    ['broken', { EHLO: withStartTls, STARTTLS: broken }],
  ] as [string, Script][])('required and %s: never clear text', async (_, script) => {
    const seen = await converse(script, mailOf(), { tls: 'required' })
    expect(outcomeOf(seen.end)).toEqual({ kind: 'retry', reason: 'tls' })
    expect(seen.peer.connections).toBe(1)
    expect(seen.peer.heard.join()).not.toContain('MAIL')
  })

  test('a certificate that must be valid and is not ends it', async () => {
    const seen = await converse({ EHLO: withStartTls }, mailOf(), { tls: 'required', verify: true })
    expect(seen.end).toMatchObject({ phase: 'tls', trouble: 'tls_failed' })
  })

  test('from the first byte', async () => {
    const greeting: Act = (socket, peer) => void encrypt(socket, peer).write('220 encrypted\r\n')
    const seen = await converse({ greeting }, mailOf(), { tls: 'implicit' })
    expect(seen.end).toMatchObject({ phase: 'eod', reply: { code: 250 }, peer: { tls: 'TLSv1.3' } })
    const script = { greeting: silence, other: '220 clear\r\n' }
    const clear = await converse(script, mailOf(), { tls: 'implicit', unanswered: 0 })
    expect(outcomeOf(clear.end)).toEqual({ kind: 'retry', reason: 'tls' })
    expect(clear.peer.connections).toBe(1)
  })
})

describe('login', () => {
  const login = { user: 'someone', password: 'very secret' }
  const offering = (methods: string) => `250-mx\r\n250 AUTH${methods}\r\n`

  test('PLAIN where offered, and the dialogue does not show it', async () => {
    const seen = await converse({ EHLO: offering(' LOGIN PLAIN') }, mailOf(), { login })
    expect(outcomeOf(seen.end)).toEqual({ kind: 'accepted' })
    const secret = Buffer.from('\0someone\0very secret').toString('base64')
    expect(seen.peer.heard[1]).toBe(`AUTH PLAIN ${secret}`)
    expect(JSON.stringify(seen.dialogue)).not.toContain(secret)
    expect(seen.dialogue[2]).toMatchObject({ stage: 'auth', said: 'AUTH PLAIN ********', reply: { code: 235 } })
  })

  test('LOGIN where that is all', async () => {
    let asked = 0
    const other: Act = (socket) => socket.write(++asked === 1 ? '334 UGFzc3dvcmQ6\r\n' : '235 ok\r\n')
    const seen = await converse({ EHLO: offering('=LOGIN'), AUTH: '334 VXNlcm5hbWU6\r\n', other }, mailOf(), { login })
    expect(outcomeOf(seen.end)).toEqual({ kind: 'accepted' })
    expect(seen.peer.heard.slice(1, 4)).toEqual(['AUTH LOGIN', 'c29tZW9uZQ==', 'dmVyeSBzZWNyZXQ='])
    expect(JSON.stringify(seen.dialogue)).not.toMatch(/c29tZW9u|dmVyeSBz/)
  })

  test.each(['PLAIN', 'LOGIN'])(
    'a host that says the login of %s back tells it to nobody: not the sender, not their webhook, not the log',
    async (method) => {
      const echo: Act = (socket, peer) => {
        const line = peer.heard.at(-1) ?? ''
        const isLast = method === 'PLAIN' || line === 'dmVyeSBzZWNyZXQ='
        if (!isLast) return void socket.write('334 VXNlcm5hbWU6\r\n')
        socket.write(
          `500-5.5.1 Command unrecognized: "${line}"\r\n500 5.5.1 someone has not the password very secret\r\n`,
        )
      }
      const seen = await converse({ EHLO: offering(` ${method}`), AUTH: echo, other: echo }, mailOf(), { login })
      const told = JSON.stringify([seen.end, seen.dialogue])
      for (const secret of ['\0someone\0very secret', 'very secret'])
        for (const form of [secret, Buffer.from(secret).toString('base64')]) expect(told).not.toContain(form)
      const said = method === 'PLAIN' ? 'AUTH PLAIN ********' : '********'
      const text = `5.5.1 Command unrecognized: "${said}"\n5.5.1 someone has not the password ********`
      expect(seen.end).toMatchObject({ phase: 'auth', reply: { code: 500, text } })
    },
  )

  test('of a password that begins as the name does, nothing is left to be read', async () => {
    const echo: Act = (socket, peer) => {
      const line = peer.heard.at(-1) ?? ''
      socket.write(line === 'dmVyeSBzZWNyZXQ=' ? `535 5.7.8 not "${line}"\r\n` : '334 VXNlcm5hbWU6\r\n')
    }
    const script = { EHLO: offering(' LOGIN'), AUTH: echo, other: echo }
    const seen = await converse(script, mailOf(), { login: { ...login, user: 'ver' } })
    expect(seen.end.reply?.text).toBe('5.7.8 not "********"')
  })

  test.each([
    ['refused', { EHLO: offering(' PLAIN'), AUTH: '535 5.7.8 wrong\r\n' }],
    ['refused for now', { EHLO: offering(' PLAIN'), AUTH: '454 4.7.0 later\r\n' }],
    ['not offered', {}],
    ['offered in no way we know', { EHLO: offering(' CRAM-MD5') }],
  ] as [string, Script][])('%s: tried again, for the fault is ours', async (_, script) => {
    const seen = await converse(script, mailOf(), { login })
    expect(outcomeOf(seen.end)).toEqual({ kind: 'retry', reason: 'auth' })
  })
})

describe('what the server offers', () => {
  const offering = (...lines: string[]) =>
    ['mx', ...lines].map((line, at) => `250${at === lines.length ? ' ' : '-'}${line}\r\n`).join('')
  const firstMail = ({ peer }: Seen) => peer.heard.find((line) => line.startsWith('MAIL'))

  test('MAIL carries what is offered and needed, and nothing else (30)', async () => {
    const utf8 = { recipient: { ...addressOf('jürgen@receiver.test'), needsSmtputf8: true }, needsSmtputf8: true }
    const cases: [string[], Partial<Mail>, string][] = [
      [['SIZE'], {}, ''],
      [['SIZE 0'], {}, ''],
      [['size 1000', '8bitmime'], {}, ` SIZE=${content.length}`],
      [['8BITMIME', 'SMTPUTF8'], { needs8bit: true }, ' BODY=8BITMIME'],
      [['8BITMIME', 'SMTPUTF8'], { ...utf8, needs8bit: true }, ' BODY=8BITMIME SMTPUTF8'],
    ]
    for (const [offers, mail, parameters] of cases) {
      const seen = await converse({ EHLO: offering(...offers) }, mailOf(mail))
      expect(firstMail(seen)).toBe(`MAIL FROM:<b1abc@bounce.sender.test>${parameters}`)
      if (mail.recipient !== undefined)
        expect(seen.peer.heard).toContain(`RCPT TO:<${Buffer.from('jürgen').toString('latin1')}@receiver.test>`)
    }
    expect(firstMail(await converse({}, mailOf({ envelopeFrom: '' })))).toBe('MAIL FROM:<>')
  })

  test('what stands at the end of a long list counts, and no later reply is kept at such length', async () => {
    const many = Array.from({ length: 60 }, (_, at) => `X-OF-THEIR-OWN-${at} and what it takes`)
    const small = await converse({ EHLO: offering(...many, `SIZE ${content.length - 1}`) })
    expect(small.end.trouble).toBe('size')
    const refused = await converse({
      EHLO: offering(...many),
      MAIL: `550-${'x'.repeat(400)}\r\n`.repeat(9) + '550 no\r\n',
    })
    expect(refused.end.reply?.text).toHaveLength(limits.replyTextCharactersMax)
  })

  test('too small a SIZE, and no SMTPUTF8 or 8BITMIME where it is needed, fail here and leave the connection good (30)', async () => {
    const small = await converse({ EHLO: offering(`SIZE ${content.length - 1}`) })
    expect(small.end).toMatchObject({ phase: 'mail', trouble: 'size', reusable: true })
    expect(outcomeOf(small.end)).toEqual({ kind: 'failed', reason: 'size' })
    const ascii = await converse({ EHLO: offering() }, mailOf({ needsSmtputf8: true }))
    expect(outcomeOf(ascii.end)).toEqual({ kind: 'failed', reason: 'smtputf8' })
    const seven = await converse({ EHLO: offering() }, mailOf({ needs8bit: true }))
    expect(outcomeOf(seven.end)).toEqual({ kind: 'failed', reason: 'no_8bitmime' })
    expect([firstMail(small), firstMail(ascii), firstMail(seven)]).toEqual([undefined, undefined, undefined])
  })

  test('a host without 8BITMIME gets the 7-bit form, armed once and with nothing but the end behind the arm (RFC 6152 3)', async () => {
    const form = Buffer.from('Subject: hello\r\n\r\n.Gr=C3=BC=C3=9Fe\r\n')
    let asked = 0
    const sevenBit = async () => {
      asked++
      return { content: [form.subarray(0, 20), form.subarray(20)], size: form.length }
    }
    const eightBit = { content: Buffer.from('Subject: hello\r\n\r\n.Grüße\r\n'), needs8bit: true, sevenBit }
    const mail = mailOf(eightBit)
    const seven = await converse({ EHLO: offering(`SIZE ${form.length}`) }, mail)
    expect(seven.end).toMatchObject({ phase: 'eod', dotWritten: true, reusable: true })
    expect(firstMail(seven)).toBe(`MAIL FROM:<b1abc@bounce.sender.test> SIZE=${form.length}`)
    expect(seven.peer.contents).toEqual(['Subject: hello\r\n\r\n..Gr=C3=BC=C3=9Fe\r\n'])
    expect([mail.arms, asked]).toEqual([1, 1])

    await converse({}, mailOf(eightBit))
    await converse({ EHLO: offering('8BITMIME') }, mailOf(eightBit))
    // The form counts: it may be too large where the mail is not.
    const small = await converse({ EHLO: offering(`SIZE ${form.length - 1}`) }, mailOf(eightBit))
    expect(small.end).toMatchObject({ phase: 'mail', trouble: 'size', reusable: true })
    const utf8 = await converse({ EHLO: offering() }, mailOf({ ...eightBit, needsSmtputf8: true }))
    expect(utf8.end.trouble).toBe('smtputf8')
    expect(asked).toBe(2)
    const none = await converse({ EHLO: offering() }, mailOf({ ...eightBit, sevenBit: async () => undefined }))
    expect(outcomeOf(none.end)).toEqual({ kind: 'failed', reason: 'no_8bitmime' })
    expect(none.end).toMatchObject({ reusable: true })
    expect(firstMail(none)).toBeUndefined()
  })

  test('the 7-bit form is given back when the connection has no more use for it, however that ends', async () => {
    let held = 0
    const sevenBit = async () => {
      held++
      return { content: Buffer.from('Subject: x\r\n\r\n'), size: 14, leave: () => void held-- }
    }
    for (const script of [{}, { DATA: '451 4.3.0 later\r\n' }, { RCPT: close }, { dot: close }] as Script[]) {
      await converse({ EHLO: offering(), ...script }, mailOf({ needs8bit: true, sevenBit }))
      expect(held).toBe(0)
    }
    let heldAtDot: number | undefined
    const dot: Act = (socket) => {
      heldAtDot = held
      socket.write('250 ok\r\n')
    }
    await converse({ EHLO: offering(), dot }, mailOf({ needs8bit: true, sevenBit }))
    expect([heldAtDot, held]).toEqual([0, 0])
    const peer = await peerOf({ EHLO: offering() })
    const opened = (await openConversation(targetOf(peer), manner, [])) as Conversation
    const mail = mailOf({ needs8bit: true, sevenBit, envelopeFrom: 'a@b>\r\nRCPT TO:<c@d' })
    await expect(opened.send(mail, [])).rejects.toThrow('envelope address')
    expect(held).toBe(0)
  })

  test('it is heard that a mail gets on: with the connection, each reply, and each block that was taken', async () => {
    let heard = 0
    const content = Buffer.concat([Buffer.from('Subject: x\r\n\r\n'), Buffer.alloc(3 * limits.smtpBlockBytes, 'x\r\n')])
    await converse({}, mailOf({ content, size: content.length, heard: () => void heard++ }))
    // The connection, MAIL, RCPT, DATA, the dot; and the blocks.
    expect(heard).toBeGreaterThanOrEqual(5 + 3)
  })

  test.each([
    ['and it comes', { content: Buffer.from('Subject: x\r\n\r\n'), size: 14 }],
    ['and none comes, which is no word about the mail', undefined],
  ])('a shutdown while the 7-bit form is made ends the attempt before MAIL, %s', async (_, form) => {
    const stop = new AbortController()
    const sevenBit = async () => {
      stop.abort()
      return form
    }
    const mail = mailOf({ needs8bit: true, sevenBit, signal: stop.signal })
    const { end, peer } = await converse({ EHLO: offering() }, mail)
    expect(end).toMatchObject({ trouble: 'shutdown', dotWritten: false, armAsked: false })
    expect([mail.arms, peer.dots]).toEqual([0, 0])
  })

  test('an address that could end the command is a fault, not a command (I7)', async () => {
    for (const mail of [
      { envelopeFrom: 'a@b>\r\nRCPT TO:<c@d' },
      { recipient: addressOf('a b@c') },
      { recipient: addressOf('a\0@c') },
    ]) {
      const peer = await peerOf({})
      const opened = (await openConversation(targetOf(peer), manner, [])) as Conversation
      await expect(opened.send(mailOf(mail), [])).rejects.toThrow('envelope address')
      expect(peer.heard).toEqual(['EHLO out.sender.test'])
      expect(opened.alive).toBe(false)
    }
  })

  test('many mails over one connection', async () => {
    const peer = await peerOf({})
    const opened = (await openConversation(targetOf(peer), manner, [])) as Conversation
    for (let count = 1; count <= 5; count++) {
      const dialogue: Said[] = []
      expect(await opened.send(mailOf(), dialogue)).toMatchObject({ phase: 'eod', reusable: true })
      expect(dialogue.map(({ stage }) => stage)).toEqual(['mail', 'rcpt', 'data', 'eod'])
    }
    expect([peer.connections, peer.dots, opened.sent]).toEqual([1, 5, 5])
    await opened.quit()
    expect(peer.heard.at(-1)).toBe('QUIT')
  })

  test('whoever gives up touches his own mail alone: none that was not begun is begun, and none that comes behind an ended one is cut', async () => {
    const peer = await peerOf({ EHLO: withoutPipelining })
    const opened = (await openConversation(targetOf(peer), manner, [])) as Conversation
    const [first, second] = [new AbortController(), new AbortController()]
    // Ended before its dot, on a connection that is still good.
    expect(await opened.send(mailOf({ signal: first.signal, needsSmtputf8: true }), [])).toMatchObject({
      reusable: true,
    })
    first.abort()
    expect(await opened.send(mailOf({ signal: second.signal }), [])).toMatchObject({ phase: 'eod', reusable: true })
    second.abort()
    const late = mailOf({ signal: second.signal })
    expect(await opened.send(late, [])).toMatchObject({ trouble: 'shutdown', armAsked: false, reusable: false })
    expect([late.arms, peer.dots, peer.heard.filter((line) => line.startsWith('MAIL')).length]).toEqual([0, 1, 1])
  })

  test('the timeline is bounded, and how it ended stands in it', async () => {
    const dialogue: Said[] = Array.from({ length: limits.dialogueLinesMax }, () => ({ stage: 'mail', said: '' }))
    const peer = await peerOf({})
    const opened = (await openConversation(targetOf(peer), manner, dialogue)) as Conversation
    await opened.send(mailOf(), dialogue)
    expect(dialogue).toHaveLength(limits.dialogueLinesMax)
    expect(dialogue.at(-1)).toMatchObject({ stage: 'eod', said: '.', reply: { code: 250 } })
  })
})
