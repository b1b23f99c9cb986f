// A fault campaign: the whole service as two nodes under load from REST and SMTP, a receiving mail server with a ledger of its own, a wire to
// PostgreSQL for each node, rough wires to everybody else, and a nemesis. When everything is quiet again, four ledgers are compared (check.ts): what the callers were told,
// the database, the receiver's, and what the webhook's owner got. docs/faults.md says how to read what it prints.
import { chance } from '../world/random.ts'
import type { Findings } from './check.ts'
import { startLoad } from './load.ts'
import { makeNemesis, type Fault, type Node } from './nemesis.ts'
import { onStage } from './stage.ts'

export interface CampaignOptions {
  readonly kills: number
  readonly messages: number
  readonly seed: number
  /** What happens, as it happens. */
  readonly say: (words: string) => void
}

export interface CampaignResult extends Findings {
  readonly faults: readonly Fault[]
  /** On rough wires. */
  readonly befell: ReadonlyMap<string, number>
  readonly seconds: number
}

const leaseMs = 3_000

export async function runCampaign({ kills, messages, seed, say }: CampaignOptions): Promise<CampaignResult> {
  const began = performance.now()
  const dice = chance(seed)
  return onStage({ announce: true, rough: seed, say }, async (stage) => {
    const { primary, receiver, startNode, openShop, smooth, befell, untilQuiet, check } = stage
    const settings = { POSTHORN_LEASE_SECONDS: String(leaseMs / 1_000) }
    const fighter = async (name: string) => {
      return { name, ...(await startNode(name, { settings })), up: true, back: Promise.resolve() }
    }
    const nodes = [await fighter('one.test'), await fighter('two.test')] as const satisfies readonly Node[]
    const { shop, login } = await openShop(nodes[0].posthorn)
    say(`two nodes are up after ${seconds(began)} s; seed ${seed}`)

    const load = startLoad({ shop, nodes: nodes.map(({ front }) => front), login, messages, chance: dice })
    const { faults, round, peace } = makeNemesis({
      nodes,
      primary,
      receiver,
      chance: dice,
      leaseMs,
      say: (words) => say(`${seconds(began)} s, ${load.ended} of ${messages}: ${words}`),
    })
    // Each round has its share of the messages, so that there is load until the last one.
    const share = messages / (kills + 1)
    for (let n = 0; n < kills; n++) {
      load.allow(Math.ceil((n + 1) * share))
      await load.reached(Math.floor(n * share))
      await round()
    }
    load.allow(messages)
    await peace()
    await load.over
    smooth()
    say(`${seconds(began)} s: everything is handed in; waiting until it is quiet`)

    await untilQuiet()
    return { ...(await check({ told: load.told, faults, shop })), faults, befell: befell(), seconds: seconds(began) }
  })
}

const seconds = (since: number): number => Math.round((performance.now() - since) / 100) / 10
