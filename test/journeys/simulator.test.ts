// A new installation, as it comes: mail goes to the sandbox, and the simulator's addresses show every way that a message can go.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { ending } from '../world/ending.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'

let posthorn: Posthorn
let shop: JourneyWorkspace
beforeAll(async () => {
  posthorn = await ending(startPosthorn, { settings: { POSTHORN_TIME_SCALE: '3000' } })
  shop = await posthorn.workspace()
})

const at = (name: string) => `${name}@simulator.posthorn.test`
const kinds = (events: readonly { readonly eventType: string }[]) => events.map(({ eventType }) => eventType)
const suppressions = () => posthorn.cli<{ recipient: string }[]>('suppression', 'list', shop.id)

test('delivered@: accepted as queued, then sent and delivered', async () => {
  const { status, body } = await shop.send({ recipient: at('delivered') })
  expect(status).toBe(202)
  expect(body).toMatchObject({
    status: 'queued',
    message: { status: 'queued', recipient: at('delivered'), sender: shop.address },
  })
  const end = await shop.until(body.id, ({ deliveryStatus }) => deliveryStatus === 'delivered')
  expect(end).toMatchObject({
    processingStatus: 'sent',
    message: { status: 'sent', providerMessageId: expect.any(String) },
  })
  expect(kinds(end.events)).toEqual(['delivered'])
  expect(await shop.events(body.id)).toEqual(['message.queued', 'message.sending', 'message.sent', 'message.delivered'])
})

test('an address anywhere goes to the sandbox, which keeps the mail', async () => {
  const id = await shop.accepted({ recipient: 'ann@example.org', subject: 'Grüße' })
  expect(await shop.settled(id)).toMatchObject({ processingStatus: 'sent', deliveryStatus: 'delivered' })
  const kept = await posthorn.query<{ content: Buffer }>(
    `select content from sandbox_mail where recipient = 'ann@example.org'`,
  )
  expect(kept).toHaveLength(1)
  expect(kept[0]?.content.toString('latin1')).toMatch(/^DKIM-Signature:/im)
})

test('deferred@: tried again until it is accepted, and delivered once', async () => {
  const id = await shop.accepted({ recipient: at('deferred+once') })
  const end = await shop.settled(id)
  expect(end).toMatchObject({ processingStatus: 'sent', deliveryStatus: 'delivered' })
  expect(kinds(end.events)).toEqual(['soft_bounce', 'soft_bounce', 'delivered'])
  const again = ['message.sending', 'message.retrying', 'message.soft_bounced']
  expect(await shop.events(id)).toEqual([
    'message.queued',
    ...again,
    ...again,
    'message.sending',
    'message.sent',
    'message.delivered',
  ])
  expect(await posthorn.query('select from sandbox_mail where recipient = $1', [at('deferred+once')])).toHaveLength(1)
})

test('hard-bounce@: failed with a hard bounce, and the simulator suppresses nobody', async () => {
  const id = await shop.accepted({ recipient: at('hard-bounce') })
  const end = await shop.settled(id)
  expect(end).toMatchObject({ processingStatus: 'failed', deliveryStatus: 'hard_bounce' })
  expect(end.events).toMatchObject([
    { eventType: 'hard_bounce', recipient: at('hard-bounce'), detail: expect.stringContaining('550') },
  ])
  expect(end.message.errorMessage).toContain('No such user')
  expect(await suppressions()).toEqual([])
  expect((await shop.send({ recipient: at('hard-bounce') })).status).toBe(202)
})

test('policy@: failed, and a soft bounce, for the recipient is not to blame', async () => {
  const end = await shop.settled(await shop.accepted({ recipient: at('policy') }))
  expect(end).toMatchObject({ processingStatus: 'failed', deliveryStatus: 'soft_bounce' })
  expect(kinds(end.events)).toEqual(['soft_bounce'])
  expect(await suppressions()).toEqual([])
})

test('late-bounce@: sent and delivered, then it comes back through the bounce mailbox, and nobody is suppressed', async () => {
  const id = await shop.accepted({ recipient: at('late-bounce+once') })
  const end = await shop.until(id, ({ deliveryStatus }) => deliveryStatus === 'hard_bounce')
  expect(end).toMatchObject({ processingStatus: 'sent' })
  expect(end.events).toMatchObject([
    { eventType: 'delivered' },
    { eventType: 'hard_bounce', recipient: at('late-bounce+once'), detail: expect.stringContaining('No such user') },
  ])
  expect(await suppressions()).toEqual([])
  expect((await shop.send({ recipient: at('late-bounce+once') })).status).toBe(202)
})

test('complaint@: sent and delivered, then the recipient complains', async () => {
  const id = await shop.accepted({ recipient: at('complaint') })
  const end = await shop.until(id, ({ deliveryStatus }) => deliveryStatus === 'complaint')
  expect(end).toMatchObject({ processingStatus: 'sent' })
  expect(kinds(end.events)).toEqual(['delivered', 'complaint'])
  expect((await shop.events(id)).at(-1)).toBe('message.complained')
  expect(await suppressions()).toEqual([])
})

test('the bounce mailbox is no relay, and what it cannot use stands there for operators', async () => {
  const hand = (to: string) =>
    promisify(execFile)('swaks', [
      ...`--server 127.0.0.1 --port ${posthorn.feedbackPort} --from <> --silent 2`.split(' '),
      '--to',
      to,
      '--header',
      'Subject: Out of office',
      '--body',
      'I am away.',
    ])
  await expect(hand('ann@example.org')).rejects.toMatchObject({ code: 24 }) // swaks: no recipient was accepted
  await hand('complaints@node.test')
  const [found, ...others] = await posthorn.cli<{ id: string; reason: string }[]>('feedback', 'list')
  expect(others).toEqual([])
  expect(found).toMatchObject({ reason: 'no_report', source: 'mail', sender: '', addressee: 'complaints@node.test' })
  expect(await posthorn.cli('feedback', 'show', found?.id ?? '')).toMatchObject({
    content: expect.stringContaining('I am away.'),
  })
  expect(await posthorn.cli('feedback', 'rotate-key')).toMatchObject({ key: 'b' })
})

test('unknown@: delivery_unknown, and never tried again', async () => {
  const id = await shop.accepted({ recipient: at('unknown') })
  const end = await shop.settled(id)
  expect(end).toMatchObject({ processingStatus: 'delivery_unknown', deliveryStatus: 'pending', events: [] })
  // Whatever would be tried again is tried before this one, which defers twice, is through.
  await shop.settled(await shop.accepted({ recipient: at('deferred+after') }))
  expect(await shop.events(id)).toEqual(['message.queued', 'message.sending', 'message.delivery_unknown'])
  expect(await posthorn.query('select from outbound where message_id = $1', [id])).toEqual([])
  expect(await posthorn.query('select from sandbox_mail where recipient = $1', [at('unknown')])).toHaveLength(1)
})

test('it stops when it is asked to, and leaves no process behind', async () => {
  const family = posthorn.pids()
  expect(await posthorn.stop()).toBe(0)
  expect(family.filter((pid) => isThere(pid))).toEqual([])
})

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
