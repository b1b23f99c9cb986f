// Passwords, kept as argon2id (RFC 9106) with OWASP's least parameters, in PHC form. Hashing runs on the thread pool, few at a time and few in
// waiting, so that guessing cannot hold up anything else; who has no password is compared with a dummy, which takes as long.
import { argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { limits } from '../config.ts'
import { busy, Mistake } from './mistake.ts'

const derive = promisify(argon2)
const memory = 19_456
const passes = 2
const parallelism = 1
const tagBytes = 32

/** Who wants a hash, and may have to wait for it. */
export interface Asker {
  /** A person, or a stranger's address: of one only a few may wait. */
  readonly name: string
  /** They have a session, or signed in on this device before: their line is one that strangers cannot fill, and comes first. */
  readonly isKnown: boolean
}

export interface Passwords {
  /** Throws a `Mistake` for a password that is too short, too long or the address itself; it names `field`, where the password was given. */
  hash(password: string, email: string, field?: string): Promise<string>
  /** False also without a stored hash, and then it takes as long. */
  fits(password: string, stored: string | null | undefined, asker?: Asker): Promise<boolean>
}

export function makePasswords(): Passwords {
  const run = makeQueue(limits.passwordHashesMax, limits.passwordHashesWaitingMax, limits.passwordHashesOfAskerMax)
  const tag = (password: string, nonce: Buffer, asker?: Asker): Promise<Buffer> =>
    run(
      () =>
        derive('argon2id', {
          message: password.normalize('NFC'),
          nonce,
          parallelism,
          tagLength: tagBytes,
          memory,
          passes,
        }),
      asker,
    )
  const dummyNonce = randomBytes(16)

  return {
    hash: async (password, email, field = 'password') => {
      refuseWeak(password, email, field)
      const nonce = randomBytes(16)
      return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${unpadded(nonce)}$${unpadded(await tag(password, nonce))}`
    },
    fits: async (password, stored, asker) => {
      const parts = /^\$argon2id\$v=19\$m=19456,t=2,p=1\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(stored ?? '')
      const wanted = Buffer.from(parts?.[2] ?? '', 'base64')
      const shown = charactersOf(password) > limits.passwordCharactersMax ? '' : password
      const nonce = parts === null ? dummyNonce : Buffer.from(parts[1] as string, 'base64')
      const found = await tag(shown, nonce, asker)
      return wanted.length === found.length && timingSafeEqual(wanted, found)
    },
  }
}

/** As OpenAPI's maxLength counts: an emoji is one. */
const charactersOf = (password: string): number => Array.from(password).length

function refuseWeak(password: string, email: string, field: string): void {
  const no = (words: string): never => {
    throw new Mistake(`"${field}" ${words}`, { field })
  }
  if (charactersOf(password) < limits.passwordCharactersMin)
    no(`must have at least ${limits.passwordCharactersMin} characters; a few words are easy to remember.`)
  if (charactersOf(password) > limits.passwordCharactersMax)
    no(`must have at most ${limits.passwordCharactersMax} characters.`)
  if (new Set(password).size < 4 || password.toLowerCase().trim() === email.toLowerCase())
    no('is too easy to guess; take a few words that do not belong together.')
}

const unpadded = (bytes: Buffer): string => bytes.toString('base64').replace(/=+$/, '')

/**
 * Runs a few at a time and lets a few wait, of one asker fewer: the others always find a place. More are refused. Whom we know stand apart, before the
 * strangers, who may have as many addresses as they like; and so does who is not named: they have proved something already.
 */
function makeQueue(most: number, waitingMax: number, ofAskerMax: number) {
  interface Waiting {
    readonly name: string | undefined
    readonly begin: () => void
  }
  let running = 0
  const known: Waiting[] = []
  const strangers: Waiting[] = []
  const isFull = (line: readonly Waiting[], name: string | undefined): boolean =>
    line.length >= waitingMax || (name !== undefined && line.filter((each) => each.name === name).length >= ofAskerMax)
  return async <T>(work: () => Promise<T>, asker?: Asker): Promise<T> => {
    if (running >= most) {
      const name = asker?.name
      const line = asker?.isKnown === false ? strangers : known
      if (isFull(line, name)) throw busy('Too many people are signing in')
      await new Promise<void>((begin) => line.push({ name, begin }))
    } else running++
    try {
      return await work()
    } finally {
      const next = known.shift() ?? strangers.shift()
      if (next === undefined) running--
      else next.begin()
    }
  }
}
