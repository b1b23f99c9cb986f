// A database whose statements a test sees, and may hold up, or lose before they are asked or after their answer.
import type { Db } from './database.ts'

interface Watch {
  /** What it throws takes the statement's place. */
  readonly asked?: (name: string, values: readonly unknown[]) => unknown
  /** Whoever asked hears of the answer after this, or what it throws in its place. */
  readonly answered?: (name: string, rows: readonly object[]) => unknown
}

/** Not what is asked within a transaction. */
export const watched = (db: Db, { asked, answered }: Watch): Db => ({
  ...db,
  rows: async (statement, values = []) => {
    if (asked !== undefined) await asked(statement.name, values)
    const rows = await db.rows<never>(statement, values)
    if (answered !== undefined) await answered(statement.name, rows)
    return rows
  },
})
