// Kysely's migrator, in a file of its own: it is loaded where something is to be migrated, and nowhere else.
import { Kysely, PostgresDialect, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import type { Pool } from 'pg'

/** Makes those of these migrations (name and SQL, oldest first) that the database lacks, each once, all or none. Answers what went wrong. */
export async function migrateToLatest(pool: Pool, texts: readonly (readonly [string, string])[]): Promise<unknown> {
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) })
  const migrations = Object.fromEntries(
    texts.map(([name, text]) => [name, { up: async (db: Kysely<never>) => void (await sql.raw(text).execute(db)) }]),
  )
  const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } })
  return (await migrator.migrateToLatest()).error
}
