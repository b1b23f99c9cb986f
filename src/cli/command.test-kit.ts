// A command as an operator runs it: a real process over a database, and how it ended.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect } from 'vitest'
import { freshDatabase, urlOf, type FreshDatabase } from '../../test/world/postgres.ts'
import type { EmbeddedConnection } from '../embedded/embedded.ts'
import { openDatabase } from '../store/database.ts'

export const command = fileURLToPath(new URL('../../bin/posthorn', import.meta.url))

/** Nothing of ours. */
export const bare: NodeJS.ProcessEnv = { PATH: process.env['PATH'], HOME: process.env['HOME'] }
/** What surrounds a command over this database. */
export const around = (connection: EmbeddedConnection, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...bare,
  DATABASE_URL: urlOf(connection),
  POSTHORN_SECRET_KEY: 's'.repeat(32),
  ...more,
})

export interface Ended {
  readonly status: number
  readonly out: string
  readonly err: string
}

export function run(env: NodeJS.ProcessEnv, args: readonly string[], input?: string): Promise<Ended> {
  return new Promise((resolve) => {
    const child = execFile(command, args, { env }, (error, out, err) => {
      resolve({ status: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, out, err })
    })
    if (input !== undefined) child.stdin?.end(input)
  })
}

/** Commands over a database of the file's own. */
export function commandsOver() {
  let database: FreshDatabase
  beforeAll(async () => {
    database = await freshDatabase()
  })
  afterAll(() => database.drop())

  const connection = () => database.connection
  const posthorn = (args: readonly string[], more: NodeJS.ProcessEnv = {}, input?: string): Promise<Ended> =>
    run(around(connection(), more), args, input)
  return {
    connection,
    posthorn,
    /** The JSON value that a command printed, and nothing beside it. */
    answer: async (...args: readonly string[]): Promise<Record<string, unknown>> => {
      const { status, out, err } = await posthorn([...args, '--json'])
      expect({ status, err }).toEqual({ status: 0, err: '' })
      return JSON.parse(out) as Record<string, unknown>
    },
    /** Past the commands; the test closes it. */
    open: () => openDatabase(connection(), { name: 'test', connectionsMax: 2, answerMs: 15_000 }),
  }
}
