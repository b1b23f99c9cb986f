// Passkeys as an authenticator of our own meets them, which signs as most devices do (ES256): what a question is bound to, and that nobody's is lost
// by what others ask. In a real browser, whose authenticator chooses Ed25519: test/dashboard/passkeys.test.ts.
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { expect, test } from 'vitest'
import { limits } from '../config.ts'
import { officeWorld, type BrowserOf } from './office.test-kit.ts'

const origin = 'http://localhost:3000'
const office = await officeWorld(origin)
const person = await office.signedIn('developer', (await office.sender()).workspaceId)

const sha256 = (octets: string | Buffer): Buffer => createHash('sha256').update(octets).digest()
const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
/** COSE (RFC 9053 7.1): EC2, ES256, P-256. */
const cose = Buffer.concat([
  Buffer.from('a5010203262001215820', 'hex'),
  Buffer.from(x, 'base64url'),
  Buffer.from('225820', 'hex'),
  Buffer.from(y, 'base64url'),
])
const credentialId = Buffer.alloc(16, 7)
const idOf = (credentialId: Buffer): string => credentialId.toString('base64url')
const id = idOf(credentialId)
let counter = 0

interface Question {
  readonly id: string
  readonly options: { readonly challenge: string }
}
function dataOf(flags: number, ...more: readonly Buffer[]): Buffer {
  const head = Buffer.alloc(5)
  head[0] = flags
  head.writeUInt32BE(++counter, 1)
  return Buffer.concat([sha256('localhost'), head, ...more])
}
const clientData = (type: string, challenge: string, at = origin): Buffer =>
  Buffer.from(JSON.stringify({ type: `webauthn.${type}`, challenge, origin: at, crossOrigin: false }))
const credential = (response: Readonly<Record<string, Buffer>>, of = credentialId) => ({
  id: idOf(of),
  rawId: idOf(of),
  type: 'public-key',
  clientExtensionResults: {},
  response: Object.fromEntries(Object.entries(response).map(([name, value]) => [name, value.toString('base64url')])),
})

/** A new key, without attestation. */
function made({ options: { challenge } }: Question, of = credentialId): object {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(of.length)
  const authData = dataOf(0x45, Buffer.alloc(16), length, of, cose)
  const attestationObject = Buffer.concat([
    Buffer.from('a363666d74646e6f6e656761747453746d74a068617574684461746159', 'hex'),
    Buffer.of(authData.length >> 8, authData.length & 255),
    authData,
  ])
  return credential({ attestationObject, clientDataJSON: clientData('create', challenge) }, of)
}
function signed({ options: { challenge } }: Question, at = origin): object {
  const authenticatorData = dataOf(0x05)
  const clientDataJSON = clientData('get', challenge, at)
  const signature = sign('sha256', Buffer.concat([authenticatorData, sha256(clientDataJSON)]), privateKey)
  return credential({ authenticatorData, clientDataJSON, signature })
}

const begin = async (who = person): Promise<Question> =>
  (await who.ask('POST', '/account/passkeys/options', { body: { password: who.login.password } })).json()
const add = async (question: Question, response = made(question), who: BrowserOf = person): Promise<number> =>
  (await who.ask('POST', '/account/passkeys', { body: { id: question.id, name: 'key', response } })).statusCode
const askAnyone = async (): Promise<Question> => (await office.browser().ask('POST', '/session/passkey/options')).json()
const enter = async (question: Question, response = signed(question)): Promise<number> =>
  (await office.browser().ask('POST', '/session/passkey', { body: { id: question.id, response } })).statusCode
const later = (ms: number) => office.world.setClock(new Date(Date.now() + ms).toISOString())

test('who has as many passkeys as one may have hears so before a device makes another', async () => {
  const full = await office.signedIn('viewer', (await office.sender()).workspaceId)
  await office.world.db.run(
    `insert into passkeys (id, user_id, name, public_key, counter, transports) select 'full_' || n, $1, 'key', '', 0, '{}' from generate_series(1, $2::integer) n`,
    [full.login.id, limits.passkeysPerUserMax],
  )
  const body = { password: full.login.password }
  const answer = await full.ask('POST', '/account/passkeys/options', { body })
  expect([answer.statusCode, answer.json()]).toEqual([
    409,
    { code: 'conflict', error: `You have ${limits.passkeysPerUserMax} passkeys already; remove one first.` },
  ])
})

test('a passkey with the longest id that there is (1,023 octets, WebAuthn 4) can be removed', async () => {
  const keeper = await office.signedIn('viewer', (await office.sender()).workspaceId)
  const longest = Buffer.alloc(1_023, 1).toString('base64url')
  await office.world.db.run(
    `insert into passkeys (id, user_id, name, public_key, counter, transports) values ($1, $2, 'key', '', 0, '{}')`,
    [longest, keeper.login.id],
  )
  expect((await keeper.ask('DELETE', `/account/passkeys/${longest}`)).statusCode).toBe(204)
  expect((await keeper.ask('DELETE', `/account/passkeys/${longest}`)).statusCode).toBe(404)
})

test('one with a longer id is not added: by that id nobody could remove it', async () => {
  const keeper = await office.signedIn('viewer', (await office.sender()).workspaceId)
  const addOf = async (octets: number) => {
    const question = await begin(keeper)
    return add(question, made(question, Buffer.alloc(octets, 2)), keeper)
  }
  expect([await addOf(1_023), await addOf(1_024)]).toEqual([201, 401])
})

test('of two devices that ask at once for the last room one finds it', async () => {
  const almost = await office.signedIn('viewer', (await office.sender()).workspaceId)
  await office.world.db.run(
    `insert into passkeys (id, user_id, name, public_key, counter, transports) select 'almost_' || n, $1, 'key', '', 0, '{}' from generate_series(2, $2::integer) n`,
    [almost.login.id, limits.passkeysPerUserMax],
  )
  const questions = [await begin(almost), await begin(almost)]
  const held = await office.world.holding('select from users where id = $1 for update', [almost.login.id])
  const adding = questions.map((question, n) => add(question, made(question, Buffer.alloc(16, 8 + n)), almost))
  await office.world.untilWaiting(2)
  await held.query('commit')
  expect(new Set(await Promise.all(adding))).toEqual(new Set([201, 409]))
})

test('a question to add a passkey is good for its person, once', async () => {
  const question = await begin()
  const other = await office.signedIn('viewer', (await office.sender()).workspaceId)
  expect(await add(question, made(question), other)).toBe(401)
  expect(await add(await askAnyone())).toBe(401)
  expect(await add(question)).toBe(201)
  await person.ask('DELETE', `/account/passkeys/${id}`)
  expect(await add(question)).toBe(401)
  expect(await add(await begin())).toBe(201)
})

test('what strangers ask makes no question go, and leaves nothing behind', async () => {
  const rows = 'select count(*)::integer from passkey_challenges'
  const before = await office.world.value<number>(rows)
  const question = await askAnyone()
  for (let n = 0; n < 100; n++) await askAnyone()
  expect(await office.world.value<number>(rows)).toBe(before)
  expect(await enter(question)).toBe(200)
})

test('a question to sign in is good once, whatever is signed for it, and not one for another purpose', async () => {
  const question = await askAnyone()
  const response = signed(question)
  expect(await enter(await begin())).toBe(401)
  expect(await enter(await askAnyone(), response)).toBe(401)
  const both = await Promise.all([enter(question, response), enter(question, response)])
  expect(both.toSorted()).toEqual([200, 401])
  expect(await enter(question)).toBe(401)
})

test('a question is open for five minutes by the clock of the database; one that nobody was asked is none', async () => {
  const question = await askAnyone()
  const stale = await askAnyone()
  await later(299_000)
  expect(await enter(question)).toBe(200)
  await later(301_000)
  expect(await enter(stale)).toBe(401)
  expect(await enter(question)).toBe(401)
  const fresh = await askAnyone()
  // The time in it is part of what is signed.
  expect(await enter({ ...stale, id: `${fresh.id.slice(0, 13)}${stale.id.slice(13)}` })).toBe(401)
  expect(await enter(fresh)).toBe(200)
})

// Whoever opens the dashboard at another address than POSTHORN_PUBLIC_URL could only guess.
test('why a passkey does not fit stands in the log of the operators, and in no answer', async () => {
  const question = await askAnyone()
  const response = signed(question, 'http://127.0.0.1:3000')
  const answer = await office.browser().ask('POST', '/session/passkey', { body: { id: question.id, response } })
  expect(answer.statusCode).toBe(401)
  expect(answer.body).not.toContain('127.0.0.1')
  expect(office.refusals.at(-1)).toMatchObject({
    code: 'wrong_credentials',
    why: expect.stringContaining('http://127.0.0.1:3000'),
  })
})

/** What ends or removes, behind the lock that it takes first. */
const behindLock = (what: string) =>
  `with held as materialized (select id from users where id = $1 for update) delete from ${what} x using held where x.user_id = held.id`

test('a session that ends while a passkey is added in it adds none', async () => {
  await office.world.setClock()
  await person.ask('DELETE', `/account/passkeys/${id}`)
  const question = await begin()
  expect(await office.meanwhile(behindLock('sessions'), person.login.id, () => add(question))).toBe(401)
  expect(await office.world.value('select count(*)::integer from passkeys where user_id = $1', [person.login.id])).toBe(
    0,
  )
})

test('a passkey that is removed while somebody signs in with it opens nothing, nor does one of a person who is', async () => {
  const { email, password } = person.login
  await person.ask('POST', '/session', { body: { email, password } })
  const signingIn = async (change: string) => {
    expect(await add(await begin())).toBe(201)
    const question = await askAnyone()
    return office.meanwhile(change, person.login.id, () => enter(question))
  }
  expect(await signingIn(behindLock('passkeys'))).toBe(401)
  expect(await signingIn('delete from users where id = $1')).toBe(401)
})
