// Brings a database to this release's schema: the .sql files in migrations/, forward only, each once. Two nodes that start together wait
// for each other (Kysely's migrator holds a lock, `migrator.ts`). A migration that must wait for a table gives up after a moment and begins again: behind its
// place in the line for the lock every node of the release before would wait, for as long as a backup, say, reads that table.
import { setTimeout as wait } from 'node:timers/promises'
import { readdir, readFile } from 'node:fs/promises'
import { Pool } from 'pg'
import { Trouble, wordsOf } from '../base/trouble.ts'
import { limits } from '../config.ts'
import { Line, linesOf, serverOf, type Connection } from './connection.ts'
import { isDatabaseAway, over, sqlState } from './database.ts'
import { awayWords } from './database-away.ts'
import { whyCommitsWait } from './replication.ts'
import { oldestUser, whyUnfit } from './server-facts.ts'

const folder = new URL('./migrations/', import.meta.url)

/** The names of this release's migrations, oldest first: what a database of it has. */
export const releaseMigrations = async (): Promise<string[]> =>
  (await readdir(folder))
    .filter((name) => name.endsWith('.sql'))
    .map((name) => name.slice(0, -'.sql'.length))
    .sort()

/**
 * Returns the version that the database has now: the name of the newest migration. `tell` hears for whom it waits, once each: whoever starts it has nothing else
 * to look at.
 */
export async function migrate(
  connection: Connection,
  tell: (words: string) => void = () => undefined,
  pause: (ms: number) => Promise<unknown> = wait,
  triesMax: number = limits.migrationTriesMax,
): Promise<{ version: string }> {
  const { stream, ended } = linesOf(connection)
  const server = serverOf(connection, [`-c lock_timeout=${limits.migrationLockMs}`])
  const pool = new Pool({
    ...server,
    Client: Line,
    stream,
    max: 1,
    connectionTimeoutMillis: limits.databasePatientWaitMs,
  })
  pool.on('error', () => undefined)
  let reached = false
  const lost: Error[] = []
  pool.on('connect', (client) => {
    reached = true
    // In the migrator's hands the pool does not listen, and the process would end here. What the migrator tells of it are words of its own.
    client.on('error', (error) => lost.push(error))
  })
  try {
    const names = await releaseMigrations()
    const attempt = () => tellingOfStandby(connection, tell, () => bringUp(pool, names, connection))
    let error = await attempt()
    if (isBusy(error)) tell(await whoIsBusy(connection))
    for (let tries = 1; isBusy(error) && tries < triesMax; tries += 1) {
      await pause(limits.migrationPauseMs)
      error = await attempt()
    }
    if (isBusy(error))
      throw new Trouble(
        'the database cannot be migrated now: for a minute somebody has been using a table that must change (a backup, or a transaction that was left open), or another node has been migrating. Nothing is changed; start again when it has ended',
        { cause: error },
      )
    // Where it fails because the server is not good enough, those are the words.
    const unfit = error !== undefined && reached ? await over(connection, whyUnfit).catch(() => undefined) : undefined
    if (unfit !== undefined) throw new Trouble(unfit, { cause: error })
    if (error !== undefined && (!reached || lost.length > 0 || isDatabaseAway(error)))
      throw new Trouble(awayWords(lost.at(-1) ?? error, !('url' in connection)), { cause: error })
    if (error !== undefined) {
      const done = await doneIn(pool).catch((): readonly string[] => [])
      if (!names.some((name) => done.includes(name)) && (done.length > 0 || isTaken(error)))
        throw new Trouble(
          `this database is not empty, and what is there is not Posthorn's (${wordsOf(error)}): make an empty one for Posthorn alone (create database), and name it in DATABASE_URL. Nothing that was there is changed`,
          { cause: error },
        )
      const known = names.at(-1) ?? ''
      const newer = done.findLast((name) => name > known)
      if (newer !== undefined)
        throw new Trouble(
          `the database belongs to a newer release: it has the schema ${newer}, and this one ends with ${known}; start the newer one here, and use its commands (docs/production.md, Upgrade)`,
          { cause: error },
        )
      throw new Error('a migration failed; the database is unchanged', { cause: error })
    }
    // A backup may hold them up: then housekeeping makes them, and nobody waits behind us meanwhile.
    await tellingOfStandby(connection, tell, () => pool.query('select partitions_ahead_1()'))
    return { version: names.at(-1) ?? '' }
  } finally {
    await ended(pool.end())
  }
}

/**
 * Answers what went wrong. Nearly always nothing is to be done, which is seen sooner than the migrator is loaded: each command comes this way. Nothing is
 * made where the service would not start then, also by a command.
 */
async function bringUp(pool: Pool, names: readonly string[], connection: Connection): Promise<unknown> {
  try {
    const done = await doneIn(pool)
    if (done.length === names.length && names.every((name, at) => name === done[at])) return undefined
    const unfit = await over(connection, whyUnfit)
    if (unfit !== undefined) return new Trouble(unfit)
  } catch (error) {
    return error
  }
  const { migrateToLatest } = await import('./migrator.ts')
  const texts = await Promise.all(
    names.map(async (name) => [name, await readFile(new URL(`${name}.sql`, folder), 'utf8')] as const),
  )
  return migrateToLatest(pool, texts)
}

/** A commit that waits for a standby ends when that is back, however long it takes: given up, it would be made all the same, by nobody. */
async function tellingOfStandby<T>(
  connection: Connection,
  tell: (words: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  let told = false
  const look = async (): Promise<void> => {
    const why = await over(connection, whyCommitsWait)
    if (why === undefined || told) return
    told = true
    tell(`the migration waits, and goes on by itself: ${why}`)
  }
  const looks = setInterval(() => void look().catch(() => undefined), limits.commitsWaitMs)
  return work().finally(() => clearInterval(looks))
}

async function whoIsBusy(connection: Connection): Promise<string> {
  const oldest = await over(connection, oldestUser).catch(() => undefined)
  const who = oldest === undefined ? '' : `; longest of all by ${oldest}`
  return `a table that the migration must change is in use (a backup, or a transaction that was left open), or another node is migrating${who}. It is tried again for a minute`
}

/** The migrations that the database has, oldest first; none where something else is found before our tables (`whyUnfit` tells). */
async function doneIn(pool: Pool): Promise<readonly string[]> {
  const { rows: found } = await pool.query<{ there: boolean }>(
    `select to_regclass(quote_ident(current_schema()) || '.kysely_migration') is not null there`,
  )
  if (found[0]?.there !== true) return []
  const { rows } = await pool.query<{ name: string }>('select name from kysely_migration')
  return rows.map(({ name }) => name).sort()
}

/** A lock was not to be had: the migrations are undone, and nobody waits behind them. */
const isBusy = (error: unknown): boolean => sqlState(error) === '55P03'

/** Somebody else has something of the name: a table, a type, an index or a function. */
const isTaken = (error: unknown): boolean => ['42P07', '42710', '42723'].includes(sqlState(error) ?? '')
