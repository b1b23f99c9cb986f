// The role `webhooks`: the sender. It runs beside the API in the main process, and in a process of its own where an operator starts one with
// `--roles webhooks` (docs/decisions/0012).
import { limits, version } from '../config.ts'
import { closeAll, type Role, type RoleTools } from './role.ts'
import { openDatabase, type PoolKind } from '../store/database.ts'
import { listen } from '../store/listen.ts'
import type { makePoster, Poster, PosterTools } from '../webhooks/post.ts'
import { makeTargets, webhookSender } from '../webhooks/webhooks.ts'

export function webhooks({ settings, connection, patience, vault, log, metrics }: RoleTools): Role {
  const open = (what: string, connectionsMax: number, waits: Pick<PoolKind, 'lockMs'> = {}) =>
    openDatabase(connection, { name: `posthorn ${what}`, connectionsMax, answerMs: 30_000, ...waits })
  const db = open('webhooks', 2)
  const resultDb = open('webhook results', 1, { lockMs: limits.lockMs })
  const poster = posterWhenNeeded({ targets: makeTargets(settings) })
  const sender = webhookSender({
    db,
    resultDb,
    poster,
    vault,
    log,
    version,
    leaseMs: settings.POSTHORN_LEASE_SECONDS * 1000,
    timeScale: settings.POSTHORN_TIME_SCALE,
    patience,
    onDue: (wake) => listen(connection, 'posthorn_webhooks', wake),
  })
  metrics.watch(
    'posthorn_webhooks_in_flight',
    'Webhook events that this process has claimed and not finished.',
    () => sender.inFlight,
  )
  return { services: [sender], closing: [() => poster.close(), ...closeAll(db, resultDb)] }
}

/** The HTTP client takes 30 MB of memory; most installations have no endpoint on their first day. What could not be loaded (no file was left) is loaded by the next. */
export function posterWhenNeeded(
  tools: PosterTools,
  load: () => Promise<{ readonly makePoster: typeof makePoster }> = () => import('../webhooks/post.ts'),
): Poster {
  let made: Promise<Poster> | undefined
  const making = () =>
    (made ??= load().then(
      (client) => client.makePoster(tools),
      (error: unknown) => {
        made = undefined
        throw error
      },
    ))
  return {
    post: async (post) => {
      const poster = await making().catch((error: Error) => error.message)
      if (typeof poster !== 'string') return poster.post(post)
      return { durationMs: 0, trouble: 'connect_failed', lack: `the HTTP client cannot be loaded (${poster})` }
    },
    giveUp: () => void made?.then((poster) => poster.giveUp()).catch(() => undefined),
    close: async () => (await made?.catch(() => undefined))?.close(),
  }
}
