// A line that has died in silence: a firewall forgot it, the server's machine vanished and another has its address. Whoever asks over it waits as long as for a
// slow statement, half a minute, while the database lives. The server tells the two apart: over another line it is asked what the session behind this one does.
import { setTimeout as wait } from 'node:timers/promises'
import type { ClientBase } from 'pg'
import { afterPoll } from '../base/after-poll.ts'
import { limits } from '../config.ts'
import { clientOf, linesOf, serverOf, type Connection } from './connection.ts'

/** What the driver does not tell in its types. */
interface Inside {
  readonly processID?: number | null
  readonly connection?: { readonly stream?: { readonly bytesRead: number; destroy(): void } }
}

const look = `select from pg_stat_activity where pid = $1 and state is distinct from 'idle'`

/**
 * Watches over the lines of one pool: returns what to call when the answer has come. A line without an answer for `limits.silentLineMs`, whose session has
 * nothing under way, is ended; the question fails as on any line that breaks, and nobody knows whether it was executed.
 */
export function watchSilence(connection: Connection): (client: ClientBase) => () => void {
  let looking: Promise<unknown> = Promise.resolve()

  /** True also where that cannot be learned. */
  const isBusy = async (pid: number): Promise<boolean> => {
    const lines = linesOf(connection)
    const client = clientOf({
      ...serverOf(connection),
      application_name: 'posthorn silence',
      stream: lines.stream,
      connectionTimeoutMillis: limits.databaseWaitMs,
      query_timeout: limits.databaseAnswerMs,
    })
    client.on('error', () => undefined)
    try {
      await client.connect()
      return (await client.query(look, [pid])).rowCount !== 0
    } catch {
      return true
    } finally {
      await lines.ended(client.end().catch(() => undefined))
    }
  }

  /** One connection more at a time, however many lines are silent. */
  const inTurn = (work: () => Promise<boolean>): Promise<boolean> => {
    const done = looking.then(work)
    looking = done.catch(() => undefined)
    return done
  }

  return (client) => {
    const { processID: pid, connection: { stream } = {} } = client as unknown as Inside
    if (typeof pid !== 'number' || stream === undefined) return () => undefined
    let answered = false
    let timer: NodeJS.Timeout | undefined
    const later = (): void => {
      if (!answered) timer = setTimeout(() => void judge(), limits.silentLineMs).unref()
    }
    const judge = async (): Promise<void> => {
      const heard = stream.bytesRead
      if (await inTurn(() => (answered ? Promise.resolve(true) : isBusy(pid)))) return later()
      // Its answer may be on the way.
      await wait(limits.silentLineAnswerMs, undefined, { ref: false })
      await afterPoll()
      if (answered) return
      if (stream.bytesRead > heard) return later()
      stream.destroy()
    }
    later()
    return () => {
      answered = true
      clearTimeout(timer)
    }
  }
}
