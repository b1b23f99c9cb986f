// `posthorn drain` and `posthorn recover`: what still stops delivery is said.
import { expect, test } from 'vitest'
import { commandsOver } from './command.test-kit.ts'

const over = commandsOver()
const { posthorn, answer } = over

const waits = '0199f1c2-7a4e-7c3b-9d52-6f1e8a0b4c03'

async function oneWaits(db: ReturnType<typeof over.open>, name: string): Promise<void> {
  const { id: workspace } = await answer('workspace', 'create', '--name', name)
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
}

async function isOver(db: ReturnType<typeof over.open>): Promise<void> {
  await db.run('delete from outbound where message_id = $1', [waits])
  await db.run('delete from messages where id = $1', [waits])
  await db.close()
}

test('one message that waits is no plural', async () => {
  const db = over.open()
  await oneWaits(db, 'Waiting')
  try {
    expect((await posthorn(['drain'])).out).toBe('Nothing is in flight; 1 message waits for: posthorn drain --off\n')
    expect((await posthorn(['drain', '--off'])).out).toBe('Delivery goes on; 1 message is waiting.\n')
  } finally {
    await isOver(db)
  }
}, 180_000)

test('whoever waits for a drain hears that somebody has taken it back', async () => {
  const db = over.open()
  await oneWaits(db, 'In flight')
  try {
    await db.run(
      `update outbound set status = 'sending', lease_until = now() + interval '1 hour', token = 1 where message_id = $1`,
      [waits],
    )
    const draining = posthorn(['drain', '--json'])
    await expect.poll(() => db.run('select from delivery_stops'), { timeout: 60_000 }).toHaveLength(1)
    expect((await posthorn(['drain', '--off'])).status).toBe(0)
    await db.run('delete from outbound where message_id = $1', [waits])
    const { status, out, err } = await draining
    expect({ status, out, err }).toEqual({
      status: 1,
      out: '',
      err: expect.stringMatching(/^posthorn: Somebody has taken back the drain meanwhile/) as string,
    })
  } finally {
    await isOver(db)
  }
}, 180_000)

test('whoever assumes mail sent hears that somebody else has let delivery go on meanwhile', async () => {
  const db = over.open()
  await oneWaits(db, 'Assumed')
  try {
    const { assuming } = await db.transaction(async (tx) => {
      await tx.run('select from outbound where message_id = $1 for update', [waits])
      const assuming = posthorn(['recover', '--assume-sent-since', '2026-01-01T00:00:00Z'])
      const isBlocked = () =>
        db.run(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
      await expect.poll(isBlocked, { timeout: 60_000 }).toHaveLength(1)
      expect((await posthorn(['recover', '--resume'])).status).toBe(0)
      return { assuming }
    })
    expect(await assuming).toMatchObject({
      status: 1,
      err: expect.stringMatching(/^posthorn: Somebody else has decided meanwhile/) as string,
    })
  } finally {
    await isOver(db)
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
