// The gate of a node against a real database: shut until the node has shown that the database is not behind any of its marks and until every journal
// in its folder is told, also those of processes that ended without a successor; and shut again as soon as anything stops delivery.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import { silentLog } from '../base/log.ts'
import type { Service } from '../base/service.ts'
import { survivesItsLife } from '../base/service.test-kit.ts'
import type { Claim } from '../domain/message.ts'
import { type Ask } from '../store/database.ts'
import { listen } from '../store/listen.ts'
import { assumeSentSince, liftFence, readStops, setDrain, type NodeMark } from '../store/fence.ts'
import type { Ending } from '../store/outbound.ts'
import { beginRemoval, carryOnRemoval } from '../store/removal.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { makeFence, type Fence, type FenceTools, type NodeState } from './fence.ts'
import { openJournal } from './journal.ts'
import { makeMark, MarkNotKept, openMark, readMark } from './mark.ts'

const folders: string[] = []
const ends: (() => Promise<unknown>)[] = []
const world = await storeWorld()
const sender = await world.sender()
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
  // The server does not notice at once that nobody waits: a look of this test would find its node gone, and stop delivery in the next one.
  const looking = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'posthorn posthorn_delivery'`
  while ((await world.db.run(looking)).length > 0) continue
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
  await world.db.run('delete from outbound')
  await world.db.run('delete from delivery_stops')
  await world.db.run('delete from delivering_nodes')
})
afterAll(() => world.close())

interface Life extends NodeState {
  readonly folder: string
  released: boolean
  release(): Promise<void>
}

/** What a seat of the data folder holds, opened as at a start. */
async function lifeIn(folder: string): Promise<Life> {
  const [mark, journal] = [await openMark(folder), await openJournal(folder, silentLog)]
  const life: Life = {
    folder,
    mark,
    journal,
    released: false,
    release: async () => {
      if (life.released) return
      life.released = true
      await mark.close()
      await journal.close()
    },
  }
  ends.push(() => life.release())
  return life
}

/** A folder of a node that has delivered from this database, and what it had not told when it ended. */
async function delivered(counter: number, untold: readonly Ending[] = []): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-fence-'))
  folders.push(folder)
  const life = await lifeIn(folder)
  await world.db.run(`insert into delivering_nodes (id, name, counter) values ($1, 'node.test', $2)`, [
    life.mark.node,
    counter,
  ])
  const era = await world.value<string | undefined>(`select value from installation where name = 'era'`)
  await life.mark.agree({ counter, era: Number(era ?? 0) })
  for (const ending of untold) await life.journal.keep(ending)
  await life.release()
  return folder
}

function fenceOf(
  own: NodeState,
  left: () => readonly Life[] = () => [],
  log = silentLog,
  beside: readonly string[] = [],
  hear: FenceTools['listen'] = (heard) => listen(world.connection, 'posthorn_delivery', heard),
): Fence {
  // As the lock of a seat does it: one that was taken is nobody's to take.
  const taken = new Set<Life>()
  const takeable = (life: Life) => !life.released && !taken.has(life) && taken.add(life)
  const fence = makeFence({
    own,
    left: () => Promise.resolve(left().filter(takeable)),
    beside: async () => (await Promise.all(beside.map(readMark))).filter((mark) => mark !== undefined),
    name: 'node.test',
    log,
    listen: hear,
  })
  ends.push(() => fence.stop())
  return fence
}
/** Resolves when it is so, at the change that makes it so. */
const until = (fence: Fence, isSo: () => boolean, withinMs = 30_000): Promise<void> =>
  new Promise((resolve, reject) => {
    const late = setTimeout(
      () => reject(new Error(`not within ${withinMs} ms; ${JSON.stringify(fence.stops)}`)),
      withinMs,
    )
    const look = () => {
      if (!isSo()) return
      clearTimeout(late)
      resolve()
    }
    fence.onChange(look)
    look()
  })

/** The process of the session that waits for a lock, once there is one. */
async function waiterForLock(): Promise<number> {
  const waiters = `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  for (;;) {
    const [waiter] = await world.db.run<{ pid: number }>(waiters)
    if (waiter !== undefined) return waiter.pid
  }
}

/** How many sessions vouch for this database. */
const vouches = `select count(*)::integer from pg_locks where locktype = 'advisory' and classid = 7364
  and database = (select oid from pg_database where datname = current_database())`
const armed = async (): Promise<Claim> => (await world.claimed(sender, [{ armed: true }]))[0] as Claim
const answeredWith = (code: number) => ({ phase: 'eod', smtp: { code } })
const accepted = (claim: Claim): Ending => ({
  ...claim,
  workspaceId: sender.workspaceId,
  status: 'sent',
  usesTry: true,
  outcome: 'accepted',
  attempt: answeredWith(250),
  event: {},
})
const hardBounce = (claim: Claim): Ending => ({
  ...accepted(claim),
  status: 'failed',
  outcome: 'failed',
  attempt: answeredWith(550),
  report: { type: 'hard_bounce', rank: 4, detail: '550', bounce: { rule: 'x', class: 'x' }, suppress: true, facts: {} },
})
const statusOf = ({ id }: Claim) => world.value<string>('select status from messages where id = $1', [id])
const reasons = async () => (await readStops(world.db.rows)).map(({ kind, reason }) => `${kind} ${reason}`)

test('a reply about a message that is nowhere is told by the log, but not where its workspace was removed: the journal is empty in the end', async () => {
  const stays = await armed()
  const leaves = await world.sender()
  const [gone] = (await world.claimed(leaves, [{ armed: true }])) as Claim[] as [Claim]
  await world.db.run('delete from outbound')
  await world.db.run('delete from messages where id = any ($1)', [[stays.id, gone.id]])
  const { workspaceId } = leaves
  expect(await beginRemoval(world.db, workspaceId, 'operator:test')).toBe(true)
  await carryOnRemoval(world.db, workspaceId, 'operator:test')
  const own = await lifeIn(await delivered(3, [accepted(stays), { ...accepted(gone), workspaceId }]))
  const faults: unknown[] = []
  const fence = fenceOf(own, undefined, { ...silentLog, fault: (_what, _error, facts) => void faults.push(facts) })
  await fence.start()
  await until(fence, () => fence.isOpen())
  expect(faults).toEqual([{ messageId: stays.id, outcome: 'accepted' }])
  expect(own.journal.size).toBe(0)
})

test('stopped in the middle of a look, it says nothing of a fault: operators count them', async () => {
  const own = await lifeIn(await delivered(3))
  const holder = await world.session()
  await holder.query('begin')
  await holder.query('lock table delivering_nodes in access exclusive mode')
  const faults: string[] = []
  const fence = fenceOf(own, undefined, { ...silentLog, fault: (what) => void faults.push(what) })
  await fence.start()
  await waiterForLock()
  const stopped = fence.stop()
  await holder.query('rollback')
  await stopped
  expect(faults).toEqual([])
})

// One row in somebody's psql kept a node that had just started from everything.
test('opens while somebody holds the row of a reply in the journal, and tells that one when it is free; a seat is let go behind its own', async () => {
  const [ours, theirs, held] = [await armed(), await armed(), await armed()]
  const own = await lifeIn(await delivered(0, [accepted(ours), accepted(held)]))
  const heldToo = await armed()
  const left = await lifeIn(await delivered(0, [accepted(heldToo), accepted(theirs)]))
  const holder = await world.session()
  await holder.query('begin')
  await holder.query('select from outbound where message_id = any ($1::uuid[]) for update', [[held.id, heldToo.id]])
  const fence = fenceOf(own, () => [left])
  await fence.start()
  await until(fence, () => fence.isOpen())
  expect(await Promise.all([ours, theirs, held, heldToo].map(statusOf))).toEqual(['sent', 'sent', 'sending', 'sending'])
  expect([own.journal.size, left.journal.size, left.released]).toEqual([1, 1, false])
  await holder.query('rollback')
  await until(fence, () => left.released)
  expect(await Promise.all([held, heldToo].map(statusOf))).toEqual(['sent', 'sent'])
  expect([own.journal.size, left.journal.size, fence.isOpen()]).toEqual([0, 0, true])
})

// A workspace in somebody's psql did the same where a reply was a hard bounce, which suppresses its recipient.
test('opens while somebody holds the workspace of a hard bounce in the journal, and writes that down when it is free', async () => {
  const [fine, nobody] = [await armed(), await armed()]
  const own = await lifeIn(await delivered(0, [hardBounce(nobody), accepted(fine)]))
  const holder = await world.session()
  await holder.query('begin')
  await holder.query('select from workspaces where id = $1 for update', [sender.workspaceId])
  const fence = fenceOf(own)
  await fence.start()
  await until(fence, () => fence.isOpen())
  expect([await statusOf(fine), await statusOf(nobody), own.journal.size]).toEqual(['sent', 'sending', 1])
  await holder.query('rollback')
  await until(fence, () => own.journal.size === 0)
  expect(await statusOf(nobody)).toBe('failed')
})

test('stopped in the middle of a look that gets its answers all the same, it is shut in the end', async () => {
  const own = await lifeIn(await delivered(3))
  const holder = await world.session()
  await holder.query('begin')
  await holder.query('lock table delivering_nodes in access exclusive mode')
  // Its session ends a moment after the last answer.
  const fence = fenceOf(own, undefined, silentLog, [], (heard) => {
    const ears = listen(world.connection, 'posthorn_delivery', heard)
    return { stop: () => until(fence, () => fence.isOpen()).then(() => ears.stop()) }
  })
  await fence.start()
  await waiterForLock()
  const stopped = fence.stop()
  await holder.query('rollback')
  await stopped
  expect([fence.isOpen(), fence.knowsDatabase()]).toEqual([false, false])
})

test('opens when the journals are told, also those that were left by processes without a successor; their seats are let go', async () => {
  const [ours, theirs] = [await armed(), await armed()]
  const own = await lifeIn(await delivered(3, [accepted(ours)]))
  const left = await lifeIn(await delivered(8, [accepted(theirs)]))
  const holder = await world.session()
  await holder.query('begin')
  await holder.query('lock table orphaned_replies in access exclusive mode')
  const fence = fenceOf(own, () => [left])
  await fence.start()
  // Nobody may claim what a journal still speaks of.
  const told: boolean[] = []
  fence.onChange(() => void told.push(fence.isOpen() && left.journal.size > 0))
  await waiterForLock()
  expect([fence.isOpen(), fence.knowsDatabase(), left.released]).toEqual([false, false, false])
  await holder.query('commit')
  await until(fence, () => fence.isOpen())
  expect([await statusOf(ours), await statusOf(theirs), own.journal.size, left.released]).toEqual([
    'sent',
    'sent',
    0,
    true,
  ])
  expect(told).not.toContain(true)
})

test('a seat that was left before it had a mark says nothing of the database, and is let go', async () => {
  await armed()
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-fence-'))
  folders.push(folder)
  const left = await lifeIn(folder)
  const fence = fenceOf(await lifeIn(await delivered(3)), () => [left])
  await fence.start()
  await until(fence, () => fence.isOpen() || fence.stops.length > 0)
  expect([await reasons(), left.released]).toEqual([[], true])
})

test.each(['own', 'left'])(
  'stays shut, and everybody stops, where the database is behind the mark of its %s seat',
  async (which) => {
    const claim = await armed()
    const [own, left] = [await lifeIn(await delivered(3)), await lifeIn(await delivered(8, [accepted(claim)]))]
    await world.db.run('update delivering_nodes set counter = counter - 1 where id = $1', [
      (which === 'own' ? own : left).mark.node,
    ])
    const fence = fenceOf(own, () => [left])
    await fence.start()
    await until(fence, () => fence.stops.length > 0)
    expect([fence.isOpen(), fence.knowsDatabase(), await reasons()]).toEqual([false, false, ['fence behind']])
    // The reply waits for the operator, with its seat.
    expect([left.journal.size, left.released]).toEqual([1, false])
    await liftFence(world.db)
    await until(fence, () => fence.isOpen())
    expect([await statusOf(claim), left.released]).toEqual(['sent', true])
  },
)

test.each([
  ['assumes that everything was sent, while the node stands', true, true],
  ['lets everything be sent, while the node stands', true, false],
  ['assumes that everything was sent, before the node is started', false, true],
] as const)(
  'replies in the journal to what the restored database takes for unsent are believed where the operator %s, and ask for no second decision',
  async (_, stands, assumes) => {
    const [sent, refused] = [await armed(), await armed()]
    const refusal: Ending = { ...accepted(refused), status: 'failed', outcome: 'failed', attempt: answeredWith(550) }
    const own = await lifeIn(await delivered(3, [accepted(sent), refusal]))
    await world.db.run(
      `update outbound set status = 'queued', epoch = 0, token = null, lease_until = null, lease_owner = null, armed_epoch = null, evidence = 'not_written'`,
    )
    await world.db.run('update delivering_nodes set counter = counter - 1')
    const fence = fenceOf(own)
    const start = async () => {
      await fence.start()
      await until(fence, () => fence.stops.length > 0 || fence.isOpen())
    }
    if (stands) {
      await start()
      // The database that is put in this one's place has to hear of them, too.
      expect([fence.isOpen(), own.journal.size]).toEqual([false, 2])
    }
    if (assumes) await assumeSentSince(world.db, new Date(Date.now() - 60_000))
    await liftFence(world.db)
    if (!stands) await start()
    await until(fence, () => fence.isOpen())
    expect([await statusOf(sent), own.journal.size, await reasons()]).toEqual(['sent', 0, []])
    expect(await statusOf(refused)).toBe('failed')
    expect(await world.value(`select count(*)::integer from outbound`)).toBe(0)
  },
)

test('what is put off by a reply in the journal is not, before the operator has decided: it may have been sent since', async () => {
  const claim = await armed()
  const again = { status: 'retrying', delayMs: 3_600_000, evidence: 'eod_4xx', outcome: 'retry' } as const
  const own = await lifeIn(await delivered(3, [{ ...accepted(claim), ...again, attempt: answeredWith(450) }]))
  await world.db.run('update delivering_nodes set counter = counter - 1')
  const fence = fenceOf(own)
  await fence.start()
  await until(fence, () => fence.stops.length > 0)
  expect(await assumeSentSince(world.db, new Date(Date.now() - 60_000))).toBe(1)
  expect(await statusOf(claim)).toBe('delivery_unknown')
  await liftFence(world.db)
  await until(fence, () => fence.isOpen())
})

test('after a failover, whoever runs confirms also for a process of its folder that ended since: nobody else would', async () => {
  const own = await lifeIn(await delivered(3))
  const folder = await delivered(8)
  const before = await lifeIn(await delivered(2))
  let left = [before]
  const fence = fenceOf(own, () => left)
  await fence.start()
  await until(fence, () => fence.isOpen())
  const claim = await armed()
  const beside = await lifeIn(folder)
  await beside.journal.keep(accepted(claim))
  await beside.release()
  const ended = await lifeIn(folder)
  left = [await lifeIn(before.folder), ended]
  await world.db.run(`update installation set value = '00000000' where name = 'timeline'`)
  await world.db.run(`update delivering_nodes set timeline = '00000000'`)
  // The sessions of before are gone with the old primary.
  await fence.greet(world.db.rows)
  await until(fence, () => fence.isOpen())
  expect([await reasons(), await statusOf(claim), ended.released]).toEqual([[], 'sent', true])
})

test('a reply whose telling failed is told again', async () => {
  const claim = await armed()
  const own = await lifeIn(await delivered(3, [accepted(claim)]))
  const holder = await world.session()
  await holder.query('begin')
  await holder.query('lock table orphaned_replies in access exclusive mode')
  const fence = fenceOf(own)
  await fence.start()
  const pid = await waiterForLock()
  await world.db.run('select pg_terminate_backend($1)', [pid])
  await holder.query('commit')
  await until(fence, () => fence.isOpen())
  expect([await statusOf(claim), own.journal.size]).toEqual(['sent', 0])
})

test('a reply that the database refuses to write holds up neither the others nor the gate, and stays for the next start', async () => {
  const claims = [await armed(), await armed(), await armed()] as const
  const folder = await delivered(3, claims.map(accepted))
  await world.db.run(
    `create function refuse_poison() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$`,
  )
  await world.db.run(
    `create trigger poison before update on messages for each row
       when (new.id = '${claims[1].id}' and new.status = 'sent') execute function refuse_poison()`,
  )
  const first = await lifeIn(folder)
  const fence = fenceOf(first)
  await fence.start()
  await until(fence, () => fence.isOpen())
  expect([await Promise.all(claims.map(statusOf)), first.journal.size]).toEqual([['sent', 'sending', 'sent'], 1])
  await fence.stop()
  await first.release()
  await world.db.run('drop trigger poison on messages')
  await world.db.run('drop function refuse_poison')
  const next = await lifeIn(folder)
  const after = fenceOf(next)
  await after.start()
  await until(after, () => after.isOpen())
  expect([await statusOf(claims[1]), next.journal.size]).toEqual(['sent', 0])
})

test.each([0, 1])(
  'a session that was replaced while its look waited for its turn is asked no more; the new one is, until it answers (in vain %i times)',
  async (troubles) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    ends.push(() => Promise.resolve(vi.useRealTimers()))
    let heard: (ask: Ask) => void = () => undefined
    const faults: string[] = []
    const log = { ...silentLog, fault: (_: string, error: unknown) => void faults.push((error as Error).message) }
    const fence = fenceOf(await lifeIn(await delivered(3)), undefined, log, [], (hears) => {
      heard = hears
      return { stop: () => Promise.resolve() }
    })
    await fence.start()
    const session = await world.session()
    ends.push(() => session.end())
    const ask: Ask = async ({ text }, values = []) => (await session.query(text, values as unknown[])).rows as never
    const gone: Ask = () => Promise.reject(new Error('gone'))
    let trouble = troubles
    const fresh: Ask = (...asked) => (trouble-- > 0 ? Promise.reject(new Error('not yet')) : ask(...asked))
    const greeted = fence.greet(ask)
    heard(gone)
    heard(fresh)
    await greeted
    while (faults.length < 1 + troubles) await new Promise((resolve) => setImmediate(resolve))
    await vi.advanceTimersByTimeAsync(1_000)
    await fence.greet(ask) // behind every look that has begun
    await vi.advanceTimersByTimeAsync(5_000)
    await fence.greet(ask)
    expect([fence.isOpen(), faults]).toEqual([true, ['gone', 'not yet'].slice(0, 1 + troubles)])
  },
)

test('a new machine is welcome beside one that delivers, and only then: its gate stays shut over mail that somebody else may have sent', async () => {
  const first = fenceOf(await lifeIn(await delivered(3)))
  await first.start()
  await until(first, () => first.isOpen())
  await armed()
  const newcomer = async () => {
    const folder = mkdtempSync(join(tmpdir(), 'posthorn-fence-'))
    folders.push(folder)
    const fence = fenceOf(await lifeIn(folder))
    await fence.start()
    return fence
  }
  const beside = await newcomer()
  await until(beside, () => beside.isOpen())
  await Promise.all([first.stop(), beside.stop()])
  while ((await world.value<number>(vouches)) > 0) continue
  const alone = await newcomer()
  await until(alone, () => alone.stops.length > 0)
  expect([alone.isOpen(), await reasons()]).toEqual([false, ['fence no_mark']])
})

test('a new seat is welcome beside one of its folder that hangs, and whose session is gone; not where the database has lost what that one armed', async () => {
  while ((await world.value<number>(vouches)) > 0) continue
  const newSeat = async (...beside: string[]) => {
    const folder = mkdtempSync(join(tmpdir(), 'posthorn-fence-'))
    folders.push(folder)
    const fence = fenceOf(await lifeIn(folder), undefined, silentLog, beside)
    await fence.start()
    return { fence, folder }
  }
  const hanging = await delivered(3)
  await armed()
  const { fence, folder } = await newSeat(hanging)
  await until(fence, () => fence.isOpen())
  expect(await world.value<number>(vouches)).toBe(1)
  await fence.stop()
  while ((await world.value<number>(vouches)) > 0) continue

  // Neither a seat without a mark, nor one that never delivered, says anything.
  const empty = mkdtempSync(join(tmpdir(), 'posthorn-fence-'))
  folders.push(empty)
  await world.db.run('update delivering_nodes set counter = counter - 1 where counter = 3')
  const behind = (await newSeat(empty, folder, hanging)).fence
  await until(behind, () => behind.stops.length > 0)
  expect([behind.isOpen(), await reasons()]).toEqual([false, ['fence no_mark']])
})

test('a new seat vouches to nobody else for a server that is another, though all is there that the one of its folder armed', async () => {
  const hanging = await delivered(3)
  await armed()
  const empty = mkdtempSync(join(tmpdir(), 'posthorn-fence-'))
  folders.push(empty)
  const known = await world.value<string>(`select value from installation where name = 'system_identifier'`)
  const setServer = (identifier: string) =>
    world.db.run(`update installation set value = $1 where name = 'system_identifier'`, [identifier])
  await setServer('another')
  try {
    const fence = fenceOf(await lifeIn(empty), undefined, silentLog, [hanging])
    await fence.start()
    await until(fence, () => fence.stops.length > 0)
    expect([await reasons(), await world.value<number>(vouches)]).toEqual([['fence another_server'], 0])
  } finally {
    await setServer(known)
  }
})

test('whoever delivers vouches on a new session too, where the old one was lost', async () => {
  const fence = fenceOf(await lifeIn(await delivered(3)))
  await fence.start()
  await until(fence, () => fence.isOpen())
  const vouching = `select max(pid) from pg_locks where locktype = 'advisory' and classid = 7364
    and database = (select oid from pg_database where datname = current_database())`
  const before = await world.value<number>(vouching)
  await world.db.run('select pg_terminate_backend($1)', [before])
  while ([before, null].includes(await world.value<number | null>(vouching))) continue
})

test('a new connection that finds all well opens nothing, for the journals come first; one that leads to a database which has lost commits shuts it at once', async () => {
  const own = await lifeIn(await delivered(3))
  const fence = fenceOf(own)
  await fence.greet(world.db.rows)
  expect([fence.isOpen(), fence.knowsDatabase(), await reasons()]).toEqual([false, false, []])
  await fence.start()
  await until(fence, () => fence.isOpen())
  await fence.greet(world.db.rows)
  expect(fence.isOpen()).toBe(true)
  await armed()
  await own.mark.keep(5)
  await fence.greet(world.db.rows)
  expect([fence.isOpen(), fence.knowsDatabase(), await reasons()]).toEqual([false, false, ['fence behind']])
})

test('is shut while anything stops delivery, whoever stopped it, and opens by itself', async () => {
  const fence = fenceOf(await lifeIn(await delivered(3)))
  await fence.start()
  await until(fence, () => fence.isOpen())
  await setDrain(world.db, true)
  await until(fence, () => !fence.isOpen())
  expect(fence.knowsDatabase()).toBe(true)
  await setDrain(world.db, false)
  await until(fence, () => fence.isOpen())
})

test('is shut while the disk does not take the mark of this node, for nothing may be sent here, and opens as soon as it does', async () => {
  const own = await lifeIn(await delivered(3))
  let isFull = false
  const known = own.mark.known as NodeMark
  const mark = makeMark({ node: own.mark.node, ...known }, () =>
    isFull ? Promise.reject(new Error('ENOSPC')) : Promise.resolve(),
  )
  const faults: string[] = []
  const fence = fenceOf({ ...own, mark }, undefined, { ...silentLog, fault: (what) => void faults.push(what) })
  await fence.start()
  await until(fence, () => fence.isOpen())
  isFull = true
  await world.db.run('update delivering_nodes set counter = 4 where id = $1', [mark.node])
  await expect(mark.keep(4)).rejects.toThrow(MarkNotKept)
  expect([fence.isOpen(), fence.knowsDatabase(), fence.ownStop]).toEqual([false, true, 'mark'])
  // It is asked again, and the operator told, while that lasts; a stop and a start change nothing.
  await vi.waitFor(() => expect(faults.filter((what) => what === 'mark').length).toBeGreaterThan(1), 10_000)
  await fence.stop()
  await fence.start()
  faults.length = 0
  await vi.waitFor(() => expect(faults).toEqual(expect.arrayContaining(['mark', 'fence'])), 10_000)
  expect(fence.isOpen()).toBe(false)
  isFull = false
  await until(fence, () => fence.isOpen())
  expect([mark.known?.counter, await reasons(), fence.ownStop]).toEqual([4, [], undefined])
})

test('a node that cannot compare itself with the database says so, and whoever is stopped with all others does not', async () => {
  const own = await lifeIn(await delivered(3))
  let isBroken = true
  const fence = fenceOf(own, () => {
    if (isBroken) throw new Error('EACCES')
    return []
  })
  await fence.start()
  await vi.waitFor(() => expect([fence.isOpen(), fence.ownStop]).toEqual([false, 'look']), 10_000)
  isBroken = false
  await until(fence, () => fence.isOpen())
  await setDrain(world.db, true)
  await until(fence, () => !fence.isOpen())
  expect(fence.ownStop).toBeUndefined()
})

const fences = new Map<Service, Fence>()
survivesItsLife(
  'fence',
  async () => {
    const fence = fenceOf(await lifeIn(await delivered(3)))
    fences.set(fence, fence)
    return fence
  },
  async (service, withinMs) => {
    const fence = fences.get(service) as Fence
    await until(fence, () => fence.isOpen(), withinMs)
  },
)
