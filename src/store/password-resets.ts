// Tokens with which a person sets a new password without the old one.
import { sql, type Db } from './database.ts'
import { lockUser } from './people.ts'

const addReset = sql(
  'add-password-reset',
  `with old as (
     delete from password_resets where token_hash in (select x.token_hash from password_resets x where x.expires_at <= app_now() for update skip locked)),
        open as (select count(*) many from password_resets where user_id = $2 and expires_at > app_now())
   insert into password_resets (token_hash, user_id, expires_at)
   select $1, $2, app_now() + $3 * interval '1 millisecond' from open where many < $4 returning user_id`,
)
const findReset = sql(
  'find-password-reset',
  'select user_id from password_resets where token_hash = $1 and expires_at > app_now()',
)
const takeReset = sql(
  'take-password-reset',
  'delete from password_resets where token_hash = $1 and expires_at > app_now() returning user_id',
)
const dropResets = sql('drop-password-resets', 'delete from password_resets where user_id = $1')

/** False where the person has enough open ones, or is gone. Locks the person first: of those who ask at once each sees what the others were given. */
export async function addPasswordReset(tx: Db, hash: Buffer, user: string, ms: number, most: number): Promise<boolean> {
  if (!(await lockUser(tx, user))) return false
  return (await tx.rows(addReset, [hash, user, ms, most])).length === 1
}
/** The person whose token it is; it stays good. */
export async function findPasswordReset(db: Db, hash: Buffer): Promise<string | undefined> {
  return (await db.rows<{ user_id: string }>(findReset, [hash]))[0]?.user_id
}

/** The same, and it counts once. */
export async function takePasswordReset(db: Db, hash: Buffer): Promise<string | undefined> {
  return (await db.rows<{ user_id: string }>(takeReset, [hash]))[0]?.user_id
}
export async function dropPasswordResets(db: Db, user: string): Promise<void> {
  await db.rows(dropResets, [user])
}
