// The second factor of a person: codes of an authenticator app (TOTP, RFC 6238), each good once, and recovery codes for the day the phone is
// lost. The secret is sealed at rest and counts only after a first code has proved that the app has it.
import { randomInt } from 'node:crypto'
import { Secret, TOTP } from 'otpauth'
import { hashSecret, sealedAs, type Vault } from '../base/secret.ts'
import { limits } from '../config.ts'
import { writeAudit } from '../store/audit.ts'
import { databaseNow, type Db } from '../store/database.ts'
import { userById } from '../store/people.ts'
import {
  confirmPendingTotp,
  removeTotp,
  replaceRecoveryCodes,
  setPendingTotp,
  takeRecoveryCode,
  takeTotpStep,
} from '../store/second-factors.ts'
import type { UserRow } from '../store/people.ts'
import { audited } from './by.ts'
import { Mistake } from './mistake.ts'
import { stillSignedIn, type Holder } from './sessions.ts'

const stepSeconds = 30

interface Tools {
  readonly db: Db
  readonly vault: Vault
}

/** A new secret, not yet in force; shown once, for the app. */
export async function beginTwoFactor({ db, vault }: Tools, user: UserRow): Promise<{ secret: string; uri: string }> {
  const secret = new Secret({ size: 20 })
  if (!(await setPendingTotp(db, user.id, vault.seal(secret.base32, sealedAs.totp(user.id)))))
    throw new Mistake('The second factor is on already; switch it off first.', { code: 'conflict' })
  return { secret: secret.base32, uri: totpOf(secret.base32, user.email).toString() }
}

/** The code of the app puts the pending secret in force. Returns the recovery codes, shown once. */
export async function confirmTwoFactor({ db, vault }: Tools, holder: Holder, code: string): Promise<string[]> {
  const { userId } = holder
  const pending = (await userById(db, userId))?.totpPendingSealed ?? null
  if (pending === null)
    throw new Mistake('There is nothing to confirm; begin to set up the second factor first.', { code: 'conflict' })
  const step = stepOf(vault.open(pending, sealedAs.totp(userId)), code, await databaseNow(db))
  if (step === undefined)
    throw new Mistake('"code" does not fit; check the clock of the phone and take the newest code.', { field: 'code' })
  const codes = Array.from({ length: limits.recoveryCodes }, recoveryCode)
  return audited(db, { actor: `user:${userId}` }, 'two_factor.enabled', async (tx) => {
    await stillSignedIn(tx, holder)
    if (!(await confirmPendingTotp(tx, userId, step, pending)))
      throw new Mistake('There is nothing to confirm any more.', { code: 'conflict' })
    await replaceRecoveryCodes(tx, userId, codes.map(hashOf))
    return codes
  })
}

export async function endTwoFactor({ db }: Tools, holder: Holder): Promise<void> {
  const { userId } = holder
  await db.transaction(async (tx) => {
    await stillSignedIn(tx, holder)
    const wasOn = (await userById(tx, userId))?.totpSealed != null
    await removeTotp(tx, userId)
    // Of two clicks, the second switches nothing off.
    if (wasOn) await writeAudit(tx, { actor: `user:${userId}`, action: 'two_factor.disabled' })
  })
}

/** True for the app's code, which counts once, or an unused recovery code, which is used up by this. */
export async function secondFactorFits({ db, vault }: Tools, user: UserRow, code: string): Promise<boolean> {
  if (user.totpSealed === null) return false
  const given = code.replace(/[\s-]/g, '').toLowerCase()
  if (/^\d{6}$/.test(given)) {
    const step = stepOf(vault.open(user.totpSealed, sealedAs.totp(user.id)), given, await databaseNow(db))
    return step !== undefined && takeTotpStep(db, user.id, step)
  }
  return given.length === 16 && takeRecoveryCode(db, user.id, hashOf(given))
}

function totpOf(secret: string, label: string): TOTP {
  return new TOTP({ issuer: 'Posthorn', label, secret: Secret.fromBase32(secret), period: stepSeconds, digits: 6 })
}

/** The time step whose code it is: this one or a neighbour. */
function stepOf(secret: string, code: string, now: Date): number | undefined {
  const timestamp = now.getTime()
  const delta = totpOf(secret, '').validate({ token: code.replace(/\s/g, ''), window: 1, timestamp })
  return delta === null ? undefined : Math.floor(timestamp / 1000 / stepSeconds) + delta
}

/** 80 random bits in letters and digits that cannot be mistaken for each other. */
function recoveryCode(): string {
  const alphabet = 'abcdefghijkmnpqrstuvwxyz23456789'
  const letters = Array.from({ length: 16 }, () => alphabet[randomInt(alphabet.length)])
  return [0, 4, 8, 12].map((at) => letters.slice(at, at + 4).join('')).join('-')
}
const hashOf = (code: string): Buffer => hashSecret(`recovery ${code.replaceAll('-', '')}`)
