// A fault campaign: the whole service as two nodes under load from REST and SMTP, a receiving mail server with a ledger of its own, a wire to
// PostgreSQL for each node, and a nemesis. When everything is quiet again, four ledgers are compared (check.ts): what the callers were told,
// the database, the receiver's, and what the webhook's owner got. docs/faults.md says how to read what it prints.
import { randomBytes } from 'node:crypto'
import { startCluster } from '../world/postgres-cluster.ts'
import { startDnsServer } from '../world/dns-server.ts'
import { startPostgresProxy } from '../world/postgres-proxy.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { chance } from '../world/random.ts'
import { startReceiver } from '../world/receiver-process.ts'
import { startWebhookReceiver } from '../world/webhook-receiver.ts'
import { checkLedgers, type Findings } from './check.ts'
import { destinations, startLoad, type Login } from './load.ts'
import { makeNemesis, type Fault, type Node } from './nemesis.ts'

export interface CampaignOptions {
  readonly kills: number
  readonly messages: number
  readonly seed: number
  /** What happens, as it happens. */
  readonly say: (words: string) => void
}

export interface CampaignResult extends Findings {
  readonly faults: readonly Fault[]
  readonly seconds: number
}

const leaseMs = 3_000
const quietMs = 180_000

export async function runCampaign({ kills, messages, seed, say }: CampaignOptions): Promise<CampaignResult> {
  const began = performance.now()
  const dice = chance(seed)
  const ends: (() => Promise<unknown>)[] = []
  const made = async <T>(start: Promise<T>, end: (thing: T) => Promise<unknown>): Promise<T> => {
    const thing = await start
    ends.unshift(() => end(thing))
    return thing
  }
  try {
    const cluster = await made(startCluster(), (it) => it.remove())
    const receiver = await made(startReceiver({ announce: true, content: true }), (it) => it.stop())
    const hook = await made(startWebhookReceiver(), (it) => it.stop())
    const zone = Object.fromEntries(
      Array.from({ length: destinations }, (_, n) => [`d${n}.example`, { a: ['127.0.0.1'] }]),
    )
    const dns = await made(startDnsServer(zone), (it) => it.stop())
    const secret = randomBytes(32).toString('base64')
    const startNode = async (name: string): Promise<Node> => {
      const proxy = await made(startPostgresProxy(cluster.primary), (it) => it.stop())
      const posthorn = await made(
        startPosthorn({
          database: { url: `postgres://postgres@127.0.0.1:${proxy.port}/postgres` },
          settings: {
            POSTHORN_SECRET_KEY: secret,
            POSTHORN_HOSTNAME: name,
            POSTHORN_ROUTE: 'mx',
            POSTHORN_DNS_SERVERS: dns.address,
            POSTHORN_MX_PORT: String(receiver.port),
            POSTHORN_ALLOW_PRIVATE_MX: 'true',
            POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true',
            POSTHORN_LEASE_SECONDS: String(leaseMs / 1_000),
            POSTHORN_TIME_SCALE: '120',
          },
        }),
        (it: Posthorn) => it.remove(),
      )
      return { name, posthorn, proxy, up: true, back: Promise.resolve() }
    }
    const nodes = [await startNode('one.test'), await startNode('two.test')] as const
    const front = nodes[0].posthorn
    const shop = await front.workspace({ plan: { hourly: 10_000_000, daily: 10_000_000, monthly: 10_000_000 } })
    const login = await front.cli<Login>('smtp-credential', 'create', shop.id, '--name', 'campaign')
    const endpoint = await front.cli<{ secret: string }>('webhook', 'set', shop.id, '--url', hook.url)
    hook.secrets.push(endpoint.secret)
    say(`two nodes are up after ${seconds(began)} s; seed ${seed}`)

    const load = startLoad({ shop, nodes: nodes.map(({ posthorn }) => posthorn), login, messages, chance: dice })
    const { faults, round, peace } = makeNemesis({
      nodes,
      primary: cluster.primary,
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
    say(`${seconds(began)} s: everything is handed in; waiting until it is quiet`)

    await untilQuiet((text) => cluster.primary.query(text))
    const findings = await checkLedgers({
      told: load.told,
      faults,
      shop,
      receiver,
      hook,
      query: (text) => cluster.primary.query(text),
    })
    return { ...findings, faults, seconds: seconds(began) }
  } finally {
    for (const end of ends) await end().catch((error: unknown) => say(`could not clean up: ${String(error)}`))
  }
}

const stillOpen = `select (select count(*)::integer from outbound) + (select count(*)::integer from webhook_queue) "left"`

/** Nothing is left to send or to post, or three minutes are over: what is still open then is found by the checker. */
export async function untilQuiet(ask: (text: string) => Promise<{ left: number }[]>): Promise<void> {
  const deadline = Date.now() + quietMs
  for (;;) {
    const [row] = await ask(stillOpen)
    if (row?.left === 0 || Date.now() > deadline) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const seconds = (since: number): number => Math.round((performance.now() - since) / 100) / 10
