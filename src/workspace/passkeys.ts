// Passkeys (WebAuthn): a person adds one after another look at the password, and signs in with it alone. What an authenticator may answer is
// judged by @simplewebauthn/server; each question is good for one answer, and only for the address of this installation. A question is computed
// from its id and kept nowhere, so that strangers, who may ask as often as they like, make no other's go.
import { createHmac, randomUUIDv7 } from 'node:crypto'
import { shown, type Given } from '../base/given.ts'
import type { Vault } from '../base/secret.ts'
import { isUuid } from '../base/uuid.ts'
import { limits } from '../config.ts'
import { databaseNow, type Db } from '../store/database.ts'
import { idFloor, timeOfId } from '../store/message-id.ts'
import {
  deletePasskey,
  findPasskey,
  insertPasskey,
  listPasskeyRows,
  noteAnswer,
  notePasskey,
  type PasskeyRow,
} from '../store/passkeys.ts'
import { lockUser, userById, type UserRow } from '../store/people.ts'
import { audited } from './by.ts'
import { Mistake, notThere, parseName } from './mistake.ts'
import type { Browser, People, SignedIn } from './people.ts'
import { stillSignedIn, type Holder } from './sessions.ts'

export type Passkey = Given<Pick<PasskeyRow, 'id' | 'name' | 'createdAt' | 'lastUsedAt'>>

/** `options` is for the browser's `navigator.credentials`; `id` names the question in the answer. */
export interface PasskeyQuestion {
  readonly id: string
  readonly options: object
}

interface Tools {
  readonly db: Db
  readonly vault: Vault
  readonly publicUrl: string
  readonly people: Pick<People, 'proved' | 'welcome'>
}
/** Loaded with the first passkey: it takes 45 MB of memory. */
const webAuthn = () => import('@simplewebauthn/server')
type WebAuthn = Awaited<ReturnType<typeof webAuthn>>
type AuthenticationResponse = Parameters<WebAuthn['verifyAuthenticationResponse']>[0]
type Transports = NonNullable<AuthenticationResponse['credential']['transports']>

/** WebAuthn 7.1, of what may be registered: by a longer one nobody could name the passkey to remove it. The library does not look. */
const idOctetsMax = 1_023

/** `why` tells the operator of an address that is not the one in POSTHORN_PUBLIC_URL, for one. */
const refused = (why?: string): Mistake =>
  new Mistake('This passkey does not fit; try again, or sign in with your password.', {
    code: 'wrong_credentials',
    ...(why !== undefined && { why }),
  })
/** The library throws whatever is wrong with an answer, and plain errors at that. */
const doesNotFit = (error: unknown): never => {
  throw refused(String(error).slice(0, limits.refusalErrorCharactersMax))
}

export async function listPasskeys(db: Db, userId: string): Promise<Passkey[]> {
  return (await listPasskeyRows(db, userId)).map(present)
}

export async function beginPasskey(
  { db, vault, publicUrl, people }: Tools,
  holder: Holder,
  password: string,
): Promise<PasskeyQuestion> {
  const user = await people.proved(holder, password)
  const known = await listPasskeyRows(db, user.id)
  // Before a device makes one that would be of no use.
  if (known.length >= limits.passkeysPerUserMax)
    throw new Mistake(`You have ${known.length} passkeys already; remove one first.`, { code: 'conflict' })
  const id = await newQuestion(db)
  const options = await (
    await webAuthn()
  ).generateRegistrationOptions({
    challenge: challengeOf(vault, id, user.id),
    rpName: 'Posthorn',
    rpID: new URL(publicUrl).hostname,
    userName: user.email,
    userDisplayName: user.name ?? user.email,
    userID: new TextEncoder().encode(user.id),
    attestationType: 'none',
    excludeCredentials: known.map(({ id }) => ({ id })),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  })
  return { id, options }
}

export async function addPasskey(
  { db, vault, publicUrl }: Omit<Tools, 'people'>,
  holder: Holder,
  answer: { readonly id: string; readonly name: string; readonly response: object },
): Promise<Passkey> {
  await mustBeOpen(db, answer.id)
  const name = parseName(answer.name, 'passkey')
  const { verifyRegistrationResponse } = await webAuthn()
  const verdict = await verifyRegistrationResponse({
    response: answer.response as Parameters<typeof verifyRegistrationResponse>[0]['response'],
    expectedChallenge: base64url(challengeOf(vault, answer.id, holder.userId)),
    expectedOrigin: new URL(publicUrl).origin,
    expectedRPID: new URL(publicUrl).hostname,
    requireUserVerification: true,
  }).catch(doesNotFit)
  if (!verdict.verified) throw refused()
  const { id, publicKey, counter, transports = [] } = verdict.registrationInfo.credential
  if (Buffer.byteLength(id, 'base64url') > idOctetsMax) throw refused('its id is longer than 1,023 octets')
  const passkey = { id, userId: holder.userId, name, publicKey: Buffer.from(publicKey), counter, transports }
  const row = await audited(
    db,
    { actor: `user:${holder.userId}` },
    'passkey.added',
    async (tx) => {
      await stillSignedIn(tx, holder)
      if (!(await isFirstAnswer(tx, answer.id, holder.userId))) throw refused()
      const made = await insertPasskey(tx, passkey, limits.passkeysPerUserMax)
      if (made === undefined)
        throw new Mistake('This passkey is known already, or you have too many.', { code: 'conflict' })
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
export async function askForPasskey({ db, vault, publicUrl }: Omit<Tools, 'people'>): Promise<PasskeyQuestion> {
  const id = await newQuestion(db)
  const options = await (
    await webAuthn()
  ).generateAuthenticationOptions({
    challenge: challengeOf(vault, id, nobody),
    rpID: new URL(publicUrl).hostname,
    userVerification: 'required',
  })
  return { id, options }
}

export async function signInWithPasskey(
  { db, vault, publicUrl, people }: Tools,
  answer: { readonly id: string; readonly response: object },
  browser: Browser,
): Promise<SignedIn> {
  await mustBeOpen(db, answer.id)
  const response = answer.response as AuthenticationResponse['response']
  const row = typeof response.id === 'string' ? await findPasskey(db, response.id) : undefined
  const user: UserRow | undefined = row === undefined ? undefined : await userById(db, row.userId)
  if (row === undefined || user === undefined) throw refused()
  const { verifyAuthenticationResponse } = await webAuthn()
  const verdict = await verifyAuthenticationResponse({
    response,
    expectedChallenge: base64url(challengeOf(vault, answer.id, nobody)),
    expectedOrigin: new URL(publicUrl).origin,
    expectedRPID: new URL(publicUrl).hostname,
    requireUserVerification: true,
    credential: {
      id: row.id,
      publicKey: Uint8Array.from(row.publicKey),
      counter: Number(row.counter),
      transports: row.transports as Transports,
    },
  }).catch(doesNotFit)
  if (!verdict.verified) throw refused()
  await db.transaction(async (tx) => {
    // One that was removed since it was found opens nothing, whatever was removed with it.
    const isThere =
      (await lockUser(tx, user.id)) && (await notePasskey(tx, row.id, verdict.authenticationInfo.newCounter))
    if (!isThere || !(await isFirstAnswer(tx, answer.id, user.id))) throw refused()
  })
  return people.welcome(user, browser, 'passkey')
}

/** The id of a question: a UUIDv7 of the database's time, so that it also says until when it is open. */
async function newQuestion(db: Db): Promise<string> {
  return `${idFloor(await databaseNow(db)).slice(0, 13)}${randomUUIDv7().slice(13)}`
}

/** To whom a question for a sign-in is put. */
const nobody = 'nobody'

/** What is to be signed: nobody else can compute it, and only for ids that we have given out has anybody heard it. Bound to its person, and so to its purpose. */
function challengeOf(vault: Vault, id: string, person: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(createHmac('sha256', vault.macKey('passkey-question')).update(`${id} ${person}`).digest())
}
const base64url = (octets: Uint8Array): string => Buffer.from(octets).toString('base64url')

async function mustBeOpen(db: Db, id: string): Promise<void> {
  if (!isUuid(id)) throw refused()
  const openMs = (await databaseNow(db)).getTime() - timeOfId(id).getTime()
  if (openMs >= limits.passkeyChallengeMs) throw refused()
}

/** Only what is proved is kept, so strangers cannot fill it; and for twice as long as its question may be open. */
const isFirstAnswer = (db: Db, id: string, userId: string): Promise<boolean> =>
  noteAnswer(db, id, userId, 2 * limits.passkeyChallengeMs)

const present = ({ id, name, createdAt, lastUsedAt }: PasskeyRow): Passkey => shown({ id, name, createdAt, lastUsedAt })
