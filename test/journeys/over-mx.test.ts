// Straight to the recipients' mail hosts, found with the tests' own name server, taken by a receiver that behaves as each address asks.
// What was transmitted is what the receiver's ledger says, not what we say.
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import { certificateFor } from '../world/certificates.ts'
import { dkimVerdicts } from '../world/dkim-verdict.ts'
import { startDnsServer, type DnsServer } from '../world/dns-server.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { overMx, startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'

let dns: DnsServer
let receiver: Receiver
let posthorn: Posthorn
let shop: JourneyWorkspace
beforeAll(async () => {
  receiver = await ending(startReceiver, { tls: certificateFor(), content: true })
  dns = await ending(startDnsServer, {
    'there.example': { mx: [{ preference: 10, exchange: 'mx.there.example' }] },
    'mx.there.example': { a: ['127.0.0.1'] },
    // Nothing listens on the first one's address.
    'two.example': {
      mx: [
        { preference: 20, exchange: 'mx.there.example' },
        { preference: 10, exchange: 'down.two.example' },
      ],
    },
    'down.two.example': { a: ['127.0.0.2'] },
    'greylists.example': {
      mx: [
        { preference: 10, exchange: 'mx1.greylists.example' },
        { preference: 20, exchange: 'mx2.greylists.example' },
        { preference: 30, exchange: 'mx3.greylists.example' },
      ],
    },
    'mx1.greylists.example': { a: ['127.0.0.1'] },
    'mx2.greylists.example': { a: ['127.0.0.1'] },
    'mx3.greylists.example': { a: ['127.0.0.1'] },
    'plain.example': { a: ['127.0.0.1'] },
    'null.example': { mx: [{ preference: 0, exchange: '.' }] },
    'empty.example': { txt: ['no mail here'] },
    'later.example': 'servfail',
  })
  posthorn = await ending(startPosthorn, {
    settings: {
      ...overMx(dns, receiver),
      POSTHORN_TIME_SCALE: '3000',
    },
  })
  shop = await posthorn.workspace()
})

const linesFor = async (recipient: string) => (await receiver.ledger()).filter(({ to }) => to.includes(recipient))
const kinds = (events: readonly { readonly eventType: string }[]) => events.map(({ eventType }) => eventType)
const reasons = async (id: string): Promise<string[]> => {
  const { events } = await posthorn.cli<{ events: { facts?: { reason?: string } }[] }>('message', 'show', id)
  return events.flatMap(({ facts }) => facts?.reason ?? [])
}

test('accepted by the mail host: sent and delivered, over TLS, with a signature that others find good', async () => {
  const id = await shop.accepted({ recipient: 'ok@there.example', bodyText: '.starts with a dot\nGrüße\n' })
  const end = await shop.settled(id)
  expect(end).toMatchObject({
    processingStatus: 'sent',
    deliveryStatus: 'delivered',
    message: { providerMessageId: 'R1' },
  })
  const [line, ...more] = await linesFor('ok@there.example')
  expect(more).toEqual([])
  expect(line).toMatchObject({ tls: true, outcome: '250', to: ['ok@there.example'] })
  expect(line?.messageId).toContain(id)
  expect(await dkimVerdicts(line?.content ?? '', shop.records)).toEqual([`pass ${shop.address.split('@')[1]}`])
})

test('a mail host that is down: the next one takes it, in the same attempt', async () => {
  const id = await shop.accepted({ recipient: 'ok@two.example' })
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
  expect(await shop.events(id)).toEqual(['message.queued', 'message.sending', 'message.sent', 'message.delivered'])
})

test('two mail hosts that greylist, and a third that takes it: each host has said its word', async () => {
  const id = await shop.accepted({ recipient: 'deferred-2@greylists.example' })
  const { events, deliveryStatus } = await shop.settled(id)
  expect([...kinds(events), deliveryStatus]).toEqual(['soft_bounce', 'soft_bounce', 'delivered', 'delivered'])
  const reports = ['message.soft_bounced', 'message.soft_bounced', 'message.delivered']
  expect(await shop.events(id)).toEqual(['message.queued', 'message.sending', 'message.sent', ...reports])
  const told = await posthorn.cli<{ events: { type: string; facts?: { smtp?: { host?: string } } }[] }>(
    'message',
    'show',
    id,
  )
  expect(told.events.flatMap(({ type, facts }) => (reports.includes(type) ? [facts?.smtp?.host] : []))).toEqual(
    [1, 2, 3].map((n) => `mx${n}.greylists.example`),
  )
})

test('a domain without MX: its own address', async () => {
  expect(await shop.settled(await shop.accepted({ recipient: 'ok@plain.example' }))).toMatchObject({
    processingStatus: 'sent',
  })
})

test('greylisted twice: tried again, delivered once', async () => {
  const id = await shop.accepted({ recipient: 'deferred-2@there.example' })
  const end = await shop.settled(id)
  expect(end).toMatchObject({ processingStatus: 'sent', deliveryStatus: 'delivered' })
  expect(kinds(end.events)).toEqual(['soft_bounce', 'soft_bounce', 'delivered'])
  expect(await reasons(id)).toEqual(['rcpt_4xx', 'rcpt_4xx'])
  expect(await linesFor('deferred-2@there.example')).toHaveLength(1)
})

test('refused after the final dot, for now: tried again, accepted once, the same bytes', async () => {
  const id = await shop.accepted({ recipient: 'eod-451-1@there.example' })
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
  expect(await reasons(id)).toEqual(['eod_4xx'])
  const lines = await linesFor('eod-451-1@there.example')
  expect(lines.map(({ outcome }) => outcome)).toEqual(['451', '250'])
  expect(new Set(lines.map(({ messageId }) => messageId)).size).toBe(1)
})

test('no such user: failed, hard bounce, and the next send is refused', async () => {
  const recipient = 'reject-rcpt-550@there.example'
  const end = await shop.settled(await shop.accepted({ recipient }))
  expect(end).toMatchObject({ processingStatus: 'failed', deliveryStatus: 'hard_bounce' })
  expect(kinds(end.events)).toEqual(['hard_bounce'])
  const { status, body } = await shop.send({ recipient: recipient.toUpperCase() })
  expect({ status, code: body.code }).toEqual({ status: 422, code: 'recipient_suppressed' })
  expect(await posthorn.cli('suppression', 'list', shop.id)).toMatchObject([{ recipient, reason: 'hard_bounce' }])
  await posthorn.cli('suppression', 'remove', shop.id, recipient)
  expect((await shop.send({ recipient })).status).toBe(202)
})

test('refused for its content: failed, a soft bounce, nobody suppressed', async () => {
  const recipient = 'eod-550@there.example'
  expect(await shop.settled(await shop.accepted({ recipient }))).toMatchObject({
    processingStatus: 'failed',
    deliveryStatus: 'soft_bounce',
  })
  expect((await shop.send({ recipient })).status).toBe(202)
})

test('refused by policy again and again: one warning to operators, a number, and the doctor says it', async () => {
  const ids = await Promise.all([1, 2, 3, 4].map((n) => shop.accepted({ recipient: `eod-550+${n}@there.example` })))
  for (const id of ids) await shop.settled(id)
  await expect.poll(() => posthorn.said()).toMatch(/"what":"policy"/)
  const warned = posthorn
    .said()
    .split('\n')
    .filter((line) => line.includes('"event":"warned"') && !line.includes('"what":"notices"'))
  expect(warned.map((line) => JSON.parse(line) as object)).toMatchObject([
    { level: 40, what: 'policy', provider: 'there.example', host: 'mx.there.example', code: 550 },
  ])
  const metrics = await (await fetch(`http://127.0.0.1:${posthorn.env['POSTHORN_METRICS_PORT']}/metrics`)).text()
  const [, many] =
    /^posthorn_bounces_total\{class="policy",type="soft_bounce",process="\w+"\} ([1-9]\d*)$/m.exec(metrics) ?? []
  expect(Number(many)).toBeGreaterThanOrEqual(4)
  const { checks } = await posthorn.cli<{ checks: { name: string; status: string; detail: string }[] }>('doctor')
  const refusals = checks.find(({ name }) => name === 'refusals')
  expect(refusals).toMatchObject({ status: 'warn', detail: expect.stringContaining('there.example (') as string })
})

test.each(['close-after-dot', 'reset-after-dot', 'garbage-after-dot', 'mixed-after-dot'])(
  '%s: delivery_unknown, and at most one copy',
  async (name) => {
    const recipient = `${name}@there.example`
    const id = await shop.accepted({ recipient })
    expect(await shop.settled(id)).toMatchObject({
      processingStatus: 'delivery_unknown',
      deliveryStatus: 'pending',
      events: [],
    })
    // Whatever would be tried again is tried before this one, which is deferred twice, is through.
    await shop.settled(await shop.accepted({ recipient: `deferred-2+after-${name}@there.example` }))
    expect(await linesFor(recipient)).toHaveLength(1)
    expect(await shop.events(id)).toEqual(['message.queued', 'message.sending', 'message.delivery_unknown'])
  },
)

test.each(['close-mid-body', '421-at-rcpt', 'close-at-rcpt', 'early-451'])(
  '%s: tried again, never unknown',
  async (name) => {
    const recipient = `${name}@there.example`
    // More than the kernels take: a small mail may have been written, and armed, before the close comes, and is unknown then.
    const contentBase64 = Buffer.alloc(8 * 1024 * 1024, 'x').toString('base64')
    const attachments = [{ filename: 'large.bin', contentType: 'application/octet-stream', contentBase64 }]
    const id = await shop.accepted({ recipient, attachments })
    const { events } = await shop.until(id, ({ processingStatus }) => processingStatus === 'retrying')
    expect(kinds(events)).not.toContain('delivered')
    expect(await linesFor(recipient)).toEqual([])
  },
)

test.each([
  ['null.example', 'null_mx'],
  ['nowhere.example', 'nxdomain'],
  ['empty.example', 'no_mail_host'],
])('%s: failed at once, and nobody reported anything', async (domain, reason) => {
  const id = await shop.accepted({ recipient: `ok@${domain}` })
  const end = await shop.settled(id)
  expect(end).toMatchObject({ processingStatus: 'failed', deliveryStatus: 'pending', events: [] })
  expect(await reasons(id)).toEqual([reason])
})

test('a name server in trouble: tried again, and delivered when it is well', async () => {
  const id = await shop.accepted({ recipient: 'ok@later.example' })
  await shop.until(id, ({ processingStatus }) => processingStatus === 'retrying')
  dns.zone['later.example'] = { a: ['127.0.0.1'] }
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent' })
  expect((await reasons(id))[0]).toBe('dns')
})
