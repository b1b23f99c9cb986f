// Over a smart host that asks for TLS and a login: a real Postfix, which hands on to the tests' receiver. What it took is `sent` and nothing
// more: a relay's replies are not the receiving provider's.
import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { certificateFor } from '../world/certificates.ts'
import { dkimVerdicts } from '../world/dkim-verdict.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startPostfix, type Postfix } from '../world/postfix.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

const login = { user: 'posthorn', password: 'p@ss:w/rd %41' }
let receiver: Receiver
let relay: Postfix
let posthorn: Posthorn
let shop: JourneyWorkspace
beforeAll(async () => {
  receiver = await startReceiver({ content: true })
  relay = await startPostfix({ login, certificate: certificateFor(), nextPort: receiver.port })
  posthorn = await startPosthorn({ settings: { POSTHORN_ROUTE: route(login.password), POSTHORN_TIME_SCALE: '60' } })
  shop = await posthorn.workspace()
})
afterAll(async () => {
  await posthorn?.remove()
  await relay?.stop()
  await receiver?.stop()
})

function route(password: string): string {
  return `smtp://${login.user}:${encodeURIComponent(password)}@localhost:${relay.port}`
}

test('taken over TLS with our login, handed on, and the signature survives', async () => {
  const bodyText = `Grüße aus Köln.\n.\n..two dots\n${'long '.repeat(400)}\nFrom here on\n`
  const id = await shop.accepted({ recipient: 'ann@example.org', subject: 'Grüße', bodyText })
  const end = await shop.settled(id)
  expect(end).toMatchObject({ processingStatus: 'sent', deliveryStatus: 'pending', events: [] })
  // The relay was asked to report successes, and tells the return path that it handed the mail on, by way of the same host.
  const lines = await receiver.waitFor(2)
  expect(lines[1]).toMatchObject({ from: '', to: [expect.stringMatching(/^ba[a-z2-7]{42}@node\.test$/)] })
  const [line, ...more] = lines.filter(({ to }) => to.includes('ann@example.org'))
  expect(more).toEqual([])
  expect(line).toMatchObject({ to: ['ann@example.org'] })
  expect(line?.messageId).toContain(id)
  const content = line?.content ?? ''
  expect(content).toMatch(/\(using TLSv1\.\d with cipher/)
  expect(content).toMatch(/Authenticated sender: posthorn/)
  // The relay's id for it is what we tell.
  expect(end.message.providerMessageId).toMatch(/^\w{6,}$/)
  expect(content).toContain(`id ${end.message.providerMessageId}`)
  expect(await dkimVerdicts(content, shop.records)).toEqual([`pass ${shop.address.split('@')[1]}`])
})

test('a login that the relay refuses is our own trouble: tried again, and nothing is sent', async () => {
  const other = await posthorn.workspace({ route: route('wrong') })
  const id = await other.accepted({ recipient: 'bob@example.org' })
  await other.until(id, ({ processingStatus }) => processingStatus === 'retrying')
  const { events } = await posthorn.cli<{ events: { facts?: { reason?: string } }[] }>('message', 'show', id)
  expect(events.flatMap(({ facts }) => facts?.reason ?? [])).toContain('auth')
  expect((await receiver.ledger()).filter(({ to }) => to.includes('bob@example.org'))).toEqual([])
  // The log names no password, right or wrong.
  expect(posthorn.said()).not.toMatch(/p@ss|wrong@|:wrong/)
})

interface Fed {
  readonly id: string
  readonly type: 'delivered' | 'bounce' | 'delay' | 'complaint'
  readonly providerMessageId: string
  readonly enhancedCode?: string
  readonly text?: string
}

/** Posts to a generic feed, signed with its secret. */
async function feed(url: string, secret: string, event: Fed, webhookId: string = event.id): Promise<number> {
  const body = JSON.stringify({ events: [event] })
  const timestamp = String(Math.floor(Date.now() / 1000))
  const digest = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
  const headers = { 'webhook-id': webhookId, 'webhook-timestamp': timestamp, 'webhook-signature': `v1=${digest}` }
  return (await fetch(`${posthorn.url}${new URL(url).pathname}`, { method: 'POST', headers, body })).status
}

test("what the relay's operator says afterwards counts: once, on its own route, and only with its signature", async () => {
  const { url, secret } = await posthorn.cli<{ url: string; secret: string }>('feed', 'add', 'generic')
  const foreign = await posthorn.cli<{ url: string; secret: string }>('feed', 'add', 'generic', '--workspace', shop.id)
  const sent = async (recipient: string) => {
    const id = await shop.accepted({ recipient })
    const { message } = await shop.settled(id)
    return { id, providerMessageId: message.providerMessageId ?? '' }
  }
  const [good, bad] = [await sent('cleo@example.org'), await sent('dora@example.org')]
  expect(await feed(url, secret, { id: 'd1', type: 'delivered', providerMessageId: good.providerMessageId })).toBe(200)
  expect(await shop.status(good.id)).toMatchObject({ deliveryStatus: 'delivered' })

  const bounce: Fed = {
    id: 'b1',
    type: 'bounce',
    providerMessageId: bad.providerMessageId,
    enhancedCode: '5.1.1',
    text: '550 5.1.1 User unknown',
  }
  expect(await feed(url, 'wrong', bounce)).toBe(401)
  // A feed of another route knows nothing of this message.
  expect(await feed(foreign.url, foreign.secret, bounce)).toBe(200)
  expect(await shop.status(bad.id)).toMatchObject({ deliveryStatus: 'pending', events: [] })
  for (const webhookId of ['w1', 'w1', 'w2']) expect(await feed(url, secret, bounce, webhookId)).toBe(200)
  expect(await feed(url, secret, { ...bounce, type: 'complaint' }, 'w1')).toBe(400)
  const { processingStatus, deliveryStatus, events } = await shop.status(bad.id)
  expect([processingStatus, deliveryStatus, events.map(({ eventType }) => eventType)]).toEqual(['sent', 'hard_bounce', ['hard_bounce']]) // prettier-ignore
  expect((await shop.send({ recipient: 'dora@example.org' })).status).toBe(422)

  const policy: Fed = { ...bounce, id: 'b2', providerMessageId: good.providerMessageId, enhancedCode: '5.7.1', text: '550 5.7.1 rejected as spam' } // prettier-ignore
  expect(await feed(url, secret, policy)).toBe(200)
  expect((await shop.send({ recipient: 'cleo@example.org' })).status).toBe(202)
})
