// Who gets the next turns, on real PostgreSQL: workspaces before lanes before length of the queue, rooms of destinations kept, and a cost
// that does not grow with what waits. Cost is counted in pages that were looked at: time would depend on the machine.
import { beforeEach, describe, expect, test } from 'vitest'
import type { Client } from 'pg'
import { makeAdmitter } from './admit.ts'
import { claimDue, type ClaimAnswer, type ClaimRequest } from './claim.ts'
import { listDestinationLimits, removeDestinationLimits, setDestinationLimits } from './destinations.ts'
import type { Db, Statement } from './database.ts'
import { storeWorld, wholeClaim, type Sender } from './store.test-kit.ts'
import { leastId } from './message-id.ts'

const world = await storeWorld()
// Not deleted: what a vacuum leaves of that is its own affair.
beforeEach(() => world.db.run('truncate outbound'))

const request: ClaimRequest = { ...wholeClaim, most: 100 }
const claim = (more: Partial<ClaimRequest> = {}): Promise<ClaimAnswer> => claimDue(world.db, { ...request, ...more })

async function submit(sender: Sender, destination: string, n: number): Promise<void> {
  const admitter = makeAdmitter(world.db)
  await Promise.all(Array.from({ length: n }, () => admitter.admit(world.submission(sender, { destination }))))
}
/** Rows of the queue alone, whose messages nobody looks at: far too many to admit; in bites that each fit into the time that a statement has. */
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

/** What a claim would ask. */
async function statementOf(
  more: Partial<ClaimRequest> = {},
): Promise<{ statement: Statement; values: readonly unknown[] }> {
  const asked: { statement: Statement; values: readonly unknown[] }[] = []
  const rows = (statement: Statement, values: readonly unknown[]) => {
    asked.push({ statement, values })
    return Promise.resolve([])
  }
  // It gets no answer.
  await claimDue({ rows } as unknown as Db, { ...request, ...more }).catch(() => undefined)
  return asked[0] as (typeof asked)[number]
}

/** A session with the service's own plan settings. */
async function plannedAsService(): Promise<Client> {
  const session = await world.session()
  await session.query('set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off')
  return session
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

  test('beside a backlog nothing is taken before its time, and nobody is waited for who holds a row', async () => {
    const sender = await world.sender()
    await submit(sender, 'old.example', 60)
    await submit(sender, 'later.example', 3)
    await submit(sender, 'held.example', 3)
    await world.db.run(`update outbound set due_at = due_at + interval '1 hour' where destination = 'later.example'`)
    const holder = await world.holding(`select from outbound where destination = 'held.example' for update`)
    await holder.query(
      `select from outbound where destination = 'old.example' order by due_at, message_id limit 5 for update`,
    )
    expect(count(await claim({ most: 20 }), 'destination')).toEqual({ 'old.example': 20 })
    await holder.query('rollback')
    expect(count(await claim({ most: 20 }), 'destination')).toEqual({ 'old.example': 17, 'held.example': 3 })
  })

  test('what a domain that is degraded by now had accepted is sent all the same', async () => {
    const sender = await world.sender()
    await submit(sender, 'a.example', 2)
    await world.db.run(`update domains set status = 'degraded' where id = $1`, [sender.domainId])
    const { claimed, refused } = await claim()
    expect([claimed.length, refused]).toEqual([2, []])
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

  test('a workspace with its own route has rooms of its own: what others may have of a destination is nothing to it, nor the reverse', async () => {
    const [one, own, ownToo] = [await world.sender(), await world.sender(), await world.sender()]
    for (const sender of [one, own, ownToo]) await submit(sender, 'a.example', 20)
    await world.db.run('update workspaces set route_sealed = $2 where id = any ($1::uuid[])', [
      [own.workspaceId, ownToo.workspaceId],
      Buffer.from('sealed'),
    ])
    const rooms = { 'a.example': 3, [`${own.workspaceId} a.example`]: 0 }
    expect(count(await claim({ rooms, roomElse: 7 }), 'workspaceId')).toEqual({
      [one.workspaceId]: 3,
      [ownToo.workspaceId]: 7,
    })
    const of = { [`${own.workspaceId} a.example`]: 'slow' }
    const rationed = await claim({ most: 30, rations: { of, left: { slow: 2 } } })
    expect(count(rationed, 'workspaceId')).toMatchObject({ [own.workspaceId]: 2 })
    // Of a deep one its lanes are walked, too.
    for (const destination of ['b.example', 'c.example']) await submit(own, destination, 20)
    const deep = { [`${own.workspaceId} a.example`]: 0, [`${own.workspaceId} c.example`]: 4, 'c.example': 0 }
    const crowded = [one.workspaceId, ownToo.workspaceId]
    expect(count(await claim({ most: 12, rooms: deep, crowded }), 'destination')).toEqual({
      'b.example': 4,
      'c.example': 4,
    })
  })

  test('of destinations with one ration no more than that, and whichever of them have something due get it', async () => {
    const [one, two] = [await world.sender(), await world.sender()]
    await submit(one, 'c.example', 3)
    await submit(two, 'd.example', 30)
    await submit(two, 'free.example', 4)
    const of = Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [`${name}.example`, 'slow']))
    const answer = await claim({ roomElse: 20, rations: { of, left: { slow: 10 } } })
    expect(count(answer, 'destination')).toEqual({ 'c.example': 3, 'd.example': 7, 'free.example': 4 })
  })

  test('of a ration of one, a workspace with an old backlog does not get all that there ever is', async () => {
    const [crowd, other] = [await world.sender(), await world.sender()]
    await submit(crowd, 'a.example', 200)
    await submit(other, 'b.example', 1)
    const rations = { of: { 'a.example': 'slow', 'b.example': 'slow' }, left: { slow: 1 } }
    const served = new Set<string>()
    for (let turn = 0; turn < 60 && !served.has(other.workspaceId); turn++) {
      const { claimed } = await claim({ rations })
      expect(claimed).toHaveLength(1)
      for (const { workspaceId } of claimed) served.add(workspaceId)
    }
    expect(served).toContain(other.workspaceId)
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
    let cursor = leastId
    let claims = 0
    do {
      const answer = await claim({ most: 5, cursor })
      cursor = answer.cursor
      claims++
      for (const { workspaceId } of answer.claimed) seen.add(workspaceId)
    } while (cursor !== leastId)
    expect([seen.size, claims]).toEqual([12, 3])
  })
})

describe('what a claim costs', () => {
  interface Node {
    readonly 'Node Type': string
    readonly 'Index Name'?: string
    readonly 'Shared Hit Blocks'?: number
    readonly 'Shared Read Blocks'?: number
    readonly Plans?: readonly Node[]
  }
  const looked = (node: Node): number => (node['Shared Hit Blocks'] ?? 0) + (node['Shared Read Blocks'] ?? 0)
  const told = (node: Node): string[] => [
    ...(looked(node) < 20 ? [] : [`${node['Node Type']} ${node['Index Name'] ?? ''} ${looked(node)}`]),
    ...(node.Plans ?? []).flatMap(told),
  ]
  /** Which parts of the last plan looked at many, for whoever reads of a failure. */
  let dear = ''

  /** Pages that one claim looks at, with the service's own plan settings; nothing is kept. */
  async function pages(more: Partial<ClaimRequest> = {}): Promise<number> {
    const { statement, values } = await statementOf(more)
    const session = await plannedAsService()
    await session.query('begin')
    const { rows } = await session.query<{ 'QUERY PLAN': [{ Plan: Node }] }>(
      `explain (analyze, buffers, format json) ${statement.text}`,
      values as unknown[],
    )
    await session.query('rollback')
    const plan = rows[0]?.['QUERY PLAN'][0].Plan
    if (plan === undefined) throw new Error('no plan')
    dear = told(plan).join('; ')
    return looked(plan)
  }

  test('as much with 300,000 in the queue as with 3,000', async () => {
    const sender = await world.sender()
    await fill(sender, 3_000, `'d' || n % 10 || '.example'`)
    await world.settled()
    await world.db.run('vacuum analyze outbound')
    const few = await pages({ most: 60 })
    await fill(sender, 297_000, `'d' || n % 10 || '.example'`)
    await world.settled()
    await world.db.run('vacuum analyze outbound')
    // One level more of the trees, and no more than that.
    expect((await pages({ most: 60 })) / few, dear).toBeLessThan(1.6)
  }, 180_000)

  test('next to nothing where nothing is due, however many lanes wait', async () => {
    const sender = await world.sender()
    await fill(sender, 20_000, `'d' || n || '.example'`, `interval '3 hours'`)
    await world.settled()
    await world.db.run('vacuum analyze outbound')
    expect(await pages(), dear).toBeLessThan(40)
  })

  test('little where one message is due among very many lanes that wait', async () => {
    const sender = await world.sender()
    await fill(sender, 20_000, `'d' || n || '.example'`, `interval '3 hours'`)
    await submit(sender, 'now.example', 1)
    await world.settled()
    await world.db.run('vacuum analyze outbound')
    expect(await pages(), dear).toBeLessThan(120)
  })
})

// The planner takes what it thinks is cheaper, and it thinks by statistics (docs/decisions/0006): without its own index, a walk must not find the other.
test.each([
  ['turns', 'lanes'],
  ['lanes', 'turns'],
])('a claim cannot take the index of %s for that of %s', async (kept, dropped) => {
  const { statement, values } = await statementOf()
  const session = await plannedAsService()
  await session.query('begin')
  const uuid = `'${leastId}'::uuid`
  const given: Record<string, string> = { space: uuid, since: `'2026-01-01'`, lane: `'a.example'`, most: '10' }
  /** Both statements that lock in a function, over the arguments above. */
  const within = async (name: string) => {
    const source = await world.value<string>('select prosrc from pg_proc where proname = $1', [name])
    return (source.match(/select o\.[^;]+?skip locked/g) ?? []).map((text) =>
      text.replaceAll(/\b(?:space|since|lane|most)\b/g, (argument) => given[argument] ?? ''),
    )
  }
  const locking = [...(await within('lock_due_2')), ...(await within('lock_due_lane_2'))]
  const walksOf = async (text: string, values: readonly unknown[] = []) => {
    const { rows } = await session.query<{ 'QUERY PLAN': string }>(`explain (costs off) ${text}`, values as unknown[])
    return rows.flatMap((row) => /Scan using outbound_(turns|lanes)/.exec(row['QUERY PLAN'])?.[1] ?? [])
  }
  const walks = async () => {
    const found = await walksOf(statement.text, values)
    for (const text of locking) found.push(...(await walksOf(text)))
    return found
  }
  expect(await walks()).toEqual(['turns', 'turns', 'lanes', 'lanes', 'turns', 'turns', 'lanes', 'lanes'])
  await session.query(`drop index outbound_${dropped}`)
  expect(await walks()).toEqual([kept, kept, kept, kept])
  await session.query('rollback')
})

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
  expect(await listDestinationLimits(world.db)).toEqual([
    { ...nothing, name: '*', messagesPerConnection: 9 },
    { ...nothing, name: 'google', perMinute: 0.5, warmUpDays: 0 },
  ])
  expect(await setDestinationLimits(world.db, 'google', { warmUp: false })).toMatchObject({ warmUpDays: null })
  expect([await removeDestinationLimits(world.db, '*'), await removeDestinationLimits(world.db, '*')]).toEqual([
    true,
    false,
  ])
})
