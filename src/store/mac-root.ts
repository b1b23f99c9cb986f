// The secret that keys for MACs are derived from: return paths and SMTP passwords must be the same after a rotation of the installation key,
// so they hang on a random root of their own, which the database keeps sealed (docs/decisions/0041).
import { randomBytes } from 'node:crypto'
import { Trouble } from '../base/trouble.ts'
import { DoesNotOpen, makeVault, sealedAs, type KeyRing, type Vault } from '../base/secret.ts'
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
  // Before anybody asks for the keys: a new one would lie where the old one belongs, and be taken for it.
  if (sealed !== undefined && keys.isMissing?.() === true) throw new WrongInstallationKey(keys.file, 'missing')
  if (sealed === undefined) {
    const root = randomBytes(32).toString('base64url')
    await db.rows(make, [plain.seal(root, sealedAs.macRoot()).toString('base64')])
    sealed = await find()
  }
  if (sealed === undefined) throw new Error('the database did not keep the root of its MAC keys')
  return makeVault(keys, opened(plain, Buffer.from(sealed, 'base64'), keys))
}

/** It is the first thing that every start opens: where it stays shut, the key is another database's. */
function opened(plain: Vault, root: Buffer, keys: KeyRing): string {
  try {
    return plain.open(root, sealedAs.macRoot())
  } catch (error) {
    throw error instanceof DoesNotOpen ? new WrongInstallationKey(keys.file) : error
  }
}

/** One sentence for the operator: which key does not fit, and the way out. Without a cause, which would only say it again. */
export class WrongInstallationKey extends Trouble {
  override readonly name = 'WrongInstallationKey'
  constructor(file: string | undefined, missing?: 'missing') {
    super(missing === undefined ? notTheKey(file) : noKey(file))
  }
}

const notTheKey = (file: string | undefined): string =>
  file === undefined
    ? `POSTHORN_SECRET_KEY ${doesNotOpen}. Set it to the old one, or to what stands in the file secret-key of the old data folder (while the key is being changed, POSTHORN_SECRET_KEYS_ACCEPTED has the old one); until then nothing starts.`
    : `${file} ${doesNotOpen}. Put the file secret-key of the old data folder in its place (mode 0600), or set the old POSTHORN_SECRET_KEY; until then nothing starts.`

const doesNotOpen = 'does not open this database: it is not the installation key with which it was sealed'

const noKey = (file = 'secret-key'): string =>
  `${file} is missing, and with it this database was sealed. Put the file secret-key from your backup there (mode 0600), or set POSTHORN_SECRET_KEY to what stands in it; until then nothing starts.`

/** Seals the root with the newest key; answers whether it had to. */
export async function resealMacRoot(db: Db, vault: Vault): Promise<boolean> {
  const value = (await db.rows<{ value: string }>(read))[0]?.value
  if (value === undefined) return false
  const bytes = Buffer.from(value, 'base64')
  if (vault.isCurrent(bytes, sealedAs.macRoot())) return false
  const fresh = vault.seal(vault.open(bytes, sealedAs.macRoot()), sealedAs.macRoot()).toString('base64')
  return (await db.rows(replace, [value, fresh])).length === 1
}
