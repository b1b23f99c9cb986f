// A world for tests of the delivery loop: deliverers over a real database of their own and real sockets, what is submitted to them, and what
// became of it.
import { generateKeyPairSync } from 'node:crypto'
import type { Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Client } from 'pg'
import { expect } from 'vitest'
import { startPostgresProxy } from '../../test/world/postgres-proxy.ts'
import type { Receiver } from '../../test/world/receiver-process.ts'
import { parseRoute, settingTable, type Route } from '../config.ts'
import { silentLog, type Log } from '../base/log.ts'
import { makeVault, sealedAs } from '../base/secret.ts'
import type { EmbeddedConnection } from '../embedded/embedded.ts'
import type { MessageId } from '../domain/message.ts'
import { makeAdmitter } from '../store/admit.ts'
import { openDatabase, type Db } from '../store/database.ts'
import { listen } from '../store/listen.ts'
import { makeRecorder } from '../store/outbound.ts'
import { openRoute } from '../store/routes.ts'
import { openStoreWorld, type Sender } from '../store/store.test-kit.ts'
import { deliverer, makeTransmitter, type DeliverTools } from './deliver.ts'
import { memoryJournal, openGate } from './fence.test-kit.ts'
import { startPeer, withoutPipelining, type Peer, type Script } from './peer.test-kit.ts'

export const vault = makeVault('a key for the tests of the deliverer')
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()

/** Longer than a busy disk is likely to stand still: whoever is alive keeps it. */
export const leaseMs = 4_000
export const patienceMs = 5 * leaseMs
/** So long that a busy machine has several seconds for each heartbeat: for whoever keeps a lease past where it would have ended. */
export const longLeaseMs = 3 * leaseMs
/**
 * For what waits until a lease is over: the node rests as in life, and does not look every 20 ms for what is due, as one does whose retries come at once.
 */
export const calm = { leaseMs, timeScale: 1 }

export const relay = ({ port }: { readonly port: number }): Route => parseRoute(`smtp://127.0.0.1:${port}`)

/** The route of a workspace that has its own. */
export const ownRelay = (peer: { readonly port: number }) => relay(peer) as Route & { readonly kind: 'relay' }

type Deliverer = ReturnType<typeof deliverer>
export type DeliverWorld = Awaited<ReturnType<typeof deliverWorld>>

/** `receiver`: where mail goes that has no route of its own. Others may use it as well. */
export async function deliverWorld(receiver: Receiver) {
  const world = await openStoreWorld()
  /** One for all, so that however many are submitted at once share its batches. */
  const admitter = makeAdmitter(world.db)
  const mark = await world.node()
  const { host, port, user, password, database } = await world.session()
  const connection: EmbeddedConnection = {
    host,
    port,
    user: user ?? '',
    password: password ?? '',
    database: database ?? '',
  }
  const ends: (() => Promise<unknown>)[] = []
  const holders: Client[] = []
  const lines: { what: string; facts: Readonly<Record<string, unknown>> }[] = []
  const log: Log = {
    ...silentLog,
    attempted: (facts) => void lines.push({ what: 'attempted', facts }),
    warned: (what, _, facts = {}) => void lines.push({ what, facts }),
    fault: (what, error, facts = {}) => void lines.push({ what, facts: { ...facts, error } }),
  }
  const faults = () => lines.filter(({ what }) => what !== 'attempted').map(({ what }) => what)

  function pool(connectionsMax: number, to: EmbeddedConnection = connection, waitMs?: number, answerMs = 10_000): Db {
    const db = openDatabase(to, { name: 'deliver', connectionsMax, answerMs, ...(waitMs && { waitMs }) })
    ends.unshift(() => db.close()) // after the services
    return db
  }

  const toReceiver = () =>
    makeTransmitter({
      hostname: 'out.test',
      timeoutScale: 1,
      mxPort: 25,
      sandboxPort: () => receiver.port,
      dnsServers: [],
      allowPrivateMx: false,
    })

  /** A deliverer that is stopped after the test. Every pool of it is its own. */
  function deliver(changes: Partial<DeliverTools> = {}): Deliverer {
    const [db, armDb, finishDb] = [pool(2), pool(1), pool(1)]
    const service = deliverer({
      db,
      leaseDb: changes.db ?? pool(1),
      recorder: makeRecorder(armDb, finishDb, mark),
      gate: openGate(),
      journal: memoryJournal(),
      transmitter: toReceiver(),
      vault,
      log,
      leaseMs: 30_000,
      timeScale: 1e6,
      retrySchedule: settingTable.POSTHORN_RETRY_SCHEDULE.fallback,
      patience: new AbortController().signal,
      route: relay(receiver),
      openRoute: (workspace, sealed) => openRoute(vault, workspace, sealed),
      onDue: (wake) => listen(connection, 'posthorn_due', wake),
      ...changes,
    })
    ends.push(() => service.stop())
    return service
  }

  async function started(changes: Partial<DeliverTools> = {}): Promise<Deliverer> {
    const service = deliver(changes)
    await service.start()
    return service
  }

  async function peerOf(script: Script = {}): Promise<Peer> {
    const peer = await startPeer(script)
    ends.unshift(() => peer.stop()) // after the services that speak to it
    return peer
  }

  /** One that says nothing there but what the test writes into the sockets that it holds. */
  async function peerThatHolds(at: 'RCPT' | 'dot'): Promise<{ readonly peer: Peer; readonly held: Socket[] }> {
    const held: Socket[] = []
    const hold = (socket: Socket) => void held.push(socket)
    return { held, peer: await peerOf(at === 'dot' ? { dot: hold } : { EHLO: withoutPipelining, RCPT: hold }) }
  }

  /** A workspace that can sign. */
  async function senderOf(route?: Route & { readonly kind: 'relay' }): Promise<Sender> {
    const sender = await world.sender()
    const name = await world.value<string>('select name from domains where id = $1', [sender.domainId])
    await world.db.run(
      `insert into dkim_key_pairs (workspace_id, domain_id, selector, algorithm, public_key, private_key_sealed)
     values ($1, $2, 's1', 'rsa-sha256', 'x', $3)`,
      [sender.workspaceId, sender.domainId, vault.seal(pem, sealedAs.dkimKey(sender.workspaceId, name))],
    )
    if (route !== undefined)
      await world.db.run('update workspaces set route_sealed = $2 where id = $1', [
        sender.workspaceId,
        vault.seal(`smtp://${route.host}:${route.port}`, sealedAs.route(sender.workspaceId)),
      ])
    return sender
  }

  let count = 0
  async function submit(
    sender: Sender,
    local: string,
    fields: Record<string, unknown> = {},
    n = 1,
  ): Promise<MessageId[]> {
    const rows = Array.from({ length: n }, () => {
      const recipient = `${local}+${++count}@example.org`
      return world.submission(sender, { recipient, recipient_key: recipient, ...fields })
    })
    const answers = await Promise.all(rows.map((row) => admitter.admit(row)))
    expect(answers.every(({ admitted }) => admitted)).toBe(true)
    return rows.map(({ fields: { id } }) => id as MessageId)
  }
  const one = async (sender: Sender, local: string, fields: Record<string, unknown> = {}): Promise<MessageId> =>
    (await submit(sender, local, fields))[0] as MessageId

  /** With a file that is as large as is said, and holds an octet. */
  function withFile(sender: Sender, size: number, fields: Record<string, unknown> = {}): Promise<MessageId> {
    const blob = world.nextId()
    const files = [{ position: 0, filename: 'a.bin', content_type: 'application/octet-stream', size, blob }]
    return one(sender, 'ok', { files, chunks: [{ blob, bytes: 'YQ==' }], ...fields })
  }

  const statusOf = (id: MessageId) => world.value<string>('select status from messages where id = $1', [id])
  /** Looks again and again until it is so, the more seldom the longer it has waited: a look is a question to the database, and some wait for a lease. */
  async function eventually<T>(read: () => Promise<T> | T, isSo: (value: T) => boolean, withinMs = 30_000): Promise<T> {
    const began = performance.now()
    for (;;) {
      const value = await read()
      if (isSo(value)) return value
      const waitedMs = performance.now() - began
      if (waitedMs > withinMs)
        throw new Error(
          `still ${JSON.stringify(value)}; ${JSON.stringify(lines.slice(-5), (_, v: unknown) => (v instanceof Error ? v.message : v))}`,
        )
      await setTimeout(Math.min(50, 3 + waitedMs / 20))
    }
  }
  const becomes = (id: MessageId, status: string, withinMs?: number) =>
    eventually(
      () => statusOf(id),
      (now) => now === status,
      withinMs,
    )
  const comesTo = <T>(read: () => Promise<T> | T, wanted: T) => eventually(read, (value) => value === wanted)
  const reaches = (read: () => Promise<number> | number, least: number) => eventually(read, (value) => value >= least)
  /** Waits until so many are there, and no more. */
  const arrived = (them: readonly unknown[], many: number) => comesTo(() => them.length, many)
  const types = async (id: MessageId) =>
    (await world.history(id)).map((line) => line.split(' ')[1]?.replace('message.', ''))
  const facts = (id: MessageId) =>
    world.value<Record<string, unknown>>(
      'select facts from events where message_id = $1 order by sequence desc limit 1',
      [id],
    )
  const queueRow = async (id: MessageId) =>
    (
      await world.db.run<Record<string, unknown>>(
        'select *, lease_until > app_now() held from outbound where message_id = $1',
        [id],
      )
    )[0]
  /** What it still holds after the test is let go. */
  async function holding(text: string, values?: unknown[]): Promise<Client> {
    const holder = await world.holding(text, values)
    holders.push(holder)
    return holder
  }

  /** Past the dot, by the receiver's own book. */
  const receipts = async (id: MessageId) =>
    (await receiver.ledger()).filter(({ messageId }) => messageId.includes(id)).length

  /** The session that waits for a lock of this one. */
  async function waitsFor(holder: Client): Promise<number> {
    const pid = (holder as unknown as { processID: number }).processID
    const text = 'select pid from pg_stat_activity where $1::integer = any (pg_blocking_pids(pid)) limit 1'
    const [blocked] = await eventually(
      () => world.db.run<{ pid: number }>(text, [pid]),
      (rows) => rows.length > 0,
    )
    return blocked?.pid ?? 0
  }
  /** Ends it: its statement is lost, as on a cut line. */
  const endWhoWaitsFor = async (holder: Client) =>
    world.db.run('select pg_terminate_backend($1)', [await waitsFor(holder)])

  /** A worker whose way to the database can be cut and held. */
  async function startedBehindProxy() {
    const proxy = await startPostgresProxy(connection)
    ends.unshift(() => proxy.stop())
    const sender = await senderOf()
    // Who waits for a line gives up no sooner than who waits for an answer: longer than an outage here lasts.
    const db = pool(2, { ...connection, host: '127.0.0.1', port: proxy.port }, 10_000)
    await started({ ...calm, db })
    return { proxy, sender }
  }

  /** The way to the database of a node whose reaper can be watched. */
  function watchedReaper() {
    const db = pool(2, connection, undefined, 60_000) // a wait for a lock that ended there would be an outage
    let hear = (): void => undefined
    const rows: Db['rows'] = async (statement, values) => {
      const told = hear // only of what is asked from now on
      const answer = await db.rows<never>(statement, values)
      if (statement.name === 'reap' && values?.[2] === true) told()
      return answer
    }
    return {
      db: { ...db, rows },
      /** Resolves when the reaper has looked, from now on, believing that whoever has armed is dead when his lease is over. */
      believes: () => new Promise<void>((resolve) => void (hear = resolve)),
    }
  }

  /** Resolves when this end of a lease lies behind the database. */
  const isOver = (until: unknown) =>
    eventually(
      () => world.value<boolean>('select app_now() > $1', [until]),
      (over) => over,
      2 * longLeaseMs,
    )

  /** After an outage: what is armed and nobody's is left alone for so long, while others are delivered. */
  async function waitsItsLease(sender: Sender, orphan: MessageId, leastMs: number): Promise<void> {
    const healed = Date.now()
    await becomes(await one(sender, 'ok'), 'sent')
    await becomes(orphan, 'delivery_unknown', patienceMs)
    // Not by when it is seen here: on a busy machine a mail may take longer to be sent than a lease lasts.
    const ended = await world.value<Date>('select finished_at from messages where id = $1', [orphan])
    expect(ended.getTime() - healed).toBeGreaterThan(leastMs)
  }

  /** Ends what a test has started, and lets go what it holds. */
  const settle = async () => {
    for (const holder of holders.splice(0)) await holder.query('rollback')
    for (const end of ends.splice(0).toReversed()) await end()
  }
  return {
    world,
    connection,
    mark,
    lines,
    faults,
    pool,
    toReceiver,
    started,
    deliver,
    peerOf,
    peerThatHolds,
    senderOf,
    submit,
    one,
    withFile,
    statusOf,
    eventually,
    becomes,
    comesTo,
    reaches,
    arrived,
    types,
    facts,
    queueRow,
    holding,
    receipts,
    waitsFor,
    endWhoWaitsFor,
    startedBehindProxy,
    watchedReaper,
    isOver,
    waitsItsLease,
    /** After the services that use it. */
    endAfter: (end: () => Promise<unknown>) => void ends.unshift(end),
    /** As it was before: for the next test. */
    clear: async () => {
      await settle()
      await world.db.run('delete from outbound')
      await world.db.run('delete from destination_limits')
      lines.length = 0
    },
    close: async () => {
      await settle()
      await world.close()
    },
  }
}
