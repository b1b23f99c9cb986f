// The synchronous standby goes away: PostgreSQL answers every question and ends no commit. Nothing is accepted or sent meanwhile, the operator is told why, and
// when it is over nobody has been taken for dead (failure matrix 39).
import { beforeAll, expect, test } from 'vitest'
import { setTimeout as wait } from 'node:timers/promises'
import { atTheEnd, ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startCluster, type Cluster } from '../world/postgres-cluster.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

const leaseSeconds = 4
let cluster: Cluster
let receiver: Receiver
let posthorn: Posthorn
let idle: Posthorn
let shop: JourneyWorkspace

beforeAll(async () => {
  ;[cluster, receiver] = await Promise.all([ending(startCluster), ending(startReceiver, { hold: 'eod' })])
  const { host, port } = cluster.primary
  posthorn = await ending(startPosthorn, {
    database: { url: `postgres://postgres@localhost/postgres?host=${host}&port=${port}` },
    settings: {
      POSTHORN_ROUTE: `smtp://127.0.0.1:${receiver.port}`,
      POSTHORN_LEASE_SECONDS: String(leaseSeconds),
    },
  })
  shop = await posthorn.workspace()
  atTheEnd(() => cluster.waitsFor('')) // no stop waits for that
}, 90_000)

interface Waiting {
  readonly over: boolean
  readonly behind: boolean
}
/** `over`: the lease has run out; `behind`: somebody waits for a row, and would be first when it is let go. */
const look = async (): Promise<Waiting> => {
  const [seen] = await cluster.primary.query<Waiting>(
    `select exists (select from outbound where lease_until < now()) "over",
            exists (select from pg_stat_activity where application_name like 'posthorn %' and wait_event_type = 'Lock') behind`,
  )
  return seen ?? { over: false, behind: true }
}
const ready = async (node: Posthorn): Promise<string> => {
  const answer = await fetch(`${node.url}/readyz`)
  return `${answer.status} ${((await answer.json()) as { detail: { database: string } }).detail.database}`
}

test('39: no commit ends while the standby is away: told to callers and operators, and nobody who lives is taken for dead', async () => {
  const id = await shop.accepted({ recipient: 'ok@there.example' })
  await receiver.reached('eod')
  // Its first lease is over when it believes what it sees; it holds nothing itself.
  idle = await posthorn.anotherNode({ POSTHORN_DATA_DIR: `${posthorn.dataDir}/idle` })
  await wait((leaseSeconds + 1) * 1000)

  await cluster.waitsFor('follower')
  // A heartbeat is the first: the setting is read then.
  await posthorn.until('a commit waits', async () => {
    const [seen] = await cluster.primary.query<{ is: boolean }>(
      `select exists (select from pg_stat_activity where wait_event = 'SyncRep') "is"`,
    )
    return seen?.is === true
  })
  const key = { 'idempotency-key': 'while-it-is-away' }
  expect((await shop.send({ recipient: 'ok@there.example' }, key)).status).toBe(503)
  const away = '503 waiting for a synchronous standby: every commit does'
  for (const node of [posthorn, idle]) await posthorn.until('told', async () => (await ready(node)) === away)
  const { checks } = await posthorn.cli<{ checks: { name: string; status: string; detail: string }[] }>('doctor')
  expect(checks.find(({ name }) => name === 'replication')).toMatchObject({
    status: 'fail',
    detail: expect.stringContaining('synchronous_standby_names is follower), and none is connected') as unknown,
  })
  const told = `http://127.0.0.1:${posthorn.env['POSTHORN_METRICS_PORT']}/metrics`
  await posthorn.until('in numbers', async () =>
    (await (await fetch(told)).text()).includes('\nposthorn_database_commits_wait{process="main"} 1\n'),
  )

  // What is hardest: the lease ran out long ago, and nobody of those who would extend it stands in line for the row.
  await wait(3 * leaseSeconds * 1000)
  await posthorn.until('nobody in line', async () => {
    // As their own time limit does, a little later.
    await cluster.primary.query(
      `with line as materialized (select pid from pg_stat_activity where application_name like 'posthorn %' and wait_event_type = 'Lock')
       select pg_cancel_backend(pid) from line`,
    )
    const { over, behind } = await look()
    return over && !behind
  })
  // What each heartbeat would leave with the server is there until the standby is back, and would take all connections of an hour's outage.
  const left = await cluster.primary.query(
    `select from pg_stat_activity where application_name = 'posthorn leases' and wait_event = 'SyncRep'`,
  )
  expect(left.length).toBeGreaterThan(0)
  expect(left.length).toBeLessThanOrEqual(2) // nodes
  await cluster.waitsFor('')
  await posthorn.until('over', async () => (await ready(idle)).startsWith('200'))
  receiver.release()
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
  expect(await shop.events(id)).toEqual(['message.queued', 'message.sending', 'message.sent'])
  const again = await shop.send({ recipient: 'ok@there.example' }, key)
  expect(again.status).toBe(202)
  await receiver.reached('eod')
  receiver.release()
  expect(await shop.settled(again.body.id)).toMatchObject({ processingStatus: 'sent' })
  expect((await receiver.ledger()).filter(({ messageId }) => messageId.includes(again.body.id))).toHaveLength(1)
}, 180_000)
