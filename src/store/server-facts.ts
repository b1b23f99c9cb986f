// What there is to know of a PostgreSQL server: whether it can keep the promise at all (the start refuses one that cannot), and what of it its operator should
// hear, at the start, from the doctor and over /readyz.
import { limits } from '../config.ts'
import { poolerBetween } from './database-away.ts'
import { closedByUs } from './hanging-commits.ts'
import { warningsAboutSnapshots } from './held-snapshots.ts'
import { warningsAboutKeptLog, warningsAboutStandbys } from './replication.ts'
import { sql, sqlState, type Ask, type Db } from './database.ts'

interface Fitness {
  readonly version: number
  readonly fsync: string
  readonly full_page_writes: string
  readonly recovery: boolean
  readonly paused: boolean | null
  readonly plans: string
  readonly encoding: string
  readonly read_only: boolean
  readonly transactions_end: string
  readonly triggers: string
  readonly us: string
  /** Whose settings they are: it may act as another role (`alter role login set role us`). */
  readonly login: string
  /** Whose tables they are, where that is somebody else. */
  readonly owner: string | null
  readonly path: string
  readonly schema: string | null
  readonly may_create: boolean | null
  readonly elsewhere: string | null
  /** Where our tables are, when they are found, and something else is found first. */
  readonly behind: string | null
}

/** One sentence that says why not; undefined for a server that is good enough. */
export async function whyUnfit(db: Db): Promise<string | undefined> {
  const [facts] = await db.run<Fitness>(
    `select current_setting('server_version_num')::integer as version, current_setting('fsync') fsync,
            current_setting('full_page_writes') full_page_writes, pg_is_in_recovery() recovery,
            case when pg_is_in_recovery() then pg_is_wal_replay_paused() end paused,
            current_setting('plan_cache_mode') plans, current_setting('server_encoding') encoding,
            current_setting('transaction_read_only') = 'on' and not ${closedByUs} read_only,
            coalesce(current_setting('transaction_timeout', true), '0') transactions_end,
            current_setting('session_replication_role') triggers,
            quote_ident(current_user) us, quote_ident(session_user) login,
            (select quote_ident(pg_get_userbyid(c.relowner)) from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where n.nspname = current_schema() and c.relkind in ('r', 'p') and (c.relname = 'delivering_nodes' or c.relkind = 'p' or c.relispartition)
                and not pg_has_role(c.relowner, 'usage') limit 1) owner, current_setting('search_path') path, current_schema()::text as schema,
            has_schema_privilege(current_schema(), 'create') may_create,
            (select quote_ident(n.nspname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where c.relname = 'delivering_nodes' and to_regclass('delivering_nodes') is null limit 1) elsewhere,
            (select quote_ident(n.nspname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where c.oid = to_regclass('delivering_nodes') and n.nspname <> current_schema()) behind`,
  )
  if (facts === undefined) return 'PostgreSQL did not answer.'
  const { us, login, owner, path, schema, elsewhere, behind } = facts
  if (facts.version < 150_000)
    return `PostgreSQL 15 or newer is needed; this server is ${Math.floor(facts.version / 10_000)}.`
  if (facts.fsync !== 'on') return 'PostgreSQL runs with fsync off: accepted mail could be lost. Turn it on.'
  if (facts.full_page_writes !== 'on')
    return 'PostgreSQL runs with full_page_writes off: accepted mail could be lost. Turn it on.'
  if (facts.paused === true)
    return 'PostgreSQL is in a recovery that has paused, as one to a moment in the past does when it is there: look whether it is the right one, and end it (select pg_wal_replay_resume()), then start again. If it is a standby, DATABASE_URL must name the primary.'
  if (facts.recovery) return 'PostgreSQL is a standby: DATABASE_URL must name the primary.'
  // Of all that our sessions ask for, what no server is set to by itself.
  if (facts.plans !== 'force_generic_plan') return poolerBetween
  if (!['UTF8', 'SQL_ASCII'].includes(facts.encoding))
    return `The database has the encoding ${facts.encoding}, which cannot hold every mail: make one with encoding UTF8 (create database ... encoding 'UTF8' template template0), and name it in DATABASE_URL.`
  if (facts.read_only)
    return `PostgreSQL lets ${login} only read here (default_transaction_read_only is on): nothing could be accepted. Turn it off for the user and for the database.`
  if (facts.transactions_end !== '0')
    return `PostgreSQL ends every transaction of ${login} after ${facts.transactions_end} (transaction_timeout), and a backup or a migration takes as long as it takes: alter role ${login} set transaction_timeout = 0.`
  if (facts.triggers === 'replica')
    return `PostgreSQL runs no triggers for ${login} (session_replication_role is replica): nothing would guard a message's state, and no webhook would hear of it: alter role ${login} reset session_replication_role, and the same for the database.`
  if (elsewhere !== null)
    return `Posthorn's tables are in the schema ${elsewhere} of this database, and the search_path of ${login} (${path}) does not lead there: alter role ${login} set search_path = ${elsewhere}, or name another database in DATABASE_URL.`
  if (behind !== null)
    return `Posthorn's tables are in the schema ${behind} of this database, and the search_path of ${login} (${path}) leads to ${schema} first: new partitions would be made there, and what is removed, dropped when it is old or backed up would not be found. Do alter role ${login} set search_path = ${behind}, and move what it has made in ${schema} meanwhile (alter table ... set schema ${behind}).`
  if (owner !== null)
    return `Posthorn's tables belong to ${owner}, and ${us} is no member of that role: it could make no partitions for the weeks that come, and then nothing would be accepted. Do grant ${owner} to ${login}, and alter role ${login} set role ${owner}, so that what it makes belongs to the same role.`
  if (schema === null)
    return `The search_path of ${login} (${path}) names no schema that exists in this database: create one, or alter role ${login} set search_path = public.`
  if (facts.may_create === false)
    return `PostgreSQL does not let ${us} make tables in the schema ${schema} of this database: grant create on schema ${schema} to ${us}, or make it the database's owner.`
  return undefined
}

const writing = sql(
  'writing',
  `select current_setting('transaction_read_only') = 'on' and not ${closedByUs} closed,
          coalesce((select max(extract(epoch from clock_timestamp() - a.state_change)) from pg_stat_activity a
            where a.wait_event = 'SyncRep' and a.usename = session_user), 0)::float8 waiting`,
)

/** It answers and takes nothing: a standby, a database that an administrator has closed, or one whose commits wait for another. */
export async function whyNothingIsWritten(ask: Ask): Promise<string | undefined> {
  const [found] = await ask<{ closed: boolean; waiting: number }>(writing)
  if (found?.closed === true) return 'read-only: a standby, or default_transaction_read_only is on'
  if (found !== undefined && found.waiting * 1000 > limits.commitsWaitMs)
    return 'waiting for a synchronous standby: every commit does'
  return undefined
}

/** What the operator should know about a server that is good enough, one sentence each. */
export const warningsAbout = async (db: Db): Promise<string[]> => [
  ...(await warningsAboutStandbys(db)),
  ...(await warningsAboutUpkeep(db)),
  ...(await warningsAboutSnapshots(db)),
]

/**
 * What works today, and ends badly: nothing is swept up, ids of transactions run out, texts are looked for where they do not stand any more, the disk fills
 * with a log that nobody takes. There are libraries that tell no version of how they sort (musl): between those and others PostgreSQL refreshes none.
 */
export async function warningsAboutUpkeep(db: Db): Promise<string[]> {
  const [facts] = await db.run<{
    unswept: boolean
    us: string
    collation: string | null
    noted: string
  }>(
    `select 'off' in (current_setting('autovacuum'), current_setting('track_counts')) unswept, quote_ident(us.datname) us,
            case when us.datcollversion is distinct from sorted.version
              then coalesce(us.datcollversion, 'none told') || ' then, ' || coalesce(sorted.version, 'none told') || ' now' end collation,
            case when num_nulls(us.datcollversion, sorted.version) = 0
              then format('alter database %I refresh collation version', us.datname)
              else format('(as a superuser) update pg_database set datcollversion = pg_database_collation_actual_version(oid) where datname = %L', us.datname) end noted
       from pg_database us cross join lateral (select pg_database_collation_actual_version(us.oid) as version) sorted
      where us.datname = current_database()`,
  )
  if (facts === undefined) return []
  const { unswept, us, collation, noted } = facts
  const { oldest, ids } = await usedTransactionIds(db)
  const warnings = [
    unswept &&
      'PostgreSQL sweeps nothing up by itself (autovacuum or track_counts is off): the tables of the queue grow with each message and slow down, and in the end it writes nothing any more. Turn both on.',
    ids > limits.transactionIdsMost &&
      `PostgreSQL has used ${Math.round(ids / 1e6)} million transaction ids since the database ${oldest} was last vacuumed as a whole, and writes nothing any more from about 2,140 on. Look for what holds that up (a transaction that is open or prepared, a replication slot), and vacuum that database.`,
    collation !== null &&
      `The texts in this database were sorted by another version of the system's collation (${collation}), as after an upgrade of the system under it, a change to another one (Alpine and Debian sort differently) or a failover: what stands in an index may not be found, a suppressed address or a login. Do reindex database ${us}, then ${noted}.`,
  ]
  return [...warnings.filter((each) => each !== false), ...(await warningsAboutKeptLog(db))]
}

/** How many are used up since a database of this server was last vacuumed as a whole: of the one that needs it most. */
export async function usedTransactionIds(db: Db): Promise<{ readonly oldest: string; readonly ids: number }> {
  const [found] = await db.run<{ oldest: string; ids: number }>(
    `select quote_ident(datname) oldest, greatest(age(datfrozenxid), mxid_age(datminmxid))::float8 ids from pg_database order by ids desc limit 1`,
  )
  if (found === undefined) throw new Error('PostgreSQL did not answer')
  return found
}

/** A row of pg_stat_activity, as an operator finds it again; what this user may not see is hidden. */
const whoseOf = (session: string): string =>
  `format('process %s of %s, %s', ${session}.pid, ${session}.usename, coalesce(nullif(${session}.application_name, ''), ${session}.state, 'hidden'))`

/**
 * What has been open for longer than that, the oldest of it, as far as this user may see it: rows that go meanwhile cannot be cleaned up where it could
 * still read them, and events behind one that writes are not told yet. Another database's readers are nobody's here.
 */
export async function oldestTransaction(
  db: Db,
  seconds: number,
): Promise<{ readonly whose: string; readonly seconds: number } | undefined> {
  const [oldest] = await db.run<{ whose: string; seconds: number }>(
    `select * from (
       select ${whoseOf('a')} whose,
              extract(epoch from clock_timestamp() - xact_start)::float8 seconds
         from pg_stat_activity a
        where backend_type <> 'autovacuum worker' and pid <> pg_backend_pid()
          and (backend_xid is not null or backend_xmin is not null and datname = current_database())
       union all
       select format('prepared, %s', quote_literal(gid)), extract(epoch from clock_timestamp() - prepared) from pg_prepared_xacts) open
      where open.seconds > $1 order by open.seconds desc limit 1`,
    [seconds],
  )
  return oldest
}

/**
 * For whom statements of ours wait, which want a lock that somebody else holds: a session that was left open behind a change, or one that rewrites a table. Not one
 * of those who wait themselves. Ours are given up and asked again, which shows nobody why.
 */
export async function whoLocksUsOut(
  db: Db,
  waitMs: number,
): Promise<{ readonly whose: string; readonly seconds: number } | undefined> {
  const [holder] = await db.run<{ whose: string; seconds: number }>(
    `select coalesce(${whoseOf('b')}, 'a prepared transaction') whose,
            extract(epoch from clock_timestamp() - l.waitstart)::float8 seconds
       from pg_locks l join pg_stat_activity a on a.pid = l.pid
       cross join lateral unnest(pg_blocking_pids(l.pid)) holder (pid)
       left join pg_stat_activity b on b.pid = holder.pid and b.wait_event_type is distinct from 'Lock'
      where not l.granted and a.usename = session_user and a.datname = current_database()
        and l.waitstart < clock_timestamp() - $1 * interval '1 millisecond' and (b.pid is not null or holder.pid = 0)
      order by seconds desc limit 1`,
    [waitMs],
  )
  return holder
}

/** Who has used a table of this database for longest, and does yet, be it only by not ending its transaction. */
export async function oldestUser(db: Db): Promise<string | undefined> {
  const [oldest] = await db.run<{ whose: string }>(
    `select ${whoseOf('a')} whose
       from pg_locks l join pg_stat_activity a on a.pid = l.pid
      where l.granted and l.locktype = 'relation' and l.relation >= 16384 and l.pid <> pg_backend_pid()
        and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
      order by a.xact_start limit 1`,
  )
  return oldest?.whose
}

/**
 * Whether the disk of the database takes some megabytes, which those who accept ask for without a word beforehand. Nothing is kept: what does not fit
 * into the memory of a query goes to a file of its own, which ends with it.
 */
export async function hasRoom(db: Db): Promise<boolean> {
  try {
    await db.transaction(async (tx) => {
      await tx.run(`select set_config('work_mem', '64kB', true), set_config('temp_tablespaces', '', true)`)
      await tx.run('select count(*) from generate_series(1, $1::integer)', [limits.doctorRoomRows])
    })
    return true
  } catch (error) {
    if (sqlState(error) === diskFull) return false
    if (sqlState(error) === tooMuchForUs) return true
    throw error
  }
}

const diskFull = '53100'
/** More than an administrator lets a query write (`temp_file_limit`): that there is no room is not said. */
const tooMuchForUs = '53400'

export interface ServerFacts {
  readonly version: string
  readonly sizeBytes: number
  /** Of other users' sessions an ordinary user sees no more than that they are there, and in which database. */
  readonly connections: number
  readonly connectionsMax: number
  /** What sets that bound: of the server's, our user's and our database's, the one that is nearest. */
  readonly connectionsBy: string
  /** Of our own connections. */
  readonly synchronousCommit: string
}

export async function readServerFacts(db: Db): Promise<ServerFacts> {
  const [facts] = await db.run<ServerFacts>(
    `select current_setting('server_version') as version, pg_database_size(current_database())::float8 "sizeBytes",
            nearest.taken connections, nearest.most "connectionsMax", nearest.bound "connectionsBy",
            current_setting('synchronous_commit') "synchronousCommit"
       from (
         select bounds.* from (
           select count(*)::integer taken, count(*) filter (where usename = session_user)::integer ours, count(*) filter (where datname = current_database())::integer here
             from pg_stat_activity where backend_type = 'client backend' or backend_type is null and datid is not null) n
          cross join lateral (
            select n.taken, current_setting('max_connections')::integer most, 'max_connections' bound
            union all
            select n.ours, rolconnlimit, 'the connection limit of the user ' || quote_ident(rolname) from pg_roles where rolname = session_user and not rolsuper
            union all
            select n.here, datconnlimit, 'the connection limit of the database ' || quote_ident(datname) from pg_catalog.pg_database, pg_roles
             where datname = current_database() and rolname = session_user and not rolsuper) bounds
          where bounds.most >= 0 order by bounds.taken::float8 / greatest(bounds.most, 1) desc limit 1) nearest`,
  )
  if (facts === undefined) throw new Error('PostgreSQL did not answer')
  return facts
}

/**
 * How far the database's clock is ahead of this machine's (below 0: behind), in milliseconds. It was read somewhere between the question and the answer, so 0 is
 * all that agrees with either.
 */
export async function clockAheadMs(db: Db, now: () => Date): Promise<number> {
  const before = now().getTime()
  const [read] = await db.run<{ now: Date }>('select clock_timestamp() "now"')
  const after = now().getTime()
  if (read === undefined) throw new Error('PostgreSQL did not answer')
  const there = read.now.getTime()
  return there < before ? there - before : Math.max(0, there - after)
}
