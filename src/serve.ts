// `posthorn serve`: the database, the migrations, the roles, and everything stopped again in reverse order. Resolves to the exit status.
import { makeScanner } from './accept/accept.ts'
import { staleCertificate } from './base/certificate.ts'
import { tryListening } from './base/listening.ts'
import type { Log } from './base/log.ts'
import { lines, say } from './base/log-lines.ts'
import { usableMemory } from './base/memory.ts'
import { makeMetrics } from './base/metrics.ts'
import { installationKeys } from './base/installation-key.ts'
import type { Vault } from './base/secret.ts'
import { Trouble } from './base/trouble.ts'
import { limits, monitoringUrl, namedListeners, publicUrl, type Settings } from './config.ts'
import { builtDashboard } from './dashboard-build.ts'
import { startDeliveryChild, type DeliveryChild } from './delivery-child.ts'
import { aWorkspace, makeFirstLogin, makeFirstWorkspace, makeSystemMailbox } from './first-workspace.ts'
import { checkMemory, checkSystemMailbox } from './doctor/doctor.ts'
import { knownLabels } from './known-labels.ts'
import { serveMonitoring } from './monitoring.ts'
import { startRoles } from './node.ts'
import { runsApart } from './roles/roles.ts'
import { noDatabase, toldOf } from './start-trouble.ts'
import type { Connection } from './store/connection.ts'
import { over, type Db } from './store/database.ts'
import { embeddedPostgres } from './embedded/embedded.ts'
import { openVault } from './store/mac-root.ts'
import { readStops } from './store/fence.ts'
import { isMailReal } from './store/routes.ts'
import { warningsAbout, whyUnfit } from './store/server-facts.ts'
import { welcome } from './welcome.ts'
import { readSystemSender } from './workspace/workspace.ts'

/**
 * Runs until a signal, or until something that cannot be replaced here has died. A signal during the start ends that. `ready` is called when all of it
 * has started; the service goes on where it fails.
 */
export async function serve(settings: Settings, log: Log, ready: () => void): Promise<number> {
  const end = ending()
  const running: Running = { settings, log, end, stops: [], databaseMs: limits.stopMs }
  try {
    await start(running)
    try {
      ready()
    } catch (error) {
      log.fault('ready', error)
    }
  } catch (error) {
    end.fail(error) // where an end has come already, this is only what giving up has led to
  }
  const died = await end.promise
  if (died !== undefined) {
    const { sentence, plain } = toldOf(died.error, settings.DATABASE_URL === undefined)
    if (!plain) log.fault('serve', died.error)
    say(2, `posthorn: ${sentence}\n`)
  }
  leaveSurely(log)
  for (const stop of running.stops.toReversed()) await stop().catch((error: unknown) => log.fault('stop', error))
  log.stopped({})
  return died === undefined ? 0 : 1
}

/** What is there so far. */
interface Running {
  readonly settings: Settings
  readonly log: Log
  readonly end: Ending
  /** In the order of the start. */
  readonly stops: (() => Promise<void>)[]
  /** How long a stop may wait for the database: not at all where it was our own and has died. */
  databaseMs: number
}

/** Everything, until `posthorn ready`. Each part is given up where an end has come meanwhile, and what stands then is for the stops. */
async function start(running: Running): Promise<void> {
  const { settings, log, end, stops } = running
  const { giveUp } = end
  let started = false
  const hasStarted = () => started
  const names = settings.POSTHORN_ROLES
  const metrics = makeMetrics('main', knownLabels)
  const little = checkMemory(usableMemory())
  if (little.status === 'warn') warn(log, 'memory', little.detail)
  // It may go on: what waits for delivery needs no certificate of ours.
  const stale = names.some((role) => role === 'smtp' || role === 'feedback') && staleCertificate(settings, new Date())
  if (stale) warn(log, 'certificate', stale)
  const dashboard = names.includes('api') ? dashboardFolder(running) : undefined
  // The builder takes 300 MB: on the smallest machines a database and a service leave it less than the pages of its own programs, which are then read
  // from the disk for ever.
  if (little.status === 'warn') await dashboard
  giveUp.throwIfAborted()
  const connection = await openConnection(running)
  const keys = installationKeys(settings)
  const patient = { ...connection, patience: giveUp }
  await prepareDatabase(patient, log)
  const vault = await over(patient, (db) => openVault(keys, db))
  giveUp.throwIfAborted()
  const apart = runsApart(names)
  let child: DeliveryChild | undefined
  if (apart) {
    child = await startDeliveryChild(connection, end.fail, giveUp)
    stops.push(() => child?.stop(running.databaseMs) ?? Promise.resolve())
  }
  await tryListening(namedListeners(settings))
  giveUp.throwIfAborted()
  const here = names.filter((name) => !apart || name !== 'deliver')
  const roles = await startRoles(here, {
    settings,
    connection,
    giveUp,
    vault,
    log: metrics.counting(log),
    metrics,
    dashboard: await dashboard,
    hasStarted,
    ...(child !== undefined && { deliveryState: child.deliveryState }),
  })
  // Both processes at once: what one of them waits for is no matter of the other's.
  stops.push(async () => {
    await Promise.all([roles.stop(running.databaseMs), child?.stop(running.databaseMs)])
  })
  stops.push(await serveMonitoring({ settings, connection, metrics, child, roles, hasStarted }))
  giveUp.throwIfAborted()
  // Last, and to its end once begun: its key is shown once, and a start that fails would have shown it to nobody.
  const {
    first,
    login,
    workspace,
    stops: stopped,
    isReal,
  } = await over(connection, async (db) => {
    const isReal = await isMailReal(db, vault, settings.POSTHORN_ROUTE)
    const first = await makeFirstWorkspace(db, vault, settings.POSTHORN_HOSTNAME)
    if (settings.POSTHORN_SYSTEM_MAILBOX === undefined) await makeSystemMailbox(db, vault, settings.POSTHORN_HOSTNAME)
    if (names.includes('api')) await lookAtSender(db, vault, settings, log)
    const login = await makeFirstLogin(db, vault)
    return { first, login, workspace: await aWorkspace(db, vault), stops: await readStops(db.rows), isReal }
  })
  const scanner = makeScanner(settings.POSTHORN_CLAMD) // for its description alone: the role `api` has its own
  const url = baseUrl(settings)
  log.started({ roles: names.join(','), url })
  const box = welcome(settings, first, login, workspace, scanner.description, stopped, isReal)
  started = true
  lines(2).flush() // what people read stands below the log of the start, and not in the middle of it
  say(1, `${box}posthorn ready ${url}\n`)
}

/** Where this node is found: without the role `api` nothing listens at the address of links, and its health stands beside the metrics. */
const baseUrl = (settings: Settings): string =>
  settings.POSTHORN_ROLES.includes('api') ? publicUrl(settings) : monitoringUrl(settings)

/** Undefined where it cannot be built: mail must go out, with or without a page to look at it. Whoever is delivered to does not wait for a build. */
async function dashboardFolder({ settings, log, end: { giveUp }, stops }: Running): Promise<string | undefined> {
  const built = builtDashboard(settings.POSTHORN_DATA_DIR, (sentence) => say(2, `posthorn: ${sentence}\n`), giveUp)
  stops.push(async () => void (await built.catch(() => undefined))) // no builder is left behind
  try {
    return await built
  } catch (error) {
    if (!giveUp.aborted)
      warn(
        log,
        'dashboard',
        `The dashboard could not be built, and the service goes on without: ${(error as Error).message}`,
      )
    return undefined
  }
}

/** Who waits for a password reset could only wonder. */
async function lookAtSender(db: Db, vault: Vault, settings: Settings, log: Log): Promise<void> {
  const mailbox = settings.POSTHORN_SYSTEM_MAILBOX
  const sender = await readSystemSender({ db, vault, settings })
  if (sender === undefined && mailbox !== undefined) return warn(log, 'notices', noSender(mailbox))
  const { status, detail } = checkSystemMailbox(settings, sender)
  if (status !== 'warn' && status !== 'fail') return
  log.warned('notices', detail)
  say(2, `posthorn: ${detail}\n`)
}

/** It may be made later: what is accepted needs it not. */
const noSender = (mailbox: string): string =>
  `POSTHORN_SYSTEM_MAILBOX names ${mailbox}, and there is no such mailbox: until there is, no password reset, invitation or notice is sent.`

interface Ending {
  /** Resolves with undefined at a signal, or with the error of whatever died first. */
  readonly promise: Promise<Death | undefined>
  /** Fires with it. */
  readonly giveUp: AbortSignal
  readonly fail: (error: unknown) => void
}

interface Death {
  readonly error: unknown
}

/** Of SIGINT and SIGTERM the second ends the process at once, be it the other one: who presses Ctrl-C behind a SIGTERM will not wait. */
function ending(): Ending {
  const controller = new AbortController()
  let resolve: (died: Death | undefined) => void = () => undefined
  const promise = new Promise<Death | undefined>((resolved) => (resolve = resolved))
  const come = (died?: Death) => {
    resolve(died)
    controller.abort()
  }
  let asked = false
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => {
      if (asked) process.exit(130)
      asked = true
      come()
    })
  // A terminal that is closed sends it, its shell once more, and systemd at the end of a session beside its SIGTERM: a stop like any other, and
  // never one in haste.
  process.on('SIGHUP', () => come())
  return { promise, giveUp: controller.signal, fail: (error) => come({ error }) }
}

/** Whatever holds up a stop that is long over: a supervisor's patience ends soon, and its kill would leave even PostgreSQL to its watchdog. */
function leaveSurely(log: Log): void {
  const wholeMs = limits.stopMs + limits.postgresStopMs + limits.postgresKillMs + 5_000
  setTimeout(() => {
    log.fault('stop', new Error(`it has not ended within ${wholeMs / 1000} s; what is left is dropped`))
    process.exit(1)
  }, wholeMs).unref()
}

async function openConnection(running: Running): Promise<Connection> {
  const { settings, log, end, stops } = running
  if (settings.DATABASE_URL !== undefined) return { url: settings.DATABASE_URL }
  const postgres = embeddedPostgres({
    dataDir: settings.POSTHORN_DATA_DIR,
    log,
    purpose: 'serve',
    giveUp: end.giveUp,
    onLost: (error) => {
      running.databaseMs = 0
      end.fail(error)
    },
  })
  stops.push(() => postgres.stop())
  return (await postgres.start()).connection
}

/** What the operator should know, and the start does not fail for. */
function warn(log: Log, what: string, sentence: string): void {
  log.fault(what, sentence)
  say(2, `posthorn: ${sentence}\n`)
}

/** Refuses a server that cannot keep the promise, and migrates. */
async function prepareDatabase(connection: Connection, log: Log): Promise<void> {
  const unfit = await over(connection, whyUnfit).catch((error: unknown) => {
    throw noDatabase(error, !('url' in connection))
  })
  if (unfit !== undefined) throw new Trouble(unfit)
  for (const warning of await over(connection, warningsAbout)) warn(log, 'database', warning)
  const { migrate } = await import('./store/migrate.ts') // only now: the migrator is not needed afterwards
  await migrate(connection, (words) => {
    log.warned('migration', words)
    say(2, `posthorn: ${words}\n`)
  })
}
