// A fault campaign: the whole service as two nodes under load from REST and SMTP, a receiving mail server with a ledger of its own, a wire to
// PostgreSQL for each node, rough wires to everybody else, a nemesis, and small stories beside the load (beside/). When everything is quiet again, four ledgers are compared (check.ts): what the callers were told,
// the database, the receiver's, and what the webhook's owner got. docs/faults.md says how to read what it prints.
import { chance } from '../world/random.ts'
import { accessRevoked } from './beside/access.ts'
import { dkimKeyReplaced, secondDkimKeySigns } from './beside/dkim-key.ts'
import { installationKeyRotated } from './beside/installation-key.ts'
import { plansAtTheirLimit } from './beside/quota.ts'
import { workspaceRemoved } from './beside/removal.ts'
import { oldMailForgotten } from './beside/retention.ts'
import type { Beside, Scene } from './beside/scene.ts'
import { suppressionsMeanwhile } from './beside/suppressions.ts'
import { webhookSecretRotated } from './beside/webhook-secret.ts'
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

/** What goes on beside the load. */
const stories: readonly ((scene: Scene) => Promise<Beside>)[] = [
  plansAtTheirLimit,
  suppressionsMeanwhile,
  workspaceRemoved,
  accessRevoked,
  webhookSecretRotated,
  dkimKeyReplaced,
  secondDkimKeySigns,
]
/** They restart nodes and make tables, which takes its time. */
const longStories = [installationKeyRotated, oldMailForgotten]
const longFromKills = 6

export async function runCampaign({ kills, messages, seed, say }: CampaignOptions): Promise<CampaignResult> {
  const began = performance.now()
  const dice = chance(seed)
  return onStage({ announce: true, rough: seed, say }, async (stage) => {
    const { primary, receiver, startNode, openShop, open, smooth, befell, untilQuiet, check } = stage
    const settings = { POSTHORN_LEASE_SECONDS: String(leaseMs / 1_000) }
    const fighter = async (name: string) => {
      return { name, ...(await startNode(name, { settings })), settings, up: true, back: Promise.resolve() }
    }
    const nodes = [await fighter('one.test'), await fighter('two.test')] as const satisfies readonly Node[]
    const { shop, login } = await openShop(nodes[0].posthorn)
    say(`two nodes are up after ${seconds(began)} s; seed ${seed}`)

    const fronts = nodes.map(({ front }) => front)
    const load = startLoad({ shop, nodes: fronts, login, messages, chance: dice })
    let turn: Promise<unknown> = Promise.resolve()
    /** What is done to the nodes is done one after the other. */
    const inTurn = (work: () => Promise<void>): Promise<void> => {
      const done = turn.then(work)
      turn = done.catch(() => undefined)
      return done
    }
    const calm = Promise.withResolvers<void>()
    const beside: Beside[] = []
    for (const [n, story] of [...stories, ...(kills < longFromKills ? [] : longStories)].entries())
      beside.push(
        await story({
          ...stage,
          shop,
          fronts,
          messages,
          chance: chance(seed * 100 + n),
          query: (text) => primary.query(text),
          open: (options) => open(nodes[0].posthorn, options),
          deploy: (changed) => inTurn(() => nemesis.deploy(changed)),
          at: (part) => (part < 1 ? load.reached(Math.floor(part * messages)) : calm.promise),
        }),
      )
    const nemesis = makeNemesis({
      nodes,
      primary,
      receiver,
      chance: dice,
      leaseMs,
      say: (words) => say(`${seconds(began)} s, ${load.ended} of ${messages}: ${words}`),
    })
    for (const { over } of beside) over.catch(() => undefined) // told at the end
    // Each round has its share of the messages, so that there is load until the last one.
    const share = messages / (kills + 1)
    for (let n = 0; n < kills; n++) {
      load.allow(Math.ceil((n + 1) * share))
      await load.reached(Math.floor(n * share))
      await inTurn(nemesis.round)
    }
    load.allow(messages)
    await nemesis.peace()
    await load.over
    calm.resolve()
    say(`${seconds(began)} s: the load is over; waiting for what goes on beside it`)
    await Promise.all(beside.map(({ over }) => over))
    smooth()
    say(`${seconds(began)} s: everything is handed in; waiting until it is quiet`)

    await untilQuiet()
    return {
      ...(await check({ told: load.told, beside, faults: nemesis.faults, shop })),
      faults: nemesis.faults,
      befell: befell(),
      seconds: seconds(began),
    }
  })
}

const seconds = (since: number): number => Math.round((performance.now() - since) / 100) / 10
