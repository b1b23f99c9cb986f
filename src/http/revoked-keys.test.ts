// What a key leaves behind when it is revoked: what it made is named, as far as it still works, and nothing is made behind the revocation's back.
import { expect, test } from 'vitest'
import { scopes } from '../domain/scopes.ts'
import { officeWorld, tokenOf, type BrowserOf } from './office.test-kit.ts'

const office = await officeWorld()
const place = await office.sender()
const boss = await office.signedIn('owner', place.workspaceId)

interface Made {
  readonly id: string
  readonly key: string
}
type Left = readonly { readonly kind: string; readonly id: string; readonly name: string }[]

const makes = async (who: BrowserOf | string, path: string, more: object = {}) => {
  const body = { name: 'made', ...(path === '/keys' && { scopes: [...scopes] }), ...more }
  const answer = typeof who === 'string' ? office.withKey(who, 'POST', path, body) : who.ask('POST', path, { body })
  expect((await answer).statusCode).toBe(201)
  return (await answer).json<Made>()
}
const revoke = async (id: string) =>
  (await boss.ask('DELETE', `/keys/${id}`)).json<{ stillValid?: Left }>().stillValid ?? []
/** Somebody who comes by an invitation of theirs, and is signed in. */
const comesBy = async (who: BrowserOf | string, email: string) => {
  const many = office.sent.length
  await makes(who, '/invitations', { name: undefined, email, role: 'admin' })
  const token = tokenOf(await office.mail(many + 1))
  const person = office.browser(place.workspaceId)
  const body = { token, password: 'four little words here' }
  const account = (await person.ask('POST', '/invitations/accept', { body })).json<{ id: string }>()
  return { ...person, id: account.id }
}
const setsWebhook = (who: BrowserOf | string, host: string) => {
  const body = { url: `http://${host}/hook` }
  return typeof who === 'string' ? office.withKey(who, 'PUT', '/webhook', body) : who.ask('PUT', '/webhook', { body })
}

test('who came by the invitation of a revoked key is named, with what they made and whom they invited, as long as it still lets in', async () => {
  const leaked = await makes(boss, '/keys')
  const her = await comesBy(leaked.key, 'herself@keys.example')
  const friend = await comesBy(her, 'friend@keys.example')
  const theirs = await makes(friend, '/keys', { name: 'theirs' })
  const login = await makes(her, '/smtp-credentials', { name: 'login' })
  await comesBy(boss, 'clerk@keys.example')
  const people = [
    { kind: 'member', id: her.id, name: 'herself@keys.example' },
    { kind: 'member', id: friend.id, name: 'friend@keys.example' },
  ].toSorted((one, other) => (one.id < other.id ? -1 : 1))
  expect(await revoke(leaked.id)).toEqual([
    { kind: 'key', id: theirs.id, name: 'theirs' },
    ...people,
    { kind: 'smtp_credential', id: login.id, name: 'login' },
  ])
  // Who is gone counts in between.
  for (const { id } of people) expect((await boss.ask('DELETE', `/members/${id}`)).statusCode).toBe(204)
  await boss.ask('DELETE', `/smtp-credentials/${login.id}`)
  expect(await revoke(leaked.id)).toEqual([{ kind: 'key', id: theirs.id, name: 'theirs' }])
  await revoke(theirs.id)
  expect(await revoke(leaked.id)).toEqual([])
})

test('a webhook endpoint that a revoked key has set is named, and so is one whose secret it was shown: until somebody else has set both', async () => {
  const named = [{ kind: 'webhook', id: place.workspaceId, name: '127.0.0.1:9' }]
  const [first, second] = [await makes(boss, '/keys'), await makes(boss, '/keys')]
  expect((await setsWebhook(first.key, '127.0.0.1:8')).statusCode).toBe(200)
  expect((await setsWebhook(second.key, '127.0.0.1:9')).statusCode).toBe(200)
  expect(await revoke(second.id)).toEqual(named)
  expect(await revoke(first.id)).toEqual(named) // it knows the secret
  expect((await boss.ask('POST', '/webhook/rotate')).statusCode).toBe(200)
  expect(await revoke(first.id)).toEqual([])
  expect(await revoke(second.id)).toEqual(named)
  expect((await setsWebhook(boss, '127.0.0.1:10')).statusCode).toBe(200)
  expect(await revoke(second.id)).toEqual([])
})

test.each([
  ['sets it', 'PUT', '/webhook', { url: 'http://127.0.0.1:11/hook' }],
  ['asks for a new secret', 'POST', '/webhook/rotate', undefined],
] as const)(
  'the webhook endpoint stays as it is for a key that is revoked while it %s: how long the host of a URL is looked for, its holder decides',
  async (_what, method, path, body) => {
    const { id, key } = await makes(boss, '/keys')
    const before = (await boss.ask('GET', '/webhook')).json<object>()
    const revoked = 'update api_keys set revoked_at = app_now() where id = $1'
    const ask = () => office.withKey(key, method, path, body)
    const answer = await office.meanwhile(revoked, id, ask, place.workspaceId)
    expect(answer.json()).toMatchObject({ code: 'insufficient_scope' })
    expect((await boss.ask('GET', '/webhook')).json()).toEqual(before)
  },
)

test('a key is revoked at once, however long it takes to find what it has made', async () => {
  const { id } = await makes(boss, '/keys')
  const holding = await office.world.holding('lock table smtp_credentials in access exclusive mode')
  const revoked = revoke(id)
  const isRevoked = 'select revoked_at is not null from api_keys where id = $1'
  while (!(await office.world.value<boolean>(isRevoked, [id]))) continue
  await holding.query('commit')
  expect(await revoked).toEqual([])
})

test('what a key is making at the moment when it is revoked is named, too', async () => {
  const { id, key } = await makes(boss, '/keys')
  const holding = await office.world.holding('lock table smtp_credentials in share mode')
  const making = makes(key, '/smtp-credentials')
  await office.world.untilSomebodyWaits()
  const revoked = revoke(id)
  const over = new AbortController()
  void revoked.finally(() => over.abort())
  const waiting = `select count(*)::integer from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while (!over.signal.aborted && (await office.world.value<number>(waiting)) < 2) continue
  await holding.query('commit')
  expect(await revoked).toEqual([{ kind: 'smtp_credential', id: (await making).id, name: 'made' }])
})
