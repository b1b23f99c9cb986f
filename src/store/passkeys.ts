// Passkeys (WebAuthn credentials) of people, and which questions to their authenticators were answered: each is good for one answer.
import { sql, type Db } from './database.ts'

export interface PasskeyRow {
  readonly id: string
  readonly userId: string
  readonly name: string
  readonly publicKey: Buffer
  /** Decimal text of a bigint. */
  readonly counter: string
  readonly transports: readonly string[]
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
}

const columns =
  'id, user_id "userId", name, public_key "publicKey", counter, transports, created_at "createdAt", last_used_at "lastUsedAt"'
const insert = sql(
  'insert-passkey',
  `insert into passkeys (id, user_id, name, public_key, counter, transports)
   select $1, $2, $3, $4, $5, $6 where (select count(*) from passkeys where user_id = $2) < $7
   on conflict (id) do nothing returning ${columns}`,
)
const ofUser = sql('list-passkeys', `select ${columns} from passkeys where user_id = $1 order by created_at, id`)
const one = sql('find-passkey', `select ${columns} from passkeys where id = $1`)
const used = sql(
  'passkey-used',
  'update passkeys set counter = $2, last_used_at = app_now() where id = $1 returning id',
)
const removeAll = sql('delete-passkeys', 'delete from passkeys where user_id = $1')
const remove = sql('delete-passkey', 'delete from passkeys where user_id = $1 and id = $2 returning name')
// Without its challenge: a release that kept open questions here would take it for one.
const note = sql(
  'note-passkey-answer',
  `insert into passkey_challenges (id, challenge, user_id, expires_at) values ($1, '', $2, app_now() + $3 * interval '1 millisecond')
   on conflict (id) do nothing returning id`,
)
const prune = sql(
  'prune-passkey-answers',
  'delete from passkey_challenges where id in (select x.id from passkey_challenges x where x.expires_at <= app_now() for update skip locked)',
)

export interface NewPasskey {
  readonly id: string
  readonly userId: string
  readonly name: string
  readonly publicKey: Buffer
  readonly counter: number
  readonly transports: readonly string[]
}

/** Undefined where it is known already, or the person has too many: they are to be locked, so that two do not find room for the same last one. */
export async function insertPasskey(db: Db, passkey: NewPasskey, most: number): Promise<PasskeyRow | undefined> {
  const { id, userId, name, publicKey, counter, transports } = passkey
  return (await db.rows<PasskeyRow>(insert, [id, userId, name, publicKey, counter, transports, most]))[0]
}
export const listPasskeyRows = (db: Db, user: string): Promise<PasskeyRow[]> => db.rows<PasskeyRow>(ofUser, [user])
export async function findPasskey(db: Db, id: string): Promise<PasskeyRow | undefined> {
  return (await db.rows<PasskeyRow>(one, [id]))[0]
}
/** False where it was removed. */
export async function notePasskey(db: Db, id: string, counter: number): Promise<boolean> {
  return (await db.rows(used, [id, counter])).length === 1
}
export async function deletePasskeys(db: Db, user: string): Promise<void> {
  await db.rows(removeAll, [user])
}
/** Its name; undefined where the person has none with this id. */
export async function deletePasskey(db: Db, user: string, id: string): Promise<string | undefined> {
  return (await db.rows<{ name: string }>(remove, [user, id]))[0]?.name
}
/** False where this question was answered before. Remembered for `ms`. */
export async function noteAnswer(db: Db, question: string, user: string, ms: number): Promise<boolean> {
  await db.rows(prune)
  return (await db.rows(note, [question, user, ms])).length === 1
}
