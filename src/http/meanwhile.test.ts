// Who is removed while their request is under way, or while an invitation is accepted, keeps nothing by it: no invitation, no key, no way back.
import { once } from 'node:events'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import type { MemberRole } from '../domain/scopes.ts'
import { officeWorld, tokenOf, type BrowserOf } from './office.test-kit.ts'

const office = await officeWorld()
const shop = await office.sender()
const owner = await office.signedIn('owner', shop.workspaceId)
await office.app.listen({ host: '127.0.0.1', port: 0 })
const port = (office.app.server.address() as AddressInfo).port

const invite = (who: BrowserOf, email: string, role: MemberRole = 'viewer') =>
  who.ask('POST', '/invitations', { body: { email, role } })
const open = async () =>
  (await owner.ask('GET', '/invitations')).json<{ items: { email: string }[] }>().items.map(({ email }) => email)
const remove = async (id: string) => expect((await owner.ask('DELETE', `/members/${id}`)).statusCode).toBe(204)

test.each([
  ['POST', '/keys', { name: 'kept', scopes: ['mail.send'] }],
  ['PUT', '/webhook', { url: 'https://kept.example/' }],
  ['POST', '/invitations', { email: 'herself@people.example', role: 'admin' }],
])('a body for %s %s that is held back until one is removed does nothing', async (method, path, body) => {
  const admin = await office.signedIn('admin', shop.workspaceId)
  const json = JSON.stringify(body)
  const asking = request({
    port,
    host: '127.0.0.1',
    method,
    path: `/api/v1${path}`,
    headers: {
      cookie: [...admin.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
      'x-posthorn-csrf': '1',
      'x-posthorn-workspace': shop.workspaceId,
      'content-type': 'application/json',
      'content-length': json.length,
      expect: '100-continue',
    },
  })
  asking.flushHeaders()
  await once(asking, 'continue') // who asks has been looked at
  await remove(admin.login.id)
  asking.end(json)
  const [answer] = (await once(asking, 'response')) as [{ statusCode: number; resume(): void }]
  answer.resume()
  expect(answer.statusCode).toBe(403)
  expect(await office.world.value(`select count(*)::integer from api_keys where name = 'kept'`)).toBe(0)
  expect(await office.world.value('select count(*)::integer from webhook_endpoints')).toBe(0)
  expect(await open()).toEqual([])
})

test.each<[what: string, change: string, role: MemberRole]>([
  ['removed', 'delete from members where user_id = $1', 'viewer'],
  ['made a viewer', `update members set role = 'viewer' where user_id = $1`, 'viewer'],
  ['made a developer', `update members set role = 'developer' where user_id = $1`, 'admin'],
])('who is %s while their invitation waits for its turn has made none', async (_what, change, role) => {
  const admin = await office.signedIn('admin', shop.workspaceId)
  const inviting = () => invite(admin, 'herself@people.example', role)
  const invited = await office.meanwhile(change, admin.login.id, inviting, shop.workspaceId)
  expect(invited.statusCode).toBe(403)
  expect(await open()).toEqual([])
})

const workspaceGoes = `with members as (delete from members where workspace_id = $1), usage as (delete from usage where workspace_id = $1),
  boxes as (delete from mailboxes where workspace_id = $1), domains as (delete from domains where workspace_id = $1)
  delete from workspaces where id = $1`

// A domain's key takes long to make, and may wait for its turn.
test.each([
  ['/domains', () => ({ name: 'meanwhile.example' })],
  ['/mailboxes', (domain: string) => ({ address: `meanwhile@${domain}` })],
])(
  'who is removed, or whose workspace is, while POST %s is under way adds nothing, and hears why',
  async (path, bodyOn) => {
    const { workspaceId } = await office.sender()
    const body = bodyOn(
      await office.world.value<string>('select name from domains where workspace_id = $1', [workspaceId]),
    )
    const [one, other] = [await office.signedIn('admin', workspaceId), await office.signedIn('owner', workspaceId)]
    const add = (who: BrowserOf) => () => who.ask('POST', path, { body })
    const removed = await office.meanwhile(
      'delete from members where user_id = $1',
      one.login.id,
      add(one),
      workspaceId,
    )
    expect([removed.statusCode, removed.json()]).toMatchObject([403, { code: 'insufficient_scope' }])
    const gone = await office.meanwhile(workspaceGoes, workspaceId, add(other), workspaceId)
    expect([gone.statusCode, gone.json()]).toMatchObject([403, { code: 'insufficient_scope' }])
    for (const [table, column] of [
      ['domains', 'name'],
      ['mailboxes', 'address'],
    ])
      expect(await office.world.value(`select count(*)::integer from ${table} where ${column} like 'meanwhile%'`)).toBe(
        0,
      )
  },
)

// Held by their foreign key alone: neither holds who acts, since an ending that suppresses somebody would wait behind it.
test.each([
  ['/suppressions', { recipient: 'ada@meanwhile.example' }],
  ['/suppressions/import', { csv: 'ada@meanwhile.example\n' }],
])('whoever suppresses by POST %s while the workspace is removed hears why', async (path, body) => {
  const { workspaceId } = await office.sender()
  const member = await office.signedIn('owner', workspaceId)
  const removing = await office.world.holding(workspaceGoes, [workspaceId])
  const asking = member.ask('POST', path, { body })
  await office.world.untilSomebodyWaits()
  await removing.query('commit')
  const gone = await asking
  expect([gone.statusCode, gone.json()]).toMatchObject([
    403,
    { code: 'insufficient_scope', error: 'The workspace was removed meanwhile.' },
  ])
})

test('who is removed while a DKIM key is made for them gives the domain none, and hears why', async () => {
  const { workspaceId } = await office.sender()
  const admin = await office.signedIn('admin', workspaceId)
  const domain = await office.world.value<string>('select id from domains where workspace_id = $1', [workspaceId])
  const waiting = `select count(*)::integer from dkim_key_pairs where domain_id = $1 and state = 'pending'`
  const holding = await office.world.holding('select id from workspaces where id = $1 for update', [workspaceId])
  await holding.query('select id from domains where id = $1 for update', [domain])
  await holding.query('delete from members where user_id = $1', [admin.login.id])
  const rotated = admin.ask('POST', `/domains/${domain}/dkim/rotate`)
  await office.world.untilSomebodyWaits()
  await holding.query('commit')
  expect([(await rotated).statusCode, (await rotated).json()]).toMatchObject([403, { code: 'insufficient_scope' }])
  expect(await office.world.value(waiting, [domain])).toBe(0)
})

test('an invitation that is sent again while it is accepted does not stay behind, for whoever is then removed', async () => {
  const many = office.sent.length
  const email = 'twice@people.example'
  expect((await invite(owner, email)).statusCode).toBe(201)
  const token = tokenOf(await office.mail(many + 1))
  const holding = await office.world.holding(`select id from invitations where email = $1 for update`, [email])
  const person = office.browser()
  const accepted = person.ask('POST', '/invitations/accept', { body: { token, password: 'a long word of hers' } })
  await office.world.untilWaiting(1)
  const again = invite(owner, email)
  await office.world.untilWaiting(2)
  await holding.query('commit')
  expect((await accepted).statusCode).toBe(200)
  expect((await again).statusCode).toBe(409)
  expect(await open()).toEqual([])
})

test('an open invitation of somebody who came in another way goes when they are removed', async () => {
  const many = office.sent.length
  const person = await office.login()
  expect((await invite(owner, person.email, 'admin')).statusCode).toBe(201)
  const token = tokenOf(await office.mail(many + 1))
  // As `posthorn user create --workspace` does it.
  await office.world.db.run(`insert into members (workspace_id, user_id, role) values ($1, $2, 'viewer')`, [
    shop.workspaceId,
    person.id,
  ])
  await remove(person.id)
  expect(await open()).toEqual([])
  const browser = office.browser()
  await browser.ask('POST', '/session', { body: { email: person.email, password: person.password } })
  expect((await browser.ask('POST', '/invitations/accept', { body: { token } })).statusCode).toBe(401)
})
