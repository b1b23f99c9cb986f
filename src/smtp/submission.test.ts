// How many may log in, and how fast they may guess, over real sockets and against the real credentials: what one of them does is felt by
// that address and that credential, and by nobody else (issue 4, limits).
import { EventEmitter, once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Guesses } from '../base/guesses.ts'
import { silentLog, type Log } from '../base/log.ts'
import { makeApiKey, makeVault } from '../base/secret.ts'
import { limits } from '../config.ts'
import { refuse } from '../domain/refusal.ts'
import { isDatabaseAway } from '../store/database.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { createSmtpCredential } from '../workspace/smtp-credentials.ts'
import { makeSubmitters, type Submitters } from '../workspace/submitters.ts'
import { ContentRoom } from './content-room.ts'
import { smtpServer, type ServerLimits, type SmtpServer } from './server.ts'
import { submissionOffer, submissionPolicies } from './submission.ts'

const vault = makeVault('an installation key of the tests, long enough')
interface Login {
  readonly username: string
  readonly password: string
}

let policy: ReturnType<typeof submissionPolicies>
let submitters: Submitters
/** Says `left` when a session has ended on our side: its places are free. */
const sessionsOfOurs = new EventEmitter()
/** What the database's clock says. */
let databaseMs = Date.now()
let login: Login & { readonly id: string }
let other: Login
const refused: string[] = []
const noted: string[] = []
/** By whom, and in which words. */
const told: string[] = []
/** Of whose mail, and what of it was wrong. */
const senders: string[] = []
/** How long acceptance may still keep it. */
const leftMs: number[] = []
const log: Log = {
  ...silentLog,
  refused: ({ code, client }) => void refused.push([code, client].filter(Boolean).join(' from ')),
}
/** What acceptance fails with. */
let trouble: Error | undefined
const cleanups: (() => unknown)[] = []
/** Of a mailbox that this credential may send from. */
const addressOf = ({ username }: Login): Promise<string> =>
  world.value('select m.address from mailboxes m join smtp_credentials c using (workspace_id) where c.username = $1', [
    username,
  ])
const world = await storeWorld()
beforeEach(async () => {
  const { workspaceId } = await world.sender()
  login = await createSmtpCredential(world.db, vault, workspaceId, 'one')
  other = await createSmtpCredential(world.db, vault, workspaceId, 'other')
  refused.length = 0
  noted.length = 0
  told.length = 0
  senders.length = 0
  leftMs.length = 0
  trouble = undefined
  submitters = makeSubmitters({ db: world.db, vault, log, publicUrl: 'http://localhost' })
  const policies = submissionPolicies({
    doors: {
      ...submitters,
      acceptMail: ({ until }) => {
        leftMs.push(until - performance.now())
        if (trouble !== undefined) throw trouble
        return Promise.resolve(refuse('service_unavailable', 'Nothing is sent here.'))
      },
      noteRefused: ({ code, sender, field, recipientDomain, error, callerId }) => {
        noted.push(`${code} ${recipientDomain ?? ''}`.trim())
        senders.push(`${sender} ${field ?? ''}`.trim())
        told.push(`${callerId} ${error}`)
      },
    },
    guesses: new Guesses(),
    isDatabaseAway,
    log,
    now: () => databaseMs,
  })
  policy = (client) => {
    client.gone.addEventListener('abort', () => sessionsOfOurs.emit('left'))
    return policies(client)
  }
})
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

/** As the role has it, but for TLS, which thousands of sessions would spend a minute on. */
async function started(changes: Partial<ServerLimits> = {}, room?: ContentRoom): Promise<SmtpServer> {
  const server = smtpServer({
    name: 'submission',
    host: '127.0.0.1',
    port: 0,
    offer: { ...submissionOffer('submit.test', false), auth: 'always', mailNeeds: { tls: false, auth: true } },
    policy,
    log,
    limits: { sessionsPerLoopbackMax: limits.submissionSessionsPerLoopbackMax, ...changes },
    ...(room !== undefined && { room }),
  })
  await server.start()
  cleanups.push(() => server.stop())
  return server
}

/** A client at an address of its own. `say` answers the reply to one command; '' when the connection ended without a word. */
async function dial(server: SmtpServer, localAddress = '127.0.0.1') {
  const socket = connect({ port: server.port(), host: '127.0.0.1', localAddress, noDelay: true })
  cleanups.push(() => socket.destroy())
  let text = ''
  let wake: () => void = () => undefined
  socket.on('error', () => undefined)
  socket.on('close', () => wake())
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString()
    wake()
  })
  const reply = async (): Promise<string> => {
    while (!/^\d{3} .*\r\n/m.test(text) && !socket.closed) await new Promise<void>((resolve) => (wake = resolve))
    const said = text
    text = ''
    return said
  }
  const greeting = await reply()
  const say = (line: string): Promise<string> => {
    socket.write(`${line}\r\n`)
    return reply()
  }
  const auth = ({ username, password }: Login): Promise<string> =>
    say(`AUTH PLAIN ${Buffer.from(`\0${username}\0${password}`).toString('base64')}`)
  const ended = async (): Promise<void> => {
    if (!socket.closed) await once(socket, 'close')
  }
  if (greeting.startsWith('220')) await say('EHLO client')
  return { greeting, say, auth, ended, socket }
}
const addresses = (count: number) => Array.from({ length: count }, (_, at) => `127.0.1.${at + 1}`)
const wrong = ({ username }: Login): Login => ({ username, password: 'guessed' })

/** Enough that the next one waits for many times as long as an honest login takes: at least so long. */
const many = limits.guessesFree + 4
const waitMsMin = 400

describe('guessing a password', () => {
  /** The guess is refused late; whoever is named in `meanwhile` gets an answer before it. */
  async function slowed(server: SmtpServer, guesser: string, guess: Login, meanwhile: Record<string, [string, Login]>) {
    const order: string[] = []
    const answered = async (name: string, at: string, as: Login) => {
      const client = await dial(server, at)
      return { name, run: () => client.auth(as).then((reply) => order.push(`${name} ${reply.slice(0, 9)}`)) }
    }
    const clients = [await answered('guess', guesser, guess)]
    for (const [name, [at, as]] of Object.entries(meanwhile)) clients.push(await answered(name, at, as))
    const since = performance.now()
    await Promise.all(clients.map(({ run }) => run()))
    expect(performance.now() - since).toBeGreaterThan(waitMsMin)
    expect(order.at(-1)).toBe('guess 535 5.7.8')
    return order.toSorted()
  }

  test('of one credential is slowed wherever it comes from; its owner and other credentials are not', async () => {
    const server = await started()
    const guessers = await Promise.all(addresses(many).map((address) => dial(server, address)))
    const replies = await Promise.all(guessers.map((client) => client.auth(wrong(login))))
    expect(new Set(replies.map((reply) => reply.slice(0, 9)))).toEqual(new Set(['535 5.7.8']))
    const order = await slowed(server, '127.0.2.1', wrong(login), {
      'its owner': ['127.0.2.2', login],
      'its owner, where it was guessed': ['127.0.1.1', login],
      'a guess of another': ['127.0.2.3', wrong(other)],
      another: ['127.0.2.1', other],
    })
    expect(order).toEqual([
      'a guess of another 535 5.7.8',
      'another 235 2.7.0',
      'guess 535 5.7.8',
      'its owner 235 2.7.0',
      'its owner, where it was guessed 235 2.7.0',
    ])
    // The log says whence: who looks for a program whose login fails has nothing else.
    const from = [...addresses(many), '127.0.2.1', '127.0.2.3'].map((address) => `invalid_api_key from ${address}`)
    expect(refused.toSorted()).toEqual(from.toSorted())
  })

  test('from one address is slowed whatever it guesses, also names that do not exist; other addresses are not', async () => {
    const server = await started()
    const guessers = await Promise.all(Array.from({ length: many }, () => dial(server, '127.0.3.1')))
    await Promise.all(
      guessers.map((client, at) =>
        client.auth({ username: `smtp-${at.toString(16).padStart(16, '0')}`, password: 'x' }),
      ),
    )
    const order = await slowed(server, '127.0.3.1', wrong(login), {
      'the right one from there': ['127.0.3.1', login],
      'a guess from elsewhere': ['127.0.3.2', wrong(other)],
    })
    expect(order).toEqual(['a guess from elsewhere 535 5.7.8', 'guess 535 5.7.8', 'the right one from there 235 2.7.0'])
  })

  test('an API key in place of a login is refused in words that say so, be it a good one or not', async () => {
    const client = await dial(await started(), '127.0.4.9')
    const key = makeApiKey()
    for (const as of [
      { username: key, password: key },
      { username: login.username, password: key },
      { username: 'apikey', password: key },
    ])
      expect(await client.auth(as)).toMatch(
        /^535 5\.7\.8 .*this is an API key, and SMTP has credentials of its own\r\n$/,
      )
    expect(await client.auth(wrong(login))).toBe('535 5.7.8 Authentication credentials invalid\r\n')
  })

  test('one session may guess so often, then it is closed', async () => {
    const server = await started({ errorsMax: 3 })
    const client = await dial(server, '127.0.4.1')
    for (let guess = 1; guess < 3; guess++) expect(await client.auth(wrong(login))).toMatch(/^535 5\.7\.8 [^\n]*\r\n$/)
    expect(await client.auth(wrong(login))).toMatch(/^535 5\.7\.8 [^]*\r\n421 4\.7\.0 /)
    await client.ended()
    expect(await client.auth(login)).toBe('')
  })
})

describe('sessions', () => {
  test('one address may have so many; the next is told 421, others are served, and a place is free when one leaves', async () => {
    const most = limits.smtpSessionsPerAddressMax
    const server = await started({ sessionsPerLoopbackMax: most })
    const sessions = await Promise.all(Array.from({ length: most }, () => dial(server, '127.0.5.1')))
    expect(sessions.filter(({ greeting }) => greeting.startsWith('220'))).toHaveLength(most)
    const crowded = await dial(server, '127.0.5.1')
    expect(crowded.greeting).toMatch(/^421 4\.7\.0 Too many sessions/)
    await crowded.ended()
    expect(await (await dial(server, '127.0.5.2')).auth(login)).toMatch(/^235 /)
    // Those that stay are served as before.
    expect(await sessions[0]?.auth(login)).toMatch(/^235 /)
    const left = once(sessionsOfOurs, 'left')
    expect(await sessions[1]?.say('QUIT')).toMatch(/^221 /)
    await left
    expect((await dial(server, '127.0.5.1')).greeting).toMatch(/^220 /)
  })

  test('who has gone before the password was looked up holds no place', async () => {
    const most = limits.submissionSessionsPerCredentialMax
    for (let n = 0; n < most; n++) {
      const gone = policy({ address: '127.0.0.1', gone: new AbortController().signal })
      const answer = gone.auth?.(login.username, login.password)
      gone.ended?.()
      await answer
    }
    const session = policy({ address: '127.0.0.1', gone: new AbortController().signal })
    expect(await session.auth?.(login.username, login.password)).toMatchObject({ code: 235 })
    session.ended?.()
  })

  test('one credential may have so many over all ports; the next is told 421 and closed, other credentials are not', async () => {
    const [starttls, implicit] = [await started(), await started()]
    const most = limits.submissionSessionsPerCredentialMax
    const sessions = await Promise.all(
      Array.from({ length: most }, (_, at) => dial(at % 2 === 0 ? starttls : implicit, `127.0.6.${(at % 200) + 1}`)),
    )
    const answers = await Promise.all(sessions.map((client) => client.auth(login)))
    expect(answers.filter((answer) => answer.startsWith('235 '))).toHaveLength(most)
    for (const server of [starttls, implicit]) {
      const next = await dial(server, '127.0.7.1')
      const left = once(sessionsOfOurs, 'left')
      expect(await next.auth(login)).toMatch(/^421 4\.7\.0 Too many sessions with these credentials/)
      await Promise.all([next.ended(), left])
    }
    expect(await (await dial(starttls, '127.0.7.1')).auth(other)).toMatch(/^235 /)
    expect(await sessions[0]?.say('NOOP')).toMatch(/^250 /)

    // A session that ends in any way gives its place back, once.
    for (const leave of [() => sessions[0]?.say('QUIT'), () => void sessions[1]?.socket.resetAndDestroy()]) {
      const left = once(sessionsOfOurs, 'left')
      await leave()
      await left
      expect(await (await dial(implicit, '127.0.7.2')).auth(login)).toMatch(/^235 /)
      const next = await dial(implicit, '127.0.7.3')
      const gone = once(sessionsOfOurs, 'left')
      expect(await next.auth(login)).toMatch(/^421 /)
      await gone
    }
  })

  test('a login that was refused holds no place of the credential', async () => {
    const server = await started()
    const guessers = await Promise.all(addresses(20).map((address) => dial(server, address)))
    await Promise.all(guessers.map((client) => client.auth(wrong(login))))
    expect(await guessers[0]?.auth(login)).toMatch(/^235 /)
    expect(await guessers[0]?.auth(login)).toMatch(/^503 /)
  })
})

/** What each is told of a first chunk of so many bytes. */
async function firstChunks(server: SmtpServer, chunks: readonly (readonly [Login, number])[]): Promise<string[]> {
  const answers: string[] = []
  for (const [each, bytes] of chunks) {
    const client = await dial(server)
    const address = await addressOf(each)
    await client.say('EHLO x')
    await client.auth(each)
    expect(await client.say(`MAIL FROM:<${address}>`)).toMatch(/^250 /)
    expect(await client.say('RCPT TO:<a@b.example>')).toMatch(/^250 /)
    answers.push((await client.say(`BDAT ${bytes}\r\n${'x'.repeat(bytes - 2)}`)).slice(0, 9))
  }
  return answers
}
const strangers = async (name: string) =>
  createSmtpCredential(world.db, vault, (await world.sender()).workspaceId, name)

test('of the room for content a workspace gets its share, with however many credentials; the others find theirs', async () => {
  const server = await started({}, new ContentRoom({ bytesMax: 1_000, shareBytesMax: 600 }))
  const chunks = [
    [login, 392],
    [other, 392],
    [await strangers('third'), 392],
  ] as const
  expect(await firstChunks(server, chunks)).toEqual(['250 2.0.0', '451 4.3.1', '250 2.0.0'])
  // As over HTTP: the alert for troubles of our own hears of it.
  expect([refused, noted]).toEqual([['service_unavailable'], []])
})

test('a small mail finds room beside two workspaces that hold all of it', async () => {
  const server = await started({}, new ContentRoom({ bytesMax: 1_000, shareBytesMax: 600, smallBytesMax: 100 }))
  const chunks = [
    [login, 600],
    [await strangers('second'), 400],
    [await strangers('third'), 50],
  ] as const
  expect(await firstChunks(server, chunks)).toEqual(['250 2.0.0', '250 2.0.0', '250 2.0.0'])
})

test('what the protocol refuses stands in the record of refused submissions, too; what came in the wrong order does not', async () => {
  const client = await dial(await started({ messageBytesMax: 1_000 }))
  const address = await addressOf(login)
  const from = `MAIL FROM:<${address}>`
  expect(await client.say('RCPT TO:<nobody>')).toMatch(/^550 /)
  await client.auth(login)
  const codes: string[] = []
  const say = async (...lines: string[]) => {
    for (const line of lines) codes.push((await client.say(line)).slice(0, 3))
  }
  await say(`${from} SIZE=1001`, `${from} RET=HDRS`, 'RCPT TO:<a@b.example>', from)
  await say('RCPT TO:<nobody>', 'RCPT TO:<jörg@utf8.example>', 'RCPT TO:<a@b.example> NOTIFY=NEVER')
  await say('RCPT TO:<a@b.example>', 'DATA', 'a bare\nline feed\r\n.')
  await say(from, 'RCPT TO:<a@b.example>', 'RCPT TO:<a@c.example>', 'DATA', `${'too long\r\n'.repeat(101)}.`)
  expect(codes.join(' ')).toBe('552 555 503 250 550 553 555 250 354 550 250 250 250 354 552')
  const expected = ['payload_too_large', 'invalid_request', 'invalid_request', 'invalid_request utf8.example']
  expected.push('invalid_request b.example', 'invalid_request b.example', 'payload_too_large')
  expect(noted).toEqual(expected)
  expect(senders).toEqual(Array.from({ length: expected.length }, () => address))
  expect(refused).toEqual(expected.map((line) => line.split(' ')[0]))
})

test('the record says which sender was refused: of the envelope, or that of the mail', async () => {
  const client = await dial(await started())
  const own = await addressOf(login)
  await client.auth(login)
  for (const from of ['', 'www-data@web01', 'Visitor@example.org'])
    expect(await client.say(`MAIL FROM:<${from}>`)).toMatch(/^550 5\.7\.1 mailbox_not_active/)
  // What one mail was refused for is not told of the next.
  expect(await client.say(`MAIL FROM:<${own}> SIZE=999999999`)).toMatch(/^552 /)
  for (const header of ['From: Visitor@example.org', 'Subject: x']) {
    for (const line of [`MAIL FROM:<${own}>`, 'RCPT TO:<a@b.example>', 'DATA']) await client.say(line)
    expect(await client.say(`${header}\r\n\r\nx\r\n.`)).toMatch(/^550 5\.7\.1 /)
  }
  const envelope = ['<>', 'www-data@web01', 'Visitor@example.org'].map((from) => `${from} MAIL FROM`)
  expect(senders).toEqual([...envelope, own, 'Visitor@example.org From', own])
  expect(told.at(-1)).toBe(
    `${login.id} The mail has no From; give it one, with the address of a mailbox of this workspace`,
  )
})

test.each([
  [
    'a database whose disk is full',
    Object.assign(new Error('could not extend file'), { code: '53100', severity: 'ERROR' }),
    'service_unavailable',
  ],
  ['a fault of ours', new Error('a bug'), 'internal_error'],
])(
  '%s is counted as a refusal, as over HTTP: the alert for troubles of our own hears of mail over SMTP, too',
  async (_, error, code) => {
    const client = await dial(await started())
    const address = await addressOf(login)
    await client.auth(login)
    for (const line of [`MAIL FROM:<${address}>`, 'RCPT TO:<a@b.example>', 'DATA']) await client.say(line)
    trouble = error
    expect(await client.say(`From: ${address}\r\n\r\nx\r\n.`)).toMatch(/^451 4\.3\.0 Local error/)
    expect([refused, noted]).toEqual([[code], []])
  },
)

test.each([
  [
    'its credential is revoked',
    'update smtp_credentials set revoked_at = app_now() where id = $1',
    /^421 4\.7\.0 .*not valid any more/,
  ],
  [
    'its workspace is blocked',
    `update workspaces set status = 'blocked' where id = (select workspace_id from smtp_credentials where id = $1)`,
    /^550 5\.7\.1 workspace_blocked/,
  ],
])('of a mail that is on its way in when %s nothing is kept', async (_, change, answer) => {
  const client = await dial(await started())
  await client.auth(login)
  for (const line of [`MAIL FROM:<${await addressOf(login)}>`, 'RCPT TO:<a@b.example>', 'DATA'])
    expect(await client.say(line)).toMatch(/^(?:250|354) /)
  await world.db.run(change, [login.id])
  submitters.forget() // as the notification of the change has it done
  expect(await client.say(`From: ${await addressOf(login)}\r\n\r\n.`)).toMatch(answer)
  expect(leftMs).toEqual([])
})

test('what cannot be kept within the patience of its client is not kept: there is time left to say so', async () => {
  const client = await dial(await started())
  const address = await addressOf(login)
  await client.auth(login)
  for (const line of [`MAIL FROM:<${address}>`, 'RCPT TO:<a@b.example>', 'DATA']) await client.say(line)
  expect(await client.say(`From: ${address}\r\n\r\nx\r\n.`)).toMatch(/^451 4\.3\.0 /)
  // The last statement may take all of its time, and so may the two looks at what became of it.
  expect((leftMs[0] ?? Infinity) + 3 * limits.databaseAnswerMs).toBeLessThanOrEqual(limits.submissionAnswerMs)
})

test('a return path of ours is refused at its RCPT, as over REST; other recipients go on', async () => {
  const client = await dial(await started())
  const address = await addressOf(login)
  await client.auth(login)
  await client.say(`MAIL FROM:<${address}>`)
  expect(await client.say(`RCPT TO:<ba${'a'.repeat(42)}@bounces.w.example>`)).toMatch(
    /^550 \S+ invalid_request: The recipient is a return path, which takes reports only\./,
  )
  expect(await client.say('RCPT TO:<a@b.example>')).toMatch(/^250 /)
  expect(noted).toEqual(['invalid_request bounces.w.example'])
  expect(told).toEqual([
    expect.stringMatching(`^${login.id} The recipient is a return path, which takes reports only\\.`),
  ])
})

test('how far ahead a mail may end is measured by the clock of the database: a node whose own is wrong refuses nothing for it', async () => {
  const client = await dial(await started())
  const address = await addressOf(login)
  await client.auth(login)
  databaseMs = Date.parse('2031-01-01T00:00:00Z')
  const endingAt = async (time: string): Promise<string> => {
    for (const line of [`MAIL FROM:<${address}>`, 'RCPT TO:<a@b.example>', 'DATA']) await client.say(line)
    return client.say(`From: ${address}\r\nX-Posthorn-Expires-At: ${time}\r\n\r\nx\r\n.`)
  }
  try {
    expect(await endingAt('2031-01-07T23:00:00Z')).toMatch(/^451 \S+ .*Nothing is sent here/)
    expect(await endingAt('2031-01-08T01:00:00Z')).toMatch(/^5\d\d .*at most 7 days ahead/)
  } finally {
    databaseMs = Date.now()
  }
})
