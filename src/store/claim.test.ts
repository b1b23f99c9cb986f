// Who gets the next turns, on real PostgreSQL: workspaces before lanes before length of the queue, rooms of destinations kept, and a cost
// that does not grow with what waits. Cost is counted in pages that were looked at: time would depend on the machine.
import { afterAll, beforeEach, beforeAll, describe, expect, test } from 'vitest'
import type { Client } from 'pg'
import { makeAdmitter } from './admit.ts'
import { claimDue, firstSpace, type ClaimAnswer, type ClaimRequest } from './claim.ts'
import { listDestinationLimits, removeDestinationLimits, setDestinationLimits } from './destinations.ts'
import type { Db, Statement } from './database.ts'
import { storeWorld, type Sender, type StoreWorld } from './store.test-kit.ts'

let world: StoreWorld
beforeAll(async () => {
  world = await storeWorld()
})
beforeEach(() => world.db.run('delete from outbound'))
afterAll(() => world.close())

const request: ClaimRequest = {
  cursor: firstSpace,
  cursors: {},
  most: 100,
  rooms: {},
  roomElse: 1_000,
  crowded: [],
  leaseMs: 60_000,
  owner: '00000000-0000-4000-8000-000000000001',
}
const claim = (more: Partial<ClaimRequest> = {}): Promise<ClaimAnswer> => claimDue(world.db, { ...request, ...more })

async function submit(sender: Sender, destination: string, n: number): Promise<void> {
  const admitter = makeAdmitter(world.db)
  await Promise.all(Array.from({ length: n }, () => admitter.admit(world.submission(sender, { destination }))))
}
/** Rows of the queue alone, whose messages nobody looks at: far too many to admit. */
/** In bites that each fit into the time that a statement has. */
const fill = async (sender: Sender, rows: number, destination: string, dueIn = "interval '0'") => {
  for (let from = 1; from <= rows; from += 20_000)
    await world.db.run(
      `insert into outbound (message_id, workspace_id, mailbox_id, destination, due_at, expires_at)
       select gen_random_uuid(), $1, $2, ${destination}, now() - interval '1 hour' + ${dueIn}, now() + interval '1 day'
         from generate_series($3::integer, $4::integer) n`,
      [sender.workspaceId, sender.mailboxId, from, Math.min(rows, from + 19_999)],
    )
}
const count = (answer: ClaimAnswer, by: 'workspaceId' | 'destination') => {
  const counts: Record<string, number> = {}
  for (const each of answer.claimed) counts[each[by]] = (counts[each[by]] ?? 0) + 1
  return counts
}

describe('turns', () => {
  test('a workspace with a thousand times as much due gets no more than its part', async () => {
    const [big, small, tiny] = [await world.sender(), await world.sender(), await world.sender()]
    await submit(big, 'a.example', 300)
    await submit(small, 'a.example', 20)
    await submit(tiny, 'b.example', 1)
    expect(count(await claim({ most: 50 }), 'workspaceId')).toEqual({
      [big.workspaceId]: 25,
      [small.workspaceId]: 20,
      [tiny.workspaceId]: 1,
    })
  })

  test('within a workspace an old backlog to one destination hides no other, however many there are', async () => {
    const sender = await world.sender()
    await submit(sender, 'old.example', 300)
    await submit(sender, 'zz-new.example', 1)
    expect(count(await claim({ most: 20 }), 'destination')).toEqual({ 'old.example': 19, 'zz-new.example': 1 })
    for (let lane = 0; lane < 260; lane++) await submit(sender, `lane${lane}.example`, 1)
    await submit(sender, 'zz-new.example', 1)
    let cursors = {}
    const seen = new Set<string>()
    for (let turn = 0; turn < 3; turn++) {
      const answer = await claim({ most: 200, cursors })
      cursors = answer.cursors
      for (const { destination } of answer.claimed) seen.add(destination)
    }
    expect(seen).toContain('zz-new.example')
  })

  test('of no destination more than its room, over all workspaces together', async () => {
    const [one, two] = [await world.sender(), await world.sender()]
    for (const sender of [one, two]) {
      await submit(sender, 'slow.example', 20)
      await submit(sender, 'full.example', 5)
      await submit(sender, 'other.example', 30)
    }
    const answer = await claim({ rooms: { 'slow.example': 7, 'full.example': 0 }, roomElse: 9 })
    expect(count(answer, 'destination')).toEqual({ 'slow.example': 7, 'other.example': 9 })
  })

  test('a workspace that has its share already gets nothing', async () => {
    const [crowd, other] = [await world.sender(), await world.sender()]
    await submit(crowd, 'a.example', 5)
    await submit(other, 'a.example', 5)
    expect(count(await claim({ crowded: [crowd.workspaceId] }), 'workspaceId')).toEqual({ [other.workspaceId]: 5 })
  })

  test('more workspaces than one claim sees all get their turn', async () => {
    const senders = await Promise.all(Array.from({ length: 12 }, () => world.sender()))
    for (const sender of senders) await submit(sender, 'a.example', 3)
    const seen = new Set<string>()
    let cursor = firstSpace
    let claims = 0
    do {
      const answer = await claim({ most: 5, cursor })
      cursor = answer.cursor
      claims++
      for (const { workspaceId } of answer.claimed) seen.add(workspaceId)
    } while (cursor !== firstSpace)
    expect([seen.size, claims]).toEqual([12, 3])
  })
})

describe('what a claim costs', () => {
  /** Pages that one claim looks at, with the service's own plan settings; nothing is kept. */
  async function pages(more: Partial<ClaimRequest> = {}): Promise<number> {
    let found: { statement: Statement; values: readonly unknown[] } | undefined
    const spy = {
      rows: (statement: Statement, values: readonly unknown[]) => (
        (found = { statement, values }),
        Promise.resolve([])
      ),
    }
    await claimDue(spy as unknown as Db, { ...request, ...more })
    const session: Client = await world.session()
    await session.query(
      'set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off',
    )
    await session.query('begin')
    const { rows } = await session.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
      `explain (analyze, buffers, format json) ${found?.statement.text ?? ''}`,
      found?.values as unknown[],
    )
    await session.query('rollback')
    const plan = rows[0]?.['QUERY PLAN'][0].Plan ?? {}
    return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0)
  }

  test('as much with 300,000 in the queue as with 3,000', async () => {
    const sender = await world.sender()
    await fill(sender, 3_000, `'d' || n % 10 || '.example'`)
    await world.db.run('vacuum analyze outbound')
    const few = await pages({ most: 60 })
    await fill(sender, 297_000, `'d' || n % 10 || '.example'`)
    await world.db.run('vacuum analyze outbound')
    // One level more of the trees, and no more than that.
    expect((await pages({ most: 60 })) / few).toBeLessThan(1.6)
  }, 60_000)

  test('next to nothing where nothing is due, however many lanes wait', async () => {
    const sender = await world.sender()
    await fill(sender, 20_000, `'d' || n || '.example'`, `interval '3 hours'`)
    await world.db.run('vacuum analyze outbound')
    expect(await pages()).toBeLessThan(40)
  })

  test('little where one message is due among very many lanes that wait', async () => {
    const sender = await world.sender()
    await fill(sender, 20_000, `'d' || n || '.example'`, `interval '3 hours'`)
    await submit(sender, 'now.example', 1)
    await world.db.run('vacuum analyze outbound')
    expect(await pages()).toBeLessThan(120)
  })
})

// A plan lives as long as its connection, and the queue is empty one minute and full the next (docs/decisions/0006).
test('planned while the queue was empty, a claim looks at its own turns and lanes, and not at what else a workspace has queued', async () => {
  const [sender, other] = [await world.sender(), await world.sender()]
  // It was full before: one index is large, the other is not, and nothing stands in either.
  await fill(sender, 20_000, `repeat('a', 200) || n || '.example'`)
  await world.db.run('delete from outbound')
  await world.db.run('vacuum (analyze, truncate false) outbound')
  let text = ''
  const spy = { rows: (statement: Statement) => ((text = statement.text), Promise.resolve([])) }
  await claimDue(spy as unknown as Db, request)
  const session: Client = await world.session()
  await session.query(
    'set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off',
  )
  await session.query(`prepare claim as ${text}`)
  const execute = `execute claim ('${firstSpace}', 60, '{}', 60, '{}', 200, '{}', 20, 60000, '${request.owner}')`
  await session.query(execute)
  await fill(sender, 20_000, `'old.example'`)
  await fill(sender, 20, `'new.example'`, `interval '30 minutes'`)
  await fill(other, 20, `'old.example'`)
  const { rows } = await session.query<{ 'QUERY PLAN': string }>(
    `explain (analyze, buffers off, costs off, timing off, summary off) ${execute}`,
  )
  const read = rows
    .map((row) => row['QUERY PLAN'])
    .flatMap((line) => {
      const [, index, many, loops] =
        /Scan using (outbound_\w+) on outbound.* \(actual rows=([\d.]+) loops=(\d+)\)/.exec(line) ?? []
      const [, removed] = /Rows Removed by Filter: (\d+)/.exec(line) ?? []
      return index !== undefined ? [Number(many) * Number(loops)] : removed !== undefined ? [Number(removed)] : []
    })
  expect(Math.max(...read)).toBeLessThan(200)
  const used = rows.flatMap((row) => /Scan using (outbound_(?:turns|lanes))/.exec(row['QUERY PLAN'])?.[1] ?? [])
  const [turns, lanes] = ['outbound_turns', 'outbound_lanes']
  expect(used).toEqual([turns, turns, turns, lanes, lanes, lanes])
}, 60_000)

test('what operators set about destinations', async () => {
  const nothing = { connections: null, messagesPerConnection: null, perMinute: null, warmUpDays: null }
  expect(await setDestinationLimits(world.db, 'google', { connections: 3, perMinute: 0.5 })).toEqual({
    ...nothing,
    name: 'google',
    connections: 3,
    perMinute: 0.5,
  })
  await setDestinationLimits(world.db, 'google', { warmUp: true, connections: 0 })
  await setDestinationLimits(world.db, '*', { messagesPerConnection: 9 })
  expect(await listDestinationLimits(world.db, 10)).toEqual([
    { ...nothing, name: '*', messagesPerConnection: 9 },
    { ...nothing, name: 'google', perMinute: 0.5, warmUpDays: 0 },
  ])
  expect(await setDestinationLimits(world.db, 'google', { warmUp: false })).toMatchObject({ warmUpDays: null })
  expect([await removeDestinationLimits(world.db, '*'), await removeDestinationLimits(world.db, '*')]).toEqual([
    true,
    false,
  ])
})
