// The delivery role in a process of its own, beside the one that serves HTTP. It is told its database over the channel to its parent, and
// ends with it: when the channel closes, the parent is gone, and what was claimed here is for the reaper.
import { makeLog } from './base/log.ts'
import { lines } from './base/log-lines.ts'
import { makeMetrics } from './base/metrics.ts'
import { installationKeys } from './base/installation-key.ts'
import { readSettings } from './config.ts'
import type { OwnStop } from './domain/delivery-stop.ts'
import { knownLabels } from './known-labels.ts'
import { startRoles, type RunningRoles } from './node.ts'
import { toldOf } from './start-trouble.ts'
import type { Connection } from './store/connection.ts'
import { over } from './store/database.ts'
import { openVault } from './store/mac-root.ts'

/** What parent and child say to each other. */
export type ToChild =
  | { readonly say: 'start'; readonly connection: Connection }
  | { readonly say: 'stop'; readonly databaseMs: number }
  | { readonly say: 'metrics' }
  | { readonly say: 'answer' }
export type FromChild =
  | { readonly say: 'ready' }
  | { readonly say: 'failed'; readonly why: string; readonly plain: boolean }
  | { readonly say: 'metrics'; readonly text: string }
  | { readonly say: 'here'; readonly ownStop: OwnStop | undefined }

const settings = readSettings(process.env)
const log = makeLog(settings.POSTHORN_LOG_LEVEL)
const metrics = makeMetrics('deliver', knownLabels)
const givingUp = new AbortController()
let starting: Promise<void> = Promise.resolve()
let running: RunningRoles | undefined

const tell = (message: FromChild): void => void process.send?.(message)

/** At once, but for the moments of a start. */
function hereAs(): void {
  const said = running?.deliveryState() ?? Promise.resolve({ ownStop: undefined })
  void said.then(({ ownStop }) => tell({ say: 'here', ownStop }))
}

async function start(connection: Connection): Promise<void> {
  const giveUp = givingUp.signal
  const vault = await over({ ...connection, patience: giveUp }, (db) => openVault(installationKeys(settings), db))
  giveUp.throwIfAborted()
  running = await startRoles(['deliver'], { settings, connection, giveUp, vault, log: metrics.counting(log), metrics })
  lines(2).flush() // above what the start prints
  tell({ say: 'ready' })
}

/** What has started is stopped like any other time: it may have claimed already. */
async function stop(databaseMs: number): Promise<void> {
  givingUp.abort()
  await starting
  await running?.stop(databaseMs)
  process.exit(0)
}

process.on('message', (message: ToChild) => {
  if (message.say === 'start')
    starting = start(message.connection).catch((error: unknown) => {
      if (givingUp.signal.aborted) return
      const { sentence, plain } = toldOf(error, !('url' in message.connection))
      tell({ say: 'failed', why: sentence, plain })
      if (!plain) log.fault('start', error)
      process.exitCode = 1
      process.disconnect()
    })
  else if (message.say === 'metrics') void metrics.text().then((text) => tell({ say: 'metrics', text }))
  else if (message.say === 'answer') hereAs()
  else
    stop(message.databaseMs).catch((error: unknown) => {
      log.fault('stop', error)
      process.exit(1)
    })
})
process.on('disconnect', () => process.exit(process.exitCode ?? 1))
// Ctrl-C, and a terminal that is closed, reach the whole terminal group; the parent decides when we stop.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
