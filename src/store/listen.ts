// Notifications of PostgreSQL, over a connection that is for nothing else.
import type { Client } from 'pg'
import { limits } from '../config.ts'
import { clientOf, linesOf, type Connection } from './connection.ts'
import { asking, clientOptions, sql, type Ask } from './database.ts'
import { CommitsHang, readOnlyWhileCommitsHang } from './hanging-commits.ts'

const stillThere = sql('still-there', 'select')

/**
 * A connection of its own that hears notifications, and comes back by itself after a loss. `heard` is also called after each reconnect, then
 * without a payload; it may ask on the very connection, for what belongs to the session. A host that is gone, or a network that drops everything,
 * closes no connection: only a question without an answer tells.
 */
export function listen(
  connection: Connection,
  channel: string,
  heard: (ask: Ask, payload?: string) => void,
  { pulseMs, answerMs }: { readonly pulseMs: number; readonly answerMs: number } = limits.listening,
): { stop(): Promise<void> } {
  let client: Client | undefined
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  const lines = linesOf(connection)

  const connect = async (): Promise<void> => {
    const fresh = clientOf({
      stream: lines.stream,
      ...clientOptions(connection, { name: `posthorn ${channel}`, connectionsMax: 1, answerMs }),
      connectionTimeoutMillis: limits.databaseWaitMs,
      query_timeout: answerMs + 500,
    })
    client = fresh
    fresh.on('error', () => undefined)
    const ask: Ask = (statement, values) =>
      asking(fresh)(statement, values).catch((error: unknown) => {
        // It would only read for as long as it lives.
        if (error instanceof CommitsHang) void drop()
        throw error
      }) as never
    fresh.on('notification', ({ payload }) => heard(ask, payload))
    fresh.on('end', () => {
      clearTimeout(timer)
      if (!stopped && client === fresh) timer = setTimeout(() => void connect(), 250).unref()
    })
    const drop = () => fresh.end().catch(() => undefined)
    const watch = (): void => {
      if (stopped) return
      timer = setTimeout(() => void ask(stillThere).then(watch, drop), pulseMs).unref()
    }
    try {
      await fresh.connect()
      await readOnlyWhileCommitsHang(fresh)
      await fresh.query(`listen ${channel}`)
      watch()
      heard(ask)
    } catch {
      await drop()
    }
  }
  void connect()
  return {
    stop: async () => {
      stopped = true
      clearTimeout(timer)
      await lines.ended(client?.end().catch(() => undefined) ?? Promise.resolve())
    },
  }
}
