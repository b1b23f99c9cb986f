// Everything dies at once in the middle of 1,000 messages, PostgreSQL included, and is started again. The receiver's ledger, written before
// each answer, is the witness: none lost, none twice, and whatever is unknown was armed when everything died.
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { startDnsServer, type DnsServer } from '../world/dns-server.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { overMx, startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

const count = 1_000
/** How many of them arrive at a time when everything dies. */
const senders = 4
/** So many of the first get no answer before everything dies: how many others are behind their dot just then is chance. */
const waiting = 8
let dns: DnsServer
let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace
beforeAll(async () => {
  receiver = await ending(startReceiver)
  dns = await ending(startDnsServer, { 'there.example': { a: ['127.0.0.1'] } })
  posthorn = await ending(startPosthorn, {
    database: 'embedded',
    settings: {
      ...overMx(dns, receiver),
      POSTHORN_TIME_SCALE: '600',
      POSTHORN_LEASE_SECONDS: '2',
      POSTHORN_ROLES: 'api', // so that all are accepted before the first is delivered
    },
  })
  shop = await posthorn.workspace()
})

test('kill -9 of everything: none lost, none twice, every unknown was armed', async () => {
  // The receiver waits before each answer, so that there is a middle, with many dots in it that no answer was read to.
  const accepted = new Set<string>()
  await sendAll(accepted, count, 64, waiting)
  expect(accepted.size).toBe(count)
  await posthorn.stop()
  await posthorn.startAgain({ POSTHORN_ROLES: 'all' })
  // More arrive until everything dies: what was answered is kept, what was not is stored once or not at all.
  const arriving = sendAll(accepted, Infinity, senders).catch(() => 'it died')
  await receiver.waitFor(300)
  await posthorn.kill9()
  expect(await arriving).toBe('it died')
  expect(posthorn.pids()).toEqual([])
  const before = await receiver.ledger()
  expect(before.length).toBeGreaterThan(100)
  expect(before.length).toBeLessThan(900)

  // Only the API at first: nothing reaps, so the database shows what stood in it.
  await posthorn.startAgain()
  const armed = await posthorn.query<{ id: string }>('select message_id id from outbound where armed_epoch is not null')
  await posthorn.stop()
  await posthorn.startAgain({ POSTHORN_ROLES: 'all' })
  await posthorn.until(
    'the queue is empty',
    async () => (await posthorn.query('select from outbound limit 1')).length === 0,
    180_000,
  )

  const ledger = await receiver.ledger()
  const copies = new Map<string, number>()
  for (const { messageId } of ledger) copies.set(messageId, (copies.get(messageId) ?? 0) + 1)
  expect([...copies].filter(([, times]) => times > 1)).toEqual([])

  const records = await posthorn.query<{ id: string; status: string }>(
    'select id, status from messages where workspace_id = $1',
    [shop.id],
  )
  const kept = new Set(records.map(({ id }) => id))
  expect([...accepted].filter((id) => !kept.has(id))).toEqual([])
  expect(kept.size - accepted.size).toBeLessThanOrEqual(senders)
  const idsOf = (status: string) => records.filter((record) => record.status === status).map(({ id }) => id)
  const [sent, unknown] = [idsOf('sent'), idsOf('delivery_unknown')]
  expect(sent.length + unknown.length).toBe(kept.size)
  const known = [...copies.keys()].join('\n')
  expect(sent.filter((id) => !known.includes(id))).toEqual([])
  const wereArmed = new Set(armed.map(({ id }) => id))
  expect(unknown.filter((id) => !wereArmed.has(id))).toEqual([])
  expect(unknown.length).toBe(wereArmed.size)
  expect(unknown.length).toBeGreaterThanOrEqual(waiting) // else nothing was in the middle

  // Every event there once, in sequence.
  const gaps = await posthorn.query(
    `select m.id from messages m join events e on e.workspace_id = m.workspace_id and e.message_id = m.id
        group by m.id, m.sequence having count(*) <> m.sequence or max(e.sequence) <> m.sequence`,
  )
  expect(gaps).toEqual([])
}, 450_000)

/** Sends so many, some at a time, and notes the id of each that was accepted. Throws when one was not. */
async function sendAll(accepted: Set<string>, many: number, atOnce: number, held = 0): Promise<void> {
  let next = 0
  const send = async () => {
    while (next < many) {
      const waits = next < held ? 60_000 : 60
      accepted.add(await shop.accepted({ recipient: `slow-eod-${waits}ms+${next++}@there.example` }))
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: atOnce }, send))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}
