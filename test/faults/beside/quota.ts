// A plan at its limit: a workspace hands in more than it may, at both nodes, over REST and SMTP, and asks again whenever it hears nothing. No more is accepted than
// the plan says, and no less where somebody was refused; who was refused has no message; and once all is quiet the same key has the same answer.
import { startLoad } from '../load.ts'
import { askUntilAnswered, type Beside, type Scene } from './scene.ts'

const share = 0.12
const room = 0.6
const first = 1_000_000

export async function plansAtTheirLimit({ fronts, chance, messages, at, open }: Scene): Promise<Beside> {
  const many = Math.ceil(messages * share)
  const limit = Math.ceil(many * room)
  const { shop, login } = await open({ monthly: limit })
  const load = startLoad({ shop, nodes: fronts, login, messages: many, first, chance })
  const broken: string[] = []

  const handIn = async (): Promise<void> => {
    for (let n = 1; n <= many; n++) {
      // The limit falls into the middle of the faults.
      await at(n / (many + 1))
      load.allow(n)
    }
    await load.over
  }
  /** The same key, the same body: what was accepted is told again, though there is no room; what was refused is refused. */
  const askAgain = async (): Promise<void> => {
    await at(1)
    for (const [n, { way, answer, recipient, subject, text, ids }] of load.told.entries()) {
      if (way !== 'rest') continue
      const { status, body, replayed } = await askUntilAnswered(fronts, {
        key: shop.key,
        path: 'send',
        headers: { 'idempotency-key': `order-${first + n}` },
        body: shop.body({ recipient, subject, bodyText: text }),
      })
      const isSame = answer === 'accepted' ? status === 202 && replayed && ids.has(body.id ?? '') : status === 429
      if (!isSame)
        broken.push(`quota: ${recipient} was ${answer}, and asked again it is ${status} ${body.code ?? body.id}`)
    }
  }
  return {
    told: load.told,
    over: handIn().then(askAgain),
    breaches: async ({ query }) => {
      const [row] = await query<{ many: number }>(
        `select count(*)::integer many from messages where workspace_id = '${shop.id}'`,
      )
      const refused = load.told.filter(({ answer }) => answer === 'refused').length
      const accepted = row?.many ?? 0
      if (accepted > limit) broken.push(`quota: ${accepted} accepted of a plan of ${limit}`)
      if (accepted < limit && refused > 0)
        broken.push(`quota: ${refused} refused with ${accepted} of ${limit} accepted`)
      return broken
    },
  }
}
