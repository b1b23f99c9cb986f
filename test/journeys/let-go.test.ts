// Somebody ends what waits for the synchronous standby, as tools do that end whatever takes long: PostgreSQL then goes on as if the commit were as durable
// as was asked for, and where the standby is promoted it never was. To us it is none (failure matrix 39).
import { beforeAll, expect, test } from 'vitest'
import { setTimeout as wait } from 'node:timers/promises'
import { atTheEnd, ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startCluster, type Cluster } from '../world/postgres-cluster.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

let cluster: Cluster
let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace

beforeAll(async () => {
  ;[cluster, receiver] = await Promise.all([ending(startCluster), ending(startReceiver, { hold: 'rcpt' })])
  const { host, port } = cluster.primary
  posthorn = await ending(startPosthorn, {
    database: { url: `postgres://postgres@localhost/postgres?host=${host}&port=${port}` },
    settings: { POSTHORN_ROUTE: `smtp://127.0.0.1:${receiver.port}` },
  })
  shop = await posthorn.workspace()
  atTheEnd(() => cluster.waitsFor('')) // no stop waits for that
}, 90_000)

/** Ends every wait for the standby, which is away, until `over`; `seen` has the statements that were let go. */
async function withoutStandby(how: 'cancel' | 'terminate', over: (seen: readonly string[]) => Promise<unknown>) {
  const seen: string[] = []
  const done = new AbortController()
  const ends = async (): Promise<void> => {
    while (!done.signal.aborted) {
      const ended = await cluster.primary.query<{ query: string }>(
        `with waiting as materialized (select pid, query from pg_stat_activity where wait_event = 'SyncRep')
         select query from waiting where pg_${how}_backend(pid)`,
      )
      seen.push(...ended.map(({ query }) => query))
      await wait(10)
    }
  }
  await cluster.waitsFor('follower')
  const ending = ends()
  try {
    await expect.poll(() => seen.length).toBeGreaterThan(0) // the setting is read
    await over(seen)
  } finally {
    done.abort()
    await ending
    await cluster.waitsFor('')
  }
}

test('no dot follows an arm that the standby has not', async () => {
  const id = await shop.accepted({ recipient: 'ok@there.example' })
  await receiver.reached('rcpt')
  await withoutStandby('cancel', async (seen) => {
    receiver.release()
    for (const statement of [/\barm_\d/, /\bfinish_\d/])
      await expect.poll(() => seen.some((query) => statement.test(query))).toBe(true)
    expect(await receiver.ledger()).toEqual([])
  })
  await shop.until(id, ({ processingStatus }) => processingStatus === 'retrying')
  await posthorn.query('update outbound set due_at = app_now()')
  await receiver.reached('rcpt')
  receiver.release()
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
  expect(await receiver.ledger()).toHaveLength(1)
})

test.each(['cancel', 'terminate'] as const)('what is accepted without the standby is not: %s', async (how) => {
  const send = async () => {
    const { status } = await shop.send({ recipient: 'ok@there.example' }, { 'idempotency-key': `without-${how}` })
    return status
  }
  await withoutStandby(how, async () => {
    expect(await send()).toBe(503)
    // By now it is there for everybody to read.
    expect(await send()).toBe(503)
  })
  await expect.poll(send).toBe(202)
})
