// Mail that was accepted and comes back: real mail servers take it, find out afterwards, and send their own reports to the return path. What
// they say changes the delivery state, suppresses who is bad, and nobody else.
import type { MessageDeliveryStatus as Status } from '../../src/contract/message.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startBouncingPostfix } from '../world/bouncing-postfix.ts'
import { startDnsServer, type DnsServer } from '../world/dns-server.ts'
import { startExim } from '../world/exim.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { overMx, startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { freePort } from '../world/postfix.ts'

interface Provider {
  readonly port: number
  said(): string
  stop(): Promise<void>
}

const kinds = (events: readonly { readonly eventType: string }[]) => events.map(({ eventType }) => eventType)

const domain = 'there.example'

describe.each([
  ['Postfix', startBouncingPostfix],
  ['Exim', startExim],
] as const)('%s', (_name, start) => {
  let provider: Provider
  let dns: DnsServer
  let posthorn: Posthorn
  const shops = new Map<string, JourneyWorkspace>()
  beforeAll(async () => {
    const feedbackPort = await freePort()
    provider = await start({ domain, returnPath: { host: 'node.test', port: feedbackPort } })
    dns = await startDnsServer({ [domain]: { a: ['127.0.0.1'] } })
    posthorn = await startPosthorn({
      settings: {
        POSTHORN_FEEDBACK_PORT: String(feedbackPort),
        ...overMx(dns, provider),
      },
    })
    shops.set('mx', await posthorn.workspace())
    shops.set('relay', await posthorn.workspace({ route: `smtp://127.0.0.1:${provider.port}` }))
  }, 360_000)
  afterAll(async () => {
    await posthorn?.remove()
    await Promise.all([provider?.stop(), dns?.stop()])
  })

  describe.each(['mx', 'relay'])('over the route %s', (route) => {
    const shop = (): JourneyWorkspace => shops.get(route) as JourneyWorkspace
    /** On `mx` the 250 of the mail host is a report already; a relay's says nothing. */
    const first = route === 'mx' ? ['delivered'] : []
    const suppressed = () =>
      posthorn.cli<{ recipient: string; reason: string; rule?: string; evidence?: string }[]>(
        'suppression',
        'list',
        shop().id,
      )

    /** Sent, and then what its provider reports in the end. (Whoever is slow may report a delay before.) */
    const reported = async (recipient: string, expected: string) => {
      const id = await shop().accepted({ recipient })
      const isSo = ({ deliveryStatus, events, processingStatus }: Status) =>
        deliveryStatus === expected && processingStatus === 'sent' && events.length > first.length
      const status = await shop()
        .until(id, isSo)
        .catch((error: unknown) => {
          throw new Error(`${String(error)}\n${provider.said().slice(-3_000)}`)
        })
      return { id, ...status }
    }

    test('no such user: a hard bounce, the recipient is suppressed, and the next send is refused', async () => {
      const recipient = `nobody@${domain}`
      const { id, events } = await reported(recipient, 'hard_bounce')
      // The report may come before our own record of the 250.
      const told = kinds(events).filter((kind) => kind !== 'soft_bounce')
      expect(told.toSorted()).toEqual([...first, 'hard_bounce'].toSorted())
      const [suppression, ...others] = await suppressed()
      expect(others).toEqual([])
      expect(suppression).toMatchObject({ recipient, reason: 'hard_bounce', sourceMessageId: id })
      expect(suppression?.evidence).toMatch(/unknown user|User unknown/)
      const { status, body } = await shop().send({ recipient })
      expect({ status, code: body.code }).toEqual({ status: 422, code: 'recipient_suppressed' })

      const undo = ['suppression', 'undo', shop().id, '--rule', String(suppression?.rule), '--since', '2020-01-01']
      expect(await posthorn.cli(...undo)).toEqual({ removed: 1 })
      expect(await suppressed()).toEqual([])
    })

    test('over quota: a soft bounce as the end, and nobody is suppressed', async () => {
      const { events } = await reported(`full@${domain}`, 'soft_bounce')
      expect(kinds(events)).not.toContain('hard_bounce')
      expect(await suppressed()).toEqual([])
    })

    test('refused by policy: a soft bounce, and nobody is suppressed', async () => {
      await reported(`policy@${domain}`, 'soft_bounce')
      expect(await suppressed()).toEqual([])
      expect((await shop().send({ recipient: `policy@${domain}` })).status).toBe(202)
    })

    test('delayed: a soft bounce on the way, which takes back no delivery', async () => {
      const { events } = await reported(`later@${domain}`, route === 'mx' ? 'delivered' : 'soft_bounce')
      // The report may come before our own record of the 250.
      expect(kinds(events).toSorted()).toEqual([...first, 'soft_bounce'].toSorted())
    })

    if (route === 'relay')
      test('delivered: the relay was asked to say so, and it counts', async () => {
        const { events } = await reported(`ann@${domain}`, 'delivered')
        expect(kinds(events).at(-1)).toBe('delivered')
      })
  })
})
