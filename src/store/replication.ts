// Who follows this PostgreSQL: whether they are there, how far behind, and what is kept for those who are not. As facts for the metrics, and in words for the
// start and the doctor. A standby is what the promise rests on where it is to outlive a failover, and one that is away may stop every commit, or fill the disk.
import { limits } from '../config.ts'
import { surelyAborted, type Db } from './database.ts'
import { commitsHang } from './hanging-commits.ts'

/**
 * Why every commit hangs while each question is answered; undefined where none does. That a standby is missing which must confirm is seen before anybody
 * waits for it, but for one that this user may not look at.
 */
export async function whyCommitsWait(db: Db): Promise<string | undefined> {
  const [facts] = await db.run<{ standbys: string; confirming: number; waiting: boolean }>(
    `select current_setting('synchronous_standby_names') standbys,
            (select count(*) from pg_stat_replication where coalesce(sync_state, 'sync') in ('sync', 'quorum'))::integer confirming,
            ${commitsHang} waiting`,
  )
  if (facts === undefined || facts.standbys === '' || (facts.confirming > 0 && !facts.waiting)) return undefined
  return `PostgreSQL lets each commit wait for a synchronous standby (synchronous_standby_names is ${facts.standbys}), and ${facts.confirming > 0 ? 'not enough of them confirm' : 'none is connected'}: until it is back nothing is accepted, sent or written down. Start it again; or take it out of synchronous_standby_names, and what is accepted until it has caught up may be lost with this server.`
}

/**
 * Nobody fails over to one who follows changes (a logical slot), keeps the WAL (pg_receivewal, barman) or takes a copy: none of those replays anything. Of what
 * this user may not see, all counts.
 */
const standbys = `(select r.sync_state, r.flush_lsn, r.replay_lsn from pg_stat_replication r
  where (r.sync_state is null or r.replay_lsn is not null)
    and not exists (select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical')) standby`

export interface Standbys {
  /** `synchronous_standby_names` */
  readonly names: string
  readonly synchronous: number
  readonly asynchronous: number
  /** Of whom this user may see no more than that they are there. */
  readonly hidden: number
}

export async function readStandbys(db: Db): Promise<Standbys> {
  const [facts] = await db.run<Standbys>(
    `select current_setting('synchronous_standby_names') names,
            count(*) filter (where sync_state in ('sync', 'quorum'))::integer synchronous,
            count(*) filter (where sync_state in ('async', 'potential'))::integer asynchronous,
            count(*) filter (where sync_state is null)::integer hidden
       from ${standbys}`,
  )
  if (facts === undefined) throw new Error('PostgreSQL did not answer')
  return facts
}

export async function warningsAboutStandbys(db: Db): Promise<string[]> {
  const warning = (await whyCommitsWait(db)) ?? warningAboutStandbys(await readStandbys(db))
  return warning === undefined ? [] : [warning]
}

/** Of what was read once: a moment later somebody else may follow. */
export function warningAboutStandbys({ names, synchronous, asynchronous, hidden }: Standbys): string | undefined {
  if (asynchronous + hidden === 0) return undefined
  if (synchronous > 0 && names !== '') return undefined
  return hidden > 0 && names !== ''
    ? 'PostgreSQL has standbys, and this user may not see whether they are synchronous: the promise covers a failover only to a synchronous one (grant pg_monitor to see it).'
    : 'PostgreSQL has asynchronous standbys only: what was accepted or sent in the last moments before a failover may be lost, so the promise does not cover it. Set synchronous_standby_names.'
}

export interface FollowedLog {
  /** How much of the write-ahead log the standby that is furthest behind has not got yet, and has not applied; null where none is seen. */
  readonly notFlushedBytes: number | null
  readonly notReplayedBytes: number | null
  /** What is kept for slots without an end, the most first: a slot with `safe_wal_size` has its bound, and one that is temporary ends with its copy. */
  readonly slots: readonly { readonly slot: string; readonly active: boolean; readonly bytes: number }[]
  /** The file that the archive did not take when it was last offered one. */
  readonly notArchived: string | null
}

/** Undefined where it is not to be had: a standby writes no log, and there are services that keep it elsewhere, and do not say where it ends. */
export async function readFollowedLog(db: Db): Promise<FollowedLog | undefined> {
  const ask = db.run<FollowedLog>(
    `select behind.*, kept.*, (
              select last_failed_wal from pg_stat_archiver
               where current_setting('archive_mode') <> 'off' and last_failed_time > coalesce(last_archived_time, '-infinity')) "notArchived"
       from (select pg_current_wal_lsn() lsn) here
       cross join lateral (
         select max(greatest(pg_wal_lsn_diff(here.lsn, flush_lsn), 0))::float8 "notFlushedBytes",
                max(greatest(pg_wal_lsn_diff(here.lsn, replay_lsn), 0))::float8 "notReplayedBytes"
           from ${standbys} where replay_lsn is not null) behind
       cross join lateral (
         select coalesce(json_agg(s), '[]') slots from (
           select slot_name slot, active, greatest(pg_wal_lsn_diff(here.lsn, restart_lsn), 0)::float8 bytes from pg_replication_slots
            where restart_lsn is not null and safe_wal_size is null and not temporary order by bytes desc limit $1) s) kept`,
    [limits.slotsShown],
  )
  const [facts] = await ask.catch((error: unknown) => {
    if (surelyAborted(error)) return []
    throw error
  })
  return facts
}

/** For whom the write-ahead log is kept, without an end: a standby, or a follower of changes, that does not come back for it, and an archive that does not take it. */
export async function warningsAboutKeptLog(db: Db): Promise<string[]> {
  const { slots, notArchived = null } = (await readFollowedLog(db)) ?? { slots: [] }
  const warnings = [
    ...slots
      .slice(0, 1)
      .filter(({ bytes }) => bytes > limits.logKeptBytesMost)
      .map(({ slot, active, bytes }) => {
        const named = `'${slot.replaceAll("'", "''")}'`
        return `PostgreSQL keeps ${(bytes / 1e9).toFixed(1)} GB of its write-ahead log for the replication slot ${named}, ${active ? 'whose reader falls behind' : 'which nobody reads'}, and goes on until the disk is full; then nothing is accepted or written down any more. Bring its reader back; for one that will not come, select pg_drop_replication_slot(${named}). max_slot_wal_keep_size sets a bound.`
      }),
    notArchived !== null &&
      `PostgreSQL could not archive its write-ahead log when it last tried (${notArchived}): it keeps all of it until it can, so that the disk fills, and the archive has nothing since. Look at archive_command, and at PostgreSQL's log.`,
  ]
  return warnings.filter((each) => each !== false)
}
