// What the first start makes and prints, as long as it is good: the journal of systemd and the log of a container keep it for whoever reads them later.
import { sql, type Db } from './database.ts'

export interface FirstSecret {
  readonly kind: 'login' | 'key' | 'credential'
  /** What its command takes: an address or an id. */
  readonly target: string
}

const note = sql(
  'note-first-secrets',
  `insert into installation (name, value) values ('first_key', $1), ('first_credential', $2)
   on conflict (name) do update set value = excluded.value`,
)
// With the password that it has now: by another one it is another login. The stored hash is none to guess at, and stays in its place.
const hashed = `encode(sha256(convert_to(u.password_hash, 'UTF8')), 'hex')`
const noteLogin = sql(
  'note-first-login',
  `insert into installation (name, value) select 'first_login', concat(u.id, ' ', ${hashed}) from users u where u.id = $1
   on conflict (name) do update set value = excluded.value`,
)
const inForce = sql(
  'first-secrets',
  `select 'login' kind, u.email target from users u
    where u.id = (select split_part(value, ' ', 1)::uuid from installation where name = 'first_login')
      and ${hashed} = (select split_part(value, ' ', 2) from installation where name = 'first_login')
   union all
   select 'key', k.id::text from api_keys k
    where k.id = (select value::uuid from installation where name = 'first_key') and k.revoked_at is null
   union all
   select 'credential', c.id::text from smtp_credentials c
    where c.id = (select value::uuid from installation where name = 'first_credential') and c.revoked_at is null`,
)

export async function noteFirstSecrets(tx: Db, made: { readonly key: string; readonly credential: string }) {
  await tx.rows(note, [made.key, made.credential])
}

export async function noteFirstLogin(tx: Db, user: string): Promise<void> {
  await tx.rows(noteLogin, [user])
}

/** Those that are still good, the login first. */
export const readFirstSecrets = (db: Db): Promise<FirstSecret[]> => db.rows<FirstSecret>(inForce)
