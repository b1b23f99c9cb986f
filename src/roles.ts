// What this binary can be. Each role is a list of services in the order of their start; `serve` runs them all, `serve --roles api,deliver`
// some. Rooms are joined here and nowhere else.
import { availableParallelism } from 'node:os'
import { absentScanner, builtInScanner, makeAccept } from './accept/accept.ts'
import type { Log } from './base/log.ts'
import type { Metrics } from './base/metrics.ts'
import type { Vault } from './base/secret.ts'
import type { Service } from './base/service.ts'
import { limits, parseRoute, publicUrl, type RoleName, type Route, type Settings } from './config.ts'
import { deliverer, makeTransmitter } from './deliver/deliver.ts'
import { httpServer } from './http/server.ts'
import { sandboxServer } from './smtp/sandbox.ts'
import { makeAdmitter } from './store/admit.ts'
import { stageBlob } from './store/blobs.ts'
import { isDatabaseAway, listen, openDatabase, type Connection, type Db } from './store/database.ts'
import { keepHouse } from './store/housekeeping.ts'
import { makeIds } from './store/message-id.ts'
import { makeRecorder } from './store/outbound.ts'
import { makeSandboxInbox } from './store/sandbox.ts'
import { isReachable } from './store/server-facts.ts'
import { readRecord, readStatus } from './store/views/message-status.ts'
import { makeAuthenticator } from './workspace/workspace.ts'

export interface RoleTools {
  readonly settings: Settings
  readonly connection: Connection
  readonly vault: Vault
  readonly log: Log
  readonly metrics: Metrics
}

/** Something that a role opened and that is closed after its services have stopped. */
type Closing = () => Promise<void> | void

export interface Role {
  readonly services: readonly Service[]
  readonly closing: readonly Closing[]
}

/** The roles that this release has; the others of the operating contract come with theirs. */
export const roles = { api, deliver } satisfies Partial<Record<RoleName, (tools: RoleTools) => Role>>

export function isBuilt(name: RoleName): name is keyof typeof roles {
  return name in roles
}

/** A second core is worth a process of its own for delivery: signing and HTTP parsing then do not wait for each other (performance.md 9). */
export function runsApart(names: readonly RoleName[]): boolean {
  return names.includes('deliver') && names.some((name) => name !== 'deliver' && isBuilt(name)) && availableParallelism() > 1
}

function api({ settings, connection, log, metrics }: RoleTools): Role {
  const admitDb = openDatabase(connection, { name: 'posthorn accept', connectionsMax: 2, answerMs: limits.databaseAnswerMs })
  const readDb = openDatabase(connection, { name: 'posthorn read', connectionsMax: 4, answerMs: limits.databaseAnswerMs })
  const stageDb = openDatabase(connection, { name: 'posthorn stage', connectionsMax: 2, answerMs: 30_000, durable: false })
  const ids = makeIds(readDb)
  const authenticator = makeAuthenticator({ db: readDb, publicUrl: publicUrl(settings), log })
  const heard = listen(connection, 'posthorn_access', () => authenticator.forget())
  const accept = makeAccept({
    ids,
    admitter: makeAdmitter(admitDb),
    scanner: scannerOf(settings),
    hostname: settings.POSTHORN_HOSTNAME,
    log,
    stage: (id, bytes) => stageBlob(stageDb, id, bytes),
    readRecord: (workspace, id) => readRecord(readDb, workspace, id),
  })
  const http = httpServer({
    host: settings.POSTHORN_HTTP_HOST,
    port: settings.POSTHORN_HTTP_PORT,
    publicUrl: publicUrl(settings),
    trustProxy: settings.POSTHORN_TRUST_PROXY,
    log,
    metrics: metrics.http,
    isDatabaseAway,
    doors: {
      authenticate: (secret) => authenticator.authenticate(secret),
      accept,
      readStatus: (workspace, id) => readStatus(readDb, workspace, id),
      ready: async () => {
        const reachable = await isReachable(readDb)
        return { ready: reachable, detail: { database: reachable ? 'reachable' : 'not reachable' } }
      },
    },
  })
  return {
    services: [starting('ids', () => ids.synchronize()), http],
    closing: [() => ids.stop(), () => heard.stop(), ...closeAll(admitDb, readDb, stageDb)],
  }
}

function deliver({ settings, connection, vault, log, metrics }: RoleTools): Role {
  const open = (what: string, connectionsMax: number) =>
    openDatabase(connection, { name: `posthorn ${what}`, connectionsMax, answerMs: 30_000 })
  const queueDb = open('deliver', 4)
  const armDb = open('arm', 1)
  const finishDb = open('finish', 1)
  const inboxDb = open('sandbox', 1)
  const sandbox = sandboxServer({ keep: makeSandboxInbox(inboxDb), log })
  const transmitter = makeTransmitter({
    hostname: settings.POSTHORN_HOSTNAME,
    timeoutScale: settings.POSTHORN_SMTP_TIMEOUT_SCALE,
    mxPort: settings.POSTHORN_MX_PORT,
    sandboxPort: () => sandbox.port(),
    dnsServers: settings.POSTHORN_DNS_SERVERS,
    allowPrivateMx: settings.POSTHORN_ALLOW_PRIVATE_MX,
  })
  const service = deliverer({
    db: queueDb,
    recorder: makeRecorder(armDb, finishDb),
    transmitter,
    vault,
    log,
    leaseMs: settings.POSTHORN_LEASE_SECONDS * 1000,
    timeScale: settings.POSTHORN_TIME_SCALE,
    route: settings.POSTHORN_ROUTE,
    openRoute: routeOpener(vault),
    onDue: (wake) => listen(connection, 'posthorn_due', wake),
  })
  metrics.watch('posthorn_messages_in_flight', 'Messages that this process has claimed and not finished.', () => service.inFlight)
  // The sandbox starts before the workers and stops after them.
  return {
    services: [sandbox, service, housekeeper(queueDb, log)],
    closing: closeAll(queueDb, armDb, finishDb, inboxDb),
  }
}

function scannerOf(settings: Settings) {
  return settings.POSTHORN_CLAMD === undefined ? builtInScanner : absentScanner
}

/** Routes of workspaces, opened once each. */
function routeOpener(vault: Vault): (workspaceId: string, sealed: Buffer) => Route {
  const opened = new Map<string, Route>()
  return (workspaceId, sealed) => {
    const name = `${workspaceId} ${sealed.toString('base64')}`
    const known = opened.get(name)
    if (known !== undefined) return known
    if (opened.size >= limits.principalsMax) opened.clear()
    const route = parseRoute(vault.open(sealed, `route:${workspaceId}`))
    opened.set(name, route)
    return route
  }
}

/** Work that must be done once before what follows can start. */
function starting(name: string, work: () => Promise<void>): Service {
  return { name, start: work, stop: () => Promise.resolve() }
}

function housekeeper(db: Db, log: Log): Service {
  let timer: NodeJS.Timeout | undefined
  const work = () => void keepHouse(db).catch((error: unknown) => log.fault('housekeeping', error))
  return {
    name: 'housekeeping',
    start: () => {
      timer ??= setInterval(work, limits.housekeepingMs)
      return Promise.resolve()
    },
    stop: () => {
      clearInterval(timer)
      timer = undefined
      return Promise.resolve()
    },
  }
}

function closeAll(...databases: readonly Db[]): Closing[] {
  return databases.map((db) => () => db.close())
}
