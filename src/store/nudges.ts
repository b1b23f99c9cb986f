// Notifications behind the statements that they tell of (docs/decisions/0061). A commit with a notification holds a lock of the whole cluster until it is
// on the disk, so that such commits wait for each other, one disk's turn each. A pool whose commits are many and must last leaves them out, and
// tells behind each statement, in a transaction that waits for no disk. One that was never told (the process died between the two) is found by
// who looks once a second.
import { limits } from '../config.ts'
import type { Connection } from './connection.ts'
import { openDatabase, sql } from './database.ts'

/** `posthorn_due`: mail may be due; `posthorn_webhooks`: a webhook may be. */
export type Nudged = 'posthorn_due' | 'posthorn_webhooks'

export interface Nudges {
  /** For a pool to call behind its statements (`PoolKind.nudge`). It only takes note. */
  of(...channels: readonly Nudged[]): () => void
  /** Waits for what is being told. */
  close(): Promise<void>
}

// Where nobody has an endpoint, nobody listens for long.
const nudge = sql(
  'nudge',
  `select pg_notify(c.name, '') from unnest($1::text[]) c (name)
    where c.name <> 'posthorn_webhooks' or exists (select from webhook_endpoints where state = 'active')`,
)

/** At once where it is quiet; else all that came together, `limits.nudgeSpacingMs` after the last. */
export function makeNudges(connection: Connection): Nudges {
  const db = openDatabase(connection, {
    name: 'posthorn nudges',
    connectionsMax: 1,
    answerMs: limits.databaseAnswerMs,
    mayForget: true,
  })
  const waiting = new Set<Nudged>()
  let telling: Promise<void> | undefined
  const tellAll = async (): Promise<void> => {
    while (waiting.size > 0) {
      const channels = [...waiting]
      waiting.clear()
      // A database that is away hears nothing; whoever listens looks anyway when it is back.
      await db.rows(nudge, [channels]).catch(() => undefined)
      await new Promise((resolve) => setTimeout(resolve, limits.nudgeSpacingMs))
    }
    telling = undefined
  }
  return {
    of:
      (...channels) =>
      () => {
        for (const channel of channels) waiting.add(channel)
        telling ??= tellAll()
      },
    close: async () => {
      await telling
      await db.close()
    },
  }
}
