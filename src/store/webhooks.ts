// The outbox of webhooks: claim, heartbeat, reap. Every event that an endpoint wants is here already when its transaction commits (migration
// 0003, trigger `webhooks`); webhook-replay.ts puts events into it again by hand, webhook-results.ts writes how tries ended. A try is counted when it is claimed.
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { despiteDeadlocks, sql, type Db } from './database.ts'
import { eventColumns, eventJoins, type EventRow } from './views/webhook-events.ts'
import { leastId } from './message-id.ts'

/** One try at one event. The name of the claim is its fence: a claim takes an event once. */
export interface WebhookClaim {
  readonly workspaceId: WorkspaceId
  readonly messageId: string
  readonly sequence: number
  /** The name of the claim that took it. */
  readonly claim: string
  /** Counts the ladders of eight. */
  readonly round: number
  /** From 1, in this round. */
  readonly attempt: number
}

export interface ClaimedWebhook extends WebhookClaim {
  /** Of the endpoint's row, so that a sender knows whether it has the newest. */
  readonly version: number
  /** Null where retention was quicker: there is nothing left to post. */
  readonly event: EventRow | null
}

/**
 * Walks up to `lanes` endpoints (one for each workspace) from the cursor on, takes up to each one's share of what is due, and claims the first
 * `most` of that, one of every endpoint before the second of any. An event is left where an earlier one of its message has not had its first
 * try, unless this claim takes both, or is under way at another node; what a claim from $8 to this one has under way is no hindrance: the sender keeps the order.
 * One before which another stands that is due later has its turn behind that; where $9 says so, the other is looked for beyond the share.
 * What an endpoint that is no longer active left in the queue is dropped: the events stay.
 * Rows are locked by a function, because of what PostgreSQL does with rows that change meanwhile (docs/decisions/0064).
 * What the function has found that this statement does not see is left for the next one: it could not be taken here, and must not count as if it were, or a
 * later event of its message would go before it.
 * Rows due before $10 are passed over, unseen in the index; and what is due is looked for from the first row on that the walk has found: under an
 * open snapshot there are very many ended ones before them.
 */
const claim = sql(
  'webhook-claim',
  `with recursive lane (workspace_id, due_at, n) as (
    (select q.workspace_id, q.due_at, 1 from webhook_queue q where q.lease_until is null and q.workspace_id > $1::uuid and q.due_at >= $10
      order by q.workspace_id, q.due_at limit 1)
    union all
    select next.workspace_id, next.due_at, lane.n + 1 from lane cross join lateral (
      select q.workspace_id, q.due_at from webhook_queue q where q.lease_until is null and q.workspace_id > lane.workspace_id and q.due_at >= $10
       order by q.workspace_id, q.due_at limit 1) next
     where lane.n < $2),
  walked as materialized (select * from lane),
  shared as materialized (
    select w.workspace_id, w.due_at, coalesce(($3::jsonb ->> w.workspace_id::text)::integer, $4) room, e.version
      from walked w
      left join lateral (
        select x.version from webhook_endpoints x where x.workspace_id = w.workspace_id and x.state = 'active' limit 1) e on true),
  locked as materialized (
    select next.*, s.version, s.room,
           greatest(next.due_at, max(next.due_at) filter (where next.attempts = 0) over earlier) turn_at
      from shared s cross join lateral lock_due_webhooks_2(s.workspace_id, s.due_at, s.room, $9) next
           cross join lateral (select from webhook_queue q where q.ctid = next.row limit 1) unchanged
    window earlier as (partition by next.workspace_id, next.message_id order by next.sequence rows between unbounded preceding and 1 preceding)),
  due as materialized (
    select l.*, row_number() over (partition by l.workspace_id order by l.turn_at, l.message_id, l.sequence) turn from locked l),
  chosen as materialized (
    select c.*, sum(case when c.attempts = 0 then 1 else 0 end)
             over (partition by c.workspace_id, c.message_id order by c.sequence) - case when c.attempts = 0 then 1 else 0 end firsts
      from (select * from due where turn <= room order by turn, turn_at limit $5) c),
  free as materialized (
    select c.* from chosen c cross join lateral (
      select count(*) filter (where q.lease_until is null and q.attempts = 0) firsts,
             count(*) filter (where q.lease_until is not null and q.lease_owner not between $8::uuid and $7::uuid) elsewhere
        from webhook_queue q
       where q.workspace_id = c.workspace_id and q.message_id = c.message_id and q.sequence < c.sequence) before
     where c.version is null or (c.firsts >= before.firsts and before.elsewhere = 0)),
  dropped as (delete from webhook_queue q using free f where q.ctid = f.row and f.version is null),
  taken as (
    update webhook_queue q
       set attempts = q.attempts + 1, lease_until = app_now() + $6 * interval '1 millisecond', lease_owner = $7::uuid
      from free f where q.ctid = f.row and f.version is not null
    returning q.workspace_id, q.message_id, q.sequence, q.round, q.attempts, f.version)
  select t.workspace_id, t.message_id, t.sequence, t.round, t.attempts, t.version,
         null::integer lanes, null::integer dropped, null::boolean held_up, null::timestamptz oldest, null::timestamptz now, ${eventColumns}
    from taken t
    left join lateral (
      select * from events x where x.workspace_id = t.workspace_id and x.message_id = t.message_id and x.sequence = t.sequence limit 1) e on true
    ${eventJoins}
  union all
  (select (select w.workspace_id from walked w order by w.n desc limit 1), null, null, null, null, null,
          (select count(*) from walked)::integer, (select count(*) from free f where f.version is null)::integer,
          (select count(*) from chosen) > (select count(*) from free),
          (select min(w.due_at) from walked w), app_now(),
          null, null, null, null, null, null, null, null, null, null, null, null, null)
  order by 2, 3`,
)

export interface WebhookClaimRequest {
  /** The last endpoint that was looked at. */
  readonly cursor: string
  /** Rows due before are passed over; left out: none (base/floor.ts). */
  readonly since?: Date | undefined
  /** How many events of these workspaces may be claimed; of the others, `share`. */
  readonly rooms: Readonly<Record<string, number>>
  readonly share: number
  readonly most: number
  readonly leaseMs: number
  /** Of this claim, and of no other. */
  readonly name: string
  /** Looks also for what stands before what is due and is due later itself, as it should be behind an answer that says `isHeldUp`. */
  readonly thorough: boolean
  /** The first claim from which on its sender knows what they took: their names come one after the other. */
  readonly from: string
}

export interface WebhookClaimAnswer {
  /** Events of one message in the order of their sequence. */
  readonly claimed: readonly ClaimedWebhook[]
  /** Something was due, and an earlier event of its message stood before it. */
  readonly isHeldUp: boolean
  /** How many events of endpoints that are no longer active left the queue. */
  readonly dropped: number
  /** Where the next claim goes on: at the first endpoint when this walk reached the last. */
  readonly cursor: string
  /** When the oldest row is due that was met; null: there was none. */
  readonly oldest: Date | null
  /** The database's clock. */
  readonly now: Date
}

export async function claimWebhooks(db: Db, request: WebhookClaimRequest): Promise<WebhookClaimAnswer> {
  type Row = EventRow & {
    workspace_id: WorkspaceId
    message_id: string
    sequence: number
    round: number
    attempts: number
    version: number
    lanes: number | null
    dropped: number | null
    held_up: boolean | null
    oldest: Date | null
    now: Date
  }
  const rows = await db.rows<Row>(claim, [
    request.cursor,
    limits.webhookLanesPerClaimMax,
    JSON.stringify(request.rooms),
    request.share,
    request.most,
    request.leaseMs,
    request.name,
    request.from,
    request.thorough,
    request.since ?? '-infinity',
  ])
  const end = rows.find((row) => row.lanes !== null)
  if (end === undefined) throw new Error('a claim without its end')
  return {
    claimed: rows
      .filter((row) => row.lanes === null)
      .map((row) => ({
        workspaceId: row.workspace_id,
        messageId: row.message_id,
        sequence: row.sequence,
        claim: request.name,
        round: row.round,
        attempt: row.attempts,
        version: row.version,
        event: row.type === null ? null : row,
      })),
    isHeldUp: end.held_up === true,
    dropped: end.dropped ?? 0,
    cursor: (end.lanes ?? 0) < limits.webhookLanesPerClaimMax ? leastId : end.workspace_id,
    oldest: end.oldest,
    now: end.now,
  }
}

const heartbeat = sql(
  'webhook-heartbeat',
  `with mine as materialized (
     select q.* from unnest($1::uuid[], $2::uuid[], $3::integer[], $4::uuid[]) as a (w, m, s, claim)
      cross join lateral (
        select x.ctid row from webhook_queue x
         where x.workspace_id = a.w and x.message_id = a.m and x.sequence = a.s and x.lease_owner = a.claim limit 1 for update skip locked) q)
   update webhook_queue q set lease_until = app_now() + $5 * interval '1 millisecond' from mine where q.ctid = mine.row
   returning q.message_id "messageId", q.sequence, q.lease_owner claim`,
)

type NamedTry = Pick<WebhookClaim, 'messageId' | 'sequence' | 'claim'>
export const webhookTryName = ({ messageId, sequence, claim }: NamedTry): string => `${messageId} ${sequence} ${claim}`

/**
 * Extends the leases of these claims; answers those that are still ours, as `webhookTryName`. What has been taken away meanwhile does not come back, nor what
 * somebody has locked: none holds up the others, and the next heartbeat finds it.
 */
export async function extendWebhookLeases(
  db: Db,
  claims: readonly WebhookClaim[],
  leaseMs: number,
): Promise<ReadonlySet<string>> {
  const inOrder = claims.toSorted(byKey)
  const rows = await despiteDeadlocks(() =>
    db.rows<NamedTry>(heartbeat, [
      inOrder.map((each) => each.workspaceId),
      inOrder.map((each) => each.messageId),
      inOrder.map((each) => each.sequence),
      inOrder.map((each) => each.claim),
      leaseMs,
    ]),
  )
  return new Set(rows.map(webhookTryName))
}

/** Rows are locked in the order of their keys. */
function byKey(one: WebhookClaim, other: WebhookClaim): number {
  if (one.workspaceId !== other.workspaceId) return one.workspaceId < other.workspaceId ? -1 : 1
  if (one.messageId !== other.messageId) return one.messageId < other.messageId ? -1 : 1
  return one.sequence - other.sequence
}

const reap = sql(
  'webhook-reap',
  `with lost as materialized (
     select q.ctid row, q.* from webhook_queue q where q.lease_until < app_now() order by q.lease_until limit 500 for update skip locked),
   gone as (delete from webhook_queue q using lost l where q.ctid = l.row and l.attempts > cardinality($1::bigint[])),
   again as (
     update webhook_queue q
        set lease_until = null, lease_owner = null, due_at = app_now() + ($1::bigint[])[l.attempts] * interval '1 millisecond'
       from lost l where q.ctid = l.row and l.attempts <= cardinality($1::bigint[])),
   log as (
     insert into webhook_attempts (workspace_id, message_id, sequence, round, attempt, ended_at, delivered, trouble)
     select l.workspace_id, l.message_id, l.sequence, l.round, l.attempts, app_now(), false, 'worker_lost' from lost l
     on conflict do nothing)
   select l.workspace_id from lost l`,
)

/** Ends tries whose leases ran out: the request may have been made, so the try counts. `delaysMs`: after the first try, the second, and so on. */
export async function reapWebhooks(db: Db, delaysMs: readonly number[]): Promise<number> {
  return (await db.rows(reap, [delaysMs])).length
}

const giveBack = sql(
  'webhook-give-back',
  `with unheard as materialized (
     select q.ctid row from webhook_queue q where q.lease_until is not null and q.lease_owner = any ($1::uuid[]) for update skip locked)
   update webhook_queue q set lease_until = null, lease_owner = null, attempts = q.attempts - 1 from unheard where q.ctid = unheard.row
   returning q.workspace_id`,
)

/** What these claims took, of which surely nobody has posted anything, is as it was before. Answers how much. */
export async function giveBackClaims(db: Db, names: readonly string[]): Promise<number> {
  return (await db.rows(giveBack, [names])).length
}
