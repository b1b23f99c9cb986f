// What stops delivery everywhere, and the nodes' comparison with the database (delivery-semantics, restore fence). The rules stand in
// functions of the database, so that all nodes go by the same ones, whatever they know.
import { limits } from '../config.ts'
import { beginOrderAnew } from './commit-order.ts'
import { claimName, type Ending, endingJson, inOrder, relayedOf } from './outbound.ts'
import { databaseNow, despiteDeadlocks, sql, type Ask, type Db } from './database.ts'
import { leastId } from './message-id.ts'
import { pastRefused, type Refused } from './refused-rows.ts'

/** Why nobody delivers. `fence`: an operator decides; `pause`: other nodes must confirm; `drain`: an operator wished it. */
export interface DeliveryStop {
  readonly kind: 'fence' | 'pause' | 'drain'
  readonly reason: string
  readonly facts: Readonly<Record<string, string | number | null>> | null
  readonly since: Date
}

const stops = sql('delivery-stops', 'select kind, reason, facts, since from delivery_stops order by kind')

export function readStops(ask: Ask): Promise<DeliveryStop[]> {
  return ask<DeliveryStop>(stops)
}

/** What a node's file says: the counter, and the operator's last decision that it was raised under. */
export interface NodeMark {
  readonly counter: number
  readonly era: number
}

export interface CheckIn extends NodeMark {
  readonly trouble: 'behind' | 'no_mark' | 'another_server' | null
  /** False where the server does not say which cluster and timeline it is. */
  readonly serverKnown: boolean
}

const checkIn = sql(
  'check-in',
  `select counter, era, trouble, server_known "serverKnown" from check_in_1($1::uuid, $2, $3::bigint, $4::bigint, $5)`,
)

/** Compares a node with the database on the connection that `ask` speaks over. Trouble has stopped delivery everywhere when this answers. */
export async function checkInNode(ask: Ask, node: string, name: string, mark: NodeMark | undefined): Promise<CheckIn> {
  const values = [node, name, mark?.counter ?? null, mark?.era ?? null, limits.nodeForgottenMs]
  const [answer] = await despiteDeadlocks(() => ask<CheckIn>(checkIn, values))
  if (answer === undefined) throw new Error('the check-in was not answered')
  return answer
}

const unknownServer = sql('unknown-server', 'select is_unknown_server_1() unknown')

/** Another server than the one that was delivered from, or one that took over from it, and no node has compared itself with it: its rows prove nothing yet. */
export const isUnknownServer = async (db: Db): Promise<boolean> =>
  (await db.rows<{ unknown: boolean }>(unknownServer))[0]?.unknown === true

const vouch = sql('vouch', 'select pg_advisory_lock_shared(7364, 2)')

/** While this session lives, it says that a node which knows this database delivers from it. No copy of the database says so. */
export async function vouchFor(ask: Ask): Promise<void> {
  await ask(vouch)
}

const vouchNoMore = sql('vouch-no-more', 'select pg_advisory_unlock_shared(7364, 2)')

/** Takes back one `vouchFor` of this session. */
export async function vouchNoMoreFor(ask: Ask): Promise<void> {
  await ask(vouchNoMore)
}

const knownMark = sql(
  'known-mark',
  `select from delivering_nodes n
    where n.id = $1 and n.counter >= $2 and $3 <= coalesce((select i.value::bigint from installation i where i.name = 'era'), 0)`,
)

/** Whether this database has all that the node of this mark armed. Asks alone: it confirms nothing for that node, which may live. */
export async function knowsMark(
  ask: Ask,
  { node, counter, era }: NodeMark & { readonly node: string },
): Promise<boolean> {
  return (await ask(knownMark, [node, counter, era])).length > 0
}

// What relays call those messages is kept as where an attempt ends (outbound.ts): a feed may know them by nothing else. Not of messages that are not
// there: their workspace may be removed.
const replayed = sql(
  'replay',
  `with kept as (
     insert into relayed (route, provider_id, workspace_id, message_id, at)
     select r.route, r.provider_id, r.w, r.id, app_now()
       from json_to_recordset($2::text::json) as r (route uuid, provider_id text, w uuid, id uuid)
       cross join lateral (select from messages m where m.workspace_id = r.w and m.id = r.id limit 1) is_there
      order by r.route, r.provider_id, r.w, r.id
     on conflict do nothing)
   select * from replay_3($1::text::json)`,
)

/**
 * `known`: written down, or decided long ago; `gone`: the database has no such message; `orphan`: the database must have been restored. It keeps
 * the reply, and delivery is stopped. `held`: somebody has its rows locked, so it is to be told again.
 */
export type ReplayAnswer = 'known' | 'gone' | 'orphan' | 'held'

export async function replayEndings(ask: Ask, endings: readonly Ending[]): Promise<ReplayAnswer[]> {
  const batch = `[${inOrder(endings).map(endingJson).join(',')}]`
  const values = [batch, JSON.stringify(endings.flatMap((ending) => relayedOf(ending) ?? []))]
  const rows = await despiteDeadlocks(() => ask<{ id: string; epoch: number; answer: ReplayAnswer }>(replayed, values))
  const answers = new Map(rows.map((row) => [claimName(row), row.answer]))
  return endings.map((ending) => answers.get(claimName(ending)) ?? 'gone')
}

const awaited = sql(
  'awaited-nodes',
  `select n.name, n.confirmed_at "seenAt" from delivering_nodes n
    where n.timeline is distinct from (select s.facts ->> 'timeline' from delivery_stops s where s.kind = 'pause')
      and is_awaited_1(n.counter, n.confirmed_at, $1)
    order by n.confirmed_at limit 5`,
)

/** For whom a pause after a failover waits; those that were not seen for the longest time first. */
export const awaitedNodes = (db: Db): Promise<{ readonly name: string; readonly seenAt: Date }[]> =>
  db.rows(awaited, [limits.nodeForgottenMs])

const drain = sql('drain', `select stop_delivery_1('drain', 'operator', null)`)
const undrain = sql('undrain', `delete from delivery_stops where kind = 'drain'`)

export async function setDrain(db: Db, on: boolean): Promise<void> {
  await db.rows(on ? drain : undrain)
}

const progress = sql(
  'drain-progress',
  `select (select count(*)::integer from outbound where lease_until is not null) "inFlight",
          (select count(*)::integer from outbound where lease_until is null) waiting`,
)

export interface QueueProgress {
  readonly inFlight: number
  readonly waiting: number
}

export async function readProgress(db: Db): Promise<QueueProgress> {
  return (await db.rows<QueueProgress>(progress))[0] ?? { inFlight: 0, waiting: 0 }
}

const assumeSent = sql('assume-sent', 'select * from assume_sent_2($1, $2, $3::uuid, $4)')
const stopByOperator = sql('stop-by-operator', `select stop_delivery_1('fence', 'operator', null)`)
const lift = sql('lift-fence', 'select * from lift_fence_1()')

/**
 * A backup was put back on purpose: said in the transaction that puts it there. Also where nothing in it was unsent, because the next start would find
 * another cluster, or a row behind its file; as there, a database without a message has nothing that could be sent twice. A stop that stands in the
 * backup was over when it was taken out of it: what was accepted, or came due, since then may have been sent before now, whatever the clock here says.
 */
export const stopRestored = sql(
  'stop-restored',
  `with over as (delete from delivery_stops where kind = 'pause' and exists (select from messages))
   insert into delivery_stops (kind, reason, since) select 'fence', 'restored', stopped_at_1() where exists (select from messages)
   on conflict (kind) do update set reason = excluded.reason, facts = null, since = excluded.since`,
)

/**
 * A decision for every message but those that are over, whose rows in the queue go: of these `refused` hears. To put off any other would be to decide
 * that it is sent.
 */
const decided = <T>(db: Db, ask: () => Promise<T>, refused: Refused = () => undefined): Promise<T> =>
  pastRefused(db, () => despiteDeadlocks(ask), refused, true)

/** A pause behind a failover stops delivery as a fence does, and may be the first of both: what a worker has put off since waits for its time, and was due before. */
async function stoppedSince(db: Db): Promise<Date | undefined> {
  const found = (await readStops(db.rows)).filter(({ kind }) => kind !== 'drain').map(({ since }) => since)
  return found.toSorted((one, other) => one.getTime() - other.getTime())[0]
}

/** What could be sent between `since` and the moment when delivery stopped becomes delivery_unknown; answers how many. `told` hears after each bite how many so far. */
export async function assumeSentSince(
  db: Db,
  since: Date,
  refused?: Refused,
  told?: (moved: number) => void,
): Promise<number> {
  await db.rows(stopByOperator) // where nothing has stopped it yet
  const till = (await stoppedSince(db)) ?? (await databaseNow(db))
  let moved = 0
  const most = limits.claimsPerStatementMax * 5
  for (let after: string | null = leastId; after !== null;) {
    const values: unknown[] = [since, till, after, most]
    const [step]: { moved: number; last: string | null }[] = await decided(
      db,
      () => db.rows(assumeSent, values),
      refused,
    )
    moved += step?.moved ?? 0
    told?.(moved)
    after = step?.last ?? null
  }
  return moved
}

/** Delivery goes on; answers how many replies out of journals were waiting for this, and are written down now. */
export async function liftFence(db: Db, refused?: Refused): Promise<number> {
  // `posthorn restore` has seen to it itself.
  const stops = await readStops(db.rows)
  if (stops.some(({ kind, reason }) => kind === 'fence' && reason !== 'restored')) await beginOrderAnew(db)
  const [row] = await decided(db, () => db.rows<{ settled: number }>(lift), refused)
  return row?.settled ?? 0
}
