// Passkeys (WebAuthn): a person adds one after another look at the password, and signs in with it alone. What an authenticator may answer is
// judged by @simplewebauthn/server; each question is good for one answer, and only for the address of this installation.
import { randomUUIDv7 } from 'node:crypto'
import { limits } from '../config.ts'
import type { Db } from '../store/database.ts'
import {
  deletePasskey,
  findPasskey,
  insertPasskey,
  keepChallenge,
  listPasskeyRows,
  notePasskey,
  takeChallenge,
  type PasskeyRow,
} from '../store/passkeys.ts'
import { userById, type UserRow } from '../store/people.ts'
import { audited } from './by.ts'
import { isUuid, Mistake, notThere, parseName } from './mistake.ts'
import type { Browser, People, SignedIn } from './people.ts'
import type { Holder } from './sessions.ts'

export interface Passkey {
  readonly id: string
  readonly name: string
  readonly createdAt: Date
  readonly lastUsedAt?: Date
}

/** `options` is for the browser's `navigator.credentials`; `id` names the question in the answer. */
export interface PasskeyQuestion {
  readonly id: string
  readonly options: object
}

interface Tools {
  readonly db: Db
  readonly publicUrl: string
  readonly people: Pick<People, 'proved' | 'welcome'>
}
/** Loaded with the first passkey: it takes 45 MB of memory. */
const webAuthn = () => import('@simplewebauthn/server')
type WebAuthn = Awaited<ReturnType<typeof webAuthn>>
type AuthenticationResponse = Parameters<WebAuthn['verifyAuthenticationResponse']>[0]
type Transports = NonNullable<AuthenticationResponse['credential']['transports']>

const refused = (): Mistake =>
  new Mistake('This passkey does not fit; try again, or sign in with your password.', { code: 'wrong_credentials' })

export async function listPasskeys(db: Db, userId: string): Promise<Passkey[]> {
  return (await listPasskeyRows(db, userId)).map(present)
}

export async function beginPasskey(
  { db, publicUrl, people }: Tools,
  holder: Holder,
  password: string,
): Promise<PasskeyQuestion> {
  const user = await people.proved(holder, password)
  const known = await listPasskeyRows(db, user.id)
  const options = await (
    await webAuthn()
  ).generateRegistrationOptions({
    rpName: 'Posthorn',
    rpID: new URL(publicUrl).hostname,
    userName: user.email,
    userDisplayName: user.name ?? user.email,
    userID: new TextEncoder().encode(user.id),
    attestationType: 'none',
    excludeCredentials: known.map(({ id }) => ({ id })),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  })
  return question(db, options, user.id)
}

export async function addPasskey(
  { db, publicUrl }: Pick<Tools, 'db' | 'publicUrl'>,
  holder: Holder,
  answer: { readonly id: string; readonly name: string; readonly response: object },
): Promise<Passkey> {
  const asked = await take(db, answer.id)
  if (asked.user_id !== holder.userId) throw refused()
  const name = parseName(answer.name, 'passkey')
  const { verifyRegistrationResponse } = await webAuthn()
  const verdict = await verifyRegistrationResponse({
    response: answer.response as Parameters<typeof verifyRegistrationResponse>[0]['response'],
    expectedChallenge: asked.challenge,
    expectedOrigin: new URL(publicUrl).origin,
    expectedRPID: new URL(publicUrl).hostname,
    requireUserVerification: true,
  }).catch(() => undefined)
  if (verdict?.verified !== true) throw refused()
  const { id, publicKey, counter, transports = [] } = verdict.registrationInfo.credential
  const passkey = { id, userId: holder.userId, name, publicKey: Buffer.from(publicKey), counter, transports }
  const row = await audited(
    db,
    { actor: `user:${holder.userId}` },
    'passkey.added',
    async (tx) => {
      const made = await insertPasskey(tx, passkey, limits.passkeysPerUserMax)
      if (made === undefined) throw new Mistake('This passkey is known already.', { code: 'conflict' })
      return made
    },
    () => ({ target: name }),
  )
  return present(row)
}

export async function removePasskey(db: Db, holder: Holder, id: string): Promise<void> {
  await audited(
    db,
    { actor: `user:${holder.userId}` },
    'passkey.removed',
    async (tx) => {
      const name = await deletePasskey(tx, holder.userId, id)
      if (name === undefined) throw notThere('passkey')
      return name
    },
    (name) => ({ target: name }),
  )
}

/** For a sign-in with a passkey: says nothing about who has one. */
export async function askForPasskey({ db, publicUrl }: Pick<Tools, 'db' | 'publicUrl'>): Promise<PasskeyQuestion> {
  const options = await (
    await webAuthn()
  ).generateAuthenticationOptions({
    rpID: new URL(publicUrl).hostname,
    userVerification: 'required',
  })
  return question(db, options, null)
}

export async function signInWithPasskey(
  { db, publicUrl, people }: Tools,
  answer: { readonly id: string; readonly response: object },
  browser: Browser,
): Promise<SignedIn> {
  const asked = await take(db, answer.id)
  const response = answer.response as AuthenticationResponse['response']
  const row = typeof response.id === 'string' ? await findPasskey(db, response.id) : undefined
  const user: UserRow | undefined = row === undefined ? undefined : await userById(db, row.user_id)
  if (row === undefined || user === undefined || asked.user_id !== null) throw refused()
  const { verifyAuthenticationResponse } = await webAuthn()
  const verdict = await verifyAuthenticationResponse({
    response,
    expectedChallenge: asked.challenge,
    expectedOrigin: new URL(publicUrl).origin,
    expectedRPID: new URL(publicUrl).hostname,
    requireUserVerification: true,
    credential: {
      id: row.id,
      publicKey: Uint8Array.from(row.public_key),
      counter: Number(row.counter),
      transports: row.transports as Transports,
    },
  }).catch(() => undefined)
  if (verdict?.verified !== true) throw refused()
  await notePasskey(db, row.id, verdict.authenticationInfo.newCounter)
  return people.welcome(user, browser, 'passkey')
}

async function question(db: Db, options: { readonly challenge: string }, user: string | null) {
  const id = randomUUIDv7()
  const asked = { id, challenge: options.challenge, user }
  await keepChallenge(db, asked, limits.passkeyChallengeMs, limits.passkeyChallengesMax)
  return { id, options }
}

async function take(db: Db, id: string) {
  const asked = isUuid(id) ? await takeChallenge(db, id) : undefined
  if (asked === undefined) throw refused()
  return asked
}

function present({ id, name, created_at, last_used_at }: PasskeyRow): Passkey {
  return { id, name, createdAt: created_at, ...(last_used_at !== null && { lastUsedAt: last_used_at }) }
}
