// What has expired is over, on real PostgreSQL, whether or not it would get a turn; and nothing else is touched by the look for it.
import { beforeEach, expect, test } from 'vitest'
import type { MessageId } from '../domain/message.ts'
import { limits } from '../config.ts'
import { makeAdmitter } from './admit.ts'
import { claimDue } from './claim.ts'
import { expireSome } from './expire.ts'
import { storeWorld, wholeClaim } from './store.test-kit.ts'
import { watched } from './watched.test-kit.ts'

const world = await storeWorld()
beforeEach(() => world.db.run('truncate outbound'))

async function submit(destination = 'a.example'): Promise<MessageId> {
  const row = world.submission(await world.sender(), { destination })
  expect(await makeAdmitter(world.db).admit(row)).toMatchObject({ admitted: true })
  return row.fields['id'] as MessageId
}
const age = (id: MessageId) =>
  world.db.run(`update outbound set expires_at = app_now() - interval '1 second' where message_id = $1`, [id])
const standing = (id: MessageId) =>
  world.value<string>(
    `select m.status || ' ' || (select string_agg(e.type || coalesce(' ' || (e.facts ->> 'reason'), ''), ', ' order by e.sequence) from events e
      where e.message_id = m.id) from messages m where m.id = $1`,
    [id],
  )
const walk = async (): Promise<readonly MessageId[]> => {
  const all: MessageId[] = []
  for (let at: number | undefined = 0; at !== undefined;) {
    const { expired, next } = await expireSome(world.db, at)
    all.push(...expired)
    at = next
  }
  return all
}

test('a message that got no turn until its time was over is failed, and says why; the others wait on', async () => {
  const [old, young] = [await submit(), await submit()]
  await age(old)
  expect(await walk()).toEqual([old])
  expect(await standing(old)).toBe('failed message.queued, message.failed expired')
  expect(await standing(young)).toBe('queued message.queued')
  expect(await world.value('select count(*)::integer from outbound')).toBe(1)
  expect(await walk()).toEqual([])
})

test('what somebody has taken is his, and nobody is waited for who holds a row', async () => {
  const [taken, held] = [await submit(), await submit('held.example')]
  await claimDue(world.db, { ...wholeClaim, rooms: { 'held.example': 0 } })
  await age(taken)
  await age(held)
  const holder = await world.holding('select from outbound where message_id = $1 for update', [held])
  expect(await walk()).toEqual([])
  await holder.query('rollback')
  expect(await walk()).toEqual([held])
  expect(await standing(taken)).toMatch(/^sending/)
})

test('while delivery is stopped nothing is judged: perhaps it was sent before the backup', async () => {
  const id = await submit()
  await age(id)
  await world.db.run(`insert into delivery_stops (kind, reason) values ('drain', 'operator')`)
  expect(await walk()).toEqual([])
  await world.db.run('delete from delivery_stops')
  expect(await walk()).toEqual([id])
})

test('nor where that comes between the look and the end', async () => {
  const id = await submit()
  await age(id)
  const drain = `insert into delivery_stops (kind, reason) values ('drain', 'operator') on conflict do nothing`
  expect((await expireSome(watched(world.db, { answered: () => world.db.run(drain) }), 0)).expired).toEqual([])
  expect(await standing(id)).toBe('queued message.queued')
  await world.db.run('delete from delivery_stops')
})

test('a long queue is looked through in steps, and none is left out', async () => {
  const sender = await world.sender()
  const pages = () => world.value<number>(`select pg_relation_size('outbound')::integer / 8192`)
  const ids: MessageId[] = [await submit()]
  while ((await pages()) <= limits.expiryPagesPerLook + 10)
    await world.db.run(
      `insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
       select gen_random_uuid(), $1, $2, 'a.example', app_now(), app_now() + interval '1 day' from generate_series(1, 5000) n`,
      [sender.workspaceId, sender.mailboxId],
    )
  ids.push(await submit(), await submit())
  for (const id of ids) await age(id)
  const first = await expireSome(world.db, 0)
  expect(first.next).toBe(limits.expiryPagesPerLook)
  const rest = await expireSome(world.db, limits.expiryPagesPerLook)
  expect(rest.next).toBeUndefined()
  expect([...first.expired, ...rest.expired].toSorted()).toEqual(ids.toSorted())
})

test('of very many that expire together so many are ended at once, and none is left out', async () => {
  const sender = await world.sender()
  const many = limits.expiryRowsPerLook + 10
  await world.db.run(
    `insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
     select gen_random_uuid(), $1, $2, 'a.example', app_now(), app_now() - interval '1 second' from generate_series(1, $3::integer) n`,
    [sender.workspaceId, sender.mailboxId, many],
  )
  const left = () => world.value<number>('select count(*)::integer from outbound')
  const { next } = await expireSome(world.db, 0)
  expect([next, await left()]).toEqual([0, 10])
  await walk()
  expect(await left()).toBe(0)
})
