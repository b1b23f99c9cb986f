// Connections to PostgreSQL and what their errors mean. Statements are named and prepared once per connection; every connection asks
// for synchronous_commit itself, so that a server with another default cannot weaken the promise (decisions A1).
import { Pool, type ClientBase, type PoolClient, type PoolConfig, type QueryConfig } from 'pg'
import { isNothingLeft } from '../base/nothing-left.ts'
import { inTurn, TurnTooLate, turns } from '../base/turns.ts'
import { limits } from '../config.ts'
import { Line, linesOf, serverOf, type Connection } from './connection.ts'
import { CommitsHang, commitsHang, mayBeOver, readOnlyWhileCommitsHang, reasonOf } from './hanging-commits.ts'
import { watchSilence } from './silent-lines.ts'

export interface PoolKind {
  /** Shown by PostgreSQL as application_name. */
  readonly name: string
  readonly connectionsMax: number
  /** Of one workspace at once; left out: all. For pools of which callers take what they like. */
  readonly shareMax?: number
  /** A statement that takes longer is given up, and its connection with it: its outcome is not known. */
  readonly answerMs: number
  /** A statement that has waited longer for one lock fails, and leaves nothing behind; left out: none does (held-rows.ts). */
  readonly lockMs?: number
  /** How long one waits for a connection; left out: as long as for an answer, and no longer than `limits.databaseWaitMs`. */
  readonly waitMs?: number
  /** Asked on each new connection before anything else; when it throws, the connection is given up. */
  readonly greet?: (ask: Ask) => Promise<void>
  /** Called behind each statement with its name and how many rows it answered: it notifies nobody itself (nudges.ts). */
  readonly nudge?: (statement: string, rows: number) => void
  /** Its commits wait for no disk: of what need not last. */
  readonly mayForget?: true
}

/** One statement on one connection. */
export type Ask = <Row extends object>(statement: Statement, values?: readonly unknown[]) => Promise<Row[]>

export interface Statement {
  readonly name: string
  readonly text: string
}

export interface Db {
  readonly rows: Ask
  /** The same over text that is used once: migrations, tests. */
  run<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>
  /** All that `work` does through the `Db` that it is given, or nothing. Inside another transaction it is part of that one. */
  transaction<T>(work: (tx: Db) => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** Names a statement once. Two variants are two statements. */
export const sql = (name: string, text: string): Statement => ({ name, text })

/** The pool's client options. Plans never depend on statistics: every statement here is a walk over indexes. */
export function clientOptions(connection: Connection, kind: PoolKind): PoolConfig {
  const server = [
    ...(kind.mayForget ? ['-c synchronous_commit=off'] : []),
    ...(kind.nudge === undefined ? [] : ['-c posthorn.nudged=on']),
    '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off',
    // A page is read in the order of its index: a bitmap would fetch all that lies behind the cursor, and sort it, for each page.
    '-c enable_bitmapscan=off',
    ...(kind.lockMs === undefined ? [] : [`-c lock_timeout=${kind.lockMs}`]),
    `-c statement_timeout=${kind.answerMs} -c idle_in_transaction_session_timeout=30000`,
  ]
  return { ...serverOf(connection, server), application_name: kind.name }
}

/** Plans live as long as their connection: none is kept that was made for a much smaller table (docs/decisions/0006). */
const connectionLifeSeconds = 60

export function openDatabase(connection: Connection, kind: PoolKind): Db {
  const { nudge, connectionsMax: most, shareMax: share } = kind
  const waitMs = kind.waitMs ?? Math.min(kind.answerMs, limits.databaseWaitMs)
  const turn = share === undefined ? undefined : turns({ most, share, waitMs })
  const byTurns = <T>(work: () => Promise<T>): Promise<T> => (turn === undefined ? work() : inTurn(turn, work))
  const lines = linesOf(connection)
  // Who gives up sooner needs nobody to look.
  const watch = kind.answerMs > limits.databaseAnswerMs ? watchSilence(connection) : undefined
  const pool = new Pool({
    ...clientOptions(connection, kind),
    Client: Line,
    stream: lines.stream,
    max: kind.connectionsMax,
    connectionTimeoutMillis: waitMs,
    query_timeout: kind.answerMs + 500,
    idleTimeoutMillis: 0,
    maxLifetimeSeconds: connectionLifeSeconds,
    // Not `verify`: while that works, nobody listens for the connection's end.
    // A rejection closes the connection, whatever its types say.
    ...hookOf(kind),
  })
  // An idle connection that breaks is replaced at the next use; without a listener it would end the process. So would one that breaks in somebody's
  // hands, of which the pool takes its own listener away: whoever waits for an answer, or asks next, is told.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => {
    client.on('error', () => undefined)
    listenForLetGo(client)
  })
  /** As `pool.query` does it: a connection on which something failed is not used again. */
  const onLine = async <T>(work: (client: ClientBase) => Promise<T>, mayRepeat = true): Promise<T> => {
    const client = await lineOf(pool)
    const heard = watch?.(client)
    try {
      const answer = await work(client)
      heard?.()
      client.release()
      return answer
    } catch (error) {
      heard?.()
      client.release(true)
      if (mayRepeat && error instanceof CommitsHang && mayBeOver(client)) return onLine(work, false)
      throw error
    }
  }
  let closed: Promise<void> | undefined
  return {
    rows: async <Row extends object>(statement: Statement, values: readonly unknown[] = []) => {
      // Without an answer, it may have been committed.
      let many = Infinity
      try {
        const rows = await byTurns(() => onLine((client) => asking(client)<Row>(statement, values)))
        many = rows.length
        return rows
      } finally {
        nudge?.(statement.name, many)
      }
    },
    run: <Row extends object>(text: string, values: readonly unknown[] = []) =>
      byTurns(() => onLine((client) => answered<Row>(client, { text, values: values as unknown[] }))),
    transaction: (work) => byTurns(() => transaction(pool, work)),
    close: () => (closed ??= lines.ended(pool.end())),
  }
}

/**
 * A UUIDv7 of this node's, dated by the database's clock: pages go by ids, and what is too much goes from the oldest on, whatever the clocks of the
 * nodes say. Within a transaction time goes on.
 */
export const dated = (id: string): string =>
  `(left(uuid_floor(app_now() + (clock_timestamp() - now()))::text, 13) || substr(${id}::uuid::text, 14))::uuid`

/**
 * Addresses and ids as they are compared in any case: an I and an i are one letter there, whatever the language of the database, and in Turkish they are two.
 * The other letters are made small as it makes them.
 */
export const inAnyCase = (text: string): string => `lower(lower(${text} collate "C") collate "default")`

const nowInDatabase = sql('database-now', 'select app_now() now')
/** By the database's own clock, which leases and everything that nodes share run by. */
export async function databaseNow(db: Db): Promise<Date> {
  const [row] = await db.rows<{ now: Date }>(nowInDatabase)
  if (row === undefined) throw new Error('the database did not say what time it is')
  return row.now
}

function hookOf({ greet, mayForget }: PoolKind): object {
  return {
    onConnect: async (client: ClientBase) => {
      if (mayForget === undefined) await readOnlyWhileCommitsHang(client)
      await greet?.(asking(client))
    },
  }
}

export const asking =
  (client: ClientBase): Ask =>
  <Row extends object>({ name, text }: Statement, values: readonly unknown[] = []) =>
    answered<Row>(client, { name, text, values: values as unknown[] })

/** Throws `LetGo` where its commit was let go, and `CommitsHang` where none would end. */
async function answered<Row extends object>(client: ClientBase, question: QueryConfig): Promise<Row[]> {
  const { rows } = await client.query<Row>(question).catch((error: unknown) => {
    throw reasonOf(client, error)
  })
  if (letGo.delete(client)) throw new LetGo('the commit was let go before its synchronous standby had it')
  return rows
}

/**
 * What a server says, in any language, where somebody ends the wait of a commit for its synchronous standby (`pg_cancel_backend`; a tool that ends what
 * takes long): it goes on as if all were well, and where that standby is promoted there was no commit. So to us nobody knows whether there was one.
 */
function listenForLetGo(client: ClientBase): void {
  client.on('notice', ({ routine }) => {
    if (routine === 'SyncRepWaitForLSN') letGo.add(client)
  })
}

/** Connections whose question is answered by such a commit. */
const letGo = new WeakSet<ClientBase>()

class LetGo extends Error {
  override readonly name = 'LetGo'
}

const prove = sql('prove-commit', `select pg_logical_emit_message(true, 'posthorn', ''::text) where not ${commitsHang}`)

/**
 * Resolves when the database has committed something, as durably as all that matters: that it answers questions proves nothing of the kind, nor
 * does that a row is seen, while a standby that was to have it is away. What was committed before is kept as durably then. Where a commit of ours hangs
 * already none is asked for.
 */
export async function commitSomething(db: Pick<Db, 'rows'>): Promise<void> {
  if ((await db.rows(prove)).length === 0) throw new DatabaseSlow('commits wait for a synchronous standby')
}

/** Work over a connection that is closed behind it. Nobody is there to try again: a machine that stalls for seconds is waited for. */
export async function over<T>(connection: Connection, work: (db: Db) => Promise<T>): Promise<T> {
  const [answerMs, waitMs] = [60_000, limits.databasePatientWaitMs]
  const db = openDatabase(connection, { name: 'posthorn start', connectionsMax: 1, answerMs, waitMs })
  try {
    return await work(db)
  } finally {
    await db.close()
  }
}

async function transaction<T>(pool: Pool, work: (tx: Db) => Promise<T>): Promise<T> {
  const client = await lineToWrite(pool)
  const tx: Db = {
    rows: asking(client),
    run: (text, values = []) => answered(client, { text, values: values as unknown[] }),
    transaction: (inner) => inner(tx),
    close: () => Promise.resolve(),
  }
  try {
    await client.query('begin')
    const result = await work(tx)
    await answered(client, { text: 'commit' })
    client.release()
    return result
  } catch (error) {
    // Of a line that gave no answer none is awaited a second time; the server rolls back when it is gone.
    if (sqlState(error) === undefined && isDatabaseAway(error)) client.release(true)
    // A connection whose rollback fails is not used again.
    else
      await client.query('rollback').then(
        () => client.release(),
        () => client.release(true),
      )
    throw error
  }
}

/** Whatever keeps a line from being opened (a certificate that has run out, say), nothing was asked over it. */
const lineOf = (pool: Pool): Promise<PoolClient> =>
  pool.connect().catch((error: unknown) => {
    if (error instanceof Error && sqlState(error) === undefined) withoutLine.add(error)
    throw error
  })
const withoutLine = new WeakSet<Error>()

async function lineToWrite(pool: Pool): Promise<PoolClient> {
  const client = await lineOf(pool)
  if (!mayBeOver(client)) return client
  client.release(true)
  return lineOf(pool)
}

/** What the server said. EPIPE and EROFS have five letters too: an error of this system names its call, and is no word of the server's. */
export const sqlState = (error: unknown): string | undefined => {
  const code = error instanceof Error && !('syscall' in error) ? (error as { code?: unknown }).code : undefined
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

/**
 * True when the server itself said that the statement failed, so that its transaction surely left nothing behind. A lost connection, a
 * time-out or a server that is going down says nothing of the kind.
 */
export function surelyAborted(error: unknown): boolean {
  const state = sqlState(error)
  return state !== undefined && !state.startsWith('08') && !state.startsWith('57P') && state !== timeIsUp
}

/**
 * True when a statement for many rows left nothing behind and one of them may be why, so that halves are worth a try. A server that lets nobody in, or has
 * no room, or only reads, refuses every half alike, and each costs it one more login.
 */
export function mayBlameRows(error: unknown): boolean {
  const state = sqlState(error) ?? ''
  return surelyAborted(error) && !/^(?:28|3D|531|533|58|25006)/.test(state) && state !== '55000' && !isOutOfIds(error)
}

/** Transaction ids have run out until somebody vacuums. A row that is too large has the same code (54000), so the place tells. */
const isOutOfIds = (error: unknown): boolean =>
  ['GetNewTransactionId', 'GetNewMultiXactId'].includes((error as { routine?: string }).routine ?? '')

/** A session that transaction_timeout has ended, perhaps on the way back from its commit. */
const timeIsUp = '25P04'

/** A deadlock or a serialization failure: the same batch again, whole. */
const mayRepeat = (error: unknown): boolean => ['40P01', '40001'].includes(sqlState(error) ?? '')

/**
 * True when the database cannot be reached, lets nobody in, is too slow, full or going down: callers are told to come back. A login that is refused
 * (28, 3D) is no answer to what was asked: behind a failover, or while a password is changed, it may be let in a moment later.
 */
export function isDatabaseAway(error: unknown): boolean {
  const state = sqlState(error)
  if (state !== undefined)
    return (
      ['08', '28', '3D', '53', '55', '57', '58'].includes(state.slice(0, 2)) ||
      mayRepeat(error) ||
      isOutOfIds(error) ||
      ['25006', timeIsUp].includes(state)
    )
  if (!(error instanceof Error)) return false
  const code = (error as { code?: unknown }).code
  return (
    ['BatchFull', 'AdmissionTooLate'].includes(error.name) ||
    withoutLine.has(error) ||
    error instanceof DatabaseSlow ||
    error instanceof LetGo ||
    error instanceof TurnTooLate ||
    (typeof code === 'string' && /^E(CONN|PIPE|HOST|NET|ADDR|NOENT|ACCES|TIMEDOUT|NOTFOUND|AI_AGAIN)/.test(code)) ||
    isNothingLeft(error) ||
    /connection terminated|connection timeout|query read timeout|timeout exceeded when trying to connect|client has encountered a connection error|not queryable|client was closed/i.test(
      error.message,
    )
  )
}

/** The caller's patience is over; what it asked for may still happen. */
class DatabaseSlow extends Error {
  override readonly name = 'DatabaseSlow'
}

/** Nothing came back within the time, be it to open a line. */
export const isNoAnswer = (error: unknown): boolean =>
  error instanceof DatabaseSlow ||
  (error instanceof Error &&
    /query read timeout|connection timeout|timeout exceeded when trying to connect/i.test(error.message))

/** Gives up waiting, not the work itself. */
export async function answeredWithin<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DatabaseSlow('the database did not answer in time')), ms)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

/** Runs a statement again after a deadlock or serialization failure, a few times. */
export async function despiteDeadlocks<T>(run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run()
    } catch (error) {
      if (attempt === 5 || !mayRepeat(error)) throw error
    }
  }
}
