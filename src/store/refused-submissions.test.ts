// The record of what was refused: written behind the answers, bounded, each workspace its own, gone after 30 days.
import { expect, test } from 'vitest'
import { silentLog, type Log } from '../base/log.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { openDatabase } from './database.ts'
import { makeRefusalBook, pruneRefusals, searchRefusals, withoutAddresses } from './refused-submissions.ts'
import { storeWorld } from './store.test-kit.ts'

const world = await storeWorld()
const latest = async (workspace: WorkspaceId, most = 9) =>
  (await searchRefusals(world.db, workspace, {}, { most })).rows

test('page by page, and nobody sees another workspace', async () => {
  const [one, other] = [await world.sender(), await world.sender()]
  const book = makeRefusalBook(world.db, silentLog)
  for (const code of ['recipient_suppressed', 'hourly_limit_reached', 'mailbox_not_active'] as const)
    book.note({ workspaceId: one.workspaceId, source: 'smtp', code, recipientDomain: 'receiver.test' })
  book.note({ workspaceId: other.workspaceId, source: 'rest', code: 'invalid_request' })
  await book.quiet()
  const { rows: page, next: before } = await searchRefusals(world.db, one.workspaceId, {}, { most: 2 })
  const { rows: rest } = await searchRefusals(world.db, one.workspaceId, {}, { before, most: 2 })
  // Of one millisecond, in any order.
  expect([...page, ...rest].map(({ code }) => code).toSorted()).toEqual([
    'hourly_limit_reached',
    'mailbox_not_active',
    'recipient_suppressed',
  ])
  expect(page[0]).toMatchObject({ source: 'smtp', recipientDomain: 'receiver.test' })
  expect(await latest(other.workspaceId)).toMatchObject([{ source: 'rest', recipientDomain: null }])
})

test('what the sender was told is kept, with the login and the request: bounded, without addresses, and whatever a caller has written', async () => {
  const { workspaceId } = await world.sender()
  const book = makeRefusalBook(world.db, silentLog)
  const callerId = '0199a000-0000-7000-8000-000000000001'
  const error = `"recipient" must be one address; ann@example.org, \u0000 is none. ${'x\u{1f600} '.repeat(500)}`
  book.note({
    workspaceId,
    source: 'rest',
    code: 'invalid_request',
    field: 'recipient',
    error,
    callerId,
    requestId: 'r-1',
  })
  await book.quiet()
  const [row] = await latest(workspaceId, 1)
  expect(row).toMatchObject({ field: 'recipient', callerId, requestId: 'r-1' })
  expect(row?.error).toMatch(/^"recipient" must be one address; \(address\),   is none\. x/)
  expect(row?.error?.length).toBeLessThanOrEqual(limits.refusalErrorCharactersMax)
})

test('the sender of a mail is kept as it was written, no longer than an address may be, for its own workspace', async () => {
  const [one, other] = [await world.sender(), await world.sender()]
  const book = makeRefusalBook(world.db, silentLog)
  for (const sender of ['www-data@web01', `\u{1f600}\u0007${'x'.repeat(250)}\u{1f600}@b.example`])
    book.note({ workspaceId: one.workspaceId, source: 'smtp', code: 'mailbox_not_active', sender })
  await book.quiet()
  const kept = async (workspace: WorkspaceId) => {
    const { rows } = await searchRefusals(world.db, workspace, { source: 'smtp' }, { most: 9 })
    return rows.map(({ sender }) => sender ?? '').sort()
  }
  expect(await kept(one.workspaceId)).toEqual(['www-data@web01', `\u{1f600} ${'x'.repeat(250)}\ufffd`])
  expect(await kept(other.workspaceId)).toEqual([])
})

test.each([
  ['to ann@example.org: no', 'to (address): no'],
  ['"ann smith"@example.org is none', '(address) is none'],
  ['<ann@example.org> and <bob@[192.0.2.1]>', '<(address)> and <(address)>'],
  ['the @ of it', 'the @ of it'],
  ['write <local@domain>, of 254 octets at most', 'write <local@domain>, of 254 octets at most'],
  ['a name with "@", ",", "(" or "<" in it', 'a name with "@", ",", "(" or "<" in it'],
  ['exactly one such as ada@example.com, not ada@example.org', 'exactly one such as ada@example.com, not (address)'],
  ['nothing to hide', 'nothing to hide'],
])('%s is kept as %s', (told, kept) => expect(withoutAddresses(told, 250)).toBe(kept))

test('an address at the cut leaves nothing of itself', () => {
  for (let max = 1; max < 40; max++)
    expect(withoutAddresses('no mail for ann@example.org today', max)).not.toMatch(/\ban|@/)
})

test('by code, source and time, page by page; a page of many others says where to go on', async () => {
  const { workspaceId } = await world.sender()
  await world.db.run(
    `insert into refused_submissions (workspace_id, id, at, source, code)
     select $1, uuid_floor('2030-01-01'::timestamptz + n * interval '1 second'), '2030-01-01'::timestamptz + n * interval '1 second',
            case when n % 2 = 0 then 'rest' else 'smtp' end, case when n = 3 then 'recipient_suppressed' else 'invalid_request' end
       from generate_series(1, $2::integer) n`,
    [workspaceId, limits.refusalsScannedMax + 10],
  )
  const found = async (filter: Parameters<typeof searchRefusals>[2], before?: string) => {
    const { rows, next } = await searchRefusals(world.db, workspaceId, filter, { before, most: 3 })
    return { at: rows.map(({ at }) => at.toISOString().slice(14, 19)), next }
  }
  const first = await found({ code: 'recipient_suppressed' })
  expect(first).toEqual({ at: [], next: expect.any(String) as string })
  expect(await found({ code: 'recipient_suppressed' }, first.next)).toEqual({ at: ['00:03'] })
  const span = { from: new Date('2030-01-01T00:00:02Z'), to: new Date('2030-01-01T00:00:10Z') }
  const page = await found({ source: 'smtp', ...span })
  expect(page.at).toEqual(['00:09', '00:07', '00:05'])
  expect(await found({ source: 'smtp', ...span }, page.next)).toEqual({ at: ['00:03'] })
  expect((await found(span)).at).toEqual(['00:09', '00:08', '00:07'])
})

test('gone after 30 days, and not before', async () => {
  const { workspaceId } = await world.sender()
  const book = makeRefusalBook(world.db, silentLog)
  await world.setClock('2030-01-01 00:00:00+00')
  book.note({ workspaceId, source: 'rest', code: 'invalid_request' })
  await book.quiet()
  await world.setClock('2030-01-30 23:59:59+00')
  await pruneRefusals(world.db)
  expect(await latest(workspaceId)).toHaveLength(1)
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
  expect(await latest(workspaceId)).toEqual([])
})
