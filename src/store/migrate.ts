// Brings a database to this release's schema: the .sql files in migrations/, forward only, each once. Two nodes that start together wait
// for each other (Kysely's migrator holds a lock). A migration that must wait for a table gives up after a moment and begins again: behind its
// place in the line for the lock every node of the release before would wait, for as long as a backup, say, reads that table.
import { setTimeout as wait } from 'node:timers/promises'
import { readdir, readFile } from 'node:fs/promises'
import { Kysely, PostgresDialect, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { Pool } from 'pg'
import { Trouble, wordsOf } from '../base/trouble.ts'
import { limits } from '../config.ts'
import { isDatabaseAway, linesOf, over, serverOf, type Connection } from './database.ts'
import { databaseAway, whyUnfit } from './server-facts.ts'

const folder = new URL('./migrations/', import.meta.url)

const filesOfMigrations = async (): Promise<string[]> =>
  (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()

/** Their names, oldest first: what a database of this release has. */
export const releaseMigrations = async (): Promise<string[]> =>
  (await filesOfMigrations()).map((name) => name.replace(/\.sql$/, ''))

/** Returns the version that the database has now: the name of the newest migration. */
export async function migrate(
  connection: Connection,
  pause: (ms: number) => Promise<unknown> = wait,
  triesMax: number = limits.migrationTriesMax,
): Promise<{ version: string }> {
  const { stream, ended } = linesOf(connection)
  const server = serverOf(connection, [`-c lock_timeout=${limits.migrationLockMs}`])
  const pool = new Pool({ ...server, stream, max: 1, connectionTimeoutMillis: limits.databasePatientWaitMs })
  pool.on('error', () => undefined)
  let reached = false
  pool.on('connect', () => (reached = true))
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) })
  try {
    const names = await filesOfMigrations()
    const migrations = Object.fromEntries(
      await Promise.all(
        names.map(async (name) => {
          const text = await readFile(new URL(name, folder), 'utf8')
          return [
            name.replace(/\.sql$/, ''),
            { up: async (db: Kysely<never>) => void (await sql.raw(text).execute(db)) },
          ] as const
        }),
      ),
    )
    const migrator = new Migrator({ db, provider: { getMigrations: () => Promise.resolve(migrations) } })
    let { error } = await migrator.migrateToLatest()
    for (let tries = 1; isBusy(error) && tries < triesMax; tries += 1) {
      await pause(limits.migrationPauseMs)
      error = (await migrator.migrateToLatest()).error
    }
    if (isBusy(error))
      throw new Trouble(
        'the database cannot be migrated now: for a minute somebody has been using a table that must change (a backup, or a transaction that was left open), or another node has been migrating. Nothing is changed; start again when it has ended',
        { cause: error },
      )
    // A command asks no server whether it is good enough. Where it fails for that, those are the words.
    const unfit = error !== undefined && reached ? await over(connection, whyUnfit).catch(() => undefined) : undefined
    if (unfit !== undefined) throw new Trouble(unfit, { cause: error })
    if (error !== undefined && (!reached || isDatabaseAway(error)))
      throw new Trouble(
        'url' in connection ? databaseAway(wordsOf(error)) : `${wordsOf(error)}: the database cannot be reached`,
        { cause: error },
      )
    if (error !== undefined) {
      const known = names.at(-1)?.replace(/\.sql$/, '') ?? ''
      const done = await sql<{ name: string }>`select name from kysely_migration order by name desc`
        .execute(db)
        .catch(() => undefined)
      const newer = done?.rows.map(({ name }) => name).find((name) => name > known)
      if (newer !== undefined)
        throw new Trouble(
          `the database belongs to a newer release: it has the schema ${newer}, and this one ends with ${known}; start the newer one here, and use its commands (docs/production.md, Upgrade)`,
          { cause: error },
        )
      throw new Error('a migration failed; the database is unchanged', { cause: error })
    }
    // A backup may hold them up: then housekeeping makes them, and nobody waits behind us meanwhile.
    await sql`select partitions_ahead_1()`.execute(db)
    return { version: names.at(-1)?.replace(/\.sql$/, '') ?? '' }
  } finally {
    await ended(db.destroy())
  }
}

/** A lock was not to be had: the migrations are undone, and nobody waits behind them. */
const isBusy = (error: unknown): boolean => error instanceof Error && (error as { code?: unknown }).code === '55P03'
