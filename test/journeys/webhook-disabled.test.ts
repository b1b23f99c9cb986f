// A receiver that is gone for good, over two nodes of the whole binary: its endpoint is disabled by itself, and the owner gets one mail about it,
// although every process is killed at the moment of it.
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startWebhookReceiver, status, type WebhookReceiver } from '../world/webhook-receiver.ts'

let posthorn: Posthorn
let other: Posthorn
let receiver: WebhookReceiver
beforeAll(async () => {
  receiver = await ending(startWebhookReceiver)
  receiver.answer = status(410)
  posthorn = await ending(startPosthorn, {
    settings: { POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true', POSTHORN_TIME_SCALE: '100000', POSTHORN_LEASE_SECONDS: '2' },
  })
  other = await posthorn.anotherNode()
}, 180_000)

/** The only row, asked again until it is there. */
const eventually = <Row extends object>(text: string, values: unknown[]): Promise<Row> =>
  posthorn.until(text, async () => (await posthorn.query<Row>(text, values))[0])

test('eight times 410: disabled, and one mail to the owner, who reads the reason', { timeout: 360_000 }, async () => {
  const shop = await posthorn.workspace({ name: 'The Shop' })
  await posthorn.cli('user', 'create', '--email', 'owner@people.example', '--workspace', shop.id, '--role', 'owner')
  await posthorn.cli('user', 'create', '--email', 'viewer@people.example', '--workspace', shop.id, '--role', 'viewer')
  await posthorn.cli('webhook', 'set', shop.id, '--url', receiver.url)
  await shop.accepted({ recipient: 'delivered@simulator.posthorn.test' })
  await eventually(`select 1 from webhook_endpoints where workspace_id = $1 and state = 'disabled'`, [shop.id])
  await Promise.all([posthorn.kill9(), other.kill9()])
  await Promise.all([posthorn.startAgain(), other.startAgain()])

  // Told is what nobody tells again.
  await eventually('select 1 from webhook_endpoints where workspace_id = $1 and told_of = disabled_at', [shop.id])
  const notices = await posthorn.query<{ recipient: string; id: string }>(
    `select recipient, id from messages where subject = 'The webhook of The Shop is disabled'`,
  )
  expect(notices.map(({ recipient }) => recipient)).toEqual(['owner@people.example'])
  const { content } = await eventually<{ content: Buffer }>(
    `select content from sandbox_mail where recipient = 'owner@people.example'`,
    [],
  )
  expect(content.toString()).toContain('answered "410 Gone" to the last try')
  expect(await posthorn.cli('webhook', 'show', shop.id)).toMatchObject({ state: 'disabled', reason: 'receiver_gone' })
})
