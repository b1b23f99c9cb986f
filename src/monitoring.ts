// What monitors ask on loopback, of a node with any roles: /metrics for Prometheus, /healthz and /readyz as at the port of the API, which not every
// node has.
import { createServer, type Server } from 'node:http'
import { cannotListen } from './base/listening.ts'
import type { Metrics } from './base/metrics.ts'
import { limits, type Settings } from './config.ts'
import type { DeliveryChild } from './delivery-child.ts'
import { disksOf } from './embedded/embedded.ts'
import type { RunningRoles } from './node.ts'
import { watchReadiness } from './readiness.ts'
import { serverGauges, serverSamples } from './server-samples.ts'
import type { Connection } from './store/connection.ts'
import { openDatabase } from './store/database.ts'

interface Monitored {
  readonly settings: Settings
  readonly connection: Connection
  readonly metrics: Metrics
  readonly child: DeliveryChild | undefined
  readonly roles: Pick<RunningRoles, 'deliveryState'>
  readonly hasStarted: () => boolean
}

interface Page {
  readonly status: number
  readonly type: string
  readonly text: string
}

/** Resolves, to its stop, when it listens. */
export async function serveMonitoring({
  settings,
  connection,
  metrics,
  child,
  roles,
  hasStarted,
}: Monitored): Promise<() => Promise<void>> {
  watchDisks(metrics, settings)
  const db = openDatabase(connection, { name: 'posthorn ready', connectionsMax: 1, answerMs: limits.databaseAnswerMs })
  metrics.measure(serverGauges, () => serverSamples(db, () => new Date()), limits.metricsKeptMs)
  const readiness = watchReadiness(db, roles.deliveryState, hasStarted)
  const json = (status: number, value: object): Page => ({
    status,
    type: 'application/json',
    text: JSON.stringify(value),
  })
  const pages: Readonly<Record<string, () => Promise<Page>>> = {
    '/metrics': async () => ({
      status: 200,
      type: 'text/plain; version=0.0.4; charset=utf-8',
      text: joined(await Promise.all([metrics.text(), child?.metrics() ?? ''])),
    }),
    '/healthz': () => Promise.resolve(json(200, { status: 'ok' })),
    '/readyz': async () => {
      const { ready, ...told } = await readiness()
      return json(ready ? 200 : 503, { status: ready ? 'ready' : 'not_ready', ...told })
    },
  }
  const server: Server = createServer((request, response) => {
    // A scraper may add parameters of its own.
    const page = pages[request.url?.split('?')[0] ?? '']
    if (page === undefined || !['GET', 'HEAD'].includes(request.method ?? '')) {
      response.writeHead(404).end()
      return
    }
    page().then(
      ({ status, type, text }) => response.writeHead(status, { 'content-type': type }).end(text),
      () => response.writeHead(500).end(),
    )
  })
  await new Promise<void>((resolve, reject) => {
    const at = { host: '127.0.0.1', port: settings.POSTHORN_METRICS_PORT, from: { port: 'POSTHORN_METRICS_PORT' } }
    server.once('error', (error) => reject(cannotListen('metrics', at, error)))
    server.listen(at.port, at.host, resolve)
  })
  return async () => {
    await new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
    await db.close()
  }
}

/** By the main process: a node has one data folder. */
function watchDisks(metrics: Metrics, { POSTHORN_DATA_DIR: folder, DATABASE_URL: url }: Settings): void {
  const gauges = {
    posthorn_disk_free_bytes: {
      help: 'Room on the disks that hold the data folder and an embedded database.',
      label: 'folder',
    },
    posthorn_disk_size_bytes: { help: 'Size of these disks.', label: 'folder' },
  } as const
  const read = async () =>
    (await disksOf(folder, url === undefined)).flatMap((disk) => [
      { name: 'posthorn_disk_free_bytes', label: disk.folder, value: disk.freeBytes },
      { name: 'posthorn_disk_size_bytes', label: disk.folder, value: disk.bytes },
    ])
  metrics.measure(gauges, read, limits.disksKeptMs)
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
