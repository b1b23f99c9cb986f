// Mail handed in over SMTP by the programs that people use, delivered as it was handed in: the same octets behind trace and signature, one
// message for each recipient of the envelope, and the same quota and suppressions as over REST.
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect as connectTcp } from 'node:net'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../../src/config.ts'
import { atTheEnd, ending } from '../world/ending.ts'
import { certificateFor } from '../world/certificates.ts'
import { dkimVerdicts } from '../world/dkim-verdict.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { submitThroughExim } from '../world/exim.ts'
import { startPostfix } from '../world/postfix.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'
import { makeSmtpLogin, submitterOf, type SmtpLogin } from '../world/submitter.ts'

const exec = promisify(execFile)

let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace
let login: SmtpLogin
beforeAll(async () => {
  receiver = await ending(startReceiver, { content: true })
  posthorn = await ending(startPosthorn, { settings: { POSTHORN_ROUTE: `smtp://127.0.0.1:${receiver.port}` } })
  shop = await posthorn.workspace()
  login = await makeSmtpLogin(posthorn, shop)
})

const transport = (changes: object = {}) => submitterOf(posthorn, login, changes)
/** What was delivered to an address, as it came. */
async function delivered(recipient: string): Promise<string> {
  for (let ledger = await receiver.ledger(); ; ledger = await receiver.waitFor(ledger.length + 1)) {
    const line = ledger.find(({ to }) => to.includes(recipient))
    if (line !== undefined) return line.content ?? ''
  }
}
const idsIn = (reply: string): string[] => reply.match(/[0-9a-f]{8}-[0-9a-f-]{27}/g) ?? []

describe('programs that people use', () => {
  test('a multipart/alternative with three Bcc recipients: the same octets for each, signed, and nobody sees the others', async () => {
    const mail = [
      `From: The Shop <${shop.address}>`,
      'To: undisclosed-recipients:;',
      'Bcc: bcc-1@receiver.test, bcc-2@receiver.test,',
      ' bcc-3@receiver.test',
      'Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=',
      'Date: Fri, 20 Nov 2026 10:00:00 +0100',
      'Message-ID: <three@client.example>',
      'X-Posthorn-Token: forged',
      'MIME-Version: 1.0',
      'Content-Type: multipart/alternative; boundary="b=_1"',
      '',
      'preamble  with  blanks ',
      '--b=_1',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: 8bit',
      '',
      'Grüße aus Köln.',
      '.',
      '..two dots',
      '--b=_1',
      'Content-Type: text/html; charset=utf-8',
      '',
      '<p>Gr&uuml;&szlig;e</p>',
      '--b=_1--',
      '',
    ].join('\r\n')
    const recipients = ['bcc-1@receiver.test', 'bcc-2@receiver.test', 'bcc-3@receiver.test']
    const { response } = await transport().sendMail({ envelope: { from: shop.address, to: recipients }, raw: mail })
    const ids = idsIn(response)
    expect(ids).toHaveLength(3)
    const kept = Buffer.from(mail.replace(/Bcc:.*\r\n .*\r\n/, '').replace(/X-Posthorn.*\r\n/, '')).toString('latin1')
    for (const recipient of recipients) {
      const content = await delivered(recipient)
      expect(content.endsWith(kept)).toBe(true)
      const added = content.slice(0, -kept.length)
      expect(added).toMatch(/^Received: by node\.test with ESMTPSA\r\n\tid .*\r\n\t.*\r\nDKIM-Signature: [^]*$/)
      for (const other of recipients) expect(added).not.toContain(other)
      expect(await dkimVerdicts(content, shop.records)).toEqual([`pass ${shop.address.split('@')[1]}`])
    }
    const status = await shop.settled(ids[0] ?? '')
    expect(status.message).toMatchObject({
      subject: 'Grüße',
      bodyText: 'Grüße aus Köln.\n.\n..two dots',
      sender: shop.address,
      recipient: 'bcc-1@receiver.test',
      mailboxId: shop.mailboxId,
    })
    const shown = await posthorn.cli<{ bodyText: string; events: object[] }>('message', 'show', ids[2] ?? '')
    expect(shown).toMatchObject({ bodyText: 'Grüße aus Köln.\n.\n..two dots', subject: 'Grüße' })
    expect(shown.events.length).toBeGreaterThan(2)
  })

  test('nodemailer over TLS from the first byte, with an attachment of several megabytes', async () => {
    const content = Buffer.alloc(5_000_000, 'attached ')
    const smtps = transport({ port: posthorn.smtpsPort, secure: true, requireTLS: false })
    const { response } = await smtps.sendMail({
      from: shop.address,
      to: 'big@receiver.test',
      subject: 'Big',
      text: 'See the attachment.',
      attachments: [{ filename: 'a.bin', content }],
    })
    expect(idsIn(response)).toHaveLength(1)
    const wire = await delivered('big@receiver.test')
    const encoded = /a\.bin\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition.*\r\n\r\n([^-]*)/.exec(
      wire,
    )?.[1]
    expect(Buffer.from(encoded ?? wire.split('\r\n\r\n').at(-1) ?? '', 'base64').equals(content)).toBe(true)
    expect(await dkimVerdicts(wire, shop.records)).toEqual([`pass ${shop.address.split('@')[1]}`])
    expect((await shop.status(idsIn(response)[0] ?? '')).message).toMatchObject({ bodyText: 'See the attachment.' })
  })

  test(
    'attachments have the limits that they have over REST: 10 of them, 20 MiB together',
    { timeout: 180_000 },
    async () => {
      const sendOnce = (...files: (number | Buffer)[]): Promise<string> =>
        transport()
          .sendMail({
            from: shop.address,
            to: 'files@receiver.test',
            subject: 'Files',
            html: '<p>See the attachments, and <img src="cid:logo">.</p>',
            attachments: [
              { filename: 'logo.png', content: Buffer.from('a picture of the text'), cid: 'logo' },
              ...files.map((content, n) => ({
                filename: `${n}.bin`,
                content: typeof content === 'number' ? Buffer.alloc(content, 'file ') : content,
              })),
            ],
          })
          .then(
            ({ response }) => response,
            (error: { response?: string; message: string }) => error.response ?? error.message,
          )
      // As a mail program does: scanning stands behind all else, and on a busy machine it may not be done in time with 20 MB.
      const send = async (...files: (number | Buffer)[]): Promise<string> => {
        for (;;) {
          const answer = await sendOnce(...files)
          if (!answer.startsWith('451 4.3.0 scanner_unavailable')) return answer
        }
      }
      const kept = async () =>
        (
          await posthorn.query<{ n: number }>(
            `select count(*)::integer n from messages where recipient = 'files@receiver.test'`,
          )
        )[0]?.n
      const limit = 20 * 1024 * 1024
      expect(await send(...Array.from({ length: 11 }, () => 10))).toMatch(
        /^552 5\.3\.4 too_many_attachments: This mail has 11 attachments; send at most 10/,
      )
      expect(await send(limit - 10, 11)).toMatch(
        /^552 5\.3\.4 attachments_too_large: The attachments of this mail are larger than 20 MB/,
      )
      expect(await kept()).toBe(0)
      expect(await send(...Array.from({ length: 10 }, () => 10))).toMatch(/^250 2\.0\.0 Accepted as /)
      expect(await send(limit - 10, 10)).toMatch(/^250 2\.0\.0 Accepted as /)
      const refused = async () =>
        (await posthorn.cli<{ code: string }[]>('message', 'refused', shop.id))
          .map(({ code }) => code)
          .filter((code) => code !== 'scanner_unavailable')
      let codes = await refused()
      while (codes.length < 2) codes = await refused()
      expect(codes.toSorted()).toEqual(['attachments_too_large', 'too_many_attachments'])
    },
  )

  // What an MTA does whose answer was lost, when one of its recipients has bounced meanwhile.
  test('an expiry and metadata travel in the header, are told in status, and the recipient sees neither', async () => {
    const expiresAt = new Date(Math.ceil(Date.now() / 1000) * 1000 + 3600_000)
    const metadata = { orderId: '1042', note: 'Größe "L", '.repeat(20).trim() }
    const { response } = await transport().sendMail({
      from: shop.address,
      to: 'expiring@receiver.test',
      subject: 'Your link',
      text: 'Good for an hour.',
      headers: { 'X-Posthorn-Expires-At': expiresAt.toISOString(), 'X-Posthorn-Metadata': JSON.stringify(metadata) },
    })
    const { message } = await shop.settled(idsIn(response)[0] ?? '')
    expect(message).toMatchObject({ metadata, expiresAt: expiresAt.toISOString() })
    expect(await delivered('expiring@receiver.test')).not.toMatch(/X-Posthorn-(?:Expires|Metadata)|1042/i)
    await expect(
      transport().sendMail({
        from: shop.address,
        to: 'expiring@receiver.test',
        text: 'Too late.',
        headers: { 'X-Posthorn-Expires-At': '2026-01-01T00:00:00Z' },
      }),
    ).rejects.toThrow(/550 5\.6\.0 invalid_request: X-Posthorn-Expires-At must be in the future/)
  })

  test('the same mail again, with one recipient suppressed by now: the other one does not get it twice', async () => {
    const raw = `From: ${shop.address}\r\nSubject: Again\r\nMessage-ID: <again@client.example>\r\n\r\nx\r\n`
    const send = () =>
      transport().sendMail({
        envelope: { from: shop.address, to: ['again-1@receiver.test', 'again-2@receiver.test'] },
        raw,
      })
    const first = idsIn((await send()).response)
    await posthorn.cli('suppression', 'add', shop.id, 'again-1@receiver.test')
    const { rejected, response } = await send()
    expect([rejected, idsIn(response)]).toEqual([['again-1@receiver.test'], first.slice(1)])
  })

  test('a mail of a device without a Message-ID, which its mail server hands in again: known by the id that the server has given it', async () => {
    const raw = (trace: string) => `${trace}From: ${shop.address}\r\nSubject: Paper jam\r\n\r\nTray 2\r\n`
    const send = async (mail: string) =>
      idsIn(
        (await transport().sendMail({ envelope: { from: shop.address, to: 'jam@receiver.test' }, raw: mail })).response,
      )
    const taken = (id: string) =>
      raw(`Received: by mx.example (Postfix) with ESMTP id ${id};\r\n\tFri, 20 Nov 2026 10:00:00 +0000\r\n`)
    const first = await send(taken('A0D07180A3C'))
    expect(await send(taken('A0D07180A3C'))).toEqual(first)
    // Another one, and two that nobody has given a name.
    const others = [await send(taken('A0D07180A3D')), await send(raw('')), await send(raw(''))]
    expect(new Set([first, ...others].flat()).size).toBe(4)
  })

  test('whose yes was lost in an outage of days: its mail server hands it in again, and there is one copy; a script that sends one file each night sends a mail each night', async () => {
    const send = async (date: string) => {
      const head = `From: ${shop.address}\r\nSubject: Nightly\r\nDate: ${date}\r\nMessage-ID: <nightly@client.example>`
      const { response } = await transport().sendMail({
        envelope: { from: shop.address, to: ['nightly@receiver.test'] },
        raw: `${head}\r\n\r\nx\r\n`,
      })
      return idsIn(response)
    }
    const [today, longAgo] = [new Date().toUTCString(), 'Mon, 05 Oct 2026 03:00:00 +0000']
    const first = [await send(today), await send(longAgo)]
    await posthorn.query(
      `update idempotency_keys set created_at = created_at - interval '5 days' where message_id = any ($1)`,
      [first.flat()],
    )
    expect(await send(today)).toEqual(first[0])
    expect(await send(longAgo)).not.toEqual(first[1])
  })

  test('a repeat is found by what an earlier release has written of it: these hashes stay as they are, or an upgrade sends it twice', async () => {
    const hash = (...lines: string[]) => createHash('sha256').update(lines.join('\n')).digest('hex')
    const to = ['kept-1@receiver.test', 'kept-2@receiver.test']
    const raw = (head: string) => `From: ${shop.address}\r\nSubject: Kept\r\n${head}\r\n\r\nx\r\n`
    const mails = ['Message-ID: <kept@client.example>', 'X-Idempotency-Key: kept-4711'].map(raw)
    for (const mail of mails) await transport().sendMail({ envelope: { from: shop.address, to }, raw: mail })
    const contents = mails.map((mail) => hash(mail)) as [string, string]
    const repeat = hash(login.id, shop.address, contents[0])
    const rows = await posthorn.query<{ endpoint: string; key: string; body_hash: string }>(
      'select endpoint, key, body_hash from idempotency_keys where body_hash = any ($1) or key = $2',
      [[contents[0]], 'kept-4711'],
    )
    const written = rows.map(({ endpoint, key, body_hash }) => [endpoint, key, body_hash].join(' '))
    expect(new Set(written)).toEqual(
      new Set([
        ...to.map((address) => `smtp-repeat ${hash(repeat, address)} ${contents[0]}`),
        `smtp kept-4711 ${hash(shop.address, contents[1])}`,
      ]),
    )
  })

  test('swaks, and what a missing Message-ID and Date are replaced by', async () => {
    const data = `From: ${shop.address}\\nTo: swaks@receiver.test\\nSubject: Hello\\n\\nIt works.\\n`
    const options = `--server 127.0.0.1 --port ${posthorn.smtpPort} --tls --auth LOGIN --auth-user ${login.username}`
    const envelope = `--auth-password ${login.password} --from ${shop.address} --to swaks@receiver.test --data`
    const { stdout } = await exec('swaks', [...options.split(' '), ...envelope.split(' '), data])
    const [id] = idsIn(stdout)
    const content = await delivered('swaks@receiver.test')
    expect(content).toMatch(new RegExp(`^Message-ID: <${id}@${shop.address.split('@')[1]}>\\r$`, 'm'))
    expect(content).toMatch(/^Date: \w{3}, \d\d \w{3} \d{4} [\d:]{8} \+0000\r$/m)
  })

  test("Python's smtplib, which speaks EHLO, STARTTLS, AUTH and send_message by the book", async () => {
    const script = `
import smtplib, ssl, sys
from email.message import EmailMessage
port, user, password, sender = sys.argv[1:]
message = EmailMessage()
message['From'], message['To'], message['Subject'] = sender, 'python@receiver.test', 'Grüße'
message.set_content('Hällo\\n.\\nWelt\\n')
with smtplib.SMTP('127.0.0.1', int(port)) as client:
    client.starttls(context=ssl._create_unverified_context())
    client.login(user, password)
    assert client.send_message(message) == {}
`
    const python = spawn('python3', ['-', String(posthorn.smtpPort), login.username, login.password, shop.address], {
      stdio: ['pipe', 'inherit', 'inherit'],
    })
    python.stdin.end(script)
    expect(await once(python, 'exit')).toEqual([0, null])
    expect(await delivered('python@receiver.test')).toContain('\r\nSubject: =?utf-8?')
  })

  test('Exim with as many recipients as we take: it understands our yes to all of them, and has nothing left to repeat', async () => {
    const to = Array.from({ length: limits.smtpRecipientsMax }, (_, at) => `exim-${at}@receiver.test`)
    const said = await submitThroughExim(
      { port: posthorn.smtpPort, user: login.username, password: login.password },
      { from: shop.address, to, mail: `From: ${shop.address}\nTo: all@receiver.test\nSubject: To all\n\nHello\n` },
    )
    // Each line tells the reply that it has read.
    const taken = said
      .split('\n')
      .filter((line) => / [=-]> exim-\d+@receiver\.test .* C="250-2\.0\.0 Accepted as /.test(line))
    expect([taken.length, said.match(/ (?:==|\*\*) .*/)]).toEqual([to.length, null])
    // msmtp reads 50 lines.
    const { response } = await transport().sendMail({
      envelope: { from: shop.address, to },
      raw: `From: ${shop.address}\r\n\r\nx\r\n`,
    })
    const lines = response.split('\n')
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(510)
    expect([lines.length < 50, new Set(idsIn(response)).size]).toEqual([true, to.length])
  })

  test('Postfix as a relay client with SASL hands on what it was given', { timeout: 270_000 }, async () => {
    const inner = { user: 'app', password: 'relay' }
    const relay = await startPostfix({
      login: inner,
      certificate: certificateFor(),
      nextPort: posthorn.smtpPort,
      nextLogin: { user: login.username, password: login.password },
    })
    try {
      const through = transport({ port: relay.port, auth: { user: `${inner.user}@relay.test`, pass: inner.password } })
      await through.sendMail({ from: shop.address, to: 'postfix@receiver.test', subject: 'Relayed', text: 'Grüße' })
      const content = await delivered('postfix@receiver.test')
      expect(content).toContain('by relay.test (Postfix)')
      expect(await dkimVerdicts(content, shop.records)).toEqual([`pass ${shop.address.split('@')[1]}`])
    } finally {
      await relay.stop()
    }
  })
})

describe('what is shared with REST', () => {
  test('SMTP and REST at once on a remainder of 5: exactly 5 are accepted', async () => {
    const small = await posthorn.workspace({ plan: { daily: 5 } })
    const own = await makeSmtpLogin(posthorn, small)
    const pool = submitterOf(posthorn, own, { pool: true, maxConnections: 5 })
    const overSmtp = Array.from({ length: 10 }, (_, at) =>
      pool
        .sendMail({ from: small.address, to: `quota@receiver.test`, subject: `${at}`, text: 'x' })
        .then(() => 250)
        .catch((error: { responseCode: number; response: string }) => {
          expect(error.response).toMatch(/^452 4\.7\.1 daily_limit_reached: .*\(day \d of 5 left, reset in \d+ s\)$/)
          return error.responseCode
        }),
    )
    const overRest = Array.from(
      { length: 10 },
      async () => (await small.send({ recipient: 'quota@receiver.test' })).status,
    )
    const answers = await Promise.all([...overSmtp, ...overRest])
    pool.close()
    expect(answers.filter((answer) => answer === 250 || answer === 202)).toHaveLength(5)
    expect(answers.filter((answer) => answer === 452 || answer === 429)).toHaveLength(15)
    const [row] = await posthorn.query<{ kept: number }>(
      'select count(*)::integer kept from messages where workspace_id = $1',
      [small.id],
    )
    expect(row?.kept).toBe(5)
    // What never became a message is there to be seen, whichever way it came.
    let refused: { source: string; code: string }[] = []
    while (refused.length < 15) refused = await posthorn.cli('message', 'refused', small.id)
    expect(new Set(refused.map(({ source, code }) => `${source} ${code}`))).toEqual(
      new Set(
        answers.flatMap((answer) =>
          answer === 452 ? ['smtp daily_limit_reached'] : answer === 429 ? ['rest daily_limit_reached'] : [],
        ),
      ),
    )
  })

  test('a suppressed recipient is refused at RCPT, the others get their mail', async () => {
    await posthorn.cli('suppression', 'add', shop.id, 'gone@receiver.test')
    const sent = await transport().sendMail({
      from: shop.address,
      to: ['Gone@Receiver.test', 'still-here@receiver.test'],
      subject: 'Hello',
      text: 'x',
    })
    expect(sent.rejected).toEqual(['Gone@receiver.test'])
    expect(sent.rejectedErrors?.[0]?.response).toMatch(/^550 5\.7\.1 recipient_suppressed/)
    expect(idsIn(sent.response)).toHaveLength(1)
    await delivered('still-here@receiver.test')
  })
})

/** Logged in, line by line: answers with what the server says. */
async function sessionOf({ username, password }: SmtpLogin): Promise<(line: string) => Promise<string>> {
  const socket = connect({ host: '127.0.0.1', port: posthorn.smtpsPort, rejectUnauthorized: false })
  socket.on('error', () => undefined) // whoever waits for an answer is told
  atTheEnd(() => socket.destroy())
  const say = async (line: string): Promise<string> => {
    socket.write(`${line}\r\n`)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    return answer.toString()
  }
  await once(socket, 'data')
  await say('EHLO client')
  expect(await say(`AUTH PLAIN ${Buffer.from(`\0${username}\0${password}`).toString('base64')}`)).toMatch(/^235 /)
  return say
}

describe('a session', () => {
  test('a mailbox that is removed in the middle of a mail sends nothing: the mail is refused, and the session goes on', async () => {
    const old = shop.address.replace(/^[^@]*/, 'old')
    const { id } = await posthorn.cli<{ id: string }>('mailbox', 'add', shop.id, old)
    const say = await sessionOf(login)
    expect(await say(`MAIL FROM:<${old}>`)).toMatch(/^250 /)
    expect(await say('RCPT TO:<late@receiver.example>')).toMatch(/^250 /)
    expect(await posthorn.cli('mailbox', 'remove', id)).toEqual({ removed: old })
    expect(await say('DATA')).toMatch(/^354 /)
    expect(await say(`From: <${old}>\r\nSubject: Too late\r\n\r\nHello\r\n.`)).toMatch(/^550 5\.7\.1 /)
    // Senders are remembered for less than a second.
    while ((await say(`MAIL FROM:<${old}>`)).startsWith('250 ')) await say('RSET')
    expect(await say(`MAIL FROM:<${old}>`)).toMatch(/^550 5\.7\.1 /)
    expect(await say(`MAIL FROM:<${shop.address}>`)).toMatch(/^250 /)
    expect(await posthorn.query(`select id from messages where subject = 'Too late'`)).toEqual([])
  })

  test('the sender of MAIL must be a mailbox still when the mail is whole, also where From is another', async () => {
    const old = shop.address.replace(/^[^@]*/, 'former')
    const { id } = await posthorn.cli<{ id: string }>('mailbox', 'add', shop.id, old)
    const [say, beside] = [await sessionOf(login), await sessionOf(login)]
    for (const line of [`MAIL FROM:<${old}>`, 'RCPT TO:<late@receiver.example>'])
      expect(await say(line)).toMatch(/^250 /)
    await posthorn.cli('mailbox', 'remove', id)
    // Senders are remembered for less than a second.
    while ((await beside(`MAIL FROM:<${old}>`)).startsWith('250 ')) await beside('RSET')
    expect(await say('DATA')).toMatch(/^354 /)
    expect(await say(`From: <${shop.address}>\r\nSubject: Too late\r\n\r\nHello\r\n.`)).toMatch(/^550 5\.7\.1 /)
  })

  test('a revoked credential is felt at the next MAIL of an open session, within a second', async () => {
    const own = await makeSmtpLogin(posthorn, shop)
    const say = await sessionOf(own)
    expect(await say(`MAIL FROM:<${shop.address}>`)).toMatch(/^250 /)
    await say('RSET')
    await posthorn.cli('smtp-credential', 'revoke', own.id)
    const revoked = performance.now()
    let begun = revoked
    let answer = await say(`MAIL FROM:<${shop.address}>`)
    while (answer.startsWith('250')) {
      expect(begun - revoked).toBeLessThan(1_000)
      await say('RSET')
      begun = performance.now()
      answer = await say(`MAIL FROM:<${shop.address}>`)
    }
    expect(answer).toMatch(/^421 4\.7\.0 /)
    await expect(submitterOf(posthorn, own).verify()).rejects.toThrow(/535/)
  })

  test.each([
    [
      'a revoked credential',
      (login: SmtpLogin) => posthorn.cli('smtp-credential', 'revoke', login.id),
      /^421 4\.7\.0 /,
    ],
    [
      'a blocked workspace',
      (_: SmtpLogin, workspace: string) => posthorn.cli('workspace', 'set', workspace, '--status', 'blocked'),
      /^550 5\.7\.1 workspace_blocked/,
    ],
  ])('%s is felt at the dot of an open transaction', async (_, stop, expected) => {
    const other = await posthorn.workspace()
    const own = await posthorn.cli<SmtpLogin>('smtp-credential', 'create', other.id)
    const say = await sessionOf(own)
    await say(`MAIL FROM:<${other.address}>`)
    await say('RCPT TO:<ann@receiver.test>')
    expect(await say('DATA')).toMatch(/^354 /)
    await stop(own, other.id)
    // Another session tells when the server has heard of it.
    const another = () =>
      submitterOf(posthorn, own).sendMail({
        from: other.address,
        to: 'ann@receiver.test',
        text: 'x',
      })
    await expect.poll(() => another().then(String, () => 'refused'), { timeout: 60_000 }).toBe('refused')
    expect(await say(`From: ${other.address}\r\n\r\nx\r\n.`)).toMatch(expected)
  })

  test('no ticket costs a client that comes with one mail anything (bin/openssl.cnf), and an operator’s own OpenSSL settings hold', async () => {
    /** Of TLS 1.3, between the handshake and the end of a session. */
    const tickets = async (): Promise<number> => {
      const socket = connect({ host: '127.0.0.1', port: posthorn.smtpsPort, rejectUnauthorized: false })
      let seen = 0
      socket.on('session', () => seen++)
      await once(socket, 'data')
      expect(socket.getProtocol()).toBe('TLSv1.3')
      socket.resume().end('QUIT\r\n')
      await once(socket, 'close')
      return seen
    }
    expect(await tickets()).toBe(0)
    const own = join(posthorn.dataDir, 'openssl.cnf')
    writeFileSync(own, '')
    await posthorn.stop()
    await posthorn.startAgain({ OPENSSL_CONF: own })
    expect(await tickets()).toBe(2)
    await posthorn.stop()
    await posthorn.startAgain()
  })

  test('the same certificate after a restart; no password in what was said', async () => {
    const seen = async (): Promise<string> => {
      const socket = connect({ host: '127.0.0.1', port: posthorn.smtpsPort, rejectUnauthorized: false })
      await once(socket, 'secureConnect')
      const { fingerprint256 } = socket.getPeerCertificate()
      socket.destroy()
      return fingerprint256
    }
    const before = await seen()
    await posthorn.stop()
    await posthorn.startAgain()
    expect(await seen()).toBe(before)
    expect(posthorn.said()).not.toContain(login.password)
    expect(readFileSync(join(posthorn.dataDir, 'smtp-tls.pem'), 'utf8')).toContain('BEGIN CERTIFICATE')
    const plain = connectTcp({ host: '127.0.0.1', port: posthorn.smtpPort })
    expect(((await once(plain, 'data')) as [Buffer])[0].toString()).toMatch(/^220 node\.test ESMTP/)
    plain.destroy()
  })
})
