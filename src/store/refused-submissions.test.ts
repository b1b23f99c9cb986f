// The record of what was refused: written behind the answers, bounded, each workspace its own, gone after 30 days.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { silentLog, type Log } from '../base/log.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { openDatabase } from './database.ts'
import { listRefusals, makeRefusalBook, pruneRefusals } from './refused-submissions.ts'
import { storeWorld, type StoreWorld } from './store.test-kit.ts'

let world: StoreWorld
beforeAll(async () => {
  world = await storeWorld()
})
afterAll(() => world.close())

test('page by page, and nobody sees another workspace', async () => {
  const [one, other] = [await world.sender(), await world.sender()]
  const book = makeRefusalBook(world.db, silentLog)
  for (const code of ['recipient_suppressed', 'hourly_limit_reached', 'mailbox_not_active'] as const)
    book.note({ workspaceId: one.workspaceId, source: 'smtp', code, recipientDomain: 'receiver.test' })
  book.note({ workspaceId: other.workspaceId, source: 'rest', code: 'invalid_request' })
  await book.quiet()
  const page = await listRefusals(world.db, one.workspaceId, 2)
  const rest = await listRefusals(world.db, one.workspaceId, 2, page.at(-1)?.id)
  // Of one millisecond, in any order.
  expect([...page, ...rest].map(({ code }) => code).toSorted()).toEqual([
    'hourly_limit_reached',
    'mailbox_not_active',
    'recipient_suppressed',
  ])
  expect(page[0]).toMatchObject({ source: 'smtp', recipientDomain: 'receiver.test' })
  expect(await listRefusals(world.db, other.workspaceId, 9)).toMatchObject([{ source: 'rest', recipientDomain: null }])
})

test('gone after 30 days, and not before', async () => {
  const { workspaceId } = await world.sender()
  const book = makeRefusalBook(world.db, silentLog)
  await world.setClock('2030-01-01 00:00:00+00')
  book.note({ workspaceId, source: 'rest', code: 'invalid_request' })
  await book.quiet()
  await world.setClock('2030-01-30 23:59:59+00')
  await pruneRefusals(world.db)
  expect(await listRefusals(world.db, workspaceId, 9)).toHaveLength(1)
  await world.setClock('2030-01-31 00:00:01+00')
  expect(await pruneRefusals(world.db)).toBe(1)
  await world.setClock()
})

test('of one workspace so many an hour: a client in a loop neither fills the disk nor takes the place of others', async () => {
  const [loop, shop] = [await world.sender(), await world.sender()]
  let clock = 0
  const said: string[] = []
  const log: Log = { ...silentLog, fault: (_, error) => void said.push(String(error)) }
  const book = makeRefusalBook(world.db, log, () => clock)
  const note = ({ workspaceId }: { workspaceId: WorkspaceId }) =>
    book.note({ workspaceId, source: 'rest', code: 'invalid_request' })
  const kept = ({ workspaceId }: { workspaceId: WorkspaceId }) =>
    world.value<number>('select count(*)::integer from refused_submissions where workspace_id = $1', [workspaceId])
  for (let count = 0; count < limits.refusalsPerHourMax + 10; count++) {
    note(loop)
    if (count % 1_000 === 0) await book.quiet() // else they would be too many at once
  }
  note(shop)
  await book.quiet()
  expect([await kept(loop), await kept(shop)]).toEqual([limits.refusalsPerHourMax, 1])
  const told = said.map((line) => /(\d+) beyond .* (\d+) that could not be written$/.exec(line)?.slice(1).map(Number))
  expect([told.reduce((sum, line) => sum + (line?.[0] ?? NaN), 0), told.every((line) => line?.[1] === 0)]).toEqual([
    10,
    true,
  ])
  clock += 3600_000
  note(loop)
  await book.quiet()
  expect(await kept(loop)).toBe(limits.refusalsPerHourMax + 1)
})

test('a database that is away holds nobody up', async () => {
  const db = openDatabase(
    { url: 'postgres://nobody@127.0.0.1:1/none' },
    { name: 'test', connectionsMax: 1, answerMs: 1_000 },
  )
  const book = makeRefusalBook(db, silentLog)
  const { workspaceId } = await world.sender()
  for (let count = 0; count < limits.refusalsWaitingMax + 10; count++)
    book.note({ workspaceId, source: 'smtp', code: 'invalid_request' })
  await book.quiet()
  await db.close()
  expect(await listRefusals(world.db, workspaceId, 9)).toEqual([])
})
