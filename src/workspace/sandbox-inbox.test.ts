// The sandbox's inbox says of a mail what the record says of the message.
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { effortOfWaiting } from '../base/effort.test-kit.ts'
import { limits } from '../config.ts'
import { readSubmittedMail } from '../mail/submitted-mail.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { watched } from '../store/watched.test-kit.ts'
import { listSandbox, readSandboxBytes, showSandboxMail } from './sandbox-inbox.ts'

const world = await storeWorld()

/** The only mail in the inbox of a workspace. */
async function handedIn(mail: Buffer) {
  const { workspaceId } = await world.sender()
  await world.db.run(
    `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id)
     values (gen_random_uuid(), now(), '', 'r@x.test', $2, $1)`,
    [workspaceId, mail],
  )
  const { items } = await listSandbox(world.db, workspaceId, { most: 10 })
  if (items[0] === undefined) throw new Error('it is not there')
  return { workspaceId, listed: items[0] }
}

test.each([
  ['a line break that was encoded', '=?utf-8?Q?a=0D=0ABcc:_x?=', 'a Bcc: x'],
  ['other ends of a line', '=?utf-8?Q?a=C2=85b=E2=80=A8c=00d?=', 'a b c d'],
  ['letters', '=?utf-8?Q?Gr=C3=BC=C3=9Fe?=', 'Grüße'],
  ['more than a record holds', 'x'.repeat(limits.subjectCodePointsMax - 10) + '\r\n ' + 'y'.repeat(20), undefined],
])('a subject is the one of the record, in one line: %s', async (_, field, expected) => {
  const mail = Buffer.from(`From: a@b.example\r\nSubject: ${field}\r\n\r\nHi\r\n`)
  const recorded = readSubmittedMail(mail, false, Date.now())
  const subject = 'subject' in recorded ? recorded.subject : undefined
  if (expected !== undefined) expect(subject).toBe(expected)
  const { workspaceId, listed } = await handedIn(mail)
  expect(listed.subject).toBe(subject)
  expect((await showSandboxMail(world.db, workspaceId, listed.id)).subject).toBe(subject)
})

test('a large mail is read from the database slice by slice, as it is taken, and comes whole', async () => {
  const lines = Array.from(
    { length: 40_000 },
    (_, n) => `line ${n} of a mail that is larger than a few slices, and has no end\r\n`,
  )
  const mail = Buffer.from(`From: a@b.example\r\nSubject: x\r\n\r\n${lines.join('')}`)
  const { workspaceId, listed } = await handedIn(mail)
  const answered: number[] = []
  const db = watched(world.db, {
    answered: (_, rows) => {
      for (const value of rows.flatMap((row) => Object.values(row)))
        if (Buffer.isBuffer(value)) answered.push(value.length)
    },
  })
  const id = listed.id
  const { sizeBytes, bytes } = await readSandboxBytes(db, workspaceId, id)
  expect(sizeBytes).toBe(mail.length)
  // Nothing is read for a reader that takes nothing.
  expect(answered).toEqual([])
  const first = (await bytes.next()).value as Buffer
  expect(answered).toEqual([limits.sandboxSliceBytes])
  expect(Buffer.concat([first, await buffer(bytes)]).equals(mail)).toBe(true)
  expect(Math.max(...answered)).toBe(limits.sandboxSliceBytes)
  expect((await showSandboxMail(db, workspaceId, id)).text).toContain('line 39999 ')
  expect(Math.max(...answered)).toBe(limits.sandboxSliceBytes)
})

test('of a text that is too large for anybody to read the beginning is shown, and files keep their size', async () => {
  const text = 'what nobody reads to its end\r\n'.repeat(200_000)
  const file = `${'QUJD'.repeat(19)}\r\n`.repeat(100)
  const part = (head: string, body: string) => `--b\r\n${head}\r\n\r\n${body}\r\n`
  const mail = [
    'Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n',
    part('Content-Type: text/plain', text),
    part('Content-Type: text/html', `<p>${text}</p>`),
    part('Content-Type: image/png; name=a.png\r\nContent-Transfer-Encoding: base64', file),
    part('Content-Type: text/plain; name=b.txt\r\nContent-Disposition: attachment; filename=b.txt', file),
    part('Content-Type: text/plain; name=c.log', file),
    '--b--\r\n',
  ].join('')
  const { workspaceId, listed } = await handedIn(Buffer.from(mail))
  const shown = await showSandboxMail(world.db, workspaceId, listed.id)
  expect(shown.whole).toBe(false)
  expect(shown.text?.startsWith('what nobody reads')).toBe(true)
  expect(shown.text?.length).toBeLessThan(1.1 * limits.previewBytesMax)
  expect(shown.html?.length).toBeLessThan(1.5 * limits.previewBytesMax)
  expect(shown.attachments.map(({ filename, sizeBytes }) => [filename, Math.round(sizeBytes / 1_000)])).toEqual([
    ['a.png', 6],
    ['b.txt', 8],
    ['c.log', 8],
  ])
  expect(shown.sizeBytes).toBe(mail.length)
})

test.each([
  ['text/plain', '\r\n'],
  ['text/html', '\r\n'],
  ['text/plain', 'a\r\n'],
])('however a mail is written, it is read in no time: %s of %j', async (type, line) => {
  const head = `From: a@b.example\r\nSubject: x\r\nMIME-Version: 1.0\r\nContent-Type: ${type}\r\n\r\n`
  const mail = Buffer.from(head + line.repeat((limits.previewBytesMax - head.length) / line.length))
  const { workspaceId, listed } = await handedIn(mail)
  const effort = await effortOfWaiting(async () => {
    const shown = await showSandboxMail(world.db, workspaceId, listed.id)
    expect(shown.whole).toBe(true)
  })
  // A second or less. With a reader that takes each line by itself it was a minute, and some gigabytes.
  expect(effort).toBeLessThan(5_000)
})

test('a mail is told with its fields as they stand, its forms and its files', async () => {
  const part = (head: string, body: string) => `--b\r\n${head}\r\n\r\n${body}\r\n`
  const mail = [
    'Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nX-Long: one\r\n two\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n',
    part('Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable', 'Gr=FC=DFe'),
    part('Content-Type: text/html', '<p>Hi</p>'),
    part('Content-Type: application/pdf; name="a.pdf"\r\nContent-Transfer-Encoding: base64', 'QUJD'),
    part('Content-Type: message/rfc822', 'Subject: inner\r\n\r\nbody'),
    '--b--\r\n',
  ].join('')
  const { workspaceId, listed } = await handedIn(Buffer.from(mail))
  const shown = await showSandboxMail(world.db, workspaceId, listed.id)
  expect(shown).toMatchObject({
    subject: 'Grüße',
    headers: [
      { name: 'Subject', value: '=?utf-8?q?Gr=C3=BC=C3=9Fe?=' },
      { name: 'X-Long', value: 'one two' },
      { name: 'MIME-Version', value: '1.0' },
      { name: 'Content-Type', value: 'multipart/mixed; boundary=b' },
    ],
    text: 'Grüße',
    html: '<p>Hi</p>',
    attachments: [
      { filename: 'a.pdf', contentType: 'application/pdf', sizeBytes: 3 },
      { filename: 'unnamed', contentType: 'message/rfc822' },
    ],
    whole: true,
  })
})
