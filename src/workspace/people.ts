// Persons proving who they are: signing in, second factors, a password that is changed. Guessing is slowed per account without
// locking anybody out: a device on which the person has signed in before has a count of its own (OWASP's device cookies), and an unknown
// address costs as much time as a known one.
import { setTimeout as delay } from 'node:timers/promises'
import { given } from '../base/given.ts'
import { guessDelayMs } from '../base/guesses.ts'
import { sourceOf } from '../base/networks.ts'
import { hashSecret, type Vault } from '../base/secret.ts'
import type { Log } from '../base/log.ts'
import { limits } from '../config.ts'
import { parseAddress } from '../mail/address.ts'
import type { Db } from '../store/database.ts'
import { renameUser, replacePasswordHash, userByEmail, userById, type UserRow } from '../store/people.ts'
import { countRecoveryCodes } from '../store/second-factors.ts'
import { addGuess, countGuesses, forgetGuesses, tellGuess } from '../store/sign-in-guesses.ts'
import { audited } from './by.ts'
import { knownDevice, makeDevice } from './devices.ts'
import { Mistake, parseName } from './mistake.ts'
import type { Notify } from './notices.ts'
import { endWhatPasswordOpened, passwordResets } from './password-resets.ts'
import { makePasswords, type Passwords } from './passwords.ts'
import { listPasskeys, type Passkey } from './passkeys.ts'
import {
  changedMeanwhile,
  listMembershipsOf,
  openSession,
  type Holder,
  type Membership,
  type Origin,
} from './sessions.ts'
import { beginTwoFactor, confirmTwoFactor, endTwoFactor, secondFactorFits } from './two-factor.ts'

export interface Credentials {
  readonly email: string
  readonly password: string
  /** Of the app, or a recovery code. */
  readonly code?: string
}

/** What goes into the browser's cookies. */
export interface SignedIn {
  readonly userId: string
  readonly token: string
  readonly device: string
}

/** What the browser had before. */
export interface Browser extends Origin {
  readonly token?: string
  readonly device?: string
}

export interface Account {
  readonly id: string
  readonly email: string
  readonly name?: string
  readonly operator: boolean
  readonly twoFactor: boolean
  readonly recoveryCodesLeft: number
  readonly passkeys: readonly Passkey[]
  readonly createdAt: Date
  readonly workspaces: readonly Membership[]
}

export interface PeopleTools {
  readonly db: Db
  readonly vault: Vault
  readonly log: Log
  readonly notify: Notify
  readonly publicUrl: string
  readonly passwords?: Passwords
}
export type People = ReturnType<typeof makePeople>

const wrong = (): Mistake => new Mistake('E-mail address, password or code are wrong.', { code: 'wrong_credentials' })

export function makePeople(tools: PeopleTools) {
  const { db, vault, passwords = makePasswords() } = tools
  // In the database: with several nodes, and after a restart, nobody gets more guesses.
  const guesses = {
    count: (name: string, forgottenMs: number = limits.guessForgottenMs) =>
      countGuesses(db, hashSecret(name), forgottenMs),
    add: (name: string, forgottenMs: number = limits.guessForgottenMs) => addGuess(db, hashSecret(name), forgottenMs),
    forget: (name: string) => forgetGuesses(db, hashSecret(name)),
  }
  let held = 0

  /** A wrong guess: counted, written down, answered late. */
  const wrongGuess = async (name: string, user: UserRow | undefined, { address }: Origin): Promise<never> => {
    // At the same time: a refusal that took one commit longer would tell who has an account.
    const [count] = await Promise.all([
      guesses.add(name),
      user !== undefined && tellGuess(db, hashSecret(`told ${user.id}`), `user:${user.id}`, address),
    ])
    const waitMs = guessDelayMs(count)
    if (waitMs > 0 && held < limits.guessesDelayedMax) {
      held++
      await delay(waitMs)
      held--
    }
    throw wrong()
  }

  /** The name under which guesses of this browser are counted. Refuses where there were too many from devices that nobody knows. */
  const countedAs = async (
    emailKey: string,
    user: UserRow | undefined,
    device: string | undefined,
  ): Promise<{ readonly name: string; readonly codesOf: string; readonly isKnown: boolean }> => {
    const account = `account ${emailKey}`
    const known = user === undefined || device === undefined ? undefined : knownDevice(vault, device, user)
    const name = known?.name ?? account
    if ((await guesses.count(name)) > limits.accountGuessesMax)
      throw new Mistake(
        'Too many wrong passwords for this account; wait a minute, or sign in where you were signed in before.',
        { code: 'too_many_attempts', retryAfterSeconds: 60 },
      )
    // A link brings a new password, and with it a new device, as often as one likes; it must not bring more guesses at the code.
    return { name, codesOf: known?.proof === 'signed_in' ? name : account, isKnown: known !== undefined }
  }

  const welcome = async (user: UserRow, browser: Browser, how: string): Promise<SignedIn> => ({
    userId: user.id,
    token: await openSession(db, user, browser, browser.token, how),
    device: makeDevice(vault, user, 'signed_in'),
  })

  /** The person behind a session, after another look at the password: for what a stolen cookie must not be enough to do. */
  const proved = async (holder: Holder, password: string): Promise<UserRow> => {
    const user = await userById(db, holder.userId)
    const name = `session ${holder.userId}`
    if ((await guesses.count(name)) > limits.accountGuessesMax)
      throw new Mistake('Too many wrong passwords; wait a minute.', {
        code: 'too_many_attempts',
        retryAfterSeconds: 60,
      })
    if (user !== undefined && (await passwords.fits(password, user.passwordHash, { name: user.id, isKnown: true })))
      return user
    await guesses.add(name)
    throw new Mistake('"password" is not your present password.', { code: 'wrong_credentials', field: 'password' })
  }

  return {
    passwords,
    welcome,
    proved,
    ...passwordResets(tools, passwords),

    signIn: async ({ email, password, code }: Credentials, browser: Browser): Promise<SignedIn> => {
      const emailKey = (parseAddress(email.trim())?.key ?? email.trim().toLowerCase()).slice(0, limits.addressOctetsMax)
      const user = await userByEmail(db, emailKey)
      const { name, codesOf, isKnown } = await countedAs(emailKey, user, browser.device)
      const asker = { name: isKnown ? name : sourceOf(browser.address), isKnown }
      const fits = await passwords.fits(password, user?.passwordHash, asker)
      if (user === undefined || !fits) return wrongGuess(name, user, browser)
      if (user.totpSealed !== null) {
        if (code === undefined || code.trim() === '')
          throw new Mistake('Give the code of your authenticator app, or a recovery code, in "code".', {
            code: 'second_factor_required',
            field: 'code',
          })
        // Whoever comes this far knows the password: only a few digits are left to guess.
        const codes = `code ${codesOf}`
        const { codeGuessesMax: most, codeGuessForgottenMs: ms } = limits
        // Counted before it is looked at, since many may come at once; and not beyond, or who goes on would count up the hours to come.
        if ((await guesses.count(codes, ms)) > most || (await guesses.add(codes, ms)) > most + 1)
          throw new Mistake(
            'Too many wrong codes for this account; wait an hour, or sign in where you were signed in before.',
            { code: 'too_many_attempts', retryAfterSeconds: ms / 1000 },
          )
        if (!(await secondFactorFits(tools, user, code))) return wrongGuess(name, user, browser)
        await guesses.forget(codes)
      }
      await guesses.forget(name)
      return welcome(user, browser, user.totpSealed === null ? 'password' : 'password and code')
    },

    account: async (userId: string): Promise<Account> => {
      const user = await userById(db, userId)
      if (user === undefined) throw new Mistake('Sign in.', { code: 'not_signed_in' })
      const [workspaces, recoveryCodesLeft, passkeys] = await Promise.all([
        listMembershipsOf(db, userId),
        countRecoveryCodes(db, userId),
        listPasskeys(db, userId),
      ])
      return given<Account>({
        id: user.id,
        email: user.email,
        name: user.name,
        operator: user.operator,
        twoFactor: user.totpSealed !== null,
        recoveryCodesLeft,
        passkeys,
        createdAt: user.createdAt,
        workspaces,
      })
    },

    rename: async (holder: Holder, name: string): Promise<void> => {
      const clean = parseName(name, 'person')
      await audited(
        db,
        { actor: `user:${holder.userId}` },
        'user.changed',
        (tx) => renameUser(tx, holder.userId, clean),
        (user) => ({ target: user?.email, facts: { name: clean } }),
      )
    },

    /** Returns a new device for the browser in use: those of the old password are worthless, and strangers who go on guessing would lock the person out. */
    changePassword: async (holder: Holder, before: string, after: string): Promise<string> => {
      const user = await proved(holder, before)
      const hash = await passwords.hash(after, user.email, 'newPassword')
      const by = { actor: `user:${user.id}` }
      await audited(db, by, 'password.changed', async (tx) => {
        // Hashing takes long, and may have to wait: somebody who reset the password meanwhile, because it was known, keeps the new one.
        if (!(await replacePasswordHash(tx, user.id, user.passwordHash, hash))) throw changedMeanwhile()
        await endWhatPasswordOpened(tx, user, holder.sessionId)
      })
      return makeDevice(vault, { ...user, passwordHash: hash }, 'chose_password')
    },

    beginTwoFactor: async (holder: Holder, password: string) => {
      const begun = await beginTwoFactor(tools, await proved(holder, password))
      await guesses.forget(`confirm ${holder.userId}`)
      return begun
    },
    /** Bounded: with a stolen cookie alone, a million guesses would confirm a secret that was begun and abandoned, and show the recovery codes. */
    confirmTwoFactor: async (holder: Holder, code: string): Promise<string[]> => {
      const name = `confirm ${holder.userId}`
      // Counted before it is looked at: thousands may come at once.
      if ((await guesses.add(name, limits.codeGuessForgottenMs)) > limits.codeGuessesMax + 1)
        throw new Mistake('Too many wrong codes; begin to set up the second factor anew.', {
          code: 'too_many_attempts',
          retryAfterSeconds: limits.codeGuessForgottenMs / 1000,
        })
      const codes = await confirmTwoFactor(tools, holder, code)
      await guesses.forget(name)
      return codes
    },
    endTwoFactor: async (holder: Holder, password: string): Promise<void> => {
      await proved(holder, password)
      await endTwoFactor(tools, holder)
    },
  }
}
