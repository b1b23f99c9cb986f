// Where campaigns and upgrades take place: a PostgreSQL of its own, a receiver and a webhook's owner with ledgers, name servers for the recipients'
// domains, nodes with a wire to the database each, and a workspace that may send as much as it likes.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { startCluster, type ClusterServer } from '../world/postgres-cluster.ts'
import { startDnsServer, type Name } from '../world/dns-server.ts'
import type { JourneyWorkspace } from '../world/journey-workspace.ts'
import { startPostgresProxy, type PostgresProxy } from '../world/postgres-proxy.ts'
import { startPosthorn, type Posthorn } from '../world/posthorn.ts'
import { startReceiver, type Receiver } from '../world/receiver-process.ts'
import { allKinds, startRoughWire, type RoughWire, type RoughWireOptions } from '../world/rough-wire.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../world/webhook-receiver.ts'
import { checkLedgers, type Findings, type Ledgers } from './check.ts'
import { destinations, type Login } from './load.ts'
import { unrestBehind } from './unrest.ts'

const binary = fileURLToPath(new URL('../../bin/posthorn', import.meta.url))
const nobody: ReadonlySet<string> = new Set()
const noLimit = 10_000_000
const quietMs = 180_000

export interface Stage {
  readonly primary: ClusterServer
  readonly receiver: Receiver
  readonly startNode: (
    name: string,
    options?: NodeOptions,
  ) => Promise<{ readonly posthorn: Posthorn; readonly proxy: PostgresProxy; readonly front: Front }>
  /** Made by this node; its webhook is the one of the ledger. */
  readonly openShop: (front: Posthorn) => Promise<Opened>
  /** Another workspace, without a webhook. */
  readonly open: (front: Posthorn, options?: Opening) => Promise<Opened>
  /** A command, as it is given on a node's machine, over a wire that nobody cuts; killed after so long where it is said. */
  readonly operator: (words: readonly string[], options?: CommandOptions) => Promise<Commanded>
  readonly hook: WebhookReceiver
  /** What the name servers say. */
  readonly zone: Record<string, Name>
  /** Installation keys: the nodes have the first, and accept the next. */
  readonly keys: Readonly<Record<'first' | 'next' | 'other', string>>
  /** Nothing befalls a connection any more. */
  readonly smooth: () => void
  /** What befell connections to the receiver, to the webhook's owner, and of the callers. */
  readonly befell: () => ReadonlyMap<string, number>
  /** Nothing is left to send or to post, or three minutes are over: `check` tells what should not be open then (unrest.ts). */
  readonly untilQuiet: () => Promise<void>
  readonly check: (told: Pick<Ledgers, 'told' | 'beside' | 'faults' | 'shop'>) => Promise<Findings>
}

export interface Opened {
  readonly shop: JourneyWorkspace
  readonly login: Login
}

/** Its key has these scopes, or may send. */
export interface Opening {
  readonly monthly?: number
  readonly scopes?: readonly string[]
}

interface CommandOptions {
  readonly killAfterMs?: number | undefined
  readonly settings?: Readonly<Record<string, string>>
}

export interface Commanded {
  /** Null: it was killed. */
  readonly status: number | null
  /** On standard output and standard error. */
  readonly said: string
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

async function openWorkspace(front: Posthorn, { monthly = noLimit, scopes }: Opening = {}): Promise<Opened> {
  const shop = await front.workspace({ plan: { hourly: noLimit, daily: noLimit, monthly }, ...(scopes && { scopes }) })
  const [login] = await front.commands<[Login]>(['smtp-credential', 'create', shop.id, '--name', 'campaign'])
  return { shop, login }
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
    const [first, next, other] = Array.from({ length: 3 }, () => randomBytes(32).toString('base64')) as [
      string,
      string,
      string,
    ]
    const deskWire = await made(startPostgresProxy(primary), (it) => it.stop())
    const databaseBehind = ({ port }: PostgresProxy) => `postgres://postgres@127.0.0.1:${port}/postgres`
    const nodes: Posthorn[] = []
    const wires: RoughWire[] = []
    let unrest: readonly string[] = []
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
      hook,
      zone: dns.zone,
      keys: { first, next, other },
      primary,
      receiver,
      startNode: async (name, { settings = {}, checkout } = {}) => {
        const proxy = await made(startPostgresProxy(primary), (it) => it.stop())
        const posthorn = await made(
          startPosthorn({
            ...(checkout !== undefined && { checkout }),
            database: { url: databaseBehind(proxy) },
            settings: {
              POSTHORN_SECRET_KEY: first,
              POSTHORN_SECRET_KEYS_ACCEPTED: next,
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
        nodes.push(posthorn)
        const url = new URL(posthorn.url)
        url.port = String(await behindWire(Number(url.port), ofCallers))
        return { posthorn, proxy, front: { url: url.origin, smtpPort: await behindWire(posthorn.smtpPort, ofCallers) } }
      },
      open: openWorkspace,
      openShop: async (front) => {
        const scopes = ['mail.send', 'mail.status.read', 'webhooks.write', 'domains.read', 'domains.write']
        const opened = await openWorkspace(front, { scopes })
        const endpoint = await front.cli<{ secret: string }>(
          'webhook',
          'set',
          opened.shop.id,
          '--url',
          hook.url.replace(`:${hook.port}/`, `:${hookPort}/`),
        )
        hook.secrets.push(endpoint.secret)
        return opened
      },
      operator: (words, { killAfterMs, settings } = {}) => {
        const env = { ...nodes[0]?.env, ...settings, DATABASE_URL: databaseBehind(deskWire) }
        const kill = killAfterMs === undefined ? {} : { timeout: killAfterMs, killSignal: 'SIGKILL' as const }
        return new Promise((resolve) => {
          const child = execFile(binary, [...words, '--json'], { env, ...kill }, (_error, stdout, stderr) =>
            resolve({ status: child.exitCode, said: stdout + stderr }),
          )
        })
      },
      untilQuiet: async () => {
        unrest = await unrestBehind(quietMs, (text) => primary.query(text))
        for (const words of unrest) say(words)
      },
      smooth: () => wires.forEach((wire) => wire.smooth()),
      befell: () => {
        const all = new Map<string, number>()
        for (const [what, times] of wires.flatMap(({ befell }) => [...befell]))
          all.set(what, (all.get(what) ?? 0) + times)
        return all
      },
      check: async (told) => {
        const { unanswered: torn = nobody, everTorn = nobody } = wires[0] ?? {}
        const found = await checkLedgers({
          ...told,
          torn,
          everTorn,
          receiver,
          hook,
          query: (text) => primary.query(text),
        })
        return { ...found, breaches: [...unrest, ...found.breaches] }
      },
    })
  } finally {
    for (const end of ends) await end().catch((error: unknown) => say(`could not clean up: ${String(error)}`))
  }
}
