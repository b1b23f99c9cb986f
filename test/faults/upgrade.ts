// A rolling upgrade, tried for real: a node of the release before works on a database under load from REST and SMTP, a node of this one starts beside it
// and migrates that, both go on, then the first one is stopped. The four ledgers of the fault campaign are compared at the end, and nobody has
// struck: whatever is unknown, late or twice is the upgrade's fault. `checkout` is a folder with the release before.
import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { startCluster } from '../world/postgres-cluster.ts'
import { startDnsServer } from '../world/dns-server.ts'
import { startPostgresProxy } from '../world/postgres-proxy.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { chance } from '../world/random.ts'
import { startReceiver } from '../world/receiver-process.ts'
import { startWebhookReceiver } from '../world/webhook-receiver.ts'
import { untilQuiet } from './campaign.ts'
import { checkLedgers, type Findings } from './check.ts'
import { destinations, startLoad, type Load, type Login } from './load.ts'

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
  const ends: (() => Promise<unknown>)[] = []
  const made = async <T>(start: Promise<T>, end: (thing: T) => Promise<unknown>): Promise<T> => {
    const thing = await start
    ends.unshift(() => end(thing))
    return thing
  }
  try {
    const cluster = await made(startCluster(), (it) => it.remove())
    const receiver = await made(startReceiver({ content: true }), (it) => it.stop())
    const hook = await made(startWebhookReceiver(), (it) => it.stop())
    const proxy = await made(startPostgresProxy(cluster.primary), (it) => it.stop())
    const zone = Array.from({ length: destinations }, (_, n) => [`d${n}.example`, { a: ['127.0.0.1'] }] as const)
    const dns = await made(startDnsServer(Object.fromEntries(zone)), (it) => it.stop())
    const secret = randomBytes(32).toString('base64')
    const startNode = (name: string, from?: string): Promise<Posthorn> =>
      made(
        startPosthorn({
          ...(from !== undefined && { checkout: from }),
          database: { url: `postgres://postgres@127.0.0.1:${proxy.port}/postgres` },
          settings: {
            POSTHORN_SECRET_KEY: secret,
            POSTHORN_HOSTNAME: name,
            POSTHORN_ROUTE: 'mx',
            POSTHORN_DNS_SERVERS: dns.address,
            POSTHORN_MX_PORT: String(receiver.port),
            POSTHORN_ALLOW_PRIVATE_MX: 'true',
            POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true',
            POSTHORN_TIME_SCALE: '120',
          },
        }),
        (it) => it.remove(),
      )
    const before = await startNode('before.test', checkout)
    const shop = await before.workspace({ plan: { hourly: 10_000_000, daily: 10_000_000, monthly: 10_000_000 } })
    const login = await before.cli<Login>('smtp-credential', 'create', shop.id, '--name', 'campaign')
    const endpoint = await before.cli<{ secret: string }>('webhook', 'set', shop.id, '--url', hook.url)
    hook.secrets.push(endpoint.secret)

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
    const after = await starting
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
    await untilQuiet((text) => cluster.primary.query(text))
    const back = await before.startAgain().then(
      () => 'it runs',
      (error: unknown) => String(error),
    )
    const findings = await checkLedgers({
      told: loads.flatMap(({ told }) => told),
      faults: [],
      shop,
      receiver,
      hook,
      query: (text) => cluster.primary.query(text),
    })
    return { ...findings, complaints, back }
  } finally {
    for (const end of ends) await end().catch((error: unknown) => say(`could not clean up: ${String(error)}`))
  }
}

async function trickle(load: Load, messages: number): Promise<void> {
  for (let upTo = Math.ceil(messages / 3); upTo < messages; upTo += 2) {
    load.allow(upTo)
    await wait(50)
  }
  load.allow(messages)
}

/** Of a log, which is JSON beside the few lines for people. */
const isComplaint = (line: string): boolean => /"level":(?:"(?:warn|error)"|[4-6]0)|fault/.test(line)
