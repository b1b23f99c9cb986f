// PostgreSQL dies under load and comes back, or its standby takes over (failure matrix 38 to 40): behind a synchronous standby nothing is lost
// and nothing sent twice; behind an asynchronous one the start says that the promise ends there, and lost commits are found by the fence.
import { afterEach, beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startCluster, type Cluster } from '../world/postgres-cluster.ts'
import { startPostgresProxy, type PostgresProxy } from '../world/postgres-proxy.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

let cluster: Cluster
let proxy: PostgresProxy
let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace
const accepted = new Set<string>()

beforeAll(async () => {
  ;[cluster, receiver] = await Promise.all([ending(startCluster), ending(startReceiver)])
  proxy = await ending(startPostgresProxy, cluster.primary)
  posthorn = await ending(startPosthorn, {
    database: { url: `postgres://postgres@127.0.0.1:${proxy.port}/postgres` },
    settings: {
      POSTHORN_ROUTE: `smtp://127.0.0.1:${receiver.port}`,
      POSTHORN_TIME_SCALE: '600',
      POSTHORN_LEASE_SECONDS: '2',
    },
  })
  shop = await posthorn.workspace()
})
afterEach(() => accepted.clear())

/** Sends until `over`, four at a time; notes what was accepted. */
async function load(over: Promise<unknown>): Promise<void> {
  const state = { on: true }
  const send = async () => {
    for (let n = 0; state.on; n++) {
      const { status, body } = await shop.send({ recipient: `slow-eod-20ms+${n}@there.example` })
      if (status === 202) accepted.add(body.id)
      else await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const sending = Promise.all(Array.from({ length: 4 }, send))
  await over.finally(() => (state.on = false))
  await sending
}

/** After everything is quiet: every accepted message ended, none has two copies, `sent` has one. Answers how many are unknown. */
async function checked(): Promise<number> {
  await until(`the queue is empty`, async () => (await posthorn.query('select from outbound limit 1')).length === 0)
  const ids = [...accepted]
  const rows = await posthorn.query<{ id: string; status: string }>(
    'select id, status from messages where id = any ($1)',
    [ids],
  )
  expect(ids.filter((id) => !rows.some((row) => row.id === id))).toEqual([])
  expect(rows.filter(({ status }) => status !== 'sent' && status !== 'delivery_unknown')).toEqual([])
  const copies = new Map<string, number>()
  for (const { messageId } of await receiver.ledger()) copies.set(messageId, (copies.get(messageId) ?? 0) + 1)
  expect([...copies].filter(([, n]) => n > 1)).toEqual([])
  const arrived = [...copies.keys()].join()
  expect(rows.filter(({ id, status }) => status === 'sent' && !arrived.includes(id))).toEqual([])
  return rows.filter(({ status }) => status === 'delivery_unknown').length
}

/** The database may be away meanwhile. */
const until = (what: string, isSo: () => Promise<boolean>) => posthorn.until(what, () => isSo().catch(() => false))
const progress = async (more: number) => {
  const [target, before] = [accepted.size + more, (await receiver.ledger()).length + more / 2]
  await until(`${more} more`, async () => accepted.size >= target && (await receiver.ledger()).length >= before)
}

test('38: every backend terminated again and again, under load: nothing lost, nothing twice, no reply forgotten', async () => {
  const storm = async () => {
    for (let n = 0; n < 6; n++) {
      await progress(20)
      await cluster.primary.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'posthorn %'`,
      )
    }
  }
  await load(storm())
  expect(accepted.size).toBeGreaterThan(100)
  // The workers live on, and hold their replies.
  expect(await checked()).toBe(0)
}, 270_000)

test('38: PostgreSQL killed and started again, under load: the same', async () => {
  const killed = async () => {
    await progress(20)
    await cluster.primary.kill()
    await until('started again', () => cluster.primary.start().then(() => true))
    await progress(20)
  }
  await load(killed())
  expect(await checked()).toBe(0)
}, 270_000)

test('39: a synchronous standby is promoted: the same, after each node has confirmed its mark', async () => {
  const standby = await cluster.standby('follower')
  await cluster.waitsFor('*')
  await until(
    'synchronous',
    async () => (await cluster.primary.query(`select from pg_stat_replication where sync_state = 'sync'`)).length === 1,
  )
  const failover = async () => {
    await progress(20)
    await cluster.primary.kill()
    proxy.away(true)
    await standby.promote()
    proxy.lead(standby)
    proxy.away(false)
    await progress(20)
  }
  await load(failover())
  expect(await checked()).toBe(0)
  expect(await posthorn.query(`select value from installation where name = 'timeline'`)).toEqual([
    { value: '00000002' },
  ])
  expect(await posthorn.query('select from delivery_stops')).toEqual([])
}, 270_000)

test('40: an asynchronous standby: the start says that the promise ends there, and lost commits are found by the fence', async () => {
  const [first] = cluster.standbys
  if (first === undefined) throw new Error('the test before this one promotes it')
  expect(posthorn.said()).not.toContain('asynchronous standbys')
  const second = await cluster.standby('second', first)
  await until('followed', async () => (await first.query('select from pg_stat_replication')).length === 1)
  await posthorn.stop()
  await posthorn.startAgain()
  expect(posthorn.said()).toContain('PostgreSQL has asynchronous standbys only')

  await posthorn.cli('drain')
  const id = await shop.accepted({ recipient: 'ok@there.example' })
  await until('replayed', async () => (await second.query(`select from messages where id = '${id}'`)).length === 1)
  await second.kill()
  await posthorn.cli('drain', '--off')
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })

  await first.kill()
  proxy.away(true)
  await second.start()
  await second.promote()
  proxy.lead(second)
  proxy.away(false)
  await until(
    'fenced',
    async () =>
      (await second.query<{ reason: string }>(`select reason from delivery_stops where kind = 'fence'`))[0]?.reason ===
      'behind',
  )
  await posthorn.cli('drain', '--off')
  expect(
    await posthorn.cli('recover', '--assume-sent-since', new Date(Date.now() - 60_000).toISOString()),
  ).toMatchObject({
    stoppedBy: expect.arrayContaining(['behind']) as unknown,
    assumedSent: 1,
  })
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'delivery_unknown' })
  expect((await receiver.ledger()).filter(({ messageId }) => messageId.includes(id))).toHaveLength(1)
}, 270_000)
