// The queue's statements behind the claim (claim.ts): heartbeat, arm, finish, reap (delivery-semantics). Every one repeats its conditions on the row that it
// changes; answers of a batch are matched by id and epoch, because one process can hold two epochs of a message.
import { limits } from '../config.ts'
import { reportEvents } from '../domain/event.ts'
import type {
  Claim,
  DeliveryEventType,
  MessageId,
  MessageSource,
  MessageStatus,
  WorkspaceId,
} from '../domain/message.ts'
import type { moves } from '../domain/moves.ts'
import { Batch } from '../base/batch.ts'
import { despiteDeadlocks, sql, mayBlameRows, type Db, type Statement } from './database.ts'
import { heldMessages, pastHeld, unlessHeldUp, type HeldUp } from './held-rows.ts'
import { pastRefused, type Refused } from './refused-rows.ts'
import { routeColumn, type RelayRoute } from './reports.ts'

/** A claim, with what an arm looks up in the list of suppressions. */
export interface Armable extends Claim {
  readonly recipientKey: string
}

export interface Claimed extends Armable {
  readonly workspaceId: WorkspaceId
  readonly domainId: string
  readonly destination: string
  readonly attempt: number
  readonly expiresAt: Date
  readonly sender: string
  readonly senderName: string | null
  readonly recipient: string
  readonly subject: string
  readonly acceptedBy: string
  readonly createdAt: Date
  readonly source: MessageSource
  readonly bodyText: string | null
  readonly bodyBlob: string | null
  readonly hasAttachments: boolean
  readonly attachmentsBytes: number
  readonly routeSealed: Buffer | null
  /** The database's time. */
  readonly claimedAt: Date
}

const heartbeat = (name: string, waits: '' | 'skip locked') =>
  sql(
    name,
    `with mine as materialized (
       select o.* from unnest($1::uuid[], $2::integer[], $3::bigint[]) as a (id, epoch, token)
        cross join lateral (
          select x.ctid row, x.message_id, x.epoch from outbound x
           where x.message_id = a.id and x.epoch = a.epoch and x.token = a.token and x.status = 'sending' limit 1 for update ${waits}) o)
     update outbound o set lease_until = app_now() + $4 * interval '1 millisecond' from mine
      where o.ctid = mine.row and o.epoch = mine.epoch and o.status = 'sending'
     returning o.message_id id, o.epoch`,
  )
const passing = heartbeat('heartbeat', 'skip locked')
const waiting = heartbeat('heartbeat-waiting', '')

/**
 * Extends the leases of those of these claims that nobody holds up; answers which, as `id epoch`. What is not among them is lost or locked, by
 * ourselves mostly: `extendLocked` tells.
 */
export const extendLeases = (db: Db, claims: readonly Claim[], leaseMs: number): Promise<ReadonlySet<string>> =>
  extend(db, passing, claims, leaseMs)

/** Extends the leases of exactly these claims, behind whoever has them locked; answers those that are still ours, as `id epoch`. */
export async function extendLocked(db: Db, claims: readonly Claim[], leaseMs: number): Promise<ReadonlySet<string>> {
  const ours = await extend(db, waiting, claims, leaseMs)
  // A row that was armed while the statement waited for it has a version that the statement cannot see: only a second one can tell it from one
  // that is lost.
  const missing = claims.filter((claim) => !ours.has(claimName(claim)))
  return missing.length === 0 ? ours : new Set([...ours, ...(await extend(db, waiting, missing, leaseMs))])
}

async function extend(
  db: Db,
  statement: Statement,
  claims: readonly Claim[],
  leaseMs: number,
): Promise<ReadonlySet<string>> {
  const rows = await despiteDeadlocks(() =>
    db.rows<{ id: string; epoch: number }>(statement, [...columns(inOrder(claims)), leaseMs]),
  )
  return new Set(rows.map(claimName))
}

/** Rows and records are locked in the order of their ids: two statements that hold what the other one waits for would be a circle. */
export const inOrder = <Row extends { readonly id: string }>(rows: readonly Row[]): Row[] =>
  rows.toSorted((one, other) => (one.id < other.id ? -1 : 1))

export const claimName = (claim: { readonly id: string; readonly epoch: number }): string =>
  `${claim.id} ${claim.epoch}`

function columns(claims: readonly Claim[]): [string[], number[], string[]] {
  return [claims.map((claim) => claim.id), claims.map((claim) => claim.epoch), claims.map((claim) => claim.token)]
}

const hasten = sql(
  'hasten-put-off',
  `with mine as materialized (
     select o.* from unnest($1::uuid[], $2::integer[], $3::bigint[]) as a (id, epoch, token)
      cross join lateral (
        select x.ctid row, x.epoch from outbound x
         where x.message_id = a.id and x.epoch = a.epoch and x.token = a.token and x.status = 'retrying' and x.attempts > 0
           and x.due_at > app_now() limit 1 for update skip locked) o)
   update outbound o set due_at = app_now(), attempts = o.attempts - 1 from mine
    where o.ctid = mine.row and o.epoch = mine.epoch and o.status = 'retrying'
   returning o.message_id id`,
)

/**
 * Makes messages due that wait as these claims have left them, gives back the try of each, and answers which; passes over whom somebody has locked. In
 * the order of their ids.
 */
export async function hastenPutOff(db: Db, claims: readonly Claim[]): Promise<ReadonlySet<MessageId>> {
  const rows = await despiteDeadlocks(() => db.rows<{ id: MessageId }>(hasten, columns(inOrder(claims))))
  return new Set(rows.map(({ id }) => id))
}

/** Why a message that was claimed may not be sent any more: what the claim looks at has changed since. */
export type ArmRefusal = 'expired' | 'workspace_blocked' | 'mailbox_not_active' | 'suppressed'
/** `halted`: delivery is stopped, so that the claim is to be handed back. */
export type ArmAnswer = 'armed' | 'lost' | 'halted' | ArmRefusal

/** The node's own counter, raised with every statement that arms and kept on its disk before any dot of it (restore fence). */
export interface Mark {
  readonly node: string
  /** The highest value that is known here: a database that says less was restored. */
  readonly counter: number
  /** Resolves when the value, or a later one, is on the disk. */
  keep(counter: number): Promise<void>
}

interface Armed {
  readonly answer: ArmAnswer
  readonly counter: number | null
}

const arm = sql('arm', 'select * from arm_5($1::uuid[], $2::integer[], $3::bigint[], $4::text[], $5::uuid, $6::bigint)')

async function armBatch(db: Db, claims: readonly Armable[], { node, counter }: Mark): Promise<Armed[]> {
  const values = [...columns(claims), claims.map((claim) => claim.recipientKey), node, counter]
  const rows = await despiteDeadlocks(() => db.rows<Armed & { id: string; epoch: number }>(arm, values))
  const answers = new Map(rows.map((row) => [claimName(row), row]))
  return claims.map((claim) => answers.get(claimName(claim)) ?? { answer: 'lost', counter: null })
}

/** One claim's end, as `finish_2` wants it. Optional members are left out. */
export interface Ending extends Claim {
  readonly workspaceId: WorkspaceId
  readonly status: (typeof moves)['sending'][number]
  readonly error?: string
  readonly providerMessageId?: string
  /** Whose relay gave that id: its feed will name the message by it. */
  readonly relay?: RelayRoute
  /** Of a retry. */
  readonly delayMs?: number
  /** The proof that an armed claim may be tried again. */
  readonly evidence?: 'eod_4xx' | 'not_written'
  /** False for a claim that is handed back. */
  readonly usesTry: boolean
  readonly outcome: string
  /** For the timeline. */
  readonly attempt: object
  /** Members of the state event's data. */
  readonly event: object
  readonly report?: {
    readonly type: DeliveryEventType
    readonly rank: number
    readonly detail: string
    readonly bounce?: Readonly<Record<string, unknown>> & { readonly rule: string }
    readonly suppress: boolean
    readonly facts: object
  }
  /** What other hosts said in the same attempt, as it is told before the report: a soft bounce of each, and none the end. Never empty. */
  readonly deferredBy?: readonly Deferral[]
}

/** One host's 4yz about the message. */
export interface Deferral {
  readonly detail: string
  readonly bounce: Readonly<Record<string, unknown>>
  /** Members of the event's data. */
  readonly report: object
}

interface QueuedEnding {
  readonly claim: Claim
  readonly message: { readonly id: MessageId; readonly workspaceId: WorkspaceId }
  readonly json: string
  readonly relayed?: Relayed | undefined
}

/** What a relay's own feed will call the message. */
interface Relayed {
  readonly route: string
  readonly provider_id: string
  readonly w: WorkspaceId
  readonly id: MessageId
}

const finish = sql('finish', 'select id, epoch, handed_back "handedBack" from finish_2($1::text::json, $2::uuid[])')
/** The ids are kept in the same transaction, and whoever has decided meanwhile: the relay has the message under them. */
const finishRelayed = sql(
  'finish-relayed',
  `with kept as (
     insert into relayed (route, provider_id, workspace_id, message_id, at)
     select r.route, r.provider_id, r.w, r.id, app_now()
       from json_to_recordset($3::text::json) as r (route uuid, provider_id text, w uuid, id uuid) order by r.route, r.provider_id, r.w, r.id
     on conflict do nothing)
   select id, epoch, handed_back "handedBack" from finish_2($1::text::json, $2::uuid[])`,
)

async function finishBatch(db: Db, endings: readonly QueuedEnding[]): Promise<Finished[]> {
  const ordered = inOrder(endings.map(({ claim: { id }, json }) => ({ id, json })))
  const batch = `[${ordered.map(({ json }) => json).join(',')}]`
  const ids = endings.map(({ claim }) => claim.id)
  const relayed = endings.flatMap((ending) => ending.relayed ?? [])
  type Row = { readonly id: string; readonly epoch: number; readonly handedBack: boolean }
  const ask = () =>
    relayed.length === 0
      ? db.rows<Row>(finish, [batch, ids])
      : db.rows<Row>(finishRelayed, [batch, ids, JSON.stringify(relayed)])
  const rows = await despiteDeadlocks(ask)
  const done = new Map(rows.map((row) => [claimName(row), row.handedBack ? ('handed_back' as const) : true]))
  return endings.map(({ claim }) => done.get(claimName(claim)) ?? false)
}

export function relayedOf({ relay, providerMessageId, workspaceId, id }: Ending): Relayed | undefined {
  if (relay === undefined || providerMessageId === undefined) return undefined
  return { route: routeColumn(relay), provider_id: providerMessageId, w: workspaceId, id }
}

export function endingJson({ workspaceId, ...ending }: Ending): string {
  const { report } = ending
  return JSON.stringify({
    id: ending.id,
    w: workspaceId,
    epoch: ending.epoch,
    token: ending.token,
    status: ending.status,
    error: ending.error,
    provider_id: ending.providerMessageId,
    delay_ms: ending.delayMs,
    evidence: ending.evidence,
    uses_try: ending.usesTry,
    outcome: ending.outcome,
    facts: ending.attempt,
    event: ending.event,
    ...(report !== undefined && {
      report: report.facts,
      report_type: report.type,
      report_event: reportEvents[report.type],
      rank: report.rank,
      detail: report.detail,
      bounce: report.bounce,
    }),
    suppress: report?.suppress ?? false,
    rule: report?.bounce?.rule,
    deferred_by: ending.deferredBy,
  })
}

export type Finished = boolean | 'handed_back'

export interface Recorder {
  /** Rejects when the answer is not known, or somebody holds the row: then the dot is renounced for good. */
  arm(claim: Armable): Promise<ArmAnswer>
  /** Resolves to false when someone else has decided meanwhile; `handed_back`: nobody has decided about a failover, so that it failed counts for nothing. Rejects when it is not known whether it was written, or somebody holds a row of it: ask again. */
  finish(ending: Ending): Promise<Finished>
}

/** Arms and finishes of concurrent attempts, each committed in batches over its own connection. */
export function makeRecorder(armDb: Db, finishDb: Db, mark: Mark): Recorder {
  const bounds = {
    rowsMax: limits.claimsPerStatementMax,
    bytesMax: limits.admitBytesMax,
    waitingMax: 10 * limits.messagesInFlightMax,
  }
  // An arm holds a connection, an ending holds nothing: it can wait for company a little longer.
  const armBounds = { ...bounds, spacingMs: limits.armSpacingMs, spacingMostMs: limits.armSpacingMostMs }
  const endingBounds = { ...bounds, spacingMs: limits.endingSpacingMs }
  // An arm looks at no record.
  const armable = heldMessages<Armable>(armDb, ({ id }) => ({ id }))
  const endable = heldMessages<QueuedEnding>(finishDb, ({ message }) => message)
  const armPast = pastHeld<Armable, Armed>(armDb, armable, (claims) => armBatch(armDb, claims, mark))
  const finishPast = pastHeld<QueuedEnding, Finished>(finishDb, endable, (rows) => finishBatch(finishDb, rows), {
    byHalves: true, // a suppression, and its workspace
  })
  const arms = new Batch<Armable, Armed | HeldUp>(armPast, armBounds, mayBlameRows)
  const endings = new Batch<QueuedEnding, Finished | HeldUp>(finishPast, endingBounds, mayBlameRows)
  return {
    arm: async (claim) => {
      const { answer, counter } = unlessHeldUp(await arms.add(claim))
      // Behind the batch: what fails here was committed, and may not be asked again as a statement that left nothing behind is.
      if (answer === 'armed') await mark.keep(counter ?? Infinity)
      return answer
    },
    finish: async (ending) => {
      const { id, workspaceId } = ending
      const row = { claim: ending, message: { id, workspaceId }, json: endingJson(ending), relayed: relayedOf(ending) }
      return unlessHeldUp(await endings.add(row, row.json.length))
    },
  }
}

const reapExpired = sql(
  'reap',
  `select r.* from reap_3($1, $2, $3) r
    where not exists (select from delivery_stops where kind in ('fence', 'pause')) and app_now() < $4`,
)

/**
 * Ends leases that ran out, of claims that are armed only where `armedToo`, and none from `before` on, by the database's clock; answers
 * what became of their messages. Not in a database that may have been restored: its rows prove nothing. `refused` hears of rows that the database
 * does not let it end: they hold up no others.
 */
export async function reap(
  db: Db,
  triesMax: number,
  {
    armedToo = true,
    before,
    refused = () => undefined,
  }: { readonly armedToo?: boolean; readonly before?: Date; readonly refused?: Refused } = {},
): Promise<{ id: MessageId; becomes: MessageStatus }[]> {
  return pastRefused(db, () => db.rows(reapExpired, [triesMax, 500, armedToo, before ?? 'infinity']), refused)
}
