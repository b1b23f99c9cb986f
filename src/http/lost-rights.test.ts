// Who is removed from a workspace, or gets another role, while they ask for something that lasts: nothing comes of it, as little as for a key that is
// revoked meanwhile (revoked-keys.test.ts).
import { expect, onTestFinished, test, vi } from 'vitest'
import { limits } from '../config.ts'
import type { Statement } from '../store/database.ts'
import { saveSystemMailbox } from '../workspace/workspace.ts'
import { officeWorld, type BrowserOf } from './office.test-kit.ts'

const office = await officeWorld()
const place = await office.sender()

const removed = 'delete from members where user_id = $1'
const becomes = (role: string) => `update members set role = '${role}' where user_id = $1`

/** What somebody is told whose request waits for the members while that happens to them. */
async function asks(
  who: BrowserOf & { readonly login: { readonly id: string } },
  happens: string,
  method: 'POST' | 'PUT',
  path: string,
  body?: object,
) {
  const ask = () => who.ask(method, path, body && { body })
  return (await office.meanwhile(happens, who.login.id, ask, place.workspaceId)).json<object>()
}

const endpoint = { url: 'http://127.0.0.1:11/hook' }
const tries = [
  ['PUT', '/webhook', endpoint],
  ['POST', '/webhook/rotate', undefined],
  ['POST', '/keys', { name: 'kept', scopes: ['mail.read'] }],
  ['POST', '/smtp-credentials', { name: 'kept' }],
  ['POST', '/invitations', { email: 'friend@people.example', role: 'viewer' }],
] as const

test.each(tries)('%s %s of a person who is removed, or becomes a viewer, meanwhile', async (method, path, body) => {
  const boss = await office.signedIn('owner', place.workspaceId)
  expect((await boss.ask('PUT', '/webhook', { body: { url: 'http://127.0.0.1:9/hook' } })).statusCode).toBe(200)
  const read = async (what: string) => (await boss.ask('GET', what)).json<object>()
  const all = () => Promise.all(['/webhook', '/keys', '/smtp-credentials', '/invitations'].map(read))
  const before = await all()
  for (const happens of [removed, becomes('viewer')]) {
    const admin = await office.signedIn('admin', place.workspaceId)
    expect(await asks(admin, happens, method, path, body)).toMatchObject({
      code: 'insufficient_scope',
      error: expect.stringContaining('meanwhile') as string,
    })
  }
  expect(await all()).toEqual(before)
})

test('an admin who becomes a developer meanwhile makes no key that can do more than a developer', async () => {
  const admin = await office.signedIn('admin', place.workspaceId)
  const wish = { name: 'strong', scopes: ['mail.send', 'members.write'] }
  expect(await asks(admin, becomes('developer'), 'POST', '/keys', wish)).toMatchObject({
    code: 'insufficient_scope',
    field: 'scopes',
    error: expect.stringContaining('members.write') as string,
  })
})

test.each(['a key that is revoked', 'somebody who is removed'])(
  '%s while an export is read: it ends there, and not as a whole one',
  async (who) => {
    await office.world.db.run(
      `insert into suppressions (workspace_id, recipient_key, recipient, reason)
     select $1, a.address, a.address, 'manual' from (select 'ada' || n || '@example.com' address from generate_series(1, $2) n) a on conflict do nothing`,
      [place.workspaceId, 3 * limits.suppressionImportRows],
    )
    const key = await office.key(place.workspaceId, 'suppressions.read')
    const viewer = await office.signedIn('viewer', place.workspaceId)
    const ends = who.startsWith('a key')
      ? () => office.world.db.run('update api_keys set revoked_at = app_now() where revoked_at is null')
      : () => office.world.db.run(removed, [viewer.login.id])
    const { db } = office.office
    const { rows } = db
    let pages = 0
    const spy = vi.spyOn(db, 'rows').mockImplementation(async (statement: Statement, values) => {
      const answer = await rows(statement, values)
      if (statement.name === 'page-suppressions' && ++pages === 1) await ends()
      return answer
    })
    const path = '/suppressions.csv'
    const reading = who.startsWith('a key') ? office.withKey(key, 'GET', path) : viewer.ask('GET', path)
    await expect(reading).rejects.toThrow('response destroyed')
    spy.mockRestore()
    expect(pages).toBe(1)
    // Nothing is broken here.
    expect(office.faults).toEqual([])
  },
)

test('an export that breaks off by a fault of ours is in the log, with the request that its reader can name', async () => {
  const key = await office.key(place.workspaceId, 'suppressions.read')
  const { db } = office.office
  const { rows } = db
  const broken = new Error('a page that cannot be read')
  let pages = 0
  const spy = vi
    .spyOn(db, 'rows')
    .mockImplementation((statement: Statement, values) =>
      statement.name === 'page-suppressions' && ++pages === 2 ? Promise.reject(broken) : rows(statement, values),
    )
  onTestFinished(() => spy.mockRestore())
  await expect(office.withKey(key, 'GET', '/suppressions.csv')).rejects.toThrow('response destroyed')
  expect(office.faults.splice(0)).toEqual([
    {
      what: 'http: an answer broke off',
      error: broken,
      requestId: expect.any(String) as string,
      route: '/api/v1/suppressions.csv',
    },
  ])
})

test.each([
  ['a key that is revoked', 401],
  ['somebody who is removed', 403],
])('%s while a file is imported: it ends there, and they are told', async (who, status) => {
  const own = await office.sender()
  const key = await office.key(own.workspaceId, 'suppressions.write')
  const developer = await office.signedIn('developer', own.workspaceId)
  const ends = who.startsWith('a key')
    ? () => office.world.db.run('update api_keys set revoked_at = app_now() where workspace_id = $1', [own.workspaceId])
    : () => office.world.db.run(removed, [developer.login.id])
  const { db } = office.office
  const { rows } = db
  let bites = 0
  const spy = vi.spyOn(db, 'rows').mockImplementation(async (statement: Statement, values) => {
    const answer = await rows(statement, values)
    if (statement.name === 'insert-suppressions' && ++bites === 1) await ends()
    return answer
  })
  const csv = Array.from({ length: 3 * limits.suppressionImportRows }, (_, n) => `eve${n}@example.com`).join('\n')
  const path = '/suppressions/import'
  const answer = who.startsWith('a key')
    ? await office.withKey(key, 'POST', path, { csv })
    : await developer.ask('POST', path, { body: { csv } })
  spy.mockRestore()
  expect([answer.statusCode, bites]).toEqual([status, 1])
  const kept = 'select count(*)::integer from suppressions where workspace_id = $1'
  expect(await office.world.value<number>(kept, [own.workspaceId])).toBe(limits.suppressionImportRows)
})

test('somebody who is removed while a rule is undone: it ends there, and they are told', async () => {
  const own = await office.sender()
  await office.world.db.run(
    `insert into suppressions (workspace_id, recipient_key, recipient, reason, rule)
     select $1, a.address, a.address, 'hard_bounce', 'wrong' from (select 'ada' || n || '@example.com' address from generate_series(1, $2) n) a`,
    [own.workspaceId, 3 * limits.suppressionImportRows],
  )
  const developer = await office.signedIn('developer', own.workspaceId)
  const { db } = office.office
  const { rows } = db
  const spy = vi.spyOn(db, 'rows').mockImplementation(async (statement: Statement, values) => {
    const answer = await rows(statement, values)
    if (statement.name === 'undo-suppressions') await office.world.db.run(removed, [developer.login.id])
    return answer
  })
  const body = { rule: 'wrong', since: '2026-01-01T00:00:00Z' }
  const answer = await developer.ask('POST', '/suppressions/undo', { body })
  spy.mockRestore()
  expect(answer.statusCode).toBe(403)
  const kept = 'select count(*)::integer from suppressions where workspace_id = $1'
  expect(await office.world.value<number>(kept, [own.workspaceId])).toBe(2 * limits.suppressionImportRows)
})

test('somebody who is removed while their message waits for its turn to be sent again: it is not, and they are told', async () => {
  const own = await office.sender()
  const developer = await office.signedIn('developer', own.workspaceId)
  const key = await office.key(own.workspaceId, 'mail.send')
  const mail = { mailboxId: own.mailboxId, recipient: 'ann@example.com', subject: 'Hi', bodyText: 'Hello' }
  const { id } = (await office.withKey(key, 'POST', '/send', mail)).json<{ id: string }>()
  await office.world.db.run('delete from outbound where message_id = $1', [id])
  await office.world.db.run(`update messages set status = 'sending' where id = $1`, [id])
  await office.world.db.run(`update messages set status = 'failed', finished_at = app_now() where id = $1`, [id])
  const { db } = office.office
  const { rows } = db
  const spy = vi.spyOn(db, 'rows').mockImplementation(async (statement: Statement, values) => {
    // The first that is asked behind the wait.
    if (statement.name === 'replaceable-message') await office.world.db.run(removed, [developer.login.id])
    return rows(statement, values)
  })
  const answer = await developer.ask('POST', `/messages/${id}/send-again`)
  spy.mockRestore()
  expect([answer.statusCode, answer.json()]).toEqual([
    403,
    expect.objectContaining({ code: 'insufficient_scope' }) as object,
  ])
  const messages = 'select count(*)::integer from messages where workspace_id = $1'
  expect(await office.world.value<number>(messages, [own.workspaceId])).toBe(1)
})

test('who keeps a role that allows it is not hindered by a change that was under way', async () => {
  const admin = await office.signedIn('admin', place.workspaceId)
  expect(await asks(admin, becomes('developer'), 'PUT', '/webhook', endpoint)).toMatchObject(endpoint)
})

test("an operator does so in the workspace of the installation's own mail without being a member of it, and no more when they are no operator", async () => {
  const { db } = office.world
  const own = await office.sender()
  await db.transaction((tx) => saveSystemMailbox(tx, own.workspaceId, own.mailboxId))
  const login = await office.login(undefined, undefined, true)
  const operator = { ...office.browser(own.workspaceId), login }
  await operator.ask('POST', '/session', { body: { email: login.email, password: login.password } })
  for (const [method, path, body] of tries) {
    const { statusCode } = await operator.ask(method, path, body && { body })
    expect([path, statusCode]).toEqual([path, method === 'PUT' || path.endsWith('rotate') ? 200 : 201])
  }
  await db.run('update users set operator = false where id = $1', [login.id])
  expect((await operator.ask('POST', '/webhook/rotate')).statusCode).toBe(403)
  await db.run(`delete from installation where name in ('system_workspace', 'system_mailbox')`)
})
