// The delivery role in a process of its own, beside the one that serves HTTP. It is told its database over the channel to its parent, and
// ends with it: when the channel closes, the parent is gone, and what was claimed here is for the reaper.
import { makeLog } from './base/log.ts'
import { makeMetrics } from './base/metrics.ts'
import { installationKeys } from './base/installation-key.ts'
import { readSettings } from './config.ts'
import { startRoles, type RunningRoles } from './node.ts'
import { over, type Connection } from './store/database.ts'
import { openVault } from './store/mac-root.ts'

/** What parent and child say to each other. */
export type ToChild =
  | { readonly say: 'start'; readonly connection: Connection }
  | { readonly say: 'stop'; readonly databaseMs: number }
  | { readonly say: 'metrics' }
export type FromChild =
  | { readonly say: 'ready' }
  | { readonly say: 'failed'; readonly why: string }
  | { readonly say: 'metrics'; readonly text: string }

const settings = readSettings(process.env)
const log = makeLog(settings.POSTHORN_LOG_LEVEL)
const metrics = makeMetrics('deliver')
let running: RunningRoles | undefined

const tell = (message: FromChild): void => void process.send?.(message)

async function start(connection: Connection): Promise<void> {
  const vault = await over(connection, (db) => openVault(installationKeys(settings), db))
  running = await startRoles(['deliver'], { settings, connection, vault, log: metrics.counting(log), metrics })
  tell({ say: 'ready' })
}

async function stop(databaseMs: number): Promise<void> {
  await running?.stop(databaseMs)
  process.exit(0)
}

process.on('message', (message: ToChild) => {
  if (message.say === 'start')
    start(message.connection).catch((error: unknown) => {
      tell({ say: 'failed', why: error instanceof Error ? error.message : String(error) })
      log.fault('start', error)
      process.exitCode = 1
      process.disconnect()
    })
  else if (message.say === 'metrics') void metrics.text().then((text) => tell({ say: 'metrics', text }))
  else
    stop(message.databaseMs).catch((error: unknown) => {
      log.fault('stop', error)
      process.exit(1)
    })
})
process.on('disconnect', () => process.exit(process.exitCode ?? 1))
// Ctrl-C reaches the whole terminal group; the parent decides when we stop.
process.on('SIGINT', () => undefined)
process.on('SIGTERM', () => undefined)
