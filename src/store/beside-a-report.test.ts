// Reports change a message's row whenever they come, also while a statement of the queue waits for it. What PostgreSQL then does with a row that has
// changed (EvalPlanQual) loses it, or fails, for some shapes of a statement over partitions (docs/decisions/0064): none of ours may have one.
import { beforeEach, expect, test } from 'vitest'
import type { MessageId } from '../domain/message.ts'
import { claimDue } from './claim.ts'
import { makeRecorder, reap, type Armable, type Ending } from './outbound.ts'
import { makeReportRecorder } from './reports.ts'
import { sentEnding, storeWorld, wholeClaim, type ClaimedAs, type Sender } from './store.test-kit.ts'

let sender: Sender
const world = await storeWorld()
const recorder = makeRecorder(world.db, world.db, await world.node())
await world.fillMonths()
beforeEach(async () => {
  await world.db.run('delete from outbound')
  sender = await world.sender()
})

/** One of this month and three of earlier ones, each in a partition of its own. */
async function messages(as: ClaimedAs = {}): Promise<Armable[]> {
  const claims = await world.claimed(sender, [as, as, as, as])
  const aged: Armable[] = []
  for (const [months, claim] of claims.entries()) {
    const millis = Number.parseInt(claim.id.replace('-', '').slice(0, 12), 16) - months * 28 * 86_400_000
    const digits = millis.toString(16).padStart(12, '0')
    const id = `${digits.slice(0, 8)}-${digits.slice(8)}${claim.id.slice(13)}` as MessageId
    await world.db.run('update messages set id = $2 where id = $1', [claim.id, id])
    for (const table of ['events', 'contents', 'outbound'])
      await world.db.run(`update ${table} set message_id = $2 where message_id = $1`, [claim.id, id])
    aged.push({ ...claim, id })
  }
  expect(
    await world.value('select count(distinct tableoid)::int from messages where workspace_id = $1', [
      sender.workspaceId,
    ]),
  ).toBe(4)
  return aged.toReversed()
}

/** `work` begins while a report about each of these messages is not committed, and waits for it where it waits for anybody; or comes again behind the time when it has `met` it. */
async function besideReports<T>(
  claims: readonly Armable[],
  work: () => Promise<T>,
  { rank = 1, waits = true, met }: { rank?: number; waits?: boolean; met?: Promise<unknown> } = {},
): Promise<T> {
  const other = await world.holding(
    'update messages set sequence = sequence + 1, delivery_rank = greatest(delivery_rank, $2) where id = any ($1)',
    [claims.map(({ id }) => id), rank],
  )
  const working = work()
  if (met !== undefined) await met
  else if (waits) await world.untilSomebodyWaits()
  else await working
  await other.query('commit')
  return working
}

const statuses = async () =>
  (
    await world.db.run<{ status: string }>('select status from messages where workspace_id = $1 order by id', [
      sender.workspaceId,
    ])
  ).map(({ status }) => status)
const all = <T>(value: T): T[] => [value, value, value, value]
const sent = (claim: Armable): Ending => sentEnding(sender, claim)
/** All in one statement: they come in one turn of the event loop. */
const finishAll = (claims: readonly Armable[], more: Partial<Ending> = {}) =>
  Promise.all(claims.map((claim) => recorder.finish({ ...sent(claim), ...more })))

test('a claim takes all of them', async () => {
  const claims = await messages()
  await world.db.run(
    `update outbound set status = 'retrying', lease_until = null, lease_owner = null, due_at = app_now()`,
  )
  await world.db.run(`update messages set status = 'retrying' where workspace_id = $1`, [sender.workspaceId])
  const { claimed } = await besideReports(claims, () => claimDue(world.db, wholeClaim))
  expect(claimed.map(({ id }) => id).sort()).toEqual(claims.map(({ id }) => id))
  expect(await statuses()).toEqual(all('sending'))
})

test('their ends are recorded', async () => {
  const claims = await messages({ armed: true })
  expect(await besideReports(claims, () => finishAll(claims))).toEqual(all(true))
  expect(await statuses()).toEqual(all('sent'))
})

// Over a relay the state's event is the last: whoever goes by the latest one would have been back at `pending`.
test('and say what the report has said, whose event has the number before theirs', async () => {
  const claims = await messages({ armed: true })
  await besideReports(claims, () => finishAll(claims), { rank: 4 })
  for (const { id } of claims) expect((await world.history(id)).at(-1)).toBe('4 message.sent sent 4')
})

test('also where they bring words of their own', async () => {
  const claims = await messages({ armed: true })
  const report = { type: 'delivered', rank: 2, detail: '250 ok', suppress: false, facts: {} } as const
  const bounce = { class: 'temporary', permanent: false, final: false, rule: 'r', source: 'smtp' }
  const deferredBy = [{ detail: '451 not now', bounce, report: {} }]
  await besideReports(claims, () => finishAll(claims, { report, deferredBy }), { rank: 5 })
  for (const { id } of claims)
    expect((await world.history(id)).slice(-3)).toEqual([
      '4 message.sent sent 5',
      '5 message.soft_bounced sent 5',
      '6 message.delivered sent 5',
    ])
})

test('a reaper passes all of them by, and ends their leases when it comes back', async () => {
  const claims = await messages({ armed: true, leaseSeconds: -1 })
  expect(await besideReports(claims, () => reap(world.db, 10), { waits: false })).toEqual([])
  expect(await reap(world.db, 10)).toHaveLength(4)
  expect(await statuses()).toEqual(all('delivery_unknown'))
})

test('late proof counts for all', async () => {
  const claims = await messages({ armed: true, leaseSeconds: -1 })
  await reap(world.db, 10)
  expect(await besideReports(claims, () => finishAll(claims))).toEqual(all(true))
  expect(await statuses()).toEqual(all('sent'))
})

test('other reports are recorded behind them', async () => {
  const claims = await messages({ armed: true })
  await finishAll(claims)
  const { promise: met, resolve: meet } = Promise.withResolvers<undefined>()
  const record = makeReportRecorder({
    ...world.db,
    rows: (statement, values) => world.db.rows<never>(statement, values).finally(() => meet(undefined)),
  })
  const report = ({ id }: Armable) =>
    record({
      id,
      workspaceId: sender.workspaceId,
      fingerprint: 'ab'.repeat(32),
      type: 'delivered',
      rank: 2,
      detail: 'said so',
      facts: {},
      source: 'dsn',
    })
  expect(await besideReports(claims, () => Promise.all(claims.map(report)), { met })).toEqual(all('recorded'))
})
