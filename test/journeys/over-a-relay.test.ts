// Over a smart host that asks for TLS and a login: a real Postfix, which hands on to the tests' receiver. What it took is `sent` and nothing
// more: a relay's replies are not the receiving provider's.
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
