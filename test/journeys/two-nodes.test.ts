// Two nodes on one database: the quota is one quota, and every message is delivered by one of them, once.
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { startDnsServer, type DnsServer } from '../world/dns-server.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { overMx, startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

let dns: DnsServer
let receiver: Receiver
let one: Posthorn
let two: Posthorn
beforeAll(async () => {
  receiver = await ending(startReceiver)
  dns = await ending(startDnsServer, { 'there.example': { a: ['127.0.0.1'] } })
  one = await ending(startPosthorn, { settings: overMx(dns, receiver) })
  two = await one.anotherNode()
})

/** To the nodes by turns, as clients should: on a machine that stalls the answer may be to come again. */
async function sendTo(shop: JourneyWorkspace, local: string, i: number) {
  for (;;) {
    const key = { 'idempotency-key': local }
    const answer = await shop.send({ recipient: `${local}@there.example` }, key, [one, two][i % 2]?.url)
    if (answer.status !== 503) return answer
  }
}

test('a quota of 300, 200 sends to each node at once: exactly 300 are accepted, and each is delivered once', async () => {
  const shop = await one.workspace({ plan: { daily: 300 } })
  const answers = await Promise.all(Array.from({ length: 400 }, (_, i) => sendTo(shop, `ok+${i}`, i)))
  const accepted = answers.filter(({ status }) => status === 202)
  const refused = answers.filter(({ status }) => status !== 202)
  expect(accepted).toHaveLength(300)
  expect(new Set(refused.map(({ status, body }) => `${status} ${body.code}`))).toEqual(
    new Set(['429 daily_limit_reached']),
  )
  expect(refused.every(({ headers }) => Number(headers.get('retry-after')) > 0)).toBe(true)

  await Promise.all(accepted.map(({ body }) => shop.settled(body.id)))
  const ledger = await receiver.ledger()
  expect(ledger).toHaveLength(300)
  expect(new Set(ledger.map(({ messageId }) => messageId)).size).toBe(300)
  // Each node reads what the other one took.
  const last = accepted.at(-1)?.body.id ?? ''
  expect(
    await (
      await fetch(`${two.url}/api/v1/messages/${last}`, { headers: { authorization: `Bearer ${shop.key}` } })
    ).json(),
  ).toMatchObject({
    processingStatus: 'sent',
    deliveryStatus: 'delivered',
  })
})

test('parallel sends at the limit minus k: exactly k are accepted, and the headers count down', async () => {
  const shop = await one.workspace({ plan: { daily: 25 } })
  const remaining: number[] = []
  for (let i = 0; i < 18; i++) {
    const { headers } = await sendTo(shop, `ok+${i}`, i)
    expect(headers.get('ratelimit-limit')).toBe('25')
    remaining.push(Number(headers.get('ratelimit-remaining')))
  }
  expect(remaining).toEqual(Array.from({ length: 18 }, (_, i) => 24 - i))
  const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => sendTo(shop, `ok+late${i}`, i)))
  expect(answers.filter(({ status }) => status === 202)).toHaveLength(7)
  expect(new Set(answers.filter(({ status }) => status !== 202).map(({ body }) => body.code))).toEqual(
    new Set(['daily_limit_reached']),
  )
})

test('one idempotency key at both nodes at once: one message', async () => {
  const shop = await one.workspace()
  const before = (await receiver.ledger()).length
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      shop.send({ recipient: 'ok+key@there.example' }, { 'idempotency-key': 'order-1' }, [one, two][i % 2]?.url),
    ),
  )
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]))
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
  expect(answers.filter(({ headers }) => headers.get('idempotent-replayed') === null)).toHaveLength(1)
  await shop.settled(answers[0]?.body.id ?? '')
  expect((await receiver.ledger()).slice(before).filter(({ to }) => to.includes('ok+key@there.example'))).toHaveLength(
    1,
  )
})

test('a key that is revoked at one node is refused by the other at once', async () => {
  const shop = await one.workspace()
  expect((await shop.send({ recipient: 'ok+before@there.example' }, {}, two.url)).status).toBe(202)
  const [key] = await one.cli<{ id: string }[]>('key', 'list', shop.id)
  await one.cli('key', 'revoke', key?.id ?? '')
  // At most a second (decisions H); the command itself took longer to end.
  const revoked = performance.now()
  for (let status = 0; status !== 401;) {
    expect(performance.now() - revoked).toBeLessThan(1_000)
    ;({ status } = await shop.send({ recipient: 'ok+after@there.example' }, {}, two.url))
  }
})
