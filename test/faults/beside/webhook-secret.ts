// The webhook's secret, rotated and promoted while the nemesis strikes: every request is signed with the secret of its time, and with the other one beside it.
import { setTimeout as pause } from 'node:timers/promises'
import type { WebhookReceiver } from '../../world/webhook-receiver.ts'
import { askUntilAnswered, type Beside, type Scene } from './scene.ts'

/** Between a claim, which tells the version of the endpoint, and the whole request at its owner, over a wire that stalls and from a node that stands still. */
const underWayMs = 15_000

export function webhookSecretRotated({ fronts, shop, hook, at }: Scene): Promise<Beside> {
  const broken: string[] = []
  const [old] = hook.secrets
  const ask = (path: string) => askUntilAnswered(fronts, { key: shop.key, path: `webhook/${path}`, body: {} })
  let fresh: string | undefined
  let [preparedAt, promotingAt, promotedAt] = [Infinity, Infinity, Infinity]

  const rotate = async (): Promise<void> => {
    await at(0.25)
    for (;;) {
      const { status, body, times } = await ask('rotate')
      if (status !== 200) return void broken.push(`webhook secret: rotating is ${status} ${body.code}`)
      fresh = body.secret
      hook.secrets.push(fresh ?? '')
      if (times === 1) break
      // One that has no answer may still take the place of this one.
      await pause(underWayMs)
    }
    preparedAt = performance.now()
    await at(0.5)
    promotingAt = performance.now()
    const { status, body, times } = await ask('promote')
    if (status !== 200 && !(status === 409 && times > 1))
      broken.push(`webhook secret: promoting is ${status} ${body.code}`)
    promotedAt = performance.now()
  }
  const wrong = ({ at: came, proved: { current, next, previous } }: WebhookReceiver['received'][number]): string => {
    if (came < promotingAt && current !== old) return 'is not signed with the secret that was never replaced'
    if (came > preparedAt + underWayMs && came < promotingAt && next !== fresh) return 'lacks the next signature'
    if (came > promotedAt + underWayMs && current !== fresh) return 'is signed with the secret of before'
    if (came > promotedAt + underWayMs && previous !== old) return 'lacks the previous signature'
    return ''
  }
  return Promise.resolve({
    over: rotate(),
    breaches: () =>
      Promise.resolve([
        ...broken,
        ...hook.received.flatMap((each) => {
          const words = wrong(each)
          return words === '' ? [] : [`webhook secret: ${each.event.id} ${words}`]
        }),
      ]),
  })
}
