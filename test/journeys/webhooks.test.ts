// A customer with a webhook, over the whole binary: one send is told in four signed events in order, and `kill -9` of everything in the
// middle of many loses none of them and asks no more than eight times for any.
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { ok, startWebhookReceiver, type WebhookReceiver } from '../world/webhook-receiver.ts'

interface Endpoint {
  readonly url: string
  readonly state: string
  readonly secret?: string
}

let posthorn: Posthorn
let receiver: WebhookReceiver
beforeAll(async () => {
  receiver = await ending(startWebhookReceiver)
  posthorn = await ending(startPosthorn, {
    database: 'embedded',
    settings: {
      POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true',
      POSTHORN_TIME_SCALE: '1000',
      POSTHORN_LEASE_SECONDS: '2',
    },
  })
})

test('one send: queued, sending, sent and delivered, with valid signatures and in order', async () => {
  const shop = await posthorn.workspace()
  const { secret = '', state } = await posthorn.cli<Endpoint>('webhook', 'set', shop.id, '--url', receiver.url)
  expect(state).toBe('active')
  receiver.secrets.push(secret)
  const id = await shop.accepted({ recipient: 'delivered@simulator.posthorn.test', metadata: { order: '7' } })
  const received = await receiver.count(4)
  expect(received.map(({ event }) => event.type)).toEqual([
    'message.queued',
    'message.sending',
    'message.sent',
    'message.delivered',
  ])
  expect(received.map(({ event }) => event.data.sequence)).toEqual([1, 2, 3, 4])
  expect(received.every(({ proved }) => proved.current === secret)).toBe(true)
  expect(received.every(({ event }) => event.data.messageId === id)).toBe(true)
  const told = received[3]?.event.data
  const { events } = await shop.status(id)
  expect(told?.event).toEqual(events[0])
  expect(told).toMatchObject({ status: 'sent', deliveryStatus: 'delivered', metadata: { order: '7' }, attempt: 1 })
  // The whole story is in the log, and can be read again in the order of its commits.
  const log = await posthorn.cli<{ id: string; state: string }[]>('webhook', 'log', shop.id)
  expect(log.map((entry) => entry.id)).toEqual(received.map(({ event }) => event.id).toReversed())
  const { key } = await posthorn.cli<{ key: string }>(
    'key',
    'create',
    shop.id,
    '--name',
    'r',
    '--scope',
    'webhooks.read',
  )
  // What was committed while any other transaction of the server still ran (an ANALYZE, say) waits for that one's end.
  const caughtUp = async () => {
    const answer = await fetch(`${posthorn.url}/api/v1/events`, { headers: { authorization: `Bearer ${key}` } })
    expect(answer.status).toBe(200)
    return ((await answer.json()) as { events: object[] }).events
  }
  await expect.poll(caughtUp, { timeout: 60_000 }).toEqual(received.map(({ event }) => event))
  expect(await posthorn.cli('webhook', 'disable', shop.id)).toMatchObject({ state: 'disabled', reason: 'by_hand' })
})

test('kill -9 of everything while events flow: each event comes, and none more than eight times', async () => {
  const shop = await posthorn.workspace()
  const { secret = '' } = await posthorn.cli<Endpoint>('webhook', 'set', shop.id, '--url', receiver.url)
  receiver.secrets.push(secret)
  const before = receiver.received.length
  // Slow, so that every death finds claims before, in and behind their requests.
  receiver.answer = (one, response) => void setTimeout(() => ok(one, response), 30)
  const ids = await Promise.all(
    Array.from({ length: 60 }, (_, n) => shop.accepted({ recipient: `delivered+${n}@simulator.posthorn.test` })),
  )
  for (const more of [20, 60]) {
    await receiver.count(before + more)
    await posthorn.kill9()
    await posthorn.startAgain()
  }
  const isLast = (types: readonly string[]) =>
    types.includes('message.delivered') || types.includes('message.delivery_unknown')
  const typesOf = (id: string) =>
    receiver.received.filter(({ event }) => event.data.messageId === id).map(({ event }) => event.type)
  await receiver.until(() => ids.every((id) => isLast(typesOf(id))), 180_000)
  await posthorn.until(
    'no event waits',
    async () => (await posthorn.query('select from webhook_queue limit 1')).length === 0,
  )
  const written = await posthorn.query<{ message_id: string; sequence: number }>(
    'select message_id, sequence from events where workspace_id = $1',
    [shop.id],
  )
  const times = new Map<string, number>()
  for (const { event } of receiver.received.slice(before)) {
    const name = `${event.data.messageId} ${event.data.sequence}`
    times.set(name, (times.get(name) ?? 0) + 1)
  }
  expect(written.filter(({ message_id: id, sequence }) => !times.has(`${id} ${sequence}`))).toEqual([])
  expect([...times].filter(([, many]) => many > 8)).toEqual([])
  // What came twice came with the same bytes.
  const bytes = new Map<string, string>()
  for (const { event, raw } of receiver.received) {
    expect(bytes.get(event.id) ?? raw.toString('hex')).toBe(raw.toString('hex'))
    bytes.set(event.id, raw.toString('hex'))
  }
}, 360_000)
