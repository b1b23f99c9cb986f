// A worker that is killed, or stopped for longer than its lease, at each step of a conversation (failure matrix 11, 13, 15): before the dot
// the message is sent by another one, after it nobody sends it again. One message waits at each step, each with a receiver of its own, so
// that one signal meets them all.
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { startDnsServer, type DnsServer } from '../world/dns-server.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { overMx, startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

const steps = ['connect', 'ehlo', 'mail', 'rcpt', 'data', 'content', 'eod'] as const
/** More than the kernel takes in at once, so that its sender is in the middle of the content. */
const large = {
  filename: 'large.bin',
  contentType: 'application/octet-stream',
  contentBase64: Buffer.alloc(14 * 1024 * 1024, 'large').toString('base64'),
}
let dns: DnsServer
let front: Posthorn
let receivers: readonly Receiver[]
let shop: JourneyWorkspace
beforeAll(async () => {
  // One port, an address for each.
  const hosts = steps.map((_, at) => `127.0.0.${at + 2}`)
  const first = await ending(startReceiver, { hold: steps[0], host: hosts[0] ?? '' })
  const port = first.port
  receivers = [
    first,
    ...(await Promise.all(
      steps.slice(1).map((hold, at) => ending(startReceiver, { hold, port, host: hosts[at + 1] ?? '' })),
    )),
  ]
  dns = await ending(
    startDnsServer,
    Object.fromEntries(steps.map((step, at) => [`${step}.example`, { a: [hosts[at] ?? ''] }])),
  )
  front = await ending(startPosthorn, {
    settings: {
      POSTHORN_ROLES: 'api',
      ...overMx(dns, { port }),
      POSTHORN_LEASE_SECONDS: '2',
      POSTHORN_TIME_SCALE: '600',
    },
  })
  shop = await front.workspace()
})

/** One message at each step, in the hands of one worker. */
async function heldBy(): Promise<{ worker: Posthorn; ids: readonly string[] }> {
  const worker = await front.anotherNode({ POSTHORN_ROLES: 'deliver' })
  for (const receiver of receivers) receiver.forget()
  const ids = await Promise.all(
    steps.map((step) =>
      shop.accepted({ recipient: `ok@${step}.example`, ...(step === 'content' ? { attachments: [large] } : {}) }),
    ),
  )
  await Promise.all(receivers.map((receiver, at) => receiver.reached(steps[at] ?? '')))
  return { worker, ids }
}

/** What became of each, with the receivers letting everything go on that comes by. */
async function ends(ids: readonly string[]): Promise<readonly string[]> {
  const pushing = setInterval(() => {
    for (const receiver of receivers) receiver.release()
  }, 50)
  try {
    return await Promise.all(ids.map(async (id) => (await shop.settled(id)).processingStatus))
  } finally {
    clearInterval(pushing)
  }
}
const copies = (ids: readonly string[]) =>
  Promise.all(
    ids.map(
      async (id, at) => (await receivers[at]?.ledger())?.filter(({ messageId }) => messageId.includes(id)).length,
    ),
  )
const asExpected = steps.map((step) => (step === 'eod' ? 'delivery_unknown' : 'sent'))

test('11, 13: killed at each step: sent once by another, and past the dot unknown with one copy', async () => {
  const { worker, ids } = await heldBy()
  await worker.kill9()
  const rescuer = await front.anotherNode({ POSTHORN_ROLES: 'deliver' })
  expect(await ends(ids)).toEqual(asExpected)
  expect(await copies(ids)).toEqual(steps.map(() => 1))
  for (const [at, id] of ids.entries()) {
    const reason = await front.query<{ reason: string }>(
      `select facts ->> 'reason' reason from events where message_id = $1 and facts ->> 'reason' is not null`,
      [id],
    )
    expect([steps[at], reason]).toEqual([steps[at], [{ reason: 'worker_lost' }]])
  }
  await rescuer.stop()
}, 180_000)

test('15: stopped for longer than its lease while another one works, and then awake again: at most one copy', async () => {
  const { worker, ids } = await heldBy()
  for (const pid of worker.pids()) process.kill(pid, 'SIGSTOP')
  const rescuer = await front.anotherNode({ POSTHORN_ROLES: 'deliver' })
  try {
    // The messages have changed hands when those before the dot are held again at their receivers.
    await Promise.all(
      receivers.map(async (receiver, at) => (steps[at] === 'eod' ? undefined : receiver.reached(steps[at] ?? ''))),
    )
  } finally {
    for (const pid of worker.pids()) process.kill(pid, 'SIGCONT')
  }
  // The one that slept still holds the reply to its dot: late proof, or the row is unknown.
  const became = await ends(ids)
  expect(became.slice(0, -1)).toEqual(asExpected.slice(0, -1))
  expect(['delivery_unknown', 'sent']).toContain(became.at(-1))
  await Promise.all([worker.stop(), rescuer.stop()])
  expect(await copies(ids)).toEqual(steps.map(() => 1))
}, 180_000)
