// While a synchronous standby is away every question is answered and no commit ends. A session that waits for one stays with the server until the standby is
// back, however soon its line is given up here, and with each new line one more would: all that a server has, within minutes. So a line that is opened
// where a commit of ours hangs only reads: what would be written there fails at once, and what hangs is never more than the pools have lines.
import type { ClientBase } from 'pg'
import { limits } from '../config.ts'

/** A session of ours waits for a synchronous standby, and has done so for longer than that takes. */
export const commitsHang = `exists (select from pg_stat_activity a where a.wait_event = 'SyncRep' and a.usename = session_user
  and a.state_change < clock_timestamp() - interval '${limits.commitsWaitMs} milliseconds')`

/** What else tells a line that only reads from one of a server that takes nothing. */
export const closedByUs = `coalesce(current_setting('posthorn.commits_hang', true), '') = 'on'`

const close = `select set_config('default_transaction_read_only', 'on', false), set_config('posthorn.commits_hang', 'on', false) where ${commitsHang}`

/** Since when, on the clock of `performance.now()`. */
const closedAt = new WeakMap<ClientBase, number>()

/** To be asked on each new line before anything else. */
export async function readOnlyWhileCommitsHang(client: ClientBase): Promise<void> {
  if ((await client.query(close)).rowCount !== 0) closedAt.set(client, performance.now())
}

/** It only reads, and has done so for long enough that a new one may be allowed more. */
export const mayBeOver = (client: ClientBase): boolean =>
  performance.now() - (closedAt.get(client) ?? Infinity) > limits.commitsLookMs

/** Surely nothing was done: it has the server's code for what was asked of a line that only reads. */
export class CommitsHang extends Error {
  override readonly name = 'CommitsHang'
  readonly code = readOnly
}

const readOnly = '25006'

/** What the server refuses on such a line is told by its reason. */
export const reasonOf = (client: ClientBase, error: unknown): unknown =>
  closedAt.has(client) && (error as { code?: unknown }).code === readOnly
    ? new CommitsHang(
        'commits wait for a synchronous standby: start it again, or take it out of synchronous_standby_names',
      )
    : error
