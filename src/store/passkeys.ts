// Passkeys (WebAuthn credentials) of people, and the questions to their authenticators, each good for one answer.
import { sql, type Db } from './database.ts'

export interface PasskeyRow {
  readonly id: string
  readonly user_id: string
  readonly name: string
  readonly public_key: Buffer
  /** Decimal text of a bigint. */
  readonly counter: string
  readonly transports: readonly string[]
  readonly created_at: Date
  readonly last_used_at: Date | null
}

const columns = 'id, user_id, name, public_key, counter, transports, created_at, last_used_at'
const insert = sql(
  'insert-passkey',
  `insert into passkeys (id, user_id, name, public_key, counter, transports)
   select $1, $2, $3, $4, $5, $6 where (select count(*) from passkeys where user_id = $2) < $7
   on conflict (id) do nothing returning ${columns}`,
)
const ofUser = sql('list-passkeys', `select ${columns} from passkeys where user_id = $1 order by created_at, id`)
const one = sql('find-passkey', `select ${columns} from passkeys where id = $1`)
const used = sql('passkey-used', 'update passkeys set counter = $2, last_used_at = app_now() where id = $1')
const removeAll = sql('delete-passkeys', 'delete from passkeys where user_id = $1')
const remove = sql('delete-passkey', 'delete from passkeys where user_id = $1 and id = $2 returning name')
const ask = sql(
  'ask-passkey',
  `insert into passkey_challenges (id, challenge, user_id, expires_at) values ($1, $2, $3, app_now() + $4 * interval '1 millisecond')`,
)
// Ids are in the order of time.
const prune = sql(
  'prune-passkey-challenges',
  `delete from passkey_challenges where expires_at <= app_now()
       or id <= (select p.id from passkey_challenges p order by p.id desc offset $1::integer limit 1)`,
)
const answer = sql(
  'answer-passkey',
  'delete from passkey_challenges where id = $1 and expires_at > app_now() returning challenge, user_id',
)

export interface NewPasskey {
  readonly id: string
  readonly userId: string
  readonly name: string
  readonly publicKey: Buffer
  readonly counter: number
  readonly transports: readonly string[]
}

/** Undefined where it is known already, or the person has too many. */
export async function insertPasskey(db: Db, passkey: NewPasskey, most: number): Promise<PasskeyRow | undefined> {
  const { id, userId, name, publicKey, counter, transports } = passkey
  return (await db.rows<PasskeyRow>(insert, [id, userId, name, publicKey, counter, transports, most]))[0]
}
export const listPasskeyRows = (db: Db, user: string): Promise<PasskeyRow[]> => db.rows<PasskeyRow>(ofUser, [user])
export async function findPasskey(db: Db, id: string): Promise<PasskeyRow | undefined> {
  return (await db.rows<PasskeyRow>(one, [id]))[0]
}
export async function notePasskey(db: Db, id: string, counter: number): Promise<void> {
  await db.rows(used, [id, counter])
}
export async function deletePasskeys(db: Db, user: string): Promise<void> {
  await db.rows(removeAll, [user])
}
/** Its name; undefined where the person has none with this id. */
export async function deletePasskey(db: Db, user: string, id: string): Promise<string | undefined> {
  return (await db.rows<{ name: string }>(remove, [user, id]))[0]?.name
}
let kept = 0
/**
 * A question that is open for `ms`; of more than `most`, and a hundredth, the oldest are forgotten. Anybody may ask, without being anybody: what walks
 * along all of them is not done for each, which cost ten times as much.
 */
export async function keepChallenge(
  db: Db,
  question: { readonly id: string; readonly challenge: string; readonly user: string | null },
  ms: number,
  most: number,
): Promise<void> {
  await db.rows(ask, [question.id, question.challenge, question.user, ms])
  if (++kept % Math.max(1, Math.floor(most / 100)) === 0) await db.rows(prune, [most])
}
/** The question, once; undefined where it was answered or is too old. */
export async function takeChallenge(
  db: Db,
  id: string,
): Promise<{ readonly challenge: string; readonly user_id: string | null } | undefined> {
  return (await db.rows<{ challenge: string; user_id: string | null }>(answer, [id]))[0]
}
