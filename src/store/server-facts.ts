// Whether a PostgreSQL server can keep the promise at all: the start refuses one that cannot.
import type { Db } from './database.ts'

/** One sentence that says why not; undefined for a server that is good enough. */
export async function whyUnfit(db: Db): Promise<string | undefined> {
  const [facts] = await db.run<{ version: number; fsync: string; full_page_writes: string; recovery: boolean }>(
    `select current_setting('server_version_num')::integer as version, current_setting('fsync') fsync,
            current_setting('full_page_writes') full_page_writes, pg_is_in_recovery() recovery`,
  )
  if (facts === undefined) return 'PostgreSQL did not answer.'
  if (facts.version < 150_000)
    return `PostgreSQL 15 or newer is needed; this server is ${Math.floor(facts.version / 10_000)}.`
  if (facts.fsync !== 'on') return 'PostgreSQL runs with fsync off: accepted mail could be lost. Turn it on.'
  if (facts.full_page_writes !== 'on')
    return 'PostgreSQL runs with full_page_writes off: accepted mail could be lost. Turn it on.'
  if (facts.recovery) return 'PostgreSQL is a standby: DATABASE_URL must name the primary.'
  return undefined
}

/** True when the database answers. */
export async function isReachable(db: Db): Promise<boolean> {
  return db.run('select 1').then(
    () => true,
    () => false,
  )
}
