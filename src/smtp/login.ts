// The client's side of AUTH (RFC 4954) read strictly: PLAIN (RFC 4616) and LOGIN. Gives the next challenge, the user and
// password, or the engine's refusal; whether they are right is the policy's to say.
import { isUtf8 } from 'node:buffer'
import { replies, type Reply } from './reply.ts'

export type LoginStep =
  /** Base64, to be sent after `334 `. */
  | { readonly kind: 'ask'; readonly challenge: string; readonly next: (response: string) => LoginStep }
  | { readonly kind: 'login'; readonly user: string; readonly password: string }
  | { readonly kind: 'refused'; readonly reply: Reply }

const refused = (reply: Reply): LoginStep => ({ kind: 'refused', reply })
const ask = (challenge: string, next: (bytes: Buffer) => LoginStep): LoginStep => ({
  kind: 'ask',
  challenge: Buffer.from(challenge).toString('base64'),
  next: (response) => (response === '*' ? refused(replies.authCancelled) : decoded(response, next)),
})

/** The first step. `initial` is the response that came with the command; `=` there, for an empty one, is as little a login as any empty one. */
export function beginLogin(mechanism: string, initial: string | undefined): LoginStep {
  const first = mechanisms.get(mechanism)
  if (first === undefined) return refused(replies.unknownMechanism)
  if (initial === undefined) return ask(first.challenge, first.next)
  return decoded(initial, first.next)
}

const mechanisms: ReadonlyMap<string, { readonly challenge: string; readonly next: (bytes: Buffer) => LoginStep }> =
  new Map([
    ['PLAIN', { challenge: '', next: plain }],
    ['LOGIN', { challenge: 'Username:', next: loginUser }],
  ])

/** What EHLO lists after AUTH. */
export const mechanismNames = [...mechanisms.keys()].join(' ')

function decoded(response: string, next: (bytes: Buffer) => LoginStep): LoginStep {
  const bytes = Buffer.from(response, 'base64')
  // Node's decoder forgives much; RFC 4648 does not. What is canonical comes back the same.
  if (bytes.toString('base64') !== response || !isUtf8(bytes)) return refused(replies.authMalformed)
  return next(bytes)
}

function plain(bytes: Buffer): LoginStep {
  const [onBehalfOf, user, password, ...more] = bytes.toString().split('\0')
  if (onBehalfOf === undefined || more.length > 0) return refused(replies.authMalformed)
  if (user === undefined || user === '' || password === undefined || password === '')
    return refused(replies.authMalformed)
  // Nobody may speak for somebody else.
  if (onBehalfOf !== '' && onBehalfOf !== user) return refused(replies.authRefused)
  return { kind: 'login', user, password }
}

function loginUser(bytes: Buffer): LoginStep {
  const user = field(bytes)
  if (user === undefined) return refused(replies.authMalformed)
  return ask('Password:', (secret) => {
    const password = field(secret)
    return password === undefined ? refused(replies.authMalformed) : { kind: 'login', user, password }
  })
}

function field(bytes: Buffer): string | undefined {
  return bytes.length === 0 || bytes.includes(0) ? undefined : bytes.toString()
}
