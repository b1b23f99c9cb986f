// `posthorn serve`: the database, the migrations, the roles, and everything stopped again in reverse order. Resolves to the exit status.
import { createServer, type Server } from 'node:http'
import { makeScanner } from './accept/accept.ts'
import type { Log } from './base/log.ts'
import { makeMetrics, type Metrics } from './base/metrics.ts'
import { installationKeys } from './base/installation-key.ts'
import { limits, publicUrl, type Settings } from './config.ts'
import { startDeliveryChild, type DeliveryChild } from './delivery-child.ts'
import { makeFirstLogin, makeFirstWorkspace, makeSystemMailbox } from './first-workspace.ts'
import { startRoles } from './node.ts'
import { runsApart } from './roles.ts'
import { over, type Connection } from './store/database.ts'
import { embeddedPostgres } from './store/embedded.ts'
import { openVault } from './store/mac-root.ts'
import { warningsAbout, whyUnfit } from './store/server-facts.ts'
import { welcome } from './welcome.ts'

/** Runs until a signal, or until something that cannot be replaced here has died. */
export async function serve(settings: Settings, log: Log): Promise<number> {
  const end = ending()
  const stops: (() => Promise<void>)[] = []
  /** How long a stop may wait for the database: not at all where it was our own and has died. */
  let databaseMs: number = limits.stopMs
  try {
    const names = settings.POSTHORN_ROLES
    const metrics = makeMetrics('main')
    const connection = await openConnection(settings, log, stops, (error) => {
      databaseMs = 0
      end.fail(error)
    })
    const keys = installationKeys(settings)
    await prepareDatabase(connection, log)
    const vault = await over(connection, (db) => openVault(keys, db))
    const apart = runsApart(settings.POSTHORN_ROLES)
    let child: DeliveryChild | undefined
    if (apart) {
      child = await startDeliveryChild(connection, end.fail)
      stops.push(() => child?.stop(databaseMs) ?? Promise.resolve())
    }
    const here = names.filter((name) => !apart || name !== 'deliver')
    const running = await startRoles(here, { settings, connection, vault, log: metrics.counting(log), metrics })
    // Both processes at once: what one of them waits for is no matter of the other's.
    stops.push(async () => {
      await Promise.all([running.stop(databaseMs), child?.stop(databaseMs)])
    })
    stops.push(await serveMetrics(settings, metrics, child))
    // Last: its key is shown once, and a start that fails would have shown it to nobody.
    const { first, login } = await over(connection, async (db) => {
      const first = await makeFirstWorkspace(db, vault, settings.POSTHORN_HOSTNAME)
      if (settings.POSTHORN_SYSTEM_MAILBOX === undefined) await makeSystemMailbox(db, vault, settings.POSTHORN_HOSTNAME)
      return { first, login: await makeFirstLogin(db, vault) }
    })
    const scanner = makeScanner(settings.POSTHORN_CLAMD) // for its description alone: the role `api` has its own
    log.started({ roles: names.join(','), url: publicUrl(settings) })
    process.stdout.write(
      `${welcome(settings, first, login, scanner.description)}posthorn ready ${publicUrl(settings)}\n`,
    )
    const died = await end.promise
    if (died !== undefined) throw died
    return 0
  } catch (error) {
    log.fault('serve', error)
    process.stderr.write(`posthorn: ${sentence(error)}\n`)
    return 1
  } finally {
    leaveSurely(log)
    for (const stop of stops.toReversed()) await stop().catch((error: unknown) => log.fault('stop', error))
    log.stopped({})
  }
}

/** Ends with a signal (undefined) or with the error of whatever died first. A second signal ends the process at once. */
function ending() {
  let fail: (error: Error) => void = () => undefined
  const promise = new Promise<Error | undefined>((resolve) => {
    fail = resolve
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        resolve(undefined)
        process.once(signal, () => process.exit(130))
      })
    }
  })
  return { promise, fail: (error: Error) => fail(error) }
}

/** Whatever holds up a stop that is long over: a supervisor's patience ends soon, and its kill would leave even PostgreSQL to its watchdog. */
function leaveSurely(log: Log): void {
  const wholeMs = limits.stopMs + limits.postgresStopMs + limits.postgresKillMs + 5_000
  setTimeout(() => {
    log.fault('stop', new Error(`it has not ended within ${wholeMs / 1000} s; what is left is dropped`))
    process.exit(1)
  }, wholeMs).unref()
}

async function openConnection(
  settings: Settings,
  log: Log,
  stops: (() => Promise<void>)[],
  lost: (error: Error) => void,
): Promise<Connection> {
  if (settings.DATABASE_URL !== undefined) return { url: settings.DATABASE_URL }
  const postgres = embeddedPostgres({ dataDir: settings.POSTHORN_DATA_DIR, log, purpose: 'serve', onLost: lost })
  stops.push(() => postgres.stop())
  return (await postgres.start()).connection
}

/** Refuses a server that cannot keep the promise, and migrates. */
async function prepareDatabase(connection: Connection, log: Log): Promise<void> {
  const unfit = await over(connection, whyUnfit)
  if (unfit !== undefined) throw new Error(unfit)
  for (const warning of await over(connection, warningsAbout)) {
    log.fault('database', new Error(warning))
    process.stderr.write(`posthorn: ${warning}\n`)
  }
  const { migrate } = await import('./store/migrate.ts') // only now: the migrator is not needed afterwards
  await migrate(connection)
}

/** Prometheus, on loopback only. */
async function serveMetrics(
  settings: Settings,
  metrics: Metrics,
  child: DeliveryChild | undefined,
): Promise<() => Promise<void>> {
  const server: Server = createServer((request, response) => {
    if (request.url !== '/metrics' || request.method !== 'GET') {
      response.writeHead(404).end()
      return
    }
    Promise.all([metrics.text(), child?.metrics() ?? '']).then(
      (texts) =>
        response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(joined(texts)),
      () => response.writeHead(500).end(),
    )
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(settings.POSTHORN_METRICS_PORT, '127.0.0.1', resolve)
  })
  return () =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
}

/** Two expositions as one: a name's HELP and TYPE may stand only once, before all its samples. */
function joined(texts: readonly string[]): string {
  const families = new Map<string, { head: string[]; samples: string[] }>()
  for (const text of texts) {
    let name = ''
    for (const line of text.split('\n')) {
      if (line === '') continue
      const declared = /^# (?:HELP|TYPE) (\S+)/.exec(line)?.[1]
      if (declared !== undefined) name = declared
      const family = families.get(name) ?? { head: [], samples: [] }
      families.set(name, family)
      if (declared === undefined) family.samples.push(line)
      else if (!family.head.includes(line)) family.head.push(line)
    }
  }
  return [...families.values()].map(({ head, samples }) => [...head, ...samples, ''].join('\n')).join('')
}

/** What the operator reads: one clear sentence. */
function sentence(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, port, address } = error as NodeJS.ErrnoException & { port?: number; address?: string }
  if (code === 'EADDRINUSE')
    return `Port ${port} on ${address} is in use by another program; end it, or set another port (docs/config.md).`
  if (code === 'EACCES' && port !== undefined)
    return `Port ${port} may not be opened by this user; choose one above 1023 (docs/config.md).`
  // Where a name has several addresses, each has an error of its own and the whole has no words.
  const words = error.message || (error instanceof AggregateError ? sentence(error.errors[0]) : error.name)
  if (
    typeof code === 'string' &&
    /^E(?:CONN|HOST|NET|NOTFOUND|AI_AGAIN|NOENT|TIMEDOUT)/.test(code) &&
    error.message !== ''
  )
    return `${words}: the database cannot be reached; look at DATABASE_URL (docs/config.md).`
  return words
}
