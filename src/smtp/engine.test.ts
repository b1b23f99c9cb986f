// The engine alone, without a socket: what the dialogues in test/dialogues cannot show.
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { ContentRoom } from './content-room.ts'
import { SmtpSession } from './engine.ts'
import type { SessionLimits } from './session-parts.ts'
import { openOffer, type Policy } from './policy.ts'
import { replies, type Answer, type Reply } from './reply.ts'

const usual: SessionLimits = { commandBytesMax: 64, messageBytesMax: 200, recipientsMax: 2, errorsMax: 1_000 }
const accepting: Policy = {
  mail: () => replies.senderOk,
  rcpt: () => replies.recipientOk,
  message: () => replies.ok,
}

function open(
  policy: Partial<Policy> = {},
  limits: Partial<SessionLimits> = {},
  roomBytes = 10_000,
  offer = openOffer('mx.test', true),
) {
  const said: string[] = []
  const faults: unknown[] = []
  const room = new ContentRoom({ bytesMax: roomBytes })
  const kept: string[] = []
  const message: Policy['message'] = (content) => {
    kept.push(content.toString('latin1'))
    return replies.ok
  }
  const session = new SmtpSession({
    offer,
    policy: { ...accepting, message, ...policy },
    wire: {
      write: (text) => said.push(text),
      startTls: () => said.push('[tls]'),
      close: () => said.push('[close]'),
      ready: () => said.push('[ready]'),
    },
    limits: { ...usual, ...limits },
    room,
    secure: false,
    fault: (error) => faults.push(error),
  })
  session.open()
  const say = (text: string) => session.push(Buffer.from(text, 'latin1'))
  /** Everything said since the last time, but for the tidings that no peer sees. */
  const heard = () =>
    said
      .splice(0)
      .filter((text) => text !== '[ready]')
      .join('')
  return { session, say, heard, said, faults, kept, room }
}

const envelope = 'HELO c\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n'
const codes = (text: string) =>
  text
    .split('\r\n')
    .map((line) => line.slice(0, 3))
    .join(' ')
    .trim()

/** A promise and its hands. */
function pending() {
  let answer: (answer: Answer) => void = () => undefined
  const promise = new Promise<Answer>((resolve) => (answer = resolve))
  return { promise, answer }
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

test('cutting the input anywhere gives the same replies and the same messages', () => {
  const words = [
    ['HELO c\r\n', 'EHLO c\r\n', 'MAIL FROM:<a@b>\r\n', 'RCPT TO:<c@d>\r\n', 'DATA\r\n', `${envelope}DATA\r\n`],
    ['text\r\n', '.\r\n', '\r\n.\r\n', '\r', '\n', '..\r\n', 'x'.repeat(100)],
    ['BDAT 4\r\n', 'BDAT 6 LAST\r\n', 'BDAT 0 LAST\r\n', 'BDAT x\r\n'],
    ['RSET\r\n', 'NOOP\r\n', 'QUIT\r\n', 'MAIL FROM:<a@b> SIZE=201\r\n'],
  ]
  const parts = fc.constantFrom(...words.flat())
  fc.assert(
    fc.property(fc.array(parts, { maxLength: 25 }), fc.array(fc.nat(), { maxLength: 12 }), (spoken, places) => {
      const input = spoken.join('')
      const whole = open()
      whole.say(input)
      const inPieces = open()
      const edges = [0, ...places.map((place) => place % (input.length + 1)).sort((a, b) => a - b), input.length]
      for (let at = 1; at < edges.length; at++) inPieces.say(input.slice(edges[at - 1], edges[at]))
      const byByte = open()
      for (const byte of input) byByte.say(byte)
      expect(inPieces.heard()).toBe(whole.heard())
      expect(byByte.kept).toEqual(whole.kept)
      expect(inPieces.kept).toEqual(whole.kept)
    }),
    { numRuns: 1_000 },
  )
})

test('replies to a pipelined group leave in one write', () => {
  const { say, said } = open()
  said.splice(0)
  say(`${envelope}DATA\r\n`)
  expect(said).toHaveLength(1)
  expect(codes(said[0] ?? '')).toBe('250 250 250 354')
})

test('also when they are decided one after the other; nobody waits for input that has not come', async () => {
  const rcpt = pending()
  const { session, say, said } = open({ mail: () => Promise.resolve(replies.senderOk), rcpt: () => rcpt.promise })
  const writes = () => said.splice(0).filter((text) => text !== '[ready]').map(codes) // prettier-ignore
  writes()
  say(`${envelope}DATA\r\n`)
  await turn()
  expect(writes()).toEqual([])
  rcpt.answer(replies.recipientOk)
  await turn()
  expect(writes()).toEqual(['250 250 250 354'])
  session.push(Buffer.from('.\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n'))
  await turn()
  expect(writes()).toEqual(['250 250', '250'])
})

test('while a decision is pending, input waits; then it goes on in order', async () => {
  const { promise, answer } = pending()
  const { session, say, heard } = open({ rcpt: () => promise })
  say(`${envelope}DATA\r\n`)
  say('text\r\n.\r\n')
  expect(codes(heard())).toBe('220')
  expect(session.waiting).toBe(true)
  expect(session.heldBytes).toBe('DATA\r\ntext\r\n.\r\n'.length)
  answer(replies.recipientOk)
  await turn()
  expect(codes(heard())).toBe('250 250 250 354 250')
  expect(session.heldBytes).toBe(0)
})

test('the greeting may take its time, and may be a refusal', async () => {
  const { promise, answer } = pending()
  const { say, heard } = open({ greet: () => promise })
  say('NOOP\r\nQUIT\r\n')
  expect(heard()).toBe('')
  answer({ code: 554, text: 'No service for you' })
  await turn()
  expect(heard()).toBe('554 No service for you\r\n503 5.5.1 Out of order\r\n221 2.0.0 Bye\r\n[close]')
})

test('a policy that throws is a fault of ours: 451 and told, and the session goes on', async () => {
  const broken = new Error('no database')
  const { say, heard, faults } = open({
    mail: () => {
      throw broken
    },
    message: () => Promise.reject(broken),
  })
  say('HELO c\r\nMAIL FROM:<a@b>\r\nNOOP\r\n')
  expect(codes(heard())).toBe('220 250 451 250')
  expect(faults).toEqual([broken])
})

test('a message whose policy rejects gets 451, and its room is given back', async () => {
  const { say, heard, room } = open({ message: () => Promise.reject(new Error('no disk')) }, {}, 100)
  say(`${envelope}DATA\r\ntext\r\n.\r\n`)
  await turn()
  expect(codes(heard())).toBe('220 250 250 250 354 451')
  expect(room.take(100)).toBe(true)
})

test('what is read is given back when the peer is lost, at RSET, and after the answer', async () => {
  const { promise, answer } = pending()
  const lost = open({}, {}, 100)
  lost.say(`${envelope}DATA\r\nhalf a mess`)
  expect(lost.room.take(100)).toBe(false)
  lost.session.gone()
  expect(lost.room.take(100)).toBe(true)

  const reset = open({}, {}, 100)
  reset.say(`${envelope}BDAT 4\r\ntextRSET\r\n`)
  expect(reset.room.take(100)).toBe(true)

  // Only its end shows that this one is spoiled.
  const spoiled = open({}, {}, 100)
  spoiled.say(`${envelope}BDAT 5 LAST\r\ntext\r`)
  expect([codes(spoiled.heard()).slice(-3), spoiled.room.take(100)]).toEqual(['550', true])

  const answered = open({ message: () => promise }, {}, 100)
  answered.say(`${envelope}DATA\r\ntext\r\n.\r\n`)
  answered.session.gone()
  expect(answered.room.take(100)).toBe(false)
  answer(replies.ok)
  await turn()
  expect(answered.room.take(100)).toBe(true)
})

test('a message without room for it gets 451 and the next one is taken', () => {
  const { say, heard, kept } = open({}, {}, 10)
  say(`${envelope}DATA\r\ntoo long for it\r\n.\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nshort\r\n.\r\n`)
  expect(heard()).toContain('354 End data with <CRLF>.<CRLF>\r\n451 4.3.1 ')
  expect(kept).toEqual(['short\r\n'])
})

test('`drop` closes without a word, though not without the words before', () => {
  const { say, heard } = open({ message: () => 'drop' })
  say(`${envelope}DATA\r\n.\r\nNOOP\r\n`)
  const text = heard()
  expect(codes(text)).toBe('220 250 250 250 354 [cl')
})

test('a reply cannot be torn apart by what a policy quotes', () => {
  const { say, heard } = open({ mail: () => ({ code: 550, enhanced: '5.7.1', text: 'one\ntwo\r250 ok\u0000' }) })
  say('HELO c\r\nMAIL FROM:<a@b>\r\n')
  expect(heard()).toMatch(/550-5\.7\.1 one\r\n550 5\.7\.1 two 250 ok \r\n$/)
})

test('nothing that comes between STARTTLS and TLS is read, and TLS begins from nothing', () => {
  const { session, say, heard } = open()
  say('EHLO c\r\nMAIL FROM:<a@b>\r\nSTARTTLS\r\nRSET\r\n')
  expect(heard()).toMatch(/220 2\.0\.0 Ready to start TLS\r\n\[tls\]$/)
  say('NOOP\r\n')
  session.secured()
  say('MAIL FROM:<a@b>\r\n')
  expect(heard()).toBe('503 5.5.1 Say EHLO first\r\n')
})

test('a message that had begun to come in chunks before TLS is no part of one behind it', () => {
  const { session, say, heard, kept, room } = open()
  const transaction = 'EHLO c\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n'
  say(`${transaction}BDAT 4\r\nold STARTTLS\r\n`)
  expect(heard()).toMatch(/\[tls\]$/)
  session.secured()
  expect(room.take(10_000)).toBe(true)
  room.give(10_000)
  say(`${transaction}BDAT 3 LAST\r\nnew`)
  expect([codes(heard()).split(' ').at(-1), kept]).toEqual(['250', ['new\r\n']])
})

test('who had logged in before TLS has not behind it', () => {
  const offer = { ...openOffer('mx.test', true), auth: 'always', mailNeeds: { tls: false, auth: true } } as const
  const { session, say, heard } = open({ auth: () => replies.ok }, {}, 10_000, offer)
  say(`EHLO c\r\nAUTH PLAIN ${Buffer.from('\0user\0password').toString('base64')}\r\nSTARTTLS\r\n`)
  expect(heard()).toMatch(/250 2\.0\.0 Ok\r\n220 /)
  session.secured()
  say('EHLO c\r\nMAIL FROM:<a@b>\r\n')
  expect(heard()).toMatch(/530 5\.7\.0 [^\r\n]+\r\n$/)
})

test('errors are counted until a message is accepted; one that is refused forgives none', () => {
  const mistakes = 'NONSENSE\r\n'.repeat(2)
  const refused = { code: 554, enhanced: '5.7.1', text: 'No' }
  for (const [answer, end] of [
    [replies.ok, /500 [^\r\n]+\r\n$/],
    [refused, /421 [^\r\n]+\r\n\[close\]$/],
  ] as const) {
    const { say, heard } = open({ message: () => answer }, { errorsMax: 3 })
    say(`${mistakes}${envelope}DATA\r\nx\r\n.\r\nNONSENSE\r\n`)
    expect(heard()).toMatch(end)
  }
})

test('retired between two mails it says 421; in the middle of a mail it waits for its end', async () => {
  const idle = open()
  idle.say('HELO c\r\n')
  idle.heard()
  idle.session.retire(replies.shuttingDown)
  expect(idle.heard()).toMatch(/^421 4\.3\.2 .*\r\n\[close\]$/)

  const { promise, answer } = pending()
  const busy = open({ message: () => promise })
  busy.say(`${envelope}DATA\r\nhalf`)
  busy.heard()
  busy.session.retire(replies.shuttingDown)
  expect(busy.heard()).toBe('')
  busy.say('\r\n.\r\nNOOP\r\n')
  expect(busy.heard()).toBe('')
  answer(replies.ok)
  await turn()
  expect(busy.heard()).toMatch(/^250 2\.0\.0 Ok\r\n421 4\.3\.2 .*\r\n\[close\]$/)
})

test('retired between two chunks of a mail it waits for the last one, or for the client to leave off; cut there it does not', () => {
  const begun = () => {
    const { session, say, heard, kept, room } = open()
    say(`${envelope}BDAT 4\r\nhalf`)
    heard()
    return { session, say, heard, kept, room }
  }
  const whole = begun()
  whole.session.retire(replies.shuttingDown)
  expect(whole.heard()).toBe('')
  whole.say('BDAT 2\r\n, BDAT 6 LAST\r\nrest\r\nNOOP\r\n')
  expect(codes(whole.heard())).toBe('250 250 421 [cl')
  expect(whole.kept).toEqual(['half, rest\r\n'])

  const left = begun()
  left.session.retire(replies.shuttingDown)
  left.say('RSET\r\nNOOP\r\n')
  expect(codes(left.heard())).toBe('250 421 [cl')

  const silent = begun()
  silent.session.cut(replies.idle)
  expect(silent.heard()).toMatch(/^421 4\.4\.2 .*\r\n\[close\]$/)
  expect(silent.room.take(10_000)).toBe(true)
})

test('cut in the middle of a mail it says 421 at once, unless the mail is complete and being decided', async () => {
  const reading = open()
  reading.say(`${envelope}DATA\r\nhalf`)
  reading.heard()
  reading.session.cut(replies.idle)
  expect(reading.heard()).toMatch(/^421 4\.4\.2 .*\r\n\[close\]$/)
  expect(reading.room.take(10_000)).toBe(true)

  const { promise, answer } = pending()
  const deciding = open({ message: () => promise })
  deciding.say(`${envelope}DATA\r\n.\r\n`)
  deciding.heard()
  deciding.session.cut(replies.sessionTooLong)
  expect(deciding.heard()).toBe('')
  answer(replies.ok)
  await turn()
  expect(codes(deciding.heard())).toBe('250 421 [cl')
})

test('a client that says everything and closes its side still gets every answer', async () => {
  const { promise, answer } = pending()
  const { session, say, heard } = open({ message: () => promise })
  say(`${envelope}DATA\r\ntext\r\n.\r\nNOOP\r\n`)
  session.inputEnded()
  expect(codes(heard())).toBe('220 250 250 250 354')
  answer(replies.ok)
  await turn()
  expect(codes(heard())).toBe('250 250 [cl')
})

test('also where each of them is decided behind the end of what it said', async () => {
  const soon = (reply: Reply) => () => turn().then(() => reply)
  const { session, say, heard } = open({ mail: soon(replies.senderOk), rcpt: soon(replies.recipientOk) })
  say('HELO c\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nQUIT\r\n')
  session.inputEnded()
  for (let turns = 0; turns < 5; turns++) await turn()
  expect(codes(heard())).toBe('220 250 250 250 221 [cl')
})

test('between STARTTLS and TLS nothing is said in the clear, not even that we go', () => {
  const { session, say, heard } = open()
  say('EHLO c\r\nSTARTTLS\r\n')
  heard()
  session.retire(replies.shuttingDown)
  expect(heard()).toBe('')
  session.secured()
  say('NOOP\r\n')
  expect(heard()).toMatch(/^421 4\.3\.2 /)
})

test('single bytes are no progress; commands and every KiB of content are', () => {
  const { session, say } = open({}, { messageBytesMax: 10_000, commandBytesMax: 5_000 })
  const before = session.progress
  for (const byte of 'NOOP'.repeat(500)) say(byte)
  expect(session.progress).toBe(before)
  say(`\r\n${envelope}DATA\r\n`)
  const inContent = session.progress
  expect(inContent).toBe(before + 5)
  say('x'.repeat(1000))
  expect(session.progress).toBe(inContent)
  say('x'.repeat(100))
  expect(session.progress).toBe(inContent + 1)
})

test('the envelope tells the policy what MAIL said, and whom it took', () => {
  const seen: unknown[] = []
  const { say } = open({
    message: (_, facts) => {
      seen.push(facts)
      return replies.ok
    },
  })
  say('EHLO client.example\r\nMAIL FROM:<> SIZE=4 BODY=8BITMIME\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n.\r\n')
  expect(seen).toEqual([
    {
      from: '',
      recipients: ['c@d', 'e@f'],
      size: 4,
      body: '8BITMIME',
      smtputf8: false,
    },
  ])
})

test('32 MiB of stuffed dots cost time in proportion and memory of their size only', () => {
  const bytes: number[] = []
  const { say, session, heard } = open(
    {
      message: (content) => {
        bytes.push(content.length)
        return replies.ok
      },
    },
    { messageBytesMax: 64 * 1024 * 1024 },
    64 * 1024 * 1024,
  )
  say(`${envelope}DATA\r\n`)
  const chunk = Buffer.from('..\r\n'.repeat(16 * 1024))
  for (let at = 0; at < 512; at++) session.push(Buffer.from(chunk))
  say('.\r\n')
  expect(codes(heard())).toBe('220 250 250 250 354 250')
  expect(bytes).toEqual([24 * 1024 * 1024])
})

test('a login that nobody could look at is no reason to refuse its mail for good: whoever goes on without one is told to come again', async () => {
  const offer = { ...openOffer('mx.test', true), auth: 'always', mailNeeds: { tls: false, auth: true } } as const
  let database: 'away' | 'back' = 'away'
  const auth = () => (database === 'away' ? Promise.reject(new Error('away')) : Promise.resolve(replies.authRefused))
  const { say, heard } = open({ auth }, {}, 10_000, offer)
  const login = `AUTH PLAIN ${Buffer.from('\0user\0password').toString('base64')}\r\n`
  say(`EHLO c\r\nMAIL FROM:<a@b>\r\n`)
  expect(heard()).toMatch(/530 5\.7\.0 .*\r\n$/)
  say(login)
  await turn()
  say('MAIL FROM:<a@b>\r\n')
  expect(codes(heard())).toBe('451 451')
  // Now somebody can say: it is wrong.
  database = 'back'
  say(login)
  await turn()
  say('MAIL FROM:<a@b>\r\n')
  expect(codes(heard())).toBe('535 530')
})
