// One message whose rows contradict each other (a restore of single tables, a hand) holds up nobody else: claims, reapers and the walk over what has
// expired go past what the database refuses, on real PostgreSQL, and say so.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { MessageId } from '../domain/message.ts'
import { makeAdmitter } from './admit.ts'
import { claimDue } from './claim.ts'
import { expireSome } from './expire.ts'
import { assumeSentSince, liftFence } from './fence.ts'
import { reap } from './outbound.ts'
import { storeWorld, wholeClaim, type ClaimedAs, type Sender } from './store.test-kit.ts'

let sender: Sender
let said: string[]
const refused = (error: Error) => void said.push(error.message)
const world = await storeWorld()
beforeEach(async () => {
  await world.db.run('truncate outbound')
  sender = await world.sender()
  said = []
})

async function submit(of = sender): Promise<MessageId> {
  const row = world.submission(of)
  expect(await makeAdmitter(world.db).admit(row)).toMatchObject({ admitted: true })
  return row.fields['id'] as MessageId
}
const leased = async (as: ClaimedAs) => (await world.claimed(sender, [{ leaseSeconds: -5, ...as }]))[0]?.id as MessageId
const statusOf = (id: MessageId) => world.value<string>('select status from messages where id = $1', [id])
const queued = (id: MessageId) =>
  world.value<boolean>('select exists (select from outbound where message_id = $1)', [id])
/** As only somebody does who turns off what guards the record. */
const recordSays = async (id: MessageId, status: string) => {
  await world.db.run('alter table messages disable trigger user')
  await world.db.run('update messages set status = $2, finished_at = app_now() where id = $1', [id, status])
  await world.db.run('alter table messages enable trigger user')
}
/** The record of before, and the history of now. */
const historyIsAhead = (id: MessageId) =>
  world.db.run(
    `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
     select workspace_id, id, sequence + 1, 'message.sending', 'sending', 0, app_now() from messages where id = $1`,
    [id],
  )
const age = (id: MessageId) =>
  world.db.run(`update outbound set expires_at = app_now() - interval '1 second' where message_id = $1`, [id])
const claim = async () => (await claimDue(world.db, wholeClaim, refused)).claimed.map(({ id }) => id)

describe('a claim', () => {
  test.each(['sent', 'failed', 'delivery_unknown'])(
    'drops what is in the queue of a message that is %s',
    async (end) => {
      const over = [await submit(), await submit(), await submit(await world.sender())]
      for (const id of over) await recordSays(id, end)
      const [own, foreign] = [await submit(), await submit(await world.sender())]
      expect((await claim()).toSorted()).toEqual([own, foreign].toSorted())
      expect(said).toHaveLength(3)
      for (const id of over) {
        expect(await queued(id)).toBe(false)
        expect(await statusOf(id)).toBe(end)
        expect(said.join('\n')).toContain(`${id} is ${end}`)
        expect(await world.history(id)).toHaveLength(1)
      }
    },
  )

  test('puts off what it cannot write down, without using a try, and takes the others', async () => {
    const [odd, even] = [await submit(), await submit()]
    await historyIsAhead(odd)
    expect(await claim()).toEqual([even])
    expect(said).toEqual([expect.stringContaining(`${odd} is put off`)])
    expect(await statusOf(odd)).toBe('queued')
    expect(
      await world.value(
        `select attempts::text || ' ' || status || ' ' || round(extract(epoch from due_at - app_now()) / 60) from outbound where message_id = $1`,
        [odd],
      ),
    ).toBe('0 queued 60')
    expect(await claim()).toEqual([])
    expect(said).toHaveLength(1)
  })

  test('throws what says nothing of a row, or of none that is due', async () => {
    const id = await submit()
    await world.db.run(
      `alter table outbound add constraint closed check (status <> 'sending' or message_id is null) not valid`,
    )
    try {
      await expect(claim()).resolves.toEqual([])
      expect(said).toEqual([expect.stringContaining(`${id} is put off`)])
    } finally {
      await world.db.run('alter table outbound drop constraint closed')
    }
    await submit()
    await world.db.run(
      `create function nobody() returns trigger language plpgsql as $$ begin raise check_violation using message = 'nobody'; end $$`,
    )
    await world.db.run('create trigger nobody before update on outbound for each row execute function nobody()')
    try {
      await expect(claim()).rejects.toThrow('nobody')
    } finally {
      await world.db.run('drop function nobody cascade')
    }
  })
})

describe('a reaper', () => {
  test.each([false, true])('ends the leases of the others (armed: %s)', async (armed) => {
    const over = await leased({ leaseSeconds: -30, armed })
    await recordSays(over, 'failed')
    const odd = await leased({ leaseSeconds: -20, armed })
    await historyIsAhead(odd)
    const fine = await leased({ armed })
    const becomes = armed ? 'delivery_unknown' : 'retrying'
    expect(await reap(world.db, 10, { refused })).toEqual([{ id: fine, becomes }])
    expect(said).toEqual([expect.stringContaining(`${over} is failed`), expect.stringContaining(`${odd} is put off`)])
    expect(await queued(over)).toBe(false)
    expect(await statusOf(odd)).toBe('sending')
    expect(await reap(world.db, 10, { refused })).toEqual([])
  })
})

describe('the walk over what has expired', () => {
  test('goes past them, and drops what is over', async () => {
    const [over, odd, fine] = [await submit(), await submit(), await submit()]
    await recordSays(over, 'sent')
    await historyIsAhead(odd)
    for (const id of [over, odd, fine]) await age(id)
    expect(await expireSome(world.db, 0, refused)).toEqual({ expired: [fine], next: undefined })
    expect(said).toHaveLength(2)
    expect(said).toEqual(expect.arrayContaining([expect.stringContaining(over), expect.stringContaining(odd)]))
    expect([await queued(over), await queued(odd), await queued(fine)]).toEqual([false, true, false])
    expect(await statusOf(over)).toBe('sent')
  })
})

describe('an operator’s decision behind a restore', () => {
  afterEach(() => world.db.run('delete from delivery_stops'))

  test('is one for all others, too, where a message is over', async () => {
    const [over, fine] = [await submit(), await submit()]
    await recordSays(over, 'sent')
    expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000), refused)).toBe(1)
    expect(said).toEqual([expect.stringContaining(`${over} is sent`)])
    expect([await statusOf(over), await statusOf(fine)]).toEqual(['sent', 'delivery_unknown'])

    const again = await leased({})
    await recordSays(again, 'failed')
    await world.db.run(
      `insert into orphaned_replies (workspace_id, message_id, epoch, token, ending)
       values ($1::uuid, $2::uuid, 7, 7, json_build_object('id', $2::uuid, 'w', $1::uuid, 'epoch', 7, 'token', 7, 'status', 'sent'))`,
      [sender.workspaceId, again],
    )
    await liftFence(world.db, refused)
    expect(said).toEqual([expect.anything(), expect.stringContaining(`${again} is failed`)])
    expect(await queued(again)).toBe(false)
  })

  test('is none that puts off what could be sent', async () => {
    const odd = await submit()
    await historyIsAhead(odd)
    await expect(assumeSentSince(world.db, new Date(Date.now() - 60_000), refused)).rejects.toThrow('events')
    expect(await world.value('select due_at <= app_now() from outbound where message_id = $1', [odd])).toBe(true)
  })
})
