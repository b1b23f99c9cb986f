// A rolling upgrade, tried for real: a node of the release before works on a database under load from REST and SMTP, a node of this one starts beside it
// and migrates that, both go on, then the first one is stopped. The four ledgers of the fault campaign are compared at the end, and nobody has
// struck: whatever is unknown, late or twice is the upgrade's fault. `checkout` is a folder with the release before.
import { setTimeout as wait } from 'node:timers/promises'
import type { Posthorn } from '../world/posthorn.ts'
import { chance } from '../world/random.ts'
import type { Findings } from './check.ts'
import { startLoad, type Load } from './load.ts'
import { onStage } from './stage.ts'

export interface UpgradeOptions {
  readonly checkout: string
  /** In each of the three parts: before and while the new node starts, beside each other, and while the old one stops. */
  readonly messages: number
  readonly seed: number
  readonly say: (words: string) => void
}

export interface UpgradeResult extends Findings {
  /** What the node of the release before complained of while the schema was newer than it. */
  readonly complaints: readonly string[]
  /** What it said to a start on the migrated database. */
  readonly back: string
}

export async function runUpgrade({ checkout, messages, seed, say }: UpgradeOptions): Promise<UpgradeResult> {
  const dice = chance(seed)
  return onStage({ say }, async ({ startNode, openShop, untilQuiet, check }) => {
    const { posthorn: before } = await startNode('before.test', { checkout })
    const { shop, login } = await openShop(before)

    const loads: Load[] = []
    const begin = (nodes: readonly Posthorn[]): Load => {
      const load = startLoad({ shop, nodes, login, messages, first: loads.length * messages, chance: dice })
      loads.push(load)
      load.allow(Math.ceil(messages / 3))
      return load
    }
    const alone = begin([before])
    await alone.reached(Math.ceil(messages / 6))
    const quiet = before.said()
    const starting = startNode('after.test')
    // A stream, so that there is load for as long as the start takes.
    const steady = trickle(alone, messages)
    const { posthorn: after } = await starting
    say(`the new node is ready after ${alone.ended} of ${messages} that were handed to the old one alone`)
    await steady
    await alone.over

    const both = begin([before, after])
    both.allow(messages)
    await both.over
    const complaints = before.said().slice(quiet.length).split('\n').filter(isComplaint)

    const last = begin([before, after])
    await last.reached(Math.ceil(messages / 6))
    const stopped = before.stop()
    last.allow(messages)
    const status = await stopped
    if (status !== 0) complaints.push(`the old node ended with ${status}`)
    await last.over
    say('everything is handed in; waiting until it is quiet')
    await untilQuiet()
    const back = await before.startAgain().then(
      () => 'it runs',
      (error: unknown) => String(error),
    )
    const findings = await check({ told: loads.flatMap(({ told }) => told), faults: [], shop })
    return { ...findings, complaints, back }
  })
}

async function trickle(load: Load, messages: number): Promise<void> {
  for (let upTo = Math.ceil(messages / 3); upTo < messages; upTo += 2) {
    load.allow(upTo)
    await wait(50)
  }
  load.allow(messages)
}

/** Of a log, which is JSON beside the few lines for people. */
const isComplaint = (line: string): boolean =>
  /"level":(?:"(?:warn|error)"|[4-6]0)|fault/.test(line) && !ofReceivers.test(line)
/** What operators are told of the other side, which behaves here as it was told to. */
const ofReceivers = /"what":"(?:policy|deferred|relay login)"/
