// The bounce mailbox as a stranger meets it: what it takes, what it refuses, and what it makes of what it took. Over a real socket, on a real
// database, with reports as mail systems write them.
import { createSecretKey, generateKeyPairSync } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { dkimSign } from 'mailauth/lib/dkim/sign.js'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { startDnsServer } from '../../test/world/dns-server.ts'
import { silentLog } from '../base/log.ts'
import { makeVault } from '../base/secret.ts'
import { limits } from '../config.ts'
import { handOver, type OwnMail } from '../deliver/hand-over.ts'
import type { Claim, MessageId } from '../domain/message.ts'
import { pageUnmatchedFeedback, makeFeedback, makeReporterCheck } from '../feedback/feedback.ts'
import { makeToken } from '../mail/return-path.ts'
import { beginRemoval, carryOnRemoval } from '../store/removal.ts'
import { makeReportRecorder } from '../store/reports.ts'
import { makeReturnPathKeys } from '../store/return-path-keys.ts'
import { storeWorld, type Sender } from '../store/store.test-kit.ts'
import { feedbackServer, UnknownAddressees } from './feedback.ts'
import { hearing } from './hearing.test-kit.ts'

const vault = makeVault('a key for the tests of feedback')
const reporterKey = generateKeyPairSync('rsa', { modulusLength: 2048 })
let sender: Sender
let clockMs = 0
const world = await storeWorld()
const publicKey = reporterKey.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')
const dns = await startDnsServer({
  's1._domainkey.loop.example': { txt: [`v=DKIM1; k=rsa; p=${publicKey}`] },
  's1._domainkey.elsewhere.example': { txt: [`v=DKIM1; k=rsa; p=${publicKey}`] },
  's1._domainkey.down.example': 'servfail',
})
const server = feedbackServer({
  host: '127.0.0.1',
  port: 0,
  hostname: 'node.test',
  feedback: makeFeedback({
    db: world.db,
    keys: makeReturnPathKeys(world.db, vault),
    record: makeReportRecorder(world.db),
    provenReporter: makeReporterCheck({ dnsServers: [dns.address] }),
    hostname: 'node.test',
    log: silentLog,
  }),
  log: silentLog,
  now: () => clockMs,
})
await server.start()
beforeEach(async () => {
  clockMs += limits.feedbackUnknownMs
  sender = await world.sender()
  await world.db.run('delete from unmatched_feedback')
})
afterAll(async () => {
  await server.stop()
  await dns.stop()
})

interface Sent {
  readonly id: MessageId
  readonly token: string
  readonly address: string
}

/** A message that was transmitted, and its return path. */
async function sent(recipient = 'ann@example.org', armed = true): Promise<Sent> {
  const [claim] = (await world.claimed(sender, [{ armed, recipient }])) as Claim[] as [Claim]
  const key = await makeReturnPathKeys(world.db, vault).at(new Date())
  const token = makeToken(key, claim.id, sender.workspaceId)
  return { id: claim.id, token, address: `${token}@node.test` }
}

/** What the server said in the end: `250`, or where and why not. */
async function hand(mail: OwnMail): Promise<string> {
  const target = {
    host: '127.0.0.1',
    address: '127.0.0.1',
    port: server.port(),
    tls: 'clear',
    verify: false,
    connectionsMax: 1,
    key: 'test',
    provider: 'test',
  } as const
  const why = await handOver(target, { hostname: 'mx.there.example', timeoutScale: 10 }, mail)
  return why === undefined ? '250' : why.words
}

const crlf = (text: string): Buffer => Buffer.from(text.replace(/\r?\n/g, '\r\n'), 'latin1')

/** What a gateway that writes content so hears of a report. */
async function codesOf({ address }: Sent, content: string): Promise<string | undefined> {
  const socket = connect(server.port(), '127.0.0.1')
  const { rest } = hearing(socket)
  socket.write(`EHLO gateway.example\r\nMAIL FROM:<>\r\nRCPT TO:<${address}>\r\n${content}QUIT\r\n`)
  return (await rest()).match(/^\d{3}(?= )/gm)?.join(' ')
}

function dsn(
  { token }: Pick<Sent, 'token'>,
  action = 'failed',
  said = '550 5.1.1 no such user',
  status = '5.1.1',
): Buffer {
  return crlf(`From: MAILER-DAEMON@there.example
Subject: Undelivered Mail Returned to Sender
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain

Sorry.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.there.example

Final-Recipient: rfc822; ann@example.org
Action: ${action}
Status: ${status}
Diagnostic-Code: smtp; ${said}

--b
Content-Type: text/rfc822-headers

From: post@shop.example
X-Posthorn-Token: ${token}
--b--
`)
}

function arf({ token }: Pick<Sent, 'token'>, type = 'abuse'): Buffer {
  return crlf(`From: Feedback <fbl@loop.example>
To: complaints@node.test
Subject: complaint
Date: Sat, 21 Nov 2026 05:00:00 +0000
Message-ID: <1@loop.example>
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary="b"

--b
Content-Type: text/plain

A complaint.
--b
Content-Type: message/feedback-report

Feedback-Type: ${type}
User-Agent: Loop/1.0
Version: 1

--b
Content-Type: message/rfc822

From: post@shop.example
Subject: Hello
X-Posthorn-Token: ${token}

Hello
--b--
`)
}

const events = async ({ id }: Sent) => (await world.history(id)).slice(2).map((line) => line.split(' ')[1])
const suppressed = async () =>
  (
    await world.db.run<{ line: string }>(
      `select concat_ws(' ', recipient, reason) line from suppressions where workspace_id = $1`,
      [sender.workspaceId],
    )
  ).map(({ line }) => line)
const unmatched = async () => (await pageUnmatchedFeedback(world.db, 100)).items.map(({ reason }) => reason)

describe('who is there', () => {
  test('nobody at a return path of a workspace that was removed: a late bounce is refused, told nothing, kept nowhere, and is no guess', async () => {
    const message = await sent()
    await world.db.run('delete from outbound where message_id = $1', [message.id])
    const { workspaceId } = sender
    expect(await beginRemoval(world.db, workspaceId, 'operator:test')).toBe(true)
    await world.db.run('delete from messages where workspace_id = $1', [workspaceId])
    const late = () => hand({ from: '', to: message.address, content: dsn(message) })
    const nobody = 'rcpt: 550 5.1.1 No such address here, and nothing is relayed'
    expect(await late()).toBe(nobody) // in the middle of it
    expect(await carryOnRemoval(world.db, workspaceId, 'operator:test')).toBe(true)
    for (let n = 0; n < limits.feedbackUnknownMax; n++) expect(await late()).toBe(nobody)
    // The same network still brings reports about others.
    sender = await world.sender()
    const other = await sent()
    expect(await hand({ from: '', to: other.address, content: dsn(other) })).toBe('250')
    expect(await events(other)).toEqual(['message.hard_bounced'])
    // A complaint about it is taken, and nothing of it is kept.
    expect(await hand({ from: 'fbl@loop.example', to: 'complaints@node.test', content: arf(message) })).toBe('250')
    expect(await unmatched()).toEqual([])
  })

  test('return paths and the complaint address, in any case; nobody else, and nothing is relayed', async () => {
    const message = await sent()
    const note = crlf('Subject: hello\n\nhello\n')
    expect(await hand({ from: '', to: message.address.toUpperCase(), content: dsn(message) })).toBe('250')
    expect(await hand({ from: 'fbl@loop.example', to: 'Complaints+x@NODE.test', content: note })).toBe('250')
    for (const to of [
      'postmaster@example.org',
      'ann@example.org',
      'post@shop.example',
      'complaints@example.org',
      'root@localhost',
    ])
      expect(await hand({ from: '', to, content: note })).toBe(
        'rcpt: 550 5.1.1 No such address here, and nothing is relayed',
      )
  })

  // RFC 5321 4.5.1. Who verifies senders may ask for it (Exim: `verify = sender/callout=postmaster`), and refuses our mail for good without it.
  test('postmaster, wherever return paths lead: what is written there is kept for operators to read, without effect', async () => {
    const message = await sent()
    await world.db.run(`update domains set return_path_host = 'bounces.' || name where id = $1`, [sender.domainId])
    const name = await world.value<string>('select name from domains where id = $1', [sender.domainId])
    for (const to of ['postmaster', 'Postmaster@NODE.test', `POSTMASTER@bounces.${name}`])
      expect(await hand({ from: 'ann@example.org', to, content: dsn(message) })).toBe('250')
    expect(await unmatched()).toEqual(Array(3).fill('not_a_complaint'))
    expect(await events(message)).toEqual([])
    for (const to of [`postmaster@${name}`, 'postmaster@bounces.nobody.example', `complaints@bounces.${name}`])
      expect(await hand({ from: '', to, content: dsn(message) })).toMatch(/^rcpt: 550/)
  })

  test('forged, truncated and foreign tokens are refused, and have no effect', async () => {
    const message = await sent()
    const other = await world.sender()
    const key = await makeReturnPathKeys(world.db, vault).at(new Date())
    const { token } = message
    const forged = [
      token.slice(0, -1) + (token.endsWith('a') ? 'b' : 'a'),
      token.slice(0, -4),
      makeToken(key, message.id, other.workspaceId),
      makeToken({ ...key, secret: createSecretKey(Buffer.alloc(32)) }, message.id, sender.workspaceId),
      makeToken({ ...key, id: 'q' }, message.id, sender.workspaceId),
      makeToken(key, world.nextId(), sender.workspaceId),
    ]
    for (const local of forged)
      expect(await hand({ from: '', to: `${local}@node.test`, content: dsn(message) })).toMatch(/^rcpt: 550/)
    // A token is good at its own workspace's hosts alone.
    await world.db.run(`update domains set return_path_host = 'bounces.' || name`)
    const own = await world.value<string>('select return_path_host from domains where id = $1', [sender.domainId])
    const foreign = await world.value<string>('select return_path_host from domains where id = $1', [other.domainId])
    expect(await hand({ from: '', to: `${token}@${foreign}`, content: dsn(message) })).toMatch(/^rcpt: 550/)
    expect(await events(message)).toEqual([])
    expect(await hand({ from: '', to: `${token}@${own}`, content: dsn(message) })).toBe('250')
    expect(await events(message)).toEqual(['message.hard_bounced'])
  })

  test('a bounce of mail that went out before the record of its return path was lost counts all the same', async () => {
    const message = await sent()
    const name = await world.value<string>('select name from domains where id = $1', [sender.domainId])
    await world.db.run('update domains set return_path_host = null')
    expect(await hand({ from: '', to: `${message.token}@bounces.${name}`, content: dsn(message) })).toBe('250')
    expect(await events(message)).toEqual(['message.hard_bounced'])
  })

  test('a bounce of mail whose mailbox and domain were removed since counts all the same', async () => {
    const message = await sent()
    const name = await world.value<string>('select name from domains where id = $1', [sender.domainId])
    await world.db.run('update messages set sender = $2 where id = $1', [message.id, `post@${name}`])
    await world.db.run('delete from mailboxes where id = $1', [sender.mailboxId])
    await world.db.run('delete from domains where id = $1', [sender.domainId])
    expect(await hand({ from: '', to: `${message.token}@bounces.${name}`, content: dsn(message) })).toBe('250')
    expect(await events(message)).toEqual(['message.hard_bounced'])
  })

  test('whoever tries many addresses has to wait; then a good one is good again', async () => {
    const message = await sent()
    for (let n = 0; n < limits.feedbackUnknownMax; n++)
      expect(await hand({ from: '', to: `guess${n}@node.test`, content: dsn(message) })).toMatch(/^rcpt: 550/)
    expect(await hand({ from: '', to: message.address, content: dsn(message) })).toMatch(/^rcpt: 421/)
    clockMs += limits.feedbackUnknownMs
    expect(await hand({ from: '', to: message.address, content: dsn(message) })).toBe('250')
  })

  test('a stranger who holds all the room for content, and never ends, keeps no report out', async () => {
    const message = await sent()
    let left = limits.feedbackContentInFlightBytesMax - 100
    const held: Socket[] = []
    for (; left > 0; left -= Math.min(left, limits.feedbackBytesMax)) {
      const socket = connect({ host: '127.0.0.1', port: server.port() })
      held.push(socket)
      const { until } = hearing(socket)
      const bytes = Math.min(left, limits.feedbackBytesMax)
      socket.write(`HELO c\r\nMAIL FROM:<>\r\nRCPT TO:<postmaster@node.test>\r\nBDAT ${bytes}\r\n`)
      socket.write(Buffer.alloc(bytes, 'x'))
      await until('Chunk ok')
    }
    expect(await hand({ from: '', to: message.address, content: dsn(message) })).toBe('250')
    for (const socket of held) socket.destroy()
  })

  test('so many networks are remembered and no more: when there are more of them, the next ones wait, and nobody who is known', () => {
    let now = 0
    const unknown = new UnknownAddressees(() => now)
    unknown.areTooMany('one')
    for (let n = 0; n < limits.feedbackUnknownNetworksMax; n++) unknown.count(`network ${n}`)
    expect([unknown.areTooMany('another'), unknown.areTooMany('network 0')]).toEqual([true, false])
    now += limits.feedbackUnknownMs
    expect(unknown.areTooMany('another')).toBe(false)
  })

  test('a mail that goes round in circles is refused', async () => {
    const message = await sent()
    const hops = Buffer.from('Received: from a by b; Sat, 21 Nov 2026 05:00:00 +0000\r\n'.repeat(31))
    expect(await hand({ from: '', to: message.address, content: Buffer.concat([hops, dsn(message)]) })).toMatch(
      /^eod: 554/,
    )
    expect(await events(message)).toEqual([])
  })
})

describe('a report to a return path', () => {
  test('of a bad recipient: hard bounce, and only the own recipient is suppressed', async () => {
    const message = await sent('Bob@example.org')
    expect(await hand({ from: '', to: message.address, content: dsn(message) })).toBe('250')
    expect(await events(message)).toEqual(['message.hard_bounced'])
    expect(await suppressed()).toEqual(['Bob@example.org hard_bounce'])
  })

  test('a hundred copies at once are one event', async () => {
    const message = await sent()
    const copy = { from: '', to: message.address, content: dsn(message) }
    // As many connections as one address may have, again and again.
    for (let n = 0; n < 5; n++)
      expect(await Promise.all(Array.from({ length: 20 }, () => hand(copy)))).toEqual(Array(20).fill('250'))
    expect(await events(message)).toEqual(['message.hard_bounced'])
  })

  test.each([
    ['delivered', ['message.delivered']],
    ['delayed', ['message.soft_bounced']],
    ['relayed', []],
    ['expanded', []],
  ])('%s: %j', async (action, expected) => {
    const message = await sent()
    expect(await hand({ from: '', to: message.address, content: dsn(message, action, '250 2.0.0 ok', '2.0.0') })).toBe(
      '250',
    )
    expect(await events(message)).toEqual(expected)
    expect(await suppressed()).toEqual([])
  })

  test('refused by policy: a soft bounce, and nobody is suppressed', async () => {
    const message = await sent()
    await hand({ from: '', to: message.address, content: dsn(message, 'failed', '550 5.7.1 spam', '5.7.1') })
    expect(await events(message)).toEqual(['message.soft_bounced'])
    expect(await suppressed()).toEqual([])
  })

  test('with a sender, or about a message that was never transmitted: kept for operators, without effect', async () => {
    const [message, never] = [await sent(), await sent('ann@example.org', false)]
    await hand({ from: 'somebody@there.example', to: message.address, content: dsn(message) })
    await hand({ from: '', to: never.address, content: dsn(never) })
    expect([await events(message), await events(never), await suppressed()]).toEqual([[], [], []])
    expect((await unmatched()).sort()).toEqual(['not_armed', 'sender_not_null'])
  })

  test.each([
    ['a vacation note', 'Auto-Submitted: auto-replied\nSubject: Out of office\n\nI am away.\n'],
    [
      'a note of the recipient that sounds like a bounce',
      'From: Ann <Ann@example.org>\nAuto-Submitted: auto-generated\nSubject: I have left\n\nMail to me cannot be delivered any more: user unknown, this address does not exist.\n',
    ],
    [
      'the same about an address that the mail was forwarded to',
      'From: eve@elsewhere.example\nAuto-Submitted: auto-generated\nSubject: I have left\n\neve@elsewhere.example is no longer valid, mail cannot be delivered.\n',
    ],
    ['an answer of a person', 'From: ann@example.org\nSubject: Re: Hello\n\nThank you!\n'],
    [
      'a read receipt',
      'MIME-Version: 1.0\nContent-Type: multipart/report; report-type=disposition-notification; boundary="b"\n\n--b\nContent-Type: message/disposition-notification\n\nFinal-Recipient: rfc822; ann@example.org\nDisposition: manual-action/MDN-sent-manually; displayed\n\n--b--\n',
    ],
  ])('%s is no event', async (_, text) => {
    const message = await sent()
    expect(await hand({ from: '', to: message.address, content: crlf(`${text}\n`) })).toBe('250')
    expect(await events(message)).toEqual([])
    expect(await unmatched()).toEqual(['no_report'])
  })

  test('that was cut, so that it does not say why, is a soft bounce without consequences', async () => {
    const message = await sent()
    await hand({ from: '', to: message.address, content: crlf(`${dsn(message).toString('latin1').slice(0, 260)}\n`) })
    expect(await events(message)).toEqual(['message.soft_bounced'])
    expect(await suppressed()).toEqual([])
  })

  test.each([
    ['Postfix', '<eve@example.org> (expanded from <list@example.org>): unknown user: "eve@example.org"'],
    ['sendmail', '<eve@example.org>\n    (reason: 550 5.1.1 User Unknown)\n    (expanded from: <list@example.org>)'],
    ['Exim', '  eve@example.org\n    (generated from list@example.org)\n    550 5.1.1 User unknown'],
  ])('that says that one address was made of the recipient (%s) suppresses nobody', async (_, words) => {
    const message = await sent('list@example.org')
    const text = dsn(message).toString('latin1').replace('; ann@', '; eve@').replace('Sorry.', words)
    await hand({ from: '', to: message.address, content: crlf(text) })
    expect(await events(message)).toEqual(['message.soft_bounced'])
    expect(await suppressed()).toEqual([])
  })

  test('that names other addresses behind the recipient suppresses nobody', async () => {
    const message = await sent('list@example.org')
    const one = dsn(message).toString('latin1')
    const block = 'Final-Recipient: rfc822; eve@example.org\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n'
    const content = Buffer.from(one.replace('Final-Recipient', `${block}Final-Recipient`), 'latin1')
    await hand({ from: '', to: message.address, content })
    expect(new Set(await events(message))).toEqual(new Set(['message.soft_bounced']))
    expect(await suppressed()).toEqual([])
  })

  test('that names the recipient and others behind it: what it says of the recipient counts', async () => {
    const message = await sent()
    const one = dsn(message).toString('latin1')
    const block = 'Final-Recipient: rfc822; eve@example.org\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n'
    const content = Buffer.from(one.replace('Final-Recipient', `${block}Final-Recipient`), 'latin1')
    await hand({ from: '', to: message.address, content })
    expect(await events(message)).toEqual(['message.hard_bounced'])
    expect(await suppressed()).toEqual(['ann@example.org hard_bounce'])
  })

  test('of mail that another node accepted, whose name is its return path, counts here', async () => {
    const message = await sent()
    await world.db.run(`update messages set accepted_by = 'former.test' where id = $1`, [message.id])
    expect(await hand({ from: '', to: `${message.token}@former.test`, content: dsn(message) })).toBe('250')
    expect(await events(message)).toEqual(['message.hard_bounced'])
  })

  test.each([
    ['DATA', (content: string) => `DATA\r\n${content}\r\n.\r\n`, '354 250'],
    ['BDAT', (content: string) => `BDAT ${content.length} LAST\r\n${content}`, '250'],
  ])(
    'with bare line feeds and returns, as gateways leave them, is read like any other: %s',
    async (_, written, said) => {
      const message = await sent()
      const content = dsn(message).toString('latin1').replace('Sorry.', 'Sorry\n.\r\nMAIL FROM:<x@y.example>\rNo.')
      expect(await codesOf(message, written(content))).toBe(`220 250 250 250 ${said} 221`)
      expect(await events(message)).toEqual(['message.hard_bounced'])
    },
  )

  test('with line feeds alone, about a mail that went round in circles, does not itself', async () => {
    const message = await sent()
    const hops = 'Received: from a by b; Sat, 21 Nov 2026 05:00:00 +0000\n'.repeat(31)
    const content = dsn(message)
      .toString('latin1')
      .replaceAll('\r\n', '\n')
      .replace('From: post@shop.example', `${hops}$&`)
    expect(await codesOf(message, `BDAT ${content.length} LAST\r\n${content}`)).toBe('220 250 250 250 250 221')
    expect(await events(message)).toEqual(['message.hard_bounced'])
  })

  // 20 MB of attachments and 5 MB of text in base64; many systems return the whole mail.
  test('that returns the largest mail that we send is read like any other, and one beyond the limit is refused', async () => {
    const message = await sent()
    const largest = ((limits.attachmentsBytesMax + limits.bodyTextBytesMax) * 4) / 3
    const filler = Buffer.from(`${'x'.repeat(76)}\r\n`.repeat(Math.ceil(largest / 76)))
    const [head, tail] = dsn(message).toString('latin1').split('--b--')
    const big = Buffer.concat([Buffer.from(head ?? ''), filler, Buffer.from(`--b--${tail}`)])
    expect(await hand({ from: '', to: message.address, content: big })).toBe('250')
    expect(await events(message)).toEqual(['message.hard_bounced'])
    expect(await hand({ from: '', to: message.address, content: Buffer.concat([big, filler]) })).toMatch(/^mail: size/)
  })
})

describe('a complaint', () => {
  const signed = async (content: Buffer, domain = 'loop.example'): Promise<Buffer> => {
    const privateKey = reporterKey.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    const by = { signingDomain: domain, selector: 's1', privateKey }
    const { signatures, errors } = await dkimSign(content, { ...by, signatureData: [by] })
    expect(errors).toEqual([])
    return Buffer.concat([Buffer.from(signatures), content])
  }

  test('of a loop that proves who it is counts, and suppresses the recipient', async () => {
    const message = await sent()
    const content = await signed(arf(message))
    expect(await hand({ from: 'fbl@loop.example', to: 'complaints@node.test', content })).toBe('250')
    expect(await events(message)).toEqual(['message.complained'])
    expect(await suppressed()).toEqual(['ann@example.org complaint'])
  })

  // Amazon SNS posts to an address that is subscribed to the topic, as to an HTTPS endpoint: the JSON alone, and a foot. No mail is returned.
  test.each([
    ['in the header that is told', (token: string) => ({ headers: [{ name: 'X-Posthorn-Token', value: token }] })],
    ["as the envelope's sender", (token: string) => ({ source: `${token}@bounces.shop.example` })],
  ])('that Amazon SES tells by mail counts where our token stands %s', async (_where, tellsOf) => {
    const message = await sent()
    const notification = {
      notificationType: 'Complaint',
      mail: { messageId: 'm1', source: 'post@shop.example', ...tellsOf(message.token) },
      complaint: {
        complainedRecipients: [{ emailAddress: 'ann@example.org' }],
        complaintFeedbackType: 'abuse',
        timestamp: '2026-11-21T05:00:00.000Z',
      },
    }
    const head = 'From: AWS Notifications <no-reply@loop.example>\nSubject: AWS Notification Message\n'
    const content = await signed(
      crlf(`${head}\n${JSON.stringify(notification)}\n\n--\nIf you wish to stop receiving\n`),
    )
    expect(await hand({ from: 'no-reply@loop.example', to: 'complaints@node.test', content })).toBe('250')
    expect(await events(message)).toEqual(['message.complained'])
    expect(await suppressed()).toEqual(['ann@example.org complaint'])
  })

  test('whose key cannot be looked up now is asked to come again', async () => {
    const message = await sent()
    const content = await signed(
      Buffer.from(arf(message).toString('latin1').replaceAll('loop.example', 'down.example'), 'latin1'),
      'down.example',
    )
    const mail = { from: 'fbl@down.example', to: 'complaints@node.test', content }
    expect(await hand(mail)).toMatch(/^eod: 451/)
    expect([await events(message), await unmatched()]).toEqual([[], []])
  })

  test('to a return path counts as it is', async () => {
    const message = await sent()
    await hand({ from: 'fbl@loop.example', to: message.address, content: arf(message, 'fraud') })
    expect(await events(message)).toEqual(['message.complained'])
  })

  test.each(['not-spam', 'auth-failure', 'opt-out'])('%s is none', async (type) => {
    const message = await sent()
    await hand({ from: 'fbl@loop.example', to: message.address, content: arf(message, type) })
    await hand({ from: 'fbl@loop.example', to: 'complaints@node.test', content: await signed(arf(message, type)) })
    expect(await events(message)).toEqual([])
    expect(await suppressed()).toEqual([])
  })

  test('without a signature, with one that is broken, of another domain, or without our token: kept, without effect', async () => {
    const message = await sent()
    const good = await signed(arf(message))
    const complaints: Buffer[] = [
      arf(message),
      Buffer.from(good.toString('latin1').replace('A complaint.', 'A complaint!'), 'latin1'),
      // A good signature, and no word of the domain in From.
      await signed(arf(message), 'elsewhere.example'),
      // Two From fields: nobody knows whose word it is.
      await signed(Buffer.concat([crlf('From: eve@elsewhere.example\n'), arf(message)]), 'elsewhere.example'),
      await signed(Buffer.concat([crlf('From: eve@elsewhere.example\n'), arf(message)])),
      // Each signature costs a look-up and a hash over all of the mail.
      Buffer.concat([crlf('DKIM-Signature: v=1\n'.repeat(limits.reporterSignaturesMax)), good]),
      await signed(arf({ token: message.token.replace(/.$/, (last) => (last === '7' ? '6' : '7')) })),
      dsn(message),
    ]
    for (const content of complaints)
      expect(await hand({ from: 'fbl@loop.example', to: 'complaints@node.test', content })).toBe('250')
    expect(await events(message)).toEqual([])
    expect((await unmatched()).sort()).toEqual([
      'not_a_complaint',
      'reporter_not_proven',
      'reporter_not_proven',
      'reporter_not_proven',
      'reporter_not_proven',
      'reporter_not_proven',
      'reporter_not_proven',
      'unknown_message',
    ])
  })
})
