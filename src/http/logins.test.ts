// What operators do with the logins of others, and that it is felt in every browser at once.
import { TOTP, Secret } from 'otpauth'
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { scopes } from '../domain/scopes.ts'
import {
  beginLoginAnew,
  createUser,
  invite,
  listInvitations,
  listLogins,
  removeLogin,
  saveSystemMailbox,
  setLogin,
} from '../workspace/workspace.ts'
import { officeWorld, tokenOf } from './office.test-kit.ts'

const actor = 'operator:tester'
const office = await officeWorld()

const signIn = (email: string, password: string) => ({ body: { email, password } })
const audit = async (target: string) =>
  (await office.world.db.run<{ actor: string; action: string; workspace_id: string | null }>(
    'select actor, action, workspace_id from audit_log where target = $1 and actor = $2 order by action, workspace_id',
    [target, actor],
  )) as { action: string; workspace_id: string | null }[]

test('whoever has lost everything begins anew: a new password, and nothing else that opens or is open', async () => {
  const shop = await office.sender()
  const person = await office.signedIn('owner', shop.workspaceId)
  const { email, id, password } = person.login
  const begun = await person.ask('POST', '/account/two-factor', { body: { password } })
  const { secret } = begun.json<{ secret: string }>()
  const code = new TOTP({ secret: Secret.fromBase32(secret) }).generate()
  expect((await person.ask('POST', '/account/two-factor/confirm', { body: { code } })).statusCode).toBe(200)
  await office.world.db.run(
    `insert into passkeys (id, user_id, name, public_key, counter, transports) values ('lost', $1, 'lost', '', 0, '{}')`,
    [id],
  )
  await office.world.db.run(
    `insert into password_resets (token_hash, user_id, expires_at) values ('lost', $1, app_now() + interval '1 hour')`,
    [id],
  )
  const stranger = await office.signedIn('owner', shop.workspaceId)

  const anew = await beginLoginAnew(office.office.db, actor, email.toUpperCase())
  expect(anew).toEqual({ id, email, operator: false, password: expect.stringMatching(/^.{20}$/) as string })
  expect((await person.ask('GET', '/session')).statusCode).toBe(401)
  expect((await office.browser().ask('POST', '/session', signIn(email, password))).statusCode).toBe(401)
  expect((await office.browser().ask('POST', '/session', signIn(email, anew.password))).statusCode).toBe(200)
  for (const table of ['passkeys', 'password_resets', 'recovery_codes'])
    expect(await office.world.value(`select count(*)::integer from ${table} where user_id = $1`, [id]), table).toBe(0)
  expect((await stranger.ask('GET', '/session')).statusCode).toBe(200)
  expect(await audit(email)).toEqual([{ actor, action: 'user.reset', workspace_id: null }])
})

test('a login that somebody makes with an invitation is in the log of the installation, too', async () => {
  const shop = await office.sender()
  const owner = await office.signedIn('owner', shop.workspaceId)
  const email = 'invited@example.org'
  const many = office.sent.length
  await owner.ask('POST', '/invitations', { body: { email, role: 'viewer' } })
  const token = tokenOf(await office.mail(many + 1))
  const accepted = await office.browser().ask('POST', '/invitations/accept', {
    body: { token, password: 'six slow badgers' },
  })
  expect(accepted.statusCode).toBe(200)
  const operator = office.browser()
  const { password, email: theirs } = await office.login(undefined, undefined, true)
  await operator.ask('POST', '/session', signIn(theirs, password))
  const { items } = (await operator.ask('GET', '/operator/audit')).json<{ items: { target?: string }[] }>()
  expect(items.filter(({ target }) => target === email)).toEqual([
    expect.objectContaining({ action: 'user.created', actorName: email, facts: { operator: false } }),
  ])
})

test('an operator who is given a workspace stays one, and the audit log says so', async () => {
  const { db } = office.office
  const email = 'keeper@example.org'
  const { workspaceId } = await office.sender()
  await createUser(db, actor, { email, operator: true })
  const again = { email, operator: false, member: { workspace: workspaceId, role: 'owner' } } as const
  expect(await createUser(db, actor, again)).toMatchObject({ operator: true })
  expect(await db.run(`select action, facts from audit_log where target = $1 order by id`, [email])).toEqual([
    { action: 'user.created', facts: { operator: true } },
    { action: 'user.changed', facts: { operator: true, role: 'owner' } },
  ])
})

test('the only owner of a workspace stays one, also where an operator gives them another role', async () => {
  const { db } = office.office
  const { workspaceId } = await office.sender()
  const as = (email: string, role: 'owner' | 'viewer') =>
    createUser(db, actor, { email, operator: false, member: { workspace: workspaceId, role } })
  // A workspace may have none at first: those who are made for it may have any role.
  await as('looks-only@example.org', 'viewer')
  await as('looks-only@example.org', 'viewer')
  await as('sole@example.org', 'owner')
  await expect(as('sole@example.org', 'viewer')).rejects.toThrow('keeps at least one owner')
  await as('second@example.org', 'owner')
  await as('sole@example.org', 'viewer')
  const roles = `select u.email, m.role from members m join users u on u.id = m.user_id where m.workspace_id = $1 order by u.email`
  expect(await db.run(roles, [workspaceId])).toEqual([
    { email: 'looks-only@example.org', role: 'viewer' },
    { email: 'second@example.org', role: 'owner' },
    { email: 'sole@example.org', role: 'viewer' },
  ])
})

test('the rights of an operator are given and taken, also of one who is signed in', async () => {
  const person = await office.signedIn('viewer', (await office.sender()).workspaceId, true)
  const { email, id } = person.login
  expect((await person.ask('GET', '/operator/plans')).statusCode).toBe(200)
  expect(await setLogin(office.office.db, actor, email, { operator: false })).toEqual({ id, email, operator: false })
  expect((await person.ask('GET', '/operator/plans')).statusCode).toBe(403)
  await setLogin(office.office.db, actor, email, { operator: true })
  expect((await person.ask('GET', '/operator/plans')).statusCode).toBe(200)
  await expect(setLogin(office.office.db, actor, 'nobody@people.example', { operator: true })).rejects.toThrow(
    'There is no user "nobody@people.example"',
  )
})

test('a list of logins has them all, however many there are', async () => {
  const many = limits.loginsListedAtOnce + 1
  await office.world.db.run(
    `insert into users (id, email, email_key) select gen_random_uuid(), n || '@many.example', n || '@many.example' from generate_series(1, $1::integer) n`,
    [many],
  )
  const emails = (await listLogins(office.office.db)).map(({ email }) => email)
  expect(emails.filter((email) => email.endsWith('@many.example'))).toHaveLength(many)
  expect(new Set(emails).size).toBe(emails.length)
})

test('a login is removed with all that is theirs, but for the only owner of a workspace', async () => {
  const [shop, bakery] = [await office.sender(), await office.sender()]
  const first = await office.signedIn('owner', shop.workspaceId)
  const { email, id } = first.login
  await office.world.db.run(`insert into members (workspace_id, user_id, role) values ($1, $2, 'viewer')`, [
    bakery.workspaceId,
    id,
  ])
  const named = (await listLogins(office.office.db)).find((each) => each.id === id)
  expect(named).toMatchObject({ email, operator: false, twoFactor: false, lastSignInAt: expect.any(Date) as Date })
  expect(named?.workspaces.map((each) => [each.id, each.role])).toEqual([
    [shop.workspaceId, 'owner'],
    [bakery.workspaceId, 'viewer'],
  ])
  await expect(removeLogin(office.office.db, actor, email, true)).rejects.toThrow(`${email} is the only owner of`)
  expect((await first.ask('GET', '/session')).statusCode).toBe(200)

  const second = await office.signedIn('owner', shop.workspaceId)
  const invitation = { body: { email: 'friend@people.example', role: 'owner' } }
  expect(
    (await first.ask('POST', '/invitations', { ...invitation, headers: { 'x-posthorn-workspace': shop.workspaceId } }))
      .statusCode,
  ).toBe(201)
  expect(await removeLogin(office.office.db, actor, email, true)).toMatchObject({ id, email })
  expect((await first.ask('GET', '/session')).statusCode).toBe(401)
  expect((await listLogins(office.office.db)).map((each) => each.id)).not.toContain(id)
  const members = (await second.ask('GET', '/members')).json<{ items: { email: string }[] }>().items
  expect(members.map((each) => each.email)).toEqual([second.login.email])
  expect((await second.ask('GET', '/invitations')).json()).toMatchObject({ items: [] })
  expect(await audit(email)).toEqual([
    ...[shop.workspaceId, bakery.workspaceId]
      .sort()
      .map((workspace_id) => ({ actor, action: 'member.removed', workspace_id })),
    { actor, action: 'user.removed', workspace_id: null },
  ])
})

test('whoever invites somebody to whom no mail goes hears so, and the invitation is there to be sent again', async () => {
  const { db } = office.office
  const own = await office.sender()
  const { login } = await office.signedIn('owner', own.workspaceId)
  const by = {
    workspaceId: own.workspaceId,
    actor: `user:${login.id}`,
    scopes: new Set(scopes),
    role: 'owner',
  } as const
  // As where the address is suppressed for the installation's own mail, say.
  const refusing = { db, publicUrl: 'http://localhost', notify: () => Promise.resolve(false) }
  const asked = (systemMailbox?: string) => invite({ ...refusing, systemMailbox }, by, 'gone@people.example', 'viewer')
  await expect(asked(own.mailboxId)).rejects.toThrow('its mail to gone@people.example was not accepted')
  expect((await listInvitations(db, own.workspaceId)).map(({ email }) => email)).toEqual(['gone@people.example'])
  // Where nobody sends at all, the page of members says so.
  expect(await asked()).toMatchObject({ email: 'gone@people.example' })
})

// There they are owners without being members, and whoever comes into it reads the links of all new passwords.
test.each([
  ['who is none any more', (email: string) => setLogin(office.office.db, actor, email, { operator: false })],
  ['whose login is removed', (email: string) => removeLogin(office.office.db, actor, email, true)],
])(
  "an operator %s leaves no invitation to the workspace of the installation's own mail behind",
  async (_who, happens) => {
    const { db } = office.world
    const own = await office.sender()
    await db.transaction((tx) => saveSystemMailbox(tx, own.workspaceId, own.mailboxId))
    const operator = office.browser(own.workspaceId)
    const { email, password } = await office.login(undefined, undefined, true)
    await operator.ask('POST', '/session', signIn(email, password))
    const many = office.sent.length
    const body = { email: `back-${many}@people.example`, role: 'owner' }
    expect((await operator.ask('POST', '/invitations', { body })).statusCode).toBe(201)
    const token = tokenOf(await office.mail(many + 1))
    await happens(email)
    await db.run(`delete from installation where name in ('system_workspace', 'system_mailbox')`)
    const accept = { body: { token, password: 'six slow badgers' } }
    expect((await office.browser().ask('POST', '/invitations/accept', accept)).statusCode).toBe(401)
    expect(await audit(body.email)).toEqual([{ actor, action: 'invitation.withdrawn', workspace_id: own.workspaceId }])
  },
)

test('nor is a login removed that becomes the only owner while its removal waits', async () => {
  const { workspaceId } = await office.sender()
  await office.login('owner', workspaceId)
  const { id, email } = await office.login('admin', workspaceId)
  const takesOver = `update members m set role = case m.user_id when own.user_id then 'owner' else 'viewer' end
    from members own where own.user_id = $1 and m.workspace_id = own.workspace_id`
  const refused = () => removeLogin(office.office.db, actor, email, true).catch((error: unknown) => String(error))
  expect(await office.meanwhile(takesOver, id, refused, workspaceId)).toContain(`${email} is the only owner of`)
})

const invited = async (email: string) => {
  const { workspaceId } = await office.sender()
  const owner = await office.signedIn('owner', workspaceId)
  const many = office.sent.length
  await owner.ask('POST', '/invitations', { body: { email, role: 'viewer' } })
  return { workspaceId, token: tokenOf(await office.mail(many + 1)) }
}

test('whose login is removed while they accept an invitation is told to sign in', async () => {
  const person = await office.login()
  const browser = office.browser()
  await browser.ask('POST', '/session', signIn(person.email, person.password))
  const { token } = await invited(person.email)
  const accept = () => browser.ask('POST', '/invitations/accept', { body: { token } })
  const answer = await office.meanwhile('delete from users where id = $1', person.id, accept)
  expect([answer.statusCode, answer.json()]).toMatchObject([401, { code: 'not_signed_in' }])
  // And whoever has the mail may make another.
  const body = { token, password: 'six slow badgers' }
  expect((await office.browser().ask('POST', '/invitations/accept', { body })).statusCode).toBe(200)
})

test('an operator who makes the login of whoever accepts an invitation in that moment hears that it is there', async () => {
  const email = 'both@example.org'
  const { workspaceId: workspace, token } = await invited(email)
  const holding = await office.world.holding('select from invitations where email = $1 for update', [email])
  const body = { token, password: 'six slow badgers' }
  const accepted = office.browser().ask('POST', '/invitations/accept', { body })
  await office.world.untilWaiting(1)
  const wish = { email, operator: false, member: { workspace, role: 'viewer' } } as const
  const made = createUser(office.office.db, actor, wish).catch((error: unknown) => String(error))
  await office.world.untilWaiting(2)
  await holding.query('commit')
  expect((await accepted).statusCode).toBe(200)
  expect(await made).toContain(`There is already a user ${email}`)
})

// As the page of members says where no mail goes out.
test('who was invited and is let in by a command is invited no more, and the log tells of no role that they do not have', async () => {
  const email = 'let-in@example.org'
  const { workspaceId: workspace, token } = await invited(email)
  await createUser(office.office.db, actor, { email, operator: false, member: { workspace, role: 'owner' } })
  const owner = await office.signedIn('owner', workspace)
  expect((await owner.ask('GET', '/invitations')).json()).toMatchObject({ items: [] })
  const body = { token, password: 'six slow badgers' }
  expect((await office.browser().ask('POST', '/invitations/accept', { body })).statusCode).toBe(401)
  expect(await audit(email)).toEqual([
    { actor, action: 'invitation.withdrawn', workspace_id: workspace },
    { actor, action: 'user.created', workspace_id: workspace },
  ])
})

test('a login begins anew also while somebody uses a link to set another password, who sets none', async () => {
  const { id, email } = await office.login()
  const many = office.sent.length
  await office.browser().ask('POST', '/password-resets', { body: { email } })
  const token = tokenOf(await office.mail(many + 1))
  const holding = await office.world.holding('select from users where id = $1 for update', [id])
  const anew = beginLoginAnew(office.office.db, actor, email)
  await office.world.untilWaiting(1)
  const body = { token, password: 'six slow badgers' }
  const reset = office.browser().ask('POST', '/password-resets/confirm', { body })
  await office.world.untilWaiting(2)
  await holding.query('commit')
  const { password } = await anew
  expect((await reset).statusCode).toBe(401)
  expect((await office.browser().ask('POST', '/session', signIn(email, password))).statusCode).toBe(200)
})

test('what an operator does with a login that is removed in that moment is done to nobody, or to a new one', async () => {
  const { workspaceId: workspace } = await office.sender()
  const gone = 'delete from users where id = $1'
  const [one, two, three] = [await office.login(), await office.login(), await office.login()]
  const refused = (error: unknown) => String(error)
  const anew = () => beginLoginAnew(office.office.db, actor, one.email).catch(refused)
  expect(await office.meanwhile(gone, one.id, anew)).toContain('There is no user')
  const set = () => setLogin(office.office.db, actor, two.email, { operator: true }).catch(refused)
  expect(await office.meanwhile(gone, two.id, set)).toContain('There is no user')
  const wish = { email: three.email, operator: false, member: { workspace, role: 'viewer' } } as const
  const made = () => createUser(office.office.db, actor, wish)
  expect(await office.meanwhile(gone, three.id, made)).toMatchObject({ password: expect.any(String) as string })
})

// Whoever takes a password away from a thief is not to find the thief's second factor behind it, nor their own gone.
test('a session that ends while it switches a second factor on or off does neither', async () => {
  const { workspaceId } = await office.sender()
  const ends = `with held as materialized (select id from users where id = $1 for update) delete from sessions s using held where s.user_id = held.id`
  const isOn = (id: string) =>
    office.world.value<boolean>('select totp_sealed is not null from users where id = $1', [id])
  for (const wasOn of [false, true]) {
    const person = await office.signedIn('owner', workspaceId)
    const { id, password } = person.login
    const begun = await person.ask('POST', '/account/two-factor', { body: { password } })
    const { secret } = begun.json<{ secret: string }>()
    const confirm = () => {
      const code = new TOTP({ secret: Secret.fromBase32(secret) }).generate()
      return person.ask('POST', '/account/two-factor/confirm', { body: { code } })
    }
    if (wasOn) expect((await confirm()).statusCode).toBe(200)
    const end = () => person.ask('POST', '/account/two-factor/disable', { body: { password } })
    expect((await office.meanwhile(ends, id, wasOn ? end : confirm)).statusCode).toBe(401)
    expect(await isOn(id)).toBe(wasOn)
  }
})
