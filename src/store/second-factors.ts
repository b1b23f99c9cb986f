// The second factor of a person: the secret of the codes, which codes were taken, and the recovery codes.
import { sql, type Db } from './database.ts'

const pendTotp = sql(
  'pend-totp',
  'update users set totp_pending_sealed = $2 where id = $1 and totp_sealed is null returning id',
)
const confirmTotp = sql(
  'confirm-totp',
  `update users set totp_sealed = totp_pending_sealed, totp_pending_sealed = null, totp_step = $2
    where id = $1 and totp_pending_sealed = $3 returning id`,
)
const dropTotp = sql('drop-totp', 'update users set totp_sealed = null, totp_pending_sealed = null where id = $1')
const takeStep = sql('take-totp-step', 'update users set totp_step = $2 where id = $1 and totp_step < $2 returning id')
const dropCodes = sql('drop-recovery-codes', 'delete from recovery_codes where user_id = $1')
const addCodes = sql(
  'add-recovery-codes',
  'insert into recovery_codes (user_id, code_hash) select $1, unnest($2::bytea[])',
)
const takeCode = sql(
  'take-recovery-code',
  'delete from recovery_codes where user_id = $1 and code_hash = $2 returning user_id',
)
const countCodes = sql('count-recovery-codes', 'select count(*)::integer many from recovery_codes where user_id = $1')

/** False where one is in force: it would take its place without its end. */
export async function setPendingTotp(db: Db, user: string, sealed: Buffer): Promise<boolean> {
  return (await db.rows(pendTotp, [user, sealed])).length === 1
}
/** The pending secret becomes the second factor. False where it is not that one any more: a code has proved no other. */
export async function confirmPendingTotp(db: Db, user: string, step: number, pending: Buffer): Promise<boolean> {
  return (await db.rows(confirmTotp, [user, step, pending])).length === 1
}
export async function removeTotp(db: Db, user: string): Promise<void> {
  await db.rows(dropTotp, [user])
  await db.rows(dropCodes, [user])
}
/** False where a code of this step, or a later one, was taken before: a code counts once. */
export async function takeTotpStep(db: Db, user: string, step: number): Promise<boolean> {
  return (await db.rows(takeStep, [user, step])).length === 1
}
export async function replaceRecoveryCodes(db: Db, user: string, hashes: readonly Buffer[]): Promise<void> {
  await db.rows(dropCodes, [user])
  await db.rows(addCodes, [user, hashes])
}
export async function takeRecoveryCode(db: Db, user: string, hash: Buffer): Promise<boolean> {
  return (await db.rows(takeCode, [user, hash])).length === 1
}
export async function countRecoveryCodes(db: Db, user: string): Promise<number> {
  return (await db.rows<{ many: number }>(countCodes, [user]))[0]?.many ?? 0
}
