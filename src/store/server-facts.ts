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

/** What the operator should know about a server that is good enough, one sentence each. */
export async function warningsAbout(db: Db): Promise<string[]> {
  const [facts] = await db.run<{ standbys: string; synchronous: number; asynchronous: number; hidden: number }>(
    `select current_setting('synchronous_standby_names') standbys,
            count(*) filter (where sync_state in ('sync', 'quorum'))::integer synchronous,
            count(*) filter (where sync_state in ('async', 'potential'))::integer asynchronous,
            count(*) filter (where sync_state is null)::integer hidden
       from pg_stat_replication`,
  )
  if (facts === undefined || facts.asynchronous + facts.hidden === 0) return []
  if (facts.synchronous > 0 && facts.standbys !== '') return []
  return [
    facts.hidden > 0 && facts.standbys !== ''
      ? 'PostgreSQL has standbys, and this user may not see whether they are synchronous: the promise covers a failover only to a synchronous one (grant pg_monitor to see it).'
      : 'PostgreSQL has asynchronous standbys only: what was accepted or sent in the last moments before a failover may be lost, so the promise does not cover it. Set synchronous_standby_names.',
  ]
}

export interface ServerFacts {
  readonly version: string
  readonly sizeBytes: number
  readonly connections: number
  readonly connectionsMax: number
  /** Of our own connections. */
  readonly synchronousCommit: string
  readonly standbys: number
  readonly now: Date
}

export async function readServerFacts(db: Db): Promise<ServerFacts> {
  const [facts] = await db.run<ServerFacts>(
    `select current_setting('server_version') as version, pg_database_size(current_database())::float8 "sizeBytes",
            (select count(*)::integer from pg_stat_activity where backend_type = 'client backend') connections,
            current_setting('max_connections')::integer "connectionsMax",
            current_setting('synchronous_commit') "synchronousCommit",
            (select count(*)::integer from pg_stat_replication) standbys, clock_timestamp() "now"`,
  )
  if (facts === undefined) throw new Error('PostgreSQL did not answer')
  return facts
}
