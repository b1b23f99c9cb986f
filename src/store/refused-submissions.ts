// What was refused and never became a message (decisions H): code, time, source, the sender over SMTP, the recipient's domain, and what its sender was told,
// without addresses. Written behind the answers, in batches; where the database is slower than the refusals, or one workspace has very many, they are counted and not kept: nobody waits for this
// record. Kept 30 days.
import { randomUUIDv7 } from 'node:crypto'
import type { Log } from '../base/log.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { RefusalCode } from '../domain/refusal.ts'
import type { RefusedSubmission } from '../domain/refused-submission.ts'
import { Batch } from '../base/batch.ts'
import { inBites } from './bites.ts'
import { dated, sql, mayBlameRows, type Db } from './database.ts'
import { greatestId, idFloor, leastId } from './message-id.ts'
import { cutPage } from './page.ts'

export interface RefusalRow {
  readonly id: string
  readonly at: Date
  readonly source: 'rest' | 'smtp'
  readonly code: RefusalCode
  readonly sender: string | null
  readonly recipientDomain: string | null
  readonly field: string | null
  readonly error: string | null
  readonly callerId: string | null
  readonly requestId: string | null
}

export interface RefusalFilter {
  readonly source?: 'rest' | 'smtp'
  readonly code?: string
  readonly from?: Date
  readonly to?: Date
}

// Not of a workspace that is being removed, or gone: a session may outlive it.
const insert = sql(
  'note-refusals',
  `insert into refused_submissions (workspace_id, id, source, code, sender, recipient_domain, field, error, caller_id, request_id)
   select r.w, ${dated('r.id')}, r.source, r.code, r.sender, r.domain, r.field, r.error, r.caller, r.request
     from json_to_recordset($1::text::json)
       as r (w uuid, id uuid, source text, code text, sender text, domain text, field text, error text, caller uuid, request text)
       cross join lateral (select from workspaces x where x.id = r.w and x.removing_since is null limit 1) stays`,
)
const columns =
  'r.id, r.at, r.source, r.code, r.sender, r.recipient_domain "recipientDomain", r.field, r.error, r.caller_id "callerId", r.request_id "requestId"'
const latest = sql(
  'latest-refusals',
  `select ${columns} from refused_submissions r where r.workspace_id = $1 and r.id < $2 and r.id >= $3 order by r.id desc limit $4`,
)
/** Walks at most $4 of them, since nothing else has an index; the row without a code says where the walk ended. */
const searched = sql(
  'search-refusals',
  `with walk as materialized (
     select r.* from refused_submissions r where r.workspace_id = $1 and r.id < $2 and r.id >= $3 order by r.id desc limit $4),
   found as (
     select ${columns} from walk r where r.code = coalesce($6, r.code) and r.source = coalesce($7, r.source) order by r.id desc limit $5)
   select * from found
   union all
   (select w.id, null, null, null, null, null, null, null, null, null from walk w where (select count(*) from walk) = $4 order by w.id limit 1)`,
)
const prune = sql(
  'prune-refusals',
  `with old as materialized (
     select ctid row from refused_submissions where at < app_now() - $1 * interval '1 millisecond' order by at limit 1000 for update skip locked)
   delete from refused_submissions r using old where r.ctid = old.row returning r.id`,
)

export interface RefusalBook {
  /** Never throws, never waits. */
  note(refused: RefusedSubmission): void
  /** Resolves when all that was noted is written or given up. */
  quiet(): Promise<void>
}

export function makeRefusalBook(db: Db, log: Log, now = () => performance.now()): RefusalBook {
  let tooMany = 0
  let unwritten = 0
  /** Of each workspace in this hour. */
  const counts = new Map<WorkspaceId, number>()
  let hourEndsAt = -Infinity
  const isTooMuch = (workspace: WorkspaceId): boolean => {
    if (now() >= hourEndsAt) {
      counts.clear()
      hourEndsAt = now() + 3600_000
    }
    const count = (counts.get(workspace) ?? 0) + 1
    counts.set(workspace, count)
    return count > limits.refusalsPerHourMax
  }
  const write = async (rows: readonly RefusedSubmission[]): Promise<readonly undefined[]> => {
    const json = rows.map(
      ({ workspaceId: w, source, code, sender, recipientDomain: domain, field, error, callerId, requestId }) => ({
        w,
        id: randomUUIDv7(),
        source,
        code,
        sender,
        domain,
        field,
        error,
        caller: callerId,
        request: requestId,
      }),
    )
    await db.rows(insert, [JSON.stringify(json)])
    if (tooMany + unwritten > 0) {
      const why = `${tooMany} beyond what is kept of a workspace in an hour, ${unwritten} that could not be written`
      log.fault('refused submissions: not all are in the record', new Error(why))
      tooMany = 0
      unwritten = 0
    }
    return rows.map(() => undefined)
  }
  const bounds = {
    rowsMax: limits.admitRowsMax,
    bytesMax: limits.admitBytesMax,
    waitingMax: limits.refusalsWaitingMax,
    spacingMs: limits.refusalsSpacingMs,
  }
  const batch = new Batch(write, bounds, mayBlameRows)
  return {
    note: (refused) => {
      if (isTooMuch(refused.workspaceId)) tooMany++
      else
        batch.add(fitted(refused)).catch(() => {
          unwritten++
        })
    },
    quiet: () => batch.quiet(),
  }
}

/** As it may be kept: what a caller's own words have made long, and addresses in them, are left out. */
function fitted({ sender, field, error, ...refused }: RefusedSubmission): RefusedSubmission {
  return {
    ...refused,
    ...(sender !== undefined && { sender: readable(sender.slice(0, limits.addressOctetsMax)) }),
    ...(field !== undefined && { field: withoutAddresses(field, limits.refusalFieldCharactersMax) }),
    ...(error !== undefined && { error: withoutAddresses(error, limits.refusalErrorCharactersMax) }),
  }
}

/** What PostgreSQL and a terminal take: a cut may have left half a character. */
const readable = (text: string): string => text.toWellFormed().replaceAll(/\p{Cc}/gu, ' ')

/** What our own sentences say an address is like; nobody has one of these. */
const examples = new Set(['@', 'local@domain', 'ada@example.com'])

/** Cut between words first: the beginning of an address would not look like one. */
export function withoutAddresses(text: string, charactersMax: number): string {
  const cut = text.length <= charactersMax ? text : text.slice(0, charactersMax).replace(/\S*$/, '…')
  const clean = readable(cut)
  if (!clean.includes('@')) return clean
  return clean
    .replaceAll(/"[^"]*"@/g, '@')
    .split(' ')
    .map((word) =>
      word.includes('@')
        ? word.replace(/[^\s<>()",;:]*@[^\s<>()",;:]*/g, (each) => (examples.has(each) ? each : '(address)'))
        : word,
    )
    .join(' ')
}

/**
 * Newest first, of those that are wanted. `next` is the `before` of the next page, which there may be behind a page with nothing on it: of those
 * with one code or source a bounded number is looked at.
 */
export async function searchRefusals(
  db: Db,
  workspace: WorkspaceId,
  { source, code, from, to }: RefusalFilter,
  { before = greatestId, most }: { readonly before?: string | undefined; readonly most: number },
): Promise<{ readonly rows: readonly RefusalRow[]; readonly next?: string }> {
  const until = to === undefined ? greatestId : idFloor(to)
  const bounds = [workspace, before < until ? before : until, from === undefined ? leastId : idFloor(from)]
  const isPlain = source === undefined && code === undefined
  const rows = await (isPlain
    ? db.rows<RefusalRow>(latest, [...bounds, most + 1])
    : db.rows<RefusalRow>(searched, [...bounds, limits.refusalsScannedMax, most + 1, code ?? null, source ?? null]))
  const { shown, last } = cutPage(rows, most, (row) => row.code === null)
  return { rows: shown, ...(last !== undefined && { next: last.id }) }
}

/** Removes those that are older than they are kept; returns how many. */
export function pruneRefusals(db: Db): Promise<number> {
  return inBites(1_000, async () => (await db.rows(prune, [limits.refusalsKeptMs])).length)
}
