// What a workspace sends with: its keys and SMTP logins, domains and mailboxes, its webhook endpoint, its name; and what operators change of it.
import { beforeAll, describe, expect, test } from 'vitest'
import { scopes } from '../../domain/scopes.ts'
import { tokenOf, type BrowserOf } from '../office.test-kit.ts'
import { audit, begin, key, list, office, owner, shop, type Listed } from './shop.test-kit.ts'

describe('keys', () => {
  beforeAll(begin)

  test('show their secret once, keep its hash alone, and are refused after they were revoked', async () => {
    const made = (await owner.ask('POST', '/keys', { body: { name: 'server', scopes: ['mail.read'] } })).json<{
      id: string
      key: string
    }>()
    const listed = await owner.ask('GET', '/keys')
    expect(listed.body).not.toContain(made.key)
    expect(await office.world.value('select string_agg(k::text, $$$$) from api_keys k')).not.toContain(made.key)
    expect((await office.withKey(made.key, 'GET', '/messages')).statusCode).toBe(200)
    expect((await owner.ask('DELETE', `/keys/${made.id}`)).json()).toHaveProperty('revokedAt')
    expect((await office.withKey(made.key, 'GET', '/messages')).statusCode).toBe(401)
    const log = await owner.ask('GET', '/audit')
    expect(log.body).toContain('key.created')
    expect(log.body).not.toContain(made.key)
  })

  test('and logins tell who made them: they stay when that person is removed', async () => {
    const developer = await office.signedIn('developer', shop.workspaceId)
    const made = new Map<string, string>()
    for (const [path, body] of [
      ['/keys', { name: 'theirs', scopes: ['mail.read'] }],
      ['/smtp-credentials', { name: 'theirs' }],
    ] as const)
      made.set(path, (await developer.ask('POST', path, { body })).json<{ id: string }>().id)
    const { userId } = (await owner.ask('GET', '/members'))
      .json<{ items: { userId: string; email: string }[] }>()
      .items.find(({ email }) => email === developer.login.email) as { userId: string }
    expect((await owner.ask('DELETE', `/members/${userId}`)).statusCode).toBe(204)
    for (const [path, id] of made) {
      const { items } = (await owner.ask('GET', path)).json<{ items: { id: string; createdBy?: string }[] }>()
      expect(items.find((item) => item.id === id)?.createdBy).toBe(`user:${userId}`)
    }
  })

  test('never get a scope that their maker lacks', async () => {
    const small = await office.key(shop.workspaceId, 'keys.write', 'mail.read')
    const wish = (...wanted: string[]) => office.withKey(small, 'POST', '/keys', { name: 'k', scopes: wanted })
    expect((await wish('mail.read', 'mail.send')).json()).toMatchObject({ code: 'insufficient_scope', field: 'scopes' })
    expect((await wish('mail.read')).statusCode).toBe(201)
    const developer = await office.signedIn('developer', shop.workspaceId)
    const body = { name: 'k', scopes: ['members.write'] }
    expect((await developer.ask('POST', '/keys', { body })).statusCode).toBe(403)
  })

  test('that a key makes, and its SMTP logins, end no later than it, and are named when it is revoked', async () => {
    const place = await office.sender()
    const boss = await office.signedIn('owner', place.workspaceId)
    const make = async (as: string | BrowserOf, path: string, body: object) =>
      typeof as === 'string' ? office.withKey(as, 'POST', path, body) : as.ask('POST', path, { body })
    type Made = { readonly id: string; readonly key: string; readonly expiresAt?: string }
    const makes = async (as: string | BrowserOf, name: string, expiresAt?: string) => {
      const body = { name, scopes: [...scopes], ...(expiresAt !== undefined && { expiresAt }) }
      return (await make(as, '/keys', body)).json<Made>()
    }
    const end = '2099-01-01T00:00:00.000Z'
    const leaked = await makes(boss, 'leaked', end)
    expect(await makes(leaked.key, 'later', '2099-01-01T00:00:01Z')).toMatchObject({
      code: 'invalid_request',
      field: 'expiresAt',
      error: expect.stringContaining(end),
    })
    const child = await makes(leaked.key, 'child')
    expect(child.expiresAt).toBe(end)
    expect((await makes(leaked.key, 'sooner', '2098-01-01T00:00:00Z')).expiresAt).toBe('2098-01-01T00:00:00.000Z')
    expect((await make(leaked.key, '/smtp-credentials', { name: 'login' })).json<Made>().expiresAt).toBe(end)
    // What has no end, makes what has none; and what was made in between may be gone already.
    const endless = await makes(boss, 'endless')
    const between = await makes(endless.key, 'between')
    expect(between).not.toHaveProperty('expiresAt')
    const last = await makes(between.key, 'last')
    const login = (await make(between.key, '/smtp-credentials', { name: 'login' })).json<Made>()
    expect(login).not.toHaveProperty('expiresAt')
    const revoke = async (id: string) => (await boss.ask('DELETE', `/keys/${id}`)).json<{ stillValid?: object[] }>()
    expect((await revoke(leaked.id)).stillValid).toMatchObject([
      { kind: 'key', id: child.id },
      { name: 'sooner' },
      { kind: 'smtp_credential' },
    ])
    await revoke(between.id)
    expect((await revoke(endless.id)).stillValid).toEqual([
      { kind: 'key', id: last.id, name: 'last' },
      { kind: 'smtp_credential', id: login.id, name: 'login' },
    ])
    expect(await revoke(last.id)).not.toHaveProperty('stillValid')
  })

  test('may end by themselves, in the future alone', async () => {
    const wish = (expiresAt: string) =>
      owner.ask('POST', '/keys', { body: { name: 'k', scopes: ['mail.read'], expiresAt } })
    expect((await wish('2020-01-01T00:00:00Z')).json()).toMatchObject({ field: 'expiresAt' })
    expect((await wish('2020-13-01T00:00:00Z')).json()).toMatchObject({ field: 'expiresAt' })
    // By the clock that keys expire by.
    const asked: number[] = []
    const at = Date.now() - 3600_000
    for (const now of [at - 1, at]) {
      await office.world.setClock(new Date(now).toISOString())
      asked.push((await wish(new Date(at).toISOString())).statusCode)
    }
    await office.world.setClock()
    expect(asked).toEqual([201, 400])
    // So says the list.
    const { items } = (await owner.ask('GET', '/keys')).json<{ items: { expiresAt?: string; expired: boolean }[] }>()
    expect(items.filter(({ expired }) => expired)).toEqual([
      expect.objectContaining({ expiresAt: new Date(at).toISOString() }),
    ])
    expect((await wish('2099-01-01T00:00:00+02:00')).json()).toMatchObject({ expiresAt: '2098-12-31T22:00:00.000Z' })
    expect((await wish('2098-12-31T23:59:60Z')).json()).toMatchObject({ expiresAt: '2099-01-01T00:00:00.000Z' })
    // In UTC it is in the year 10000, which RFC 3339 cannot write.
    expect((await wish('9999-12-31T23:59:59-00:01')).json()).toMatchObject({ field: 'expiresAt' })
  })
})

describe('SMTP credentials and refused submissions', () => {
  beforeAll(begin)

  test('a password is shown once and its hash alone is kept; who may not send makes no login', async () => {
    const made = (await owner.ask('POST', '/smtp-credentials', { body: { name: 'printer' } })).json<{
      id: string
      password: string
    }>()
    expect((await owner.ask('GET', '/smtp-credentials')).body).not.toContain(made.password)
    expect((await owner.ask('GET', '/audit')).body).not.toContain(made.password)
    expect((await owner.ask('DELETE', `/smtp-credentials/${made.id}`)).json()).toHaveProperty('revokedAt')
    const weak = await office.key(shop.workspaceId, 'smtp-credentials.write')
    const refused = await office.withKey(weak, 'POST', '/smtp-credentials', { name: 'x' })
    expect(refused.json()).toMatchObject({ code: 'insufficient_scope' })
  })

  test('refusals are listed newest first, page by page', async () => {
    for (const [n, domain] of ['a.example', null, 'c.example'].entries())
      await office.world.db.run(
        `insert into refused_submissions (workspace_id, id, source, code, recipient_domain) values ($1, $2, 'rest', 'recipient_suppressed', $3)`,
        [shop.workspaceId, `0199f1c2-0000-7000-8000-00000000000${n}`, domain],
      )
    const first = await list('/refused-submissions?limit=2')
    expect(first.items.map((item) => item['recipientDomain'])).toEqual(['c.example', undefined])
    const rest = await list(`/refused-submissions?limit=2&cursor=${first.next}`)
    expect(rest.items).toEqual([expect.objectContaining({ recipientDomain: 'a.example', source: 'rest' })])
  })

  test('a refusal tells what its sender was told, whose login it was and which request; and is found by code, source and time', async () => {
    const [key, credential] = ['0199f1c2-0000-7000-8000-0000000000aa', '0199f1c2-0000-7000-8000-0000000000bb']
    await office.world.db.run(
      `insert into refused_submissions (workspace_id, id, source, code, field, error, caller_id, request_id) values
         ($1, '0199f1c3-0000-7000-8000-000000000000', 'rest', 'invalid_request', 'subject', 'No.', $2, 'r-1'),
         ($1, '0199f1c4-0000-7000-8000-000000000000', 'smtp', 'mailbox_not_active', null, 'Not yours.', $3, null)`,
      [shop.workspaceId, key, credential],
    )
    const found = async (query: string) => (await list(`/refused-submissions?${query}`)).items
    expect(await found('code=invalid_request')).toEqual([
      expect.objectContaining({ field: 'subject', error: 'No.', keyId: key, requestId: 'r-1' }),
    ])
    expect(await found('source=smtp')).toEqual([
      expect.objectContaining({ error: 'Not yours.', smtpCredentialId: credential }),
    ])
    expect(await found('from=2100-01-01T00:00:00Z')).toEqual([])
    expect(await found('to=2100-01-01T00:00:00Z&code=mailbox_not_active')).toHaveLength(1)
    const backwards = await owner.ask('GET', '/refused-submissions?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z')
    expect(backwards.json()).toMatchObject({ code: 'invalid_request', field: 'from' })
  })
})

describe('domains and mailboxes', () => {
  beforeAll(begin)

  test('are added with the records to set, changed, and removed while nothing depends on them', async () => {
    const domain = (await owner.ask('POST', '/domains', { body: { name: 'Example.ORG' } })).json<{
      id: string
      records: unknown[]
    }>()
    expect(domain).toMatchObject({ name: 'example.org', status: 'pending' })
    expect(domain.records.length).toBeGreaterThan(3)
    expect((await owner.ask('POST', '/domains', { body: { name: 'example.org' } })).statusCode).toBe(409)
    expect((await owner.ask('POST', '/domains', { body: { name: 'no domain' } })).json()).toMatchObject({
      field: 'name',
    })
    const mailbox = (await owner.ask('POST', '/mailboxes', { body: { address: 'a@example.org' } })).json<{
      id: string
    }>()
    expect((await owner.ask('POST', '/mailboxes', { body: { address: 'a@elsewhere.org' } })).statusCode).toBe(400)
    const change = (body: object) => owner.ask('PATCH', `/mailboxes/${mailbox.id}`, { body })
    expect((await change({ name: 'Shop', status: 'disabled' })).json()).toMatchObject({
      name: 'Shop',
      status: 'disabled',
    })
    expect((await change({ name: '' })).json()).not.toHaveProperty('name')
    expect((await change({ name: 'a\nb' })).json()).toMatchObject({ field: 'name' })
    expect((await owner.ask('DELETE', `/domains/${domain.id}`)).statusCode).toBe(409)
    const free = (await owner.ask('POST', '/domains', { body: { name: 'free.example' } })).json<{ id: string }>()
    expect((await owner.ask('DELETE', `/domains/${free.id}`)).statusCode).toBe(204)
    expect((await owner.ask('GET', `/domains/${free.id}`)).statusCode).toBe(404)
    expect((await audit()).slice(1)).toEqual(
      ['domain.added', 'mailbox.added', 'mailbox.changed', 'mailbox.changed', 'domain.added', 'domain.removed'].map(
        (action) => expect.stringMatching(new RegExp(`^${action} user:`)) as string,
      ),
    )
  })
})

describe('the webhook endpoint', () => {
  beforeAll(begin)

  test('every change of it is in the audit log with who made it; neither a secret nor the path of the address is', async () => {
    const url = 'http://127.0.0.1:9/hooks/secret-path?token=secret-token'
    const secrets: unknown[] = []
    const change = async (method: string, path: string, body?: object) => {
      const answer = await owner.ask(method, `/webhook${path}`, { ...(body && { body }) })
      expect(answer.statusCode).toBe(200)
      secrets.push(answer.json<{ secret?: string }>().secret)
    }
    expect((await owner.ask('POST', '/webhook/rotate')).statusCode).toBe(404)
    await change('PUT', '', { url })
    await change('PUT', '', { url: `${url}&other`, events: ['message.sent'] })
    expect((await list('/audit?limit=1')).items[0]).toMatchObject({
      target: '127.0.0.1:9',
      facts: { url: 'changed', events: ['message.sent'] },
    })
    await change('PUT', '', { url })
    await change('PUT', '', { url, events: ['message.sent'] })
    expect((await list('/audit?limit=1')).items[0]?.facts).toEqual({ events: ['message.sent'] })
    await change('POST', '/disable')
    await change('POST', '/enable')
    await change('POST', '/rotate')
    await change('POST', '/promote')
    expect((await owner.ask('POST', '/webhook/promote')).statusCode).toBe(409)
    expect((await office.withKey(key, 'PUT', '/webhook', { url })).statusCode).toBe(200)
    expect((await audit()).filter((line) => line.startsWith('webhook.')).map((line) => line.split(':')[0])).toEqual([
      'webhook.created user',
      'webhook.changed user',
      'webhook.changed user',
      'webhook.changed user',
      'webhook.disabled user',
      'webhook.enabled user',
      'webhook.secret_prepared user',
      'webhook.secret_promoted user',
      'webhook.changed key',
    ])
    expect((await list('/audit?limit=1')).items[0]).toMatchObject({
      actorName: 'test',
      target: '127.0.0.1:9',
      facts: { events: ['message.sent'] },
    })
    const { body } = await owner.ask('GET', '/audit')
    for (const secret of ['secret-path', 'secret-token', ...secrets.filter((each) => each !== undefined)])
      expect(body).not.toContain(secret)
  })

  test('a body that is not called JSON is refused, as everywhere', async () => {
    const headers = { 'content-type': 'text/plain' }
    for (const [method, path] of [
      ['PUT', '/webhook'],
      ['POST', '/webhook/replay'],
    ] as const)
      expect((await owner.ask(method, path, { body: {}, headers })).json()).toMatchObject({
        code: 'invalid_request',
        field: 'Content-Type',
      })
  })
})

test('nobody learns which names other workspaces have: what members call theirs is their own, and operators keep their name for it', async () => {
  const [mine, foreign] = [await office.sender(), await office.sender()]
  const boss = await office.signedIn('owner', mine.workspaceId)
  const neighbour = await office.signedIn('owner', foreign.workspaceId)
  const nameOf = async (who: BrowserOf) => (await who.ask('GET', '/workspace')).json<{ name: string }>().name
  const [before, theirs] = [await nameOf(boss), await nameOf(neighbour)]
  const renamed = async (name: string) => {
    const answer = await boss.ask('PATCH', '/workspace', { body: { name } })
    return [answer.statusCode, answer.json<{ name: string }>().name]
  }
  for (const name of ['Nobody has this', theirs]) expect(await renamed(name)).toEqual([200, name])
  expect((await boss.ask('GET', '/session')).json()).toMatchObject({ workspaces: [{ name: theirs }] })
  const many = office.sent.length
  await boss.ask('POST', '/invitations', { body: { email: 'named@people.example', role: 'viewer' } })
  const mail = await office.mail(many + 1)
  expect(mail.subject).toBe(`Invitation to ${theirs}`)
  const look = await office.browser().ask('POST', '/invitations/lookup', { body: { token: tokenOf(mail) } })
  expect(look.json()).toMatchObject({ workspaceName: theirs })

  const operator = await office.signedIn('owner', mine.workspaceId, true)
  const path = `/operator/workspaces?text=${encodeURIComponent(theirs)}`
  const { items } = (await operator.ask('GET', path)).json<{
    items: { id: string; name: string; ownName?: string }[]
  }>()
  const shown = new Map(items.map(({ id, name, ownName }) => [id, [name, ownName]]))
  expect(shown.get(mine.workspaceId)).toEqual([before, theirs])
  expect(shown.get(foreign.workspaceId)).toEqual([theirs, undefined])
  // The operators' own name again is no other one.
  expect(await renamed(before)).toEqual([200, before])
  expect(await office.world.value('select own_name from workspaces where id = $1', [mine.workspaceId])).toBeNull()
})

describe('operators', () => {
  test('block a workspace and change its plan and route; its members see it, and no login of the route', async () => {
    await begin()
    const operator = await office.signedIn('viewer', shop.workspaceId, true)
    const change = (body: object) => operator.ask('PATCH', `/operator/workspaces/${shop.workspaceId}`, { body })
    const route = 'smtp://user:secret-password@relay.example:587'
    const answer = await change({ status: 'blocked', plan: 'starter', route })
    expect(answer.json()).toMatchObject({ status: 'blocked', plan: 'starter', route: 'smtp://relay.example:587' })
    expect((await change({ plan: 'no such' })).json()).toMatchObject({ code: 'invalid_request', field: 'plan' })
    expect(
      (await operator.ask('PATCH', '/operator/workspaces/0199f1c2-0000-7000-8000-00000000dead', { body: {} }))
        .statusCode,
    ).toBe(404)
    const name = `Renamed ${shop.workspaceId}`
    expect((await change({ name })).json()).toMatchObject({ id: shop.workspaceId, name, plan: 'starter' })
    const body = { name: `${name} not` }
    expect((await operator.ask('POST', '/operator/workspaces', { body })).statusCode).toBe(201)
    const refused = await change(body)
    expect([refused.statusCode, refused.json()]).toMatchObject([409, { code: 'conflict', field: 'name' }])
    const log = await owner.ask('GET', '/audit')
    expect(log.body).toContain('workspace.changed')
    expect(log.body).not.toContain('secret-password')
    const limits = { hourly: 5, daily: null, monthly: 9 }
    const setPlan = (body: object) => operator.ask('PUT', '/operator/plans/tiny', { body })
    expect((await setPlan({ ...limits, mustBeNew: true })).json()).toMatchObject(limits)
    // Made twice it would take the place of the first.
    const again = await setPlan({ hourly: 500, mustBeNew: true })
    expect(again.statusCode).toBe(409)
    expect(again.json()).toMatchObject({ code: 'conflict', field: 'name' })
    expect((await setPlan({ daily: 7 })).json()).toMatchObject({ ...limits, daily: 7 })
    expect((await operator.ask('GET', '/operator/workspaces?text=W')).json<Listed>().items.length).toBeGreaterThan(0)
    const capitals = { name: 'İSTANBUL ΟΔΟΣ' }
    await operator.ask('POST', '/operator/workspaces', { body: capitals })
    const named = await operator.ask('GET', `/operator/workspaces?text=${encodeURIComponent(capitals.name)}`)
    expect(named.json()).toMatchObject({ items: [capitals] })
  })
})
