// Where campaigns and upgrades take place: a PostgreSQL of its own, a receiver and a webhook's owner with ledgers, name servers for the recipients'
// domains, nodes with a wire to the database each, and a workspace that may send as much as it likes.
import { randomBytes } from 'node:crypto'
import { startCluster, type ClusterServer } from '../world/postgres-cluster.ts'
import { startDnsServer } from '../world/dns-server.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPostgresProxy, type PostgresProxy } from '../world/postgres-proxy.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'
import { allKinds, startRoughWire, type RoughWire, type RoughWireOptions } from '../world/rough-wire.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../world/webhook-receiver.ts'
import { checkLedgers, type Findings, type Ledgers } from './check.ts'
import { destinations, type Login } from './load.ts'

const quietMs = 180_000
const stillOpen = `select (select count(*)::integer from outbound) + (select count(*)::integer from webhook_queue) "left"`

export interface Stage {
  readonly primary: ClusterServer
  readonly receiver: Receiver
  readonly startNode: (
    name: string,
    options?: NodeOptions,
  ) => Promise<{ readonly posthorn: Posthorn; readonly proxy: PostgresProxy; readonly front: Front }>
  /** Made by this node; its webhook is the one of the ledger. */
  readonly openShop: (front: Posthorn) => Promise<{ readonly shop: JourneyWorkspace; readonly login: Login }>
  /** Nothing befalls a connection any more. */
  readonly smooth: () => void
  /** What befell connections to the receiver, to the webhook's owner, and of the callers. */
  readonly befell: () => ReadonlyMap<string, number>
  /** Nothing is left to send or to post, or three minutes are over: what is still open then is found by the checker. */
  readonly untilQuiet: () => Promise<void>
  readonly check: (told: Pick<Ledgers, 'told' | 'faults' | 'shop'>) => Promise<Findings>
}

/** Where callers reach a node. */
export type Front = Pick<Posthorn, 'url' | 'smtpPort'>

interface NodeOptions {
  readonly settings?: Readonly<Record<string, string>>
  /** The checkout that it runs from. */
  readonly checkout?: string
}

interface StageOptions {
  readonly announce?: boolean
  /** The seed by which the wires to the receiver, to the webhook's owner and from the callers are rough. Left out: they are not. */
  readonly rough?: number
  readonly say: (words: string) => void
}

/** A program that closes its side after half a request is told that it is none, rightly. */
const ofCallers = { chance: 0.04, kinds: allKinds.filter(({ kind }) => kind !== 'half') }

export async function onStage<T>(
  { announce = false, rough, say }: StageOptions,
  play: (stage: Stage) => Promise<T>,
): Promise<T> {
  const ends: (() => Promise<unknown>)[] = []
  const made = async <Thing>(start: Promise<Thing>, end: (thing: Thing) => Promise<unknown>): Promise<Thing> => {
    const thing = await start
    ends.unshift(() => end(thing))
    return thing
  }
  try {
    const { primary } = await made(startCluster(), (it) => it.remove())
    const receiver = await made(startReceiver({ announce, content: true }), (it) => it.stop())
    const hook: WebhookReceiver = await made(startWebhookReceiver(), (it) => it.stop())
    const zone = Array.from({ length: destinations }, (_, n) => [`d${n}.example`, { a: ['127.0.0.1'] }] as const)
    const dns = await made(startDnsServer(Object.fromEntries(zone)), (it) => it.stop())
    const secret = randomBytes(32).toString('base64')
    const wires: RoughWire[] = []
    /** The port of a rough wire to this one. */
    const behindWire = async (port: number, options: Omit<RoughWireOptions, 'seed'>): Promise<number> => {
      if (rough === undefined) return port
      const seed = rough * 10 + wires.length
      const wire = await made(startRoughWire(port, { ...options, seed }), (it) => it.stop())
      wires.push(wire)
      return wire.port
    }
    const mxPort = await behindWire(receiver.port, { chance: 0.07 })
    const hookPort = await behindWire(hook.port, { chance: 0.04 })
    return await play({
      primary,
      receiver,
      startNode: async (name, { settings = {}, checkout } = {}) => {
        const proxy = await made(startPostgresProxy(primary), (it) => it.stop())
        const posthorn = await made(
          startPosthorn({
            ...(checkout !== undefined && { checkout }),
            database: { url: `postgres://postgres@127.0.0.1:${proxy.port}/postgres` },
            settings: {
              POSTHORN_SECRET_KEY: secret,
              POSTHORN_HOSTNAME: name,
              POSTHORN_ROUTE: 'mx',
              POSTHORN_DNS_SERVERS: dns.address,
              POSTHORN_MX_PORT: String(mxPort),
              POSTHORN_ALLOW_PRIVATE_MX: 'true',
              POSTHORN_ALLOW_PRIVATE_WEBHOOKS: 'true',
              POSTHORN_TIME_SCALE: '120',
              ...settings,
            },
          }),
          (it) => it.remove(),
        )
        const url = new URL(posthorn.url)
        url.port = String(await behindWire(Number(url.port), ofCallers))
        return { posthorn, proxy, front: { url: url.origin, smtpPort: await behindWire(posthorn.smtpPort, ofCallers) } }
      },
      openShop: async (front) => {
        const shop = await front.workspace({ plan: { hourly: 10_000_000, daily: 10_000_000, monthly: 10_000_000 } })
        const login = await front.cli<Login>('smtp-credential', 'create', shop.id, '--name', 'campaign')
        const endpoint = await front.cli<{ secret: string }>(
          'webhook',
          'set',
          shop.id,
          '--url',
          hook.url.replace(`:${hook.port}/`, `:${hookPort}/`),
        )
        hook.secrets.push(endpoint.secret)
        return { shop, login }
      },
      untilQuiet: async () => {
        const deadline = Date.now() + quietMs
        for (;;) {
          const [row] = await primary.query<{ left: number }>(stillOpen)
          if (row?.left === 0 || Date.now() > deadline) return
          await new Promise((resolve) => setTimeout(resolve, 200))
        }
      },
      smooth: () => wires.forEach((wire) => wire.smooth()),
      befell: () => {
        const all = new Map<string, number>()
        for (const [what, times] of wires.flatMap(({ befell }) => [...befell]))
          all.set(what, (all.get(what) ?? 0) + times)
        return all
      },
      check: (told) => {
        const torn = wires[0]?.unanswered ?? new Set()
        return checkLedgers({ ...told, torn, receiver, hook, query: (text) => primary.query(text) })
      },
    })
  } finally {
    for (const end of ends) await end().catch((error: unknown) => say(`could not clean up: ${String(error)}`))
  }
}
