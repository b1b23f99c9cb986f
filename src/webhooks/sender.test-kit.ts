// What every test of the sender needs: a database, workspaces with an endpoint, messages that change their state, senders as nodes of
// their own, and receivers; behind each test the senders and receivers are ended, and nothing waits for the next one.
import { afterAll, afterEach } from 'vitest'
import { ok, startWebhookReceiver, type Received, type WebhookReceiver } from '../../test/world/webhook-receiver.ts'
import { makeVault } from '../base/secret.ts'
import { silentLog, type Log } from '../base/log.ts'
import { isRefusal } from '../domain/refusal.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { makeAdmitter } from '../store/admit.ts'
import { openDatabase, type Db } from '../store/database.ts'
import { listen } from '../store/listen.ts'
import { storeWorld, type Sender, type StoreWorld } from '../store/store.test-kit.ts'
import { makePoster, type PosterTools } from './post.ts'
import { makeTargets, makeWebhookDesk, webhookSender, type WebhookDesk, type WebhookTools } from './webhooks.ts'

export const vault = makeVault('a key for the tests of webhooks')
/** Local development: http and private addresses. */
export const anywhere = makeTargets({ POSTHORN_DNS_SERVERS: [], POSTHORN_ALLOW_PRIVATE_WEBHOOKS: true })

interface SenderOptions extends Partial<Omit<WebhookTools, 'poster'>> {
  readonly poster?: Partial<PosterTools>
}

interface WebhookWorld extends StoreWorld {
  readonly desk: WebhookDesk
  readonly lines: { readonly verb: string; readonly facts: Readonly<Record<string, unknown>> }[]
  /** A sender that has not been started. */
  senderNode(options?: SenderOptions): ReturnType<typeof webhookSender>
  /** A running one, stopped by `calm`. */
  started(options?: SenderOptions): Promise<ReturnType<typeof webhookSender>>
  /** A workspace with an endpoint there, and its secret. */
  customer(url: string, events?: readonly string[]): Promise<Sender & { readonly secret: string }>
  /** Accepts messages: one event each. */
  admit(sender: Sender, many?: number, fields?: Readonly<Record<string, unknown>>): Promise<string[]>
  /** Writes a later event of a message, as any writer of events does. */
  event(sender: Sender, messageId: string, sequence: number, type?: string): Promise<void>
  queued(workspace: WorkspaceId): Promise<number>
  /** Until nothing of it waits any more. */
  emptied(sender: Sender, withinMs?: number): Promise<unknown>
  /** Reads again and again until it is so. */
  eventually<T>(read: () => Promise<T> | T, isSo: (value: T) => boolean, withinMs?: number): Promise<T>
  /** Ends all senders. */
  calm(): Promise<void>
}

async function webhookWorld(timeScale: number): Promise<WebhookWorld> {
  const world = await storeWorld()
  const { connection } = world
  const lines: WebhookWorld['lines'] = []
  const log: Log = {
    ...silentLog,
    notified: (facts) => void lines.push({ verb: 'notified', facts }),
    fault: (what, error, facts = {}) => void lines.push({ verb: 'fault', facts: { ...facts, what, error } }),
  }
  const ends: (() => Promise<unknown>)[] = []
  const pool = (connectionsMax: number): Db => {
    const db = openDatabase(connection, { name: 'webhooks', connectionsMax, answerMs: 10_000 })
    ends.unshift(() => db.close())
    return db
  }
  const desk = makeWebhookDesk({ db: world.db, vault, targets: anywhere, timeScale })
  const senderNode: WebhookWorld['senderNode'] = ({ poster: posting = {}, ...changes } = {}) => {
    const poster = makePoster({ targets: anywhere, ...posting })
    ends.unshift(() => poster.close())
    const sender = webhookSender({
      db: pool(2),
      resultDb: pool(1),
      poster,
      vault,
      log,
      version: 'test',
      leaseMs: 30_000,
      timeScale,
      patience: new AbortController().signal,
      onDue: (wake) => listen(connection, 'posthorn_webhooks', wake),
      ...changes,
    })
    ends.unshift(() => sender.stop())
    return sender
  }
  const eventually: WebhookWorld['eventually'] = async (read, isSo, withinMs = 45_000) => {
    const deadline = performance.now() + withinMs
    for (;;) {
      const value = await read()
      if (isSo(value)) return value
      if (performance.now() > deadline)
        throw new Error(`still ${JSON.stringify(value)}; ${JSON.stringify(lines.slice(-5), errorsToo)}`)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  const queued = (workspace: WorkspaceId) =>
    world.value<number>('select count(*)::integer from webhook_queue where workspace_id = $1', [workspace])
  return {
    ...world,
    desk,
    lines,
    senderNode,
    eventually,
    started: async (options) => {
      const sender = senderNode(options)
      await sender.start()
      return sender
    },
    customer: async (url, events) => {
      const sender = await world.sender()
      const wish = { url, ...(events !== undefined && { events }) }
      const endpoint = await desk.set(sender.workspaceId, wish, 'operator:test')
      if (isRefusal(endpoint)) throw new Error(endpoint.words)
      return { ...sender, secret: endpoint.secret ?? '' }
    },
    admit: async (sender, many = 1, fields = {}) => {
      const admitter = makeAdmitter(world.db)
      const rows = Array.from({ length: many }, () => world.submission(sender, fields))
      await Promise.all(rows.map((row) => admitter.admit(row)))
      return rows.map(({ fields: { id } }) => id as string)
    },
    event: async (sender, messageId, sequence, type = 'message.sending') =>
      void (await world.db.run(
        `insert into events (workspace_id, message_id, sequence, type, status, delivery_rank, occurred_at)
         values ($1, $2, $3, $4, 'sending', 0, app_now())`,
        [sender.workspaceId, messageId, sequence, type],
      )),
    queued,
    emptied: ({ workspaceId }, withinMs) =>
      eventually(
        () => queued(workspaceId),
        (many) => many === 0,
        withinMs,
      ),
    calm: async () => {
      for (const end of ends.splice(0)) await end()
    },
  }
}

const errorsToo = (_key: string, value: unknown): unknown => (value instanceof Error ? value.message : value)

export const scale = 100_000
const receivers: WebhookReceiver[] = []
export const world = await webhookWorld(scale)
afterEach(async () => {
  await world.calm()
  for (const receiver of receivers.splice(0)) await receiver.stop()
  await world.db.run('delete from webhook_queue')
  await world.db.run(`update webhook_endpoints set state = 'disabled', reason = 'by_hand' where state = 'active'`)
  world.lines.length = 0
})
afterAll(() => world.close())

export async function receiver(): Promise<WebhookReceiver> {
  const made = await startWebhookReceiver()
  receivers.push(made)
  return made
}

/** A receiver, and a customer whose endpoint it is. */
export async function customerThere(events?: readonly string[]) {
  const there = await receiver()
  return { there, shop: await world.customer(there.url, events) }
}

/** Its first request waits for an answer until `open`. */
export function hanging(there: WebhookReceiver): { open: () => void } {
  const first = { open: (): void => undefined }
  there.answer = (one, response) => {
    there.answer = ok
    first.open = () => ok(one, response)
  }
  return first
}
export const leased = () =>
  world.value<number>('select count(*)::integer from webhook_queue where lease_until is not null')
export const sequences = (all: readonly Received[]) => all.map(({ event }) => event.data.sequence)
export const faults = () => world.lines.filter(({ verb }) => verb === 'fault')
