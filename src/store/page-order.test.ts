// Pages go by ids, and what is too much goes from the oldest on: both by the database's time. Here its clock is a year from this node's, which is
// what a node is to another whose clock is wrong.
import { randomUUIDv7 } from 'node:crypto'
import { expect, test } from 'vitest'
import { silentLog } from '../base/log.ts'
import { makeVault } from '../base/secret.ts'
import { countAudit, pageAudit, writeAudit } from './audit.ts'
import { insertUser } from './people.ts'
import { makeRefusalBook, searchRefusals } from './refused-submissions.ts'
import { makeReturnPathKeys } from './return-path-keys.ts'
import { makeSandboxInbox } from './sandbox.ts'
import { insertSession } from './sessions.ts'
import { storeWorld } from './store.test-kit.ts'
import { insertSuppressions } from './suppressions.ts'
import { queueTest } from './webhook-replay.ts'

const world = await storeWorld()
const sender = await world.sender()

const later = '2031-01-01T00:00:00Z'
const earlier = '2030-12-31T00:00:00Z'
/** What is written as this release writes it, the later thing first: a page of the newest has to begin with it all the same. */
async function laterFirst(write: (name: 'later' | 'earlier') => Promise<unknown>): Promise<void> {
  await world.setClock(later)
  await write('later')
  await world.setClock(earlier)
  await write('earlier')
}

test('the audit log, and how much was done in the last hour', async () => {
  const { workspaceId } = sender
  await laterFirst((name) => writeAudit(world.db, { workspaceId, actor: 'x', action: name }))
  expect((await pageAudit(world.db, workspaceId, undefined, 9)).map(({ action }) => action)).toEqual([
    'later',
    'earlier',
  ])
  expect(await countAudit(world.db, workspaceId, 'earlier', 3600_000)).toBe(1)
  await world.setClock(later)
  await insertSuppressions(
    world.db,
    workspaceId,
    [{ key: 'a@b.example', recipient: 'a@b.example', reason: 'manual' }],
    'x',
  )
  expect((await pageAudit(world.db, workspaceId, undefined, 1))[0]).toMatchObject({ at: new Date(later) })
  await world.setClock('2031-01-01T02:00:00Z')
  expect(await countAudit(world.db, workspaceId, 'suppression.added', 3600_000)).toBe(0)
})

test('refused submissions', async () => {
  const book = makeRefusalBook(world.db, silentLog)
  await laterFirst(async (name) => {
    book.note({ ...sender, source: 'rest', code: 'invalid_request', recipientDomain: name })
    await book.quiet()
  })
  const { rows } = await searchRefusals(world.db, sender.workspaceId, {}, { most: 9 })
  expect(rows.map((each) => each.recipientDomain)).toEqual(['later', 'earlier'])
})

test('mail in the sandbox, and when it came', async () => {
  const keys = makeReturnPathKeys(world.db, makeVault(Buffer.alloc(32, 7).toString('base64')))
  const keep = makeSandboxInbox(world.db, keys)
  await laterFirst((name) => keep({ envelopeFrom: 'x@y.example', recipient: name, content: Buffer.from('\r\n') }))
  expect(await world.db.run('select recipient, received_at at from sandbox_mail order by id desc')).toEqual([
    { recipient: 'later', at: new Date(later) },
    { recipient: 'earlier', at: new Date(earlier) },
  ])
})

test('the session that has just been opened is not the oldest', async () => {
  const id = randomUUIDv7()
  const user = { id, email: 'ada@b.example', emailKey: 'ada@b.example', name: null, passwordHash: '', operator: false }
  await insertUser(world.db, user)
  const open = (at: number, name: string) =>
    insertSession(
      world.db,
      // As the nodes count: the second one's clock is hours behind.
      {
        id: `0199a000-0000-7000-8000-00000000000${9 - at}`,
        tokenHash: Buffer.from(name),
        userId: id,
        ms: 60_000,
        address: name,
        agent: '',
      },
      1,
    )
  await world.setClock(earlier)
  await open(1, 'before')
  await world.setClock(later)
  await open(2, 'now')
  expect(await world.db.run('select address from sessions')).toEqual([{ address: 'now' }])
})

test('the test of a webhook lies among the events of its time', async () => {
  await world.setClock(later)
  await world.db.run(
    `insert into webhook_endpoints (workspace_id, url, secret_sealed, api_version) values ($1, 'https://a.example', '', '2026-11-01')`,
    [sender.workspaceId],
  )
  const id = await queueTest(world.db, sender.workspaceId, 'x')
  expect(await world.value('select $1::uuid >= uuid_floor($2::timestamptz)', [id, later])).toBe(true)
  expect(await world.value(`select count(*)::integer from webhook_queue where message_id = $1`, [id])).toBe(1)
})
