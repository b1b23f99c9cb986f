// Members and invitations: who comes in, who may let them in, and that one owner is always left.
import { beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../../config.ts'
import { scopes } from '../../domain/scopes.ts'
import { saveSystemMailbox, setWorkspace } from '../../workspace/workspace.ts'
import { tokenOf, type BrowserOf } from '../office.test-kit.ts'
import { begin, office, owner, shop } from './shop.test-kit.ts'

describe('members', () => {
  beforeAll(begin)
  const inviting = (email: string, role: string) => owner.ask('POST', '/invitations', { body: { email, role } })

  test('come in by a mailed link that proves their address, with a new account or their own', async () => {
    const many = office.sent.length
    expect((await inviting('new@people.example', 'developer')).statusCode).toBe(201)
    const token = tokenOf(await office.mail(many + 1))
    expect(await office.world.value('select string_agg(i::text, $$$$) from invitations i')).not.toContain(token)
    const browser = office.browser()
    const accept = (body: object) => browser.ask('POST', '/invitations/accept', { body: { token, ...body } })
    expect((await browser.ask('POST', '/invitations/lookup', { body: { token } })).json()).toMatchObject({
      email: 'new@people.example',
      role: 'developer',
      workspaceId: shop.workspaceId,
      hasAccount: false,
    })
    expect((await accept({})).json()).toMatchObject({ field: 'password' })
    expect((await accept({ password: 'four little words here' })).json()).toMatchObject({
      email: 'new@people.example',
      workspaces: [{ workspaceId: shop.workspaceId, role: 'developer' }],
    })
    expect((await accept({ password: 'four little words here' })).statusCode).toBe(401)
    expect((await browser.ask('GET', '/messages')).statusCode).toBe(200)

    const known = await office.login()
    const stranger = await office.signedIn('viewer', (await office.sender()).workspaceId)
    await inviting(known.email, 'viewer')
    const second = tokenOf(await office.mail(many + 2))
    const join = (who: BrowserOf) =>
      who.ask('POST', '/invitations/accept', { body: { token: second, password: 'x'.repeat(12) } })
    expect((await join(office.browser())).json()).toMatchObject({ code: 'not_signed_in' })
    expect((await join(stranger)).json()).toMatchObject({ code: 'not_signed_in' })
    const theirs = office.browser()
    await theirs.ask('POST', '/session', { body: { email: known.email, password: known.password } })
    expect((await join(theirs)).statusCode).toBe(200)
    expect((await inviting(known.email, 'viewer')).statusCode).toBe(409)
  })

  test('a blocked workspace mails no invitations: they are its words, to whomever it likes, from the address of the installation', async () => {
    const abusive = await office.sender()
    const spammer = await office.signedIn('owner', abusive.workspaceId)
    const ask = () => spammer.ask('POST', '/invitations', { body: { email: 'victim@people.example', role: 'viewer' } })
    await office.world.db.run(`update workspaces set status = 'blocked' where id = $1`, [abusive.workspaceId])
    const [many, answer] = [office.sent.length, await ask()]
    expect([answer.statusCode, answer.json<{ code: string }>().code]).toEqual([403, 'workspace_blocked'])
    expect((await spammer.ask('GET', '/invitations')).json()).toMatchObject({ items: [] })
    await office.world.db.run(`update workspaces set status = 'active' where id = $1`, [abusive.workspaceId])
    expect((await ask()).statusCode).toBe(201)
    await office.mail(many + 1)
    expect(office.sent).toHaveLength(many + 1)
  })

  test('an invitation that was withdrawn, replaced or is too old is worth nothing', async () => {
    const many = office.sent.length
    await inviting('late@people.example', 'viewer')
    const { id } = (await inviting('late@people.example', 'developer')).json<{ id: string }>()
    const [first, second] = [await office.mail(many + 1), await office.mail(many + 2)]
    const look = async (mail: typeof first) =>
      (await office.browser().ask('POST', '/invitations/lookup', { body: { token: tokenOf(mail) } })).statusCode
    expect(await look(first)).toBe(401)
    expect(await look(second)).toBe(200)
    await office.world.setClock(new Date(Date.now() + 8 * 86_400_000).toISOString())
    expect(await look(second)).toBe(401)
    await office.world.setClock()
    expect((await owner.ask('DELETE', `/invitations/${id}`)).statusCode).toBe(204)
    expect(await look(second)).toBe(401)
  })

  test('tell where the mail of an invitation goes: whoever invites sees that it lies in the sandbox, and no token; only operators, and who is there, see of which workspace', async () => {
    const mail = async (who: BrowserOf = owner) => (await who.ask('GET', '/invitations')).json<{ mail: object }>().mail
    expect(await mail()).toEqual({ goes: 'nowhere' })
    const place = await office.sender()
    await office.world.db.transaction((tx) => saveSystemMailbox(tx, place.workspaceId, place.mailboxId))
    expect(await mail()).toEqual({ goes: 'sandbox' })
    const known = { goes: 'sandbox', workspaceId: place.workspaceId }
    expect(await mail(await office.signedIn('viewer', shop.workspaceId, true))).toEqual(known)
    expect(await mail(await office.signedIn('viewer', place.workspaceId))).toEqual(known)
    const key = await office.key(shop.workspaceId, 'members.read')
    expect((await office.withKey(key, 'GET', '/invitations')).json()).toMatchObject({ mail: { goes: 'sandbox' } })
    expect((await office.withKey(key, 'GET', '/invitations')).body).not.toContain(place.workspaceId)
    const answer = await inviting('told@people.example', 'viewer')
    expect(Object.keys(answer.json<object>()).toSorted()).toEqual(['createdAt', 'email', 'expiresAt', 'id', 'role'])
    await setWorkspace(office.world.db, office.office.vault, place.workspaceId, { route: 'mx' })
    expect(await mail()).toEqual({ goes: 'out' })
    await office.world.db.run('delete from installation where name in ($1, $2)', ['system_workspace', 'system_mailbox'])
  })

  test('an invitation that its maker could not make any more is withdrawn: who is to be removed invites herself first', async () => {
    const place = await office.sender()
    const first = await office.signedIn('owner', place.workspaceId)
    const second = await office.signedIn('owner', place.workspaceId)
    const admin = await office.signedIn('admin', place.workspaceId)
    const invites = async (who: BrowserOf, email: string, role: string) =>
      expect((await who.ask('POST', '/invitations', { body: { email, role } })).statusCode).toBe(201)
    const open = async () =>
      (await first.ask('GET', '/invitations')).json<{ items: { email: string }[] }>().items.map((each) => each.email)
    const many = office.sent.length
    await invites(admin, 'herself@people.example', 'admin')
    const token = tokenOf(await office.mail(many + 1))
    await invites(second, 'boss@people.example', 'owner')
    await invites(second, 'clerk@people.example', 'viewer')
    await invites(first, 'other@people.example', 'owner')

    expect((await first.ask('DELETE', `/members/${admin.login.id}`)).statusCode).toBe(204)
    expect(await open()).toEqual(['boss@people.example', 'clerk@people.example', 'other@people.example'])
    const late = await office
      .browser()
      .ask('POST', '/invitations/accept', { body: { token, password: 'x'.repeat(12) } })
    expect(late.json()).toMatchObject({ code: 'wrong_credentials' })
    // An admin still invites viewers.
    const demoted = (role: string) => first.ask('PATCH', `/members/${second.login.id}`, { body: { role } })
    expect((await demoted('admin')).statusCode).toBe(200)
    expect(await open()).toEqual(['clerk@people.example', 'other@people.example'])
    expect((await demoted('developer')).statusCode).toBe(200)
    expect(await open()).toEqual(['other@people.example'])
    const withdrawn = await office.world.db.run<{ actor: string; target: string }>(
      `select actor, target from audit_log where workspace_id = $1 and action = 'invitation.withdrawn' order by target`,
      [place.workspaceId],
    )
    const actor = `user:${first.login.id}`
    expect(withdrawn).toEqual(['boss', 'clerk', 'herself'].map((name) => ({ actor, target: `${name}@people.example` })))
  })

  test('who is removed does not come back by an invitation that was open beside their membership', async () => {
    const place = await office.sender()
    const boss = await office.signedIn('owner', place.workspaceId)
    const person = await office.login()
    const many = office.sent.length
    await boss.ask('POST', '/invitations', { body: { email: person.email.toUpperCase(), role: 'admin' } })
    const token = tokenOf(await office.mail(many + 1))
    // As an operator's command does.
    const joins = `insert into members (workspace_id, user_id, role) values ($1, $2, 'viewer')`
    await office.world.db.run(joins, [place.workspaceId, person.id])
    expect((await boss.ask('DELETE', `/members/${person.id}`)).statusCode).toBe(204)
    expect((await boss.ask('GET', '/invitations')).json()).toMatchObject({ items: [] })
    const browser = office.browser()
    await browser.ask('POST', '/session', { body: { email: person.email, password: person.password } })
    expect((await browser.ask('POST', '/invitations/accept', { body: { token } })).statusCode).toBe(401)
    expect((await browser.ask('GET', '/session')).json()).toMatchObject({ workspaces: [] })
  })

  test('an invitation that a key has made is worth nothing behind its end: who holds a leaked one invites herself first', async () => {
    const place = await office.sender()
    const boss = await office.signedIn('owner', place.workspaceId)
    const key = async (more: object) => {
      const answer = await boss.ask('POST', '/keys', { body: { name: 'k', scopes: [...scopes], ...more } })
      return answer.json<{ id: string; key: string }>()
    }
    const invites = async (secret: string, email: string) => {
      const many = office.sent.length
      const answer = await office.withKey(secret, 'POST', '/invitations', { email, role: 'admin' })
      expect(answer.statusCode).toBe(201)
      return tokenOf(await office.mail(many + 1))
    }
    const tries = async (token: string) => {
      const look = await office.browser().ask('POST', '/invitations/lookup', { body: { token } })
      const body = { token, password: 'four little words here' }
      const accept = await office.browser().ask('POST', '/invitations/accept', { body })
      return [look, accept].map((answer) => ({ status: answer.statusCode, says: answer.json<object>() }))
    }
    const open = async () =>
      (await boss.ask('GET', '/invitations')).json<{ items: { email: string }[] }>().items.map((each) => each.email)
    const like = (answers: Awaited<ReturnType<typeof tries>>) =>
      answers.map(({ status, says }) => ({ status, says: { ...says, requestId: '' } }))
    const unknown = like(await tries('x'.repeat(43)))
    expect(unknown.map(({ status }) => status)).toEqual([401, 401])

    const [leaked, other] = [await key({}), await key({})]
    const token = await invites(leaked.key, 'herself@keys.example')
    await invites(other.key, 'clerk@keys.example')
    expect((await boss.ask('DELETE', `/keys/${leaked.id}`)).statusCode).toBe(200)
    expect(await open()).toEqual(['clerk@keys.example'])
    expect(like(await tries(token))).toEqual(unknown)
    const withdrawn = `select actor || ' ' || target from audit_log where workspace_id = $1 and action = 'invitation.withdrawn'`
    expect(await office.world.value(withdrawn, [place.workspaceId])).toBe(`user:${boss.login.id} herself@keys.example`)

    const brief = await key({ expiresAt: new Date(Date.now() + 3600_000).toISOString() })
    const late = await invites(brief.key, 'later@keys.example')
    await office.world.setClock(new Date(Date.now() + 2 * 3600_000).toISOString())
    const answers = like(await tries(late))
    const listed = await open()
    await office.world.setClock()
    expect(answers).toEqual(unknown)
    expect(listed).toEqual(['clerk@keys.example'])
    expect(await open()).toEqual(['clerk@keys.example', 'later@keys.example'])
    expect((await tries(late)).map(({ status }) => status)).toEqual([200, 200])
  })

  test('nothing comes of a key that is revoked while it makes an invitation, a key or an SMTP login', async () => {
    const place = await office.sender()
    const boss = await office.signedIn('owner', place.workspaceId)
    for (const [path, body] of [
      ['/keys', { name: 'k', scopes: ['mail.read'] }],
      ['/smtp-credentials', { name: 'kept' }],
      ['/invitations', { email: 'meanwhile@keys.example', role: 'viewer' }],
    ] as const) {
      const { id, key } = (await boss.ask('POST', '/keys', { body: { name: 'k', scopes: [...scopes] } })).json<{
        id: string
        key: string
      }>()
      const revoked = 'update api_keys set revoked_at = app_now() where id = $1'
      const ask = () => office.withKey(key, 'POST', path, body)
      const answer = await office.meanwhile(revoked, id, ask, place.workspaceId)
      expect(answer.json(), path).toMatchObject({ code: 'insufficient_scope' })
    }
  })

  test('an invitation that is withdrawn while it is being accepted is worth nothing either', async () => {
    const many = office.sent.length
    const person = await office.login()
    const { id } = (await inviting(person.email, 'admin')).json<{ id: string }>()
    const token = tokenOf(await office.mail(many + 1))
    const browser = office.browser()
    await browser.ask('POST', '/session', { body: { email: person.email, password: person.password } })
    const accepted = await office.meanwhile('delete from invitations where id = $1', id, () =>
      browser.ask('POST', '/invitations/accept', { body: { token } }),
    )
    expect(accepted.statusCode).toBe(401)
    expect((await browser.ask('GET', '/session')).json()).toMatchObject({ workspaces: [] })
  })

  test('only so many mails an hour go to addresses that members choose', async () => {
    const place = await office.sender()
    const admin = await office.signedIn('admin', place.workspaceId)
    const ask = (n: number) =>
      admin.ask('POST', '/invitations', { body: { email: `many${n % 3}@people.example`, role: 'viewer' } })
    for (let n = 0; n < limits.invitationsPerHourMax; n++) expect((await ask(n)).statusCode).toBe(201)
    const late = await ask(0)
    expect(late.statusCode).toBe(429)
    expect(late.headers['retry-after']).toBe('3600')
  })

  test('where no more invitations may be open, one that is open is sent again all the same', async () => {
    const place = await office.sender()
    const admin = await office.signedIn('admin', place.workspaceId)
    await office.world.db.run(
      `insert into invitations (workspace_id, id, email, email_key, role, token_hash, invited_by, expires_at)
       select $1, gen_random_uuid(), n || '@full.example', n || '@full.example', 'viewer', sha256(concat($2::text, n)::bytea), $2, app_now() + interval '1 day'
         from generate_series(1, $3::integer) n`,
      [place.workspaceId, `user:${admin.login.id}`, limits.invitationsPerWorkspaceMax],
    )
    const ask = (email: string) => admin.ask('POST', '/invitations', { body: { email, role: 'viewer' } })
    expect((await ask('one-more@full.example')).json()).toMatchObject({ code: 'conflict' })
    expect((await ask('7@full.example')).statusCode).toBe(201)
  })

  test('only owners make, change and remove owners, and one is always left', async () => {
    const place = await office.sender()
    const first = await office.signedIn('owner', place.workspaceId)
    const admin = await office.signedIn('admin', place.workspaceId)
    const role = (who: BrowserOf, id: string, to: string) => who.ask('PATCH', `/members/${id}`, { body: { role: to } })
    expect((await role(admin, admin.login.id, 'owner')).json()).toMatchObject({ code: 'insufficient_scope' })
    expect((await role(admin, first.login.id, 'viewer')).statusCode).toBe(403)
    expect((await admin.ask('DELETE', `/members/${first.login.id}`)).statusCode).toBe(403)
    expect(
      (await admin.ask('POST', '/invitations', { body: { email: 'x@people.example', role: 'owner' } })).statusCode,
    ).toBe(403)
    // Nor does an invitation of the same address take the place of an owner's.
    const { id } = (
      await first.ask('POST', '/invitations', { body: { email: 'next@people.example', role: 'owner' } })
    ).json<{ id: string }>()
    expect((await admin.ask('DELETE', `/invitations/${id}`)).statusCode).toBe(403)
    expect(
      (await admin.ask('POST', '/invitations', { body: { email: 'Next@people.example', role: 'viewer' } })).statusCode,
    ).toBe(403)
    const strong = await office.key(place.workspaceId, ...scopes)
    expect((await office.withKey(strong, 'PATCH', `/members/${admin.login.id}`, { role: 'owner' })).statusCode).toBe(
      403,
    )
    expect((await role(first, first.login.id, 'admin')).statusCode).toBe(409)
    expect((await first.ask('DELETE', `/members/${first.login.id}`)).statusCode).toBe(409)
    expect((await role(first, admin.login.id, 'owner')).statusCode).toBe(200)
    // Two owners who remove each other at once: one stays.
    const both = await Promise.all([
      first.ask('DELETE', `/members/${admin.login.id}`),
      admin.ask('DELETE', `/members/${first.login.id}`),
    ])
    expect(both.filter(({ statusCode }) => statusCode === 204).length).toBe(1)
    expect(
      await office.world.value(`select count(*)::integer from members where workspace_id = $1 and role = 'owner'`, [
        place.workspaceId,
      ]),
    ).toBe(1)
  })

  test('nobody gives a role that can do more than they can', async () => {
    const weak = await office.key(shop.workspaceId, 'members.write', 'mail.read')
    const answer = await office.withKey(weak, 'POST', '/invitations', { email: 'x@people.example', role: 'viewer' })
    expect(answer.json()).toMatchObject({ code: 'insufficient_scope' })
  })
})
