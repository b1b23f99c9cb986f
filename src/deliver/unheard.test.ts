// What makes a journal let go of a reply, on real PostgreSQL: not that the database knows its end, but that this is kept as durably as an accepted
// message. A standby that has to have it stands in as whether something can be committed (docs/decisions/0082).
import { expect, test } from 'vitest'
import { silentLog } from '../base/log.ts'
import type { Db } from '../store/database.ts'
import { makeRecorder, type Armable, type Ending } from '../store/outbound.ts'
import { storeWorld } from '../store/store.test-kit.ts'
import { memoryJournal } from './fence.test-kit.ts'
import { makeReplay } from './replay.ts'
import { makeUnheard } from './unheard.ts'

const world = await storeWorld()
const sender = await world.sender()

const statusOf = (id: string) => world.value<string>('select status from messages where id = $1', [id])

async function answered(): Promise<Ending> {
  const [claim] = await world.claimed(sender, [{ armed: true }])
  return {
    ...(claim as Armable),
    workspaceId: sender.workspaceId,
    status: 'sent',
    usesTry: true,
    outcome: 'accepted',
    attempt: { phase: 'eod', smtp: { code: 250 } },
    event: {},
  }
}

/** Commits wait for a standby that is away until `isThere`; the first end is written, and its answer lost, as where somebody lets its commit go. */
function withoutStandby() {
  const standby = { isThere: false, asked: 0 }
  let ends = 0
  const db: Db = {
    ...world.db,
    rows: async (statement, values) => {
      if (statement.name === 'prove-commit' && ++standby.asked > 0 && !standby.isThere) return []
      const rows = await world.db.rows<never>(statement, values)
      if (statement.name === 'finish' && ++ends === 1) throw new Error('Connection terminated')
      return rows
    },
  }
  return { db, standby }
}

test('a reply whose end was written by a commit that its standby may not have is told until it has, and kept in the journal where there is no time', async () => {
  const { db, standby } = withoutStandby()
  const journal = memoryJournal()
  const recorder = makeRecorder(db, db, { node: sender.workspaceId, counter: 0, keep: () => Promise.resolve() })
  const [leaseMs, patience] = [60_000, new AbortController()]
  const unheard = makeUnheard({ db, recorder, journal, log: silentLog, leaseMs, patience: patience.signal })
  const teller = { leaseEndsAt: Infinity, replied: true }
  const tell = async () => {
    const ending = await answered()
    return { id: ending.id, told: unheard.tell(ending, teller) }
  }
  const first = await tell()
  await expect.poll(() => standby.asked).toBeGreaterThan(1)
  expect(await statusOf(first.id)).toBe('sent')
  unheard.stopAt(performance.now())
  patience.abort()
  await first.told
  expect([journal.kept.map(({ id }) => id), journal.settled]).toEqual([[first.id], []])
  standby.isThere = true
  unheard.stopAt(Infinity)
  await (
    await tell()
  ).told
  expect([journal.kept.length, journal.settled]).toEqual([1, []])
})

test('what failed, and was handed back since nobody has decided about a failover, is told as that: the log does not end with a failure that counts for nothing', async () => {
  const [claim] = await world.claimed(sender, [{}])
  const failed: Ending = {
    ...(claim as Armable),
    workspaceId: sender.workspaceId,
    status: 'failed',
    usesTry: true,
    outcome: 'failed',
    attempt: { phase: 'rcpt', smtp: { code: 550 } },
    event: {},
  }
  await world.db.run(`select stop_delivery_1('pause', 'timeline', null)`)
  const lines: object[] = []
  const log = { ...silentLog, attempted: (facts: object) => void lines.push(facts) }
  const recorder = makeRecorder(world.db, world.db, await world.node())
  const patience = new AbortController().signal
  const unheard = makeUnheard({ db: world.db, recorder, journal: memoryJournal(), log, leaseMs: 60_000, patience })
  await unheard.tell(failed, { leaseEndsAt: Infinity, replied: false })
  await world.db.run('delete from delivery_stops')
  expect(await statusOf(failed.id)).toBe('retrying')
  expect(lines).toEqual([expect.objectContaining({ messageId: failed.id, outcome: 'retry', reason: 'handed_back' })])
})

test('a reply that an earlier life has left leaves the journal when what it was told by has reached the standby', async () => {
  const { db, standby } = withoutStandby()
  const ending = await answered()
  const inherited = [ending]
  const journal = { ...memoryJournal(), inherited, settle: () => void inherited.splice(0) }
  const replay = makeReplay(silentLog)
  await expect(replay.tell(db.rows, journal)).rejects.toThrow('commits wait for a synchronous standby')
  expect([await statusOf(ending.id), inherited]).toEqual(['sent', [ending]])
  standby.isThere = true
  await replay.tell(db.rows, journal)
  expect(inherited).toEqual([])
})
