// The secret that keys for MACs are derived from: return paths and SMTP passwords must be the same after a rotation of the installation key,
// so they hang on a random root of their own, which the database keeps sealed (docs/decisions/0041).
import { randomBytes } from 'node:crypto'
import { makeVault, sealedAs, type KeyRing, type Vault } from '../base/secret.ts'
import { sql, type Db } from './database.ts'

const read = sql('mac-root', `select value from installation where name = 'mac_root'`)
const make = sql(
  'make-mac-root',
  `insert into installation (name, value) values ('mac_root', $1) on conflict do nothing`,
)
const replace = sql(
  'replace-mac-root',
  `update installation set value = $2 where name = 'mac_root' and value = $1 returning name`,
)

/** The vault of an installation. Of nodes that start together on a new database, the first one's root is everybody's. */
export async function openVault(keys: KeyRing, db: Db): Promise<Vault> {
  const plain = makeVault(keys)
  const find = async () => (await db.rows<{ value: string }>(read))[0]?.value
  let sealed = await find()
  if (sealed === undefined) {
    const root = randomBytes(32).toString('base64url')
    await db.rows(make, [plain.seal(root, sealedAs.macRoot()).toString('base64')])
    sealed = await find()
  }
  if (sealed === undefined) throw new Error('the database did not keep the root of its MAC keys')
  return makeVault(keys, plain.open(Buffer.from(sealed, 'base64'), sealedAs.macRoot()))
}

/** Seals the root with the newest key; answers whether it had to. */
export async function resealMacRoot(db: Db, vault: Vault): Promise<boolean> {
  const value = (await db.rows<{ value: string }>(read))[0]?.value
  if (value === undefined) return false
  const bytes = Buffer.from(value, 'base64')
  if (vault.isCurrent(bytes, sealedAs.macRoot())) return false
  const fresh = vault.seal(vault.open(bytes, sealedAs.macRoot()), sealedAs.macRoot()).toString('base64')
  return (await db.rows(replace, [value, fresh])).length === 1
}
