// `posthorn drain` and `posthorn recover`: what still stops delivery is said.
import { expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const over = commandsOver()
const { posthorn, answer } = over

test('one message that waits is no plural', async () => {
  const { id: workspace } = await answer('workspace', 'create', '--name', 'Waiting')
  const db = over.open()
  const waits = '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c03'
  await db.run(
    `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by, created_at)
     values ($1, $2, $1, 'rest', 'queued', 1, 's@example.org', 'a@example.com', 'a@example.com', 'Hi', 'n1', now())`,
    [workspace, waits],
  )
  await db.run(
    `insert into outbound (workspace_id, message_id, mailbox_id, status, destination, due_at, expires_at)
     values ($1, $2, $1, 'queued', 'example.com', now(), now() + interval '1 hour')`,
    [workspace, waits],
  )
  try {
    expect((await posthorn(['drain'])).out).toBe('Nothing is in flight; 1 message waits for: posthorn drain --off\n')
    expect((await posthorn(['drain', '--off'])).out).toBe('Delivery goes on; 1 message is waiting.\n')
  } finally {
    await db.run('delete from outbound where message_id = $1', [waits])
    await db.close()
  }
}, 180_000)

test('who takes back one of two stops is told of the other one', async () => {
  const db = over.open()
  await db.run(`select stop_delivery_1('fence', 'behind', null)`)
  await db.close()
  await posthorn(['drain', '--no-wait'])
  const off = await posthorn(['drain', '--off'])
  expect(off.out).toMatch(/^The drain is over; delivery is still stopped \(fence: behind\)/)
  expect(await answer('drain', '--off')).toMatchObject({ draining: false, stoppedBy: ['fence: behind'] })
  await posthorn(['drain', '--no-wait'])
  const recovered = await posthorn(['recover', '--resume'])
  expect(recovered.out).toMatch(/delivery is still stopped by: +drain: operator/)
  expect(await answer('recover', '--resume')).toMatchObject({ stoppedBy: [], stillStoppedBy: ['drain: operator'] })
  expect((await posthorn(['drain', '--off'])).out).toMatch(/^Delivery goes on/)
}, 180_000)
