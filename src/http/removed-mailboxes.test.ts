// A mailbox that is not needed any more is removed: nothing is sent from it again, what was sent from it stays as it was, and its address and its
// domain are free.
import { beforeEach, describe, expect, test } from 'vitest'
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { claimDue } from '../store/claim.ts'
import { wholeClaim, type Sender } from '../store/store.test-kit.ts'
import { readStatus } from '../store/views/message-status.ts'
import { removeMailbox, saveSystemMailbox } from '../workspace/workspace.ts'
import { officeWorld, type Answer, type BrowserOf } from './office.test-kit.ts'

let shop: Sender
let owner: BrowserOf
let key: string
let address: string

const office = await officeWorld()
beforeEach(async () => {
  shop = await office.sender()
  owner = await office.signedIn('owner', shop.workspaceId)
  key = await office.key(shop.workspaceId, 'mail.send', 'mail.status.read')
  address = await office.world.value('select address from mailboxes where id = $1', [shop.mailboxId])
})

const remove = async (id: string = shop.mailboxId) => (await owner.ask('DELETE', `/mailboxes/${id}`)).statusCode
const send = (mailboxId: string = shop.mailboxId) =>
  office.withKey(key, 'POST', '/send', { mailboxId, recipient: 'ada@example.com', subject: 'Hi', bodyText: 'Hello' })
const claim = () => claimDue(office.world.db, wholeClaim)
const idOf = (answer: Answer) => answer.json<{ id: string }>().id

test('it is gone, sends from it are refused, and what was sent from it stays to be read; the audit log says who', async () => {
  const id = idOf(await send())
  await claim()
  const before = (await office.withKey(key, 'GET', `/messages/${id}`)).json<object>()
  await owner.ask('POST', '/suppressions', { body: { recipient: 'bob@example.com' } })
  expect(await remove()).toBe(204)
  expect((await owner.ask('GET', `/mailboxes/${shop.mailboxId}`)).statusCode).toBe(404)
  expect((await owner.ask('PATCH', `/mailboxes/${shop.mailboxId}`, { body: { status: 'active' } })).statusCode).toBe(
    404,
  )
  expect(await remove()).toBe(404)
  expect((await owner.ask('GET', '/mailboxes')).json()).toEqual({ items: [] })
  const refused = await send()
  expect([refused.statusCode, refused.json()]).toMatchObject([400, { code: 'mailbox_not_active', field: 'mailboxId' }])
  expect((await office.withKey(key, 'GET', `/messages/${id}`)).json()).toEqual(before)
  expect(before).toMatchObject({ message: { sender: address, mailboxId: shop.mailboxId } })
  expect((await owner.ask('GET', `/messages/${id}/timeline`)).statusCode).toBe(200)
  const list = await owner.ask('GET', `/messages?mailboxId=${shop.mailboxId}`)
  expect(list.json<{ items: unknown[] }>().items).toHaveLength(1)
  expect((await owner.ask('GET', '/suppressions')).json<{ items: unknown[] }>().items).toHaveLength(1)
  const { items } = (await owner.ask('GET', '/audit')).json<{ items: object[] }>()
  expect(items[0]).toMatchObject({ action: 'mailbox.removed', target: address, facts: { id: shop.mailboxId } })
})

test('mail of it that waits fails at its next turn and says why; what was claimed before goes its way', async () => {
  const [under] = await office.world.claimed(shop, [{ armed: true }])
  const waiting = [idOf(await send()), idOf(await send())]
  await office.world.db.run(`update messages set status = 'sending' where id = $1`, [waiting[1]])
  await office.world.db.run(`update messages set status = 'retrying' where id = $1`, [waiting[1]])
  await office.world.db.run(`update outbound set status = 'retrying', attempts = 3 where message_id = $1`, [waiting[1]])
  expect(await remove()).toBe(204)
  const { refused } = await claim()
  expect(refused.map(({ id, reason }) => `${id} ${reason}`).toSorted()).toEqual(
    waiting.map((id) => `${id} mailbox_not_active`).toSorted(),
  )
  for (const id of waiting)
    expect((await readStatus(office.world.db, shop.workspaceId, id as MessageId))?.message).toMatchObject({
      status: 'failed',
      errorMessage: expect.stringContaining('not active any more') as string,
    })
  expect(await office.world.value('select status from outbound where message_id = $1', [under?.id])).toBe('sending')
})

test('its address may be added again, with a new id: mail of the old one does not rise again', async () => {
  const id = idOf(await send())
  expect(await remove()).toBe(204)
  const again = (await owner.ask('POST', '/mailboxes', { body: { address } })).json<{ id: string }>()
  expect(again.id).not.toBe(shop.mailboxId)
  expect((await send(again.id)).statusCode).toBe(202)
  expect((await send()).statusCode).toBe(400)
  expect((await claim()).refused.map((each) => each.id)).toEqual([id])
})

test('sends that race with the removal are refused, or accepted and ended: none is lost', async () => {
  const answers = await Promise.all([...Array.from({ length: 40 }, () => send()), remove(), send()])
  const sends = answers.filter((each) => typeof each === 'object')
  const accepted = sends.filter(({ statusCode }) => statusCode === 202).map(idOf)
  const refused = sends.filter(({ statusCode }) => statusCode === 400)
  expect(accepted.length + refused.length).toBe(41)
  const { claimed, refused: failed } = await claim()
  expect([...claimed, ...failed].map(({ id }) => String(id)).toSorted()).toEqual(accepted.toSorted())
})

test('it makes room for another one, and its domain can be removed after it', async () => {
  const { workspaceId, domainId } = shop
  await office.world.db.run(
    `insert into mailboxes (workspace_id, id, domain_id, address, address_key)
     select $1, gen_random_uuid(), $2, a, a from generate_series(2, $3::integer) n, concat('m', n, '@x.example') a`,
    [workspaceId, domainId, limits.mailboxesPerWorkspaceMax],
  )
  const another = () => owner.ask('POST', '/mailboxes', { body: { address: address.replace('post', 'more') } })
  expect((await another()).json()).toMatchObject({
    code: 'conflict',
    error: expect.stringContaining('remove one') as string,
  })
  expect(await remove()).toBe(204)
  const made = await another()
  expect(made.statusCode).toBe(201)
  await office.world.db.run(`delete from mailboxes where workspace_id = $1 and address like '%@x.example'`, [
    workspaceId,
  ])
  const domain = () => owner.ask('DELETE', `/domains/${domainId}`)
  expect((await domain()).json()).toMatchObject({ code: 'conflict', error: expect.stringContaining('first') as string })
  expect(await remove(idOf(made))).toBe(204)
  expect((await domain()).statusCode).toBe(204)
})

test("the mailbox that POSTHORN_SYSTEM_MAILBOX names stays, and somebody else's of the same address goes", async () => {
  const { db } = office.world
  const setting = { ...office.office, systemMailbox: address.toUpperCase() }
  const other = await office.sender()
  const theirs = office.world.nextId()
  await db.run(
    `insert into mailboxes (workspace_id, id, domain_id, address, address_key) values ($1, $2, $3, $4, $4)`,
    [other.workspaceId, theirs, other.domainId, address],
  )
  await db.run(`update domains set status = 'pending' where id = $1`, [other.domainId])
  const by = (workspaceId: WorkspaceId) => ({ workspaceId, actor: 'operator:test', scopes: new Set<string>() })
  await expect(removeMailbox(setting, by(shop.workspaceId), shop.mailboxId)).rejects.toThrow('its own mail')
  await expect(removeMailbox(setting, by(other.workspaceId), shop.mailboxId)).rejects.toThrow('no such mailbox')
  expect(await removeMailbox(setting, by(other.workspaceId), theirs)).toBe(address)
})

test("a viewer may not, and the installation's own sender stays", async () => {
  const viewer = await office.signedIn('viewer', shop.workspaceId)
  expect((await viewer.ask('DELETE', `/mailboxes/${shop.mailboxId}`)).statusCode).toBe(403)
  await office.world.db.transaction((tx) => saveSystemMailbox(tx, shop.workspaceId, shop.mailboxId))
  expect(await remove()).toBe(409)
  expect((await owner.ask('GET', `/mailboxes/${shop.mailboxId}`)).statusCode).toBe(200)
})

describe('at the same time as its domain is removed', () => {
  const domain = () => owner.ask('DELETE', `/domains/${shop.domainId}`)
  const add = () => owner.ask('POST', '/mailboxes', { body: { address: address.replace('post', 'late') } })
  /** Somebody else's transaction, which has done this and is not over. */
  const open = async (text: string, values: readonly unknown[]) => {
    const session = await office.world.holding(text, [...values])
    return session
  }
  beforeEach(async () => {
    expect(await remove()).toBe(204)
  })

  test('a mailbox that is added first keeps it', async () => {
    const adding = await open(
      `insert into mailboxes (workspace_id, id, domain_id, address, address_key) values ($1, $2, $3, 'a', 'a')`,
      [shop.workspaceId, office.world.nextId(), shop.domainId],
    )
    const answer = domain()
    await office.world.untilWaiting(1)
    await adding.query('commit')
    expect((await answer).json()).toMatchObject({ code: 'conflict' })
  })

  test('it is removed once', async () => {
    const answers = await Promise.all([domain(), domain()])
    expect(answers.map(({ statusCode }) => statusCode).toSorted((a, b) => a - b)).toEqual([204, 404])
  })

  test.each([
    ['a mailbox', add, 400, 'does not have the domain'],
    ['a DKIM key', () => owner.ask('POST', `/domains/${shop.domainId}/dkim/rotate`), 404, 'no such domain'],
  ])('%s that comes later is told that it is gone', async (_name, late, status, words) => {
    const removing = await open('delete from domains where id = $1', [shop.domainId])
    const answer = late()
    await office.world.untilWaiting(1)
    await removing.query('commit')
    expect([(await answer).statusCode, (await answer).json()]).toMatchObject([
      status,
      { error: expect.stringContaining(words) as string },
    ])
  })
})
