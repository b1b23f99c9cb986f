// Facts of the installation itself that are written once.
import { sql, type Db } from './database.ts'

const readFact = sql('read-installation', 'select value from installation where name = $1')
const writeFact = sql(
  'write-installation',
  'insert into installation (name, value) values ($1, $2) on conflict (name) do nothing returning name',
)

/** A fact of the installation itself. */
export async function readInstallation(db: Db, name: string): Promise<string | undefined> {
  return (await db.rows<{ value: string }>(readFact, [name]))[0]?.value
}

/** False where it is known already: the first one stays. */
export async function writeInstallation(db: Db, name: string, value: string): Promise<boolean> {
  return (await db.rows(writeFact, [name, value])).length === 1
}
