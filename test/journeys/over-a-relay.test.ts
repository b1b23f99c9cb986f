// Over a smart host that asks for TLS and a login: a real Postfix, which hands on to the tests' receiver. What it took is `sent` and nothing
// more: a relay's replies are not the receiving provider's.
import { createHmac } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { certificateFor } from '../world/certificates.ts'
import { dkimVerdicts } from '../world/dkim-verdict.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPolicyService, type PolicyRequest, type PolicyService } from '../world/policy-service.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startPostfix, type Postfix } from '../world/postfix.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'
import { startWire, type Wire } from '../world/wire.ts'

const login = { user: 'posthorn', password: 'p@ss:w/rd %41' }
let receiver: Receiver
let policies: PolicyService
let relay: Postfix
/** Before the relay, for those whose connection is lost. */
let wire: Wire
let posthorn: Posthorn
let shop: JourneyWorkspace
beforeAll(async () => {
  receiver = await ending(startReceiver, { content: true })
  policies = await ending(startPolicyService, policy)
  relay = await ending(startPostfix, {
    login,
    certificate: certificateFor(),
    nextPort: receiver.port,
    policyPort: policies.port,
  })
  wire = await ending(startWire, relay.port)
  posthorn = await ending(startPosthorn, {
    settings: { POSTHORN_ROUTE: route(login.password), POSTHORN_TIME_SCALE: '600' },
  })
  shop = await posthorn.workspace()
})

function route(password: string, port = relay.port): string {
  return `smtp://${login.user}:${encodeURIComponent(password)}@localhost:${port}`
}

/**
 * What the relay does, by the recipient's local part: `later-N` is put off N times, `nobody` is unknown, and the connection of `closed` and `reset` is
 * lost when all of the mail is there, before its answer. The relay takes these, too.
 */
function policy({ protocol_state: state, recipient = '', client_port: port }: PolicyRequest): string {
  const [name = ''] = recipient.split(/[+@]/)
  if (state === 'RCPT') {
    if (name === 'nobody') return '550 5.1.1 User unknown'
    const times = Number(/^later-(\d+)$/.exec(name)?.[1] ?? 0)
    if (askedAbout(recipient, 'RCPT').length <= times) return '450 4.2.0 Mailbox busy'
  } else if (name === 'closed' || name === 'reset') wire.cut(Number(port), name === 'closed' ? 'close' : 'reset')
  return 'DUNNO'
}

const askedAbout = (recipient: string, state: string): readonly PolicyRequest[] =>
  policies.asked.filter((request) => request['recipient'] === recipient && request['protocol_state'] === state)
const linesFor = async (recipient: string) => (await receiver.ledger()).filter(({ to }) => to.includes(recipient))
const reasons = async (id: string): Promise<string[]> => {
  const { events } = await posthorn.cli<{ events: { facts?: { reason?: string } }[] }>('message', 'show', id)
  return events.flatMap(({ facts }) => facts?.reason ?? [])
}
/** When the relay has handed it on. */
async function handedOn(recipient: string): Promise<void> {
  for (let ledger = await receiver.ledger(); ; ledger = await receiver.waitFor(ledger.length + 1))
    if (ledger.some(({ to }) => to.includes(recipient))) return
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
  expect(await reasons(id)).toContain('auth')
  expect(await linesFor('bob@example.org')).toEqual([])
  // Operators are told: once in the log, by a number, and by the doctor, who goes over the workspace's own route.
  await expect.poll(() => posthorn.said()).toContain('"what":"relay login"')
  await other.until(
    await other.accepted({ recipient: 'eve@example.org' }),
    ({ processingStatus }) => processingStatus === 'retrying',
  )
  const warned = posthorn
    .said()
    .split('\n')
    .filter((line) => line.includes('"event":"warned"') && !line.includes('"what":"notices"'))
  expect(warned.map((line) => JSON.parse(line) as object)).toMatchObject([
    { level: 40, what: 'relay login', route: other.id, code: 535 },
  ])
  const metrics = await (await fetch(`http://127.0.0.1:${posthorn.env['POSTHORN_METRICS_PORT']}/metrics`)).text()
  expect(metrics).toMatch(/^posthorn_relay_logins_refused\{process="\w+"\} 1$/m)
  const { checks } = await posthorn.cli<{ checks: { name: string; status: string; detail: string }[] }>('doctor')
  const of = (name: string) => checks.find((check) => check.name === name)
  expect(of('outbound')).toMatchObject({ status: 'ok' })
  expect(of('workspace_routes')).toMatchObject({ status: 'fail', detail: expect.stringContaining('(535') as string })
  // The log names no password, right or wrong.
  expect(posthorn.said()).not.toMatch(/p@ss|wrong@|:wrong/)
})

test('put off by the relay: tried again over TLS and with our login, taken once; no word of the provider', async () => {
  const recipient = 'later-1@example.org'
  const id = await shop.accepted({ recipient })
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent', deliveryStatus: 'pending', events: [] })
  expect(await reasons(id)).toEqual(['rcpt_4xx'])
  await handedOn(recipient)
  const asked = askedAbout(recipient, 'RCPT')
  expect(asked).toHaveLength(2)
  for (const request of asked)
    expect(request).toMatchObject({
      sasl_username: `${login.user}@relay.test`,
      encryption_protocol: expect.stringMatching(/^TLSv1\.\d/),
    })
  expect(await linesFor(recipient)).toHaveLength(1)
})

test('refused by the relay for good: failed at once; its word is not the provider’s, so nobody is suppressed', async () => {
  const recipient = 'nobody@example.org'
  const id = await shop.accepted({ recipient })
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'failed', deliveryStatus: 'pending', events: [] })
  expect(await reasons(id)).toEqual(['rcpt_5xx'])
  expect(await shop.events(id)).toEqual(['message.queued', 'message.sending', 'message.failed'])
  expect(await posthorn.cli('suppression', 'list', shop.id)).toEqual([])
  await shop.settled(await shop.accepted({ recipient }))
  expect(askedAbout(recipient, 'RCPT')).toHaveLength(2)
  expect(await linesFor(recipient)).toEqual([])
})

test('the connection closed, or reset, between the dot and its answer: delivery_unknown, and one copy, for the relay took it', async () => {
  const other = await posthorn.workspace({ route: route(login.password, wire.port) })
  const lost = ['closed@example.org', 'reset@example.org']
  const ids = await Promise.all(lost.map((recipient) => other.accepted({ recipient })))
  for (const id of ids)
    expect(await other.settled(id)).toMatchObject({
      processingStatus: 'delivery_unknown',
      deliveryStatus: 'pending',
      events: [],
    })
  for (const recipient of lost) await handedOn(recipient)
  // Whatever would be tried again is tried before this one, which is put off twice, is through.
  await other.settled(await other.accepted({ recipient: 'later-2@example.org' }))
  for (const recipient of lost) {
    expect(askedAbout(recipient, 'END-OF-MESSAGE')).toMatchObject([{ sasl_username: `${login.user}@relay.test` }])
    expect(await linesFor(recipient)).toHaveLength(1)
  }
  for (const id of ids)
    expect(await other.events(id)).toEqual(['message.queued', 'message.sending', 'message.delivery_unknown'])
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
