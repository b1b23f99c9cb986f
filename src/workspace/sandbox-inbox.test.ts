// The sandbox's inbox says of a mail what the record says of the message.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { limits } from '../config.ts'
import { readSubmittedMail } from '../mail/submitted-mail.ts'
import { storeWorld, type StoreWorld } from '../store/store.test-kit.ts'
import { listSandbox, showSandboxMail } from './sandbox-inbox.ts'

let world: StoreWorld
beforeAll(async () => void (world = await storeWorld()))
afterAll(() => world.close())

test.each([
  ['a line break that was encoded', '=?utf-8?Q?a=0D=0ABcc:_x?=', 'a Bcc: x'],
  ['other ends of a line', '=?utf-8?Q?a=C2=85b=E2=80=A8c=00d?=', 'a b c d'],
  ['letters', '=?utf-8?Q?Gr=C3=BC=C3=9Fe?=', 'Grüße'],
  ['more than a record holds', 'x'.repeat(limits.subjectCodePointsMax - 10) + '\r\n ' + 'y'.repeat(20), undefined],
])('a subject is the one of the record, in one line: %s', async (_, field, expected) => {
  const { workspaceId } = await world.sender()
  const mail = Buffer.from(`From: a@b.example\r\nSubject: ${field}\r\n\r\nHi\r\n`)
  const recorded = readSubmittedMail(mail, false)
  const subject = 'subject' in recorded ? recorded.subject : undefined
  if (expected !== undefined) expect(subject).toBe(expected)
  await world.db.run(
    `insert into sandbox_mail (id, received_at, envelope_from, recipient, content, workspace_id)
     values (gen_random_uuid(), now(), '', 'r@x.test', $2, $1)`,
    [workspaceId, mail],
  )
  const { items } = await listSandbox(world.db, workspaceId, { most: 10 })
  expect(items.map((item) => item.subject)).toEqual([subject])
  expect((await showSandboxMail(world.db, workspaceId, items[0]?.id ?? '')).subject).toBe(subject)
})
