// What this node sees of the database's server, as numbers for Prometheus: its clock against ours, and those who follow it. Every node tells them, of any
// roles: the first is its own, and the others are the same everywhere.
import type { Measured, Sample } from './base/metrics.ts'
import type { Db } from './store/database.ts'
import { readFollowedLog, readStandbys, whyCommitsWait } from './store/replication.ts'
import { clockAheadMs, usedTransactionIds } from './store/server-facts.ts'

export const serverGauges = {
  posthorn_database_clock_offset_seconds: {
    help: "How far the database's clock is ahead of this machine's; below 0: behind.",
  },
  posthorn_database_commits_wait: { help: '1 while commits wait for a synchronous standby that is away.' },
  posthorn_database_standbys: {
    help: 'Standbys that are connected; hidden: this user may not see of which kind (grant pg_monitor).',
    label: 'state',
  },
  posthorn_database_standby_lag_bytes: {
    help: 'How much of the write-ahead log the standby that is furthest behind has not got (flush), and not applied (replay).',
    label: 'stage',
  },
  posthorn_database_wal_kept_bytes: {
    help: 'Write-ahead log that is kept for a replication slot without a bound; the 50 for which most is.',
    label: 'slot',
  },
  posthorn_database_archive_failing: {
    help: '1 while the archive of the write-ahead log does not take what it is offered.',
  },
  posthorn_database_transaction_ids: {
    help: 'Transaction ids that are used up since the database of this server that needs it most was vacuumed as a whole; near 2.14e9 nothing is written any more.',
  },
} as const satisfies Record<string, Measured>

export async function serverSamples(db: Db, now: () => Date): Promise<readonly Sample[]> {
  const aheadMs = await clockAheadMs(db, now)
  const hanging = await whyCommitsWait(db)
  const { synchronous, asynchronous, hidden } = await readStandbys(db)
  const log = await readFollowedLog(db)
  const { ids } = await usedTransactionIds(db)
  const one = (name: keyof typeof serverGauges, value: number, label?: string): Sample => ({
    name,
    value,
    ...(label !== undefined && { label }),
  })
  const lag = (stage: string, bytes: number | null) =>
    bytes === null ? [] : [one('posthorn_database_standby_lag_bytes', bytes, stage)]
  return [
    one('posthorn_database_clock_offset_seconds', aheadMs / 1000),
    one('posthorn_database_commits_wait', hanging === undefined ? 0 : 1),
    one('posthorn_database_transaction_ids', ids),
    ...Object.entries({ synchronous, asynchronous, hidden }).map(([state, many]) =>
      one('posthorn_database_standbys', many, state),
    ),
    ...(log === undefined
      ? []
      : [
          ...lag('flush', log.notFlushedBytes),
          ...lag('replay', log.notReplayedBytes),
          ...log.slots.map(({ slot, bytes }) => one('posthorn_database_wal_kept_bytes', bytes, slot)),
          one('posthorn_database_archive_failing', log.notArchived === null ? 0 : 1),
        ]),
  ]
}
