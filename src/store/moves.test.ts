// Both tables of moves, TypeScript's and PostgreSQL's, say the same of every pair; and the queue's own guards hold whatever statement asks.
import { describe, expect, test } from 'vitest'
import { messageStatuses, type MessageStatus } from '../domain/message.ts'
import { isFinal, mayBecome } from '../domain/moves.ts'
import { storeWorld } from './store.test-kit.ts'

const world = await storeWorld()
const sender = await world.sender()

const refused = { code: '23514' } // check_violation, which the triggers raise too
const finished = (status: MessageStatus) => (isFinal(status) ? 'now()' : 'null')

/** A record in that state. */
async function messageIn(status: MessageStatus): Promise<string> {
  const id = world.nextId()
  await world.db.run(
    `insert into messages (workspace_id, id, mailbox_id, source, status, sequence, sender, recipient, recipient_key, subject, accepted_by,
                           created_at, finished_at)
     values ($1, $2, $3, 'rest', $4, 1, 'a@example.com', 'b@example.org', 'b@example.org', 's', 'n', now(), ${finished(status)})`,
    [sender.workspaceId, id, sender.mailboxId, status],
  )
  return id
}
const move = async (id: string, to: MessageStatus) =>
  world.db.run(`update messages set status = $2, finished_at = ${finished(to)} where id = $1 returning 1`, [id, to])

describe('moves', () => {
  const pairs = messageStatuses.flatMap((from) => messageStatuses.map((to) => ({ from, to })))
  test('there are 36 pairs', () => expect(pairs).toHaveLength(36))

  test.each(pairs.filter(({ from, to }) => from !== to))(
    'the database agrees with TypeScript about $from -> $to',
    async ({ from, to }) => {
      const id = await messageIn(from)
      const moved = move(id, to)
      if (mayBecome(from, to)) expect(await moved).toHaveLength(1)
      else await expect(moved).rejects.toMatchObject(refused)
      expect(await world.value('select status from messages where id = $1', [id])).toBe(mayBecome(from, to) ? to : from)
    },
  )

  test.each(messageStatuses)('staying %s is no move, and the database lets the row be written', async (status) => {
    expect(mayBecome(status, status)).toBe(false)
    expect(await move(await messageIn(status), status)).toHaveLength(1)
  })

  test.each(messageStatuses)('%s has an end exactly when it is final', async (status) => {
    const id = await messageIn(status)
    const wrong = isFinal(status) ? 'null' : 'now()'
    await expect(world.db.run(`update messages set finished_at = ${wrong} where id = $1`, [id])).rejects.toMatchObject(
      refused,
    )
  })
})

describe('the queue', () => {
  const set = (id: string, what: string) => world.db.run(`update outbound set ${what} where message_id = $1`, [id])

  test.each([
    ['a lease without sending', 'status = $$queued$$'],
    ['sending without a lease', 'lease_until = null'],
    ['an arm under another epoch', 'armed_epoch = epoch + 1'],
    ['an armed row that is queued', 'armed_epoch = epoch, status = $$queued$$, lease_until = null'],
    ['an unknown reason to try again', 'evidence = $$hope$$'],
    ['a state that a queue does not have', 'status = $$sent$$, lease_until = null'],
  ])('refuses %s', async (_, what) => {
    const [claim] = await world.claimed(sender, [{}])
    await expect(set(claim?.id ?? '', what)).rejects.toMatchObject(refused)
  })

  const again = 'status = $$retrying$$, lease_until = null, armed_epoch = null'
  test('an armed row cannot be tried again without evidence', async () => {
    const [claim] = await world.claimed(sender, [{ armed: true }])
    await expect(set(claim?.id ?? '', again)).rejects.toMatchObject(refused)
    await expect(set(claim?.id ?? '', again.replace('retrying', 'queued'))).rejects.toMatchObject(refused)
  })

  test.each(['eod_4xx', 'not_written'])('with the evidence %s it can', async (evidence) => {
    const [claim] = await world.claimed(sender, [{ armed: true }])
    await set(claim?.id ?? '', `${again}, evidence = $$${evidence}$$`)
    expect(await world.value('select status from outbound where message_id = $1', [claim?.id])).toBe('retrying')
  })

  test('a row that is not armed needs none', async () => {
    const [claim] = await world.claimed(sender, [{}])
    await set(claim?.id ?? '', again)
    expect(await world.value('select status from outbound where message_id = $1', [claim?.id])).toBe('retrying')
  })
})
