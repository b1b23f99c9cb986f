// Who gets the next turns (ARCHITECTURE, "Fair claiming"): workspaces in turn, and within each of them its destinations. What a claim costs
// does not depend on the length of the queue, nor on lanes with nothing due: a workspace without anything due costs one look-up.
import { limits } from '../config.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'
import { sql, type Db } from './database.ts'
import type { Claimed } from './outbound.ts'
import { pastHeldSince } from './held-rows.ts'
import { pastRefused, type Refused } from './refused-rows.ts'
import { leastId } from './message-id.ts'

/**
 * Walks the workspaces from the cursor on, up to `most` and as many as `limits.workspacesPerClaimMax`, in the order of the index
 * `outbound_turns`; of each that has something due it takes the oldest. One with more due than its part is *deep*: of it, the lanes (its
 * destinations) are walked too, from where its last walk ended, in the order of the index `outbound_lanes`, so that an old backlog to one
 * destination hides no other. Of what was found the first `most` are claimed, one of every workspace before the second of any, one of
 * every lane before the second of any, and of no destination more than its room. Mail over a workspace's own route goes elsewhere than other mail to
 * that destination, and has a room of its own (`slotsNameOf`). Where several destinations share a ration (what their provider
 * takes by its rate), those that have something due share it, one of every workspace before the second of any, in no order that lasts: the
 * oldest backlog would be first for as long as it lasts. A message that may not be sent any more becomes
 * `failed` in the same statement, with its reason. Rows that another worker holds are skipped, never waited for; records that
 * somebody holds are where a claim was held up by one lately ($12).
 * While delivery is stopped there are no workspaces to walk.
 * Rows are locked by functions, and `moved` is there, because of what PostgreSQL does with rows that change meanwhile (docs/decisions/0064). Records are
 * locked in the order of their ids, as everywhere.
 * Rows due before $11 are passed over, unseen in the index; and a walk over a workspace begins at its first row that is there. Behind an open
 * snapshot what has ended and lies before them is long.
 */
const claimBy = (name: string, chosen: string) =>
  sql(
    name,
    `with recursive space (workspace_id, due_at, n) as (
    (select o.workspace_id, o.due_at, 1 from outbound o
      where o.lease_until is null and o.attempts >= 0 and o.workspace_id > $1::uuid and o.due_at >= $11
        and not exists (select from delivery_stops)
      order by o.workspace_id, o.due_at limit 1)
    union all
    select next.workspace_id, next.due_at, space.n + 1 from space cross join lateral (
      select o.workspace_id, o.due_at from outbound o
       where o.lease_until is null and o.attempts >= 0 and o.workspace_id > space.workspace_id and o.due_at >= $11
       order by o.workspace_id, o.due_at limit 1) next
     where space.n < $2),
  walked as materialized (select * from space),
  turn as materialized (
    select w.workspace_id, w.due_at, own.prefix from walked w cross join lateral (
      select case when x.route_sealed is null then '' else x.id::text || ' ' end prefix from workspaces x where x.id = w.workspace_id limit 1) own
     where w.due_at <= app_now() and w.workspace_id <> all ($3::uuid[])),
  part as materialized (select greatest(2, ceil($4::float8 / greatest(count(*), 1)))::integer most from turn),
  head as materialized (
    select next.*, turn.prefix from turn cross join lateral lock_due_2(turn.workspace_id, turn.due_at, (select most from part), $12) next),
  deep as materialized (
    select h.workspace_id, h.prefix, coalesce($5::jsonb ->> h.workspace_id::text, '') since from head h
     group by h.workspace_id, h.prefix having count(*) >= (select most from part)),
  lanes_each as materialized (select greatest(1, $6::integer / greatest(count(*), 1))::integer most from deep),
  lane (workspace_id, prefix, destination, n) as (
    select deep.workspace_id, deep.prefix, next.destination, 1 from deep cross join lateral (
      select o.destination from outbound o
       where o.lease_until is null and o.destination <> '' and o.workspace_id = deep.workspace_id and o.destination > deep.since and o.due_at >= $11
       order by o.workspace_id, o.destination limit 1) next
    union all
    select lane.workspace_id, lane.prefix, next.destination, lane.n + 1 from lane cross join lateral (
      select o.destination from outbound o
       where o.lease_until is null and o.destination <> '' and o.workspace_id = lane.workspace_id and o.destination > lane.destination and o.due_at >= $11
       order by o.workspace_id, o.destination limit 1) next
     where lane.n < (select most from lanes_each)),
  lanes as materialized (select * from lane),
  lane_part as materialized (select greatest(1, ceil($4::float8 / greatest(count(*), 1)))::integer most from lanes),
  below as materialized (
    select next.*, lanes.prefix from lanes cross join lateral lock_due_lane_2(lanes.workspace_id, lanes.destination, $11,
      least((select most from lane_part), coalesce(($7::jsonb ->> (lanes.prefix || lanes.destination))::integer, $8::integer)), $12) next),
  found as (select distinct on (seen.message_id) seen.* from (select * from head union all select * from below) seen order by seen.message_id),
  by_lane as (
    select f.*, f.prefix || f.destination place, row_number() over (partition by f.workspace_id, f.destination order by f.due_at, f.message_id) lane_turn from found f),
  by_space as (
    select l.*, row_number() over (partition by l.workspace_id order by l.lane_turn, l.due_at, l.message_id) space_turn from by_lane l
     where l.lane_turn <= coalesce(($7::jsonb ->> l.place)::integer, $8::integer)),
  by_destination as (
    select s.*, row_number() over (partition by s.place order by s.space_turn, s.due_at, s.message_id) destination_turn from by_space s),
  ${chosen},
  judged as materialized (
    select c.*, w.route_sealed, box.domain_id,
           case when c.expires_at <= app_now() then 'expired'
                when w.status <> 'active' then 'workspace_blocked'
                when box.domain_id is null then 'mailbox_not_active'
                when no.recipient_key is not null then 'recipient_suppressed'
                when content.message_id is null then 'content_lost' end verdict,
           content.body_text, content.body_blob,
           files.many, files.bytes
      from chosen c
      join lateral (select * from workspaces x where x.id = c.workspace_id limit 1) w on true
      join lateral (select * from messages x where x.workspace_id = c.workspace_id and x.id = c.message_id limit 1) m on true
      left join lateral (
        select d.id domain_id from mailboxes b join domains d on d.workspace_id = b.workspace_id and d.id = b.domain_id
         where b.workspace_id = c.workspace_id and b.id = c.mailbox_id and b.status = 'active' and d.status in ('verified', 'degraded')
         limit 1) box on true
      left join lateral (select * from contents x where x.workspace_id = c.workspace_id and x.message_id = c.message_id limit 1) content on true
      cross join lateral (
        select count(*)::integer many, coalesce(sum(a.size_bytes), 0)::integer bytes from attachments a
         where a.workspace_id = c.workspace_id and a.message_id = c.message_id) files
      left join lateral (
        select x.recipient_key from suppressions x where x.workspace_id = c.workspace_id and x.recipient_key = m.recipient_key limit 1) no on true),
  gone as (
    delete from outbound o using judged j
     where o.ctid = j.row and j.verdict is not null
    returning j.*, o.epoch taken_epoch, null::bigint taken_token, o.attempts tries),
  taken as (
    update outbound o
       set status = 'sending', epoch = o.epoch + 1, token = (random() * 9007199254740991)::bigint, attempts = o.attempts + 1,
           lease_until = app_now() + $9 * interval '1 millisecond', lease_owner = $10::uuid, evidence = null
      from judged j
     where o.ctid = j.row and j.verdict is null
    returning j.*, o.epoch taken_epoch, o.token taken_token, o.attempts tries),
  moved as materialized (select * from taken union all select * from gone order by message_id),
  record as (
    update messages m
       set status = case when j.verdict is null then 'sending' else 'failed' end, sequence = m.sequence + 1,
           finished_at = case when j.verdict is not null then app_now() end,
           error_message = case j.verdict
             when 'expired' then 'The message expired before it could be delivered.'
             when 'workspace_blocked' then 'The workspace was blocked before the message could be delivered.'
             when 'mailbox_not_active' then 'The sender mailbox or its domain is not active any more.'
             when 'recipient_suppressed' then 'The recipient was suppressed after the message had been accepted.'
             when 'content_lost' then 'The content of the message is gone.'
             else m.error_message end
      from moved j where m.workspace_id = j.workspace_id and m.id = j.message_id
    returning j.*, m.id, m.sequence, m.status, m.delivery_rank, m.sender, m.sender_name, m.recipient, m.recipient_key, m.subject, m.accepted_by,
              m.created_at, m.source, m.error_message),
  event as (
    insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at, facts)
    select r.workspace_id, r.id, r.sequence, 'message.' || r.status, r.status, r.delivery_rank, app_now(),
           case when r.verdict is null then json_build_object('attempt', r.tries)
                else json_build_object('reason', r.verdict, 'errorMessage', r.error_message) end
      from record r)
  (select r.id, r.workspace_id "workspaceId", r.taken_epoch epoch, r.taken_token token, r.tries attempt, r.verdict,
         r.domain_id "domainId", r.destination, r.expires_at "expiresAt", r.sender, r.sender_name "senderName", r.recipient, r.recipient_key "recipientKey", r.subject,
         r.accepted_by "acceptedBy", r.created_at "createdAt", r.source, r.body_text "bodyText", r.body_blob "bodyBlob",
         r.many > 0 "hasAttachments", r.bytes "attachmentsBytes", r.route_sealed "routeSealed", app_now() "claimedAt",
         null::text "lastSpace", null::integer spaces, null::timestamptz oldest, null::text cursors
    from record r order by r.space_turn, r.due_at)
  union all
  (select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
         app_now(), (select w.workspace_id from walked w order by w.n desc limit 1)::text, (select count(*) from walked)::integer, (select min(w.due_at) from walked w),
         (select jsonb_object_agg(d.workspace_id, coalesce((
            select case when l.n >= (select most from lanes_each) then l.destination else '' end
              from lanes l where l.workspace_id = d.workspace_id order by l.n desc limit 1), '')) from deep d)::text)`,
  )

const plain = claimBy(
  'claim',
  `chosen as materialized (
    select * from by_destination d
     where d.destination_turn <= coalesce(($7::jsonb ->> d.place)::integer, $8::integer)
     order by d.space_turn, d.due_at limit $4::integer)`,
)
/** A statement of its own: the other one has no part in what this costs. */
const rationed = claimBy(
  'claim-rationed',
  `roomy as materialized (
    select d.*, $13::jsonb ->> d.place rationed from by_destination d
     where d.destination_turn <= coalesce(($7::jsonb ->> d.place)::integer, $8::integer)),
  by_ration as (
    select r.*, row_number() over (partition by r.rationed, r.workspace_id order by r.space_turn) ration_turn from roomy r where r.rationed is not null),
  rations as (
    select b.*, row_number() over (partition by b.rationed order by b.ration_turn, random()) ration from by_ration b),
  chosen as materialized (
    select * from (
      select r.*, null::bigint ration_turn, null::bigint ration from roomy r where r.rationed is null
      union all
      select * from rations a where a.ration <= ($14::jsonb ->> a.rationed)::integer) d
     order by d.space_turn, d.due_at limit $4::integer)`,
)

/** What has a room of its own, as rooms and rations name it: a destination, over the way that its mail takes. */
export const slotsNameOf = ({
  destination,
  workspaceId,
  routeSealed,
}: Pick<Claimed, 'destination' | 'workspaceId' | 'routeSealed'>): string =>
  routeSealed === null ? destination : `${workspaceId} ${destination}`

/** Where each deep workspace's walk over its lanes goes on. */
export type LaneCursors = Readonly<Record<string, string>>

export interface Rations {
  readonly of: Readonly<Record<string, string>>
  readonly left: Readonly<Record<string, number>>
}

export interface ClaimRequest {
  /** The workspace after which the walk goes on. */
  readonly cursor: string
  readonly cursors: LaneCursors
  /** Rows due before are passed over; left out: none (base/floor.ts). */
  readonly since?: Date | undefined
  /** How many messages at most. */
  readonly most: number
  /** Free slots by `slotsNameOf`; `roomElse` for those that are not named. */
  readonly rooms: Readonly<Record<string, number>>
  readonly roomElse: number
  /** Of places that are bounded together: which ration each draws from, and how many that has. Left out: none. */
  readonly rations?: Rations
  /** Workspaces that get nothing now. */
  readonly crowded: readonly string[]
  readonly leaseMs: number
  readonly owner: string
}

export interface ClaimAnswer {
  readonly claimed: readonly Claimed[]
  /** Messages that may not be sent any more, with the reason; their records say so already. */
  readonly refused: readonly { readonly id: MessageId; readonly workspaceId: WorkspaceId; readonly reason: string }[]
  /** Where the next claim goes on: before the first again when this walk reached the end. */
  readonly cursor: string
  readonly cursors: LaneCursors
  /** When the oldest row is due that was met; null: there was none. */
  readonly oldest: Date | null
  /** The database's clock. */
  readonly now: Date
}

/** `refused` hears of rows that the database does not let it claim: they hold up nobody else. */
export async function claimDue(
  db: Db,
  request: ClaimRequest,
  refused: Refused = () => undefined,
): Promise<ClaimAnswer> {
  type Row = Claimed & {
    verdict: string | null
    lastSpace: string | null
    spaces: number | null
    oldest: Date | null
    cursors: string | null
  }
  const spacesMost = Math.min(request.most, limits.workspacesPerClaimMax)
  const { rations } = request
  const isRationed = rations !== undefined && Object.keys(rations.of).length > 0
  const values = (past: boolean) => [
    request.cursor,
    spacesMost,
    request.crowded,
    request.most,
    JSON.stringify(request.cursors),
    limits.lanesPerClaimMax,
    JSON.stringify(request.rooms),
    request.roomElse,
    request.leaseMs,
    request.owner,
    request.since ?? '-infinity',
    past,
    ...(isRationed ? [JSON.stringify(rations.of), JSON.stringify(rations.left)] : []),
  ]
  const ask = (past: boolean) => db.rows<Row>(isRationed ? rationed : plain, values(past))
  const rows = await pastRefused(db, () => pastHeldSince(db, ask), refused)
  const end = rows.find((row) => row.spaces !== null)
  if (end === undefined) throw new Error('a claim without its end')
  const messages = rows.filter((row) => row.spaces === null)
  return {
    claimed: messages.filter((row) => row.verdict === null),
    refused: messages.flatMap(({ id, workspaceId, verdict }) =>
      verdict === null ? [] : [{ id, workspaceId, reason: verdict }],
    ),
    cursor: (end.spaces ?? 0) < spacesMost ? leastId : (end.lastSpace ?? leastId),
    cursors: JSON.parse(end.cursors ?? '{}') as LaneCursors,
    oldest: end.oldest,
    now: end.claimedAt,
  }
}
