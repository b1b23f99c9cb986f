// Whether a node can do its work (operating contract, /readyz): its database answers and takes writes, its delivery process answers.
import { remembered } from './base/remembered.ts'
import { limits } from './config.ts'
import { ownStops, silentDelivery, type NodeStop } from './domain/delivery-stop.ts'
import type { DeliveryState } from './roles/role.ts'
import { awayInShort } from './store/database-away.ts'
import { answeredWithin, type Db } from './store/database.ts'
import { readStops } from './store/fence.ts'
import { whyNothingIsWritten } from './store/server-facts.ts'

export interface Readiness {
  readonly ready: boolean
  readonly detail: Readonly<Record<string, string>>
  /** Why this node alone delivers nothing, whatever stops all of them. */
  readonly nodeStop?: NodeStop
}

/**
 * Strangers may ask as often as they like: whoever comes while a question is under way shares it, so that the database hears one at a time.
 */
export function watchReadiness(
  db: Db,
  deliveryState: () => Promise<DeliveryState>,
  hasStarted: () => boolean = () => true,
): () => Promise<Readiness> {
  const ask = remembered(() => readinessOf(db, deliveryState, hasStarted), { keepMs: () => 0, most: 1 })
  return () => ask('')
}

async function readinessOf(
  db: Db,
  deliveryState: () => Promise<DeliveryState>,
  hasStarted: () => boolean,
): Promise<Readiness> {
  const [known, { answers, ownStop }] = await Promise.all([databaseState(db), deliveryState()])
  const own = ownStop === undefined ? [] : [`node: ${ownStops[ownStop]}`]
  const delivery = answers ? known.stops && sentenceOf([...known.stops, ...own]) : silentDelivery
  const nodeStop = answers ? ownStop : 'silent'
  const started = hasStarted()
  // Acceptance goes on while delivery is stopped: mail is kept, and waits.
  return {
    ready: known.ready && answers && started,
    detail: {
      database: known.database,
      ...(delivery !== undefined && { delivery }),
      ...(!started && { start: 'not at its end yet' }),
    },
    ...(nodeStop !== undefined && { nodeStop }),
  }
}

const sentenceOf = (stops: readonly string[]): string =>
  stops.length === 0 ? 'not stopped' : `stopped (${stops.join(', ')})`

/** Whether it can be worked with, and what stops delivery, which an operator must know. */
async function databaseState(db: Db): Promise<{ ready: boolean; database: string; stops?: readonly string[] }> {
  // One after the other: where PostgreSQL has no connection to spare, one is enough.
  const ask = async () => [await readStops(db.rows), await whyNothingIsWritten(db.rows)] as const
  const [stops, closed] = await answeredWithin(limits.readyMs, ask()).catch(
    (error: unknown) => [undefined, awayInShort(error)] as const,
  )
  if (stops === undefined) return { ready: false, database: closed }
  const said = stops.map(({ kind, reason }) => `${kind}: ${reason}`)
  return { ready: closed === undefined, database: closed ?? 'reachable', stops: said }
}
