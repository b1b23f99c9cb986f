// What providers report about messages: finding the message that a report names, and recording (function `record_report_2`). Reports that come
// at the same time are recorded by one statement.
import { limits } from '../config.ts'
import { Batch } from '../base/batch.ts'
import { reportEvents } from '../domain/event.ts'
import type { RouteTaken } from '../domain/attempt.ts'
import type { DeliveryEventType, MessageId, WorkspaceId } from '../domain/message.ts'
import { inBites } from './bites.ts'
import { despiteDeadlocks, sql, mayBlameRows, type Ask, type Db } from './database.ts'
import { untilFree } from './held-rows.ts'

/** Whose relay an id came from: a workspace's own, or the installation's. */
export type RelayRoute = WorkspaceId | 'installation'
export const installationRoute = '00000000-0000-0000-0000-000000000000'
export const routeColumn = (route: RelayRoute): string => (route === 'installation' ? installationRoute : route)

/** The message that a report may be about. */
export interface Reported {
  readonly id: MessageId
  readonly workspaceId: WorkspaceId
  readonly recipient: string
  /** The name of the node that accepted it: the host of its return path, where its domain had none of its own. */
  readonly acceptedBy: string
  /**
   * Names of the workspace's domains, and of the one that it was sent from, which may be gone: whether their return paths are verified still, a
   * bounce of an earlier mail does not ask.
   */
  readonly domains: readonly string[]
  /** Now: its attempts may have taken another (`readRoutesTaken`). */
  readonly hasOwnRoute: boolean
}

const reportedColumns = `m.id, m.workspace_id "workspaceId", m.recipient, w.route_sealed is not null "hasOwnRoute",
  m.accepted_by "acceptedBy",
  array(select d.name from domains d where d.workspace_id = m.workspace_id) || substring(m.sender from '[^@]*$') domains`
const byId = sql(
  'find-reported',
  `select ${reportedColumns} from messages m join workspaces w on w.id = m.workspace_id where m.id = $1 limit 1`,
)
const byProviderId = sql(
  'find-relayed',
  `select ${reportedColumns} from relayed r
     cross join lateral (select x.* from messages x where x.workspace_id = r.workspace_id and x.id = r.message_id limit 1) m
     join workspaces w on w.id = m.workspace_id
    where r.route = $1 and r.provider_id = $2 limit 2`,
)
const routesTaken = sql(
  'routes-taken',
  `select a.facts ->> 'route' route from attempts a
    where a.workspace_id = $1 and a.message_id = $2 and a.facts ->> 'route' is not null`,
)
const byReturnPath = sql('find-return-path', 'select 1 from domains where return_path_host = $1 limit 1')
const removed = sql(
  'removed-workspaces',
  `(select w.id from workspaces w where w.removing_since is not null)
   union all (select r.id from removed_workspaces r order by r.removed_at desc limit $1)`,
)

/** Those that are being removed, and the newest of those that are gone: their messages cannot say any more whose they were. */
export const readRemoved = async (ask: Ask): Promise<WorkspaceId[]> =>
  (await ask<{ id: WorkspaceId }>(removed, [limits.removedKnownMax])).map(({ id }) => id)

/** By the id in a token, which is not proven yet: this says whose it would be. */
export async function findReported(db: Db, id: string): Promise<Reported | undefined> {
  return (await db.rows<Reported>(byId, [id]))[0]
}

/** By the id that the relay of this route gave; undefined also where two messages got the same one. */
export async function findRelayed(db: Db, route: RelayRoute, providerId: string): Promise<Reported | undefined> {
  if (providerId.includes('\0')) return undefined // PostgreSQL has no such text
  const found = await db.rows<Reported>(byProviderId, [routeColumn(route), providerId])
  return found.length === 1 ? found[0] : undefined
}

/** Of those attempts whose dot was written. Empty where none says: its worker was lost, or it is older than this word. */
export async function readRoutesTaken(db: Db, { workspaceId, id }: Reported): Promise<RouteTaken[]> {
  return (await db.rows<{ route: RouteTaken }>(routesTaken, [workspaceId, id])).map(({ route }) => route)
}

/** Whether mail of ours names this host in its return path. */
export async function isReturnPathHost(db: Db, host: string): Promise<boolean> {
  return (await db.rows(byReturnPath, [host])).length > 0
}

/** One report as it is recorded. Optional members are left out. */
export interface ReportRow {
  readonly id: MessageId
  readonly workspaceId: WorkspaceId
  /** SHA-256, hex. */
  readonly fingerprint: string
  readonly type: DeliveryEventType
  readonly rank: number
  readonly detail: string
  readonly bounce?: { readonly class: string }
  /** Members of the event's data. */
  readonly facts: object
  readonly source: string
  /** Left out: nobody is suppressed. */
  readonly suppress?: 'hard_bounce' | 'complaint'
  readonly rule?: string
}

/**
 * `not_armed`: nothing was ever transmitted, so nobody can have received it. `too_many`: the message has all the reports that it may have; its
 * recipient holds the token, and could write reports without end.
 */
export type ReportAnswer = 'recorded' | 'repeated' | 'too_many' | 'not_armed'

/** It knows a message with so many events for full. */
const record = sql('record-reports', 'select * from record_report_2($1::text::json, $2)')
const anyNumber = 2 ** 31 - 1
// Of a message that was put off very often nearly all events are our own: they must not keep out the complaint that comes at last.
const countReports = sql(
  'count-reports-of-message',
  `select count(*)::integer many from (
     select from reports r where r.workspace_id = $1 and r.message_id = $2 and r.source <> 'session' limit $3) r`,
)

function rowText(row: ReportRow): string {
  return JSON.stringify({
    id: row.id,
    w: row.workspaceId,
    fingerprint: row.fingerprint,
    type: row.type,
    event: reportEvents[row.type],
    rank: row.rank,
    detail: row.detail,
    bounce: row.bounce,
    facts: row.facts,
    source: row.source,
    reason: row.suppress,
    rule: row.rule,
  })
}

/** Resolves when the report is committed. Rejects when that is not known, or somebody holds the record: the same report again does no harm. */
export function makeReportRecorder(db: Db): (row: ReportRow) => Promise<ReportAnswer> {
  const recordAll = async (rows: readonly Recordable[], eventsMost: number): Promise<Recorded[]> => {
    const batch = `[${rows.map(({ text }, n) => `{"n":${n},${text.slice(1)}`).join(',')}]`
    const answers = await despiteDeadlocks(() => db.rows<{ n: number; answer: Recorded }>(record, [batch, eventsMost]))
    const byNumber = new Map(answers.map(({ n, answer }) => [n, answer]))
    return rows.map((_, n) => byNumber.get(n) ?? 'not_armed')
  }
  const roomOf = async ({ workspaceId, id }: Recordable): Promise<number> => {
    const most = limits.reportsPerMessageMax
    const [counted] = await db.rows<{ many: number }>(countReports, [workspaceId, id, most])
    return most - (counted?.many ?? most)
  }
  const recordBatch = async (rows: readonly Recordable[]): Promise<Recorded[]> => {
    const answers = await recordAll(rows, limits.reportsPerMessageMax)
    const full = rows.flatMap((row, n) => (answers[n] === 'too_many' ? [{ row, n }] : []))
    for (const of of Map.groupBy(full, ({ row }) => row.id).values()) {
      const some = of.slice(0, of[0] && (await roomOf(of[0].row)))
      if (some.length === 0) continue
      const anyway = await recordAll(
        some.map(({ row }) => row),
        anyNumber,
      )
      for (const [at, { n }] of some.entries()) answers[n] = anyway[at] ?? 'too_many'
    }
    return answers
  }
  const batch = new Batch<Recordable, Recorded>(
    recordBatch,
    {
      rowsMax: limits.reportsPerStatementMax,
      bytesMax: limits.reportsBytesMax,
      waitingMax: limits.reportsWaitingMax,
    },
    mayBlameRows,
  )
  return (row) => {
    const text = rowText(row)
    return untilFree(() => batch.add({ id: row.id, workspaceId: row.workspaceId, text }, text.length))
  }
}

/** `held`: somebody has the record locked, and nothing was done. */
type Recorded = ReportAnswer | 'held'

interface Recordable extends Pick<ReportRow, 'id' | 'workspaceId'> {
  readonly text: string
}

// Records go by whole partitions: the oldest of one lives so much longer than asked.
const pruneFingerprints = sql(
  'prune-fingerprints',
  `delete from report_fingerprints where ctid = any (array(
     select f.ctid from report_fingerprints f where f.seen_at < app_now() - $1 * interval '1 day' - (
        select p.days * interval '1 day' from partition_days() p where p.parent = 'messages')
      order by f.seen_at limit $2 for update of f skip locked)) returning 1`,
)
const pruneRelayed = sql(
  'prune-relayed',
  `delete from relayed where ctid = any (array(
     select r.ctid from relayed r where r.at < app_now() - $1 * interval '1 millisecond' order by r.at limit $2 for update skip locked)) returning 1`,
)

/** Forgets what no report can come for any more, a few rows at a time: a report is known for as long as the record that it was about. */
export async function pruneReports(db: Db, recordsDays: number): Promise<void> {
  const kinds = [
    [pruneFingerprints, recordsDays],
    [pruneRelayed, limits.relayedMs],
  ] as const
  for (const [statement, kept] of kinds)
    await inBites(limits.prunedAtOnce, async () => (await db.rows(statement, [kept, limits.prunedAtOnce])).length)
}
