// What somebody else holds locked for long: an operator's psql, left open within a transaction. A statement for many messages would wait for one of them, with
// the rows of all others locked, for as long as a statement may take; so it waits for a lock no longer than `limits.lockMs`, and then goes on without them.
import { pause } from '../base/backoff.ts'
import { limits } from '../config.ts'
import { sql, sqlState, type Db } from './database.ts'
import type { MessageId, WorkspaceId } from '../domain/message.ts'

/** A lock did not come within the time of its connection (`PoolKind.lockMs`): the statement left nothing behind. */
export const isHeldUp = (error: unknown): error is Error => sqlState(error) === '55P03'

/** For `catch` of what is asked again anyway: that it was held up is no failure, and no answer either. */
export function noAnswerWhileHeld(error: unknown): undefined {
  if (!isHeldUp(error)) throw error
}

/** Of a statement that passes by what is held (`answer`): as the server says it where a lock did not come. */
class RowHeld extends Error {
  override readonly name = 'RowHeld'
  readonly code = '55P03'
}

/** Asks again for what was held, mostly for a moment; whoever asks waits no longer than for a lock, and nobody else does. */
export async function untilFree<Answer>(ask: () => Promise<Answer | 'held'>): Promise<Answer> {
  const patientUntil = performance.now() + limits.lockMs
  for (let delayMs = 20; ; delayMs *= 2) {
    const answer = await ask()
    if (answer !== 'held') return answer
    if (performance.now() > patientUntil) throw new RowHeld('somebody holds the row locked')
    await pause(delayMs)
  }
}

/** Stands for the answer to a row that is held: nothing has been done, and it may be asked for again. */
export class HeldUp {
  readonly error: Error
  constructor(error: Error) {
    this.error = error
  }
}

/** What its caller hears. */
export function unlessHeldUp<Answer>(answer: Answer | HeldUp): Answer {
  if (answer instanceof HeldUp) throw answer.error
  return answer
}

/** For a while behind a statement over this pool that something held up it is looked first. */
const lately = new WeakMap<Db, { readonly error: Error; readonly until: number }>()
const heldUp = (db: Db, error: Error): void =>
  void lately.set(db, { error, until: performance.now() + limits.heldLookMs })
/** By what it was held up. */
function latelyHeldUp(db: Db): Error | undefined {
  const last = lately.get(db)
  return last !== undefined && performance.now() < last.until ? last.error : undefined
}

/** For a statement that can itself pass by what is held (`past`), at a price that is none while nothing is. */
export async function pastHeldSince<Answer>(db: Db, ask: (past: boolean) => Promise<Answer>): Promise<Answer> {
  const past = latelyHeldUp(db) !== undefined
  try {
    return await ask(past)
  } catch (error) {
    if (past || !isHeldUp(error)) throw error
    heldUp(db, error)
    return ask(true)
  }
}

/** Which of these messages have a row in the queue, or a record where the workspace is named, that nobody could lock now. */
const held = sql('held', 'select held_1($1::uuid[], $2::uuid[]) id')

interface OfMessage {
  readonly id: MessageId
  /** Left out: its record does not matter. */
  readonly workspaceId?: WorkspaceId
}

/** Tells of rows whether somebody holds what they need. */
type Look<Row> = (rows: readonly Row[]) => Promise<(row: Row) => boolean>

export const heldMessages =
  <Row>(db: Db, messageOf: (row: Row) => OfMessage): Look<Row> =>
  async (rows) => {
    const messages = rows.map(messageOf)
    const values = [messages.map(({ workspaceId }) => workspaceId ?? null), messages.map(({ id }) => id)]
    const ids = new Set((await db.rows<{ id: string }>(held, values)).map(({ id }) => id))
    return (row) => ids.has(messageOf(row).id)
  }

/**
 * Makes of a statement for many rows one that nobody's lock on what one of them needs holds up. It costs nothing while nothing is held; and those that are come
 * back soon, so for a while behind them it is looked first. A whole table that somebody has is waited for, as long as a statement may take. `byHalves`: where the rows
 * are free, and something that only some of them write is held, it throws, and whoever batches them finds those by halves.
 */
export function pastHeld<Row, Answer>(
  db: Db,
  look: Look<Row>,
  ask: (rows: readonly Row[]) => Promise<readonly Answer[]>,
  { byHalves = false }: { readonly byHalves?: boolean } = {},
): (rows: readonly Row[]) => Promise<readonly (Answer | HeldUp)[]> {
  const once = async (rows: readonly Row[], found: () => void): Promise<readonly (Answer | HeldUp)[]> => {
    const by = latelyHeldUp(db)
    if (by === undefined) return ask(rows)
    const isHeld = await look(rows)
    found()
    const free = rows.filter((row) => !isHeld(row))
    if (free.length < rows.length) heldUp(db, by)
    const answers = free.length === 0 ? [] : await ask(free)
    const answerOf = new Map(free.map((row, index) => [row, answers[index] as Answer]))
    return rows.map((row) => (answerOf.has(row) ? (answerOf.get(row) as Answer) : new HeldUp(by)))
  }
  return async (rows) => {
    const patientUntil = performance.now() + limits.heldPatienceMs
    for (;;) {
      // Whoever has the whole table holds up the look itself.
      let looked = false
      try {
        return await once(rows, () => (looked = true))
      } catch (error) {
        if (!isHeldUp(error)) throw error
        if (byHalves && looked) throw error
        if (performance.now() > patientUntil) return rows.map(() => new HeldUp(error))
        heldUp(db, error)
      }
    }
  }
}
