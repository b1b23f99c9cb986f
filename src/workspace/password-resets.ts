// A new password by a link that is mailed. Anybody may ask for one, for any address: the answer is always the same, and how many are made at once is
// bounded.
import { randomBytes } from 'node:crypto'
import { hashSecret } from '../base/secret.ts'
import { Tally } from '../base/tally.ts'
import { currentOwner } from '../base/turns.ts'
import { limits } from '../config.ts'
import { parseAddress } from '../mail/address.ts'
import { writeAudit } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { addPasswordReset, dropPasswordResets, findPasswordReset, takePasswordReset } from '../store/password-resets.ts'
import { lockUser, setPasswordHash, userByEmail, userById, type UserRow } from '../store/people.ts'
import { deleteSessions } from '../store/sessions.ts'
import { makeDevice } from './devices.ts'
import { busy, Mistake } from './mistake.ts'
import type { Passwords } from './passwords.ts'
import type { PeopleTools } from './people.ts'

/** A new password ends everything that the old one opened, but perhaps one session. */
export async function endWhatPasswordOpened(tx: Db, user: UserRow, keep?: string): Promise<void> {
  await dropPasswordResets(tx, user.id)
  await deleteSessions(tx, user.id, keep)
}

export function passwordResets({ db, vault, log, notify, publicUrl }: PeopleTools, passwords: Passwords) {
  const underWay = new Tally()
  return {
    /** Answers before anything is looked up: who has an account here is nobody's business. Nobody waits, so they are bounded here, and of one asker to few. */
    askForReset: (email: string): void => {
      const send = async (): Promise<void> => {
        const key = parseAddress(email.trim())?.key
        const user = key === undefined ? undefined : await userByEmail(db, key)
        if (user === undefined) return
        const token = randomBytes(32).toString('base64url')
        const { passwordResetMs: ms, passwordResetsPerUserMax: most } = limits
        const added = await db.transaction(async (tx) => {
          if (!(await addPasswordReset(tx, hashSecret(token), user.id, ms, most))) return false
          await writeAudit(tx, { actor: `user:${user.id}`, action: 'password.reset_asked' })
          return true
        })
        if (added)
          await notify({
            to: user.email,
            subject: 'Choose a new password',
            bodyText: [
              'Somebody, probably you, asked for a new password for your account at Posthorn.',
              '',
              'Choose one here; the link is good once, for an hour:',
              `${publicUrl}/reset-password#token=${token}`,
              '',
              'If it was not you, there is nothing to do: your password stays as it is.',
              '',
            ].join('\n'),
          })
      }
      const asker = currentOwner()
      if (underWay.total >= limits.passwordResetsUnderWayMax || underWay.of(asker) >= limits.passwordResetsOfAskerMax)
        throw busy('Too many people ask for a new password')
      underWay.add(asker)
      send()
        .catch((error: unknown) => log.fault('people: a password reset', error))
        .finally(() => underWay.take(asker))
    },

    /** The device on which it was chosen. */
    resetPassword: async (token: string, password: string): Promise<string> => {
      const stale = (): Mistake =>
        new Mistake('This link was used before or has expired; ask for a new one.', { code: 'wrong_credentials' })
      const userId = await findPasswordReset(db, hashSecret(token))
      const user = userId === undefined ? undefined : await userById(db, userId)
      if (user === undefined) throw stale()
      // A weak password throws, and the token stays good. No transaction is open meanwhile: hashing takes long, and there may be a line.
      const hash = await passwords.hash(password, user.email)
      await db.transaction(async (tx) => {
        // Of two that came with one token, the second finds it used. The person first, as everybody else who takes tokens away.
        await lockUser(tx, user.id)
        if ((await takePasswordReset(tx, hashSecret(token))) !== user.id) throw stale()
        await setPasswordHash(tx, user.id, hash)
        await endWhatPasswordOpened(tx, user)
        await writeAudit(tx, { actor: `user:${user.id}`, action: 'password.reset' })
      })
      return makeDevice(vault, { ...user, passwordHash: hash }, 'chose_password')
    },
  }
}
